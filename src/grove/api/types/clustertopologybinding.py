"""ClusterTopologyBinding: the names of a cluster's topology domains, and the node labels behind them."""

from grove.api.types.meta import Condition, ObjectMeta, Wire


class TopologyLevel(Wire):
    domain: str = ""
    key: str = ""


class SchedulerTopologyBinding(Wire):
    scheduler_name: str = ""
    topology_reference: str = ""


class TopologyBindingSpec(Wire):
    # Ordered from broad to narrow.
    levels: tuple[TopologyLevel, ...] = ()
    scheduler_topology_bindings: tuple[SchedulerTopologyBinding, ...] = ()


class SchedulerTopologyStatus(Wire):
    scheduler_name: str
    topology_reference: str
    in_sync: bool
    scheduler_backend_topology_observed_generation: int | None = None
    message: str | None = None


class TopologyBindingStatus(Wire):
    observed_generation: int | None = None
    conditions: tuple[Condition, ...] = ()
    scheduler_topology_statuses: tuple[SchedulerTopologyStatus, ...] = ()


class ClusterTopologyBinding(Wire):
    metadata: ObjectMeta
    spec: TopologyBindingSpec = TopologyBindingSpec()
    status: TopologyBindingStatus = TopologyBindingStatus()

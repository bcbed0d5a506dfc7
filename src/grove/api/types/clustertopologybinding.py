"""ClusterTopologyBinding: the topology domains of a cluster and their node labels."""

from grove.api.types.meta import Condition, ObjectMeta, WireStruct


class TopologyLevel(WireStruct):
    domain: str = ""
    key: str = ""


class SchedulerTopologyBinding(WireStruct):
    scheduler_name: str = ""
    topology_reference: str = ""


class TopologyBindingSpec(WireStruct):
    # Ordered from broad to narrow.
    levels: tuple[TopologyLevel, ...] = ()
    scheduler_topology_bindings: tuple[SchedulerTopologyBinding, ...] = ()


class SchedulerTopologyStatus(WireStruct):
    scheduler_name: str
    topology_reference: str
    in_sync: bool
    scheduler_backend_topology_observed_generation: int | None = None
    message: str | None = None


class TopologyBindingStatus(WireStruct):
    observed_generation: int | None = None
    conditions: tuple[Condition, ...] = ()
    scheduler_topology_statuses: tuple[SchedulerTopologyStatus, ...] = ()


class ClusterTopologyBinding(WireStruct):
    metadata: ObjectMeta
    spec: TopologyBindingSpec = TopologyBindingSpec()
    status: TopologyBindingStatus = TopologyBindingStatus()

"""PodGang: pods that a scheduler places together, and the minimum of each pod group."""

from enum import StrEnum

from grove.api.types.meta import Condition, NamespacedName, ObjectMeta, WireStruct


class GangPhase(StrEnum):
    PENDING = "Pending"
    STARTING = "Starting"
    RUNNING = "Running"
    FAILED = "Failed"
    SUCCEEDED = "Succeeded"


class GangPackConstraint(WireStruct):
    """A pack constraint with node label keys, not domain names."""

    required: str | None = None
    preferred: str | None = None


class GangTopologyConstraint(WireStruct):
    pack_constraint: GangPackConstraint | None = None


class PodGroup(WireStruct):
    name: str
    pod_references: tuple[NamespacedName, ...] = ()
    min_replicas: int = 0
    topology_constraint: GangTopologyConstraint | None = None


class TopologyGroupConfig(WireStruct):
    name: str
    pod_group_names: tuple[str, ...] = ()
    topology_constraint: GangTopologyConstraint | None = None


class PodGangSpec(WireStruct):
    # The JSON key is "podgroups", with a lowercase g.
    podgroups: tuple[PodGroup, ...] = ()
    topology_constraint: GangTopologyConstraint | None = None
    topology_constraint_group_configs: tuple[TopologyGroupConfig, ...] = ()
    priority_class_name: str | None = None
    reuse_reservation_ref: NamespacedName | None = None


class PodGangStatus(WireStruct):
    phase: str | None = None
    conditions: tuple[Condition, ...] = ()
    placement_score: float | None = None
    # The incarnation in which the gang was scheduled. It stays when pods are lost, until the next incarnation.
    placed_incarnation: str | None = None


class PodGang(WireStruct):
    metadata: ObjectMeta
    spec: PodGangSpec = PodGangSpec()
    status: PodGangStatus = PodGangStatus()

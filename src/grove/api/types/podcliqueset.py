"""PodCliqueSet: the object that a user writes, and its status."""

from datetime import datetime
from enum import StrEnum

from grove.api.types.meta import Condition, JsonObject, LastError, ObjectMeta, WireStruct
from grove.api.types.podclique import AutoScalingConfig, PodCliqueSpec


class StartupType(StrEnum):
    """The order in which the cliques of a set start.

    Example:
        pod_clique_set("chat", [clique("router", image="example/router:1.0")], startup=StartupType.IN_ORDER)
    """

    ANY_ORDER = "CliqueStartupTypeAnyOrder"
    IN_ORDER = "CliqueStartupTypeInOrder"
    EXPLICIT = "CliqueStartupTypeExplicit"


class UpdateType(StrEnum):
    """The way in which an update replaces pods: by itself, or when a user deletes them.

    Example:
        pod_clique_set("chat", [clique("router", image="example/router:1.0")], update=UpdateType.ON_DELETE)
    """

    ROLLING_RECREATE = "RollingRecreate"
    ON_DELETE = "OnDelete"


class WorkloadType(StrEnum):
    INFERENCE = "Inference"
    TRAINING = "Training"


class SharingScope(StrEnum):
    ALL_REPLICAS = "AllReplicas"
    PER_REPLICA = "PerReplica"


class SetPhase(StrEnum):
    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class UpdateStrategy(WireStruct):
    type: str = UpdateType.ROLLING_RECREATE


class TrainingSpec(WireStruct):
    """The limits of a training set.

    Example:
        pod_clique_set("job", [clique("worker", image="example/train:1.0")], training=TrainingSpec(max_restarts=3))
    """

    max_runtime: str | None = None
    max_restarts: int | None = None


class HeadlessServiceConfig(WireStruct):
    publish_not_ready_addresses: bool = True


class PackConstraint(WireStruct):
    """A pack constraint with the names of topology domains in a ClusterTopologyBinding.

    Example:
        PackConstraint(required="rack")
    """

    required: str = ""
    preferred: str = ""


class TopologyConstraint(WireStruct):
    """A topology constraint: the pods of a set, group or clique are packed into one domain.

    Example:
        TopologyConstraint(topology_name="grove-topology", pack=PackConstraint(required="rack"))
    """

    topology_name: str = ""
    pack: PackConstraint | None = None
    pack_domain: str = ""

    @property
    def required_domain(self) -> str:
        """Return `pack.required`, or its deprecated alias `packDomain`."""
        return (self.pack.required if self.pack else "") or self.pack_domain

    @property
    def preferred_domain(self) -> str:
        return self.pack.preferred if self.pack else ""


class ResourceClaimTemplate(WireStruct):
    name: str = ""
    template_spec: JsonObject = {}


class SetSharingFilter(WireStruct):
    child_clique_names: tuple[str, ...] = ()
    child_scaling_group_names: tuple[str, ...] = ()


class SetResourceSharing(WireStruct):
    name: str = ""
    namespace: str = ""
    scope: str = ""
    filter: SetSharingFilter | None = None


class GroupSharingFilter(WireStruct):
    child_clique_names: tuple[str, ...] = ()


class GroupResourceSharing(WireStruct):
    name: str = ""
    namespace: str = ""
    scope: str = ""
    filter: GroupSharingFilter | None = None


class CliqueResourceSharing(WireStruct):
    name: str = ""
    namespace: str = ""
    scope: str = ""


class CliqueTemplate(WireStruct):
    """A clique of a set: pods of one role.

    Example:
        router: CliqueTemplate = clique("router", image="example/router:1.0")
        print(router.spec.replicas)
    """

    name: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    topology_constraint: TopologyConstraint | None = None
    resource_sharing: tuple[CliqueResourceSharing, ...] = ()
    spec: PodCliqueSpec = PodCliqueSpec()

    @property
    def role_name(self) -> str:
        """Return the role name; without one it is the name of the clique. Admission may not have set it."""
        return self.spec.role_name or self.name


class GroupConfig(WireStruct):
    """An item of `podCliqueScalingGroups`: cliques that scale together.

    Example:
        decode: GroupConfig = group("decode", ["leader", "worker"])
        print(decode.clique_names)
    """

    name: str = ""
    clique_names: tuple[str, ...] = ()
    annotations: dict[str, str] = {}
    replicas: int = 1
    min_available: int = 1
    termination_delay: str | None = None
    scale_config: AutoScalingConfig | None = None
    resource_sharing: tuple[GroupResourceSharing, ...] = ()
    topology_constraint: TopologyConstraint | None = None


class SetTemplate(WireStruct):
    cliques: tuple[CliqueTemplate, ...] = ()
    clique_startup_type: str = StartupType.ANY_ORDER
    priority_class_name: str = ""
    headless_service_config: HeadlessServiceConfig | None = None
    topology_constraint: TopologyConstraint | None = None
    termination_delay: str | None = None
    resource_claim_templates: tuple[ResourceClaimTemplate, ...] = ()
    resource_sharing: tuple[SetResourceSharing, ...] = ()
    pod_clique_scaling_groups: tuple[GroupConfig, ...] = ()


class PodCliqueSetSpec(WireStruct):
    replicas: int = 0
    workload_type: str = WorkloadType.INFERENCE
    training_spec: TrainingSpec | None = None
    update_strategy: UpdateStrategy | None = None
    template: SetTemplate = SetTemplate()


class GangStatus(WireStruct):
    """A PodGang that is not Running yet, in the status of its set."""

    name: str
    phase: str
    conditions: tuple[Condition, ...] = ()


class ReplicaUpdateProgress(WireStruct):
    replica_index: int
    update_started_at: datetime | None = None
    update_ended_at: datetime | None = None


class SetUpdateProgress(WireStruct):
    """The counts that printer columns and existing tools read; derived from `SetRollingUpdateProgress`."""

    update_started_at: datetime | None = None
    update_ended_at: datetime | None = None
    updated_pod_cliques_count: int = 0
    total_pod_cliques_count: int = 0
    updated_pod_clique_scaling_groups_count: int = 0
    total_pod_clique_scaling_groups_count: int = 0
    currently_updating: tuple[ReplicaUpdateProgress, ...] = ()


class CurrentlyUpdating(WireStruct):
    replica_index: int
    update_started_at: datetime
    # None: an older version started the update of this replica and did not store it.
    was_available: bool | None = None


class SetRollingUpdateProgress(WireStruct):
    update_started_at: datetime | None = None
    update_ended_at: datetime | None = None
    currently_updating: CurrentlyUpdating | None = None
    updated_pod_cliques: tuple[str, ...] = ()
    updated_pod_clique_scaling_groups: tuple[str, ...] = ()


class ReplicaRestarts(WireStruct):
    """The number of restarts of one replica of a training set."""

    replica_index: int
    count: int


class PodCliqueSetStatus(WireStruct):
    observed_generation: int | None = None
    conditions: tuple[Condition, ...] = ()
    last_errors: tuple[LastError, ...] = ()
    replicas: int = 0
    updated_replicas: int = 0
    available_replicas: int = 0
    hpa_pod_selector: str | None = None
    pod_gang_statuses: tuple[GangStatus, ...] = ()
    current_generation_hash: str | None = None
    update_progress: SetUpdateProgress | None = None
    rolling_update_progress: SetRollingUpdateProgress | None = None
    phase: str | None = None
    restart_count: int | None = None
    # The parts of `restart_count`. The operator recreates a replica that has more restarts than incarnations.
    replica_restarts: tuple[ReplicaRestarts, ...] | None = None
    start_time: datetime | None = None


class PodCliqueSet(WireStruct):
    """A set: what the user requests (`spec`), and what the operator reports (`status`).

    Example:
        found: PodCliqueSet = client.get("chat")
        print(found.metadata.name, found.spec.replicas, found.status.available_replicas)
    """

    metadata: ObjectMeta
    spec: PodCliqueSetSpec = PodCliqueSetSpec()
    status: PodCliqueSetStatus = PodCliqueSetStatus()

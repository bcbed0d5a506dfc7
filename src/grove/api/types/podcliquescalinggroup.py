"""PodCliqueScalingGroup: cliques of one set replica that scale together."""

from datetime import datetime

from grove.api.types.meta import Condition, LastError, ObjectMeta, WireStruct


class ScalingGroupSpec(WireStruct):
    replicas: int = 1
    min_available: int = 1
    clique_names: tuple[str, ...] = ()


class ReplicasSelectedToUpdate(WireStruct):
    """The available group replicas that an update replaces.

    `completed` were selected before `current`. `ready_before` is the number of available replicas with the new template
    when `current` was selected.
    """

    current: int
    completed: tuple[int, ...] = ()
    ready_before: int = 0


class GroupUpdateProgress(WireStruct):
    update_started_at: datetime
    pod_clique_set_generation_hash: str
    update_ended_at: datetime | None = None
    updated_pod_cliques_count: int = 0
    total_pod_cliques_count: int = 0
    ready_replica_indices_selected_to_update: ReplicasSelectedToUpdate | None = None


class GroupRollingUpdateProgress(WireStruct):
    update_started_at: datetime | None = None
    update_ended_at: datetime | None = None
    ready_replica_indices_selected_to_update: ReplicasSelectedToUpdate | None = None


class ScalingGroupStatus(WireStruct):
    replicas: int = 0
    scheduled_replicas: int = 0
    available_replicas: int = 0
    updated_replicas: int = 0
    selector: str | None = None
    observed_generation: int | None = None
    last_errors: tuple[LastError, ...] = ()
    conditions: tuple[Condition, ...] = ()
    current_pod_clique_set_generation_hash: str | None = None
    update_progress: GroupUpdateProgress | None = None
    rolling_update_progress: GroupRollingUpdateProgress | None = None


class PodCliqueScalingGroup(WireStruct):
    metadata: ObjectMeta
    spec: ScalingGroupSpec = ScalingGroupSpec()
    status: ScalingGroupStatus = ScalingGroupStatus()

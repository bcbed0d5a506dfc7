"""PodClique: pods of one role, and how many of them must be available."""

from datetime import datetime

from grove.api.types.meta import Condition, JsonObject, LastError, ObjectMeta, WireStruct


class AutoScalingConfig(WireStruct):
    min_replicas: int | None = None
    max_replicas: int = 0
    metrics: tuple[JsonObject, ...] = ()
    behavior: JsonObject | None = None


class PodCliqueSpec(WireStruct):
    role_name: str = ""
    # Untyped, so that no unknown field is lost.
    pod_spec: JsonObject = {}
    replicas: int = 0
    min_available: int | None = None
    starts_after: tuple[str, ...] = ()
    auto_scaling_config: AutoScalingConfig | None = None


class PodsSelectedToUpdate(WireStruct):
    """The ready pods that an update replaces.

    `completed` were selected before `current`. `ready_before` is the number of ready pods with the new template when
    `current` was selected.
    """

    current: str
    completed: tuple[str, ...] = ()
    ready_before: int = 0


class CliqueUpdateProgress(WireStruct):
    pod_clique_set_generation_hash: str
    pod_template_hash: str
    update_started_at: datetime | None = None
    update_ended_at: datetime | None = None
    ready_pods_selected_to_update: PodsSelectedToUpdate | None = None


class CliqueRollingUpdateProgress(WireStruct):
    update_started_at: datetime | None = None
    update_ended_at: datetime | None = None
    ready_pods_selected_to_update: PodsSelectedToUpdate | None = None


class PodFailure(WireStruct):
    """The first failed pod of a training clique in breach. Stored in the status, because the pod may be deleted."""

    pod: str
    container: str = ""
    exit_code: int | None = None
    reason: str = ""
    message: str = ""
    finished_at: datetime | None = None


class PodCliqueStatus(WireStruct):
    observed_generation: int | None = None
    last_errors: tuple[LastError, ...] = ()
    replicas: int = 0
    ready_replicas: int = 0
    updated_replicas: int = 0
    schedule_gated_replicas: int = 0
    scheduled_replicas: int = 0
    # Once available, true until this object is deleted (spec/gang-termination.md).
    was_available: bool = False
    succeeded_indices: tuple[int, ...] = ()
    # Only in training sets: indices that failed too often and are not retried.
    failed_indices: tuple[int, ...] = ()
    # Only in training sets, while the clique is in breach.
    first_failure: PodFailure | None = None
    hpa_pod_selector: str | None = None
    conditions: tuple[Condition, ...] = ()
    current_pod_clique_set_generation_hash: str | None = None
    current_pod_template_hash: str | None = None
    update_progress: CliqueUpdateProgress | None = None
    rolling_update_progress: CliqueRollingUpdateProgress | None = None


class PodClique(WireStruct):
    metadata: ObjectMeta
    spec: PodCliqueSpec = PodCliqueSpec()
    status: PodCliqueStatus = PodCliqueStatus()

    @property
    def min_available(self) -> int:
        """Return minAvailable; a clique without one needs all of its pods."""
        return self.spec.replicas if self.spec.min_available is None else self.spec.min_available


class AwaitedSpec(WireStruct):
    replicas: int = 0


class AwaitedStatus(WireStruct):
    ready_replicas: int = 0
    succeeded_indices: tuple[int, ...] = ()


class AwaitedClique(WireStruct):
    """A PodClique with only the fields that decide whether it has started: what an init container reads."""

    metadata: ObjectMeta
    spec: AwaitedSpec = AwaitedSpec()
    status: AwaitedStatus = AwaitedStatus()

    @property
    def started_count(self) -> int:
        """Return how many of its pods are ready, or succeeded."""
        return self.status.ready_replicas + len(self.status.succeeded_indices)

    def has_started(self, count: int) -> bool:
        """Return whether enough pods have started. A clique that is scaled to zero holds up no other."""
        return self.spec.replicas == 0 or self.started_count >= count

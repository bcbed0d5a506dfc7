"""PodClique: pods of one role, and how many of them must live."""

from datetime import datetime

from grove.api.types.meta import Condition, JsonObject, LastError, ObjectMeta, WireStruct


class AutoScalingConfig(WireStruct):
    min_replicas: int | None = None
    max_replicas: int = 0
    metrics: tuple[JsonObject, ...] = ()


class PodCliqueSpec(WireStruct):
    role_name: str = ""
    # Exactly what the user wrote: we never lose a field that we do not know.
    pod_spec: JsonObject = {}
    replicas: int = 0
    min_available: int | None = None
    starts_after: tuple[str, ...] = ()
    auto_scaling_config: AutoScalingConfig | None = None


class PodsSelectedToUpdate(WireStruct):
    """`completed` were taken before `current`; when that was taken, so many of the new template were ready."""

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
    """The first pod that broke a training clique. Stored, because the pod may be gone when somebody asks."""

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
    # Sticky: once available, true for the rest of this object's life (spec/gang-termination.md).
    was_available: bool = False
    succeeded_indices: tuple[int, ...] = ()
    # Of a training set: indices that failed again and again and are not tried any more.
    failed_indices: tuple[int, ...] = ()
    # Of a training set, while it is in breach.
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
        """The minimum; an object written without one needs all of its pods."""
        return self.spec.replicas if self.spec.min_available is None else self.spec.min_available

"""Pod, with only the fields that the operator needs, so that thousands of pods stay small in memory."""

from datetime import datetime, timedelta

from grove.api.labels import GATE
from grove.api.types.meta import Condition, ObjectMeta, WireStruct, find_condition, is_condition_true


class SchedulingGate(WireStruct):
    name: str


class SchedulingGroup(WireStruct):
    """The PodGroup of kube-scheduler that a pod belongs to; immutable."""

    pod_group_name: str = ""


class PodSpec(WireStruct):
    node_name: str = ""
    node_selector: dict[str, str] = {}
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    scheduling_group: SchedulingGroup | None = None


class TerminatedState(WireStruct):
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None


class WaitingState(WireStruct):
    reason: str = ""
    message: str = ""


class RunningState(WireStruct):
    started_at: datetime | None = None


class ContainerState(WireStruct):
    waiting: WaitingState | None = None
    running: RunningState | None = None
    terminated: TerminatedState | None = None


class ContainerStatus(WireStruct):
    name: str = ""
    ready: bool = False
    started: bool | None = None
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class PodStatus(WireStruct):
    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(WireStruct):
    metadata: ObjectMeta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def is_ready(self) -> bool:
        """Return whether the pod is ready and not terminating.

        A terminating pod may still report Ready; counting it would hide a breach.
        """
        return not self.metadata.is_terminating and is_condition_true(self.status.conditions, "Ready")

    @property
    def is_scheduled(self) -> bool:
        return bool(self.spec.node_name) or is_condition_true(self.status.conditions, "PodScheduled")

    @property
    def group_name(self) -> str:
        """Return the name of its PodGroup in kube-scheduler, or ""."""
        return self.spec.scheduling_group.pod_group_name if self.spec.scheduling_group else ""

    @property
    def is_gated(self) -> bool:
        """Return whether Grove's scheduling gate holds the pod; gates of others do not count."""
        return any(gate.name == GATE for gate in self.spec.scheduling_gates)

    @property
    def is_succeeded(self) -> bool:
        return self.status.phase == "Succeeded"

    @property
    def is_failed(self) -> bool:
        return self.status.phase == "Failed"

    @property
    def is_active(self) -> bool:
        """Return whether the pod is neither terminating nor ended, so that it occupies its index."""
        return not (self.metadata.is_terminating or self.is_succeeded or self.is_failed)


def is_finishing(pod: Pod) -> bool:
    """Return whether the pod runs, at least one container has ended, and all of those had exit code 0."""
    ended = [status.state.terminated for status in pod.status.container_statuses if status.state.terminated]
    return pod.status.phase == "Running" and bool(ended) and all(one.exit_code == 0 for one in ended)


def has_succeeded_before_deletion(pod: Pod) -> bool:
    """Return whether the pod succeeded before its deletion was requested. Exit code 0 after that is no success."""
    if not pod.is_succeeded:
        return False
    deletion_timestamp = pod.metadata.deletion_timestamp
    if deletion_timestamp is None:
        return True
    requested_at = deletion_timestamp - timedelta(seconds=pod.metadata.deletion_grace_period_seconds or 0)
    finished_at = pod_finished_at(pod)
    return finished_at is not None and finished_at < requested_at


def pod_started_at(pod: Pod) -> datetime | None:
    """Return the time at which all containers of the pod had started, or None if one has not started yet."""
    states = [status.state for status in pod.status.container_statuses]
    started = [(s.running and s.running.started_at) or (s.terminated and s.terminated.started_at) for s in states]
    found = [instant for instant in started if instant]
    return max(found) if found and len(found) == len(states) else None


def first_started_at(pod: Pod) -> datetime | None:
    """Return the earliest start of a regular container that the status still shows, or None."""
    states = [state for status in pod.status.container_statuses for state in (status.state, status.last_state)]
    runs = [run for state in states for run in (state.running, state.terminated) if run is not None]
    return min((run.started_at for run in runs if run.started_at is not None), default=None)


def count_failed_runs(pod: Pod) -> int:
    """Return the failed runs of the container that failed most often in place.

    Under `restartPolicy: OnFailure` a container is restarted only after it failed, so every restart was a failed run.
    """
    return max(map(_count_failed_runs, pod.status.container_statuses), default=0)


def _count_failed_runs(status: ContainerStatus) -> int:
    last = status.state.terminated or status.last_state.terminated
    if last is None or last.exit_code == 0:
        return 0
    return status.restart_count + (status.state.running is None)


def pod_finished_at(pod: Pod) -> datetime | None:
    """Return when its last container ended, or None if one has not ended."""
    ended = [status.state.terminated for status in pod.status.container_statuses]
    found = [one.finished_at for one in ended if one and one.finished_at]
    return max(found) if found and len(found) == len(ended) else None


def has_lost_readiness(pod: Pod) -> bool:
    """Return whether the pod was ready and no longer is: its Ready condition changed after its containers started."""
    ready = find_condition(pod.status.conditions, "Ready")
    started_at = pod_started_at(pod)
    if ready is None or ready.status == "True" or ready.last_transition_time is None or started_at is None:
        return False
    return ready.last_transition_time > started_at + timedelta(seconds=1)

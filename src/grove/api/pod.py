"""The slim view of a pod: what decisions need, so that thousands are cheap. The rest of a pod is never decoded."""

from datetime import datetime

from grove.api.labels import GATE
from grove.api.meta import Condition, ObjectMeta, Wire, is_condition_true


class SchedulingGate(Wire):
    name: str


class PodSpec(Wire):
    node_name: str = ""
    scheduling_gates: tuple[SchedulingGate, ...] = ()


class TerminatedState(Wire):
    exit_code: int = 0
    reason: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None


class WaitingState(Wire):
    reason: str = ""
    message: str = ""


class RunningState(Wire):
    started_at: datetime | None = None


class ContainerState(Wire):
    waiting: WaitingState | None = None
    running: RunningState | None = None
    terminated: TerminatedState | None = None


class ContainerStatus(Wire):
    name: str = ""
    ready: bool = False
    started: bool | None = None
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class PodStatus(Wire):
    phase: str = "Pending"
    reason: str = ""
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(Wire):
    metadata: ObjectMeta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def is_ready(self) -> bool:
        """Ready and staying: a leaving pod may still report Ready, counting it would hide a breach."""
        return not self.metadata.is_leaving and is_condition_true(self.status.conditions, "Ready")

    @property
    def is_scheduled(self) -> bool:
        return bool(self.spec.node_name) or is_condition_true(self.status.conditions, "PodScheduled")

    @property
    def is_behind_our_gate(self) -> bool:
        return any(gate.name == GATE for gate in self.spec.scheduling_gates)

    @property
    def is_succeeded(self) -> bool:
        return self.status.phase == "Succeeded"

    @property
    def is_failed(self) -> bool:
        return self.status.phase == "Failed"

    @property
    def is_active(self) -> bool:
        """Neither leaving nor ended: this pod holds its index."""
        return not (self.metadata.is_leaving or self.is_succeeded or self.is_failed)

"""Describe containers that fail: which one, and how it ended."""

from collections.abc import Iterator

from grove.api.types.pod import ContainerStatus, Pod
from grove.planner.actions import PlanStruct

_STARTING = ("", "ContainerCreating", "PodInitializing")
_CRASH_LOOP = "CrashLoopBackOff"
_CONFIGURATION = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError")

# The reason of the process kubelet for a program that is not installed.
NOT_ON_THIS_MACHINE = "ErrImageNotSupported"


class ContainerTrouble(PlanStruct):
    """A container that cannot start, or that ended with an error."""

    container: str
    # Of the waiting state: `CrashLoopBackOff`, `ImagePullBackOff`; "" if it ended and was not restarted.
    reason: str = ""
    message: str = ""
    exit_code: int | None = None
    # `OOMKilled`; "" for a plain error.
    ended_because: str = ""
    restarts: int = 0

    @property
    def is_crash(self) -> bool:
        return self.exit_code is not None

    def __str__(self) -> str:
        """Return `container main: CrashLoopBackOff, exit code 3`."""
        if not self.reason:
            return f"container {self.container} ended with exit code {self.exit_code}{self.why_ended}"
        code = f", exit code {self.exit_code}{self.why_ended}" if self.exit_code is not None else ""
        return f"container {self.container}: {self.reason}{code}{f': {self.message}' if self.message else ''}"

    @property
    def why_ended(self) -> str:
        return f" ({self.ended_because})" if self.ended_because else ""

    @property
    def advice(self) -> str:
        """Return what a user can do about a container that cannot start."""
        if self.reason == NOT_ON_THIS_MACHINE:
            return "correct the command in the template, or install the program"
        if "Image" in self.reason:
            return "correct the image in the template, or the credentials to pull it"
        if self.reason in _CONFIGURATION:
            return "create what is missing, or correct the template"
        return "correct the template"


def find_trouble(pod: Pod) -> ContainerTrouble | None:
    """Return the first container of the pod that fails, init containers first."""
    return next(_troubles(pod), None)


def _troubles(pod: Pod) -> Iterator[ContainerTrouble]:
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        if trouble := container_trouble(status):
            yield trouble


def container_trouble(status: ContainerStatus) -> ContainerTrouble | None:
    """Return the failure that a container's status reports, or None."""
    waiting, ended = status.state.waiting, status.state.terminated
    if waiting is not None and waiting.reason not in _STARTING:
        before = status.last_state.terminated
        return ContainerTrouble(
            container=status.name,
            reason=waiting.reason,
            # The kubelet repeats the names of container and pod, and the pause.
            message="" if waiting.reason == _CRASH_LOOP else waiting.message,
            exit_code=None if before is None else before.exit_code,
            ended_because=_reason_of_end(before.reason if before else ""),
            restarts=status.restart_count,
        )
    if ended is not None and ended.exit_code:
        return ContainerTrouble(
            container=status.name,
            exit_code=ended.exit_code,
            ended_because=_reason_of_end(ended.reason),
            restarts=status.restart_count,
        )
    return None


def find_recent_crash(pod: Pod) -> ContainerTrouble | None:
    """Return the last crash of a container that runs again: its readiness may be short-lived."""
    for status in pod.status.container_statuses:
        before = status.last_state.terminated
        if before is not None and before.exit_code and status.restart_count:
            return ContainerTrouble(
                container=status.name,
                exit_code=before.exit_code,
                ended_because=_reason_of_end(before.reason),
                restarts=status.restart_count,
            )
    return None


def _reason_of_end(reason: str) -> str:
    return "" if reason in ("", "Error", "Completed") else reason

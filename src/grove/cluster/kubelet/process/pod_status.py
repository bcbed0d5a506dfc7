"""Computes the status of a pod from the status of its containers. Pure."""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from grove.api.types.meta import Condition, JsonObject, find_condition, is_condition_true
from grove.api.values.times import wire_time

CREATING = "ContainerCreating"
INITIALIZING = "PodInitializing"


class ContainerWaiting(msgspec.Struct, frozen=True, kw_only=True):
    reason: str = CREATING
    message: str = ""


class Running(msgspec.Struct, frozen=True, kw_only=True):
    started_at: datetime


class Terminated(msgspec.Struct, frozen=True, kw_only=True):
    exit_code: int
    reason: str
    started_at: datetime
    finished_at: datetime
    container_id: str
    signal: int = 0
    message: str = ""


class ContainerRuntimeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The current status of one container."""

    name: str
    image: str
    state: ContainerWaiting | Running | Terminated = ContainerWaiting()
    last_state: Terminated | None = None
    restart_count: int = 0
    is_ready: bool = False
    is_started: bool = False
    container_id: str = ""

    @property
    def has_succeeded(self) -> bool:
        return isinstance(self.state, Terminated) and self.state.exit_code == 0


class PodRuntimeStatus(msgspec.Struct, frozen=True, kw_only=True):
    started_at: datetime
    host_ip: str
    pod_ip: str
    restart_policy: str
    containers: tuple[ContainerRuntimeStatus, ...]
    init_containers: tuple[ContainerRuntimeStatus, ...] = ()
    sidecars: frozenset[str] = frozenset()
    readiness_gates: tuple[str, ...] = ()
    # No container will run again. `reason` and `message` say why, if the pod was stopped.
    is_over: bool = False
    reason: str = ""
    message: str = ""


def phase_of(pod: PodRuntimeStatus) -> str:
    """Return the phase. Succeeded and Failed are final: all containers have ended."""
    if pod.is_over:
        has_succeeded = not pod.reason and is_initialized(pod) and all(each.has_succeeded for each in pod.containers)
        return "Succeeded" if has_succeeded else "Failed"
    if not is_initialized(pod) or any(_has_never_run(each) for each in pod.containers):
        return "Pending"
    return "Running"


def is_initialized(pod: PodRuntimeStatus) -> bool:
    return not _find_uninitialized(pod)


def is_ready(pod: PodRuntimeStatus, conditions: tuple[Condition, ...]) -> bool:
    gates = all(is_condition_true(conditions, gate) for gate in pod.readiness_gates)
    return gates and not pod.is_over and not _find_unready(pod)


def status_of(pod: PodRuntimeStatus) -> JsonObject:
    """Return the status without its conditions."""
    status: JsonObject = {
        "phase": phase_of(pod),
        "startTime": wire_time(pod.started_at),
        "hostIP": pod.host_ip,
        "hostIPs": [{"ip": pod.host_ip}],
        "podIP": pod.pod_ip,
        "podIPs": [{"ip": pod.pod_ip}],
        "containerStatuses": [_container(each) for each in pod.containers],
    }
    if pod.init_containers:
        status["initContainerStatuses"] = [_container(each) for each in pod.init_containers]
    if pod.reason:
        status |= {"reason": pod.reason, "message": pod.message}
    return status


def changed_conditions(pod: PodRuntimeStatus, before: tuple[Condition, ...], now: datetime) -> list[JsonObject]:
    """Return the conditions that changed. The patch merges by type, so the conditions of other writers stay."""
    changes = (_change(desired, before, now) for desired in _conditions(pod, before))
    return [change for change in changes if change is not None]


def _conditions(pod: PodRuntimeStatus, before: tuple[Condition, ...]) -> Iterable[Condition]:
    uninitialized, unready = _find_uninitialized(pod), _find_unready(pod)
    yield _condition("PodReadyToStartContainers", not pod.is_over)
    yield _condition(
        "Initialized",
        not uninitialized,
        "ContainersNotInitialized",
        _describe_containers("incomplete status", uninitialized),
    )
    if pod.is_over:
        reason = "PodCompleted" if phase_of(pod) == "Succeeded" else "PodFailed"
        yield _condition("ContainersReady", False, reason)
        yield _condition("Ready", False, reason)
        return
    message = _describe_containers("unready status", unready)
    yield _condition("ContainersReady", not unready, "ContainersNotReady", message)
    if unready:
        yield _condition("Ready", False, "ContainersNotReady", message)
    else:
        yield _condition(
            "Ready", is_ready(pod, before), "ReadinessGatesNotReady", "a condition of readinessGates is not true"
        )


def _condition(type_: str, is_true: bool, reason: str = "", message: str = "") -> Condition:
    if is_true:
        return Condition(type=type_, status="True")
    return Condition(type=type_, status="False", reason=reason, message=message)


def _change(desired: Condition, before: tuple[Condition, ...], now: datetime) -> JsonObject | None:
    old = find_condition(before, desired.type)
    if old is not None and (old.status, old.reason, old.message) == (desired.status, desired.reason, desired.message):
        return None
    changed_at = now
    if old is not None and old.status == desired.status and old.last_transition_time is not None:
        changed_at = old.last_transition_time
    # A patch keeps absent fields, so null removes an old reason.
    return {
        "type": desired.type,
        "status": desired.status,
        "reason": desired.reason or None,
        "message": desired.message or None,
        "lastTransitionTime": wire_time(changed_at),
    }


def _find_uninitialized(pod: PodRuntimeStatus) -> list[str]:
    return [each.name for each in pod.init_containers if not _is_done(each, pod)]


def _is_done(container: ContainerRuntimeStatus, pod: PodRuntimeStatus) -> bool:
    if container.name in pod.sidecars:
        return container.is_started or pod.is_over
    return container.has_succeeded


def _find_unready(pod: PodRuntimeStatus) -> list[str]:
    sidecars = [each for each in pod.init_containers if each.name in pod.sidecars]
    return [each.name for each in (*sidecars, *pod.containers) if not each.is_ready]


def _has_never_run(container: ContainerRuntimeStatus) -> bool:
    return isinstance(container.state, ContainerWaiting) and container.last_state is None


def _describe_containers(what: str, names: list[str]) -> str:
    return f"containers with {what}: [{' '.join(names)}]"


def _container(container: ContainerRuntimeStatus) -> JsonObject:
    status: JsonObject = {
        "name": container.name,
        "image": container.image,
        "imageID": "",
        "ready": container.is_ready,
        "started": container.is_started,
        "restartCount": container.restart_count,
        "state": _state(container.state),
        "lastState": {} if container.last_state is None else _state(container.last_state),
    }
    if container.container_id:
        status["containerID"] = container.container_id
    return status


def _state(state: ContainerWaiting | Running | Terminated) -> JsonObject:
    match state:
        case ContainerWaiting(reason=reason, message=message):
            return {"waiting": {"reason": reason, "message": message} if message else {"reason": reason}}
        case Running(started_at=started_at):
            return {"running": {"startedAt": wire_time(started_at)}}
        case Terminated():
            return {"terminated": _build_terminated(state)}


def _build_terminated(ended: Terminated) -> JsonObject:
    state: JsonObject = {
        "exitCode": ended.exit_code,
        "reason": ended.reason,
        "startedAt": wire_time(ended.started_at),
        "finishedAt": wire_time(ended.finished_at),
        "containerID": ended.container_id,
    }
    if ended.signal:
        state["signal"] = ended.signal
    if ended.message:
        state["message"] = ended.message
    return state

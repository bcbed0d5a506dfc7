"""One simulated pod's life as a pure function: what its kubelet writes next, or until when it waits.

Everything is read from the pod itself, so a restarted kubelet goes on where the last one stopped.
Carrying the steps out is `simulated_kubelet.py`'s.
"""

import zlib
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import lru_cache

import msgspec

from grove.api.labels import SIM_EXIT_AFTER, SIM_EXIT_CODE, SIM_READY_AFTER
from grove.api.types.meta import JsonObject, find_condition
from grove.api.types.pod import ContainerStatus, TerminatedState
from grove.api.values.durations import parse_duration
from grove.api.values.times import wire_time
from grove.cluster.node_pod_cache import BoundPod

SIM_STOPS_AFTER = "simulation.grove.io/stops-after"

# How long a container that keeps ending waits for its next start, and after how long a run it is trusted again.
FIRST_BACK_OFF = timedelta(seconds=10)
LONGEST_BACK_OFF = timedelta(seconds=300)
BACK_OFF_FORGOTTEN_AFTER = timedelta(seconds=600)


class Behaviour(msgspec.Struct, frozen=True, kw_only=True):
    """How a simulated pod lives, from its annotations."""

    ready_after: timedelta = timedelta(0)
    exit_after: timedelta | None = None
    exit_code: int = 0
    stops_after: timedelta = timedelta(0)


class WriteStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A strategic merge patch of the pod's status."""

    status: JsonObject


class Remove(msgspec.Struct, frozen=True, kw_only=True):
    """Its containers have stopped: the object may go."""


class WaitUntil(msgspec.Struct, frozen=True, kw_only=True):
    until: datetime


class Rest(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing will happen unless the pod changes."""


Step = WriteStatus | Remove | WaitUntil | Rest


def behaviour_of(
    pod: BoundPod, *, ready_after: timedelta = timedelta(0), stops_after: timedelta = timedelta(0)
) -> Behaviour:
    """Raises ValueError, naming the annotation, when one cannot be read."""
    annotations = pod.metadata.annotations
    exit_after = annotations.get(SIM_EXIT_AFTER)
    return Behaviour(
        ready_after=_duration(annotations, SIM_READY_AFTER, ready_after),
        exit_after=None if exit_after is None else _duration(annotations, SIM_EXIT_AFTER, timedelta(0)),
        exit_code=_exit_code(annotations),
        stops_after=_duration(annotations, SIM_STOPS_AFTER, stops_after),
    )


def next_step(pod: BoundPod, behaviour: Behaviour, now: datetime, *, started_at: datetime | None, host_ip: str) -> Step:
    """What this pod's kubelet does next. `started_at` is the exact start if known: the wire has whole seconds only."""
    if pod.metadata.deletion_timestamp is not None:
        return _leave(pod, behaviour, now)
    if pod.is_finished:
        return Rest()
    statuses = pod.status.container_statuses
    if not statuses or pod.status.phase == "Pending":
        return WriteStatus(status=_start(pod, behaviour, now, host_ip))
    run = statuses[0].state
    if run.terminated is not None or run.waiting is not None:
        return _wait_or_restart(pod, behaviour, now)
    started = started_at or (run.running.started_at if run.running else None) or now
    if behaviour.exit_after is not None and now >= started + behaviour.exit_after:
        return WriteStatus(status=_exit(pod, behaviour, now))
    if now >= started + behaviour.ready_after and not pod.reports_ready:
        return WriteStatus(status=_turn_ready(pod, now))
    return _wait_for_the_next(started, behaviour, now)


def refuse(pod: BoundPod, message: str, now: datetime) -> Step:
    """A pod whose annotations make no sense is not started, and says why."""
    waiting = {"waiting": {"reason": "CreateContainerConfigError", "message": message}}
    if pod.metadata.is_terminating:
        return _leave(pod, Behaviour(), now)
    if pod.is_finished or (pod.status.container_statuses and pod.status.container_statuses[0].state.waiting):
        return Rest()
    containers = [_container(name, image, waiting) for name, image in _containers(pod)]
    return WriteStatus(status={"phase": "Pending", "startTime": _wire_time(now), "containerStatuses": containers})


def pod_ip(uid: str) -> str:
    """An address of its own, the same after a restart of the kubelet."""
    number = zlib.crc32(uid.encode())
    return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"


def back_off(restart_count: int) -> timedelta:
    """The wait before the next start of a container that was restarted this often: none, 10 s, 20 s, ... 300 s."""
    if restart_count == 0:
        return timedelta(0)
    return min(FIRST_BACK_OFF * (1 << min(restart_count - 1, 10)), LONGEST_BACK_OFF)


def _leave(pod: BoundPod, behaviour: Behaviour, now: datetime) -> Step:
    if not pod.metadata.deletion_grace_period_seconds:
        # Deleted without grace and still there: a finalizer holds it, or a real server was interrupted before the end.
        return Rest() if pod.metadata.finalizers else Remove()
    deadline = pod.metadata.deletion_timestamp or now
    asked_at = deadline - timedelta(seconds=pod.metadata.deletion_grace_period_seconds)
    stopped_at = min(asked_at + behaviour.stops_after, deadline)
    return Remove() if now >= stopped_at or pod.is_finished else WaitUntil(until=stopped_at)


def _start(pod: BoundPod, behaviour: Behaviour, now: datetime, host_ip: str) -> JsonObject:
    is_ready = behaviour.ready_after <= timedelta(0)
    address = pod_ip(pod.metadata.uid)
    running = {"running": {"startedAt": _wire_time(now)}}
    status: JsonObject = {
        "phase": "Running",
        "startTime": _wire_time(now),
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": _conditions(pod, now, initialized=True, ready=is_ready),
        "containerStatuses": [_container(name, image, running, ready=is_ready) for name, image in _containers(pod)],
    }
    if host_ip:
        status |= {"hostIP": host_ip, "hostIPs": [{"ip": host_ip}]}
    if pod.spec.init_containers:
        done = _terminated(0, now, now)
        status["initContainerStatuses"] = [
            _container(container.name, container.image, done, ready=True) for container in pod.spec.init_containers
        ]
    return status


def _turn_ready(pod: BoundPod, now: datetime) -> JsonObject:
    return {
        "conditions": _conditions(pod, now, ready=True),
        "containerStatuses": [_restate(pod, status, ready=True) for status in pod.status.container_statuses],
    }


def _exit(pod: BoundPod, behaviour: Behaviour, now: datetime) -> JsonObject:
    if _restarts(pod, behaviour.exit_code):
        return _end_run(pod, behaviour, now)
    succeeded = behaviour.exit_code == 0
    reason = "PodCompleted" if succeeded else "PodFailed"
    return {
        "phase": "Succeeded" if succeeded else "Failed",
        "conditions": _conditions(pod, now, ready=False, reason=reason),
        "containerStatuses": [
            _restate(pod, status, state=_terminated(behaviour.exit_code, _started_at(status), now))
            for status in pod.status.container_statuses
        ],
    }


def _end_run(pod: BoundPod, behaviour: Behaviour, now: datetime) -> JsonObject:
    """A run has ended and another will follow: at once, or after a wait when it happens again and again."""
    if _pause(pod.status.container_statuses[0], now) <= timedelta(0):
        ended = [
            (status, _terminated(behaviour.exit_code, _started_at(status), now))
            for status in pod.status.container_statuses
        ]
        return _next_run(pod, behaviour, now, ended)
    return {
        "conditions": _conditions(pod, now, ready=False),
        "containerStatuses": [
            _restate(
                pod, status,
                state={"waiting": {"reason": "CrashLoopBackOff", "message": "back-off before the next start"}},
                last_state=_terminated(behaviour.exit_code, _started_at(status), now),
            )
            for status in pod.status.container_statuses
        ],
    }  # fmt: skip


def _wait_or_restart(pod: BoundPod, behaviour: Behaviour, now: datetime) -> Step:
    first = pod.status.container_statuses[0]
    ended_at = _ended_at(first)
    if ended_at is None:
        return Rest()
    restart_at = ended_at + back_off(first.restart_count)
    if now < restart_at:
        return WaitUntil(until=restart_at)
    ended = [(status, _wire_state(status.last_state.terminated)) for status in pod.status.container_statuses]
    return WriteStatus(status=_next_run(pod, behaviour, now, ended))


def _next_run(
    pod: BoundPod, behaviour: Behaviour, now: datetime, ended: list[tuple[ContainerStatus, JsonObject]]
) -> JsonObject:
    is_ready = behaviour.ready_after <= timedelta(0)
    running = {"running": {"startedAt": _wire_time(now)}}
    return {
        "conditions": _conditions(pod, now, ready=is_ready),
        "containerStatuses": [
            _restate(
                pod, status, ready=is_ready, state=running, last_state=last_state,
                restart_count=status.restart_count + 1,
            )
            for status, last_state in ended
        ],
    }  # fmt: skip


def _wait_for_the_next(started: datetime, behaviour: Behaviour, now: datetime) -> Step:
    instants = [started + behaviour.ready_after]
    if behaviour.exit_after is not None:
        instants.append(started + behaviour.exit_after)
    until = min((instant for instant in instants if instant > now), default=None)
    return Rest() if until is None else WaitUntil(until=until)


def _restarts(pod: BoundPod, exit_code: int) -> bool:
    return pod.spec.restart_policy == "Always" or (pod.spec.restart_policy == "OnFailure" and exit_code != 0)


def _pause(status: ContainerStatus, now: datetime) -> timedelta:
    started = _started_at(status)
    if started is not None and now - started >= BACK_OFF_FORGOTTEN_AFTER:
        return timedelta(0)
    return back_off(status.restart_count)


def _started_at(status: ContainerStatus) -> datetime | None:
    return status.state.running.started_at if status.state.running else None


def _ended_at(status: ContainerStatus) -> datetime | None:
    ended = status.state.terminated or status.last_state.terminated
    return ended.finished_at if ended else None


def _containers(pod: BoundPod) -> Iterator[tuple[str, str]]:
    return ((container.name, container.image) for container in pod.spec.containers)


def _container(
    name: str,
    image: str,
    state: JsonObject,
    *,
    ready: bool = False,
    last_state: JsonObject | None = None,
    restart_count: int = 0,
) -> JsonObject:
    return {
        "name": name,
        "image": image,
        "imageID": "",
        "ready": ready,
        "started": "running" in state,
        "restartCount": restart_count,
        "state": state,
        "lastState": last_state or {},
    }


def _restate(
    pod: BoundPod,
    status: ContainerStatus,
    *,
    ready: bool = False,
    state: JsonObject | None = None,
    last_state: JsonObject | None = None,
    restart_count: int | None = None,
) -> JsonObject:
    """A container's status with some of it changed: lists of container statuses are always written whole."""
    image = next((container.image for container in pod.spec.containers if container.name == status.name), "")
    return _container(
        status.name,
        image,
        state if state is not None else {"running": {"startedAt": _wire_time(_started_at(status))}},
        ready=ready,
        last_state=last_state if last_state is not None else _wire_state(status.last_state.terminated),
        restart_count=status.restart_count if restart_count is None else restart_count,
    )


def _terminated(exit_code: int, started_at: datetime | None, finished_at: datetime) -> JsonObject:
    reason = "Completed" if exit_code == 0 else "Error"
    state = TerminatedState(exit_code=exit_code, reason=reason, started_at=started_at, finished_at=finished_at)
    return _wire_state(state)


def _wire_state(state: TerminatedState | None) -> JsonObject:
    if state is None:
        return {}
    return {
        "terminated": {
            "exitCode": state.exit_code,
            "reason": state.reason,
            "startedAt": _wire_time(state.started_at),
            "finishedAt": _wire_time(state.finished_at),
        }
    }


def _conditions(
    pod: BoundPod, now: datetime, *, ready: bool, initialized: bool = False, reason: str = "ContainersNotReady"
) -> list[JsonObject]:
    """Only those that change: the patch merges conditions by type, so PodScheduled and strangers' ones stay."""
    wanted = {"ContainersReady": ready, "Ready": ready}
    if initialized:
        wanted = {"PodReadyToStartContainers": True, "Initialized": True} | wanted
    changes = (_condition_change(pod, type_, status, "" if status else reason, now) for type_, status in wanted.items())
    return [change for change in changes if change is not None]


def _condition_change(pod: BoundPod, type_: str, status: bool, reason: str, now: datetime) -> JsonObject | None:
    old = find_condition(pod.status.conditions, type_)
    if old is not None and (old.status, old.reason) == (str(status), reason):
        return None
    change: JsonObject = {"type": type_, "status": str(status), "lastTransitionTime": _wire_time(now)}
    if reason:
        change["reason"] = reason
    elif old is not None and old.reason:
        # The patch keeps what it does not mention: an old reason must be taken away by name.
        change |= {"reason": None, "message": None}
    return change


# One status repeats the same instant many times.
@lru_cache(maxsize=16)
def _wire_time(instant: datetime | None) -> str | None:
    return None if instant is None else wire_time(instant)


def _duration(annotations: dict[str, str], key: str, default: timedelta) -> timedelta:
    text = annotations.get(key)
    if text is None:
        return default
    try:
        return parse_duration(text)
    except ValueError as error:
        raise ValueError(f"annotation {key}: {error}") from error


def _exit_code(annotations: dict[str, str]) -> int:
    text = annotations.get(SIM_EXIT_CODE, "0")
    try:
        return int(text)
    except ValueError as error:
        raise ValueError(f"annotation {SIM_EXIT_CODE}: {text!r} is not a whole number") from error

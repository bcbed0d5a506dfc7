"""State machine of a simulated pod, as a pure function: the next status to write, or how long to wait.

All state is in the pod itself, so a restarted kubelet continues where the last one stopped. `simulated_kubelet.py`
executes the steps.
"""

import zlib
from collections.abc import Iterator
from datetime import datetime, timedelta

import msgspec

from grove.api.labels import SIM_EXIT_AFTER, SIM_EXIT_CODE, SIM_PULL_ERROR, SIM_READY_AFTER
from grove.api.types.meta import JsonObject
from grove.api.types.pod import ContainerStatus
from grove.api.values.clique_counts import INIT_CONTAINER, CliqueCount, clique_counts_of
from grove.api.values.durations import parse_duration
from grove.cluster.kubelet.simulated.image_pull import MISSING_TAG, find_missing_images, report_pull_error
from grove.cluster.kubelet.simulated.init_wait import report_init_wait
from grove.cluster.kubelet.simulated.status_parts import (
    build_conditions,
    build_container,
    build_terminated,
    format_time,
    wire_state,
)
from grove.cluster.node_pod_cache import BoundPod

SIM_STOPS_AFTER = "simulation.grove.io/stops-after"

# The restart backoff of a container, and the run time that resets it.
FIRST_BACK_OFF = timedelta(seconds=10)
LONGEST_BACK_OFF = timedelta(seconds=300)
BACK_OFF_FORGOTTEN_AFTER = timedelta(seconds=600)


class Behavior(msgspec.Struct, frozen=True, kw_only=True):
    """The timing and exit code of a simulated pod, from its annotations."""

    ready_after: timedelta = timedelta(0)
    exit_after: timedelta | None = None
    exit_code: int = 0
    stops_after: timedelta = timedelta(0)
    # Patterns of images that cannot be pulled.
    missing_images: tuple[str, ...] = (MISSING_TAG,)


class WriteStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A strategic merge patch of the pod's status."""

    status: JsonObject


class Remove(msgspec.Struct, frozen=True, kw_only=True):
    """Delete the object: its containers have stopped."""


class WaitUntil(msgspec.Struct, frozen=True, kw_only=True):
    until: datetime


class Idle(msgspec.Struct, frozen=True, kw_only=True):
    """Do nothing until the pod changes."""


Step = WriteStatus | Remove | WaitUntil | Idle


def read_behavior(
    pod: BoundPod, *, ready_after: timedelta = timedelta(0), stops_after: timedelta = timedelta(0)
) -> Behavior:
    """Read the annotations. Raises ValueError, naming the annotation, if one is invalid."""
    annotations = pod.metadata.annotations
    exit_after = annotations.get(SIM_EXIT_AFTER)
    return Behavior(
        ready_after=_duration(annotations, SIM_READY_AFTER, ready_after),
        exit_after=None if exit_after is None else _duration(annotations, SIM_EXIT_AFTER, timedelta(0)),
        exit_code=_exit_code(annotations),
        stops_after=_duration(annotations, SIM_STOPS_AFTER, stops_after),
        missing_images=(MISSING_TAG, *((annotations[SIM_PULL_ERROR],) if SIM_PULL_ERROR in annotations else ())),
    )


def awaited_by(pod: BoundPod) -> tuple[CliqueCount, ...]:
    """Return the PodCliques that the init container of a pod waits for. Raises ValueError."""
    waiting = (container for container in pod.spec.init_containers if container.name == INIT_CONTAINER)
    return tuple(one for container in waiting for one in clique_counts_of(container.args))


def next_step(
    pod: BoundPod,
    behavior: Behavior,
    now: datetime,
    *,
    started_at: datetime | None,
    host_ip: str,
    is_waiting: bool = False,
) -> Step:
    """Return the next step. `started_at` is the exact start if known: the wire has whole seconds only.

    `is_waiting`: its last init container waits for other cliques.
    """
    if pod.metadata.deletion_timestamp is not None:
        return _terminate(pod, behavior, now)
    if pod.is_finished:
        return Idle()
    statuses = pod.status.container_statuses
    if is_waiting and pod.status.phase == "Pending":
        return Idle() if statuses else WriteStatus(status={**report_init_wait(pod, now), **_addresses(pod, host_ip)})
    if not statuses or pod.status.phase == "Pending":
        if missing := find_missing_images(pod, behavior.missing_images):
            return _fail_to_pull(pod, missing, now)
        return WriteStatus(status=_start(pod, behavior, now, host_ip))
    run = statuses[0].state
    if run.terminated is not None or run.waiting is not None:
        return _wait_or_restart(pod, behavior, now)
    started = started_at or (run.running.started_at if run.running else None) or now
    if behavior.exit_after is not None and now >= started + behavior.exit_after:
        return WriteStatus(status=_exit(pod, behavior, now))
    if now >= started + behavior.ready_after and not pod.reports_ready:
        return WriteStatus(status=_become_ready(pod, now))
    return _wait_for_next_event(started, behavior, now)


def _fail_to_pull(pod: BoundPod, missing: tuple[str, ...], now: datetime) -> Step:
    """Report a failed pull, then the back-off. The image never arrives, so there is nothing to write after that."""
    report = report_pull_error(pod, missing, now, pod_ip(pod.metadata.uid))
    if report.status is not None:
        return WriteStatus(status=report.status)
    return Idle() if report.until is None else WaitUntil(until=report.until)


def reject_pod(pod: BoundPod, message: str, now: datetime) -> Step:
    """Report invalid annotations as the waiting reason; do not start the pod."""
    waiting = {"waiting": {"reason": "CreateContainerConfigError", "message": message}}
    if pod.metadata.is_terminating:
        return _terminate(pod, Behavior(), now)
    if pod.is_finished or (pod.status.container_statuses and pod.status.container_statuses[0].state.waiting):
        return Idle()
    containers = [build_container(name, image, waiting) for name, image in _containers(pod)]
    return WriteStatus(status={"phase": "Pending", "startTime": format_time(now), "containerStatuses": containers})


def pod_ip(uid: str) -> str:
    """Return the address of a pod, derived from its uid."""
    number = zlib.crc32(uid.encode())
    return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"


def back_off(restart_count: int) -> timedelta:
    """Return the delay before the next start, by the number of restarts: none, 10 s, 20 s, ... 300 s."""
    if restart_count == 0:
        return timedelta(0)
    return min(FIRST_BACK_OFF * (1 << min(restart_count - 1, 10)), LONGEST_BACK_OFF)


def _terminate(pod: BoundPod, behavior: Behavior, now: datetime) -> Step:
    if not pod.metadata.deletion_grace_period_seconds:
        # Deleted without a grace period and still there: a finalizer holds it, or a real server was interrupted.
        return Idle() if pod.metadata.finalizers else Remove()
    deadline = pod.metadata.deletion_timestamp or now
    requested_at = deadline - timedelta(seconds=pod.metadata.deletion_grace_period_seconds)
    stopped_at = min(requested_at + behavior.stops_after, deadline)
    return Remove() if now >= stopped_at or pod.is_finished else WaitUntil(until=stopped_at)


def _start(pod: BoundPod, behavior: Behavior, now: datetime, host_ip: str) -> JsonObject:
    is_ready = behavior.ready_after <= timedelta(0)
    running = {"running": {"startedAt": format_time(now)}}
    status: JsonObject = {
        "phase": "Running",
        **_addresses(pod, host_ip),
        "conditions": build_conditions(pod, now, initialized=True, ready=is_ready),
        "containerStatuses": [
            build_container(name, image, running, ready=is_ready) for name, image in _containers(pod)
        ],
    }
    if not pod.status.init_container_statuses:
        status["startTime"] = format_time(now)
    if pod.spec.init_containers:
        done = build_terminated(0, now, now)
        status["initContainerStatuses"] = [
            build_container(container.name, container.image, done, ready=True) for container in pod.spec.init_containers
        ]
    return status


def _addresses(pod: BoundPod, host_ip: str) -> JsonObject:
    address = pod_ip(pod.metadata.uid)
    host = {"hostIP": host_ip, "hostIPs": [{"ip": host_ip}]} if host_ip else {}
    return {"podIP": address, "podIPs": [{"ip": address}], **host}


def _become_ready(pod: BoundPod, now: datetime) -> JsonObject:
    return {
        "conditions": build_conditions(pod, now, ready=True),
        "containerStatuses": [_updated_container(pod, status, ready=True) for status in pod.status.container_statuses],
    }


def _exit(pod: BoundPod, behavior: Behavior, now: datetime) -> JsonObject:
    if _restarts(pod, behavior.exit_code):
        return _end_containers(pod, behavior, now)
    succeeded = behavior.exit_code == 0
    reason = "PodCompleted" if succeeded else "PodFailed"
    return {
        "phase": "Succeeded" if succeeded else "Failed",
        "conditions": build_conditions(pod, now, ready=False, reason=reason),
        "containerStatuses": [
            _updated_container(pod, status, state=build_terminated(behavior.exit_code, _started_at(status), now))
            for status in pod.status.container_statuses
        ],
    }


def _end_containers(pod: BoundPod, behavior: Behavior, now: datetime) -> JsonObject:
    """Restart ended containers at once, or wait for the backoff."""
    if _restart_delay(pod.status.container_statuses[0], now) <= timedelta(0):
        ended = [
            (status, build_terminated(behavior.exit_code, _started_at(status), now))
            for status in pod.status.container_statuses
        ]
        return _restart_containers(pod, behavior, now, ended)
    return {
        "conditions": build_conditions(pod, now, ready=False),
        "containerStatuses": [
            _updated_container(
                pod, status,
                state={"waiting": {"reason": "CrashLoopBackOff", "message": "back-off before the next start"}},
                last_state=build_terminated(behavior.exit_code, _started_at(status), now),
            )
            for status in pod.status.container_statuses
        ],
    }  # fmt: skip


def _wait_or_restart(pod: BoundPod, behavior: Behavior, now: datetime) -> Step:
    first = pod.status.container_statuses[0]
    ended_at = _ended_at(first)
    if ended_at is None:
        return Idle()
    restart_at = ended_at + back_off(first.restart_count)
    if now < restart_at:
        return WaitUntil(until=restart_at)
    ended = [(status, wire_state(status.last_state.terminated)) for status in pod.status.container_statuses]
    return WriteStatus(status=_restart_containers(pod, behavior, now, ended))


def _restart_containers(
    pod: BoundPod, behavior: Behavior, now: datetime, ended: list[tuple[ContainerStatus, JsonObject]]
) -> JsonObject:
    is_ready = behavior.ready_after <= timedelta(0)
    running = {"running": {"startedAt": format_time(now)}}
    return {
        "conditions": build_conditions(pod, now, ready=is_ready),
        "containerStatuses": [
            _updated_container(
                pod, status, ready=is_ready, state=running, last_state=last_state,
                restart_count=status.restart_count + 1,
            )
            for status, last_state in ended
        ],
    }  # fmt: skip


def _wait_for_next_event(started: datetime, behavior: Behavior, now: datetime) -> Step:
    instants = [started + behavior.ready_after]
    if behavior.exit_after is not None:
        instants.append(started + behavior.exit_after)
    until = min((instant for instant in instants if instant > now), default=None)
    return Idle() if until is None else WaitUntil(until=until)


def _restarts(pod: BoundPod, exit_code: int) -> bool:
    return pod.spec.restart_policy == "Always" or (pod.spec.restart_policy == "OnFailure" and exit_code != 0)


def _restart_delay(status: ContainerStatus, now: datetime) -> timedelta:
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


def _updated_container(
    pod: BoundPod,
    status: ContainerStatus,
    *,
    ready: bool = False,
    state: JsonObject | None = None,
    last_state: JsonObject | None = None,
    restart_count: int | None = None,
) -> JsonObject:
    """Return a container status with changes. Lists of container statuses are always written whole."""
    image = next((container.image for container in pod.spec.containers if container.name == status.name), "")
    return build_container(
        status.name,
        image,
        state if state is not None else {"running": {"startedAt": format_time(_started_at(status))}},
        ready=ready,
        last_state=last_state if last_state is not None else wire_state(status.last_state.terminated),
        restart_count=status.restart_count if restart_count is None else restart_count,
    )


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

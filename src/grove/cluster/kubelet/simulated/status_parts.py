"""Parts of the status of a simulated pod, on the wire."""

from datetime import datetime
from functools import lru_cache

from grove.api.types.meta import JsonObject, find_condition
from grove.api.types.pod import TerminatedState
from grove.api.values.times import wire_time
from grove.cluster.node_pod_cache import BoundPod


def build_container(
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


def build_terminated(exit_code: int, started_at: datetime | None, finished_at: datetime) -> JsonObject:
    reason = "Completed" if exit_code == 0 else "Error"
    state = TerminatedState(exit_code=exit_code, reason=reason, started_at=started_at, finished_at=finished_at)
    return wire_state(state)


def wire_state(state: TerminatedState | None) -> JsonObject:
    if state is None:
        return {}
    return {
        "terminated": {
            "exitCode": state.exit_code,
            "reason": state.reason,
            "startedAt": format_time(state.started_at),
            "finishedAt": format_time(state.finished_at),
        }
    }


def build_conditions(
    pod: BoundPod, now: datetime, *, ready: bool, initialized: bool = False, reason: str = "ContainersNotReady"
) -> list[JsonObject]:
    """Return the conditions that changed. The patch merges by type, so the conditions of other writers stay."""
    desired = {"ContainersReady": ready, "Ready": ready}
    if initialized:
        desired = {"PodReadyToStartContainers": True, "Initialized": True} | desired
    changes = (
        _condition_change(pod, type_, status, "" if status else reason, now) for type_, status in desired.items()
    )
    return [change for change in changes if change is not None]


def _condition_change(pod: BoundPod, type_: str, status: bool, reason: str, now: datetime) -> JsonObject | None:
    old = find_condition(pod.status.conditions, type_)
    if old is not None and (old.status, old.reason) == (str(status), reason):
        return None
    change: JsonObject = {"type": type_, "status": str(status), "lastTransitionTime": format_time(now)}
    if reason:
        change["reason"] = reason
    elif old is not None and old.reason:
        # A patch keeps absent fields, so null removes an old reason.
        change |= {"reason": None, "message": None}
    return change


# One status contains the same time often.
@lru_cache(maxsize=16)
def format_time(instant: datetime | None) -> str | None:
    return None if instant is None else wire_time(instant)

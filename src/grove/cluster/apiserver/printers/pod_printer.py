"""The table row of a pod, with the STATUS word that kubectl shows."""

from datetime import datetime
from typing import Any

from grove.api.types.meta import JsonObject
from grove.cluster.apiserver.codec.lenient_json import items, part
from grove.cluster.apiserver.printers.human_duration import format_age

POD_COLUMNS = (
    "Name", "Ready", "Status", "Restarts", "Age", "+IP", "+Node", "+Nominated Node", "+Readiness Gates",
)  # fmt: skip
_NONE = "<none>"


def print_pod(pod: JsonObject, now: datetime) -> list[Any]:
    metadata, spec, status = pod["metadata"], part(pod.get("spec")), part(pod.get("status"))
    statuses = items(status.get("containerStatuses"))
    ready_count = sum(1 for each in statuses if each.get("ready") and "running" in part(each.get("state")))
    return [
        metadata["name"],
        f"{ready_count}/{len(items(spec.get('containers')))}",
        _status_word(metadata, spec, status),
        _restarts(statuses, now),
        format_age(metadata.get("creationTimestamp"), now),
        status.get("podIP") or _NONE,
        spec.get("nodeName") or _NONE,
        status.get("nominatedNodeName") or _NONE,
        _readiness_gates(spec, status),
    ]


def _status_word(metadata: JsonObject, spec: JsonObject, status: JsonObject) -> str:
    if metadata.get("deletionTimestamp"):
        return "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    word = str(status.get("reason") or status.get("phase") or "Unknown")
    if _is_gated(spec, status):
        return "SchedulingGated"
    return _init_word(spec, status) or _container_word(status) or word


def _is_gated(spec: JsonObject, status: JsonObject) -> bool:
    conditions = items(status.get("conditions"))
    reasons = [each.get("reason") for each in conditions if each.get("type") == "PodScheduled"]
    return bool(spec.get("schedulingGates")) or "SchedulingGated" in reasons


def _init_word(spec: JsonObject, status: JsonObject) -> str:
    """Return the `Init:` status while init containers run; empty after that."""
    count = len(items(spec.get("initContainers")))
    for index, each in enumerate(items(status.get("initContainerStatuses"))):
        state = part(each.get("state"))
        ended, waiting = part(state.get("terminated")), part(state.get("waiting"))
        if "terminated" in state and not ended.get("exitCode"):
            continue
        if "terminated" in state:
            return f"Init:{_termination_word(ended)}"
        if waiting.get("reason") not in (None, "", "PodInitializing"):
            return f"Init:{waiting['reason']}"
        return f"Init:{index}/{count}"
    return ""


def _container_word(status: JsonObject) -> str:
    """Return the reason of the first waiting or terminated container, unless another one runs and is ready."""
    word, is_running = "", False
    for each in reversed(items(status.get("containerStatuses"))):
        state = part(each.get("state"))
        if reason := part(state.get("waiting")).get("reason"):
            word = str(reason)
        elif "terminated" in state:
            word = _termination_word(part(state["terminated"]))
        elif each.get("ready") and "running" in state:
            is_running = True
    if word == "Completed" and is_running:
        return "Running" if _is_ready(status) else "NotReady"
    return word


def _termination_word(ended: JsonObject) -> str:
    if reason := ended.get("reason"):
        return str(reason)
    if signal := ended.get("signal"):
        return f"Signal:{signal}"
    return f"ExitCode:{ended.get('exitCode', 0)}"


def _is_ready(status: JsonObject) -> bool:
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in items(status.get("conditions")))


def _restarts(statuses: list[JsonObject], now: datetime) -> str:
    count = sum(int(each.get("restartCount") or 0) for each in statuses)
    ends = [part(part(each.get("lastState")).get("terminated")).get("finishedAt") for each in statuses]
    last = max((str(end) for end in ends if end), default="")
    return f"{count} ({format_age(last, now)} ago)" if count and last else str(count)


def _readiness_gates(spec: JsonObject, status: JsonObject) -> str:
    gates = [gate.get("conditionType") for gate in items(spec.get("readinessGates"))]
    if not gates:
        return _NONE
    true = [each.get("type") for each in items(status.get("conditions")) if each.get("status") == "True"]
    return f"{sum(1 for gate in gates if gate in true)}/{len(gates)}"

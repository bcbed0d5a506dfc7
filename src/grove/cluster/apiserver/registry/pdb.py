"""PodDisruptionBudgets: which pods a budget covers, and the conditions of its status.

`evict.py` uses them to admit evictions; `disruption_controller.py` keeps the counts.
"""

from grove.api.types.meta import JsonObject
from grove.cluster.apiserver.codec.label_selectors import selects
from grove.cluster.apiserver.codec.lenient_json import items, part
from grove.cluster.apiserver.conditions import with_condition
from grove.cluster.built_in_resources import BUDGETS
from grove.cluster.storage.store import Entry, Storage

DISRUPTION_TARGET = "DisruptionTarget"
_ALLOWED = "DisruptionAllowed"


def covers_pod(budget: JsonObject, pod: JsonObject) -> bool:
    """Return whether the budget covers the pod. An empty selector selects all pods of the namespace, a missing none."""
    selector = budget["spec"].get("selector")
    return selector is not None and selects(selector, pod)


def find_budgets(store: Storage, pod: Entry) -> list[Entry]:
    return [entry for entry in store.table(BUDGETS).entries(pod.namespace) if covers_pod(entry.obj, pod.obj)]


def is_ready(pod: JsonObject) -> bool:
    conditions = items(part(pod.get("status")).get("conditions"))
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


def with_disruption_allowed(status: JsonObject, now: str) -> JsonObject:
    """Return the status with the DisruptionAllowed condition that follows from its counts."""
    is_allowed = status.get("disruptionsAllowed", 0) > 0
    condition = {
        "type": _ALLOWED,
        "status": "True" if is_allowed else "False",
        "observedGeneration": status.get("observedGeneration", 0),
        "lastTransitionTime": now,
        "reason": "SufficientPods" if is_allowed else "InsufficientPods",
        "message": "",
    }
    return with_condition(status, condition)


def with_sync_failed(status: JsonObject, why: str, now: str) -> JsonObject:
    """Return the status of a budget whose counts are unknown: it allows no disruption."""
    observed = {"observedGeneration": status["observedGeneration"]} if status.get("observedGeneration") else {}
    condition = {
        "type": _ALLOWED,
        "status": "False",
        **observed,
        "lastTransitionTime": now,
        "reason": "SyncFailed",
        "message": why,
    }
    return with_condition({**status, "disruptionsAllowed": 0}, condition)

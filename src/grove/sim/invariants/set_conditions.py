"""The rules of the conditions that scripts wait for: what they say agrees with the counts of the same status.

From the documentation of the conditions: `Available`: all set replicas, or during an update all but one and at least
one; `Progressing` has the reason `Complete` only when nothing is left to do; `Complete` and `Failed` are the end of a
training set. Asked by `pods_and_gangs.py`.
"""

from collections.abc import Iterator

from grove.api.types.meta import Condition, find_condition
from grove.api.types.podcliqueset import PodCliqueSet, SetPhase
from grove.sim.invariants.rollout import is_open

_TYPES = ("Available", "Progressing", "Complete", "Failed")


def check_set_conditions(before: PodCliqueSet, pcs: PodCliqueSet) -> Iterator[str]:
    """Yield what a write of a set's status says wrongly."""
    if before.status == pcs.status or pcs.metadata.is_terminating:
        return
    found = {one.type: one for one in pcs.status.conditions if one.type in _TYPES}
    yield from _check_generations(pcs, found)
    yield from _check_available(pcs, found.get("Available"))
    yield from _check_progressing(pcs, found.get("Progressing"))
    yield from _check_end(before, pcs, found)


def _check_generations(pcs: PodCliqueSet, found: dict[str, Condition]) -> Iterator[str]:
    seen = pcs.status.observed_generation or 0
    for condition in found.values():
        if (condition.observed_generation or 0) > seen:
            yield f"{condition.type} is about generation {condition.observed_generation}, and the status about {seen}"


def _check_available(pcs: PodCliqueSet, condition: Condition | None) -> Iterator[str]:
    if condition is None or condition.status == "Unknown":
        return
    available, replicas = pcs.status.available_replicas, pcs.status.replicas
    is_rolling = is_open(pcs.status.rolling_update_progress)
    fewest = max(1, replicas - 1) if is_rolling and replicas else replicas
    says = f"Available is {condition.status} with {available} of {replicas} replicas"
    if condition.status == "True" and available < fewest:
        yield says
    if condition.status == "False" and available >= replicas:
        yield says


def _check_progressing(pcs: PodCliqueSet, condition: Condition | None) -> Iterator[str]:
    if condition is None or condition.status == "Unknown":
        return
    status = pcs.status
    if condition.status == "True" and condition.reason == "Complete":
        if is_open(status.rolling_update_progress):
            yield "Progressing is Complete while an update is open"
        if status.available_replicas < status.replicas or status.pod_gang_statuses:
            yield "Progressing is Complete while something does not run"
    stalled = find_condition(status.conditions, "UpdateStalled")
    if condition.reason == "UpdateStalled" and stalled is None:
        yield "Progressing says that an update is stalled, and UpdateStalled does not"


def _check_end(before: PodCliqueSet, pcs: PodCliqueSet, found: dict[str, Condition]) -> Iterator[str]:
    if ("Complete" in found) != (pcs.status.phase == SetPhase.SUCCEEDED):
        yield f"Complete is {'there' if 'Complete' in found else 'missing'} in phase {pcs.status.phase}"
    if "Complete" in found and "Failed" in found:
        yield "it is Complete and Failed"
    if find_condition(before.status.conditions, "Complete") is not None and "Complete" not in found:
        yield "Complete went away"

"""Each rule of the conditions that scripts wait for finds what breaks it."""

from typing import Any

import pytest

from grove.api.types.meta import Condition
from grove.api.types.podcliqueset import GangStatus, PodCliqueSet, PodCliqueSetStatus, SetRollingUpdateProgress
from grove.sim.invariants.set_conditions import check_set_conditions
from tests.dsl import NOW, pcs

OPEN = SetRollingUpdateProgress(update_started_at=NOW)
GANGS = (GangStatus(name="p-0-g-0", phase="Pending"),)


def seen(available: int, *conditions: tuple[str, str, str], generation: int = 1, **fields: Any) -> PodCliqueSet:
    """A set of two replicas whose status says so."""
    status = PodCliqueSetStatus(
        observed_generation=1,
        replicas=2,
        available_replicas=available,
        conditions=tuple(
            Condition(type=type_, status=status, reason=reason, observed_generation=generation)
            for type_, status, reason in conditions
        ),
        **fields,
    )
    return pcs(replicas=2, status=status)


GOOD, BAD = ("Available", "True", "AllReplicasAvailable"), ("Available", "False", "ReplicasUnavailable")
REST, DONE = ("Progressing", "True", "Complete"), ("Complete", "True", "AllReplicasSucceeded")


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        (seen(2, GOOD, REST), []),
        (seen(1, BAD), []),
        (seen(1, GOOD, rolling_update_progress=OPEN), []),
        (seen(1, GOOD), ["Available is True with 1 of 2 replicas"]),
        (seen(0, GOOD, rolling_update_progress=OPEN), ["Available is True with 0 of 2 replicas"]),
        (seen(2, BAD), ["Available is False with 2 of 2 replicas"]),
        (seen(2, REST, rolling_update_progress=OPEN), ["Progressing is Complete while an update is open"]),
        (seen(1, REST), ["Progressing is Complete while something does not run"]),
        (seen(2, REST, pod_gang_statuses=GANGS), ["Progressing is Complete while something does not run"]),
        (
            seen(2, ("Progressing", "False", "UpdateStalled")),
            ["Progressing says that an update is stalled, and UpdateStalled does not"],
        ),
        (seen(2, GOOD, generation=2), ["Available is about generation 2, and the status about 1"]),
        (seen(0, DONE, phase="Succeeded"), []),
        (seen(0, DONE, phase="Running"), ["Complete is there in phase Running"]),
        (seen(0, phase="Succeeded"), ["Complete is missing in phase Succeeded"]),
        (seen(0, DONE, ("Failed", "True", "X"), phase="Succeeded"), ["it is Complete and Failed"]),
    ],
)
def test_a_status_that_contradicts_itself_is_found(stored: PodCliqueSet, expected: list[str]) -> None:
    assert list(check_set_conditions(pcs(replicas=2), stored)) == expected


def test_complete_does_not_go_away() -> None:
    assert "Complete went away" in list(check_set_conditions(seen(0, DONE, phase="Succeeded"), seen(0)))

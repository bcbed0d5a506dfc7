"""Which facts are written before the acts of a plan, and which may be told after them."""

import msgspec
import pytest

from grove.controller.reconciler import facts_first
from grove.planner.actions import WHOLE_SET, Chain, Plan, StatusPriority, StatusWrite
from tests.controller.test_status_debounce import status


def fact(part: int) -> StatusWrite:
    return msgspec.structs.replace(status(f"fact of {part}", part=part), priority=StatusPriority.DURABLE)


def parts_told_first(*acting: int) -> list[int]:
    told = [fact(0), fact(1), fact(WHOLE_SET), status("news", urgent=True, part=0), status("count", part=1)]
    chains = tuple(Chain(key=str(part), replica_index=part, stages=()) for part in acting)
    return [one.replica_index for one in facts_first(Plan(chains=chains, statuses=tuple(told)))]


@pytest.mark.parametrize(
    ("acting", "first"),
    [
        ((0,), [0, WHOLE_SET]),
        ((1,), [1, WHOLE_SET]),
        ((0, 1), [0, 1, WHOLE_SET]),
        ((5,), [WHOLE_SET]),
        ((), [WHOLE_SET]),
        # What is done to the whole set may destroy the evidence of any of them.
        ((WHOLE_SET,), [0, 1, WHOLE_SET]),
    ],
)
def test_an_act_waits_for_the_facts_of_its_replica_and_of_the_set(acting: tuple[int, ...], first: list[int]) -> None:
    assert parts_told_first(*acting) == first

"""Which facts are written before the acts of a plan, and which may be told after them."""

import pytest

from grove.api.meta import Uid
from grove.api.resources import PODCLIQUES
from grove.controller.loop import facts_first
from grove.planner.actions import WHOLE_SET, Chain, Plan, StatusWrite, Urgency


def fact(part: int, urgency: Urgency = Urgency.FACT) -> StatusWrite:
    name = f"{urgency} of {part}"
    return StatusWrite(
        resource=PODCLIQUES,
        namespace="default",
        name=name,
        uid=Uid(name),
        resource_version="1",
        patch={},
        urgency=urgency,
        part=part,
    )


def parts_told_first(*acting: int) -> list[int]:
    told = [fact(0), fact(1), fact(WHOLE_SET), fact(0, Urgency.NEWS), fact(1, Urgency.COUNT)]
    chains = tuple(Chain(key=str(part), part=part, stages=()) for part in acting)
    return [status.part for status in facts_first(Plan(chains=chains, statuses=tuple(told)))]


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

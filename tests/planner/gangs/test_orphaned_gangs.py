"""Gangs that an older version left without a word about their replica."""

import msgspec
import pytest

from grove.api.types.meta import Uid
from grove.planner.gangs.orphaned_gangs import plan_orphaned_gangs
from tests.dsl import NOW, appendix_a, gang, group, replica, snapshot, told

WHY = "left by an older version, and no replica needs it"


@pytest.mark.parametrize(
    ("names", "group_replicas", "gone"),
    [
        pytest.param(("p-0", "p-0-g-0"), 2, [], id="both are asked for: their replica takes them up"),
        pytest.param(("p-0", "p-0-g-0"), 1, ["p-0-g-0"], id="the group was scaled in"),
        pytest.param(("p-0", "p-1"), 2, ["p-1"], id="the set was scaled in"),
        pytest.param((), 2, [], id="none"),
    ],
)
def test_a_gang_without_a_replica_goes_when_nobody_asks_for_it(
    names: tuple[str, ...], group_replicas: int, gone: list[str]
) -> None:
    seen = snapshot(appendix_a(), replica(groups=[group("p-0-g", replicas=group_replicas)]))
    seen = msgspec.structs.replace(seen, orphaned_gangs=tuple(gang(name=name, labels={}) for name in names))
    assert told(plan_orphaned_gangs(seen)) == [f"strays 0: delete podgangs/{name} ({WHY})" for name in gone]


def test_a_gang_that_leaves_already_is_not_deleted_again() -> None:
    terminating = gang(name="p-7", labels={}, uid=Uid("x"), deletion_timestamp=NOW)
    assert plan_orphaned_gangs(msgspec.structs.replace(snapshot(appendix_a()), orphaned_gangs=(terminating,))) == ()

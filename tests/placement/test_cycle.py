"""Whole cycles: minima all or nothing, room kept for gangs about to come, extras last."""

from typing import Any

import pytest

from grove.placement.capacity import Cluster
from grove.placement.cycle import schedule
from grove.placement.types import Decisions, GangDemand, WaitReason
from tests.placement.worlds import decide, gang, gang_name, group, node, nodes, pod, pods


@pytest.mark.parametrize(("node_count", "placed_count"), [(9, 0), (10, 10), (11, 10)])
def test_a_gang_is_placed_whole_or_not_at_all(node_count: int, placed_count: int) -> None:
    placed, waiting = decide(nodes(node_count), gang("g", group("a", 4, 4), group("b", 6, 6)))
    assert len(placed) == placed_count
    assert len(waiting) == 10 - placed_count


def test_a_gang_that_does_not_fit_does_not_hold_up_the_next() -> None:
    large, small = gang("large", group("l", 3, 3), age=9), gang("small", group("s", 2, 2))
    placed, waiting = decide(nodes(2), large, small)
    assert placed == {"s-0": "n0", "s-1": "n1"}
    assert sorted(waiting) == ["l-0", "l-1", "l-2"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param({"priority": 1}, {"age": 9}, id="priority before age"),
        pytest.param({"age": 1}, {}, id="older before younger"),
        pytest.param({}, {}, id="name decides the rest"),
    ],
)
def test_gangs_come_by_priority_then_age_then_name(first: dict[str, Any], second: dict[str, Any]) -> None:
    one, two = gang("a", group("a", 1, 1), **first), gang("b", group("b", 1, 1), **second)
    assert decide(nodes(1), two, one)[0] == {"a-0": "n0"}


def test_minima_of_all_gangs_come_before_any_extra() -> None:
    old, young = gang("old", group("o", 1, 3), age=9), gang("young", group("y", 2, 2))
    placed, waiting = decide(nodes(4), old, young)
    assert sorted(placed) == ["o-0", "o-1", "y-0", "y-1"]
    assert list(waiting) == ["o-2"]


@pytest.mark.parametrize(("scheduled", "placed"), [(0, []), (1, ["a-0"]), (2, ["a-0"])])
def test_pods_that_already_run_count_towards_the_minimum(scheduled: int, placed: list[str]) -> None:
    assert sorted(decide(nodes(1), gang("g", group("a", 2, 1, scheduled_count=scheduled)))[0]) == placed


def test_extras_wait_while_the_minimum_waits() -> None:
    placed, waiting = decide(nodes(2), gang("g", group("a", 1, 2), group("b", 2, 2)))
    assert placed == {}
    assert sorted(waiting) == ["a-0", "a-1", "b-0", "b-1"]


def test_a_gang_with_a_missing_or_gated_minimum_is_not_tried() -> None:
    incomplete = gang("g", group("a", 2, 2), group("b", 3, 1, behind_our_gate=pods("gated", 1)))
    reason = "waits for its gang: b needs 3 pods, 1 can be placed, 1 still gated"
    decisions = schedule(Cluster(nodes(9)), [incomplete])
    assert decisions.bindings == ()
    assert [(u.reason, u.message, u.gang) for u in decisions.unplaced] == [
        (WaitReason.GANG_IS_INCOMPLETE, reason, gang_name("g"))
    ]


def test_one_pod_is_not_called_pods() -> None:
    _, waiting = decide(nodes(9), gang("g", group("a", 1, 0, behind_our_gate=pods("gated", 1)), group("b", 1, 1)))
    assert set(waiting.values()) == {"waits for its gang: a needs 1 pod, 0 can be placed, 1 still gated"}


def scaled(name: str, *, base_is_scheduled: bool = False) -> GangDemand:
    gated = group(name, 2, behind_our_gate=pods(name, 2))
    return gang(name, gated, base="base", base_is_scheduled=base_is_scheduled)


@pytest.mark.parametrize(
    ("node_count", "base_count"), [(1, 1), (2, 2), (3, 1), (4, 2), (5, 1), (6, 2), (8, 4), (9, 5), (10, 5)]
)
def test_room_is_kept_for_scaled_gangs_whose_gate_is_about_to_go(node_count: int, base_count: int) -> None:
    """A minimum of one with four extras, two scaled gangs of two: the gangs come first as far as they fit whole."""
    base = gang("base", group("b", 1, 5), age=9)
    placed, _ = decide(nodes(node_count), base, scaled("s1"), scaled("s2"))
    assert list(placed) == [f"b-{index}" for index in range(base_count)]


def test_nothing_is_kept_for_a_scaled_gang_whose_base_waits() -> None:
    base = gang("base", group("b", 9, 9))
    other = gang("other", group("o", 1, 3))
    assert sorted(decide(nodes(3), base, scaled("s"), other)[0]) == ["o-0", "o-1", "o-2"]


def test_room_is_kept_when_the_base_was_scheduled_before_this_cycle() -> None:
    other = gang("other", group("o", 1, 3))
    placed, waiting = decide(nodes(3), scaled("s", base_is_scheduled=True), other)
    assert sorted(placed) == ["o-0"]
    assert waiting == dict.fromkeys(
        ("o-1", "o-2"),
        "0/3 nodes are available: 3 do not have enough free cpu; capacity is reserved for the minimum of s",
    )


def test_a_waiting_pod_is_not_told_a_hundred_names() -> None:
    kept = [scaled(f"s{index}", base_is_scheduled=True) for index in range(5)]
    message = decide(nodes(10), *kept, ungrouped_pods=[pod("p")])[1]["p"]
    assert message.endswith("capacity is reserved for the minimum of s0, s1, s2 and 2 more")


def test_nothing_is_kept_behind_another_controllers_gate() -> None:
    half = group("h", 2, behind_our_gate=pods("h", 1), behind_other_gates_count=1)
    held = gang("held", half, base="base", base_is_scheduled=True)
    assert len(decide(nodes(3), held, gang("other", group("o", 1, 3)))[0]) == 3


def test_extras_of_base_gangs_come_before_those_of_scaled_ones() -> None:
    base = gang("base", group("b", 1, 2))
    older = gang("scaled", group("s", 1, 2), age=9, base="base", base_is_scheduled=True)
    assert sorted(decide(nodes(3), older, base)[0]) == ["b-0", "b-1", "s-0"]


def test_pods_without_a_gang_take_turns_with_extras_by_priority_and_age() -> None:
    extra = gang("g", group("a", 1, 2), age=5)
    older, younger, urgent = pod("older", age=9), pod("younger"), pod("urgent", priority=1)
    assert list(decide(nodes(2), extra, ungrouped_pods=[younger, older, urgent])[0]) == ["a-0", "urgent"]
    assert list(decide(nodes(3), extra, ungrouped_pods=[younger, older, urgent])[0]) == ["a-0", "urgent", "older"]
    assert list(decide(nodes(4), extra, ungrouped_pods=[younger, older, urgent])[0]) == [
        "a-0",
        "urgent",
        "older",
        "a-1",
    ]


def test_one_node_is_filled_before_the_next() -> None:
    world = [node("b", slots=2), node("a", slots=2)]
    assert decide(world, ungrouped_pods=pods("p", 3))[0] == {"p-0": "a", "p-1": "a", "p-2": "b"}


def test_large_pods_of_a_gang_are_placed_before_small_ones() -> None:
    small, large = pods("small", 2), pods("large", 1, cpu=2)
    placed, _ = decide([node("a", slots=2), node("b", slots=2)], gang("g", group("s", 2, small), group("l", 1, large)))
    assert placed == {"large-0": "a", "small-0": "b", "small-1": "b"}


def test_deciding_changes_nothing_in_the_cluster() -> None:
    cluster = Cluster(nodes(2))
    question = [gang("g", group("a", 2, 3))]
    first: Decisions = schedule(cluster, question)
    assert schedule(cluster, question) == first
    assert cluster.free == Cluster(nodes(2)).free


def test_a_cluster_followed_step_by_step_equals_one_seen_at_once() -> None:
    followed = Cluster()
    one, two = pods("p", 2)
    followed.place(one, "n0")
    followed.set_node(node("n0", slots=1))
    followed.set_node(node("n0", slots=2))
    followed.place(two, "n0")
    followed.remove(one.uid)
    seen = Cluster([node("n0", slots=2)])
    seen.place(two, "n0")
    assert followed.free == seen.free
    assert (followed.node_of(one.uid), followed.node_of(two.uid)) == (None, "n0")


def test_pods_of_a_node_that_went_away_are_counted_when_it_comes_back() -> None:
    cluster = Cluster(nodes(1))
    cluster.place(pod("p"), "n0")
    cluster.remove_node("n0")
    assert decide(cluster, ungrouped_pods=[pod("q")]) == ({}, {"q": "0/0 nodes are available: there are none"})
    cluster.set_node(node("n0"))
    assert decide(cluster, ungrouped_pods=[pod("q")])[0] == {}

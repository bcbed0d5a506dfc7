"""The words: the binding constraint, with numbers."""

from typing import Any

import pytest

from grove.placement.types import PODS, NodeView, SchedulingClass, Taint
from grove.placement.unschedulable_reasons import describe, describe_requests
from tests.placement.worlds import RACK, decide, gang, group, node, nodes, pod, pods, required, shape

MEBI = 1000 << 20


def small_node(name: str) -> NodeView:
    return NodeView(name=name, allocatable={"memory": 150 * MEBI, PODS: 110_000})


def test_a_gang_that_lacks_one_node_says_so() -> None:
    asking = SchedulingClass(requests=(("memory", 80 * MEBI), (PODS, 1000)))
    ten = tuple(pod(f"p{index}", shape=asking) for index in range(10))
    message = "needs 10 pods of memory=80Mi together, 9 fit: 9 of 9 nodes do not have enough free memory"
    world = [small_node(f"n{index}") for index in range(9)]
    assert set(decide(world, gang("g", group("a", 10, ten)))[1].values()) == {message}


@pytest.mark.parametrize(
    ("world", "asks", "message"),
    [
        pytest.param([], {}, "0/0 nodes are available: there are none", id="no nodes"),
        pytest.param([node("a", slots=0)], {}, "never fits: no node has cpu, the pod asks for 1", id="too small"),
        pytest.param(
            [node("a", slots=0), node("b", is_cordoned=True), node("c", is_cordoned=True), node("d", is_ready=False)],
            {},
            "0/4 nodes are available: 2 are cordoned, 1 is not ready, 1 is too small even when empty (cpu)",
            id="counted per reason, most frequent first",
        ),
        pytest.param(
            [node("a", taints=(Taint(key="k"),))],
            {},
            "0/1 nodes are available: 1 carries the untolerated taint k:NoSchedule",
            id="taint",
        ),
        pytest.param(
            [node("a"), node("b")],
            {"node_selector": (("disk", "ssd"),)},
            "0/2 nodes are available: 2 lack the label disk=ssd of the node selector",
            id="selector",
        ),
        pytest.param(
            [node("a"), node("b")],
            {"node_terms": ()},
            "0/2 nodes are available: 2 do not match the required node affinity",
            id="affinity",
        ),
        pytest.param(
            [node("a")],
            {"gpu": 1},
            "never fits: no node has nvidia.com/gpu, the pod asks for 1",
            id="extended resource",
        ),
    ],
)
def test_a_pod_that_finds_no_node_is_told_why(world: list[NodeView], asks: dict[str, Any], message: str) -> None:
    assert decide(world, ungrouped_pods=[pod("p", shape=shape(**asks))]) == ({}, {"p": message})


def test_a_gang_of_unlike_pods_names_the_one_that_does_not_fit() -> None:
    mixed = gang("g", group("a", 2, 2), group("b", 1, pods("b", 1, cpu=4)))
    assert decide(nodes(3, slots=2), mixed)[1]["a-0"] == (
        "never fits: the largest node has 2 cpu, the pod asks for 4"
    )  # fmt: skip


def test_a_gang_without_nodes_says_so() -> None:
    assert decide([], gang("g", group("a", 1, 1)))[1]["a-0"] == (
        "needs 1 pod of cpu=1 together, 0 fit: there are no nodes"
    )


def test_a_pod_above_the_minimum_that_only_its_pack_constraint_keeps_waiting_names_the_constraint() -> None:
    packed = gang("g", group("a", 0, 1), pack=required(RACK))
    assert decide(nodes(2), packed) == (
        {},
        {"a-0": f"a-0 needs 1 pod of cpu=1 together on one rack ({RACK}), but no node has that label"},
    )


def test_requests_read_as_users_write_them() -> None:
    asking = SchedulingClass(requests=(("cpu", 500), ("memory", 3 * MEBI), ("nvidia.com/gpu", 8000), (PODS, 1000)))
    assert describe_requests(asking) == "cpu=500m, memory=3Mi, nvidia.com/gpu=8"
    assert describe((pod("p", shape=SchedulingClass()), pod("q", shape=SchedulingClass()))) == "2 pods"

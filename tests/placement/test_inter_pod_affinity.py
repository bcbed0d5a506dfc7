"""Pods that attract or repel each other."""

import pytest

from grove.placement.capacity import Cluster
from grove.placement.inter_pod_affinity import MOST_TERMS
from grove.placement.types import NodeRequirement, PodTerm, SchedulingClass, WeightedPodTerm
from tests.placement.worlds import HOST, RACK, decide, gang, group, node, pod, shape


def term(key: str = HOST, *, app: str = "web", namespaces: tuple[str, ...] | None = ("default",)) -> PodTerm:
    wanted = NodeRequirement(key="app", operator="In", values=(app,))
    return PodTerm(topology_key=key, requirements=(wanted,), namespaces=namespaces)


def alone(key: str = HOST) -> SchedulingClass:
    return shape(anti_affinity=(term(key),))


def near(key: str = HOST) -> SchedulingClass:
    return shape(affinity=(term(key),))


WORLD = [node(f"r{rack}n{index}", rack=f"r{rack}", slots=4) for rack in range(2) for index in range(2)]
WEB = {"app": "web"}


def test_pods_that_repel_each_other_take_a_node_each() -> None:
    waiting = [pod(f"p{index}", shape=alone(), labels=WEB) for index in range(5)]
    placed, reasons = decide(WORLD, ungrouped_pods=waiting)
    assert placed == {"p0": "r0n0", "p1": "r0n1", "p2": "r1n0", "p3": "r1n1"}
    assert reasons == {"p4": "0/4 nodes are available: 4 have pods that its pod anti-affinity avoids"}


def test_anti_affinity_reaches_as_far_as_its_topology_key() -> None:
    waiting = [pod(f"p{index}", shape=alone(RACK), labels=WEB) for index in range(3)]
    assert decide(WORLD, ungrouped_pods=waiting)[0] == {"p0": "r0n0", "p1": "r1n0"}


def test_anti_affinity_is_symmetric() -> None:
    """The plain pod does not mind, but the one that runs already does."""
    cluster = Cluster([node("a", slots=4)])
    cluster.place(pod("loner", shape=alone()), "a")
    plain = pod("plain", labels=WEB)
    assert decide(cluster, ungrouped_pods=[plain]) == (
        {},
        {"plain": "0/1 nodes are available: 1 has pods whose anti-affinity avoids it"},
    )
    assert decide(cluster, ungrouped_pods=[pod("other", labels={"app": "db"})])[0] == {"other": "a"}
    cluster.remove(pod("loner").uid)
    assert decide(cluster, ungrouped_pods=[plain])[0] == {"plain": "a"}


def test_affinity_follows_a_running_pod() -> None:
    cluster = Cluster(WORLD)
    cluster.place(pod("server", labels=WEB), "r1n0")
    assert decide(cluster, ungrouped_pods=[pod("p", shape=near())])[0] == {"p": "r1n0"}
    assert decide(cluster, ungrouped_pods=[pod("p", shape=near(RACK))])[0] == {"p": "r1n0"}


def test_affinity_to_nobody_waits() -> None:
    message = "0/4 nodes are available: 4 do not satisfy the pod affinity"
    assert decide(WORLD, ungrouped_pods=[pod("p", shape=near())]) == ({}, {"p": message})


def test_the_first_of_a_group_that_wants_to_be_together_may_start_it() -> None:
    waiting = [pod(f"p{index}", shape=near(), labels=WEB) for index in range(3)]
    assert decide(WORLD, ungrouped_pods=waiting)[0] == {"p0": "r0n0", "p1": "r0n0", "p2": "r0n0"}


def test_a_pod_finds_its_company_within_its_gang() -> None:
    follower, server = (pod("follower", shape=near()),), (pod("server", labels=WEB),)
    placed, _ = decide(WORLD, gang("g", group("a", 1, follower), group("b", 1, server)))
    assert placed == {"server": "r0n0", "follower": "r0n0"}


def test_a_gang_that_wants_to_be_together_finds_the_domain_with_room_for_all() -> None:
    world = [node("a", rack="r0", slots=2), node("b", rack="r1", slots=3)]
    three = tuple(pod(f"p{index}", shape=near(RACK), labels=WEB) for index in range(3))
    assert decide(world, gang("g", group("a", 3, three)))[0] == {"p0": "b", "p1": "b", "p2": "b"}


def test_a_gang_that_repels_itself_is_all_or_nothing_too() -> None:
    five = tuple(pod(f"p{index}", shape=alone(), labels=WEB) for index in range(5))
    placed, waiting = decide(WORLD, gang("g", group("a", 5, five)))
    assert placed == {}
    assert waiting["p0"] == (
        "needs 5 pods of cpu=1 together, 4 fit: 4 of 4 nodes have pods that its pod anti-affinity avoids"
    )
    assert len(decide(WORLD, gang("g", group("a", 4, five[:4])))[0]) == 4


@pytest.mark.parametrize(
    ("namespaces", "placed"),
    [
        pytest.param(("default",), {}, id="its own"),
        pytest.param(("other",), {"p": "a"}, id="another"),
        pytest.param(None, {}, id="all"),
    ],
)
def test_a_term_looks_into_its_namespaces(namespaces: tuple[str, ...] | None, placed: dict[str, str]) -> None:
    cluster = Cluster([node("a", slots=4)])
    cluster.place(pod("server", labels=WEB), "a")
    asking = pod("p", shape=shape(anti_affinity=(term(namespaces=namespaces),)))
    assert decide(cluster, ungrouped_pods=[asking])[0] == placed


@pytest.mark.parametrize(("weight", "chosen"), [(5, "r1n0"), (-5, "r0n0")])
def test_preferred_affinity_chooses_among_nodes_with_room(weight: int, chosen: str) -> None:
    cluster = Cluster(WORLD)
    cluster.place(pod("server", labels=WEB), "r1n0")
    wish = shape(preferred_pods=(WeightedPodTerm(weight=weight, term=term()),))
    assert decide(cluster, ungrouped_pods=[pod("p", shape=wish)])[0] == {"p": chosen}


def test_counts_follow_a_node_that_is_relabelled_or_lost() -> None:
    cluster = Cluster(WORLD)
    cluster.place(pod("server", labels=WEB), "r1n0")
    assert decide(cluster, ungrouped_pods=[pod("p", shape=near(RACK))])[0] == {"p": "r1n0"}
    cluster.set_node(node("r1n0", rack="r0", slots=4))
    assert decide(cluster, ungrouped_pods=[pod("p", shape=near(RACK))])[0] == {"p": "r0n0"}
    cluster.remove_node("r1n0")
    assert decide(cluster, ungrouped_pods=[pod("p", shape=near(RACK))])[0] == {}


def test_a_term_without_a_selector_matches_nobody() -> None:
    cluster = Cluster([node("a", slots=4)])
    cluster.place(pod("server", labels=WEB), "a")
    nobody = PodTerm(topology_key=HOST, namespaces=None, has_selector=False)
    assert decide(cluster, ungrouped_pods=[pod("p", shape=shape(anti_affinity=(nobody,)))])[0] == {"p": "a"}


def test_many_different_terms_are_counted_each_for_itself() -> None:
    """More terms than are kept: those of this cycle are never dropped."""
    count = MOST_TERMS + 1
    cluster = Cluster([node("a", slots=count), node("b", slots=count)])
    for index in range(count):
        cluster.place(pod(f"server-{index}", labels={"app": f"app-{index}"}), "a")
    asking = [pod(f"p-{index}", shape=shape(anti_affinity=(term(app=f"app-{index}"),))) for index in range(count)]
    assert set(decide(cluster, ungrouped_pods=asking[:1])[0].values()) == {"b"}
    assert list(decide(cluster, ungrouped_pods=asking)[0].values()) == ["b"] * count

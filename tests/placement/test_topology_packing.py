"""Packing: required and preferred domains, at gang, pack group and pod group level."""

import pytest

from grove.placement.types import NodeView, Pack
from tests.placement.worlds import RACK, ZONE, decide, gang, group, node, pods, preferred, required, together


def racks(*sizes: int, slots: int = 1, zone: str = "") -> list[NodeView]:
    """Racks r0, r1, ... with that many nodes each."""
    return [
        node(f"{zone}r{rack}n{index}", rack=f"{zone}r{rack}", zone=zone, slots=slots)
        for rack, size in enumerate(sizes)
        for index in range(size)
    ]


def racks_of(placed: dict[str, str]) -> dict[str, str]:
    return {pod: node.split("n")[0] for pod, node in placed.items()}


@pytest.mark.parametrize(
    ("sizes", "used"),
    [
        pytest.param((3, 4), {"r1"}, id="the one with room"),
        pytest.param((5, 4), {"r1"}, id="the tightest with room"),
        pytest.param((4, 4), {"r0"}, id="of equals the first"),
        pytest.param((3, 3), set(), id="none has room"),
    ],
)
def test_a_required_domain_holds_the_whole_gang_or_it_waits(sizes: tuple[int, ...], used: set[str]) -> None:
    placed, waiting = decide(racks(*sizes), gang("g", group("a", 2, 2), group("b", 2, 2), pack=required(RACK)))
    assert set(racks_of(placed).values()) == used
    assert len(waiting) == (0 if used else 4)


def test_nodes_without_the_label_are_in_no_domain() -> None:
    world = [node("a"), node("b"), node("c", rack="r0")]
    assert decide(world, gang("g", group("a", 1, 1), pack=required(RACK)))[0] == {"a-0": "c"}


def test_pods_already_placed_fix_the_required_domain() -> None:
    half = group("a", 2, 1, scheduled_count=1, nodes=("r0n0",))
    assert racks_of(decide(racks(2, 1), gang("g", half, pack=required(RACK)))[0]) == {"a-0": "r0"}
    full = decide([node("r0n0", rack="r0", slots=0), *racks(0, 3)], gang("g", half, pack=required(RACK)))
    assert full == (
        {},
        {
            "a-0": "g needs 1 pod of cpu=1 together on one rack (topology.kubernetes.io/rack), where its placed pods "
            "are: rack=r0 has capacity for 0"
        },
    )


def test_extras_stay_in_the_required_domain_of_their_mates() -> None:
    placed, waiting = decide(racks(2, 1), gang("g", group("a", 2, 3), pack=required(RACK)))
    assert racks_of(placed) == {"a-0": "r0", "a-1": "r0"}
    assert waiting == {
        "a-2": "0/3 nodes are available in rack=r0: 2 do not have enough free cpu, 1 is in another domain"
    }


def test_each_pod_group_may_have_a_domain_of_its_own() -> None:
    groups = [group(name, 2, 2, pack=required(RACK)) for name in ("a", "b")]
    placed, _ = decide(racks(2, 1, 2), gang("g", *groups))
    assert racks_of(placed) == {"a-0": "r0", "a-1": "r0", "b-0": "r2", "b-1": "r2"}


def test_pack_groups_hold_their_pod_groups_together() -> None:
    groups = [group(name, 1, 1) for name in ("a0", "b0", "a1", "b1", "solo")]
    pack_groups = (
        together("first", "a0", "b0", pack=required(RACK)),
        together("second", "a1", "b1", pack=required(RACK)),
    )
    placed, _ = decide(racks(2, 1, 2), gang("g", *groups, pack_groups=pack_groups))
    assert racks_of(placed) == {"a0-0": "r0", "b0-0": "r0", "a1-0": "r2", "b1-0": "r2", "solo-0": "r1"}


def test_scopes_nest() -> None:
    """The gang in one zone, each pod group in one rack of it."""
    groups = [group(name, 2, 2, pack=required(RACK)) for name in ("a", "b")]
    world = [*racks(2, 1, 1, zone="x"), *racks(2, 2, zone="y")]
    placed, _ = decide(world, gang("g", *groups, pack=required(ZONE)))
    assert racks_of(placed) == {"a-0": "yr0", "a-1": "yr0", "b-0": "yr1", "b-1": "yr1"}


@pytest.mark.parametrize(
    ("sizes", "used"),
    [
        pytest.param((1, 4), ["r1"], id="one domain if one fits"),
        pytest.param((1, 3), ["r1", "r0"], id="else the one with most room first"),
        pytest.param((1, 1, 2), ["r2", "r0", "r1"], id="as few as possible"),
    ],
)
def test_a_preferred_domain_is_kept_as_far_as_possible(sizes: tuple[int, ...], used: list[str]) -> None:
    placed, _ = decide(racks(*sizes), gang("g", group("a", 4, 4), pack=preferred(RACK)))
    assert list(dict.fromkeys(racks_of(placed).values())) == used
    assert len(placed) == 4


def test_preferred_inside_required() -> None:
    world = [*racks(1, 1, 1, 1, zone="x"), *racks(1, 3, zone="y")]
    placed, _ = decide(world, gang("g", group("a", 3, 3), pack=Pack(required=ZONE, preferred=RACK)))
    assert set(racks_of(placed).values()) == {"yr1"}


def test_a_preferred_domain_never_makes_a_gang_wait() -> None:
    placed, waiting = decide([*racks(1, 1), node("zz")], gang("g", group("a", 3, 3), pack=preferred(RACK)))
    assert (len(placed), waiting) == (3, {})


def test_extras_prefer_the_domain_of_their_mates() -> None:
    half = group("a", 1, 2, scheduled_count=1, nodes=("r1n0",))
    world = [*racks(2), node("r1n1", rack="r1"), node("r1n0", rack="r1", slots=0)]
    placed, _ = decide(world, gang("g", half, pack=preferred(RACK)))
    assert placed == {"a-0": "r1n1", "a-1": "r0n0"}


def test_the_largest_part_of_a_gang_chooses_its_domain_first() -> None:
    small, large = group("a", 1, 1, pack=required(RACK)), group("b", 3, 3, pack=required(RACK))
    assert len(decide(racks(3, 1), gang("g", small, large))[0]) == 4


def test_the_explanation_names_the_best_domain() -> None:
    world = [node(f"n{index}", rack=f"r{index // 3}", gpu=8) for index in range(5)]
    training = gang("train", group("w", 4, pods("w", 4, cpu=0, gpu=8)), pack=required(RACK))
    reason = (
        "train needs 4 pods of nvidia.com/gpu=8 together on one rack (topology.kubernetes.io/rack), "
        "the best rack has capacity for 3 (rack=r0)"
    )
    assert decide(world, training) == ({}, {f"w-{index}": reason for index in range(4)})


def test_a_label_nobody_has_is_named() -> None:
    message = decide([node("n")], gang("g", group("a", 1, 1, pack=required("rack"))))[1]["a-0"]
    assert message == "a needs 1 pod of cpu=1 together on one rack (rack), but no node has that label"

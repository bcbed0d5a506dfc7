"""What must hold for every cluster and every queue."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from grove.placement.capacity import Cluster
from grove.placement.cycle import schedule
from grove.placement.types import Decisions, GangDemand, GroupDemand, NodeView
from tests.placement.worlds import RACK, gang, group, node, pod, pods, required


@st.composite
def worlds(draw: st.DrawFn) -> list[NodeView]:
    sizes = draw(st.lists(st.integers(0, 6), max_size=8))
    return [
        node(f"n{index}", slots=size, rack=draw(st.sampled_from(["", "r0", "r1", "r2"])), is_cordoned=size == 6)
        for index, size in enumerate(sizes)
    ]


@st.composite
def gangs(draw: st.DrawFn, cpus: st.SearchStrategy[int]) -> list[GangDemand]:
    return [
        gang(
            f"g{index}",
            *(_group(draw, f"g{index}-{part}", cpus) for part in range(draw(st.integers(1, 3)))),
            age=draw(st.integers(0, 3)),
            priority=draw(st.integers(0, 1)),
            pack=draw(st.sampled_from([None, required(RACK)])),
        )
        for index in range(draw(st.integers(0, 4)))
    ]


def _group(draw: st.DrawFn, name: str, cpus: st.SearchStrategy[int]) -> GroupDemand:
    pending = tuple(pod(f"{name}-{index}", cpu=draw(cpus)) for index in range(draw(st.integers(0, 4))))
    gated = pods(f"{name}-gated", draw(st.integers(0, 1)))
    pack = draw(st.sampled_from([None, required(RACK)]))
    return group(name, draw(st.integers(0, 4)), pending, behind_our_gate=gated, pack=pack)


def nodes_of(decisions: Decisions) -> dict[str, str]:
    return {binding.pod.name: binding.node for binding in decisions.bindings}


@settings(deadline=None)
@given(worlds(), gangs(st.integers(1, 3)), st.integers(0, 5))
def test_no_node_is_ever_given_more_than_it_has(
    world: list[NodeView], queue: list[GangDemand], loner_count: int
) -> None:
    decisions = schedule(Cluster(world), queue, pods("loner", loner_count))
    after = Cluster(world)
    for binding in decisions.bindings:
        after.place(binding.pod, binding.node)
    assert all(amount >= 0 for free in after.free.values() for amount in free.values())
    assert not any(after.nodes[binding.node].is_cordoned for binding in decisions.bindings)


@settings(deadline=None)
@given(worlds(), gangs(st.integers(1, 3)), st.integers(0, 5))
def test_every_waiting_pod_is_placed_or_told_why_exactly_once(
    world: list[NodeView], queue: list[GangDemand], loner_count: int
) -> None:
    ungrouped_pods = pods("loner", loner_count)
    decisions = schedule(Cluster(world), queue, ungrouped_pods)
    answered = [b.pod.name for b in decisions.bindings] + [p.name for u in decisions.unplaced for p in u.pods]
    waiting = [p.name for g in queue for part in g.groups for p in part.pending] + [p.name for p in ungrouped_pods]
    assert sorted(answered) == sorted(waiting)
    assert all(unplaced.message for unplaced in decisions.unplaced)


@settings(deadline=None)
@given(worlds(), gangs(st.integers(1, 3)))
def test_a_gang_gets_its_whole_minimum_or_nothing(world: list[NodeView], queue: list[GangDemand]) -> None:
    placed = nodes_of(schedule(Cluster(world), queue))
    for each in queue:
        counts = [sum(p.name in placed for p in part.pending) for part in each.groups]
        assert not any(counts) or all(
            count >= part.min_replicas for count, part in zip(counts, each.groups, strict=True)
        )


@settings(deadline=None)
@given(worlds(), gangs(st.integers(1, 3)))
def test_required_domains_are_respected(world: list[NodeView], queue: list[GangDemand]) -> None:
    placed = nodes_of(schedule(Cluster(world), queue))
    rack_of = {each.name: each.labels.get(RACK) for each in world}
    for each in queue:
        packed = [each.groups] if each.pack else [(part,) for part in each.groups if part.pack]
        for parts in packed:
            racks = {rack_of[placed[p.name]] for part in parts for p in part.pending if p.name in placed}
            assert len(racks) <= 1
            assert None not in racks


@settings(deadline=None)
@given(worlds(), gangs(st.just(1)), st.integers(0, 9))
def test_extras_and_lone_pods_never_take_room_from_a_minimum(
    world: list[NodeView], queue: list[GangDemand], loner_count: int
) -> None:
    """The minima are placed as if nobody else were there."""
    bare = [gang_without_extras(each) for each in queue]
    alone = nodes_of(schedule(Cluster(world), bare))
    crowded = nodes_of(schedule(Cluster(world), queue, pods("loner", loner_count, priority=9)))
    assert alone.items() <= crowded.items()


def gang_without_extras(each: GangDemand) -> GangDemand:
    parts = tuple(replace(part, pending=part.pending[: part.needed_count]) for part in each.groups)
    return replace(each, groups=parts)


@settings(deadline=None)
@given(st.integers(0, 9), st.integers(1, 9))
def test_a_plain_gang_is_placed_exactly_when_there_is_room(slots: int, size: int) -> None:
    world = [node("a", slots=slots // 2), node("b", slots=slots - slots // 2)]
    assert bool(nodes_of(schedule(Cluster(world), [gang("g", group("a", size, size))]))) == (size <= slots)


@settings(deadline=None)
@given(worlds(), gangs(st.integers(1, 3)))
def test_the_order_in_which_things_are_heard_of_does_not_matter(world: list[NodeView], queue: list[GangDemand]) -> None:
    assert schedule(Cluster(world), queue) == schedule(Cluster(reversed(world)), reversed(queue))

"""Native gangs when somebody interferes: objects deleted by hand, nodes gone, feature gates switched, odd scales."""

from collections.abc import Awaitable, Callable

import pytest

from grove.api import labels
from grove.api.resources import (
    NATIVE_COMPOSITES,
    NATIVE_PODGROUPS,
    PODCLIQUES,
    PODCLIQUESETS,
    PODGANGS,
    PODS,
)
from grove.api.types.meta import JsonObject, find_condition
from grove.backends.native_podgroups import NativeFeatures
from grove.sim.virtual_clock import run_virtual
from tests.backends.native_stories import a_set, clique, expect_placed, lose, pair, patch_set, placed, pods_of
from tests.backends.native_world import COMPOSITES, GROUPS_ONLY, SWITCHED_OFF, NativeWorld, policy_of
from tests.simulation.stories import ONE_POD_NODE, REST_SECONDS

both = pytest.mark.parametrize(
    "features", [pytest.param(COMPOSITES, id="composites"), pytest.param(GROUPS_ONLY, id="groups only")]
)


def play(story: Callable[[NativeWorld], Awaitable[None]], nodes: int, features: NativeFeatures = COMPOSITES) -> None:
    """Tell a story; at its end all rules held, and at rest nothing is written."""

    async def main() -> None:
        async with NativeWorld(features, seed=1, nodes=nodes, node_resources=ONE_POD_NODE) as world:
            await story(world)
            await world.settle()
            world.rules.check()
            world.rules.check_rest()
            before = len(world.writes_by("operator"))
            await world.clock.sleep(REST_SECONDS)
            assert len(world.writes_by("operator")) == before

    run_virtual(main())


def gang_of_four() -> JsonObject:
    return a_set(clique("a", 4, 2), clique("b", 1, 1))


# --- deleted by hand -------------------------------------------------------------------------------------------------


@both
def test_a_gang_that_is_deleted_by_hand_comes_back_and_its_pods_stay(features: NativeFeatures) -> None:
    async def story(world: NativeWorld) -> None:
        await world.apply(pair())
        await expect_placed(world, 6)
        before = {pod.metadata.uid for pod in world.pods()}
        await world.delete(PODGANGS, "s-0")
        await expect_placed(world, 6)
        assert {pod.metadata.uid for pod in world.pods()} == before
        await world.client.delete(PODS, "default", pods_of(world, "s-0-g-0-b")[0].metadata.name)
        await expect_placed(world, 6)

    play(story, 6, features)


@both
def test_a_waiting_gang_that_is_deleted_by_hand_is_placed_whole_later(features: NativeFeatures) -> None:
    async def story(world: NativeWorld) -> None:
        await world.apply(pair())
        await expect_placed(world, 0)
        await world.delete(PODGANGS, "s-0")
        await expect_placed(world, 0)
        await world.add_nodes(4)
        await expect_placed(world, 6)

    play(story, 2, features)


@both
def test_groups_that_are_deleted_by_hand_come_back_relaxed(features: NativeFeatures) -> None:
    async def story(world: NativeWorld) -> None:
        await world.apply(pair())
        await expect_placed(world, 6)
        for name in world.groups:
            await world.delete(NATIVE_PODGROUPS, name)
        for name in world.roots:
            await world.delete(NATIVE_COMPOSITES, name)
        await expect_placed(world, 6)
        assert {str(policy_of(root)) for root in world.roots.values()} <= {"{'basic': {}}"}
        for name in ("s-0-a", "s-0-g-0-b", "s-0-g-1-c"):
            await world.client.delete(PODS, "default", pods_of(world, name)[0].metadata.name)
        await expect_placed(world, 6)

    play(story, 6, features)


def test_the_root_of_a_waiting_gang_that_is_deleted_by_hand_comes_back_as_it_was() -> None:
    async def story(world: NativeWorld) -> None:
        await world.apply(pair())
        await expect_placed(world, 0)
        (before,) = (root for root in world.roots.values() if root.metadata.labels[labels.PODGANG] == "s-0")
        await world.delete(NATIVE_COMPOSITES, before.metadata.name)
        await expect_placed(world, 0)
        assert policy_of(world.roots[before.metadata.name]) == {"gang": {"minGroupCount": 3}}
        await world.add_nodes(4)
        await expect_placed(world, 6)

    play(story, 2)


@both
def test_a_clique_that_is_deleted_by_hand_comes_back_whole_and_holds_up_nobody(features: NativeFeatures) -> None:
    async def story(world: NativeWorld) -> None:
        await world.apply(a_set(clique("a", 2, 2), clique("b", 2, 2), terminationDelay=None))
        await expect_placed(world, 4)
        world.rules.is_whole_gangs = features.composites
        await world.nodes.cordon(pods_of(world, "s-0-b")[0].spec.node_name)
        await world.delete(PODCLIQUES, "s-0-b")
        await world.settle()
        if features.composites:
            # All of it or nothing: for one there would be room.
            assert placed(world) == {"s-0-a": 2}
        await world.client.delete(PODS, "default", pods_of(world, "s-0-a")[0].metadata.name)
        await world.settle()
        # Without composites it comes back pod by pod, and the freed room is for whoever is first.
        assert placed(world)["s-0-a"] == 2 or not features.composites
        await world.add_nodes(1)
        await expect_placed(world, 4)

    play(story, 4, features)


# --- nodes and scale -------------------------------------------------------------------------------------------------


@both
def test_a_lost_pod_of_one_clique_does_not_wait_for_another_that_cannot_be_repaired(features: NativeFeatures) -> None:
    async def story(world: NativeWorld) -> None:
        await world.apply(a_set(clique("a", 2, 2), clique("b", 2, 2), terminationDelay=None))
        await expect_placed(world, 4)
        await lose(world, "s-0-a")
        await lose(world, "s-0-a")
        await world.settle()
        assert placed(world) == {"s-0-b": 2}
        await world.client.delete(PODS, "default", pods_of(world, "s-0-b")[0].metadata.name)
        await world.settle()
        assert sum(placed(world).values()) == 2
        await world.add_nodes(2)
        await expect_placed(world, 4)

    play(story, 4, features)


@both
def test_a_node_that_vanishes_takes_its_pod_and_nothing_else(features: NativeFeatures) -> None:
    async def story(world: NativeWorld) -> None:
        await world.apply(pair(terminationDelay=None))
        await expect_placed(world, 6)
        node = pods_of(world, "s-0-a")[0].spec.node_name
        await world.nodes.remove(node)
        await world.settle()
        await world.add_nodes(1)
        await world.settle()
        assert placed(world) == {"s-0-a": 2, "s-0-g-0-b": 1, "s-0-g-0-c": 1, "s-0-g-1-b": 1, "s-0-g-1-c": 1}

    play(story, 6, features)


@both
def test_holes_below_the_minimum_of_a_waiting_clique_are_filled_by_those_above(features: NativeFeatures) -> None:
    async def story(world: NativeWorld) -> None:
        await world.apply(gang_of_four())
        await expect_placed(world, 0)
        # The newest goes first in a scale-in: here it is one of the minimum.
        await world.clock.sleep(10)
        await world.client.delete(PODS, "default", pods_of(world, "s-0-a")[1].metadata.name)
        await world.settle()
        await world.scale(PODCLIQUES, "s-0-a", 2)
        await world.settle()
        assert [pod.metadata.labels[labels.POD_INDEX] for pod in pods_of(world, "s-0-a")] == ["0", "1"]
        await world.add_nodes(1)
        await expect_placed(world, 3)

    play(story, 2, features)


@both
def test_a_clique_that_is_scaled_in_and_out_while_it_waits_is_placed_whole(features: NativeFeatures) -> None:
    async def story(world: NativeWorld) -> None:
        await world.apply(gang_of_four())
        await expect_placed(world, 0)
        for count in (2, 5, 3):
            await world.scale(PODCLIQUES, "s-0-a", count)
            await world.settle()
        await world.add_nodes(4)
        await expect_placed(world, 4)

    play(story, 2, features)


# --- pods above the minimum ------------------------------------------------------------------------------------------


def test_an_extra_waits_until_the_scaled_gangs_had_their_chance_and_no_longer() -> None:
    async def story(world: NativeWorld) -> None:
        await world.apply(pair())
        await world.wait_until(lambda: "s-0-a" in placed(world))
        await world.settle()
        # Three nodes for the base gang, one more for nobody but the extra: the scaled gang needs two.
        assert placed(world) == {"s-0-a": 2, "s-0-g-0-b": 1, "s-0-g-0-c": 1}
        await world.add_nodes(2)
        await expect_placed(world, 6)

    play(story, 4)


def test_a_minimum_of_a_scaled_gang_comes_before_an_extra_when_both_would_fit() -> None:
    async def story(world: NativeWorld) -> None:
        await world.apply(pair())
        await world.settle()
        assert placed(world) == {"s-0-a": 1, "s-0-g-0-b": 1, "s-0-g-0-c": 1, "s-0-g-1-b": 1, "s-0-g-1-c": 1}
        await world.add_nodes(1)
        await expect_placed(world, 6)

    play(story, 5)


# --- updates ---------------------------------------------------------------------------------------------------------


@both
def test_an_update_of_the_priority_class_moves_pods_to_groups_of_that_priority(features: NativeFeatures) -> None:
    async def story(world: NativeWorld) -> None:
        for name, value in (("low", 1), ("high", 2)):
            await world.apply(
                {
                    "apiVersion": "scheduling.k8s.io/v1",
                    "kind": "PriorityClass",
                    "metadata": {"name": name},
                    "value": value,
                }
            )
        await world.apply(pair(priorityClassName="low"))
        await expect_placed(world, 6)
        await patch_set(world, {"template": pair(priorityClassName="high")["spec"]["template"]})
        await expect_placed(world, 6)
        found = (*world.groups.values(), *world.roots.values())
        assert {one.spec["priorityClassName"] for one in found if not one.metadata.is_terminating} == {"high"}

    play(story, 6, features)


# --- feature gates ---------------------------------------------------------------------------------------------------

MODES = {"composites": COMPOSITES, "groups only": GROUPS_ONLY, "off": SWITCHED_OFF}
switches = [
    pytest.param(MODES[before], MODES[after], id=f"{before} to {after}")
    for before in MODES
    for after in MODES
    if before != after
]


@pytest.mark.parametrize(("before", "after"), switches)
def test_gates_are_switched_while_a_gang_runs(before: NativeFeatures, after: NativeFeatures) -> None:
    async def story(world: NativeWorld) -> None:
        world.rules.is_whole_gangs = False
        world.scheduler.knows_groups = before.groups
        await world.apply(pair(terminationDelay=None))
        await expect_placed(world, 6)
        kept = {pod.metadata.uid for pod in world.pods()}
        world.scheduler.knows_groups = after.groups
        world.switch(after)
        await expect_placed(world, 6)
        assert {pod.metadata.uid for pod in world.pods()} == kept
        for name in ("s-0-a", "s-0-g-0-b", "s-0-g-1-c"):
            await world.client.delete(PODS, "default", pods_of(world, name)[0].metadata.name)
        await expect_placed(world, 6)
        await _forget(world, after)

    play(story, 6, before)


@pytest.mark.parametrize(("before", "after"), switches)
def test_gates_are_switched_while_a_gang_waits(before: NativeFeatures, after: NativeFeatures) -> None:
    async def story(world: NativeWorld) -> None:
        world.rules.is_whole_gangs = False
        world.scheduler.knows_groups = before.groups
        await world.apply(pair(terminationDelay=None))
        await world.settle()
        assert sum(placed(world).values()) == (0 if before.groups else 2)
        world.scheduler.knows_groups = after.groups
        world.switch(after)
        await world.settle()
        await world.add_nodes(4)
        await expect_placed(world, 6)
        await _forget(world, after)

    play(story, 2, before)


@both
def test_what_was_placed_one_by_one_is_completed_when_gangs_are_switched_on(features: NativeFeatures) -> None:
    async def story(world: NativeWorld) -> None:
        world.rules.is_whole_gangs = False
        world.scheduler.knows_groups = False
        await world.apply(a_set(clique("a", 5, 5), terminationDelay=None))
        await expect_placed(world, 3)
        world.scheduler.knows_groups = True
        world.switch(features)
        await expect_placed(world, 3)
        await world.add_nodes(1)
        await expect_placed(world, 4)
        await world.add_nodes(1)
        await expect_placed(world, 5)

    play(story, 3, SWITCHED_OFF)


def test_without_gangs_the_set_says_so_and_takes_it_back() -> None:
    async def story(world: NativeWorld) -> None:
        await world.apply(pair())
        await expect_placed(world, 6)
        world.rules.is_whole_gangs = False
        (pcs,) = world.objects(PODCLIQUESETS)
        said = [one for one in pcs.status.conditions if "without gangs" in one.message]
        assert len(said) == 1
        world.switch(COMPOSITES)
        await expect_placed(world, 6)
        (pcs,) = world.objects(PODCLIQUESETS)
        condition = find_condition(pcs.status.conditions, said[0].type)
        assert condition is None or condition.status != said[0].status

    play(story, 6, SWITCHED_OFF)


async def _forget(world: NativeWorld, features: NativeFeatures) -> None:
    """A server without a feature does not serve its kind; this one still has the objects."""
    for name in world.groups if not features.groups else ():
        await world.delete(NATIVE_PODGROUPS, name)
    for name in world.roots if not features.composites else ():
        await world.delete(NATIVE_COMPOSITES, name)
    await world.settle()

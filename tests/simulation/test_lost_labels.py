"""Labels of ours that somebody took away: what is torn down goes as a whole and comes back; nothing is doubled."""

from collections.abc import Awaitable, Callable

import pytest

from grove.api import labels
from grove.api.resources import PODCLIQUES, PODS
from grove.api.types.meta import JsonObject
from grove.sim.simulation import World
from grove.sim.virtual_clock import run_virtual
from tests.simulation.restored import unrestored
from tests.simulation.stories import ONE_POD_NODE
from tests.simulation.termination_stories import clique_of, give_back, lose_pods
from tests.simulation.training_stories import FOR_EVER, clique, end, phase, running, runs, training
from tests.simulation.updating import NEW, change_image, is_updated, small, start


def tell(story: Callable[[World], Awaitable[None]], *, nodes: int = 4, is_checked: bool = True) -> None:
    async def main() -> None:
        async with World(seed=1, nodes=nodes, node_resources=ONE_POD_NODE, is_checked=is_checked) as world:
            await story(world)

    run_virtual(main())


def grouped() -> JsonObject:
    """Two pods at the top and a group of two replicas, each a gang or a part of one."""
    manifest = small(pods=2, minimum=2, group=2)
    manifest["spec"]["template"]["terminationDelay"] = "10s"
    return manifest


def without(label: str) -> JsonObject:
    return {"metadata": {"labels": {label: None}}}


@pytest.mark.parametrize("label", [labels.PART_OF, labels.SET_REPLICA_INDEX])
@pytest.mark.parametrize("name", ["s-0-g-0-b", "s-0-g-1-b"])
def test_a_teardown_ends_although_somebody_took_a_label_from_a_clique(name: str, label: str) -> None:
    async def story(world: World) -> None:
        await start(world, grouped())
        await world.client.patch(PODCLIQUES, "default", name, without(label))
        nodes = await lose_pods(world, "s-0-a")
        await world.clock.sleep(60)
        await give_back(world, nodes)
        await world.clock.sleep(3600)
        lives = {one.metadata.labels[labels.INCARNATION].partition("-")[0] for one in world.objects(PODCLIQUES)}
        assert lives == {"1.1"}
        assert len(world.running_pods()) == 4
        assert unrestored(world) == []

    tell(story)


@pytest.mark.parametrize("label", [labels.PART_OF, labels.SET_REPLICA_INDEX, labels.INCARNATION])
def test_a_teardown_ends_although_somebody_took_a_label_from_a_pod(label: str) -> None:
    async def story(world: World) -> None:
        await start(world, grouped())
        kept = [pod for pod in world.running_pods() if pod.metadata.labels[labels.PODCLIQUE] == "s-0-a"]
        await world.client.patch(PODS, "default", kept[1].metadata.name, without(label))
        nodes = await lose_pods(world, "s-0-a")
        await world.clock.sleep(60)
        await give_back(world, nodes)
        await world.settle(quiet_seconds=330)
        assert kept[1].metadata.uid not in {pod.metadata.uid for pod in world.pods()}
        assert len(world.running_pods()) == 4

    tell(story, is_checked=False)


def test_pods_of_a_clique_that_lost_the_name_of_its_set_are_replaced() -> None:
    async def story(world: World) -> None:
        await start(world, small(pods=2, minimum=1))
        await world.client.patch(PODCLIQUES, "default", "s-0-a", without(labels.PART_OF))
        await world.settle()
        assert clique_of(world, "s-0-a").metadata.labels[labels.PART_OF] == "s"
        await world.client.delete(PODS, "default", world.running_pods()[0].metadata.name)
        await world.settle()
        assert len(world.running_pods()) == 2

    tell(story)


def test_a_pod_without_the_name_of_its_set_goes_too_when_the_set_failed() -> None:
    async def story(world: World) -> None:
        await world.apply(training(clique("a", 2, exits_after=FOR_EVER), clique("b", 1, exits_after=FOR_EVER)))
        await world.wait_until(runs(world, 3))
        await world.client.patch(PODS, "default", running(world, "-a")[0].metadata.name, without(labels.PART_OF))
        await end(world, running(world, "-b")[0])
        await world.settle(quiet_seconds=330)
        assert phase(world) == "Failed"
        # What failed by itself stays for its logs.
        assert [(pod.metadata.labels[labels.PODCLIQUE], pod.status.phase) for pod in world.pods()] == [
            ("job-0-b", "Failed")
        ]

    tell(story, is_checked=False)


def test_a_pod_that_lost_the_name_of_its_clique_is_not_missed_by_a_fresh_look() -> None:
    async def story(world: World) -> None:
        await start(world, small(pods=3, minimum=2))
        await world.client.patch(PODS, "default", world.running_pods()[0].metadata.name, without(labels.PODCLIQUE))
        await change_image(world, NEW)
        await world.settle(quiet_seconds=330)
        assert is_updated(world)
        assert len(world.running_pods()) == 3

    tell(story, nodes=6, is_checked=False)


def test_no_life_is_used_twice_when_a_clique_is_deleted_after_its_replica_was_recreated() -> None:
    async def story(world: World) -> None:
        await start(world, grouped())
        for broken in ("s-0-g-1-b", "s-0-a"):
            nodes = await lose_pods(world, broken)
            await world.settle()
            await give_back(world, nodes)
            await world.settle()
        life = clique_of(world, "s-0-g-1-b").metadata.labels[labels.INCARNATION]
        await world.delete(PODCLIQUES, "s-0-g-1-b")
        await world.settle()
        assert clique_of(world, "s-0-g-1-b").metadata.labels[labels.INCARNATION] == life

    tell(story)

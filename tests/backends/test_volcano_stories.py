"""Gangs that Volcano places: incarnations, repairs, an operator that is replaced; also with crashes at each write."""

from typing import Any

import pytest

from grove.api.resources import PODCLIQUESETS, PODGANGS, PODS
from grove.api.types.meta import find_condition
from grove.cli.commands.why import why_rows
from grove.cli.common.options import parse_object_ref
from grove.cli.common.output import plain_lines
from grove.operations.why.runner import explain
from grove.sim.virtual_clock import run_virtual
from tests.backends.scheduler_world import QUEUE, VOLCANO, SchedulerWorld, without_uids
from tests.backends.volcano_stories import STORIES, VolcanoStory, alive, expect_placed, lose, patient, podgroup
from tests.simulation.crashes import Crashes, tell_with_some_crashes
from tests.simulation.endstate import end_state
from tests.simulation.stories import ONE_POD_NODE, REST_SECONDS

stories = pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)


async def tell(story: VolcanoStory, crashes: Crashes | None = None) -> dict[str, Any]:
    """Run a story, and return its end."""
    async with SchedulerWorld(VOLCANO, seed=1, nodes=story.nodes, node_resources=ONE_POD_NODE) as world:
        await story.begin(world)
        if crashes is not None:
            crashes.begin(world)
        await story.tell(world)
        await world.settle()
        world.check()
        before = world.server.store.revision
        await world.clock.sleep(REST_SECONDS)
        assert world.server.store.revision == before, "written at rest"
        podgroups = {one.metadata.name: without_uids(one.spec) for one in world.objects(world.podgroups)}
        return {**end_state(world), "podgroups": podgroups}


@stories
def test_the_story_ends_as_told(story: VolcanoStory) -> None:
    run_virtual(tell(story))


@stories
@pytest.mark.deep(reason="crashes in stories of Volcano; the quick tier crashes in the core stories")
def test_a_crash_at_any_write_ends_like_no_crash(story: VolcanoStory) -> None:
    ends = tell_with_some_crashes(lambda crashes: tell(story, crashes))
    for moment, end in ends.crashed.items():
        assert not story.has_one_end or end == ends.calm, moment


# --- what is said of it ----------------------------------------------------------------------------------------------


async def why(world: SchedulerWorld) -> str:
    said = await explain(world.client, world.clock.now(), "default", parse_object_ref("podgang/s-0"))
    return "\n".join(plain_lines(why_rows(said)))


def scheduled(world: SchedulerWorld) -> str:
    (gang,) = world.objects(PODGANGS)
    told = find_condition(gang.status.conditions, "Scheduled")
    assert told is not None
    return told.message


def test_words_from_before_the_placement_do_not_come_back_after_a_loss() -> None:
    async def run() -> None:
        async with SchedulerWorld(VOLCANO, seed=1, nodes=3, node_resources=ONE_POD_NODE) as world:
            await world.apply(patient())
            await expect_placed(world, 0)
            before = podgroup(world).status["conditions"][0]["message"]
            assert before in scheduled(world)
            assert before in await why(world)
            await world.add_nodes(1)
            await expect_placed(world, 4)
            assert podgroup(world).status["conditions"][0]["message"] == before
            await lose(world, "s-0-a")
            await expect_placed(world, 3)
            assert scheduled(world) == "s-0-a has 1 of 2 pods scheduled"
            assert before not in await why(world)

    run_virtual(run())


def test_a_full_queue_is_not_read_as_a_full_cluster() -> None:
    async def run() -> None:
        async with SchedulerWorld(VOLCANO, seed=1, nodes=4, node_resources=ONE_POD_NODE) as world:
            await world.client.patch(world.queues, "", QUEUE, {"spec": {"capability": {"memory": "319Mi"}}})
            await world.apply(patient())
            await expect_placed(world, 0)
            assert podgroup(world).spec["minResources"] == {"memory": "320Mi"}
            full = (
                'queue "research" has not admitted it yet: '
                "its minimum needs more than the queue or the cluster has left"
            )
            assert full in scheduled(world)
            assert (await why(world)).splitlines() == [
                f"volcano: {full}.",
                "Next: the queue admits it when other gangs of the queue end, or when the queue or the cluster grows.",
            ]
            await world.client.patch(world.queues, "", QUEUE, {"spec": {"capability": {"memory": "320Mi"}}})
            await expect_placed(world, 4)

    run_virtual(run())


def test_pods_that_fit_but_for_their_gang_are_one_line() -> None:
    async def run() -> None:
        async with SchedulerWorld(VOLCANO, seed=1, nodes=3, node_resources=ONE_POD_NODE) as world:
            await world.apply(patient())
            await expect_placed(world, 0)
            for i, pod in enumerate(alive(world)):
                name = pod.metadata.name
                fits = f"Pod default/{name} can possibly be assigned to node-{i}, once minAvailable is satisfied"
                told = {"type": "PodScheduled", "status": "False", "reason": "Schedulable", "message": fits}
                if i < 3:
                    patch = {"status": {"conditions": [told]}}
                    await world.client.patch(PODS, "default", name, patch, subresource="status")
            said = await why(world)
            assert said.count("fit, but wait for the rest of the gang") == 1
            assert "can possibly be assigned" not in said

    run_virtual(run())


def test_a_set_whose_pods_request_nothing_says_that_they_are_not_ganged() -> None:
    async def run() -> None:
        async with SchedulerWorld(VOLCANO, seed=1, nodes=4, node_resources=ONE_POD_NODE) as world:
            manifest = patient()
            manifest["spec"]["template"]["cliques"][1]["spec"]["podSpec"]["containers"][0].pop("resources")
            await world.apply(manifest)
            await world.settle()
            (pcs,) = world.objects(PODCLIQUESETS)
            told = find_condition(pcs.status.conditions, "GangSchedulingUnavailable")
            assert told is not None
            assert (told.reason, told.message) == (
                "NoGangScheduling",
                (
                    "volcano does not wait for the pods of b when it places a gang, because they request no resources: "
                    "request cpu or memory in every clique"
                ),
            )

    run_virtual(run())

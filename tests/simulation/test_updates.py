"""Rolling updates through all levels, in virtual time: the stories, the store of revisions, and what a step costs."""

from itertools import pairwise
from typing import Any

import pytest

from bench.worlds import BenchWorld, flat_set
from grove.api import labels
from grove.api.resources import CONTROLLER_REVISIONS, PODCLIQUES, PODCLIQUESETS, PODGANGS, PODS, Resource
from grove.api.types.meta import JsonObject
from grove.planner.plan import plan
from grove.sim.simulation import World
from grove.sim.virtual_clock import run_virtual
from tests.seeds import is_deep
from tests.simulation.safe_update_stories import CALM_SAFE_UPDATES, SAFE_UPDATES
from tests.simulation.stories import ONE_POD_NODE, REST_SECONDS, Story
from tests.simulation.termination_stories import pods_of
from tests.simulation.update_stories import CRASHING, UPDATE_STORIES
from tests.simulation.updating import (
    BROKEN,
    NEW,
    OLD,
    Witness,
    all_images,
    assert_done,
    change_annotations,
    change_image,
    delete_pod,
    expect_updated,
    images_of,
    is_updated,
    is_updating,
    revisions,
    small,
    the_set,
    turn,
)


@pytest.mark.parametrize(
    "story", [*CRASHING, *UPDATE_STORIES, *SAFE_UPDATES, *CALM_SAFE_UPDATES], ids=lambda story: story.name
)
def test_a_story_of_an_update(story: Story) -> None:
    """No rule is broken on the way, and at rest nothing is written."""

    async def run() -> None:
        async with World(seed=1, nodes=story.nodes, node_resources=ONE_POD_NODE) as world:
            await story.play(world)
            await world.settle()
            world.check()
            revision = world.server.store.revision
            await world.clock.sleep(REST_SECONDS)
            assert world.server.store.revision == revision

    run_virtual(run())


# --- the store of revisions ------------------------------------------------------------------------------------------


def test_a_new_set_stores_its_templates_before_anything_is_made_from_them() -> None:
    async def run() -> None:
        async with World(seed=1, nodes=4, node_resources=ONE_POD_NODE) as world:
            await world.apply(
                {**small(), "metadata": {"name": "s", "annotations": {"kubernetes.io/change-cause": "v1"}}}
            )
            await world.settle()
            (stored,) = world.objects(CONTROLLER_REVISIONS)
            made = [write.target.resource for write in world.writes_by("operator") if write.target.verb == "create"]
            assert made[0] == "controllerrevisions"
            hash_ = the_set(world).status.current_generation_hash
            assert stored.metadata.name == f"s-{hash_}"
            assert stored.metadata.labels == {
                "app.kubernetes.io/managed-by": "grove-operator",
                "app.kubernetes.io/part-of": "s",
                "app.kubernetes.io/component": "pcs-revision",
                "grove.io/podcliqueset-generation-hash": hash_,
            }
            assert stored.metadata.annotations == {"kubernetes.io/change-cause": "v1"}
            assert stored.metadata.controller == PODCLIQUESETS.owner_key(the_set(world).metadata)
            assert stored.revision == 1
            (gang,) = world.objects(PODGANGS)
            assert gang.metadata.labels[labels.GENERATION_HASH] == hash_
            assert the_set(world).status.rolling_update_progress is None
            await world.delete(PODCLIQUESETS, "s")
            await world.settle()
            assert world.objects(CONTROLLER_REVISIONS) == ()
            world.check()

    run_virtual(run())


def test_a_set_without_stored_revisions_is_adopted_and_nothing_restarts() -> None:
    async def run() -> None:
        async with World(seed=1, nodes=8, node_resources=ONE_POD_NODE) as world:
            await world.apply(small(replicas=2, group=2))
            await world.settle()
            before = pods_of(world)
            await world.crash_controller()
            await forget_revisions(world)
            await world.restart_controller()
            await world.settle()
            assert pods_of(world) == before
            assert len(revisions(world)) == 1
            assert the_set(world).status.rolling_update_progress is None
            # From then on a change is a change.
            await change_image(world, NEW)
            await expect_updated(world, NEW, pods=8)
            world.check()

    run_virtual(run())


def test_hashes_of_another_program_become_the_names_of_these_templates() -> None:
    async def run() -> None:
        async with World(seed=1, nodes=8, node_resources=ONE_POD_NODE) as world:
            await world.apply(small(replicas=2, group=2))
            await world.settle()
            before = pods_of(world)
            await world.crash_controller()
            await forget_revisions(world)
            await relabel(world, PODCLIQUES)
            await relabel(world, PODS)
            await world.restart_controller()
            await world.settle()
            assert pods_of(world) == before
            (revision,) = revisions(world)
            assert revision.template.hashes == {"a": "foreigna", "b": "foreignb"}
            await change_image(world, NEW, "a")
            await world.settle()
            assert images_of(world, "s-0-a") == images_of(world, "s-1-a") == [NEW, NEW]
            assert len(pods_of(world).keys() & before.keys()) == 4
            assert_done(world)

    run_virtual(run())


async def forget_revisions(world: World) -> None:
    """As if no version that stores revisions had ever run."""
    for stored in world.objects(CONTROLLER_REVISIONS):
        await world.client.delete(CONTROLLER_REVISIONS, "default", stored.metadata.name)
    for gang in world.objects(PODGANGS):
        patch = {"metadata": {"labels": {labels.GENERATION_HASH: None}}}
        await world.client.patch(PODGANGS, "default", gang.metadata.name, patch)
    status: JsonObject = {"currentGenerationHash": None, "rollingUpdateProgress": None, "updateProgress": None}
    await world.client.patch(PODCLIQUESETS, "default", "s", {"status": status}, subresource="status")
    forgotten = {"currentPodCliqueSetGenerationHash": None, "currentPodTemplateHash": None, **status}
    for clique in world.objects(PODCLIQUES):
        await world.client.patch(
            PODCLIQUES, "default", clique.metadata.name, {"status": forgotten}, subresource="status"
        )


async def relabel(world: World, resource: Resource[Any]) -> None:
    for obj in world.objects(resource):
        name = obj.metadata.labels.get(labels.PODCLIQUE, obj.metadata.name)
        patch = {"metadata": {"labels": {labels.TEMPLATE_HASH: f"foreign{name[-1]}"}}}
        await world.client.patch(resource, "default", obj.metadata.name, patch)


def test_the_history_is_bounded_and_its_numbers_grow() -> None:
    async def run() -> None:
        async with World(seed=1, nodes=2, node_resources=ONE_POD_NODE) as world:
            await world.apply(small(pods=1))
            await world.settle()
            for number in range(15):
                await change_image(world, f"image-{number}")
                await world.settle()
            assert [revision.number for revision in revisions(world)] == list(range(6, 17))
            await change_image(world, "image-9")
            await expect_updated(world, "image-9", pods=1)
            assert revisions(world)[-1].number == 17
            assert len(revisions(world)) == 11
            world.check()

    run_virtual(run())


def test_a_revision_that_a_replica_runs_is_kept_however_many_come_after_it() -> None:
    async def run() -> None:
        async with World(seed=1, nodes=6, node_resources=ONE_POD_NODE) as world:
            await world.apply(small(replicas=2, pods=2, minimum=1))
            await world.settle()
            first = revisions(world)[0]
            await change_annotations(world, BROKEN)
            await world.settle()
            for number in range(15):
                await change_image(world, f"image-{number}")
                await world.settle()
            # Replica 1 never got through, so replica 0 still runs what it began with: a lost pod comes back so.
            assert turn(world) == 1
            assert first.generation_hash in [revision.generation_hash for revision in revisions(world)]
            assert len(revisions(world)) == 12
            await delete_pod(world, next(p for p in world.pods() if p.metadata.labels[labels.PODCLIQUE] == "s-0-a"))
            await world.settle()
            assert images_of(world, "s-0-a") == [OLD, OLD]
            await change_annotations(world, {labels.SIM_READY_AFTER: "1s"})
            await expect_updated(world, "image-14", pods=4)
            world.check()

    run_virtual(run())


def test_deleted_revisions_are_stored_again_in_the_middle_of_an_update() -> None:
    """Somebody deletes them all while an update runs: the update ends, nothing is replaced twice."""

    async def run() -> None:
        async with World(seed=1, nodes=6, node_resources=ONE_POD_NODE) as world:
            await world.apply(small(replicas=3, pods=2, minimum=1))
            await world.settle()
            witness = Witness(world)
            await change_image(world, NEW)
            await world.wait_until(lambda: turn(world) == 1)
            for stored in world.objects(CONTROLLER_REVISIONS):
                await world.client.delete(CONTROLLER_REVISIONS, "default", stored.metadata.name)
            await expect_updated(world, NEW, pods=6)
            assert len(witness.left()) == 6

    run_virtual(run())


# --- the operator in the middle --------------------------------------------------------------------------------------


def test_a_restarted_operator_goes_on_where_the_last_one_stopped() -> None:
    async def run() -> None:
        async with World(seed=1, nodes=8, node_resources=ONE_POD_NODE) as world:
            await world.apply(small(replicas=2, pods=2, minimum=2, group=2))
            await world.settle()
            witness = Witness(world)
            await change_image(world, NEW)
            for count in range(1, 8):
                await world.wait_until(lambda count=count: len(witness.left()) >= count)  # type: ignore[misc]
                await world.crash_controller()
                await world.clock.sleep(30)
                await world.restart_controller()
            await expect_updated(world, NEW, pods=8)
            assert len(witness.left()) == 8
            assert witness.turns == [1, 0]
            world.check()

    run_virtual(run())


def test_a_step_waits_while_the_watch_of_pods_is_cut() -> None:
    """It sees pods as ready that are not any more: the fresh look before each choice tells."""

    async def run() -> None:
        async with World(seed=1, nodes=3, node_resources=ONE_POD_NODE) as world:
            await world.apply(small(pods=3, minimum=2))
            await world.settle()
            world.freeze_watch("pods")
            lost = world.pods()[:2]
            for pod in lost:
                await world.nodes.cordon(pod.spec.node_name)
                await delete_pod(world, pod)
            witness = Witness(world)
            await change_image(world, NEW)
            await world.clock.sleep(120)
            last = world.pods()[-1].metadata.uid
            assert last not in {one.pod.metadata.uid for one in witness.left()}
            world.thaw_watch("pods")
            for pod in lost:
                await world.nodes.uncordon(pod.spec.node_name)
            await expect_updated(world, NEW, pods=3)

    run_virtual(run())


def test_a_rested_world_has_an_empty_plan() -> None:
    async def run() -> None:
        async with BenchWorld(nodes=2) as world:
            await world.apply(flat_set("s", replicas=3, cliques=2, pods=2))
            await world.settle()
            await change_image(world, NEW)
            await world.wait_until(lambda: is_updated(world))
            await world.settle()
            assert all_images(world) == {NEW}
            snapshot = world.controller.observer.snapshot(the_set(world).metadata.uid)
            assert snapshot is not None
            found = plan(snapshot, world.clock.now())
            assert (found.chains, found.statuses, found.live_reads, found.requeue_at) == ((), (), (), None)

    run_virtual(run())


# --- what a step costs -----------------------------------------------------------------------------------------------


def test_a_step_costs_the_same_however_many_replicas_are_done() -> None:
    replicas = 80 if is_deep() else 40
    sample = replicas // 4

    async def run() -> list[tuple[int, int]]:
        """Writes, and pods and replicas looked at again, for each set replica that was updated."""
        async with BenchWorld(nodes=2) as world:
            await world.apply(flat_set("s", replicas=replicas, cliques=1, pods=2))
            await world.settle()
            marks: list[tuple[int, int]] = []
            await change_image(world, NEW)
            for index in reversed(range(replicas)):
                await world.wait_until(lambda index=index: turn(world) == index or is_updated(world))  # type: ignore[misc]
                marks.append((len(world.writes_by("operator")), world.controller.observer.touched_count))
            await world.wait_until(lambda: is_updated(world))
            return [(after[0] - before[0], after[1] - before[1]) for before, after in pairwise(marks)]

    costs = run_virtual(run())
    early, late = costs[5 : 5 + sample], costs[-5 - sample : -5]
    for kind in (0, 1):
        first, last = (sum(cost[kind] for cost in part) / len(part) for part in (early, late))
        assert last <= first * 1.2, f"{first} early, {last} late"
    assert sum(writes for writes, _ in late) / len(late) < 30


def test_an_update_in_progress_says_whose_turn_it_is() -> None:
    async def run() -> None:
        async with World(seed=1, nodes=4, node_resources=ONE_POD_NODE) as world:
            await world.apply(small(replicas=2, pods=2, minimum=2))
            await world.settle()
            await change_image(world, NEW)
            await world.wait_until(lambda: is_updating(world) and turn(world) == 1)
            progress = the_set(world).status.rolling_update_progress
            assert progress is not None
            assert progress.updated_pod_cliques == ()
            await world.wait_until(lambda: turn(world) == 0)
            progress = the_set(world).status.rolling_update_progress
            assert progress is not None
            assert progress.updated_pod_cliques == ("s-1-a",)
            assert the_set(world).status.updated_replicas == 1
            counts = the_set(world).status.update_progress
            assert counts is not None
            assert (counts.updated_pod_cliques_count, counts.total_pod_cliques_count) == (1, 2)
            assert [one.replica_index for one in counts.currently_updating] == [0]
            await expect_updated(world, NEW, pods=4)

    run_virtual(run())

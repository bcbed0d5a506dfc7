"""Training sets in virtual time: success, restarts, the budget, the deadline, and what others do to them meanwhile."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from grove.api import labels
from grove.api.resources import (
    CONTROLLER_REVISIONS,
    EVENTS,
    PODCLIQUES,
    PODCLIQUESETS,
    PODGANGS,
    PODS,
    RESOURCE_QUOTAS,
    Resource,
)
from grove.api.types.meta import find_condition, to_wire
from grove.planner.teardown.recreation import count_of
from grove.sim.faults import CALM, FaultPlan
from grove.sim.simulation import World
from grove.sim.virtual_clock import run_virtual
from tests.e2e.harness import SeenEvent
from tests.simulation.stories import ONE_POD_NODE, Story, quota
from tests.simulation.training_stories import (
    FOR_EVER,
    TRAINING_STORIES,
    clique,
    end,
    expect_failure,
    expect_success,
    fail_one,
    failure,
    is_clique,
    job,
    living,
    phase,
    restarts,
    running,
    runs,
    training,
    uids,
)

MADE: tuple[Resource[Any], ...] = (PODGANGS, PODCLIQUES)


def tell(nodes: int, story: Callable[[World], Awaitable[None]], faults: FaultPlan = CALM) -> None:
    async def run() -> None:
        async with World(seed=1, nodes=nodes, node_resources=ONE_POD_NODE, faults=faults) as world:
            await story(world)
            await world.settle()
            world.check()

    run_virtual(run())


def events(world: World, reason: str) -> list[str]:
    return [event.message for event in world.objects(EVENTS.viewed_as(SeenEvent)) if event.reason == reason]


@pytest.mark.parametrize("story", TRAINING_STORIES, ids=lambda story: story.name)
def test_a_story_of_training(story: Story) -> None:
    tell(story.nodes, story.tell)


# --- what is told ----------------------------------------------------------------------------------------------------


def test_every_restart_is_told_with_its_count_and_the_failure_with_its_reason() -> None:
    async def story(world: World) -> None:
        await world.apply(training(clique("a", exits_after="20s", code=3), max_restarts=2))
        await expect_failure(world, "MaxRestartsExceeded", 2)
        told = sorted(events(world, "ReplicaRestarting"))
        assert [text.split(":")[0] for text in told] == [
            "replica 0 is restarted (1 of 2 restarts used)",
            "replica 0 is restarted (2 of 2 restarts used)",
        ]
        assert len(events(world, "PodCliqueFailed")) >= 1
        assert events(world, "MinAvailableBreached") == []
        assert events(world, "MinAvailableRestored") == []
        (why,) = events(world, "MaxRestartsExceeded")
        assert why.startswith("it failed and all restarts are used (2 of 2): replica 0: job-0-a: 0 of at least 1")

    tell(1, story)


def test_success_is_told_once_and_pods_deleted_later_are_no_news() -> None:
    async def story(world: World) -> None:
        await world.apply(training(clique("a", 2)))
        await expect_success(world)
        before = world.objects(EVENTS.viewed_as(SeenEvent))
        for pod in living(world):
            await world.delete(PODS, pod.metadata.name)
        await world.settle()
        assert events(world, "WorkloadSucceeded") == ["every replica succeeded"]
        assert len(world.objects(EVENTS.viewed_as(SeenEvent))) == len(before)

    tell(2, story)


def test_pods_that_go_because_the_set_failed_are_no_failures_of_their_cliques() -> None:
    async def story(world: World) -> None:
        await world.apply(training(clique("a", exits_after=FOR_EVER), clique("b", exits_after="20s", code=1)))
        await expect_failure(world, "MaxRestartsExceeded")
        assert len(events(world, "PodCliqueFailed")) == 1

    tell(2, story)


# --- the deadline ----------------------------------------------------------------------------------------------------


def test_the_deadline_is_met_to_the_second_and_counts_from_the_first_start() -> None:
    async def story(world: World) -> None:
        await world.apply(training(clique("a", exits_after="25s", code=1), max_runtime="60s", max_restarts=100))
        await world.wait_until(lambda: failure(world) == "MaxRuntimeExceeded")
        start = job(world).status.start_time
        assert start is not None
        assert timedelta(0) <= world.clock.now() - (start + timedelta(seconds=60)) < timedelta(seconds=1)
        assert restarts(world) == 2
        await expect_failure(world, "MaxRuntimeExceeded", 2)

    tell(1, story)


def test_a_deadline_that_passed_while_the_operator_was_down_is_met_when_it_comes_back() -> None:
    async def story(world: World) -> None:
        await world.apply(training(clique("a", exits_after=FOR_EVER), max_runtime="60s", max_restarts=5))
        await world.wait_until(runs(world, 1))
        await world.crash_controller()
        await world.clock.sleep(300)
        assert failure(world) == ""
        await world.restart_controller()
        back_at = world.clock.now()
        await expect_failure(world, "MaxRuntimeExceeded")
        told = find_condition(job(world).status.conditions, "Failed")
        assert told is not None
        assert told.last_transition_time is not None
        assert told.last_transition_time - back_at < timedelta(seconds=2)

    tell(1, story)


def test_an_outage_from_before_the_first_start_does_not_shift_the_deadline() -> None:
    async def story(world: World) -> None:
        world.operator.crash_after_write(14)
        await world.apply(training(clique("a", exits_after=FOR_EVER), max_runtime="60s"))
        await world.wait_until(lambda: job(world).status.start_time is not None)
        (pod,) = living(world)
        run = pod.status.container_statuses[0].state.running
        assert run is not None
        assert job(world).status.start_time == run.started_at

    tell(1, story)


@pytest.mark.parametrize(
    "is_one_deleted", [False, True], ids=["all pods stay", "one was deleted after it was recorded"]
)
def test_success_before_the_deadline_wins_although_the_operator_was_down(is_one_deleted: bool) -> None:
    async def story(world: World) -> None:
        await world.apply(training(clique("a", 2, exits_after="50s"), max_runtime="60s"))
        await world.wait_until(runs(world, 2))
        if is_one_deleted:
            first = running(world)[0]
            await end(world, first, code=0)
            await world.wait_until(lambda: any(c.status.succeeded_indices for c in world.objects(PODCLIQUES)))
            await world.delete(PODS, first.metadata.name)
        await world.clock.sleep(20)
        await world.crash_controller()
        await world.clock.sleep(200)
        await world.restart_controller()
        await expect_success(world)

    tell(2, story)


def test_what_ended_after_the_deadline_is_late_also_when_the_operator_was_down() -> None:
    async def story(world: World) -> None:
        await world.apply(training(clique("a", 2, exits_after="70s"), max_runtime="60s"))
        await world.wait_until(runs(world, 2))
        await world.crash_controller()
        await world.clock.sleep(200)
        await world.restart_controller()
        await expect_failure(world, "MaxRuntimeExceeded")

    tell(2, story)


def test_a_deadline_raised_while_it_runs_counts() -> None:
    async def story(world: World) -> None:
        await world.apply(training(clique("a", exits_after="100s"), max_runtime="60s"))
        await world.wait_until(runs(world, 1))
        await world.client.patch(PODCLIQUESETS, "default", "job", {"spec": {"trainingSpec": {"maxRuntime": "200s"}}})
        await expect_success(world)

    tell(1, story)


# --- a restart and others --------------------------------------------------------------------------------------------


def test_the_next_attempt_begins_when_the_last_one_is_gone() -> None:
    async def story(world: World) -> None:
        await world.apply(training(clique("a", 2, exits_after="300s", stops_after="20s"), max_restarts=1))
        await world.wait_until(runs(world, 2))
        before = uids(living(world))
        await end(world, running(world)[0])
        await world.wait_until(lambda: restarts(world) == 1)
        await world.clock.sleep(15)
        assert uids(list(world.pods())) <= before
        await world.wait_until(runs(world, 2, 1))
        assert not uids(list(world.pods())) & before

    tell(2, story)


def test_nobody_waits_for_ever_for_pods_on_a_node_that_is_gone() -> None:
    async def story(world: World) -> None:
        await world.apply(training(clique("a", 2, exits_after=FOR_EVER), max_restarts=1))
        await world.wait_until(runs(world, 2))
        await world.nodes.fail(running(world)[0].spec.node_name)
        await world.wait_until(runs(world, 2, 1))
        assert len([pod for pod in world.pods() if pod.metadata.is_terminating]) == 1

    tell(4, story)


def test_a_replica_that_succeeded_is_not_restarted_with_another_one() -> None:
    async def story(world: World) -> None:
        await world.apply(training(clique("a", exits_after="300s"), max_restarts=1, replicas=2))
        await world.wait_until(runs(world, 2))
        first, second = running(world)
        await end(world, first, code=0)
        await world.wait_until(lambda: is_clique(world, "job-0-a", "Succeeded"))
        await end(world, second)
        await expect_success(world, 1)
        assert first.metadata.uid in uids(living(world))
        assert second.metadata.uid not in uids(living(world))

    tell(2, story)


def test_a_clique_that_succeeded_runs_again_with_its_replica() -> None:
    async def story(world: World) -> None:
        await world.apply(training(clique("a", exits_after="20s"), clique("b", exits_after="300s"), max_restarts=1))
        await world.wait_until(lambda: is_clique(world, "job-0-a", "Succeeded"))
        before = uids(living(world))
        await end(world, running(world, "-b")[0])
        await expect_success(world, 1)
        assert len(living(world)) == 2
        assert not uids(living(world)) & before

    tell(2, story)


@pytest.mark.parametrize("writes", range(1, 14))
def test_a_restart_is_carried_out_once_although_somebody_deletes_its_gang(writes: int) -> None:
    """After each of the writes that follow the count."""

    async def story(world: World) -> None:
        await world.apply(training(clique("a", exits_after="300s"), clique("b", 2, exits_after="300s"), max_restarts=3))
        await world.wait_until(runs(world, 3))
        before = uids(living(world))
        await end(world, running(world, "-b")[0])
        await world.wait_until(lambda: restarts(world) == 1)
        counted = len(world.writes_by("operator"))
        await world.wait_until(lambda: len(world.writes_by("operator")) >= counted + writes)
        if world.objects(PODGANGS):
            await world.delete(PODGANGS, "job-0")
        await world.wait_until(runs(world, 3, 1))
        assert not uids(living(world)) & before
        lives = {one.metadata.labels[labels.INCARNATION] for one in world.objects(PODCLIQUES)}
        assert [count_of(life) for life in lives] == [1]
        # The next one is counted as the second, and carried out too.
        await end(world, running(world, "-a")[0])
        await world.wait_until(runs(world, 3, 2))
        await expect_success(world, 2)

    # Slow answers, so that somebody comes in between.
    tell(3, story, FaultPlan(latency=(0.2, 0.2)))


def test_all_objects_deleted_by_hand_come_back_in_the_life_that_was_counted_last() -> None:
    async def story(world: World) -> None:
        await world.apply(training(clique("a", exits_after="300s"), clique("b", exits_after="300s"), max_restarts=9))
        await fail_one(world, "-a", 2)
        await fail_one(world, "-b", 2, 1)
        await world.wait_until(runs(world, 2, 2))
        await world.crash_controller()
        for resource in MADE:
            for one in world.objects(resource):
                await world.delete(resource, one.metadata.name)
        await world.wait_until(lambda: world.pods() == ())
        await world.restart_controller()
        await expect_success(world, 2)
        assert {count_of(one.metadata.labels[labels.INCARNATION]) for one in world.objects(PODCLIQUES)} == {2}
        # At once, and not by way of the lives before.
        assert not any(labels.RECREATION in one.metadata.annotations for one in world.objects(PODGANGS))

    tell(2, story)


def test_a_lost_status_costs_no_more_than_one_restart() -> None:
    """As after a restore from a backup, which keeps what was asked for and forgets what was told."""

    async def story(world: World) -> None:
        await world.apply(training(clique("a", exits_after="300s"), max_restarts=3))
        await fail_one(world, "-a", 1)
        await fail_one(world, "-a", 1, 1)
        await world.wait_until(runs(world, 1, 2))
        await world.crash_controller()
        patch = {"status": {"restartCount": None, "replicaRestarts": None}}
        await world.client.patch(PODCLIQUESETS, "default", "job", patch, subresource="status")
        world.invariants.broken.clear()
        await world.restart_controller()
        await world.wait_until(lambda: restarts(world) == 0 and len(running(world)) == 1)
        before = uids(living(world))
        await end(world, running(world)[0])
        await world.wait_until(lambda: len(running(world)) == 1 and not uids(running(world)) & before)
        assert restarts(world) == 1
        # Its count of lives is ahead of the one told now: the rules rightly wonder, and that is all.
        world.invariants.broken.clear()
        await expect_success(world, 1)
        world.invariants.broken.clear()

    tell(1, story)


def test_a_restart_is_held_while_most_nodes_are_out_and_nothing_is_replaced_meanwhile() -> None:
    async def story(world: World) -> None:
        await world.apply(training(clique("a", 3, exits_after=FOR_EVER), max_restarts=1))
        await world.wait_until(runs(world, 3))
        before = uids(living(world))
        used = {pod.spec.node_name for pod in running(world)}
        await world.clock.sleep(200)
        for name in sorted(used):
            await world.nodes.fail(name)
        await world.clock.sleep(100)
        assert find_condition(job(world).status.conditions, "TeardownHeld") is not None
        assert restarts(world) == 0
        assert uids(living(world)) == before
        for name in sorted(used):
            await world.nodes.recover(name)
        await world.clock.sleep(120)
        # It was a blip: the pods are ready again, and nothing is restarted.
        assert find_condition(job(world).status.conditions, "TeardownHeld") is None
        assert uids(running(world)) == before
        assert restarts(world) == 0

    tell(4, story)


def test_a_failed_pod_is_restarted_when_the_outage_is_over() -> None:
    async def story(world: World) -> None:
        await world.apply(training(clique("a", exits_after="400s"), max_restarts=1))
        await world.wait_until(runs(world, 1))
        (pod,) = running(world)
        others = [name for number in range(5) if (name := f"node-{number}") != pod.spec.node_name]
        for name in others:
            await world.nodes.fail(name)
        await world.clock.sleep(60)
        await end(world, pod)
        await world.clock.sleep(60)
        assert restarts(world) == 0
        assert uids(list(world.pods())) == {pod.metadata.uid}
        for name in others:
            await world.nodes.recover(name)
        await expect_success(world, 1)

    tell(5, story)


def test_a_restart_that_a_quota_refuses_goes_on_when_there_is_room_again() -> None:
    async def story(world: World) -> None:
        await world.apply(training(clique("a", 3, exits_after="300s"), max_restarts=1))
        await world.wait_until(runs(world, 3))
        await world.apply(quota(2))
        await end(world, running(world)[0])
        await world.wait_until(lambda: restarts(world) == 1)
        await world.clock.sleep(300)
        assert is_clique(world, "job-0-a", "PodsRejected")
        assert phase(world) == "Pending"
        assert restarts(world) == 1
        await world.delete(RESOURCE_QUOTAS, "few-pods")
        await expect_success(world, 1)

    tell(3, story)


def test_a_failure_behind_a_cut_watch_is_counted_once_when_it_is_seen() -> None:
    async def story(world: World) -> None:
        await world.apply(training(clique("a", 2, exits_after="300s"), max_restarts=3))
        await world.wait_until(runs(world, 2))
        world.freeze_watch("pods")
        await end(world, running(world)[0])
        await world.clock.sleep(60)
        assert restarts(world) == 0
        world.thaw_watch("pods")
        await expect_success(world, 1)

    tell(2, story)


# --- after the end ---------------------------------------------------------------------------------------------------


def test_a_pod_that_arrives_after_the_set_failed_goes_too() -> None:
    async def story(world: World) -> None:
        await world.apply(training(clique("a", exits_after="20s", code=1)))
        await world.wait_until(runs(world, 1))
        (pod,) = living(world)
        await expect_failure(world, "MaxRestartsExceeded")
        (owner,) = pod.metadata.owner_references
        late = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "job-0-a-0-late1",
                "labels": dict(pod.metadata.labels),
                "ownerReferences": [to_wire(owner)],
            },
            "spec": {"containers": [{"name": "main", "image": "i"}]},
        }
        await world.apply(late)
        await world.settle()
        assert uids(list(world.pods())) == {pod.metadata.uid}
        # It was made by us: the rules rightly say that nobody should.
        world.invariants.broken.clear()

    tell(1, story)


@pytest.mark.parametrize("code", [0, 1])
def test_what_others_delete_after_the_end_stays_deleted_and_the_end_stays(code: int) -> None:
    async def story(world: World) -> None:
        await world.apply(training(clique("a", exits_after="20s", code=code), clique("b", exits_after="20s")))
        await world.wait_until(lambda: phase(world) in ("Succeeded", "Failed"))
        await world.settle()
        ended = phase(world)
        for resource in (CONTROLLER_REVISIONS, *MADE):
            for one in world.objects(resource):
                await world.delete(resource, one.metadata.name)
        await world.settle()
        await world.restart_controller()
        await world.settle()
        assert phase(world) == ended
        assert world.pods() == ()
        for resource in (CONTROLLER_REVISIONS, *MADE):
            assert world.objects(resource) == ()
        await world.delete(PODCLIQUESETS, "job")
        await world.settle()
        assert world.objects(PODCLIQUESETS) == ()

    tell(2, story)

"""Training sets from outside: on `grove up` and on a real control plane, with the operator in its own process.

The many cases are in `tests/simulation/training_stories.py`, on virtual time; here some of them take real seconds.
"""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from grove.api.resources import PODCLIQUES, PODGANGS, PODS
from grove.api.types.meta import JsonObject, find_condition
from grove.planner.teardown.recreation import read_record
from tests.e2e.harness import Cluster, Stage
from tests.simulation.training_stories import (
    FOR_EVER,
    clique,
    end,
    failure,
    failure_message,
    is_clique,
    job,
    limit,
    living,
    phase,
    restarts,
    running,
    runs,
    training,
    uids,
)

pytestmark = pytest.mark.kube


async def finish(stage: Stage) -> None:
    """What runs ends well. Pods that end by themselves might do so before a slow machine has looked at them."""
    for pod in running(stage):
        await end(stage, pod, code=0)
    await stage.wait_until(lambda: phase(stage) == "Succeeded")


async def all_exit_well_and_what_is_deleted_later_stays_deleted(stage: Stage) -> None:
    await stage.apply(training(clique("a", exits_after="2s"), clique("b", 2, exits_after="5s")))
    await stage.wait_until(lambda: is_clique(stage, "job-0-a", "Succeeded"))
    assert not is_clique(stage, "job-0-a", "MinAvailableBreached")
    await stage.wait_until(lambda: phase(stage) == "Succeeded")
    assert [pod.status.phase for pod in living(stage)] == ["Succeeded"] * 3
    assert (restarts(stage), failure(stage)) == (0, "")
    for pod in living(stage):
        await stage.delete(PODS, pod.metadata.name)
    await stage.wait_until(lambda: stage.pods() == ())
    await stage.cluster.clock.sleep(3)
    await stage.look()
    assert (stage.pods(), phase(stage)) == ((), "Succeeded")
    await stage.wait_for_events("WorkloadSucceeded")


async def a_failure_without_a_budget_ends_it(stage: Stage) -> None:
    await stage.apply(training(clique("a", exits_after=FOR_EVER), clique("b", exits_after="2s", code=3)))
    await stage.wait_until(lambda: phase(stage) == "Failed")
    assert failure(stage) == "MaxRestartsExceeded"
    # What failed stays for its logs, and the condition says what it was.
    (left,) = stage.pods()
    assert (left.status.phase, left.metadata.is_terminating) == ("Failed", False)
    assert f"first: pod {left.metadata.name}, container main, exit code 3 (Error)" in failure_message(stage)
    await stage.wait_for_events("PodCliqueFailed", "MaxRestartsExceeded")


async def a_failed_pod_restarts_the_replica_once(stage: Stage) -> None:
    await stage.apply(training(clique("a", exits_after=FOR_EVER), clique("b", 2, exits_after=FOR_EVER), max_restarts=3))
    await stage.wait_until(runs(stage, 3))
    before, start = uids(living(stage)), job(stage).status.start_time
    broken = running(stage, "-b")[0]
    await end(stage, broken)
    await stage.wait_until(runs(stage, 3, 1))
    assert not uids(living(stage)) & before
    await finish(stage)
    assert restarts(stage) == 1
    assert start is None or job(stage).status.start_time == start
    assert [read_record(gang).count for gang in stage.objects(PODGANGS)] == [1]
    await stage.wait_for_events("PodCliqueFailed", "ReplicaRestarting")
    (restart,) = [event for event in await stage.events() if event.reason == "ReplicaRestarting"]
    assert f"first: pod {broken.metadata.name}, container main, exit code 1 (Error)" in restart.message


async def a_pod_deleted_by_hand_restarts_the_replica_once(stage: Stage) -> None:
    await stage.apply(training(clique("a", 2, exits_after=FOR_EVER), max_restarts=3))
    await stage.wait_until(runs(stage, 2))
    before = uids(living(stage))
    await stage.delete(PODS, running(stage)[0].metadata.name)
    await stage.wait_until(runs(stage, 2, 1))
    assert not uids(living(stage)) & before
    await finish(stage)
    assert restarts(stage) == 1


async def two_pods_deleted_at_once_restart_the_replica_below_its_minimum(stage: Stage) -> None:
    await stage.apply(training(clique("a", 4, 3, exits_after=FOR_EVER), max_restarts=3))
    await stage.wait_until(runs(stage, 4))
    before = uids(living(stage))
    for pod in running(stage)[:2]:
        await stage.delete(PODS, pod.metadata.name)
    await stage.wait_until(runs(stage, 4, 1))
    assert not uids(living(stage)) & before
    await finish(stage)
    assert restarts(stage) == 1


async def a_container_that_crashes_in_place_restarts_the_replica(stage: Stage) -> None:
    await stage.apply(training(clique("a", 2, exits_after=FOR_EVER, restart_policy="OnFailure"), max_restarts=3))
    await stage.wait_until(runs(stage, 2))
    before = uids(living(stage))
    await end(stage, running(stage)[0])
    await stage.wait_until(runs(stage, 2, 1))
    assert not uids(living(stage)) & before
    await finish(stage)


async def the_deadline_ends_it_while_a_scaled_gang_finds_no_room(stage: Stage) -> None:
    group: JsonObject = {"name": "g", "cliqueNames": ["b"], "replicas": 2, "minAvailable": 1}
    first, second = clique("a", exits_after=FOR_EVER), clique("b", exits_after=FOR_EVER, ready_after="1h")
    # One of its pods fits on the only node that it may use, which has 8 GPUs.
    gpus = {"nvidia.com/gpu": "5"}
    second["spec"]["podSpec"] |= {"nodeSelector": {"kubernetes.io/hostname": "node-0"}}
    second["spec"]["podSpec"]["containers"][0]["resources"] = {"requests": gpus, "limits": gpus}
    await stage.apply(training(first, second, max_runtime="5s", groups=(group,)))
    await stage.wait_until(lambda: phase(stage) == "Running")
    assert len([pod for pod in living(stage, "-b") if not pod.spec.node_name]) == 1
    await stage.wait_until(lambda: phase(stage) == "Failed")
    assert failure(stage) == "MaxRuntimeExceeded"
    assert not any(one.status.was_available for one in stage.objects(PODCLIQUES) if "-b" in one.metadata.name)


async def a_job_that_runs_away_is_capped(stage: Stage) -> None:
    await stage.apply(training(clique("a", exits_after=FOR_EVER), max_restarts=3))
    await stage.wait_until(lambda: job(stage).status.start_time is not None)
    await stage.cluster.clock.sleep(2)
    await limit(stage, maxRuntime="1s", maxRestarts=0)
    await stage.wait_until(lambda: phase(stage) == "Failed")
    assert failure(stage) == "MaxRuntimeExceeded"
    assert stage.pods() == ()


async def the_deadline_ends_it(stage: Stage) -> None:
    await stage.apply(training(clique("a", exits_after=FOR_EVER), max_runtime="4s", max_restarts=3))
    await stage.wait_until(lambda: phase(stage) == "Failed")
    assert failure(stage) == "MaxRuntimeExceeded"
    assert stage.pods() == ()
    status = job(stage).status
    told = find_condition(status.conditions, "Failed")
    assert told is not None
    assert told.last_transition_time is not None
    assert status.start_time is not None
    # How late it is depends on the machine; it is never early.
    assert (told.last_transition_time - status.start_time).total_seconds() >= 4
    await stage.wait_for_events("MaxRuntimeExceeded")


async def a_completed_pod_deleted_before_its_clique_is_done_is_not_run_again(stage: Stage) -> None:
    await stage.apply(training(clique("a", 2, exits_after=FOR_EVER)))
    await stage.wait_until(runs(stage, 2))
    first = running(stage)[0]
    await end(stage, first, code=0)
    await stage.wait_until(lambda: any(one.status.succeeded_indices for one in stage.objects(PODCLIQUES)))
    await stage.delete(PODS, first.metadata.name)
    await stage.wait_until(lambda: len(stage.pods()) == 1)
    await stage.cluster.clock.sleep(3)
    await stage.look()
    assert len(stage.pods()) == 1
    await finish(stage)
    assert len(living(stage)) == 1
    assert restarts(stage) == 0


STORIES = [
    all_exit_well_and_what_is_deleted_later_stays_deleted,
    a_failure_without_a_budget_ends_it,
    a_failed_pod_restarts_the_replica_once,
    a_pod_deleted_by_hand_restarts_the_replica_once,
    two_pods_deleted_at_once_restart_the_replica_below_its_minimum,
    a_container_that_crashes_in_place_restarts_the_replica,
    the_deadline_ends_it_while_a_scaled_gang_finds_no_room,
    a_job_that_runs_away_is_capped,
    the_deadline_ends_it,
    a_completed_pod_deleted_before_its_clique_is_done_is_not_run_again,
]


@pytest.mark.parametrize("story", STORIES)
def test_it_ends_as_in_the_simulation(
    runner: asyncio.Runner, cluster: Cluster, story: Callable[[Stage], Awaitable[None]]
) -> None:
    async def run() -> None:
        stage = await cluster.stage()
        await story(stage)
        await stage.clear()

    runner.run(run())

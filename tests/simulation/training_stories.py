"""Stories of training sets: what ends well, what is restarted, and what fails for good. One pod per node.

Told in calm by `test_training_stories.py`, and with a crash at every write by `test_crash_everywhere.py`.
"""

from collections.abc import Callable, Mapping
from typing import Any

from grove.api import labels
from grove.api.resources import PODCLIQUES, PODCLIQUESETS, PODGANGS, PODS
from grove.api.types.meta import JsonObject, ObjectMeta, WireStruct, find_condition, is_condition_true
from grove.api.types.pod import Pod
from grove.api.types.podcliqueset import PodCliqueSet
from grove.api.values.times import wire_time
from grove.cluster.kubelet.simulated.pod_state_machine import SIM_STOPS_AFTER
from grove.sim.simulation import World
from tests.scene import Scene, Seen
from tests.simulation.stories import Story

FOR_EVER = "8760h"


class _Raw(WireStruct):
    """A pod with its status as it was written."""

    metadata: ObjectMeta
    status: JsonObject = {}


def clique(
    name: str,
    replicas: int = 1,
    minimum: int | None = None,
    *,
    exits_after: str = "60s",
    code: int = 0,
    ready_after: str = "0s",
    stops_after: str = "0s",
    containers: int = 1,
    restart_policy: str | None = None,
) -> JsonObject:
    annotations = {
        labels.SIM_EXIT_AFTER: exits_after,
        labels.SIM_EXIT_CODE: str(code),
        labels.SIM_READY_AFTER: ready_after,
        SIM_STOPS_AFTER: stops_after,
    }
    memory = {"requests": {"memory": f"{80 // containers}Mi"}}
    names = ("main", "side")[:containers]
    pod_spec: JsonObject = {"containers": [{"name": one, "image": "i", "resources": memory} for one in names]}
    if restart_policy is not None:
        pod_spec["restartPolicy"] = restart_policy
    return {
        "name": name,
        "annotations": annotations,
        "spec": {
            "roleName": name,
            "replicas": replicas,
            "minAvailable": replicas if minimum is None else minimum,
            "podSpec": pod_spec,
        },
    }


def training(
    *cliques: JsonObject,
    max_restarts: int | None = None,
    max_runtime: str | None = None,
    delay: str | None = None,
    replicas: int = 1,
    groups: tuple[JsonObject, ...] = (),
) -> JsonObject:
    limits = {"maxRestarts": max_restarts, "maxRuntime": max_runtime}
    template: JsonObject = {"cliques": list(cliques)}
    if delay is not None:
        template["terminationDelay"] = delay
    if groups:
        template["podCliqueScalingGroups"] = list(groups)
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": "job"},
        "spec": {
            "workloadType": "Training",
            "trainingSpec": {key: value for key, value in limits.items() if value is not None},
            "replicas": replicas,
            "template": template,
        },
    }


# --- looking at it ---------------------------------------------------------------------------------------------------


def job(world: Seen) -> PodCliqueSet:
    (found,) = world.objects(PODCLIQUESETS)
    return found


def phase(world: Seen) -> str:
    return job(world).status.phase or ""


def restarts(world: Seen) -> int:
    return job(world).status.restart_count or 0


def failure(world: Seen) -> str:
    """The reason of the set's failure, or ""."""
    told = find_condition(job(world).status.conditions, "Failed")
    return told.reason if told is not None else ""


def failure_message(world: Seen) -> str:
    told = find_condition(job(world).status.conditions, "Failed")
    return told.message if told is not None else ""


def living(world: Scene, role: str = "") -> list[Pod]:
    """Pods that are not leaving, of one role or of all, in the order of their indices."""
    found = [
        pod for pod in world.pods() if not pod.metadata.is_terminating and role in pod.metadata.labels[labels.PODCLIQUE]
    ]
    return sorted(found, key=lambda pod: (pod.metadata.labels[labels.PODCLIQUE], pod.metadata.labels[labels.POD_INDEX]))


def running(world: Scene, role: str = "") -> list[Pod]:
    return [pod for pod in living(world, role) if pod.is_ready]


def uids(pods: list[Pod]) -> set[str]:
    return {pod.metadata.uid for pod in pods}


def is_clique(world: Seen, name: str, condition: str) -> bool:
    return any(
        is_condition_true(one.status.conditions, condition)
        for one in world.objects(PODCLIQUES)
        if one.metadata.name == name
    )


def runs(world: Scene, count: int, restart_count: int = 0) -> Callable[[], bool]:
    """So many pods are ready, in the attempt after so many restarts, and the operator knows it.

    What was never seen to be available is not missed: a pod that vanishes is then made again like one that never was.
    A gang that was never seen to be placed is placed as a new one.
    """

    def holds() -> bool:
        is_known = all(one.status.was_available for one in world.objects(PODCLIQUES))
        is_placed = all(one.status.placed_incarnation is not None for one in world.objects(PODGANGS))
        return is_known and is_placed and len(running(world)) == count and restarts(world) == restart_count

    return holds


# --- doing something to it -------------------------------------------------------------------------------------------


async def annotate(world: Scene, pod: Pod, annotations: Mapping[str, Any]) -> None:
    patch = {"metadata": {"annotations": dict(annotations)}}
    await world.client.patch(PODS, pod.metadata.namespace, pod.metadata.name, patch)


async def end(world: Scene, pod: Pod, code: int = 1) -> None:
    """A pod that runs ends now."""
    await annotate(world, pod, {labels.SIM_EXIT_AFTER: "0s", labels.SIM_EXIT_CODE: str(code)})


async def fail_one(world: World, role: str, count: int, restart_count: int = 0) -> None:
    """When all runs, one pod of that role exits 1."""
    await world.wait_until(runs(world, count, restart_count))
    await end(world, running(world, role)[0])


def all_ended(world: Seen) -> bool:
    return all(one.status.phase in ("Succeeded", "Failed") for one in world.objects(PODS))


async def expect_success(world: World, restart_count: int = 0) -> None:
    await world.wait_until(lambda: phase(world) == "Succeeded")
    await world.settle()
    assert phase(world) == "Succeeded"
    assert failure(world) == ""
    assert restarts(world) == restart_count
    assert {pod.status.phase for pod in living(world)} <= {"Succeeded"}


async def expect_failure(world: World, reason: str, restart_count: int = 0) -> None:
    """What ran or waited is gone; what had ended by itself stays for its logs."""
    await world.wait_until(lambda: phase(world) == "Failed")
    assert failure(world) == reason
    assert all_ended(world)
    await world.settle()
    assert all_ended(world)
    assert phase(world) == "Failed"
    assert restarts(world) == restart_count


# --- ends well -------------------------------------------------------------------------------------------------------


async def all_exit_well_and_what_is_deleted_later_stays_deleted(world: World) -> None:
    await world.apply(training(clique("a"), clique("b", 2, exits_after="90s")))
    await expect_success(world)
    assert len(living(world)) == 3
    for pod in living(world):
        await world.delete(PODS, pod.metadata.name)
    await world.settle()
    assert world.pods() == ()
    assert phase(world) == "Succeeded"


async def a_clique_that_finishes_early_is_no_breach(world: World) -> None:
    await world.apply(training(clique("a"), clique("b", 2, exits_after="200s")))
    await world.wait_until(lambda: is_clique(world, "job-0-a", "Succeeded"))
    await world.clock.sleep(60)
    assert not is_clique(world, "job-0-a", "MinAvailableBreached")
    assert phase(world) == "Running"
    assert len(running(world)) == 2
    await expect_success(world)


async def a_completed_pod_deleted_before_its_clique_is_done_is_not_run_again(world: World) -> None:
    await world.apply(training(clique("a", 2, exits_after="300s")))
    await world.wait_until(runs(world, 2))
    first = running(world)[0]
    await end(world, first, code=0)
    await world.wait_until(lambda: any(one.status.succeeded_indices for one in world.objects(PODCLIQUES)))
    await world.delete(PODS, first.metadata.name)
    await world.clock.sleep(60)
    assert len(living(world)) == 1
    await expect_success(world)
    assert len(living(world)) == 1


async def a_pod_with_one_of_two_containers_done_is_no_breach(world: World) -> None:
    await world.apply(training(clique("a", containers=2, exits_after="300s")))
    await world.wait_until(runs(world, 1))
    (pod,) = running(world)
    # A simulated kubelet ends all containers together: the story tells it what it would have written.
    await annotate(world, pod, {labels.SIM_READY_AFTER: FOR_EVER})
    await world.clock.sleep(10)
    await end_side_container(world, pod)
    await world.clock.sleep(60)
    assert running(world) == []
    assert not is_clique(world, "job-0-a", "MinAvailableBreached")
    assert phase(world) == "Running"
    await expect_success(world)


async def end_side_container(world: World, pod: Pod) -> None:
    """The pod runs on, and is not ready any more."""
    status = (await world.client.get(PODS.viewed_as(_Raw), "default", pod.metadata.name)).status
    now = wire_time(world.clock.now())
    side = next(one for one in status["containerStatuses"] if one["name"] == "side")
    started_at = side["state"]["running"]["startedAt"]
    side["state"] = {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": started_at, "finishedAt": now}}
    side["ready"] = False
    for condition in status["conditions"]:
        if condition["type"] in ("Ready", "ContainersReady"):
            condition |= {"status": "False", "reason": "ContainersNotReady", "lastTransitionTime": now}
    await world.client.patch(PODS, "default", pod.metadata.name, {"status": status}, subresource="status")


# --- fails -----------------------------------------------------------------------------------------------------------


async def a_failure_without_a_budget_ends_it(world: World) -> None:
    await world.apply(
        training(clique("a", exits_after=FOR_EVER, stops_after="7s"), clique("b", 2, exits_after="30s", code=3))
    )
    await expect_failure(world, "MaxRestartsExceeded")


async def a_failure_before_it_was_ever_ready_counts(world: World) -> None:
    await world.apply(
        training(clique("a", exits_after=FOR_EVER), clique("b", 2, ready_after="100s", exits_after="10s", code=1))
    )
    await expect_failure(world, "MaxRestartsExceeded")
    assert not any(one.status.was_available for one in world.objects(PODCLIQUES) if "-b" in one.metadata.name)


async def it_fails_twice_and_then_succeeds(world: World) -> None:
    await world.apply(training(clique("a"), clique("b", 2, exits_after="100s"), max_restarts=2))
    await fail_one(world, "-b", 3)
    await fail_one(world, "-a", 3, 1)
    await expect_success(world, 2)
    assert len(living(world)) == 3


async def a_failure_too_many_ends_it(world: World) -> None:
    await world.apply(
        training(clique("a", exits_after=FOR_EVER), clique("b", exits_after="20s", code=1), max_restarts=2)
    )
    await expect_failure(world, "MaxRestartsExceeded", 2)


async def two_replicas_share_one_budget(world: World) -> None:
    await world.apply(training(clique("a", exits_after=FOR_EVER), max_restarts=2, replicas=2))
    await world.wait_until(runs(world, 2))
    first, second = running(world)
    await end(world, first)
    await world.wait_until(runs(world, 2, 1))
    assert second.metadata.uid in uids(living(world))
    await end(world, second)
    await world.wait_until(runs(world, 2, 2))
    assert {entry.count for entry in job(world).status.replica_restarts or ()} == {1}
    await end(world, running(world)[0])
    await expect_failure(world, "MaxRestartsExceeded", 2)


async def two_that_fail_together_need_two_restarts(world: World) -> None:
    await world.apply(training(clique("a", exits_after="20s", code=1), max_restarts=1, replicas=2))
    await world.wait_until(lambda: phase(world) == "Failed")
    await world.settle()
    assert failure(world) == "MaxRestartsExceeded"


# --- above the minimum -----------------------------------------------------------------------------------------------


async def single_failures_above_the_minimum_replace_one_pod_each(world: World) -> None:
    await world.apply(training(clique("a", 4, 3, exits_after="900s")))
    await world.wait_until(runs(world, 4))
    kept = uids(living(world)[1:])
    for _ in range(3):
        await world.wait_until(runs(world, 4))
        await end(world, running(world)[0])
        await world.wait_until(lambda: len(running(world)) == 3)
    await world.wait_until(runs(world, 4))
    assert uids(living(world)[1:]) == kept
    assert restarts(world) == 0
    await expect_success(world)


async def two_failures_at_once_restart_the_replica(world: World) -> None:
    await world.apply(training(clique("a", 4, 3, exits_after="900s"), max_restarts=1))
    await world.wait_until(runs(world, 4))
    await end(world, running(world)[0])
    await world.wait_until(lambda: len(running(world)) == 3)
    await world.wait_until(runs(world, 4))
    before = uids(living(world))
    first, second = running(world)[:2]
    await end(world, first)
    # It failed twice in a row, so that its replacement waits; meanwhile the next one fails.
    await world.wait_until(lambda: len(running(world)) == 3)
    await end(world, second)
    await world.wait_until(runs(world, 4, 1))
    assert not uids(living(world)) & before
    await expect_success(world, 1)


# --- what is lost ----------------------------------------------------------------------------------------------------


async def a_pod_deleted_by_hand_restarts_the_replica_once(world: World) -> None:
    await world.apply(training(clique("a", exits_after="300s"), clique("b", 2, exits_after="300s"), max_restarts=5))
    await world.wait_until(runs(world, 3))
    before = uids(living(world))
    await world.delete(PODS, running(world, "-b")[0].metadata.name)
    await world.wait_until(runs(world, 3, 1))
    assert not uids(living(world)) & before
    await expect_success(world, 1)


async def an_evicted_pod_restarts_the_replica_once(world: World) -> None:
    await world.apply(training(clique("a", exits_after="300s"), clique("b", 2, exits_after="300s"), max_restarts=5))
    await world.wait_until(runs(world, 3))
    before = uids(living(world))
    await world.nodes.drain(running(world, "-a")[0].spec.node_name)
    await world.wait_until(runs(world, 3, 1))
    assert not uids(living(world)) & before
    await expect_success(world, 1)


async def a_lost_node_restarts_the_replica_once(world: World) -> None:
    await world.apply(training(clique("a", exits_after="900s"), clique("b", 2, exits_after="900s"), max_restarts=5))
    await world.wait_until(runs(world, 3))
    before = uids(living(world))
    await world.nodes.fail(running(world, "-b")[0].spec.node_name)
    await world.wait_until(runs(world, 3, 1))
    assert not uids(living(world)) & before
    await world.wait_until(lambda: phase(world) == "Succeeded")
    await world.settle()
    assert restarts(world) == 1


async def the_next_attempt_waits_for_all_pods_of_one_whose_clique_was_deleted(world: World) -> None:
    """The deleted clique leaves nothing to wait for; the pods of the other group replica take 20 s to stop."""
    group: JsonObject = {"name": "g", "cliqueNames": ["b"], "replicas": 2, "minAvailable": 1}
    manifest = training(clique("b", exits_after=FOR_EVER, stops_after="20s"), max_restarts=1, groups=(group,))
    await world.apply(manifest)
    await world.wait_until(runs(world, 2))
    first = uids(list(world.pods()))
    await world.delete(PODCLIQUES, "job-0-g-0-b")
    await world.wait_until(lambda: bool(uids(list(world.pods())) - first))
    assert not uids(list(world.pods())) & first
    await world.wait_until(runs(world, 2, 1))


async def a_clique_deleted_by_hand_restarts_the_replica_once(world: World) -> None:
    await world.apply(training(clique("a", exits_after="300s"), clique("b", 2, exits_after="300s"), max_restarts=5))
    await world.wait_until(runs(world, 3))
    before = uids(living(world))
    await world.delete(PODCLIQUES, "job-0-b")
    await world.wait_until(
        lambda: restarts(world) == 1 and len(running(world)) == 3 and not uids(living(world)) & before
    )
    await expect_success(world, 1)


# --- below the minimum -----------------------------------------------------------------------------------------------


async def nodes_lost_one_after_another_restart_the_replica_below_its_minimum(world: World) -> None:
    await world.apply(training(clique("a", 4, 3, exits_after="3000s"), max_restarts=1))
    await world.wait_until(runs(world, 4))
    first, second = running(world)[:2]
    await world.nodes.fail(first.spec.node_name)
    # Its pod is given up after five minutes; the one that follows finds no room.
    await world.wait_until(lambda: len(living(world)) == 4 and first.metadata.uid not in uids(living(world)))
    await world.clock.sleep(60)
    assert not is_clique(world, "job-0-a", "MinAvailableBreached")
    await world.nodes.fail(second.spec.node_name)
    await world.wait_until(lambda: restarts(world) == 1)
    for lost in (first, second):
        await world.nodes.recover(lost.spec.node_name)
    await expect_success(world, 1)


async def evictions_one_after_another_restart_the_replica_below_its_minimum(world: World) -> None:
    await world.apply(training(clique("a", 4, 3, exits_after="900s"), max_restarts=1))
    await world.wait_until(runs(world, 4))
    drained = [pod.spec.node_name for pod in running(world)[:2]]
    await world.nodes.drain(drained[0])
    await world.clock.sleep(60)
    assert (len(running(world)), restarts(world)) == (3, 0)
    await world.nodes.drain(drained[1])
    await world.wait_until(lambda: restarts(world) == 1)
    for name in drained:
        await world.nodes.uncordon(name)
    await expect_success(world, 1)


async def a_container_that_crashes_in_place_restarts_the_replica(world: World) -> None:
    await world.apply(training(clique("a", 2, exits_after="300s", restart_policy="OnFailure"), max_restarts=1))
    await world.wait_until(runs(world, 2))
    before = uids(living(world))
    await end(world, running(world)[0])
    await world.wait_until(runs(world, 2, 1))
    assert not uids(living(world)) & before
    await expect_success(world, 1)


async def a_container_that_crashes_in_place_from_the_first_start_is_a_failure(world: World) -> None:
    broken = clique("a", 2, exits_after="5s", code=1, ready_after="60s", restart_policy="OnFailure")
    await world.apply(training(broken))
    await expect_failure(world, "MaxRestartsExceeded")
    assert "exit code 1 (Error)" in failure_message(world)


async def an_index_that_always_fails_is_given_up_and_fails_the_job_at_its_end(world: World) -> None:
    await world.apply(training(clique("a", 3, 2, exits_after="3000s")))
    await world.wait_until(runs(world, 3))
    await world.settle()
    for _ in range(6):
        await world.wait_until(lambda: len(running(world)) == 3)
        await end(world, running(world)[2])
        await world.wait_until(lambda: len(running(world)) == 2)
    await world.wait_until(lambda: world.objects(PODCLIQUES)[0].status.failed_indices == (2,))
    await world.clock.sleep(600)
    assert (len(running(world)), phase(world)) == (2, "Running")
    assert not is_clique(world, "job-0-a", "MinAvailableBreached")
    await expect_failure(world, "MaxRestartsExceeded")
    assert "given up after 6 failures: index 2" in failure_message(world)


# --- what is left of a failure ---------------------------------------------------------------------------------------


async def after_the_end_what_failed_stays_and_the_condition_says_what_it_was(world: World) -> None:
    manifest = training(clique("a", exits_after=FOR_EVER), clique("b", 2, exits_after=FOR_EVER))
    await world.apply(manifest)
    await world.wait_until(runs(world, 3))
    await world.settle()
    failed = running(world, "-b")[1]
    await end(world, failed, code=7)
    await expect_failure(world, "MaxRestartsExceeded")
    assert [(pod.metadata.uid, pod.status.phase) for pod in world.pods()] == [(failed.metadata.uid, "Failed")]
    assert f"first: pod {failed.metadata.name}, container main, exit code 7 (Error)" in failure_message(world)


async def what_failed_during_the_delay_is_named_although_it_was_replaced(world: World) -> None:
    await world.apply(training(clique("a", 2, exits_after=FOR_EVER), delay="60s"))
    await world.wait_until(runs(world, 2))
    await world.settle()
    failed = running(world)[0]
    await world.nodes.cordon(failed.spec.node_name)
    await end(world, failed, code=7)
    await world.wait_until(lambda: failed.metadata.uid not in uids(living(world)))
    await expect_failure(world, "MaxRestartsExceeded")
    assert f"first: pod {failed.metadata.name}, container main, exit code 7 (Error)" in failure_message(world)


async def a_lost_node_is_named_when_no_pod_failed(world: World) -> None:
    await world.apply(training(clique("a", 2, exits_after=FOR_EVER)))
    await world.wait_until(runs(world, 2))
    await world.settle()
    lost = running(world)[0]
    await world.nodes.fail(lost.spec.node_name)
    await world.wait_until(lambda: failure(world) == "MaxRestartsExceeded")
    message = failure_message(world)
    assert lost.metadata.name in message
    assert f"node {lost.spec.node_name}" in message


# --- a delay that is asked for ---------------------------------------------------------------------------------------


async def with_a_delay_a_lost_pod_is_replaced_and_heals(world: World) -> None:
    await world.apply(training(clique("a", 2, exits_after="300s"), delay="30s"))
    await world.wait_until(runs(world, 2))
    kept = uids(running(world)[1:])
    await end(world, running(world)[0])
    await world.wait_until(lambda: is_clique(world, "job-0-a", "MinAvailableBreached"))
    await world.wait_until(runs(world, 2))
    await world.wait_until(lambda: not is_clique(world, "job-0-a", "MinAvailableBreached"))
    await world.clock.sleep(60)
    assert uids(running(world)[1:]) == kept
    await expect_success(world)


async def with_a_delay_that_does_not_heal_it_is_restarted_when_that_is_over(world: World) -> None:
    await world.apply(training(clique("a", 2, exits_after="300s"), delay="30s", max_restarts=1))
    await world.wait_until(runs(world, 2))
    lost = running(world)[0]
    await world.nodes.cordon(lost.spec.node_name)
    await end(world, lost)
    # There is no room for a replacement: one that waits heals nothing.
    await world.clock.sleep(25)
    assert is_clique(world, "job-0-a", "MinAvailableBreached")
    assert restarts(world) == 0
    await world.wait_until(lambda: restarts(world) == 1)
    await world.nodes.uncordon(lost.spec.node_name)
    await expect_success(world, 1)


async def a_replacement_finds_its_place_although_what_ended_well_is_gone(world: World) -> None:
    await world.apply(training(clique("a", exits_after="20s"), clique("b", 2, exits_after="300s"), delay="60s"))
    await world.wait_until(lambda: is_clique(world, "job-0-a", "Succeeded"))
    await world.delete(PODS, living(world, "-a")[0].metadata.name)
    await end(world, running(world, "-b")[0])
    await world.wait_until(lambda: is_clique(world, "job-0-b", "MinAvailableBreached"))
    await world.wait_until(lambda: len(running(world, "-b")) == 2)
    await expect_success(world)


# --- groups ----------------------------------------------------------------------------------------------------------


async def a_broken_group_replica_restarts_all(world: World) -> None:
    group: JsonObject = {"name": "g", "cliqueNames": ["b"], "replicas": 2, "minAvailable": 1}
    manifest = training(
        clique("a", exits_after="300s"), clique("b", exits_after="300s"), max_restarts=1, groups=(group,)
    )
    await world.apply(manifest)
    await world.wait_until(runs(world, 3))
    before = uids(living(world))
    await end(world, running(world, "-g-1-b")[0])
    await world.wait_until(runs(world, 3, 1))
    assert not uids(living(world)) & before
    await expect_success(world, 1)


# --- the deadline ----------------------------------------------------------------------------------------------------


async def the_deadline_passes_while_it_runs(world: World) -> None:
    await world.apply(training(clique("a", exits_after=FOR_EVER), clique("b", exits_after="10s"), max_runtime="60s"))
    await expect_failure(world, "MaxRuntimeExceeded")


async def the_deadline_passes_while_it_restarts(world: World) -> None:
    slow = clique("a", 2, exits_after=FOR_EVER, stops_after="25s")
    await world.apply(training(slow, max_runtime="60s", max_restarts=3))
    await world.wait_until(runs(world, 2))
    await world.wait_until(lambda: job(world).status.start_time is not None)
    start = job(world).status.start_time
    await world.clock.sleep(45)
    await end(world, running(world)[0])
    await expect_failure(world, "MaxRuntimeExceeded", 1)
    assert job(world).status.start_time == start


async def the_deadline_passes_while_it_waits_for_room_again(world: World) -> None:
    await world.apply(training(clique("a", 2, exits_after=FOR_EVER), max_runtime="60s", max_restarts=3))
    await world.wait_until(runs(world, 2))
    lost = running(world)[0]
    await world.nodes.cordon(lost.spec.node_name)
    await end(world, lost)
    await world.wait_until(lambda: phase(world) == "Pending" and restarts(world) == 1)
    await expect_failure(world, "MaxRuntimeExceeded", 1)


async def the_deadline_passes_while_a_scaled_gang_finds_no_room(world: World) -> None:
    group: JsonObject = {"name": "g", "cliqueNames": ["b"], "replicas": 2, "minAvailable": 1}
    roles = (clique("a", exits_after=FOR_EVER), clique("b", exits_after=FOR_EVER))
    await world.apply(training(*roles, max_runtime="60s", groups=(group,)))
    await world.wait_until(lambda: len(running(world)) == 2)
    assert len(living(world)) == 3
    await expect_failure(world, "MaxRuntimeExceeded")


async def it_runs_while_it_loads_and_its_time_counts_from_then(world: World) -> None:
    await world.apply(training(clique("a", 2, exits_after="1300s", ready_after="1200s"), max_runtime="2000s"))
    await world.wait_until(lambda: phase(world) == "Running")
    await world.wait_until(lambda: job(world).status.start_time is not None)
    start = job(world).status.start_time
    assert start is not None
    assert (world.clock.now() - start).total_seconds() < 10
    assert running(world) == []
    await expect_success(world)


async def a_set_that_serves_runs_while_its_model_loads(world: World) -> None:
    manifest = training(clique("a", 2, exits_after=FOR_EVER, ready_after="1200s"))
    del manifest["spec"]["workloadType"], manifest["spec"]["trainingSpec"]
    await world.apply(manifest)
    await world.clock.sleep(60)
    assert running(world) == []
    assert (phase(world), job(world).status.available_replicas) == ("Running", 0)
    await world.settle(quiet_seconds=1300)
    assert (phase(world), job(world).status.available_replicas) == ("Running", 1)


async def a_job_that_runs_away_is_capped(world: World) -> None:
    await world.apply(training(clique("a", exits_after=FOR_EVER)))
    await world.wait_until(lambda: job(world).status.start_time is not None)
    await world.clock.sleep(100)
    await limit(world, maxRuntime="60s")
    await expect_failure(world, "MaxRuntimeExceeded")


async def a_budget_lowered_below_what_was_used_ends_it_at_the_next_failure(world: World) -> None:
    await world.apply(training(clique("a", exits_after=FOR_EVER), max_restarts=5))
    await fail_one(world, "-a", 1)
    await fail_one(world, "-a", 1, 1)
    await world.wait_until(runs(world, 1, 2))
    await limit(world, maxRestarts=1)
    await world.clock.sleep(60)
    assert phase(world) == "Running"
    await end(world, running(world)[0])
    await expect_failure(world, "MaxRestartsExceeded", 2)
    assert failure_message(world).startswith("it failed and all restarts are used (2 of 1)")


async def limit(world: Scene, **limits: str | int) -> None:
    metadata = job(world).metadata
    await world.client.patch(PODCLIQUESETS, metadata.namespace, metadata.name, {"spec": {"trainingSpec": limits}})


TRAINING_STORIES = tuple(
    # In which order the two are counted is chance: the words of the failure differ.
    Story(tell.__name__, nodes, tell, has_one_end=tell is not two_that_fail_together_need_two_restarts)
    for nodes, tell in (
        (3, all_exit_well_and_what_is_deleted_later_stays_deleted),
        (3, a_clique_that_finishes_early_is_no_breach),
        (2, a_completed_pod_deleted_before_its_clique_is_done_is_not_run_again),
        (1, a_pod_with_one_of_two_containers_done_is_no_breach),
        (3, a_failure_without_a_budget_ends_it),
        (3, a_failure_before_it_was_ever_ready_counts),
        (3, it_fails_twice_and_then_succeeds),
        (2, a_failure_too_many_ends_it),
        (2, two_replicas_share_one_budget),
        (2, two_that_fail_together_need_two_restarts),
        (4, single_failures_above_the_minimum_replace_one_pod_each),
        (4, two_failures_at_once_restart_the_replica),
        (3, a_pod_deleted_by_hand_restarts_the_replica_once),
        (4, an_evicted_pod_restarts_the_replica_once),
        (5, a_lost_node_restarts_the_replica_once),
        (3, a_clique_deleted_by_hand_restarts_the_replica_once),
        (2, with_a_delay_a_lost_pod_is_replaced_and_heals),
        (2, with_a_delay_that_does_not_heal_it_is_restarted_when_that_is_over),
        (3, a_replacement_finds_its_place_although_what_ended_well_is_gone),
        (3, a_broken_group_replica_restarts_all),
        (2, the_deadline_passes_while_it_runs),
        (2, the_deadline_passes_while_it_restarts),
        (2, the_next_attempt_waits_for_all_pods_of_one_whose_clique_was_deleted),
        (2, the_deadline_passes_while_it_waits_for_room_again),
        (4, nodes_lost_one_after_another_restart_the_replica_below_its_minimum),
        (4, evictions_one_after_another_restart_the_replica_below_its_minimum),
        (2, a_container_that_crashes_in_place_restarts_the_replica),
        (2, a_container_that_crashes_in_place_from_the_first_start_is_a_failure),
        (3, an_index_that_always_fails_is_given_up_and_fails_the_job_at_its_end),
        (3, after_the_end_what_failed_stays_and_the_condition_says_what_it_was),
        (2, what_failed_during_the_delay_is_named_although_it_was_replaced),
        (2, a_lost_node_is_named_when_no_pod_failed),
        (2, the_deadline_passes_while_a_scaled_gang_finds_no_room),
        (2, it_runs_while_it_loads_and_its_time_counts_from_then),
        (2, a_set_that_serves_runs_while_its_model_loads),
        (1, a_job_that_runs_away_is_capped),
        (1, a_budget_lowered_below_what_was_used_ends_it_at_the_next_failure),
    )
)

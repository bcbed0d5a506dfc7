"""Each rule of training finds what breaks it: somebody writes what the operator never should, and nobody else does."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from grove.api import labels
from grove.api.resources import PODCLIQUES, PODCLIQUESETS, PODGANGS, PODS
from grove.api.types.meta import JsonObject
from grove.planner.teardown.recreation import Record, Recreation
from grove.sim.invariants.staleness import MOMENT
from grove.sim.simulation import World
from grove.sim.virtual_clock import run_virtual
from tests.simulation.stories import ONE_POD_NODE
from tests.simulation.training_stories import FOR_EVER, clique, living, runs, training

COUNTED = {"restartCount": 1, "replicaRestarts": [{"replicaIndex": 0, "count": 1}]}
BREACHED = {
    "type": "MinAvailableBreached", "status": "True", "reason": "PodFailed", "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}  # fmt: skip


async def told(world: World, **status: Any) -> None:
    """The set's status says so."""
    await world.client.patch(PODCLIQUESETS, "default", "job", {"status": status}, subresource="status")


async def breach(world: World) -> None:
    await world.client.patch(
        PODCLIQUES, "default", "job-0-a", {"status": {"conditions": [BREACHED]}}, subresource="status"
    )


async def begin(world: World, life: str) -> None:
    text = msgspec.json.encode(Record(count=1, open=(Recreation(incarnation=life),))).decode()
    await world.client.patch(PODGANGS, "default", "job-0", {"metadata": {"annotations": {labels.RECREATION: text}}})


def a_pod(world: World, *, index: str, life: str = "1") -> JsonObject:
    (one,) = world.objects(PODCLIQUES)
    owner = {"apiVersion": "grove.io/v1alpha1", "kind": "PodClique", "name": "job-0-a", "controller": True}
    told = {**living(world)[0].metadata.labels, labels.POD_INDEX: index, labels.INCARNATION: life}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "extra",
            "labels": told,
            "ownerReferences": [{**owner, "uid": one.metadata.uid}],
        },
        "spec": {"containers": [{"name": "main", "image": "i"}], "schedulingGates": [{"name": labels.GATE}]},
    }


async def counts_without_a_breach(world: World) -> None:
    await told(world, **COUNTED)


async def counts_twice_for_one_restart(world: World) -> None:
    await breach(world)
    await told(world, **COUNTED)
    await told(world, restartCount=2, replicaRestarts=[{"replicaIndex": 0, "count": 2}])


async def counts_more_than_allowed(world: World) -> None:
    await breach(world)
    await told(world, restartCount=5, replicaRestarts=[{"replicaIndex": 0, "count": 5}])


async def counts_what_its_replicas_do_not(world: World) -> None:
    await told(world, restartCount=1)


async def counts_back(world: World) -> None:
    await breach(world)
    await told(world, **COUNTED)
    await told(world, restartCount=0, replicaRestarts=[])


async def begins_a_life_that_was_not_counted(world: World) -> None:
    await begin(world, "1.1")


async def says_failed_beside_living_pods(world: World) -> None:
    await told(world, phase="Failed", conditions=[{**BREACHED, "type": "Failed", "reason": "MaxRestartsExceeded"}])


async def says_failed_and_not_why(world: World) -> None:
    await told(world, phase="Failed")


async def begins_again_after_the_end(world: World) -> None:
    await told(world, phase="Succeeded")
    await told(world, phase="Running")


async def shifts_the_time_of_its_start(world: World) -> None:
    await world.wait_until(lambda: world.objects(PODCLIQUESETS)[0].status.start_time is not None)
    await told(world, startTime="2026-01-01T01:00:00Z")


async def runs_again_what_ended_well(world: World) -> None:
    await world.client.patch(
        PODCLIQUES, "default", "job-0-a", {"status": {"succeededIndices": [1]}}, subresource="status"
    )
    await world.apply(a_pod(world, index="1"))


async def forgets_what_ended_well(world: World) -> None:
    for known in ([0, 1], [1]):
        patch = {"status": {"succeededIndices": known}}
        await world.client.patch(PODCLIQUES, "default", "job-0-a", patch, subresource="status")


async def starts_the_next_attempt_beside_the_last(world: World) -> None:
    await world.apply(a_pod(world, index="1", life="1.1"))


async def does_not_say_that_the_minimum_is_lost(world: World) -> None:
    await world.nodes.fail("node-0")
    await world.clock.sleep(2 * MOMENT.total_seconds())
    fine = {**BREACHED, "status": "False", "reason": "SufficientReadyPods"}
    patch = {"status": {"conditions": [fine], "readyReplicas": 0}}
    await world.client.patch(PODCLIQUES, "default", "job-0-a", patch, subresource="status")


async def makes_a_pod_after_the_end(world: World) -> None:
    await told(world, phase="Succeeded")
    await world.clock.sleep(2 * MOMENT.total_seconds())
    await world.apply(a_pod(world, index="1"))


@pytest.mark.parametrize(
    ("deed", "error_message"),
    [
        (counts_without_a_breach, "is counted although nothing of it is in breach"),
        (counts_twice_for_one_restart, "was recreated 0 times, but its restart has number 2"),
        (counts_more_than_allowed, "restartCount is 5, at most 3 are allowed"),
        (counts_what_its_replicas_do_not, "restartCount is 1, and its replicas count {}"),
        (counts_back, "restartCount went from 1 back to 0"),
        (begins_a_life_that_was_not_counted, "incarnation 1.1 begins, and only 0 restarts of its replica are counted"),
        (says_failed_beside_living_pods, "phase Failed, and pod"),
        (says_failed_and_not_why, "phase Failed without the condition that says why"),
        (begins_again_after_the_end, "phase went from Succeeded to Running"),
        (shifts_the_time_of_its_start, "startTime changed from"),
        (runs_again_what_ended_well, "index 1 ended well and is run again"),
        (forgets_what_ended_well, "indices [0] had ended well, and that is forgotten"),
        (starts_the_next_attempt_beside_the_last, "of an earlier attempt is still there"),
        (
            does_not_say_that_the_minimum_is_lost,
            "0 of at least 1 pods are available, and its condition says False, SufficientReadyPods",
        ),
        (makes_a_pod_after_the_end, "made although the set had Succeeded"),
    ],
)
def test_a_deed_that_no_operator_does_is_found(deed: Callable[[World], Awaitable[None]], error_message: str) -> None:
    async def run() -> list[str]:
        async with World(seed=1, nodes=1, node_resources=ONE_POD_NODE) as world:
            await world.apply(training(clique("a", exits_after=FOR_EVER), max_restarts=3))
            await world.wait_until(runs(world, 1))
            await world.settle()
            world.check()
            await world.crash_controller()
            await deed(world)
            assert len(world.objects(PODS)) >= 1
            return world.invariants.broken

    assert error_message in "\n".join(run_virtual(run()))

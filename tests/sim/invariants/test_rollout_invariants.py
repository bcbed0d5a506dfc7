"""Each safety rule of rolling updates notices an operator that breaks it, and only then.

The real operator brings an update to the middle of its first step; then a rogue takes its place and does one thing.
"""

from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import msgspec
import pytest

from grove.api import labels
from grove.api.resources import CONTROLLER_REVISIONS, GROUPS, PODCLIQUES, PODCLIQUESETS, PODGANGS, PODS, Resource
from grove.api.types.meta import JsonObject, ObjectMeta, WireStruct
from grove.api.types.pod import Pod
from grove.clock import Clock
from grove.controller.manager import Controller
from grove.kube.client import Client
from grove.planner.teardown.recreation import Record, Recreation
from grove.sim.simulation import SimulatedOperator, World
from grove.sim.virtual_clock import run_virtual
from tests.simulation.stories import ONE_POD_NODE
from tests.simulation.updating import (
    change_annotations,
    choose_strategy,
    delete_pod,
    revisions,
    small,
    start,
    turn,
)

Act = Callable[["Rogue"], Awaitable[None]]
ENDED = "2026-01-01T00:10:00Z"


class Whole(WireStruct):
    """A pod as it was written."""

    metadata: ObjectMeta
    spec: JsonObject = {}


class Rogue:
    """An operator that does one thing, and wrongly so."""

    def __init__(self, world: World, client: Client, act: Act) -> None:
        self.world = world
        self._client = client
        self._act = act

    async def run(self) -> None:
        await self._act(self)

    async def tell(self, resource: Resource[Any], name: str, status: JsonObject) -> None:
        await self._client.patch(resource, "default", name, {"status": status}, subresource="status")

    async def take_pod(self, clique: str, pod: Pod, *completed: str) -> None:
        selected = {"current": pod.metadata.name, "completed": list(completed)}
        progress = {"updateStartedAt": "2026-01-01T00:04:00Z", "readyPodsSelectedToUpdate": selected}
        await self.tell(PODCLIQUES, clique, {"rollingUpdateProgress": progress})

    async def take_replica(self, group: str, index: int, *completed: int) -> None:
        selected = {"current": index, "completed": list(completed)}
        progress = {"readyReplicaIndicesSelectedToUpdate": selected}
        await self.tell(GROUPS, group, {"rollingUpdateProgress": progress})

    async def recreate(self, gang: str, group: str, index: int) -> None:
        record = Record(count=9, open=(Recreation(group=group, index=index, incarnation="1.9"),))
        patch = {"metadata": {"annotations": {labels.RECREATION: msgspec.json.encode(record).decode()}}}
        await self._client.patch(PODGANGS, "default", gang, patch)

    async def delete(self, resource: Resource[Any], metadata: ObjectMeta) -> None:
        await self._client.delete(resource, "default", metadata.name, uid=metadata.uid)

    async def make_like(self, pod: Pod, template_hash: str) -> None:
        """A further pod of the same clique, from another template."""
        original = next(p for p in self.world.objects(PODS.viewed_as(Whole)) if p.metadata.uid == pod.metadata.uid)
        body = msgspec.to_builtins(original)
        kept = {key: body["metadata"][key] for key in ("namespace", "labels", "ownerReferences")}
        metadata = {**kept, "name": "another", "labels": {**kept["labels"], labels.TEMPLATE_HASH: template_hash}}
        spec = {key: value for key, value in original.spec.items() if key != "nodeName"}
        await self._client.create(
            PODS, "default", {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        )

    async def scale(self, clique: str, replicas: int) -> None:
        await self._client.patch(PODCLIQUES, "default", clique, {"spec": {"replicas": replicas}})

    def pods(self, clique: str, *, new: bool = False) -> list[Pod]:
        """Pods of the old template, or of the new one, by name."""
        newest = revisions(self.world)[-1].template.hashes.values()
        mine = [p for p in self.world.pods() if p.metadata.labels[labels.PODCLIQUE] == clique]
        return [p for p in mine if (p.metadata.labels[labels.TEMPLATE_HASH] in newest) is new]


def broken_by(act: Act, *, before: Callable[[World], Awaitable[None]] | None = None) -> list[str]:
    """What the rules say to what a rogue does in the middle of an update of replica 1 of 2."""
    acts: list[Act] = []

    def operator(client: Client, clock: Clock, random: Random) -> SimulatedOperator:
        return Rogue(world, client, acts.pop()) if acts else Controller(client, clock, random)

    world = World(seed=1, nodes=12, node_resources=ONE_POD_NODE, operator=operator)

    async def run() -> list[str]:
        async with world:
            await start(world, small(replicas=2, pods=3, minimum=2, group=2))
            await change_annotations(world, {labels.SIM_READY_AFTER: "8760h"})
            await world.clock.sleep(60)
            assert turn(world) == 1
            await world.crash_controller()
            if before is not None:
                await before(world)
            world.check()
            acts.append(act)
            await world.restart_controller()
            await world.clock.sleep(1)
            return world.invariants.broken

    return run_virtual(run())


def test_what_is_allowed_breaks_no_rule() -> None:
    async def act(rogue: Rogue) -> None:
        # Its own last choice once more, and a pod that is not ready and runs an older template.
        progress = {"rollingUpdateProgress": {"updateStartedAt": "2026-01-01T00:05:00Z"}}
        await rogue.tell(PODCLIQUES, "s-1-a", progress)
        await rogue.delete(PODS, rogue.pods("s-1-a", new=True)[0].metadata)

    assert broken_by(act) == []


async def a_second_ready_pod(rogue: Rogue) -> None:
    await rogue.take_pod("s-1-a", rogue.pods("s-1-a")[0], "the-one-before")


async def a_pod_of_the_newest_template(rogue: Rogue) -> None:
    await rogue.take_pod("s-1-a", rogue.pods("s-1-a", new=True)[0])


async def a_pod_of_another_replica(rogue: Rogue) -> None:
    await rogue.take_pod("s-0-a", rogue.pods("s-0-a")[0])


async def a_pod_of_a_member(rogue: Rogue) -> None:
    await rogue.take_pod("s-1-g-1-b", rogue.pods("s-1-g-1-b")[0])


async def a_second_ready_group_replica(rogue: Rogue) -> None:
    await rogue.take_replica("s-1-g", 1, 0)


async def a_group_replica_of_another_replica(rogue: Rogue) -> None:
    await rogue.take_replica("s-0-g", 1)


async def a_ready_group_replica_without_a_word(rogue: Rogue) -> None:
    await rogue.recreate("s-1-g-0", "s-1-g", 1)


async def a_group_replica_of_the_newest_template(rogue: Rogue) -> None:
    await rogue.recreate("s-1", "s-1-g", 0)


async def a_ready_pod_without_a_word(rogue: Rogue) -> None:
    await rogue.delete(PODS, rogue.pods("s-1-a")[0].metadata)


async def the_end_of_the_set(rogue: Rogue) -> None:
    await rogue.tell(PODCLIQUESETS, "s", {"rollingUpdateProgress": {"updateEndedAt": ENDED, "currentlyUpdating": None}})


async def the_next_turn(rogue: Rogue) -> None:
    turn = {"replicaIndex": 0, "updateStartedAt": ENDED}
    await rogue.tell(PODCLIQUESETS, "s", {"rollingUpdateProgress": {"currentlyUpdating": turn}})


async def the_end_of_the_clique(rogue: Rogue) -> None:
    await rogue.tell(PODCLIQUES, "s-1-a", {"rollingUpdateProgress": {"updateEndedAt": ENDED}})


async def a_breach_of_the_clique(rogue: Rogue) -> None:
    await rogue.tell(PODCLIQUES, "s-1-a", {"conditions": [_breach()]})


async def a_breach_of_the_group(rogue: Rogue) -> None:
    await rogue.tell(GROUPS, "s-1-g", {"conditions": [_breach()]})


def _breach() -> JsonObject:
    return {
        "type": "MinAvailableBreached",
        "status": "True",
        "reason": "InsufficientReadyPods",
        "message": "",
        "lastTransitionTime": ENDED,
    }


async def a_template_whose_turn_has_not_come(rogue: Rogue) -> None:
    newest = revisions(rogue.world)[-1].template.hashes["a"]
    await rogue.make_like(rogue.pods("s-0-a")[0], newest)


async def a_revision_in_use(rogue: Rogue) -> None:
    await rogue.delete(CONTROLLER_REVISIONS, revisions(rogue.world)[0].object.metadata)


async def a_count(rogue: Rogue) -> None:
    await rogue.scale("s-1-a", 5)


@pytest.mark.parametrize(
    ("act", "reason"),
    [
        (a_second_ready_pod, "although the pod that was taken before has no replacement yet"),
        (a_pod_of_the_newest_template, "which runs the newest template"),
        (a_pod_of_another_replica, "it is the turn of replica 1"),
        (a_pod_of_a_member, "although its group replica is replaced as a whole"),
        (a_second_ready_group_replica, "although replica 0, taken before, has no replacement yet"),
        (a_group_replica_of_another_replica, "it is the turn of replica 1"),
        (a_ready_group_replica_without_a_word, "which is available, without having selected it"),
        (a_group_replica_of_the_newest_template, "which runs the newest templates"),
        (a_ready_pod_without_a_word, "that no update selected"),
        (the_end_of_the_set, "the update is called done, but pod"),
        (the_next_turn, "replica 1 is called done, but pod"),
        (the_end_of_the_clique, "its update is called ended, but pod"),
        (a_breach_of_the_clique, "is called breached while it is updated"),
        (a_breach_of_the_group, "is called breached while it is updated"),
        (a_template_whose_turn_has_not_come, "it is not its turn"),
        (a_revision_in_use, "although replica s-0 runs it"),
        (a_count, "changes a count that others scale"),
    ],
)
def test_a_rule_notices(act: Act, reason: str) -> None:
    assert any(reason in line for line in broken_by(act)), reason


@pytest.mark.parametrize("seconds", [0, 30])
def test_a_minimum_that_others_broke_is_known_after_a_moment(seconds: int) -> None:
    """Just now the operator may not have heard of it; half a minute later it must have."""

    async def lose_one(world: World) -> None:
        mine = [p for p in world.pods() if p.metadata.labels[labels.PODCLIQUE] == "s-1-a" and p.is_ready]
        await delete_pod(world, mine[0])
        await world.clock.sleep(seconds)

    async def act(rogue: Rogue) -> None:
        await rogue.take_pod("s-1-a", rogue.pods("s-1-a")[-1])

    found = broken_by(act, before=lose_one)
    assert any("while 1 of at least 2 are ready" in line for line in found) is (seconds > 0)


@pytest.mark.parametrize("seconds", [0, 30])
def test_a_switch_to_on_delete_is_known_after_a_moment(seconds: int) -> None:
    async def switch(world: World) -> None:
        await choose_strategy(world, "OnDelete")
        await world.clock.sleep(seconds)

    async def act(rogue: Rogue) -> None:
        await rogue.take_pod("s-1-a", rogue.pods("s-1-a")[0])

    found = broken_by(act, before=switch)
    assert any("the set updates on delete only" in line for line in found) is (seconds > 0)

"""A server that is restored from a backup: the operator goes on with what the server says, and nothing else.

Plain: the revision goes back, and is used again. Bumped: the revision is ahead of all that was known, and only the
objects are old. See docs/how-to/restore-etcd.md.
"""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from grove.api.resources import PODCLIQUES, PODCLIQUESETS, PODS
from grove.cluster.storage.store import Backup
from grove.kube.api_errors import ConnectionLost
from grove.sim.faults import RecordedWrite
from grove.sim.simulation import World
from grove.sim.virtual_clock import run_virtual
from tests.simulation.restored import unrestored
from tests.simulation.stories import ONE_POD_NODE, WORKLOAD1, find_set, named

BUMPS = pytest.mark.parametrize("bump", [pytest.param(0, id="plain"), pytest.param(1_000_000, id="bumped")])


class RestoredWorld:
    """A world that can be put back. Rules that judge what the operator did are about one history, so they are off."""

    def __init__(self, *, nodes: int = 40) -> None:
        self.world = World(seed=1, nodes=nodes, node_resources=ONE_POD_NODE, is_checked=False)
        self.restored_at = 0.0

    async def put_back(self, backup: Backup, bump: int, *, away_seconds: float = 5.0) -> None:
        """As it is done: API servers stop, etcd is restored, API servers start."""
        world = self.world
        away = world.operator.refuse(lambda _: True, ConnectionLost("connection refused"))
        for table in world.server.store.tables():
            table.retire()
        await world.clock.sleep(away_seconds)
        world.server.store.restore_backup(backup, bump=bump)
        self.restored_at = world.clock.monotonic()
        world.operator.lift(away)

    def writes(self) -> list[RecordedWrite]:
        """Of the operator, since the server is back."""
        return [write for write in self.world.writes_by("operator") if write.at >= self.restored_at]

    def writes_about(self, name: str) -> list[str]:
        """Writes that name something of a set, other than events, which are the past reported late."""
        found = [f"{w.target.verb} {w.target.resource} {w.target.object_name}" for w in self.writes()]
        bodies = [w.request.body.decode() for w in self.writes()]
        reported = zip(found, bodies, strict=True)
        return [what for what, body in reported if (name in what or f'"{name}' in body) and " events" not in what]

    def writes_of_pods(self) -> list[str]:
        found = (write.target for write in self.writes())
        return [f"{target.verb} {target.object_name}" for target in found if target.resource == "pods"]


def run(story: Callable[[RestoredWorld], Awaitable[None]]) -> None:
    async def main() -> None:
        restored = RestoredWorld()
        async with restored.world:
            await story(restored)

    run_virtual(main())


async def settle(restored: RestoredWorld) -> None:
    await restored.world.settle()
    assert unrestored(restored.world) == []


@BUMPS
def test_nothing_is_made_or_deleted_for_a_set_that_is_gone(bump: int) -> None:
    async def story(restored: RestoredWorld) -> None:
        world = restored.world
        await world.apply(WORKLOAD1)
        await world.settle()
        backup = world.server.store.back_up()
        await world.apply(named("later"))
        await world.settle()
        # It is being changed when the server goes.
        await world.scale(PODCLIQUES, "later-0-pc-a", 3)
        await world.scale(PODCLIQUESETS, "later", 2)
        await restored.put_back(backup, bump)
        await settle(restored)
        assert [pcs.metadata.name for pcs in world.objects(PODCLIQUESETS)] == ["workload1"]
        assert restored.writes_about("later") == []
        assert restored.writes_of_pods() == []
        assert len(world.running_pods()) == 10

    run(story)


@BUMPS
def test_a_set_that_comes_back_goes_on_with_the_pods_that_come_back(bump: int) -> None:
    async def story(restored: RestoredWorld) -> None:
        world = restored.world
        await world.apply(WORKLOAD1)
        await world.settle()
        names = {pod.metadata.name for pod in world.running_pods()}
        backup = world.server.store.back_up()
        await world.delete(PODCLIQUESETS, "workload1")
        await world.settle()
        assert world.pods() == ()
        await restored.put_back(backup, bump)
        await settle(restored)
        assert {pod.metadata.name for pod in world.running_pods()} == names
        assert restored.writes_of_pods() == []

    run(story)


@BUMPS
def test_what_was_changed_after_the_backup_is_done_again_only_when_it_is_asked_for_again(bump: int) -> None:
    async def story(restored: RestoredWorld) -> None:
        world = restored.world
        await world.apply(WORKLOAD1)
        await world.settle()
        backup = world.server.store.back_up()
        await world.scale(PODCLIQUESETS, "workload1", 3)
        await world.settle()
        for pod in world.pods()[:3]:
            await world.client.delete(PODS, "default", pod.metadata.name)
        await world.settle()
        await restored.put_back(backup, bump)
        await settle(restored)
        assert find_set(world, "workload1").spec.replicas == 1
        assert restored.writes_of_pods() == []
        await world.scale(PODCLIQUESETS, "workload1", 2)
        await settle(restored)
        assert len(world.running_pods()) == 20

    run(story)


@BUMPS
@pytest.mark.parametrize("seconds", [0.05, 0.3, 1.0, 3.0, 8.0])
def test_a_backup_of_any_moment_leads_to_a_whole_set(bump: int, seconds: float) -> None:
    """Half made, half deleted, half scaled: what the backup holds is where it goes on from."""

    async def story(restored: RestoredWorld) -> None:
        world = restored.world
        await world.apply(WORKLOAD1)
        await world.clock.sleep(seconds)
        backup = world.server.store.back_up()
        await world.settle()
        await world.scale(PODCLIQUESETS, "workload1", 2)
        await world.clock.sleep(seconds)
        await restored.put_back(backup, bump)
        await settle(restored)
        assert len(world.running_pods()) == 10

    run(story)


@BUMPS
def test_a_set_that_was_deleted_in_the_middle_of_the_backup_goes(bump: int) -> None:
    async def story(restored: RestoredWorld) -> None:
        world = restored.world
        await world.apply(WORKLOAD1)
        await world.settle()
        deleting = asyncio.create_task(world.delete(PODCLIQUESETS, "workload1"))
        await world.clock.sleep(0.02)
        await deleting
        backup = world.server.store.back_up()
        await world.settle()
        await world.apply(named("later"))
        await world.settle()
        await restored.put_back(backup, bump)
        await settle(restored)
        assert (world.objects(PODCLIQUESETS), world.pods()) == ((), ())
        assert restored.writes_about("later") == []

    run(story)


@BUMPS
def test_a_server_that_is_put_back_twice_is_believed_twice(bump: int) -> None:
    async def story(restored: RestoredWorld) -> None:
        world = restored.world
        await world.apply(WORKLOAD1)
        await world.settle()
        backup = world.server.store.back_up()
        for name in ("first", "second"):
            await world.apply(named(name))
            await world.settle()
            await restored.put_back(backup, bump)
            await settle(restored)
            assert [pcs.metadata.name for pcs in world.objects(PODCLIQUESETS)] == ["workload1"]
            assert restored.writes_about(name) == []

    run(story)


def test_a_server_that_only_restarts_is_the_same_server() -> None:
    async def story(restored: RestoredWorld) -> None:
        world = restored.world
        await world.apply(WORKLOAD1)
        await world.settle()
        lists = 0

        def count(request: object) -> bool:
            nonlocal lists
            query = getattr(request, "query", {})
            lists += "limit" in query and query["limit"] != "1"
            return False

        world.operator.refuse(count, ConnectionLost("never"))
        for table in world.server.store.tables():
            table.retire()
        await world.clock.sleep(30)
        await world.scale(PODCLIQUESETS, "workload1", 2)
        await settle(restored)
        assert len(world.running_pods()) == 20
        # Every watch goes on where it was cut: nothing is listed anew.
        assert lists == 0

    run(story)

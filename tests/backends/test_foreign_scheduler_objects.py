"""Objects that schedulers keep of a gang, forged by another tenant: those of another namespace are nobody's."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from grove.api.resources import NATIVE_COMPOSITES, NATIVE_PODGROUPS, PODCLIQUESETS, PODGANGS, Resource
from grove.api.types.meta import JsonObject
from grove.sim.simulation import World
from grove.sim.virtual_clock import run_virtual
from tests.backends.native_stories import pair
from tests.backends.native_world import NativeWorld
from tests.backends.scheduler_world import KAI, VOLCANO, SchedulerWorld
from tests.hostile_tenant import Attack, Claim, Raw, forge_all
from tests.simulation.stories import ONE_POD_NODE

EVIL = "evil"
A_WHILE = 400.0


def world_of(scheduler: str) -> World:
    fields: JsonObject = {"seed": 1, "nodes": 8, "node_resources": ONE_POD_NODE}
    return NativeWorld(**fields) if scheduler == "native" else SchedulerWorld(scheduler, **fields)


def kinds_of(world: World) -> tuple[Resource[Any], ...]:
    return (world.podgroups,) if isinstance(world, SchedulerWorld) else (NATIVE_PODGROUPS, NATIVE_COMPOSITES)


def tell(scheduler: str, story: Callable[[World], Awaitable[None]]) -> None:
    async def main() -> None:
        async with world_of(scheduler) as world:
            await world.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": EVIL}})
            await world.apply(pair())
            await world.settle()
            await story(world)
            world.check()

    run_virtual(main())


def seen(world: World) -> dict[str, list[Raw]]:
    kinds: tuple[Resource[Any], ...] = (PODCLIQUESETS, PODGANGS, *kinds_of(world))
    return {kind.full_name: list(world.objects(kind.viewed_as(Raw), namespace="default")) for kind in kinds}


@pytest.mark.parametrize("is_held", [False, True], ids=["", "held"])
@pytest.mark.parametrize("claim", list(Claim), ids=str)
@pytest.mark.parametrize("scheduler", [KAI, VOLCANO, "native"])
def test_groups_of_another_namespace_mean_nothing_to_a_gang(scheduler: str, claim: Claim, is_held: bool) -> None:
    async def story(world: World) -> None:
        before = seen(world)
        for resource in kinds_of(world):
            attack = Attack(resource=resource, claim=claim, is_held=is_held)
            assert await forge_all(world.client, attack, victim="default", namespace=EVIL)
        await world.clock.sleep(A_WHILE)
        assert seen(world) == before
        await world.delete(PODCLIQUESETS, "s")
        await world.clock.sleep(A_WHILE)
        assert not any(seen(world).values())
        assert [write for write in world.writes_by("operator") if write.target.namespace == EVIL] == []

    tell(scheduler, story)


@pytest.mark.parametrize("claim", [claim for claim in Claim if claim is not Claim.CONTROLLER], ids=str)
@pytest.mark.parametrize("scheduler", [KAI, VOLCANO, "native"])
def test_a_group_of_the_same_namespace_that_the_gang_does_not_control_is_left_alone(
    scheduler: str, claim: Claim
) -> None:
    """What the garbage collector does with one that names an owner is its own affair."""

    async def story(world: World) -> None:
        before = seen(world)
        made = [
            name
            for resource in kinds_of(world)
            for name in await forge_all(
                world.client, Attack(resource=resource, claim=claim), victim="default", namespace="default"
            )
        ]
        await world.clock.sleep(A_WHILE)
        assert {
            kind: [one for one in found if one.metadata.name not in made] for kind, found in seen(world).items()
        } == before
        await world.delete(PODCLIQUESETS, "s")
        await world.clock.sleep(A_WHILE)
        left = [one.metadata.name for found in seen(world).values() for one in found]
        assert sorted(left) == (sorted(made) if claim is Claim.LABELS_ONLY else [])
        assert [write for write in world.writes_by("operator") if write.target.name in made] == []

    tell(scheduler, story)

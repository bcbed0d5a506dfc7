"""A set that an operator without autoscalers ran: after the upgrade it has them, and no pod is restarted."""

from grove.api.resources import AUTOSCALERS, GROUPS, PODCLIQUES, PODCLIQUESETS
from grove.api.types.meta import JsonObject, find_condition
from grove.cluster.built_in_resources import BY_QUALIFIED
from grove.sim.simulation import World
from grove.sim.virtual_clock import run_virtual
from tests.simulation.autoscaling_stories import bounds, scaled_set, uids
from tests.simulation.stories import ONE_POD_NODE, running_by_role

UNSUPPORTED: JsonObject = {
    "type": "UnsupportedFields",
    "status": "True",
    "reason": "NotSupportedYet",
    "message": "spec.template.cliques[0].spec.autoScalingConfig: autoscaling is not supported yet",
    "lastTransitionTime": "2024-01-01T00:00:00Z",
}


async def as_older_version_left_it(world: World) -> None:
    """Store the set as an older version did: no autoscalers, a condition, and other selectors."""
    (pcs,) = world.objects(PODCLIQUESETS)
    conditions = [*({"type": one.type, "status": one.status, "reason": one.reason} for one in pcs.status.conditions)]
    status = {"conditions": [*conditions, UNSUPPORTED], "hpaPodSelector": "app.kubernetes.io/part-of=s"}
    await world.client.patch(PODCLIQUESETS, "default", "s", {"status": status}, subresource="status")
    older = {"status": {"selector": "grove.io/podcliquescalinggroup=s-0-g"}}
    await world.client.patch(GROUPS, "default", "s-0-g", older, subresource="status")
    table = BY_QUALIFIED[AUTOSCALERS.full_name]
    for one in world.objects(AUTOSCALERS):
        world.server.store.remove(table, "default", one.metadata.name)


def test_an_upgrade_creates_autoscalers_and_restarts_no_pod() -> None:
    async def story() -> None:
        async with World(seed=1, nodes=6, node_resources=ONE_POD_NODE) as world:
            await world.apply(scaled_set())
            await world.settle()
            await world.scale(PODCLIQUES, "s-0-a", 3)
            await world.settle()
            before = uids(world)
            await world.crash_controller()
            await as_older_version_left_it(world)
            await world.restart_controller()
            await world.settle()
            assert uids(world) == before
            assert running_by_role(world) == {"s-0-a": 3, "s-0-g-0-m": 1, "s-0-g-1-m": 1}
            assert bounds(world) == {"s-0-a": (2, 4), "s-0-g": (2, 4)}
            (pcs,) = world.objects(PODCLIQUESETS)
            assert find_condition(pcs.status.conditions, "UnsupportedFields") is None
            world.check()

    run_virtual(story())

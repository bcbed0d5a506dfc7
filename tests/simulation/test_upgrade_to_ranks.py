"""A job that began under an operator without ranks: an upgrade touches nothing, and its next restart has them."""

import msgspec

from grove.api.resources import PODCLIQUES
from grove.cluster.built_in_resources import BY_QUALIFIED
from grove.sim.simulation import World
from grove.sim.virtual_clock import run_virtual
from tests.simulation.stories import ONE_POD_NODE
from tests.simulation.training_stories import FOR_EVER, clique, end, living, runs, training, uids


def variables(world: World) -> list[str]:
    (found,) = world.objects(PODCLIQUES)
    return [one["name"] for one in found.spec.pod_spec["containers"][0].get("env") or ()]


def forget_ranks(world: World) -> None:
    """Store the clique as an earlier version created it."""
    cliques = BY_QUALIFIED["podcliques.grove.io"]
    entry = world.server.store.table(cliques).find("default", "job-0-worker")
    assert entry is not None
    older = msgspec.json.decode(msgspec.json.encode(entry.obj))
    del older["spec"]["podSpec"]["containers"][0]["env"]
    world.server.store.put(cliques, "default", "job-0-worker", older)


def test_an_upgrade_touches_no_job_and_its_next_restart_has_ranks() -> None:
    async def story() -> None:
        async with World(seed=1, nodes=2, node_resources=ONE_POD_NODE) as world:
            await world.apply(training(clique("worker", 2, exits_after=FOR_EVER), max_restarts=1))
            await world.wait_until(runs(world, 2))
            assert "RANK" in variables(world)
            forget_ranks(world)
            before = uids(living(world))
            await world.restart_controller()
            await world.clock.sleep(600)
            assert (variables(world), uids(living(world))) == ([], before)
            assert world.operator.writes == []
            await end(world, living(world)[0])
            await world.wait_until(runs(world, 2, 1))
            assert "RANK" in variables(world)
            assert not uids(living(world)) & before

    run_virtual(story())

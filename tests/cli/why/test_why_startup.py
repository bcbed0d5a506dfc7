"""`grove why` about pods that wait for other cliques to start."""

from grove.cli.commands.why import why_rows
from grove.cli.common.options import parse_object_ref
from grove.cli.common.output import plain_lines
from grove.operations.why.runner import explain
from grove.sim.simulation import World
from grove.sim.virtual_clock import run_virtual
from tests.simulation.startup_stories import NEVER, clique, is_waiting, ordered, pods_of


async def lines_about(world: World, target: str) -> list[str]:
    return plain_lines(why_rows(await explain(world.client, world.clock.now(), "default", parse_object_ref(target))))


def test_the_clique_that_does_not_start_comes_first_and_then_what_waits_for_it_with_counts() -> None:
    async def story() -> None:
        async with World(seed=1, nodes=2) as world:
            leader, worker = clique("a", 2, ready_after=NEVER), clique("b", 3, after=("a",))
            await world.apply(ordered(leader, worker))
            await world.wait_until(lambda: [is_waiting(pod) for pod in pods_of(world, "job-0-b")] == [True] * 3)
            about_set = await lines_about(world, "pcs/job")
            waiting = "wait for other cliques to start: podclique/job-0-a has 0 of 2 ready pods."
            assert waiting not in about_set[0]
            assert any(line.endswith(waiting) and "3 pods" in line for line in about_set), about_set
            (first, *_) = await lines_about(world, f"pod/{pods_of(world, 'job-0-b')[0].metadata.name}")
            assert first.endswith("waits for other cliques to start: podclique/job-0-a has 0 of 2 ready pods.")

    run_virtual(story())

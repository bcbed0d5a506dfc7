"""The stories in calm weather: what a user sees, and that a rested world costs nothing."""

import pytest

from grove.sim.simulation import World
from grove.sim.virtual_clock import run_virtual
from tests.simulation.stories import ONE_POD_NODE, STORIES, Story


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_the_story_ends_as_told(story: Story) -> None:
    async def tell() -> None:
        async with World(seed=1, nodes=story.nodes, node_resources=ONE_POD_NODE) as world:
            await story.tell(world)
            world.check()

    run_virtual(tell())


@pytest.mark.parametrize("story", [s for s in STORIES if "quota" not in s.name], ids=lambda story: story.name)
def test_an_hour_of_rest_costs_no_write(story: Story) -> None:
    async def tell() -> None:
        async with World(seed=1, nodes=story.nodes, node_resources=ONE_POD_NODE) as world:
            await story.tell(world)
            before = world.server.store.revision
            await world.clock.sleep(3600)
            assert world.server.store.revision == before

    run_virtual(tell())


@pytest.mark.parametrize("story", [s for s in STORIES if "quota" not in s.name], ids=lambda story: story.name)
def test_a_restart_of_the_operator_at_rest_costs_no_write(story: Story) -> None:
    async def tell() -> None:
        async with World(seed=1, nodes=story.nodes, node_resources=ONE_POD_NODE) as world:
            await story.tell(world)
            await world.settle()
            before = len(world.writes_by("operator"))
            await world.crash_controller()
            await world.restart_controller()
            await world.clock.sleep(60)
            assert not world.writes_by("operator")[before:]

    run_virtual(tell())

"""Cliques and groups scaled to zero and back, in virtual time."""

import pytest

from grove.sim.simulation import World
from grove.sim.virtual_clock import run_virtual
from tests.simulation.stories import ONE_POD_NODE, Story
from tests.simulation.zero_stories import ZERO_STORIES


@pytest.mark.parametrize("story", ZERO_STORIES, ids=lambda story: story.name)
def test_a_story_of_zero(story: Story) -> None:
    async def run() -> None:
        async with World(seed=1, nodes=story.nodes, node_resources=ONE_POD_NODE) as world:
            await story.tell(world)
            await world.settle()
            world.check()
            assert world.invariants.checked_count > 0

    run_virtual(run())

"""The conditions that scripts wait for, in virtual time."""

import pytest

from grove.sim.simulation import World
from grove.sim.virtual_clock import run_virtual
from tests.simulation.condition_stories import CONDITION_STORIES
from tests.simulation.stories import ONE_POD_NODE, Story


@pytest.mark.parametrize("story", CONDITION_STORIES, ids=lambda story: story.name)
def test_a_story_of_conditions(story: Story) -> None:
    async def run() -> None:
        async with World(seed=1, nodes=story.nodes, node_resources=ONE_POD_NODE) as world:
            await story.tell(world)
            await world.settle()
            world.check()
            # Conditions do not change when nothing else does.
            before = len(world.operator.writes)
            await world.clock.sleep(3600)
            assert len(world.operator.writes) == before

    run_virtual(run())

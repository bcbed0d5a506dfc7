"""Autoscalers in virtual time: what the operator creates for the HPA controller, and what it keeps of its scale."""

import pytest

from grove.sim.simulation import World
from grove.sim.virtual_clock import run_virtual
from tests.simulation.autoscaling_stories import AUTOSCALING_STORIES
from tests.simulation.stories import ONE_POD_NODE, Story


@pytest.mark.parametrize("story", AUTOSCALING_STORIES, ids=lambda story: story.name)
def test_a_story_of_autoscaling(story: Story) -> None:
    async def run() -> None:
        async with World(seed=1, nodes=story.nodes, node_resources=ONE_POD_NODE) as world:
            await story.play(world)
            await world.settle()
            world.check()
            assert world.invariants.checked_count > 0

    run_virtual(run())

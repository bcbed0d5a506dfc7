"""For each story, for every write of the operator: crash before it, crash after it; the end is the same."""

from collections.abc import Callable

import pytest

from grove.sim.clock import run_virtual
from grove.sim.faults import FaultyTransport
from grove.sim.world import World
from tests.simulation.endstate import end_state
from tests.simulation.stories import ONE_POD_NODE, STORIES, Story
from tests.simulation.termination_stories import TERMINATION_STORIES
from tests.simulation.topology_stories import CRASHING_TOPOLOGY
from tests.simulation.training_stories import TRAINING_STORIES
from tests.simulation.update_stories import CRASHING

Crash = Callable[[FaultyTransport, int], None]


def tell(story: Story, crash: Crash | None = None, number: int = 0) -> tuple[dict[str, object], int]:
    """The end state of a story, and how many writes the operator's first life took for it.

    With `crash`, that life ends at the write of that number; 1 is the first after the story began.
    """

    async def run() -> tuple[dict[str, object], int]:
        async with World(seed=1, nodes=story.nodes, node_resources=ONE_POD_NODE) as world:
            if story.begin is not None:
                await story.begin(world)
            first_life, begun = world.operator, world.operator.write_count
            if crash is not None:
                crash(first_life, begun + number)
            await story.tell(world)
            await world.settle()
            world.check()
            return end_state(world), len(first_life.writes) - begun

    return run_virtual(run())


ALL = (*STORIES, *TERMINATION_STORIES, *CRASHING, *TRAINING_STORIES, *CRASHING_TOPOLOGY)


@pytest.mark.parametrize("story", ALL, ids=lambda story: story.name)
def test_a_crash_at_any_write_ends_like_no_crash(story: Story) -> None:
    expected, write_count = tell(story)
    assert write_count > 0
    for number in range(1, write_count + 1):
        for crash in (FaultyTransport.crash_before_write, FaultyTransport.crash_after_write):
            found, _ = tell(story, crash, number)
            assert not story.has_one_end or found == expected, f"{crash.__name__}({number})"

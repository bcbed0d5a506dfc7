"""For each story, for every write of the operator: crash before it, crash after it; the end is the same."""

from collections.abc import Callable
from functools import partial

import pytest

from grove.sim.clock import run_virtual
from grove.sim.faults import FaultyTransport
from grove.sim.world import World
from tests.simulation.endstate import end_state
from tests.simulation.stories import ONE_POD_NODE, STORIES, Story
from tests.simulation.termination_stories import TERMINATION_STORIES


def tell(story: Story, prepare: Callable[[FaultyTransport], None]) -> tuple[dict[str, object], int]:
    """The end state of a story and the number of writes of the operator's first life."""

    async def run() -> tuple[dict[str, object], int]:
        async with World(seed=1, nodes=story.nodes, node_resources=ONE_POD_NODE) as world:
            first_life = world.operator
            prepare(first_life)
            await story.tell(world)
            await world.settle()
            world.check()
            return end_state(world), len(first_life.writes)

    return run_virtual(run())


@pytest.mark.parametrize("story", [*STORIES, *TERMINATION_STORIES], ids=lambda story: story.name)
def test_a_crash_at_any_write_ends_like_no_crash(story: Story) -> None:
    expected, write_count = tell(story, lambda _: None)
    assert write_count > 0
    for number in range(1, write_count + 1):
        for moment in (FaultyTransport.crash_before_write, FaultyTransport.crash_after_write):
            found, _ = tell(story, partial(moment, number=number))
            assert not story.has_one_end or found == expected, f"{moment.__name__}({number})"

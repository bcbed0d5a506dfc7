"""For each story, for every write of the operator: crash before it, crash after it; the end is the same (`crashes.py`).

The quick tier has one story per kind of work that takes several writes; every story is told without a crash elsewhere.
"""

from typing import Any

import pytest
from _pytest.mark import ParameterSet

from grove.sim.simulation import World
from tests.seeds import is_deep
from tests.simulation.autoscaling_stories import AUTOSCALING_STORIES
from tests.simulation.condition_stories import CONDITION_STORIES
from tests.simulation.crashes import STRIDE, Crashes, tell_with_some_crashes
from tests.simulation.endstate import end_state
from tests.simulation.name_stories import NAME_STORIES
from tests.simulation.safe_update_stories import SAFE_UPDATES
from tests.simulation.startup_stories import STARTUP_STORIES
from tests.simulation.stories import ONE_POD_NODE, STORIES, Story
from tests.simulation.termination_stories import TERMINATION_STORIES
from tests.simulation.topology_stories import CRASHING_TOPOLOGY
from tests.simulation.training_stories import TRAINING_STORIES
from tests.simulation.update_stories import CRASHING
from tests.simulation.zero_stories import ZERO_STORIES

ALL = (
    *STORIES, *TERMINATION_STORIES, *CRASHING, *SAFE_UPDATES, *TRAINING_STORIES, *NAME_STORIES, *CRASHING_TOPOLOGY,
    *ZERO_STORIES, *STARTUP_STORIES, *CONDITION_STORIES, *AUTOSCALING_STORIES,
)  # fmt: skip


# The quick tier crashes at every twelfth crash point of the quick stories. `make test-all` crashes at every one of the
# core stories, and at every eighth of the others. Which ones follows from the commit. `make crashes` leaves out none.
QUICK_STRIDE = 12
QUICK = (
    "all or nothing",
    "scaling in and out again",
    "a deleted set leaves nothing",
    "a_broken_group_replica_goes_alone_and_takes_all_when_the_group_breaks",
    "a_lost_standalone_pod_ends_the_whole_replica",
    "a_second_change_in_the_middle_goes_on_towards_the_newest",
    "it_fails_twice_and_then_succeeds",
)
CORE = (*QUICK, "a_clique_goes_to_zero_and_comes_back", "a_group_goes_to_zero_and_comes_back")
_DEEP = pytest.mark.deep(reason="the same crashes in more stories; the quick tier has one story per kind of work")


def in_tiers(stories: tuple[Story, ...]) -> list[ParameterSet]:
    """Return one parameter per story; all but the quick ones are marked deep."""
    return [pytest.param(one, id=one.name, marks=() if one.name in QUICK else _DEEP) for one in stories]


def test_every_core_story_exists() -> None:
    assert set(CORE) <= {story.name for story in ALL}


@pytest.mark.parametrize("story", in_tiers(ALL))
def test_a_crash_at_any_write_ends_like_no_crash(story: Story) -> None:
    async def tell(crashes: Crashes) -> dict[str, Any]:
        async with World(seed=1, nodes=story.nodes, node_resources=ONE_POD_NODE) as world:
            if story.begin is not None:
                await story.begin(world)
            crashes.begin(world)
            await story.tell(world)
            await world.settle()
            world.check()
            return end_state(world)

    is_core = story.name in CORE
    ends = tell_with_some_crashes(tell, QUICK_STRIDE if not is_deep() else 1 if is_core else STRIDE)
    for moment, end in ends.crashed.items():
        assert not story.has_one_end or end == ends.calm, f"a crash {moment}"

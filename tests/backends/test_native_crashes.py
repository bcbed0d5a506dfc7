"""For each story of native gangs: a crash before and after every write of the operator, and the end is the same."""

from typing import Any

import pytest

from grove.api import names
from grove.backends.native_podgroups import NativeFeatures
from grove.sim.virtual_clock import run_virtual
from tests.backends.native_stories import STORIES, NativeStory
from tests.backends.native_world import COMPOSITES, GROUPS_ONLY, NativeWorld, policy_of
from tests.simulation.crashes import Crashes, tell_with_some_crashes
from tests.simulation.endstate import end_state
from tests.simulation.stories import ONE_POD_NODE, REST_SECONDS

both = pytest.mark.parametrize(
    "features", [pytest.param(COMPOSITES, id="composites"), pytest.param(GROUPS_ONLY, id="groups only")]
)
stories = pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)


def mirrors(world: NativeWorld) -> dict[str, object]:
    """What is asked of each group, by its name without what differs between lives."""
    found = {**world.groups, **world.roots}
    return {name[: -names.SUFFIX_LENGTH]: policy_of(one) for name, one in found.items()}


@both
@stories
def test_at_rest_nothing_is_written(features: NativeFeatures, story: NativeStory) -> None:
    async def run() -> None:
        async with NativeWorld(features, seed=1, nodes=story.nodes, node_resources=ONE_POD_NODE) as world:
            if story.begin is not None:
                await story.begin(world)
            await story.tell(world)
            await world.settle()
            world.rules.check_rest()
            before = len(world.writes_by("operator"))
            await world.clock.sleep(REST_SECONDS)
            assert len(world.writes_by("operator")) == before

    run_virtual(run())


@both
@stories
@pytest.mark.deep(reason="crashes in stories of native gangs; the quick tier crashes in the core stories")
def test_a_crash_at_any_write_ends_like_no_crash(features: NativeFeatures, story: NativeStory) -> None:
    async def tell(crashes: Crashes) -> tuple[dict[str, Any], dict[str, object]]:
        async with NativeWorld(features, seed=1, nodes=story.nodes, node_resources=ONE_POD_NODE) as world:
            if story.begin is not None:
                await story.begin(world)
            crashes.begin(world)
            await story.tell(world)
            await world.settle()
            world.check()
            world.rules.check()
            world.rules.check_rest()
            return end_state(world), mirrors(world)

    ends = tell_with_some_crashes(tell)
    for moment, end in ends.crashed.items():
        assert end == ends.calm, f"a crash {moment}"

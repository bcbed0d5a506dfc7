"""For each story of native gangs: a crash before and after every write of the operator, and the end is the same."""

from collections.abc import Callable

import pytest

from grove.api import names
from grove.backends.native_groups import NativeFeatures
from grove.sim.clock import run_virtual
from grove.sim.faults import FaultyTransport
from tests.backends.native_stories import STORIES, NativeStory
from tests.backends.native_world import COMPOSITES, GROUPS_ONLY, NativeWorld, policy_of
from tests.simulation.endstate import end_state
from tests.simulation.stories import ONE_POD_NODE

Crash = Callable[[FaultyTransport, int], None]
End = tuple[dict[str, object], dict[str, object]]

both = pytest.mark.parametrize(
    "features", [pytest.param(COMPOSITES, id="composites"), pytest.param(GROUPS_ONLY, id="groups only")]
)
stories = pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)


def tell(story: NativeStory, features: NativeFeatures, crash: Crash | None = None, number: int = 0) -> tuple[End, int]:
    """The end state of a story, and how many writes the operator's first life took for it."""

    async def run() -> tuple[End, int]:
        async with NativeWorld(features, seed=1, nodes=story.nodes, node_resources=ONE_POD_NODE) as world:
            if story.begin is not None:
                await story.begin(world)
            first_life, begun = world.operator, world.operator.write_count
            if crash is not None:
                crash(first_life, begun + number)
            await story.tell(world)
            await world.settle()
            world.check()
            world.rules.check()
            world.rules.check_rest()
            return (end_state(world), mirrors(world)), len(first_life.writes) - begun

    return run_virtual(run())


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
            await world.clock.sleep(3600)
            assert len(world.writes_by("operator")) == before

    run_virtual(run())


@both
@stories
def test_a_crash_at_any_write_ends_like_no_crash(features: NativeFeatures, story: NativeStory) -> None:
    expected, write_count = tell(story, features)
    assert write_count > 0
    for number in range(1, write_count + 1):
        for crash in (FaultyTransport.crash_before_write, FaultyTransport.crash_after_write):
            found, _ = tell(story, features, crash, number)
            assert found == expected, f"{crash.__name__}({number})"

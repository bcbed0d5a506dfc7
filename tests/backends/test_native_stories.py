"""The placement stories on kube-scheduler's own groups: a stand-in with its habits binds by those alone."""

import pytest

from grove.backends.native_podgroups import NativeFeatures
from grove.sim.virtual_clock import run_virtual
from tests.backends.native_world import COMPOSITES, GROUPS_ONLY, NativeWorld
from tests.backends.story_tiers import in_tiers
from tests.simulation.stories import ONE_POD_NODE, REST_SECONDS, STORIES, Story
from tests.simulation.zero_stories import ZERO_STORIES

# Those that ask for every minimum before any extra, whenever room appears: kube-scheduler looks at one group after the
# other, and an extra that was shown to it once stays (`test_native_attacks.py` tells what is kept of it).
BEYOND_IT = ("scaled minima before any extra", "both bases before anything else")
TOLD = [*(story for story in STORIES if story.name not in BEYOND_IT), *ZERO_STORIES]

both = pytest.mark.parametrize(
    "features", [pytest.param(COMPOSITES, id="composites"), pytest.param(GROUPS_ONLY, id="groups only")]
)


@both
@pytest.mark.parametrize("story", in_tiers(TOLD))
def test_the_story_ends_as_told(features: NativeFeatures, story: Story) -> None:
    async def tell() -> None:
        async with NativeWorld(features, seed=1, nodes=story.nodes, node_resources=ONE_POD_NODE) as world:
            await story.tell(world)
            world.check()
            world.rules.check()
            world.rules.check_rest()
            before = len(world.writes_by("operator"))
            await world.clock.sleep(REST_SECONDS)
            if "quota" not in story.name:
                assert len(world.writes_by("operator")) == before

    run_virtual(tell())

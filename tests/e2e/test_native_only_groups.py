"""Native gangs where only PodGroup is switched on (the beta gate alone): one group per gang, and its limits."""

import asyncio
from collections.abc import Iterator

import pytest

from grove.api.types.meta import find_condition
from tests.e2e import native_life, native_stories
from tests.e2e.native import NativeCluster, native_cluster
from tests.e2e.native_stories import NativeStory, rest
from tests.e2e.native_topology import a_set, begin, packed_clique, required
from tests.kube.controlplane.plane import ONLY_GROUPS
from tests.simulation import stories
from tests.simulation.stories import find_set

pytestmark = pytest.mark.kube

STORIES = (
    NativeStory(stories.all_or_nothing, 9),
    NativeStory(stories.a_scaled_replica_waits_as_a_block, 13),
    NativeStory(stories.minima_first_then_the_rest, 2),
    NativeStory(native_stories.of_two_groups_where_one_fits_nothing_is_placed, 4),
    NativeStory(native_stories.scaled_minima_come_before_any_extra_where_there_is_room_for_them, 7),
    NativeStory(native_stories.a_dead_members_replacement_is_placed_alone, 10),
    NativeStory(native_stories.a_clique_that_cannot_be_repaired_does_not_hold_up_another, 0),
    NativeStory(native_stories.a_set_of_a_priority_is_placed_as_a_gang, 5),
    NativeStory(native_life.cliques_groups_and_replicas_scale, 20),
    NativeStory(native_life.a_replica_that_is_torn_down_comes_back_whole_in_groups_of_new_names, 10),
    NativeStory(native_life.a_group_replica_that_is_torn_down_comes_back_whole_beside_its_gang, 10),
    NativeStory(native_life.an_update_of_a_set_with_extras_rolls_too, 10),
    NativeStory(native_life.pods_that_are_lost_come_back_again_and_again, 10),
)


@pytest.fixture(scope="module")
def native(runner: asyncio.Runner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NativeCluster]:
    with native_cluster(tmp_path_factory.mktemp("groups"), ONLY_GROUPS, runner) as cluster:
        yield cluster


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.tell.__name__)
def test_the_story_ends_as_with_composites(runner: asyncio.Runner, native: NativeCluster, story: NativeStory) -> None:
    async def run() -> None:
        stage = await native.narrow_stage(story.nodes)
        await story.tell(stage)
        await stage.clear()

    runner.run(run())


def test_required_topology_is_not_carried_out_and_the_set_says_so(
    runner: asyncio.Runner, native: NativeCluster
) -> None:
    async def run() -> None:
        stage = await native.narrow_stage(0)
        await begin(stage, {"b0-r0": 2, "b0-r1": 1})
        await stage.apply(a_set(packed_clique("one", 3, required("rack"))))
        await rest(stage, 3)
        condition = find_condition(find_set(stage, "packed").status.conditions, "SchedulerLimited")
        assert condition is not None
        assert (condition.status, condition.reason) == ("True", "PartiallySupported")
        assert "TopologyAwareWorkloadScheduling" in condition.message
        await stage.clear()

    runner.run(run())

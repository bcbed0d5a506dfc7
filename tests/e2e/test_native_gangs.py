"""Native gangs on the real kube-scheduler, all feature gates on: placement, life, and gangs that compete for room."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from random import Random

import pytest

from grove.api.resources import PODCLIQUESETS
from tests.e2e.native import NativeCluster, NativeStage, native_cluster
from tests.e2e.native_life import LIFE_STORIES
from tests.e2e.native_mirrors import await_right_groups
from tests.e2e.native_rounds import Referee, Round, contend, draw_rounds, judged
from tests.e2e.native_stories import NATIVE_STORIES, NativeStory
from tests.e2e.native_topology import TOPOLOGY_STORIES
from tests.kube.controlplane.plane import GANGS
from tests.scene import Scene
from tests.simulation.gate_stories import GATE_STORIES
from tests.simulation.wire_stories import STORIES_WITHOUT_NODES, WIRE_STORIES

pytestmark = pytest.mark.kube

# `GROVE_NATIVE_ROUNDS=100 make test-kube` has more of them.
ROUNDS = int(os.environ.get("GROVE_NATIVE_ROUNDS", "40"))
ROUNDS_AT_ONCE = 20
SEED = 9
STORIES = (*NATIVE_STORIES, *LIFE_STORIES, *TOPOLOGY_STORIES)


@pytest.fixture(scope="module")
def native(runner: asyncio.Runner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NativeCluster]:
    with native_cluster(tmp_path_factory.mktemp("gangs"), GANGS, runner) as cluster:
        yield cluster


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.tell.__name__)
def test_the_story_ends_as_told(runner: asyncio.Runner, native: NativeCluster, story: NativeStory) -> None:
    async def run() -> None:
        stage = await native.narrow_stage(story.nodes)
        await story.tell(stage)
        await stage.clear()

    runner.run(run())


@pytest.mark.parametrize(
    ("story", "nodes"),
    [*((story, 2) for story in (*WIRE_STORIES, *GATE_STORIES)), *((story, 0) for story in STORIES_WITHOUT_NODES)],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_stands_in_the_api_is_the_same_as_without_gangs(
    runner: asyncio.Runner, native: NativeCluster, story: Callable[[Scene], Awaitable[None]], nodes: int
) -> None:
    async def run() -> None:
        stage = await native.wide_stage(nodes)
        await story(stage)
        await await_right_groups(stage)
        await stage.clear()

    runner.run(run())


@pytest.mark.parametrize("first", range(0, ROUNDS, ROUNDS_AT_ONCE))
def test_of_two_gangs_and_room_for_one_one_runs_whole_and_the_other_waits_whole(
    runner: asyncio.Runner, native: NativeCluster, first: int
) -> None:
    async def run() -> None:
        rounds = draw_rounds(Random(SEED + first), range(first, first + ROUNDS_AT_ONCE))
        stage = await native.narrow_stage(0)
        async with judged(stage, rounds) as referee:
            await play(stage, rounds, referee)
        assert referee.broken == []
        await stage.clear()

    runner.run(run())


async def play(stage: NativeStage, rounds: list[Round], referee: Referee) -> None:
    await contend(stage, rounds, referee)
    await referee.wait_until(lambda: all(is_decided(one, referee) for one in rounds))
    assert referee.broken == []
    winners = [contender for one in rounds for contender in one.contenders if referee.is_whole(contender)]
    assert len(winners) == len(rounds)
    # The winner goes, and all that the other needs finds room.
    for contender in winners:
        referee.conceded.add(contender.round_index)
        await stage.delete(PODCLIQUESETS, contender.name)
    losers = [contender for one in rounds for contender in one.contenders if contender not in winners]
    await referee.wait_until(lambda: all(map(referee.is_whole, losers)))


def is_decided(one: Round, referee: Referee) -> bool:
    """One is whole, and the other was told that it does not fit."""
    first, second = one.contenders
    return any(referee.is_whole(a) and referee.is_told(b) for a, b in ((first, second), (second, first)))

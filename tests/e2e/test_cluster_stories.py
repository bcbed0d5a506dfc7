"""The engine's stories from outside: a cluster over HTTP and an operator in its own process, embedded and real alike.

All-or-nothing placement is not among them: the scheduler of a real cluster does not have it.
"""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.e2e.harness import Cluster, Stage
from tests.scene import Scene
from tests.simulation.gate_stories import GATE_STORIES
from tests.simulation.refusal_stories import (
    STRANGER_STORIES,
    an_invalid_set_is_refused_with_every_error_at_once_and_nothing_is_created,
    pods_beyond_a_quota_are_refused_in_the_servers_words_until_there_is_room,
)
from tests.simulation.startup_stories import STARTUP_SCENES
from tests.simulation.stories import a_deleted_set_leaves_nothing, scaling_in_and_out_again
from tests.simulation.wire_stories import STORIES_WITHOUT_NODES, WIRE_STORIES
from tests.simulation.zero_stories import SCENES

pytestmark = pytest.mark.kube

ENGINE_STORIES = (scaling_in_and_out_again, a_deleted_set_leaves_nothing, *(story for _, story in SCENES))
TOLD = [(story, True) for story in (*ENGINE_STORIES, *WIRE_STORIES, *GATE_STORIES, *STARTUP_SCENES)] + [
    (story, False) for story in STORIES_WITHOUT_NODES
]


def tell(
    runner: asyncio.Runner, cluster: Cluster, story: Callable[[Stage], Awaitable[None]], *, has_nodes: bool = True
) -> None:
    async def run() -> None:
        stage = await cluster.stage(has_nodes=has_nodes)
        await story(stage)
        await stage.clear()

    runner.run(run())


@pytest.mark.parametrize(("story", "has_nodes"), TOLD, ids=lambda value: getattr(value, "__name__", ""))
def test_the_story_ends_as_in_the_simulation(
    runner: asyncio.Runner, cluster: Cluster, story: Callable[[Scene], Awaitable[None]], has_nodes: bool
) -> None:
    tell(runner, cluster, story, has_nodes=has_nodes)


@pytest.mark.parametrize("kind", STRANGER_STORIES)
def test_a_name_taken_by_a_stranger_is_said_and_heals_when_the_stranger_goes(
    runner: asyncio.Runner, cluster: Cluster, kind: str
) -> None:
    tell(runner, cluster, STRANGER_STORIES[kind])


def test_an_invalid_set_is_refused_with_every_error_at_once_and_nothing_is_created(
    runner: asyncio.Runner, cluster: Cluster
) -> None:
    tell(runner, cluster, an_invalid_set_is_refused_with_every_error_at_once_and_nothing_is_created)


def test_pods_beyond_a_quota_are_refused_in_the_servers_words_until_there_is_room(
    runner: asyncio.Runner, cluster: Cluster
) -> None:
    async def story(stage: Stage) -> None:
        await pods_beyond_a_quota_are_refused_in_the_servers_words_until_there_is_room(stage)
        assert len(stage.pods()) == 20

    tell(runner, cluster, story)

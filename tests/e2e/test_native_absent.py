"""kube-scheduler without gangs: the same pods, placed one by one, and the set says so. Never silently.

Two ways to get there: the feature gates are off everywhere, or only the scheduler was forgotten.
"""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from random import Random

import pytest

from grove.api.resources import PODCLIQUESETS
from grove.api.types.meta import find_condition
from tests.e2e.native import NativeCluster, NativeStage, native_cluster
from tests.e2e.native_rounds import Referee, contend, draw_rounds, judged
from tests.e2e.native_stories import two_cliques
from tests.kube.controlplane.plane import BLIND_SCHEDULER, NO_GANGS
from tests.simulation.stories import find_set

pytestmark = pytest.mark.kube

ROUNDS = 10
# What is told, by what is missing.
WORDS = {"off": "does not serve PodGroup", "blind": "ignores the groups of the gang"}


@pytest.fixture(scope="module", params=WORDS)
def absent(
    request: pytest.FixtureRequest, runner: asyncio.Runner, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[NativeCluster, str]]:
    gangs = NO_GANGS if request.param == "off" else BLIND_SCHEDULER
    with native_cluster(tmp_path_factory.mktemp(request.param), gangs, runner) as cluster:
        yield cluster, WORDS[request.param]


def said(stage: NativeStage, name: str) -> str:
    """Why the set is not placed as gangs, in the words of its condition."""
    condition = find_condition(find_set(stage, name).status.conditions, "GangSchedulingUnavailable")
    if condition is None:
        return ""
    assert (condition.status, condition.reason) == ("True", "NoGangScheduling")
    return condition.message


def why(stage: NativeStage, what: str) -> str:
    command = [sys.executable, "-m", "grove.cli.main", "why", what, "--namespace", stage.namespace]
    done = subprocess.run(
        [*command, "--kubeconfig", str(stage.cluster.kubeconfig)], capture_output=True, text=True, check=True
    )
    return " ".join(done.stdout.split())


async def warnings(stage: NativeStage) -> list[tuple[str, int]]:
    """Events of the set about gangs: what was said, and how often."""
    return [(event.message, event.count or 1) for event in await stage.events() if event.reason == "NoGangScheduling"]


@pytest.mark.parametrize(("nodes", "running"), [(5, 5), (4, 4)], ids=["room for all", "room for a part"])
def test_pods_are_placed_one_by_one_and_the_set_says_so(
    runner: asyncio.Runner, absent: tuple[NativeCluster, str], nodes: int, running: int
) -> None:
    cluster, words = absent

    async def story() -> None:
        stage = await cluster.narrow_stage(nodes)
        await stage.apply(two_cliques())
        await stage.wait_until(lambda: len(stage.running_pods()) == running and words in said(stage, "pair"))
        assert len(stage.pods()) == 5
        assert words in why(stage, "pcs/pair")
        # A second replica that comes and goes tells nothing new.
        await stage.scale(PODCLIQUESETS, "pair", 2)
        await stage.wait_until(lambda: len(stage.pods()) == 10)
        await stage.scale(PODCLIQUESETS, "pair", 1)
        await stage.wait_until(lambda: len(stage.pods()) == 5)
        await stage.wait_for_events("NoGangScheduling")
        ((message, count),) = await warnings(stage)
        assert (words in message, count) == (True, 1)
        await stage.clear()

    runner.run(story())


def test_gangs_that_compete_are_torn_apart_and_the_referee_sees_it(
    runner: asyncio.Runner, absent: tuple[NativeCluster, str]
) -> None:
    """What the rounds with native gangs forbid is what happens here: they would not pass by themselves."""
    cluster, _ = absent

    async def story() -> None:
        rounds = [one for one in draw_rounds(Random(1), range(3 * ROUNDS)) if one.comes_late][:ROUNDS]
        stage = await cluster.narrow_stage(0)
        async with judged(stage, rounds) as referee:
            await contend(stage, rounds, referee)
            await stage.wait_until(lambda: is_full(stage, referee))
        assert referee.broken != []
        await stage.clear()

    def is_full(stage: NativeStage, referee: Referee) -> bool:
        placed = sum(bool(pod.spec.node_name) for pod in stage.pods())
        return bool(referee.broken) or placed == len(stage.pods())

    runner.run(story())

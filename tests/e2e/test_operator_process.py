"""`grove operator` beside `grove up --no-operator`: two processes, HTTP between them, and an account with few rights.

The engine's stories about placement, which a real scheduler does not know; and what is right again after either of the
two was killed. Stories for real clusters too are in `test_cluster_stories.py` and its neighbours.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from random import Random

import msgspec
import pytest

from grove.api.types.meta import find_condition
from grove.api.types.pod import Pod
from tests.e2e.accounts import restricted_kubeconfig
from tests.e2e.bustle import SEED, Bustle
from tests.e2e.harness import Cluster, Stage
from tests.e2e.installation import outside_operator
from tests.e2e.kept import KeptCluster
from tests.e2e.operators import Operator
from tests.e2e.quiet import Quiet
from tests.scene import Scene
from tests.seeds import examples
from tests.simulation.restored import unrestored
from tests.simulation.stories import (
    ONE_POD_NODE,
    a_scaled_replica_waits_as_a_block,
    a_second_set_replica_waits_as_a_block,
    all_or_nothing,
    minima_first_then_the_rest,
)

# One in the quick tier.
KILLS = examples(4)
# Far longer than the scheduler takes to notice a node.
QUIET_SECONDS = 1.0


class Beside(msgspec.Struct, frozen=True):
    """Both processes, and a connection for people."""

    runner: asyncio.Runner
    kept: KeptCluster
    operator: Operator
    cluster: Cluster


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    folder = tmp_path_factory.mktemp("beside")
    with ExitStack() as stack:
        kept = stack.enter_context(KeptCluster(folder, "--nodes", "5")).await_ready()
        account = restricted_kubeconfig(kept.kubeconfig, folder)
        operator = stack.enter_context(outside_operator(account, folder)).await_ready()
        runner = stack.enter_context(asyncio.Runner())
        people = Cluster(kept.kubeconfig, operators=(operator,))
        runner.run(people.__aenter__())
        yield Beside(runner, kept, operator, people)
        runner.run(people.__aexit__(None, None, None))
        assert "forbidden" not in operator.log.read_text()


# --- placement -------------------------------------------------------------------------------------------------------


class Crowded(Stage):
    """A stage on which there is often no room: it is settled when every pod is there and runs, or was told why not.

    A pod may have been told so before there was room, so nothing must have changed for a while, either.
    """

    async def settle(self) -> None:
        quiet = Quiet(self.cluster.clock)

        def is_at_rest() -> bool:
            seen = [(pod.metadata.uid, pod.spec.node_name, pod.is_ready) for pod in self.pods()]
            is_quiet = quiet.has_lasted(seen, QUIET_SECONDS)
            return is_quiet and not _missing(self) and all(map(_is_judged, self.pods()))

        await self.wait_until(is_at_rest)


def _missing(stage: Stage) -> list[str]:
    """Objects that were asked for and are not there."""
    kinds = ("groups:", "cliques:", "gangs:", "services:")
    lines = unrestored(stage)
    return [line for line in lines if line.startswith(kinds) or " pods, has the indices " in line]


def _is_judged(pod: Pod) -> bool:
    told = find_condition(pod.status.conditions, "PodScheduled")
    return pod.is_ready or (told is not None and told.status == "False" and bool(told.message))


# With the nodes that each begins with, one pod each. Stories in which it does not matter that nodes come one by one.
PLACED = [
    (all_or_nothing, 9),
    (a_scaled_replica_waits_as_a_block, 13),
    (a_second_set_replica_waits_as_a_block, 19),
    (minima_first_then_the_rest, 2),
]


@pytest.mark.parametrize(("story", "nodes"), PLACED, ids=lambda value: getattr(value, "__name__", ""))
def test_gangs_are_placed_as_in_the_simulation(
    beside: Beside, story: Callable[[Scene], Awaitable[None]], nodes: int
) -> None:
    async def run() -> None:
        namespace = (await beside.cluster.stage()).namespace
        stage = Crowded(beside.cluster, namespace, has_nodes=False)
        stage.node_resources = ONE_POD_NODE
        await stage.add_nodes(nodes)
        await story(stage)
        await stage.clear()
        await stage.wait_until(lambda: not stage.pods())

    beside.runner.run(run())


# --- kill -9 ---------------------------------------------------------------------------------------------------------


def bustle_with_kills(beside: Beside, *victims: KeptCluster | Operator) -> None:
    """Sets are scaled, and lose pods, while these are killed again and again; in the end all is as asked for."""

    async def run() -> None:
        stage = await beside.cluster.stage()
        stage.patience = 300.0
        bustle, random = Bustle(stage), Random(SEED)
        await bustle.begin()
        for _ in range(KILLS):
            await bustle.steps(8)
            await stage.cluster.clock.sleep(random.uniform(0.0, 0.5))
            for victim in victims:
                victim.kill()
            for victim in victims:
                victim.start()
            for victim in victims:
                await asyncio.to_thread(victim.await_ready)
        await bustle.end()
        await stage.clear()
        await stage.wait_until(lambda: not stage.pods())

    beside.runner.run(run())


def test_an_operator_that_is_killed_again_and_again_leaves_every_set_right(beside: Beside) -> None:
    bustle_with_kills(beside, beside.operator)


def test_a_cluster_that_is_killed_again_and_again_loses_nothing_and_every_set_becomes_right(beside: Beside) -> None:
    bustle_with_kills(beside, beside.kept)


def test_with_both_killed_at_once_every_set_becomes_right(beside: Beside) -> None:
    bustle_with_kills(beside, beside.kept, beside.operator)

"""Whatever breaks while twenty sets scale and fail: afterwards each is right, nothing is extra, nothing is lost.

Real processes are killed and real connections cut, so no two runs are the same; what is asked for is drawn from a seed.
"""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, nullcontext
from itertools import count
from pathlib import Path
from random import Random

import pytest

from tests.e2e.bustle import SEED, Bustle, without_twins
from tests.e2e.harness import Cluster, Stage
from tests.e2e.installation import Installation, outside_operator
from tests.e2e.operators import Operator
from tests.e2e.proxies import CuttingProxy, SpoilingProxy, redirected
from tests.kube.controlplane.nodes import running_nodes
from tests.kube.controlplane.plane import running_plane

pytestmark = pytest.mark.kube


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """A control plane to break. Without webhooks: they are an operator's, and would stop people while it is away."""
    with running_plane(tmp_path_factory.mktemp("faults")) as plane, running_nodes(plane.kubeconfig, 5):
        yield Installation(plane, has_webhooks=False)


class Trouble:
    """Twenty sets and their operators, on a control plane of their own."""

    def __init__(self, installed: Installation, stage: Stage, operators: tuple[Operator, ...]) -> None:
        self.plane = installed.plane
        self.stage = stage
        self.operators = operators
        self.bustle = Bustle(stage)
        self.random = Random(SEED)

    async def pause(self, shortest: float, longest: float) -> None:
        await self.stage.cluster.clock.sleep(self.random.uniform(shortest, longest))


@asynccontextmanager
async def trouble(installed: Installation, *operators: Operator, has_server: bool = True) -> AsyncIterator[Trouble]:
    """Until everything is right again, and the sets are gone. A server that goes away shows nobody every pod."""
    async with Cluster(installed.plane.kubeconfig, operators=operators) as cluster:
        stage = await cluster.stage()
        stage.patience = 300.0
        one = Trouble(installed, stage, operators)
        try:
            async with without_twins(stage) if has_server else nullcontext():
                await one.bustle.begin()
                yield one
                await one.bustle.end()
            await stage.clear()
            await stage.wait_until(lambda: not stage.pods())
        finally:
            for operator in operators:
                operator.stop()


def test_after_twenty_kills_of_the_operator_every_set_is_right(installed: Installation, tmp_path: Path) -> None:
    async def run() -> None:
        operator = outside_operator(installed.kubeconfig(), tmp_path)
        async with trouble(installed, operator) as one:
            for _ in range(20):
                await one.bustle.steps(6)
                operator.start()
                await one.stage.wait_until(operator.has_worked)
                await one.pause(0.0, 0.4)
                operator.kill()
            operator.start()

    asyncio.run(run())


@pytest.mark.parametrize("component", ["kube-apiserver", "etcd"])
def test_after_a_part_of_the_control_plane_was_killed_every_set_is_right(
    installed: Installation, tmp_path: Path, component: str
) -> None:
    async def run() -> None:
        operator = outside_operator(installed.kubeconfig(), tmp_path)
        operator.start()
        async with trouble(installed, operator, has_server=False) as one:
            for _ in range(2):
                await one.bustle.steps(10)
                await asyncio.to_thread(one.plane.stop, component, signal.SIGKILL)
                await one.pause(0.5, 2.0)
                one.plane.start(component)
                await asyncio.to_thread(one.plane.await_ready)

    asyncio.run(run())


def test_with_connections_cut_again_and_again_every_set_becomes_right(installed: Installation, tmp_path: Path) -> None:
    async def run() -> None:
        async with CuttingProxy(installed.plane.url).running() as proxy:
            operator = outside_operator(redirected(installed.kubeconfig(), proxy.url), tmp_path)
            operator.start()
            async with trouble(installed, operator) as one:
                for cuts in count():
                    # A busy operator may not be back yet when it is cut again.
                    if cuts >= 25 and proxy.cut_count > 100:
                        break
                    await one.bustle.steps(3)
                    await one.pause(0.1, 0.6)
                    proxy.cut()
            assert proxy.cut_count > 100

    asyncio.run(run())


def test_with_one_answer_in_twenty_spoilt_or_lost_every_set_becomes_right(
    installed: Installation, tmp_path: Path
) -> None:
    async def run() -> None:
        access = installed.plane.access()
        async with SpoilingProxy(access, Random(SEED), 0.05).running() as proxy:
            operator = outside_operator(redirected(installed.kubeconfig(), proxy.url), tmp_path)
            operator.start()
            async with trouble(installed, operator) as one:
                for rounds in count():
                    if rounds >= 20 and proxy.spoilt_count > 20:
                        break
                    await one.bustle.steps(4)
                    await one.pause(0.2, 0.6)
            assert proxy.spoilt_count > 20

    asyncio.run(run())

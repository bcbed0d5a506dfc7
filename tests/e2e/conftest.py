"""The two clusters that stories are told on, each with its operator: embedded in `grove up`, and real.

One of each per session, a namespace per story. Tests that break a control plane make one of their own.
"""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.e2e.accounts import restricted_kubeconfig
from tests.e2e.harness import Cluster
from tests.e2e.installation import Installation, outside_operator
from tests.e2e.kubectl_verbs import Both, Clusters, both_clusters
from tests.e2e.served import grove_up
from tests.kube.controlplane.nodes import running_nodes
from tests.kube.controlplane.plane import running_plane

NODES = 10


@pytest.fixture(scope="session")
def runner() -> Iterator[asyncio.Runner]:
    """The loop of all stories: connections belong to a loop."""
    with asyncio.Runner() as one:
        yield one


@pytest.fixture(scope="session", params=["embedded", "real"])
def cluster(
    request: pytest.FixtureRequest, runner: asyncio.Runner, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp(request.param)
    with ExitStack() as stack:
        one = _embedded(stack, folder) if request.param == "embedded" else _real(stack, folder)
        runner.run(one.__aenter__())
        yield one
        runner.run(one.__aexit__(None, None, None))


@pytest.fixture(scope="session")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clusters]:
    """The two that kubectl is compared on: one of each, at the same time."""
    with both_clusters(tmp_path_factory.mktemp("both")) as both:
        yield both


@pytest.fixture
def both(clusters: Clusters) -> Both:
    return clusters.new_namespace()


def _embedded(stack: ExitStack, folder: Path) -> Cluster:
    kubectl = stack.enter_context(grove_up(folder / "up", "--no-operator", "--nodes", str(NODES)))
    account = restricted_kubeconfig(kubectl.kubeconfig, folder)
    operator = stack.enter_context(outside_operator(account, folder))
    return Cluster(kubectl.kubeconfig, operators=(operator,))


def _real(stack: ExitStack, folder: Path) -> Cluster:
    plane = stack.enter_context(running_plane(folder))
    installation = Installation(plane)
    stack.enter_context(running_nodes(plane.kubeconfig, NODES))
    operator = stack.enter_context(installation.pod_like_operator()).await_ready()
    return Cluster(plane.kubeconfig, operators=(operator,))

"""`kubectl wait` for the conditions of a set, on `grove up` and on a real control plane."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from grove.api.resources import PODCLIQUESETS
from grove.api.types.meta import JsonObject, find_condition
from tests.e2e.harness import Cluster, Stage
from tests.e2e.served import Kubectl
from tests.simulation.stories import find_set
from tests.simulation.training_stories import clique, training

pytestmark = pytest.mark.kube

NAME = "small"


def serving(image: str, replicas: int = 2) -> JsonObject:
    pod = {"containers": [{"name": "main", "image": image, "resources": {"requests": {"cpu": "10m"}}}]}
    cliques = [{"name": "a", "spec": {"roleName": "a", "replicas": 1, "podSpec": pod}}]
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": NAME},
        "spec": {"replicas": replicas, "template": {"cliques": cliques}},
    }


def tell(cluster: Cluster, runner: asyncio.Runner, tmp_path: Path, story: Callable[..., Awaitable[Any]]) -> None:
    """Run a story with a `kubectl wait` that does not block the connections of the test."""
    kubectl = Kubectl(cluster.kubeconfig, tmp_path)

    async def run() -> None:
        stage = await cluster.stage()

        async def wait(condition: str, name: str, seconds: int = 90) -> int:
            arguments = ("wait", f"--for=condition={condition}", f"pcs/{name}", f"--timeout={seconds}s")
            ran = await asyncio.to_thread(kubectl.attempt, *arguments, "-n", stage.namespace)
            await stage.look()
            return ran.code

        await story(stage, wait)
        await stage.clear()

    runner.run(run())


def said(stage: Stage, type_: str) -> tuple[str, str, bool]:
    """Status and reason of a condition, and whether it is about the newest spec."""
    pcs = find_set(stage, NAME)
    condition = find_condition(pcs.status.conditions, type_)
    assert condition is not None
    return condition.status, condition.reason, condition.observed_generation == pcs.metadata.generation


def test_kubectl_waits_until_a_set_is_available(cluster: Cluster, runner: asyncio.Runner, tmp_path: Path) -> None:
    async def story(stage: Stage, wait: Callable[..., Awaitable[Any]]) -> None:
        await stage.apply(serving("example/web:1"))
        assert await wait("Available", NAME) == 0
        assert said(stage, "Available") == ("True", "AllReplicasAvailable", True)
        # The new spec is not available before its replicas are, although the old one was.
        await stage.scale(PODCLIQUESETS, NAME, 3)
        assert await wait("Available", NAME) == 0
        assert find_set(stage, NAME).status.available_replicas == 3
        assert said(stage, "Available") == ("True", "AllReplicasAvailable", True)
        await stage.scale(PODCLIQUESETS, NAME, 0)
        assert await wait("Available", NAME) == 0
        assert said(stage, "Available") == ("True", "ScaledToZero", True)
        await stage.wait_until(lambda: said(stage, "Progressing") == ("True", "Complete", True))

    tell(cluster, runner, tmp_path, story)


def test_kubectl_waits_until_a_job_is_complete(cluster: Cluster, runner: asyncio.Runner, tmp_path: Path) -> None:
    async def story(stage: Stage, wait: Callable[..., Awaitable[Any]]) -> None:
        await stage.apply(training(clique("worker", 2, exits_after="2s")))
        assert await wait("Complete", "job") == 0

    tell(cluster, runner, tmp_path, story)


def test_kubectl_waits_until_a_job_failed(cluster: Cluster, runner: asyncio.Runner, tmp_path: Path) -> None:
    async def story(stage: Stage, wait: Callable[..., Awaitable[Any]]) -> None:
        await stage.apply(training(clique("worker", 2, exits_after="2s", code=1)))
        assert await wait("Failed", "job") == 0
        assert await wait("Complete", "job", seconds=1) != 0

    tell(cluster, runner, tmp_path, story)

"""The scheduler alone, with groups made by hand: what our mapping of gangs rests on."""

import asyncio
from collections.abc import Iterator

import pytest

from grove.api.resources import NATIVE_COMPOSITES, NATIVE_PODGROUPS, PODS
from grove.api.types.meta import JsonObject
from grove.api.types.scheduler_object import conditions_of
from tests.e2e.harness import NODES_OF
from tests.e2e.native import NativeCluster, NativeStage, native_cluster
from tests.kube.controlplane.plane import GANGS

pytestmark = pytest.mark.kube

WORKLOAD = {"workloadName": "none", "templateName": "none"}


@pytest.fixture(scope="module")
def native(runner: asyncio.Runner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NativeCluster]:
    with native_cluster(tmp_path_factory.mktemp("scheduler"), GANGS, runner) as cluster:
        yield cluster


async def make_root(stage: NativeStage, name: str, leaves: int, *, policy: JsonObject | None = None) -> None:
    gang = {"gang": {"minGroupCount": leaves}}
    spec = {"workloadRef": WORKLOAD, "schedulingPolicy": gang if policy is None else policy}
    await stage.client.create(NATIVE_COMPOSITES, stage.namespace, {"metadata": {"name": name}, "spec": spec})


async def make_leaf(stage: NativeStage, name: str, minimum: int, *, root: str = "") -> None:
    spec: JsonObject = {"schedulingPolicy": {"gang": {"minCount": minimum}}}
    if root:
        spec |= {"parentCompositePodGroupName": root, "workloadRef": WORKLOAD}
    await stage.client.create(NATIVE_PODGROUPS, stage.namespace, {"metadata": {"name": name}, "spec": spec})


async def make_pod(stage: NativeStage, name: str, group: str) -> None:
    container = {"name": "main", "image": "none", "resources": {"requests": {"memory": "80Mi"}}}
    spec = {
        "schedulingGroup": {"podGroupName": group},
        "nodeSelector": {NODES_OF: stage.namespace},
        "containers": [container],
    }
    await stage.client.create(PODS, stage.namespace, {"metadata": {"name": name}, "spec": spec})


def placed(stage: NativeStage) -> list[str]:
    return sorted(pod.metadata.name for pod in stage.pods() if pod.spec.node_name)


def verdicts(stage: NativeStage) -> dict[str, str]:
    """What each leaf says of its first placement."""
    return {leaf.metadata.name: c.status for leaf in stage.groups() for c in conditions_of(leaf)}


async def make_gang(stage: NativeStage) -> None:
    """Two leaves of two pods."""
    await make_root(stage, "root", 2)
    for leaf in ("a", "b"):
        await make_leaf(stage, leaf, 2, root="root")
        for index in range(2):
            await make_pod(stage, f"{leaf}-{index}", leaf)


def test_of_two_groups_none_is_placed_until_both_fit(runner: asyncio.Runner, native: NativeCluster) -> None:
    async def story() -> None:
        stage = await native.narrow_stage(3)
        await make_gang(stage)
        await stage.wait_until(lambda: verdicts(stage) == {"a": "False", "b": "False"})
        assert placed(stage) == []
        await stage.add_nodes(1)
        await stage.wait_until(lambda: placed(stage) == ["a-0", "a-1", "b-0", "b-1"])
        # The scheduler says so after it has placed them.
        await stage.wait_until(lambda: verdicts(stage) == {"a": "True", "b": "True"})

    runner.run(story())


def test_a_relaxed_root_lets_one_group_be_repaired_while_another_waits(
    runner: asyncio.Runner, native: NativeCluster
) -> None:
    async def story() -> None:
        stage = await native.narrow_stage(4)
        await make_gang(stage)
        await stage.wait_until(lambda: len(placed(stage)) == 4)
        await stage.client.delete(NATIVE_COMPOSITES, stage.namespace, "root")
        await make_root(stage, "root", 2, policy={"basic": {}})
        for name in ("a-0", "a-1", "b-0"):
            await stage.client.delete(PODS, stage.namespace, name)
        await stage.wait_until(lambda: placed(stage) == ["b-1"])
        await make_pod(stage, "b-2", "b")
        await stage.wait_until(lambda: placed(stage) == ["b-1", "b-2"])

    runner.run(story())

"""A plan made of a cluster that is reached over HTTP comes true there, embedded and real alike."""

import asyncio
import copy

import pytest

from grove.api.resources import PODCLIQUESETS, PODS
from grove.api.types.meta import JsonObject
from grove.cli.plan.runner import ClusterState, predict_change, read_cluster
from grove.operations.apply.manifest_reader import ManifestDocument
from grove.sim.rehearsal.prediction import PredictedOutcome, Prediction
from tests.e2e.harness import POLL_SECONDS, Cluster, Stage

pytestmark = pytest.mark.kube


def clique(name: str, replicas: int) -> JsonObject:
    container = {"name": "main", "image": "image:1", "resources": {"requests": {"cpu": "10m"}}}
    spec = {"roleName": name, "replicas": replicas, "minAvailable": 1, "podSpec": {"containers": [container]}}
    return {"name": name, "spec": spec}


def workload() -> JsonObject:
    template = {
        "cliques": [clique("a", 3), clique("b", 1), clique("c", 1), clique("d", 1)],
        "podCliqueScalingGroups": [{"name": "g", "cliqueNames": ["b", "c"], "replicas": 2, "minAvailable": 1}],
    }
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": "p"},
        "spec": {"replicas": 2, "template": template},
    }


def changed() -> JsonObject:
    body = copy.deepcopy(workload())
    for one in body["spec"]["template"]["cliques"][:2]:
        one["spec"]["podSpec"]["containers"][0]["image"] = "image:2"
    return body


async def prepared(cluster: Cluster) -> Stage:
    stage = await cluster.stage()
    await stage.apply(workload())
    await stage.settle()
    # What other stories have left goes at its own pace, and would be told of.
    deadline = cluster.clock.monotonic() + stage.patience
    while waiting := [pod.metadata.name for pod in (await cluster.client.list(PODS)).items if not pod.spec.node_name]:
        assert cluster.clock.monotonic() < deadline, f"still there: {waiting}"
        await cluster.clock.sleep(POLL_SECONDS)
    return stage


async def seen(cluster: Cluster, stage: Stage, body: JsonObject) -> ClusterState:
    document = ManifestDocument(place="p.yaml", body=body)
    return await read_cluster(cluster.transport, [document], stage.namespace, cluster.clock.now())


async def names_after(stage: Stage, body: JsonObject) -> set[str]:
    await stage.apply(body)
    await stage.wait_until(lambda: is_update_over(stage))
    await stage.settle()
    return {pod.metadata.name for pod in stage.pods()}


def is_update_over(stage: Stage) -> bool:
    (pcs,) = stage.objects(PODCLIQUESETS)
    progress = pcs.status.rolling_update_progress
    is_told = pcs.status.observed_generation == pcs.metadata.generation
    return is_told and progress is not None and progress.update_ended_at is not None


def replaced(prediction: Prediction) -> set[str]:
    return {
        name for turn in prediction.order for part in turn.parts for step in part.steps for name in step.pods
    }  # fmt: skip


def test_what_is_told_is_replaced_and_nothing_else(runner: asyncio.Runner, cluster: Cluster) -> None:
    stage = runner.run(prepared(cluster))
    before = {pod.metadata.name for pod in stage.pods()}
    same = predict_change(runner.run(seen(cluster, stage, workload())))
    assert [one.prediction.outcome for one in same.sets] == [PredictedOutcome.NOTHING]
    # Nothing was in motion, and all could be seen.
    assert len(same.notes) == 1
    (planned,) = predict_change(runner.run(seen(cluster, stage, changed()))).sets
    told = planned.prediction
    assert (told.outcome, told.pods.replaced, told.pods.kept) == (PredictedOutcome.DONE, 14, 2)
    after = runner.run(names_after(stage, changed()))
    assert (before - after, len(after)) == (replaced(told), 16)
    runner.run(stage.clear())

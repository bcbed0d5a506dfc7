"""Autoscalers on a real control plane: the HPA controller of Kubernetes scales cliques and groups of a set.

The many cases are in `tests/simulation/autoscaling_stories.py`, where the story plays the autoscaler. Here the
metrics come from the test, and the HPA controller decides every second instead of every 15.
"""

import asyncio
from collections.abc import Iterator

import pytest

from grove.api import labels
from grove.api.resources import AUTOSCALERS, GROUPS, PODCLIQUES, PODCLIQUESETS, PODS
from grove.api.types.meta import JsonObject
from grove.api.values.autoscaler_summary import summarize_autoscaler
from grove.cluster.nodes import Nodes
from tests.e2e.harness import Cluster, Stage
from tests.e2e.installation import Installation
from tests.e2e.metrics_api import MetricsApi, serving_metrics
from tests.kube.controlplane.nodes import running_nodes
from tests.kube.controlplane.plane import running_plane
from tests.simulation.autoscaling_stories import scaled_set
from tests.simulation.stories import running_by_role

pytestmark = pytest.mark.kube

AT_ONCE = {"scaleDown": {"stabilizationWindowSeconds": 0}}
ONE_SECOND = (
    "--horizontal-pod-autoscaler-sync-period=1s",
    "--horizontal-pod-autoscaler-initial-readiness-delay=0s",
    "--horizontal-pod-autoscaler-cpu-initialization-period=0s",
)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[asyncio.Runner, Cluster, MetricsApi]]:
    folder = tmp_path_factory.mktemp("autoscaling")
    with (
        running_plane(folder, manager_flags=ONE_SECOND) as plane,
        serving_metrics(plane, folder) as metrics,
        running_nodes(plane.kubeconfig, 4),
        Installation(plane).pod_like_operator() as operator,
        asyncio.Runner() as runner,
    ):
        cluster = Cluster(plane.kubeconfig, operators=(operator.await_ready(),))
        runner.run(cluster.__aenter__())
        yield runner, cluster, metrics
        runner.run(cluster.__aexit__(None, None, None))


def by_queue(metric: str) -> JsonObject:
    source = {"metric": {"name": metric}, "target": {"type": "AverageValue", "averageValue": "10"}}
    return {
        "minReplicas": 1,
        "maxReplicas": 4,
        "metrics": [{"type": "External", "external": source}],
        "behavior": AT_ONCE,
    }


def replicas(stage: Stage) -> dict[str, int]:
    found = {one.metadata.name: one.spec.replicas for one in stage.objects(PODCLIQUES)}
    return {
        **{name: count for name, count in found.items() if name == "s-0-a"},
        **{one.metadata.name: one.spec.replicas for one in stage.objects(GROUPS)},
    }


def is_at(stage: Stage, clique: int, group: int) -> bool:
    members = {f"s-0-g-{j}-m": 1 for j in range(group)}
    return (
        replicas(stage) == {"s-0-a": clique, "s-0-g": group}
        and running_by_role(stage) == {"s-0-a": clique, **members}
        and not any(pod.metadata.is_terminating for pod in stage.pods())
    )


def test_the_hpa_controller_scales_out_and_in_during_an_update_and_after_a_gang_termination(
    told: tuple[asyncio.Runner, Cluster, MetricsApi],
) -> None:
    runner, cluster, metrics = told

    async def story() -> None:
        stage = await cluster.stage(has_nodes=False)
        names = await stage.add_nodes(2)
        assert isinstance(names, tuple)
        nodes = Nodes(stage.client, cluster.clock)
        metrics.external.update({"a": 20, "g": 20})
        manifest = scaled_set(by_queue("a"), by_queue("g"), delay="3s")
        await stage.apply(manifest)
        await stage.wait_until(lambda: is_at(stage, 2, 2))
        # Out, to the upper limit.
        metrics.external.update({"a": 35, "g": 99})
        await stage.wait_until(lambda: is_at(stage, 4, 4))
        await stage.wait_until(lambda: _limits(stage) == {"s-0-a": "", "s-0-g": "at maxReplicas"})
        # Every pod of the clique is lost, with no room for others: the gang is terminated, and the counts stay.
        before = {pod.metadata.uid for pod in stage.pods()}
        for name in names:
            await nodes.cordon(name)
        for pod in stage.running_pods():
            if pod.metadata.labels[labels.PODCLIQUE] == "s-0-a":
                await stage.client.delete(PODS, stage.namespace, pod.metadata.name, uid=pod.metadata.uid)
        await stage.wait_until(lambda: not before & {pod.metadata.uid for pod in stage.pods()})
        for name in names:
            await nodes.uncordon(name)
        await stage.wait_until(lambda: is_at(stage, 4, 4))
        # In, while an update replaces every pod.
        before = {pod.metadata.uid for pod in stage.pods()}
        await stage.apply(scaled_set(by_queue("a"), by_queue("g"), delay="3s", image="j"))
        await stage.wait_until(lambda: bool({pod.metadata.uid for pod in stage.pods()} - before))
        metrics.external.update({"a": 15, "g": 5})
        await stage.wait_until(lambda: is_at(stage, 2, 1) and _is_updated(stage))
        assert not before & {pod.metadata.uid for pod in stage.pods()}
        await stage.clear()
        await stage.wait_until_nothing_is_left()

    runner.run(story())


def test_a_resource_metric_scales_a_group_of_several_pods_by_replicas_and_not_by_pods(
    told: tuple[asyncio.Runner, Cluster, MetricsApi],
) -> None:
    """A group replica has three pods, each at 150 % of the target: two replicas become three, not nine."""
    runner, cluster, metrics = told
    target = {"name": "cpu", "target": {"type": "AverageValue", "averageValue": "100m"}}
    config: JsonObject = {
        "minReplicas": 1,
        "maxReplicas": 9,
        "metrics": [{"type": "Resource", "resource": target}],
        "behavior": AT_ONCE,
    }

    async def story() -> None:
        stage = await cluster.stage()
        manifest = scaled_set(None, config)
        template = manifest["spec"]["template"]
        worker: JsonObject = {**template["cliques"][1], "name": "w"}
        worker["spec"] = {**worker["spec"], "roleName": "w", "replicas": 2, "minAvailable": 2}
        template["cliques"].append(worker)
        template["podCliqueScalingGroups"][0]["cliqueNames"].append("w")
        metrics.cpu = 100
        await stage.apply(manifest)
        await stage.settle()
        asked = metrics.asked.get("cpu", 0)
        await stage.wait_until(lambda: metrics.asked.get("cpu", 0) > asked + 2)
        assert replicas(stage)["s-0-g"] == 2
        metrics.cpu = 150
        seen: set[int] = set()
        await stage.wait_until(lambda: seen.add(replicas(stage)["s-0-g"]) or replicas(stage)["s-0-g"] == 3)  # type: ignore[func-returns-value]
        metrics.cpu = 100
        await stage.settle()
        assert seen <= {2, 3}
        metrics.cpu = 30
        await stage.wait_until(lambda: replicas(stage)["s-0-g"] == 1)
        await stage.settle()
        await stage.clear()

    runner.run(story())


def test_an_autoscaler_that_a_user_writes_scales_a_set(told: tuple[asyncio.Runner, Cluster, MetricsApi]) -> None:
    runner, cluster, metrics = told

    async def story() -> None:
        stage = await cluster.stage()
        await stage.apply(scaled_set(None, None))
        await stage.settle()
        metrics.external["sets"] = 20
        reference = {"apiVersion": PODCLIQUESETS.api_version, "kind": PODCLIQUESETS.kind, "name": "s"}
        spec = {**by_queue("sets"), "scaleTargetRef": reference}
        mine = {"apiVersion": AUTOSCALERS.api_version, "kind": AUTOSCALERS.kind, "metadata": {"name": "mine"}}
        await stage.apply({**mine, "spec": spec})
        await stage.wait_until(lambda: stage.objects(PODCLIQUESETS)[0].status.available_replicas == 2)
        metrics.external["sets"] = 9
        await stage.wait_until(lambda: len(stage.pods()) == 4)
        assert [pcs.spec.replicas for pcs in stage.objects(PODCLIQUESETS)] == [1]
        # The operator has no part in it, and leaves it alone.
        assert [one.metadata.name for one in stage.objects(AUTOSCALERS)] == ["mine"]
        await stage.clear()

    runner.run(story())


def _limits(stage: Stage) -> dict[str, str]:
    return {one.metadata.name: summarize_autoscaler(one).limit for one in stage.objects(AUTOSCALERS)}


def _is_updated(stage: Stage) -> bool:
    return all(pcs.status.updated_replicas == 1 for pcs in stage.objects(PODCLIQUESETS))

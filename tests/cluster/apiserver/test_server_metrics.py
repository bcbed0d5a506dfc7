"""The resource metrics API of a server with simulated pods: what `kubectl top` and an autoscaler read."""

from grove.api.types.meta import JsonObject
from grove.cluster.kubelet.simulated.simulated_usage import SimulatedUsage
from grove.kube.transport import Request
from tests.cluster.apidsl import NODES, PODS, Answer, Api, on_cluster, on_cluster_with, pod

METRICS = "/apis/metrics.k8s.io/v1beta1"
POD_METRICS = f"{METRICS}/namespaces/default/pods"
RUNNING: JsonObject = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
measured = on_cluster_with(usage=SimulatedUsage())


async def run_pod(api: Api, name: str, node: str = "n", **usage: str) -> None:
    made = pod(name, spec={"nodeName": node}, labels={"app": name})
    made["metadata"]["annotations"] = {f"simulation.grove.io/{key}-usage": value for key, value in usage.items()}
    await api.post(PODS, made)
    await api.merge(f"{PODS}/{name}/status", RUNNING)


def usage_of(answer: Answer) -> dict[str, tuple[str, str]]:
    found = {item["metadata"]["name"]: item["containers"][0]["usage"] for item in answer.body["items"]}
    return {name: (usage["cpu"], usage["memory"]) for name, usage in found.items()}


@measured
async def test_an_annotation_is_the_usage_of_a_pod_and_its_change_is_new_load(api: Api) -> None:
    await run_pod(api, "a", cpu="250m", memory="1Gi")
    await run_pod(api, "b")
    found = await api.get(POD_METRICS)
    assert (found.status, found.body["kind"]) == (200, "PodMetricsList")
    assert usage_of(found) == {"a": ("250m", "1Gi")}
    await api.merge(f"{PODS}/a", {"metadata": {"annotations": {"simulation.grove.io/cpu-usage": "2"}}})
    assert usage_of(await api.get(POD_METRICS)) == {"a": ("2", "1Gi")}
    one = await api.get(f"{POD_METRICS}/a")
    assert (one.body["kind"], one.body["window"], one.body["timestamp"]) == (
        "PodMetrics", "15s", "2026-01-01T12:00:00Z",
    )  # fmt: skip


@measured
async def test_a_label_selector_and_all_namespaces_work(api: Api) -> None:
    await run_pod(api, "a", cpu="1")
    await run_pod(api, "b", cpu="2")
    assert usage_of(await api.get(POD_METRICS, labelSelector="app=b")) == {"b": ("2", "0")}
    assert list(usage_of(await api.get(f"{METRICS}/pods"))) == ["a", "b"]


@measured
async def test_the_usage_of_a_node_is_that_of_its_pods(api: Api) -> None:
    for name in ("n", "m"):
        await api.post(NODES, {"metadata": {"name": name}})
    await run_pod(api, "a", cpu="1", memory="1Gi")
    await run_pod(api, "b", cpu="500m")
    found = await api.get(f"{METRICS}/nodes")
    assert {item["metadata"]["name"]: item["usage"] for item in found.body["items"]} == {
        "m": {"cpu": "0", "memory": "0"},
        "n": {"cpu": "1500m", "memory": "1Gi"},
    }
    assert (await api.get(f"{METRICS}/nodes/n")).body["kind"] == "NodeMetrics"


@measured
async def test_what_is_not_measured_is_not_found(api: Api) -> None:
    await run_pod(api, "a")
    await run_pod(api, "b", cpu="much")
    for path in ("namespaces/default/pods/a", "namespaces/default/pods/b", "namespaces/default/pods/x", "nodes/x"):
        assert (await api.get(f"{METRICS}/{path}")).status == 404, path
    assert (await api.get(f"{METRICS}/deployments")).status == 404
    assert (await api.post(POD_METRICS, {})).status == 405


@measured
async def test_discovery_lists_the_metrics_api(api: Api) -> None:
    groups = [group["name"] for group in (await api.get("/apis")).body["groups"]]
    assert "metrics.k8s.io" in groups
    listed = (await api.get(METRICS)).body["resources"]
    assert [(one["name"], one["kind"], one["namespaced"]) for one in listed] == [
        ("nodes", "NodeMetrics", False),
        ("pods", "PodMetrics", True),
    ]


@on_cluster
async def test_a_server_that_measures_nothing_does_not_serve_it(api: Api) -> None:
    assert api.server.handle(Request(method="GET", path=f"{METRICS}/pods")).status == 404
    assert "metrics.k8s.io" not in [group["name"] for group in (await api.get("/apis")).body["groups"]]

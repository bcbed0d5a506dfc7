"""For each break, the first line of `grove why` names the true cause, for the set and every part of it."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from grove.api import labels
from grove.api.resources import PODCLIQUES, PODCLIQUESETS, PODS
from grove.api.types.meta import JsonObject
from grove.cli.commands.why import why_rows
from grove.cli.common.options import parse_object_ref
from grove.cli.common.output import plain_lines
from grove.kube.transport import JSON_PATCH, STRATEGIC_PATCH
from grove.operations.why.runner import explain
from grove.sim.simulation import World, grove_operator
from grove.sim.virtual_clock import run_virtual

Break = Callable[[World], Awaitable[None]]
NODE = {"cpu": "32", "memory": "256Gi", "nvidia.com/gpu": "8", "pods": "110"}
TARGETS = ("pcs/s", "pg/s-0", "pcsg/s-0-g", "pclq/s-0-g-0-w", "pod/")


def gpu_set(name: str = "s", *, pods: int = 2, gpus: int = 8, **pod_spec: Any) -> JsonObject:
    """Return a set of one group with one clique, so that every kind has the same cause."""
    annotations = pod_spec.pop("annotations", {})
    amounts = {"nvidia.com/gpu": str(gpus)}
    container = {"name": "main", "image": "engine:1", "resources": {"requests": amounts, "limits": amounts}}
    spec = {"roleName": "w", "replicas": pods, "podSpec": {"containers": [container], **pod_spec}}
    template = {
        "cliques": [{"name": "w", "annotations": annotations, "spec": spec}],
        "podCliqueScalingGroups": [{"name": "g", "cliqueNames": ["w"]}],
    }
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": name},
        "spec": {"replicas": 1, "template": template},
    }


async def lines_about(world: World, target: str) -> list[str]:
    if target == "pod/":
        target += next(pod.metadata.name for pod in world.pods() if pod.metadata.name.startswith("s-0-g-0-w-0"))
    said = await explain(world.client, world.clock.now(), "default", parse_object_ref(target))
    return plain_lines(why_rows(said))


def explained(break_it: Break, *targets: str, nodes: int = 4, has_operator: bool = True) -> list[list[str]]:
    async def story() -> list[list[str]]:
        operator = grove_operator if has_operator else None
        async with World(seed=1, nodes=nodes, node_resources=NODE, operator=operator) as world:
            await break_it(world)
            return [await lines_about(world, target) for target in targets]

    return run_virtual(story())


async def too_large(world: World) -> None:
    await world.apply(gpu_set(gpus=16))
    await world.clock.sleep(10)


async def too_many(world: World) -> None:
    await world.apply(gpu_set(pods=6))
    await world.clock.sleep(10)


async def used_by_others(world: World) -> None:
    await world.apply(gpu_set("llm", pods=2))
    await world.apply(gpu_set("chat", pods=1, gpus=4))
    await world.settle()
    await world.apply(gpu_set())
    await world.clock.sleep(10)


async def wrong_selector(world: World) -> None:
    await world.apply(gpu_set(nodeSelector={"disk": "ssd"}))
    await world.clock.sleep(10)


async def cordoned(world: World) -> None:
    for name in ("node-0", "node-1", "node-2"):
        await world.nodes.cordon(name)
    await world.apply(gpu_set())
    await world.clock.sleep(10)


async def nodes_down(world: World) -> None:
    for name in ("node-0", "node-1", "node-2"):
        await world.nodes.fail(name)
    await world.apply(gpu_set())
    await world.clock.sleep(10)


async def node_deleted(world: World) -> None:
    await world.apply(gpu_set())
    await world.settle()
    await world.nodes.remove(world.pods()[0].spec.node_name)
    await world.clock.sleep(1)


async def crash(world: World) -> None:
    await world.apply(gpu_set(annotations={labels.SIM_EXIT_AFTER: "20s", labels.SIM_EXIT_CODE: "3"}))
    await world.clock.sleep(42)


async def no_image(world: World) -> None:
    await world.apply(gpu_set())
    await world.settle()
    for pod in world.pods():
        await write_waiting(world, pod.metadata.name, "ImagePullBackOff", 'Back-off pulling image "engine:1"')


async def write_waiting(world: World, name: str, reason: str, message: str) -> None:
    """Write what a kubelet writes about a container that it cannot start."""
    waiting = {"name": "main", "ready": False, "state": {"waiting": {"reason": reason, "message": message}}}
    status = {"containerStatuses": [waiting], "conditions": [{"type": "Ready", "status": "False"}]}
    await world.client.patch(
        PODS, "default", name, {"status": status}, content_type=STRATEGIC_PATCH, subresource="status"
    )  # fmt: skip


async def quota_used(world: World) -> None:
    hard = {"requests.nvidia.com/gpu": "8"}
    await world.apply(
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team"}, "spec": {"hard": hard}}
    )
    await world.apply(gpu_set())
    await world.clock.sleep(10)


BREAKS = [
    pytest.param(too_large, "never fit: the largest node has 8 nvidia.com/gpu, the pod asks for 16.", id="size"),
    pytest.param(
        too_many, "the minimum asks for 48 nvidia.com/gpu at once, the 4 nodes have 32.", id="size of the gang"
    ),
    pytest.param(
        used_by_others,
        "20 of 32 nvidia.com/gpu in use: llm 16, chat 4",
        id="used by others",
    ),
    pytest.param(wrong_selector, "no node has the label disk=ssd of their node selector.", id="node selector"),
    pytest.param(cordoned, "3 of 4 nodes are cordoned (node-0, node-1 and node-2).", id="cordon"),
    pytest.param(nodes_down, "3 of 4 nodes are not ready (node-0, node-1 and node-2).", id="nodes not ready"),
    pytest.param(node_deleted, "Node node-0 no longer exists: ", id="deleted node"),
    pytest.param(crash, "crashes with exit code 3, 1 restart", id="crash loop"),
    pytest.param(no_image, 'cannot start: ImagePullBackOff: Back-off pulling image "engine:1".', id="image"),
    pytest.param(
        quota_used,
        "Quota team rejects pods of podgang/s-0: "
        "8 of 8 requests.nvidia.com/gpu are used, a pod asks for 8.",
        id="quota",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("break_it", "text"), BREAKS)
def test_the_first_line_names_the_cause_on_every_kind(break_it: Break, text: str) -> None:
    for target, lines in zip(TARGETS, explained(break_it, *TARGETS), strict=True):
        expected = text.replace("never fit:", "never fits:") if target == "pod/" else text
        assert expected in lines[0], (target, lines)
        assert any(line.startswith("Next: ") for line in lines), (target, lines)


def test_a_crash_comes_before_the_lost_minimum_that_it_causes() -> None:
    (lines,) = explained(crash, "pg/s-0")
    assert lines[0].startswith("Container main of 2 pods of podgang/s-0 crashes with exit code 3, 1 restart")
    assert lines[1].startswith("  Pods: s-0-g-0-w-0-")
    assert lines[2] == "So s-0-g-0-w lost its minimum: 0 of at least 2 pods are ready."
    assert lines[3].startswith("Next: the log shows why: grove logs s-0-g-0-w-0-")


def test_a_pod_that_runs_again_between_two_crashes_is_not_reported_as_healthy_only() -> None:
    async def running_again(world: World) -> None:
        await crash(world)
        await world.wait_until(lambda: all(pod.is_ready for pod in world.pods()))

    (lines,) = explained(running_again, "pcs/s")
    assert lines[0] == "Nothing: 2 of 2 pods are ready."
    assert lines[1].startswith("Container main of 2 pods of podcliqueset/s runs again after a crash: ")
    assert "runs again after a crash: exit code 3, 2 restarts" in lines[1]


def test_a_node_that_fails_is_named_before_its_pods_are_evicted() -> None:
    async def failed(world: World) -> None:
        await world.apply(gpu_set())
        await world.settle()
        await world.nodes.fail("node-0")
        await world.clock.sleep(2)

    (lines,) = explained(failed, "pcs/s")
    assert lines[0].startswith("Node node-0 does not answer: 1 pod of podgang/s-0 was there.")
    assert lines[1].startswith("  Pod: s-0-g-0-w-0-")
    assert lines[2] == "So s-0-g-0-w lost its minimum: 1 of at least 2 pods are ready."


def test_the_scheduler_itself_says_that_a_pod_never_fits() -> None:
    async def story() -> str:
        async with World(seed=1, nodes=2, node_resources=NODE) as world:
            await too_large(world)
            return world.pods()[0].status.conditions[0].message

    assert run_virtual(story()) == "never fits: the largest node has 8 nvidia.com/gpu, the pod asks for 16"


def test_hundreds_of_gangs_that_wait_for_the_same_reason_are_a_few_lines() -> None:
    async def many(world: World) -> None:
        manifest = gpu_set(gpus=16)
        manifest["spec"]["replicas"] = 100
        await world.apply(manifest)
        await world.settle()

    (lines,) = explained(many, "pcs/s")
    assert lines == [
        "2 pods of podgang/s-0 never fit: the largest node has 8 nvidia.com/gpu, the pod asks for 16.",
        "Next: lower the request in the template, or add a larger node.",
        "99 more gangs wait for the same reason: s-1, s-2, s-3 and 96 more.",
    ]


def test_a_bad_update_is_explained_by_its_container_then_by_the_stall() -> None:
    async def bad_update(world: World) -> None:
        await world.apply(gpu_set())
        await world.settle()
        manifest = gpu_set()
        manifest["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["containers"][0]["image"] = "engine:2"
        manifest["spec"]["template"]["cliques"][0]["annotations"] = {labels.SIM_READY_AFTER: "1h"}
        await world.apply(manifest)
        await world.clock.sleep(5)
        for pod in world.pods():
            await write_waiting(world, pod.metadata.name, "ErrImagePull", "engine:2: not found")
        await world.clock.sleep(5)

    (lines,) = explained(bad_update, "pcs/s")
    assert "cannot start: ErrImagePull: engine:2: not found." in lines[0]
    assert lines[1].startswith("  Pods: s-0-g-0-w-0-")
    assert lines[2] == "So the update is stalled at replica 0."
    assert any("grove rollout undo pcs/s" in line for line in lines)


# --- deletion and the operator ---------------------------------------------------------------------------------------


def test_a_clique_that_outlives_its_set_is_explained_by_its_finalizer() -> None:
    async def held(world: World) -> None:
        await world.apply(gpu_set())
        await world.settle()
        add = [{"op": "add", "path": "/metadata/finalizers", "value": ["example.com/hold"]}]
        await world.client.patch(PODCLIQUES, "default", "s-0-g-0-w", add, content_type=JSON_PATCH)
        await world.delete(PODCLIQUESETS, "s")
        await world.clock.sleep(20)

    (lines,) = explained(held, "pclq/s-0-g-0-w")
    assert lines[0] == "Finalizer example.com/hold blocks the deletion of podclique/s-0-g-0-w."


def test_a_pod_that_a_finalizer_holds_is_explained_by_the_finalizer() -> None:
    async def story() -> list[list[str]]:
        async with World(seed=1, nodes=4, node_resources=NODE) as world:
            await world.apply(gpu_set())
            await world.settle()
            name = world.pods()[0].metadata.name
            add = [{"op": "add", "path": "/metadata/finalizers", "value": ["example.com/hold"]}]
            await world.client.patch(PODS, "default", name, add, content_type=JSON_PATCH)
            await world.delete(PODS, name)
            await world.clock.sleep(60)
            return [await lines_about(world, target) for target in (f"pod/{name}", "pcs/s")]

    for lines in run_virtual(story()):
        assert lines[0].startswith("Finalizer example.com/hold blocks the deletion of pod/s-0-g-0-w-")


def test_a_change_that_no_operator_observes_is_the_first_line_on_every_kind() -> None:
    async def stopped(world: World) -> None:
        await world.apply(gpu_set())
        await world.settle()
        await world.crash_controller()
        await world.apply(gpu_set(gpus=4))

    for lines in explained(stopped, *TARGETS[:4]):
        assert lines[0] == "No operator has acted on the latest change of the set (generation 2, observed 1)."


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"holderIdentity": ""}, "No operator runs: lease grove-system/grove-operator-leader-election has no holder."),
        (
            {"holderIdentity": "op-1", "leaseDurationSeconds": 15, "renewTime": "2025-12-31T23:59:00.000000Z"},
            "No operator runs: op-1 renewed lease grove-system/grove-operator-leader-election 65 s ago.",
        ),
    ],
)
def test_a_lease_that_is_not_renewed_explains_pods_that_are_not_replaced(spec: JsonObject, text: str) -> None:
    async def stopped(world: World) -> None:
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
        await world.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "grove-system"}})
        metadata = {"name": "grove-operator-leader-election", "namespace": "grove-system"}
        await world.apply({**lease, "metadata": metadata, "spec": spec})
        await world.apply(gpu_set())
        await world.clock.sleep(2)

    (lines,) = explained(stopped, "pcs/s", has_operator=False)
    assert lines[0] == text


def test_a_pod_that_fits_names_the_clique_of_its_gang_that_does_not() -> None:
    async def one_clique_is_too_large(world: World) -> None:
        manifest = gpu_set(gpus=16)
        small = {"name": "small", "image": "engine:1", "resources": {"requests": {"cpu": "1"}}}
        router = {"name": "r", "spec": {"roleName": "r", "replicas": 1, "podSpec": {"containers": [small]}}}
        manifest["spec"]["template"]["cliques"].append(router)
        await world.apply(manifest)
        await world.settle()

    async def story() -> list[str]:
        async with World(seed=1, nodes=4, node_resources=NODE) as world:
            await one_clique_is_too_large(world)
            (pod,) = (one.metadata.name for one in world.pods() if one.metadata.name.startswith("s-0-r-"))
            return [(await lines_about(world, target))[0] for target in (f"pod/{pod}", "pcs/s")]

    of_pod, of_set = run_virtual(story())
    too_large = "the largest node has 8 nvidia.com/gpu, the pod asks for 16."
    assert of_pod.endswith(f"waits for the rest of the gang: podclique/s-0-g-0-w never fits: {too_large}")
    assert of_set == f"2 pods of podgang/s-0 never fit: {too_large}"

"""Causes that only a second look at the cluster shows: labels of some nodes, quotas that changed, remains of sets."""

import pytest

from grove.api import labels
from grove.api.resources import NODES, PODCLIQUESETS, PODS, RESOURCE_QUOTAS
from grove.kube.transport import JSON_PATCH, MERGE_PATCH
from grove.sim.simulation import World
from grove.sim.virtual_clock import run_virtual
from tests.cli.why.test_why_causes import BREAKS, NODE, Break, explained, gpu_set, lines_about, quota_used

LACK = "3 of 4 nodes lack the label disk=ssd of the node selector"


async def label(world: World, name: str, **some: str) -> None:
    await world.client.patch(NODES, "", name, {"metadata": {"labels": some}}, content_type=MERGE_PATCH)


# --- a node selector that only some nodes match ----------------------------------------------------------------------


async def selector_of_one_node(world: World) -> None:
    await label(world, "node-0", disk="ssd")
    await world.apply(gpu_set(nodeSelector={"disk": "ssd"}))
    await world.clock.sleep(10)


async def selector_of_one_full_node(world: World) -> None:
    await label(world, "node-0", disk="ssd")
    await world.apply(gpu_set("llm", pods=1, nodeSelector={"disk": "ssd"}))
    await world.settle()
    await world.apply(gpu_set(pods=1, nodeSelector={"disk": "ssd"}))
    await world.clock.sleep(10)


async def selector_of_a_small_node(world: World) -> None:
    await label(world, "node-0", disk="ssd")
    await world.client.patch(
        NODES, "", "node-0", {"status": {"allocatable": {"nvidia.com/gpu": "4"}}}, content_type=MERGE_PATCH,
        subresource="status",
    )  # fmt: skip
    await world.apply(gpu_set(pods=1, nodeSelector={"disk": "ssd"}))
    await world.clock.sleep(10)


async def taint_of_three_nodes(world: World) -> None:
    for name in ("node-1", "node-2", "node-3"):
        taint = {"key": "team", "value": "a", "effect": "NoSchedule"}
        await world.client.patch(NODES, "", name, {"spec": {"taints": [taint]}}, content_type=MERGE_PATCH)
    await world.apply(gpu_set())
    await world.clock.sleep(10)


@pytest.mark.parametrize(
    ("break_it", "cause", "detail"),
    [
        (selector_of_one_node, LACK, "The minimum asks for 16 nvidia.com/gpu at once, the only suitable node has 8."),
        (selector_of_one_full_node, LACK, "8 of 8 nvidia.com/gpu of the only suitable node in use: llm 8; 8 more "),
        (selector_of_a_small_node, LACK, "The largest suitable node has 4 nvidia.com/gpu, the pod asks for 8."),
        (
            taint_of_three_nodes,
            "3 of 4 nodes carry the untolerated taint team=a:NoSchedule",
            "The minimum asks for 16 nvidia.com/gpu at once, the only suitable node has 8.",
        ),
    ],
)
def test_what_excludes_most_nodes_is_named_first(break_it: Break, cause: str, detail: str) -> None:
    for lines in explained(break_it, "pcs/s", "pclq/s-0-g-0-w"):
        assert lines[0].endswith(f": {cause}."), lines
        assert lines[1].strip().startswith(detail.strip()), lines
        assert any("nodeSelector" in line for line in lines if line.startswith("Next: ")), lines


def test_labels_that_would_not_help_are_not_named() -> None:
    async def full_cluster(world: World) -> None:
        await label(world, "node-0", disk="ssd")
        await world.apply(gpu_set("llm", pods=4))
        await world.settle()
        await world.apply(gpu_set(pods=1, nodeSelector={"disk": "ssd"}))
        await world.clock.sleep(10)

    (lines,) = explained(full_cluster, "pcs/s")
    used = "8 of 8 nvidia.com/gpu of the only suitable node in use: llm 8"
    assert lines[0].startswith(f"1 pod of podgang/s-0 waits for a node: {used}")


# --- quotas that changed since they rejected pods --------------------------------------------------------------------


async def quota_deleted(world: World) -> None:
    await quota_used(world)
    await world.delete(RESOURCE_QUOTAS, "team")
    await world.clock.sleep(1)


async def quota_raised(world: World) -> None:
    await quota_used(world)
    raised = {"spec": {"hard": {"requests.nvidia.com/gpu": "64"}}}
    await world.client.patch(RESOURCE_QUOTAS, "default", "team", raised, content_type=MERGE_PATCH)
    await world.clock.sleep(1)


@pytest.mark.parametrize(
    ("break_it", "text"),
    [(quota_deleted, "quota team, which rejected them, no longer exists."),
     (quota_raised, "quota team, which rejected them, has room now.")],
)  # fmt: skip
def test_a_quota_that_no_longer_rejects_pods_is_not_the_cause(break_it: Break, text: str) -> None:
    (lines,) = explained(break_it, "pcs/s")
    assert lines[0] == f"Pods of podgang/s-0 wait for the next attempt to create them: {text}"
    assert lines[1].startswith("Next: the operator retries ")


# --- what is left of a set that is deleted ---------------------------------------------------------------------------


async def hold_a_pod_and_delete_the_set(world: World) -> str:
    await world.apply(gpu_set())
    await world.settle()
    name = world.pods()[0].metadata.name
    add = [{"op": "add", "path": "/metadata/finalizers", "value": ["example.com/hold"]}]
    await world.client.patch(PODS, "default", name, add, content_type=JSON_PATCH)
    await world.delete(PODCLIQUESETS, "s")
    await world.clock.sleep(60)
    return name


def test_a_pod_that_outlives_its_set_is_explained_by_the_name_of_the_set() -> None:
    async def story() -> tuple[str, list[str]]:
        async with World(seed=1, nodes=4, node_resources=NODE) as world:
            name = await hold_a_pod_and_delete_the_set(world)
            return name, await lines_about(world, "pcs/s")

    name, lines = run_virtual(story())
    assert lines[:2] == [
        f"Finalizer example.com/hold blocks the deletion of pod/{name}.",
        "So 1 object of podcliqueset/s still exists, although the set is deleted.",
    ]


# --- exit code 0 -----------------------------------------------------------------------------------------------------


def test_a_container_that_ends_with_exit_code_0_is_not_called_a_crash() -> None:
    async def ends(world: World) -> None:
        await world.apply(gpu_set(annotations={labels.SIM_EXIT_AFTER: "20s", labels.SIM_EXIT_CODE: "0"}))
        await world.clock.sleep(42)

    (lines,) = explained(ends, "pcs/s")
    assert "keeps ending with exit code 0, 1 restart" in lines[0]
    assert not any("crash" in line for line in lines)
    assert any("a container must run until it is stopped" in line for line in lines)


# --- the length of lines ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("break_it", [param.values[0] for param in BREAKS], ids=[param.id for param in BREAKS])
def test_the_cause_is_one_line_of_at_most_120_characters(break_it: Break) -> None:
    (lines,) = explained(break_it, "pcs/s")
    assert len(lines[0]) <= 120
    assert max(len(line) for line in lines) <= 200, lines

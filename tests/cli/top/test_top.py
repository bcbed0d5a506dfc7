"""What `grove top` counts and prints."""

from typing import Any

import msgspec

from grove.api import labels
from grove.api.types.meta import JsonObject
from grove.cli.common.output import plain_lines
from grove.cli.top.usage import TopNode, TopPod, Usage, compute_usage, usage_json
from grove.cli.top.view import format_amount, top_tables

GPU = "nvidia.com/gpu"


def node(index: int, rack: str = "", *, ready: bool = True, cordoned: bool = False) -> TopNode:
    body: JsonObject = {
        "metadata": {"name": f"node-{index}", "labels": {"topology.kubernetes.io/rack": rack} if rack else {}},
        "spec": {"unschedulable": cordoned},
        "status": {
            "allocatable": {"cpu": "32", "memory": "256Gi", GPU: "8", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        },
    }
    return msgspec.convert(body, TopNode)


def pod(of_set: str, on: int | None, gpus: int, phase: str = "Running", namespace: str = "default") -> TopPod:
    ours = {labels.MANAGED_BY: labels.MANAGED_BY_VALUE, labels.PART_OF: of_set} if of_set else {}
    resources = {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {GPU: str(gpus)}}
    spec: dict[str, Any] = {"containers": [{"name": "main", "resources": resources}]}
    if on is not None:
        spec["nodeName"] = f"node-{on}"
    body = {"metadata": {"namespace": namespace, "labels": ours}, "spec": spec, "status": {"phase": phase}}
    return msgspec.convert(body, TopPod)


def small() -> Usage:
    nodes = [node(1, "rack-0"), node(0, "rack-0"), node(10, "rack-1", cordoned=True), node(9, "rack-1", ready=False)]
    pods = [
        pod("llm", 0, 4), pod("llm", 0, 2), pod("chat", 0, 1), pod("", 1, 1), pod("llm", None, 8, "Pending"),
        pod("done", 1, 8, "Succeeded"),
    ]  # fmt: skip
    return compute_usage(nodes, pods)


def text(usage: Usage, width: int | None = None, height: int | None = None) -> list[str]:
    return [line for table in top_tables(usage, width, height) for line in plain_lines(table)]


def test_racks_nodes_and_sets_are_tables() -> None:
    assert text(small(), 80, 40) == [
        "NAME           GPU FREE  CPU FREE  MEMORY FREE  HELD BY",
        "cluster        8/32      62/128    508Gi/1Ti    llm 6, chat 1, other pods 1",
        "├─ rack-0      8/16      62/64     508Gi/512Gi  llm 6, chat 1, other pods 1",
        "│  ├─ node-0   1/8       30.5/32   253Gi/256Gi  llm 6, chat 1",
        "│  └─ node-1   7/8       31.5/32   255Gi/256Gi  other pods 1",
        "└─ rack-1      0/16      0/64      0/512Gi",
        "   ├─ node-9   0/8       0/32      0/256Gi      not ready",
        "   └─ node-10  0/8       0/32      0/256Gi      cordoned",
        "",
        "SET           GPU  CPU  MEMORY  PODS  NODES  WAITS FOR",
        "default/chat  1    0.5  1Gi     1     1",
        "default/llm   6    1    2Gi     2     1      8 nvidia.com/gpu (1 pod)",
        "other pods    1    0.5  1Gi     1     1",
    ]


def test_what_a_node_cannot_give_is_not_free() -> None:
    usage = small()
    assert usage.cluster.free[GPU] == 8000
    assert [(use.name, use.note, use.free[GPU]) for use in usage.places[1].nodes] == [
        ("node-9", "not ready", 0),
        ("node-10", "cordoned", 0),
    ]


def test_pods_that_ended_hold_nothing_and_pods_without_a_node_wait() -> None:
    usage = small()
    assert [one.name for one in usage.sets] == ["default/chat", "default/llm", "other pods"]
    assert (usage.sets[1].held[GPU], usage.sets[1].waits_for[GPU], usage.sets[1].waiting_pods) == (6000, 8000, 1)
    assert "8 nvidia.com/gpu (1 pod)" in "\n".join(text(usage))


def test_it_fits_every_width_and_large_clusters_fit_a_page() -> None:
    nodes = [node(index, f"rack-{index // 16}") for index in range(160)]
    pods = [pod(f"a-set-with-a-rather-long-name-{index % 7}", index, 1) for index in range(160)]
    usage = compute_usage(nodes, pods)
    for width in (60, 80, 100, 160):
        lines = text(usage, width, 40)
        assert max(map(len, lines)) <= width
        assert len(lines) <= 40
        assert "Nodes are folded; --all shows every node." in lines
    assert sum("node-" in line for line in text(usage, 80, None)) == 160


def test_two_namespaces_are_told_apart() -> None:
    usage = compute_usage([node(0)], [pod("llm", 0, 1), pod("llm", 0, 2, namespace="web")])
    assert text(usage)[1].endswith("web/llm 2, default/llm 1")


def test_json_has_quantities() -> None:
    written = usage_json(small())
    assert written["cluster"]["free"] == {"cpu": "62", "memory": "508Gi", GPU: "8", "pods": "216"}
    assert written["sets"][1]["waitsFor"] == {"cpu": "500m", "memory": "1Gi", GPU: "8", "pods": "1"}
    assert [len(place["nodes"]) for place in written["places"]] == [2, 2]


def test_amounts_are_short() -> None:
    assert [format_amount("memory", 1000 * number) for number in (0, 1024, 1536, 3 << 40)] == [
        "0",
        "1Ki",
        "1.5Ki",
        "3Ti",
    ]
    assert [format_amount("cpu", milli) for milli in (500, 2000, 1250)] == ["0.5", "2", "1.2"]


def test_without_pods_it_says_so() -> None:
    assert text(compute_usage([node(0)], []))[-1] == "No pod holds or waits for anything."

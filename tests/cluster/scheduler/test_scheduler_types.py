"""What the scheduler reads of a pod and a node."""

from typing import Any

import msgspec
import pytest

from grove.api.types.podgang import GangPackConstraint, GangTopologyConstraint
from grove.cluster.scheduler.types import SchedulableNode, SchedulablePod, node_view, pack_of, scheduling_class_of
from grove.placement.types import (
    NodeRequirement,
    NodeTerm,
    NodeView,
    Pack,
    PodTerm,
    SchedulingClass,
    Taint,
    Toleration,
    WeightedNodeTerm,
    WeightedPodTerm,
)

PLACE = ("pods", 1000)


def pod(**spec: Any) -> SchedulablePod:
    return msgspec.convert({"metadata": {"name": "p", "namespace": "ns"}, "spec": spec}, SchedulablePod)


def container(limits: dict[str, object] | None = None, **requests: object) -> dict[str, object]:
    return {"name": "c", "resources": {"requests": requests, "limits": limits or {}}}


@pytest.mark.parametrize(
    ("spec", "requests"),
    [
        pytest.param({}, (PLACE,), id="nothing but a place"),
        pytest.param(
            {"containers": [container(cpu="500m"), container(cpu=1, memory="1Ki")]},
            (("cpu", 1500), ("memory", 1_024_000), PLACE),
            id="containers add up",
        ),
        pytest.param(
            {"containers": [container({"cpu": 2, "nvidia.com/gpu": "8"}, cpu=1)]},
            (("cpu", 1000), ("nvidia.com/gpu", 8000), PLACE),
            id="a limit without a request is one",
        ),
        pytest.param(
            {"containers": [container(cpu=1)], "initContainers": [container(cpu=3), container(cpu=2)]},
            (("cpu", 3000), PLACE),
            id="init containers run one after the other",
        ),
        pytest.param(
            {"containers": [container(cpu=2), container(cpu=2)], "initContainers": [container(cpu=3)]},
            (("cpu", 4000), PLACE),
            id="whichever is more",
        ),
        pytest.param(
            {
                "containers": [container(cpu=1)],
                "initContainers": [container(cpu=1) | {"restartPolicy": "Always"}, container(cpu=3)],
            },
            (("cpu", 4000), PLACE),
            id="a sidecar runs beside the init container after it",
        ),
        pytest.param(
            {"containers": [container(cpu=5)], "initContainers": [container(cpu=1) | {"restartPolicy": "Always"}]},
            (("cpu", 6000), PLACE),
            id="a sidecar runs beside the containers",
        ),
        pytest.param(
            {"containers": [container(cpu=1)], "overhead": {"cpu": "250m"}},
            (("cpu", 1250), PLACE),
            id="overhead comes on top",
        ),
    ],
)
def test_a_pod_asks_for_the_most_it_needs_at_one_time(
    spec: dict[str, Any], requests: tuple[tuple[str, int], ...]
) -> None:
    assert scheduling_class_of(pod(**spec)) == SchedulingClass(requests=requests)


def test_pods_written_alike_share_one_shape() -> None:
    spec: dict[str, Any] = {"containers": [container(cpu=1)], "affinity": {"podAffinity": {}}}
    assert scheduling_class_of(pod(**spec)) is scheduling_class_of(pod(**spec))


def test_everything_a_pod_says_about_nodes_and_neighbours_is_read() -> None:
    expression = {"key": "app", "operator": "In", "values": ["web"]}
    pod_term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}, "matchExpressions": [expression]}}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    spec: dict[str, Any] = {
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "k", "value": "v"}, {"operator": "Exists", "effect": "NoExecute"}],
        "affinity": {
            "nodeAffinity": {
                required: {"nodeSelectorTerms": [{"matchExpressions": [expression]}]},
                preferred: [{"weight": 3, "preference": {"matchFields": [expression]}}],
            },
            "podAffinity": {required: [pod_term]},
            "podAntiAffinity": {
                required: [pod_term | {"namespaceSelector": {}}],
                preferred: [{"weight": 5, "podAffinityTerm": {"topologyKey": "rack", "namespaces": ["y", "x"]}}],
            },
        },
    }
    read = NodeRequirement(key="app", operator="In", values=("web",))
    both = (NodeRequirement(key="a", operator="In", values=("b",)), read)
    unselective = PodTerm(topology_key="rack", namespaces=("x", "y"), has_selector=False)
    assert scheduling_class_of(pod(**spec)) == SchedulingClass(
        node_selector=(("disk", "ssd"),),
        tolerations=(Toleration(key="k", value="v"), Toleration(operator="Exists", effect="NoExecute")),
        node_terms=(NodeTerm(expressions=(read,)),),
        preferred_nodes=(WeightedNodeTerm(weight=3, term=NodeTerm(fields=(read,))),),
        affinity=(PodTerm(topology_key="zone", requirements=both, namespaces=("ns",)),),
        anti_affinity=(PodTerm(topology_key="zone", requirements=both, namespaces=None),),
        preferred_pods=(WeightedPodTerm(weight=-5, term=unselective),),
    )


@pytest.mark.parametrize(("ready", "is_ready"), [("True", True), ("False", False), ("Unknown", False), (None, False)])
def test_a_node_is_ready_only_if_it_says_so(ready: str | None, is_ready: bool) -> None:
    conditions = [{"type": "Ready", "status": ready}] if ready else []
    wire = {
        "metadata": {"name": "n", "labels": {"a": "b"}},
        "spec": {"unschedulable": True, "taints": [{"key": "k", "effect": "NoExecute"}]},
        "status": {"allocatable": {"cpu": "2", "memory": "1Ki"}, "conditions": conditions},
    }
    assert node_view(msgspec.convert(wire, SchedulableNode)) == NodeView(
        name="n",
        labels={"a": "b"},
        taints=(Taint(key="k", effect="NoExecute"),),
        is_cordoned=True,
        is_ready=is_ready,
        allocatable={"cpu": 2000, "memory": 1_024_000},
    )


def test_an_empty_pack_constraint_packs_nothing() -> None:
    assert pack_of(None) is None
    assert pack_of(GangTopologyConstraint()) is None
    assert pack_of(GangTopologyConstraint(pack_constraint=GangPackConstraint())) is None
    rack = GangTopologyConstraint(pack_constraint=GangPackConstraint(required="rack"))
    assert pack_of(rack) == Pack(required="rack")

"""What the node controller decides about one node and its pods."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from grove.cluster.controllers.node_lifecycle import NodeActions, plan_node
from grove.cluster.node_pod_cache import BoundNode, BoundNodeSpec, BoundPod, NodeTaint

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
UNREACHABLE = "node.kubernetes.io/unreachable"
NOT_READY = "node.kubernetes.io/not-ready"


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def node(ready: str = "True", *taints: NodeTaint) -> BoundNode:
    conditions = [{"type": "Ready", "status": ready}]
    bare = msgspec.convert({"metadata": {"name": "node-0"}, "status": {"conditions": conditions}}, BoundNode)
    return msgspec.structs.replace(bare, spec=BoundNodeSpec(taints=taints))


def pod(*, ready: bool = True, phase: str = "Running", tolerations: Any = (), **metadata: Any) -> BoundPod:
    return msgspec.convert(
        {
            "metadata": {"name": "a", "uid": "u", **metadata},
            "spec": {"nodeName": "node-0", "tolerations": list(tolerations)},
            "status": {"phase": phase, "conditions": [{"type": "Ready", "status": str(ready)}]},
        },
        BoundPod,
    )


def tainted(key: str = UNREACHABLE, added: datetime = NOW) -> tuple[NodeTaint, NodeTaint]:
    return (
        NodeTaint(key=key, effect="NoSchedule", time_added=added),
        NodeTaint(key=key, effect="NoExecute", time_added=added),
    )


FOREIGN = NodeTaint(key="example.com/mine", effect="NoSchedule")


def test_a_healthy_node_needs_nothing() -> None:
    assert plan_node(node(), (pod(),), NOW) == NodeActions()


@pytest.mark.parametrize(("readiness", "key"), [("Unknown", UNREACHABLE), ("False", NOT_READY)])
def test_a_lost_node_is_tainted_and_its_pods_are_no_longer_ready(readiness: str, key: str) -> None:
    lost = pod()
    assert plan_node(node(readiness, FOREIGN), (lost,), at(0.2)) == NodeActions(
        taints=(FOREIGN, *tainted(key, at(1))), no_longer_ready=(lost,), requeue_at=at(301)
    )


def test_a_node_that_recovers_loses_only_our_taints() -> None:
    assert plan_node(node("True", FOREIGN, *tainted()), (pod(),), NOW) == NodeActions(taints=(FOREIGN,))


def test_an_unreachable_node_that_answers_and_is_not_ready_changes_its_taints() -> None:
    care = plan_node(node("False", *tainted()), (), at(60))
    assert care == NodeActions(taints=tainted(NOT_READY, at(60)))


@pytest.mark.parametrize(
    ("now", "evicted"), [(at(299), False), (at(300), True), (at(301), True)], ids=["before", "at", "after"]
)
def test_pods_are_evicted_after_five_minutes(now: datetime, evicted: bool) -> None:
    lost = pod(ready=False)
    expected = NodeActions(evicted=(lost,)) if evicted else NodeActions(requeue_at=at(300))
    assert plan_node(node("Unknown", *tainted()), (lost,), now) == expected


@pytest.mark.parametrize(
    ("toleration", "evicted_at"),
    [
        pytest.param({"key": UNREACHABLE, "operator": "Exists", "tolerationSeconds": 5}, 5, id="its own patience"),
        pytest.param({"operator": "Exists", "tolerationSeconds": 900}, 900, id="patience with everything"),
        pytest.param({"key": UNREACHABLE, "operator": "Exists"}, None, id="for ever"),
        pytest.param({"key": UNREACHABLE, "operator": "Exists", "effect": "NoSchedule"}, 300, id="another effect"),
        pytest.param({"key": NOT_READY, "operator": "Exists", "tolerationSeconds": 5}, 300, id="another taint"),
        pytest.param({"key": UNREACHABLE, "tolerationSeconds": -1}, 0, id="none at all"),
    ],
)
def test_a_pods_own_toleration_decides(toleration: dict[str, Any], evicted_at: int | None) -> None:
    patient = pod(ready=False, tolerations=[toleration])
    care = plan_node(node("Unknown", *tainted(added=at(0))), (patient,), at(0))
    if evicted_at == 0:
        assert care == NodeActions(evicted=(patient,))
    else:
        assert care == NodeActions(requeue_at=None if evicted_at is None else at(evicted_at))


def test_a_strangers_no_execute_taint_evicts_at_once() -> None:
    taint = NodeTaint(key="example.com/out", effect="NoExecute")
    evicted = pod()
    assert plan_node(node("True", taint), (evicted,), NOW) == NodeActions(evicted=(evicted,))


@pytest.mark.parametrize(
    "settled",
    [
        pytest.param(
            pod(ready=False, deletionTimestamp="2026-01-01T12:00:00Z", deletionGracePeriodSeconds=30), id="leaving"
        ),
        pytest.param(pod(ready=False, phase="Succeeded"), id="ended"),
    ],
)
def test_pods_that_leave_or_have_ended_are_not_evicted(settled: BoundPod) -> None:
    assert plan_node(node("Unknown", *tainted()), (settled,), at(1000)) == NodeActions()

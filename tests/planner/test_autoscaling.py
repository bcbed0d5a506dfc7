"""The writes about one autoscaler: what the API server fills in or rewrites is no difference."""

import msgspec
import pytest

from grove.api import labels
from grove.api.resources import PODCLIQUES
from grove.api.types.horizontalpodautoscaler import HorizontalPodAutoscaler
from grove.api.types.meta import JsonObject
from grove.api.types.podclique import AutoScalingConfig
from grove.planner.autoscaling import _plan_patch, build_autoscaler
from grove.planner.desired_state import DesiredAutoscaler
from tests.dsl import context, pcs, role

QUEUE: JsonObject = {
    "type": "External",
    "external": {"metric": {"name": "q", "selector": {}}, "target": {"type": "AverageValue", "averageValue": 1.5}},
}
STORED_QUEUE: JsonObject = {
    "type": "External",
    "external": {"metric": {"name": "q"}, "target": {"type": "AverageValue", "averageValue": "1500m"}},
}
CPU: JsonObject = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
}
PERCENT: JsonObject = {"type": "Percent", "value": 100, "periodSeconds": 15}
STORED_BEHAVIOR: JsonObject = {
    "scaleUp": {
        "stabilizationWindowSeconds": 0,
        "selectPolicy": "Max",
        "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}, PERCENT],
    },
    "scaleDown": {
        "stabilizationWindowSeconds": 60,
        "selectPolicy": "Max",
        "policies": [PERCENT],
        "tolerance": "50m",
    },
}
BEHAVIOR: JsonObject = {"scaleDown": {"stabilizationWindowSeconds": 60, "tolerance": "0.05"}}
MARK = {labels.REQUESTED_FIELDS: "behavior"}


def wanted(**config: object) -> DesiredAutoscaler:
    found = msgspec.convert({"minReplicas": 2, "maxReplicas": 4, **config}, AutoScalingConfig)
    return DesiredAutoscaler(name="p-0-a", target=PODCLIQUES, config=found)


def stored(annotations: dict[str, str] | None = None, **spec: object) -> HorizontalPodAutoscaler:
    target = {"apiVersion": "grove.io/v1alpha1", "kind": "PodClique", "name": "p-0-a"}
    filled = {"scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 4, "metrics": [CPU], **spec}
    metadata = {"name": "p-0-a", "namespace": "default", "uid": "u", "annotations": annotations or {}}
    return msgspec.convert({"metadata": metadata, "spec": filled}, HorizontalPodAutoscaler)


@pytest.mark.parametrize(
    ("autoscaler", "found"),
    [
        pytest.param(wanted(), stored(), id="default metrics"),
        pytest.param(wanted(metrics=[QUEUE]), stored(metrics=[STORED_QUEUE]), id="rewritten quantities"),
        pytest.param(
            wanted(behavior=BEHAVIOR), stored(MARK, behavior=STORED_BEHAVIOR), id="a behavior with its defaults"
        ),
        pytest.param(wanted(), stored(behavior=STORED_BEHAVIOR), id="a behavior that a user set"),
        pytest.param(wanted(minReplicas=1), stored(minReplicas=None), id="the default minimum"),
    ],
)
def test_nothing_is_written_about_what_is_the_same(
    autoscaler: DesiredAutoscaler, found: HorizontalPodAutoscaler
) -> None:
    assert list(_plan_patch(autoscaler, found)) == []


@pytest.mark.parametrize(
    ("autoscaler", "found", "patch"),
    [
        pytest.param(wanted(maxReplicas=5), stored(), {"spec": {"maxReplicas": 5}}, id="a bound"),
        pytest.param(wanted(), stored(metrics=[STORED_QUEUE]), {"spec": {"metrics": None}}, id="back to the default"),
        pytest.param(
            wanted(metrics=[STORED_QUEUE]), stored(), {"spec": {"metrics": [STORED_QUEUE]}}, id="other metrics"
        ),
        pytest.param(
            wanted(),
            stored(MARK, behavior=STORED_BEHAVIOR),
            {"spec": {"behavior": None}, "metadata": {"annotations": {labels.REQUESTED_FIELDS: None}}},
            id="the behavior left the config",
        ),
        pytest.param(
            wanted(behavior=BEHAVIOR),
            stored(behavior=STORED_BEHAVIOR),
            {"metadata": {"annotations": MARK}},
            id="the config now has the behavior that a user set",
        ),
        pytest.param(
            wanted(behavior={"scaleDown": {"selectPolicy": "Disabled"}}),
            stored(MARK, behavior={"scaleDown": {"stabilizationWindowSeconds": 60, "selectPolicy": "Max"}}),
            {"spec": {"behavior": {"scaleDown": {"stabilizationWindowSeconds": None, "selectPolicy": "Disabled"}}}},
            id="a field left the behavior",
        ),
    ],
)
def test_only_what_differs_is_written(
    autoscaler: DesiredAutoscaler, found: HorizontalPodAutoscaler, patch: JsonObject
) -> None:
    assert [action.patch for action in _plan_patch(autoscaler, found)] == [patch]


def test_a_new_autoscaler_has_what_the_config_has() -> None:
    body = build_autoscaler(context(pcs(role("a"))), 0, wanted(behavior=BEHAVIOR))
    assert body["metadata"]["annotations"] == MARK
    assert body["spec"] == {
        "scaleTargetRef": {"apiVersion": "grove.io/v1alpha1", "kind": "PodClique", "name": "p-0-a"},
        "minReplicas": 2,
        "maxReplicas": 4,
        "behavior": BEHAVIOR,
    }

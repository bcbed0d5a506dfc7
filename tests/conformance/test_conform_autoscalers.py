"""HorizontalPodAutoscalers: their defaults, and what makes no sense."""

from typing import Any

import pytest

from grove.api.types.meta import JsonObject
from tests.conformance.talk import Talk

AUTOSCALERS = "horizontalpodautoscalers"
TARGET = {"apiVersion": "grove.io/v1alpha1", "kind": "PodClique", "name": "a"}
CPU: JsonObject = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
}


def autoscaler(**spec: Any) -> JsonObject:
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "a"},
        "spec": {"scaleTargetRef": TARGET, "maxReplicas": 3, **spec},
    }


def external(**target: Any) -> JsonObject:
    return {"type": "External", "external": {"metric": {"name": "queue"}, "target": target}}


async def test_an_autoscaler_has_defaults(api: Talk) -> None:
    made = await api.create(AUTOSCALERS, autoscaler())
    assert made.spec == {"scaleTargetRef": TARGET, "minReplicas": 1, "maxReplicas": 3, "metrics": [CPU]}
    assert made.metadata["generation"] == 1


async def test_a_behavior_is_completed_in_both_directions(api: Talk) -> None:
    policy = {"type": "Pods", "value": 1, "periodSeconds": 60}
    made = await api.create(AUTOSCALERS, autoscaler(behavior={"scaleDown": {"policies": [policy]}}))
    assert made.spec["behavior"] == {
        "scaleUp": {
            "stabilizationWindowSeconds": 0,
            "selectPolicy": "Max",
            "policies": [
                {"type": "Pods", "value": 4, "periodSeconds": 15},
                {"type": "Percent", "value": 100, "periodSeconds": 15},
            ],
        },
        "scaleDown": {"selectPolicy": "Max", "policies": [policy]},
    }


RULES = "spec.behavior.scaleUp"


def scale_up(**rules: Any) -> JsonObject:
    return {"behavior": {"scaleUp": rules}}


BAD: list[Any] = [
    pytest.param(
        {"minReplicas": 4}, "spec.maxReplicas: Invalid value: 3: must be greater than or equal to `minReplicas`",
        id="bounds",
    ),
    pytest.param(
        {"scaleTargetRef": {"kind": "PodClique", "name": "a"}},
        'spec.scaleTargetRef.apiVersion: Invalid value: "": apiVersion must specify API group', id="no group",
    ),
    pytest.param(
        {"minReplicas": 0},
        "spec.metrics: Forbidden: must specify at least one Object or External metric to support scaling to zero"
        " replicas", id="zero by cpu",
    ),
    pytest.param(
        {"metrics": [external(type="Value", value="1", averageValue="1")]},
        "spec.metrics[0].external.target.value: Forbidden: may not set both a target value for metric and a per-pod"
        " target", id="two targets",
    ),
    pytest.param(
        {"metrics": [external(type="Value")]},
        "spec.metrics[0].external.target.averageValue: Required value: must set either a target value for metric or a"
        " per-pod target", id="no target",
    ),
    pytest.param(
        {"metrics": [{"type": "Pods"}]},
        "spec.metrics[0].pods: Required value: must populate information for the given metric source", id="no source",
    ),
    pytest.param(
        {"metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization",
         "averageUtilization": 0}}}]},
        "spec.metrics[0].resource.target.averageUtilization: Invalid value: 0: must be greater than 0", id="no percent",
    ),
    pytest.param(
        scale_up(stabilizationWindowSeconds=3601),
        f"{RULES}.stabilizationWindowSeconds: Invalid value: 3601: must be less than or equal to 3600", id="window",
    ),
    pytest.param(
        scale_up(policies=[{"type": "Pods", "value": 0, "periodSeconds": 15}]),
        f"{RULES}.policies[0].value: Invalid value: 0: must be greater than zero", id="no pods",
    ),
    pytest.param(
        scale_up(policies=[{"type": "Pods", "value": 1, "periodSeconds": 1801}]),
        f"{RULES}.policies[0].periodSeconds: Invalid value: 1801: must be less than or equal to 1800", id="period",
    ),
    pytest.param(
        scale_up(selectPolicy="Some"),
        f'{RULES}.selectPolicy: Unsupported value: "Some": supported values: "Disabled", "Max", "Min"', id="select",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "why"), BAD)
async def test_what_makes_no_sense_is_refused(api: Talk, spec: JsonObject, why: str) -> None:
    answer = await api.post(api.at(AUTOSCALERS), autoscaler(**spec))
    message = f'HorizontalPodAutoscaler.autoscaling "a" is invalid: {why}'
    assert answer.refusal == (422, "Invalid", message)


async def test_scaling_to_zero_needs_a_metric_without_pods(api: Talk) -> None:
    metrics = [external(type="AverageValue", averageValue="10")]
    assert (await api.create(AUTOSCALERS, autoscaler(minReplicas=0, metrics=metrics))).spec["minReplicas"] == 0


@pytest.mark.parametrize(
    "spec",
    [{"maxReplicas": "x"}, {"metrics": [{"type": 5}]}, scale_up(policies=[{"value": []}]), scale_up(tolerance="x")],
)
async def test_fields_of_a_wrong_type_cannot_be_read(api: Talk, spec: JsonObject) -> None:
    answer = await api.post(api.at(AUTOSCALERS), autoscaler(**spec))
    assert answer.refusal[:2] == (400, "BadRequest")

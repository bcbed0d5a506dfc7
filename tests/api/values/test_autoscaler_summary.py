"""What users are told about an autoscaler: counts, bounds, metrics, and why it does not scale.

The messages are those of the HPA controller of Kubernetes.
"""

import msgspec
import pytest

from grove.api.types.horizontalpodautoscaler import HorizontalPodAutoscaler
from grove.api.types.meta import JsonObject
from grove.api.values.autoscaler_summary import index_by_target, summarize_autoscaler

CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}
CPU_NOW = {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 45, "averageValue": "9m"}}}
QUEUE = {
    "type": "External",
    "external": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "10"}},
}
QUEUE_NOW = {"type": "External", "external": {"metric": {"name": "queue"}, "current": {"averageValue": "12500m"}}}
RATE = {"type": "Pods", "pods": {"metric": {"name": "rate"}, "target": {"type": "AverageValue", "averageValue": "5"}}}
ABLE = ("AbleToScale", "True", "ReadyForNewScale", "recommended size matches current size")
ACTIVE = ("ScalingActive", "True", "ValidMetricFound", "the HPA was able to calculate a replica count")
FREE = ("ScalingLimited", "False", "DesiredWithinRange", "the desired count is within the acceptable range")


def autoscaler(
    *conditions: tuple[str, str, str, str],
    metrics: tuple[JsonObject, ...] = (CPU,),
    seen: tuple[JsonObject, ...] = (),
    counts: tuple[int, int] = (3, 3),
) -> HorizontalPodAutoscaler:
    status: JsonObject = {
        "currentReplicas": counts[0],
        "desiredReplicas": counts[1],
        "currentMetrics": seen or None,
        "conditions": [dict(zip(("type", "status", "reason", "message"), one, strict=True)) for one in conditions],
    }
    target = {"apiVersion": "grove.io/v1alpha1", "kind": "PodClique", "name": "s-0-a"}
    spec = {"scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 4, "metrics": metrics}
    return msgspec.convert({"metadata": {"name": "x"}, "spec": spec, "status": status}, HorizontalPodAutoscaler)


@pytest.mark.parametrize(
    ("found", "text"),
    [
        pytest.param(
            autoscaler(ABLE, ACTIVE, FREE, seen=(CPU_NOW,)), "3 replicas, 2 to 4 allowed; cpu 45%/80%", id="at rest"
        ),
        pytest.param(
            autoscaler(ABLE, ACTIVE, FREE, metrics=(QUEUE,), seen=(QUEUE_NOW,), counts=(1, 4)),
            "1 replica, 4 desired, 2 to 4 allowed; queue 12500m/10",
            id="scaling out",
        ),
        pytest.param(
            autoscaler(ABLE, ACTIVE, ("ScalingLimited", "True", "TooManyReplicas", "the desired ..."), counts=(4, 4)),
            "4 replicas, 2 to 4 allowed; cpu unknown/80%; at maxReplicas",
            id="at the upper limit",
        ),
        pytest.param(
            autoscaler(ABLE, ACTIVE, ("ScalingLimited", "True", "TooFewReplicas", "the desired ..."), counts=(2, 2)),
            "2 replicas, 2 to 4 allowed; cpu unknown/80%; at minReplicas",
            id="at the lower limit",
        ),
        pytest.param(
            autoscaler(("AbleToScale", "True", "ScaleDownStabilized", "recent recommendations ..."), ACTIVE, FREE),
            "3 replicas, 2 to 4 allowed; cpu unknown/80%; "
            "recommendations within its stabilization window were higher",
            id="waits before it scales in",
        ),
        pytest.param(autoscaler(), "2 to 4 replicas allowed; no controller has acted on it yet",
                     id="no controller"),
        pytest.param(
            autoscaler(
                ("AbleToScale", "False", "FailedGetScale", 'podcliques.grove.io "s-0-a" not found'), counts=(0, 0)
            ),
            '0 replicas, 2 to 4 allowed; cpu unknown/80%; cannot scale: podcliques.grove.io "s-0-a" not found',
            id="no target",
        ),
        pytest.param(
            autoscaler(
                ABLE,
                (
                    "ScalingActive",
                    "False",
                    "FailedGetResourceMetric",
                    ("the HPA was unable to compute the replica count: failed to get cpu utilization: unable to get "
                    "metrics for resource cpu: unable to fetch metrics from resource metrics API: the server could "
                    "not find the requested resource (get pods.metrics.k8s.io)"),
                ),
            ),
            "3 replicas, 2 to 4 allowed; cpu unknown/80%; no metrics: metrics.k8s.io is not served here",
            id="no metrics server",
        ),
        pytest.param(
            autoscaler(
                ABLE,
                (
                    "ScalingActive",
                    "False",
                    "FailedGetPodsMetric",
                    ("the HPA was unable to compute the replica count: unable to get metric rate: unable to fetch "
                    "metrics from custom metrics API: no known available metric versions found"),
                ),
                metrics=(RATE,),
            ),
            "3 replicas, 2 to 4 allowed; rate unknown/5; no metrics: custom.metrics.k8s.io is not served here",
            id="no custom metrics",
        ),
        pytest.param(
            autoscaler(
                ABLE,
                ("ScalingActive", "False", "FailedGetExternalMetric", "invalid metrics (1 invalid out of 1)"),
                metrics=(QUEUE,),
            ),
            "3 replicas, 2 to 4 allowed; queue unknown/10; no metrics: invalid metrics (1 invalid out of 1)",
            id="a metric that does not exist",
        ),
        pytest.param(
            autoscaler(
                ABLE,
                ("ScalingActive", "False", "ScalingDisabled", "scaling is disabled since the replica count is zero"),
                counts=(0, 0),
            ),
            "0 replicas, 2 to 4 allowed; cpu unknown/80%; off while its target has 0 replicas",
            id="scaled to zero",
        ),
    ],
)  # fmt: skip
def test_an_autoscaler_is_summed_up_in_one_line(found: HorizontalPodAutoscaler, text: str) -> None:
    assert str(summarize_autoscaler(found)) == text


def test_only_autoscalers_of_grove_are_indexed() -> None:
    found = autoscaler()
    reference = msgspec.structs.replace(found.spec.scale_target_ref, api_version="apps/v1")
    other = msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, scale_target_ref=reference))
    assert index_by_target([other, found]) == {("", "PodClique", "s-0-a"): found}

"""Summarize a HorizontalPodAutoscaler: its counts and metrics, and why it does not scale. Pure.

`grove status` and `grove why` show it. Everything is read from the spec, status and conditions of the object.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from grove.api.resources import PODCLIQUESETS
from grove.api.types.horizontalpodautoscaler import HorizontalPodAutoscaler
from grove.api.types.meta import Condition, JsonObject, WireStruct, find_condition
from grove.api.values.message_text import to_line

# The API that serves each type of metric, and what usually provides it.
_METRIC_APIS = {
    "Resource": "metrics.k8s.io",
    "ContainerResource": "metrics.k8s.io",
    "Pods": "custom.metrics.k8s.io",
    "Object": "custom.metrics.k8s.io",
    "External": "external.metrics.k8s.io",
}
# How the messages of the HPA controller begin or end if an API server does not serve these metrics.
_NOT_SERVED = ("could not find the requested resource", "no known available metric versions found", "API registered")
_LIMITS = {
    "TooManyReplicas": "at maxReplicas",
    "TooFewReplicas": "at minReplicas",
    "ScaleUpLimit": "its behavior limits how fast it scales out",
    "ScaleDownLimit": "its behavior limits how fast it scales in",
}
_STABILIZED = {
    "ScaleDownStabilized": "recommendations within its stabilization window were higher",
    "ScaleUpStabilized": "recommendations within its stabilization window were lower",
}


# Without a status.
_NEW = "no controller has acted on it yet"
# How a controller begins every message about metrics.
_NO_COUNT = "the HPA was unable to compute the replica count: "


class AutoscalerSummary(WireStruct):
    """One autoscaler, as users are shown it."""

    name: str
    min_replicas: int
    max_replicas: int
    current_replicas: int
    desired_replicas: int
    # Each as `cpu 45%/80%`: the current value and the target.
    metrics: tuple[str, ...] = ()
    # Why it does not scale; "": nothing keeps it from scaling.
    limit: str = ""
    # It cannot scale at all, for example without metrics.
    is_stuck: bool = False

    def __str__(self) -> str:
        if self.limit == _NEW:
            return f"{self.min_replicas} to {self.max_replicas} replicas allowed; {self.limit}"
        counts = f"{self.current_replicas} replica{'' if self.current_replicas == 1 else 's'}"
        if self.desired_replicas not in (0, self.current_replicas):
            counts += f", {self.desired_replicas} desired"
        parts = (f"{counts}, {self.min_replicas} to {self.max_replicas} allowed", *self.metrics, self.limit)
        return "; ".join(part for part in parts if part)


def index_by_target(
    autoscalers: Iterable[HorizontalPodAutoscaler],
) -> dict[tuple[str, str, str], HorizontalPodAutoscaler]:
    """Return the autoscalers of Grove's kinds by the namespace, kind and name of what they scale; the first of each."""
    found: dict[tuple[str, str, str], HorizontalPodAutoscaler] = {}
    for one in sorted(autoscalers, key=lambda one: (one.metadata.namespace, one.metadata.name)):
        target = one.spec.scale_target_ref
        if target.api_version.partition("/")[0] == PODCLIQUESETS.group:
            found.setdefault((one.metadata.namespace, target.kind, target.name), one)
    return found


def summarize_autoscaler(autoscaler: HorizontalPodAutoscaler) -> AutoscalerSummary:
    spec, status = autoscaler.spec, autoscaler.status
    stuck = _find_obstacle(autoscaler)
    return AutoscalerSummary(
        name=autoscaler.metadata.name,
        min_replicas=1 if spec.min_replicas is None else spec.min_replicas,
        max_replicas=spec.max_replicas,
        current_replicas=status.current_replicas,
        desired_replicas=status.desired_replicas,
        metrics=tuple(_describe_metrics(spec.metrics or (), status.current_metrics or ())),
        limit=stuck or _find_limit(status.conditions or ()),
        is_stuck=bool(stuck),
    )


def _find_obstacle(autoscaler: HorizontalPodAutoscaler) -> str:
    """Return what keeps the autoscaler from scaling at all, or ""."""
    conditions = autoscaler.status.conditions or ()
    if not conditions:
        return _NEW
    able, active = find_condition(conditions, "AbleToScale"), find_condition(conditions, "ScalingActive")
    if able is not None and able.status == "False":
        return f"cannot scale: {to_line(able.message)}"
    if active is None or active.status != "False":
        return ""
    if active.reason == "ScalingDisabled":
        return "off while its target has 0 replicas"
    return f"no metrics: {_describe_missing_metrics(autoscaler, active)}"


def _describe_missing_metrics(autoscaler: HorizontalPodAutoscaler, active: Condition) -> str:
    if any(words in active.message for words in _NOT_SERVED):
        apis = dict.fromkeys(_METRIC_APIS.get(str(one.get("type")), "") for one in autoscaler.spec.metrics or ())
        # A message names the API, unless it is about metrics of pods.
        named = [api for api in apis if api and f".{api}" in f".{active.message}"]
        api = next(iter(sorted(named, key=len, reverse=True)), next(iter(apis), ""))
        return f"{api or 'the metrics API'} is not served here"
    return to_line(active.message.removeprefix(_NO_COUNT))


def _find_limit(conditions: tuple[Condition, ...]) -> str:
    limited, able = find_condition(conditions, "ScalingLimited"), find_condition(conditions, "AbleToScale")
    if limited is not None and limited.status == "True":
        return _LIMITS.get(limited.reason, to_line(limited.message))
    return _STABILIZED.get(able.reason, "") if able is not None else ""


def _describe_metrics(wanted: tuple[JsonObject, ...], current: tuple[JsonObject, ...]) -> Iterator[str]:
    known = {_metric_key(metric): _source(metric).get("current") for metric in current}
    for metric in wanted:
        target = _source(metric).get("target")
        name = _metric_key(metric)[1]
        yield f"{name} {_describe_value(known.get(_metric_key(metric))) or 'unknown'}/{_describe_value(target)}"


def _metric_key(metric: JsonObject) -> tuple[str, str]:
    source = _source(metric)
    identifier = source.get("metric")
    name = identifier.get("name") if isinstance(identifier, dict) else source.get("name")
    return str(metric.get("type")), str(name)


def _source(metric: JsonObject) -> JsonObject:
    kind = str(metric.get("type", ""))
    source = metric.get(kind[:1].lower() + kind[1:])
    return source if isinstance(source, dict) else {}


def _describe_value(value: Any) -> str:
    if not isinstance(value, dict):
        return ""
    if value.get("averageUtilization") is not None:
        return f"{value['averageUtilization']}%"
    return str(value.get("averageValue") or value.get("value") or "")

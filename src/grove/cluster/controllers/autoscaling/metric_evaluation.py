"""Evaluation of metrics: reads the values of each metric of an autoscaler and asks `replica_calculator.py`.

Reasons and messages are those of Kubernetes. Several metrics: the highest count wins. If a metric fails, the others may
still scale out, but not in.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from grove.api.types.meta import JsonObject
from grove.api.values.quantities import format_decimal, format_resource, parse_milli
from grove.cluster.apiserver.codec.lenient_json import items, part
from grove.cluster.apiserver.metrics.fed_metrics import read_external_metric, read_object_metric, read_pod_metric
from grove.cluster.apiserver.metrics.pod_usage import UsageSource
from grove.cluster.controllers.autoscaling.autoscaler_spec import (
    HorizontalAutoscalerSpec,
    MetricSource,
    ObjectReference,
    ResourceMetric,
    SeriesMetric,
)
from grove.cluster.controllers.autoscaling.replica_calculator import (
    MetricError,
    Proposal,
    Sample,
    ScaledPod,
    propose_by_average,
    propose_by_utilization,
    propose_by_value,
    propose_by_value_per_replica,
)
from grove.cluster.resource_registry import ResourceRegistry
from grove.cluster.storage.store import Storage

_NO_RESOURCE_METRICS = "no metrics returned from resource metrics API"
_NO_CUSTOM_METRICS = "no metrics returned from custom metrics API"
_NO_EXTERNAL_METRICS = "no metrics returned from external metrics API"


class ScaleState(msgspec.Struct, frozen=True, kw_only=True):
    """The scale of the target and the pods that its selector matches."""

    namespace: str
    spec_replicas: int
    status_replicas: int
    pods: tuple[JsonObject, ...]


class MetricResult(msgspec.Struct, frozen=True, kw_only=True):
    """What one metric asks for, its name in messages, and its part of the status."""

    replicas: int
    name: str
    status: JsonObject


class MetricFailure(msgspec.Struct, frozen=True):
    reason: str
    error_message: str


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """What all metrics ask for. Without `replicas`, the autoscaler must not scale."""

    replicas: int | None
    metric: str = ""
    statuses: tuple[JsonObject, ...] = ()
    failure: MetricFailure | None = None


class MetricReader:
    """A reader of all metrics, at one moment after the other."""

    def __init__(self, store: Storage, kinds: ResourceRegistry, usage: UsageSource | None) -> None:
        self._store = store
        self._kinds = kinds
        self._usage = usage

    def evaluate(self, spec: HorizontalAutoscalerSpec, state: ScaleState, now: datetime) -> Evaluation:
        results: list[MetricResult] = []
        failures: list[MetricFailure] = []
        for metric in spec.metrics:
            result = self._evaluate_one(metric, spec, state, now)
            if isinstance(result, MetricResult):
                results.append(result)
            else:
                failures.append(result)
        return _combine(results, failures, state.spec_replicas)

    def _evaluate_one(
        self, metric: MetricSource, spec: HorizontalAutoscalerSpec, state: ScaleState, now: datetime
    ) -> MetricResult | MetricFailure:
        try:
            match metric:
                case MetricSource(type="Resource", resource=ResourceMetric() as resource):
                    return self._evaluate_resource(resource, spec, state, now)
                case MetricSource(type="ContainerResource", container_resource=ResourceMetric() as resource):
                    return self._evaluate_resource(resource, spec, state, now)
                case MetricSource(type="Pods", pods=SeriesMetric() as series):
                    return self._evaluate_pods(series, spec, state, now)
                case MetricSource(type="Object", object=SeriesMetric() as series):
                    return self._evaluate_object(series, spec, state)
                case MetricSource(type="External", external=SeriesMetric() as series):
                    return self._evaluate_external(series, spec, state)
                case _:
                    return MetricFailure("InvalidMetricSourceType", f'unknown metric source type "{metric.type}"')
        except MetricError as error:
            return MetricFailure(f"FailedGet{metric.type}Metric", str(error))

    # Resource and ContainerResource

    def _evaluate_resource(
        self, metric: ResourceMetric, spec: HorizontalAutoscalerSpec, state: ScaleState, now: datetime
    ) -> MetricResult:
        kind = "usage" if metric.target.average_milli is not None else "utilization"
        try:
            samples = self._read_samples(metric, state.pods, now)
            proposal = _propose_resource(metric, spec, state, samples, now)
        except MetricError as error:
            raise MetricError(f"failed to get {metric.name} {kind}: {error}") from None
        current: JsonObject = {"averageValue": format_resource(metric.name, proposal.usage)}
        if proposal.utilization is not None:
            current = {"averageUtilization": proposal.utilization, **current}
        field, named = ("containerResource", "container resource") if metric.container else ("resource", "resource")
        status = {"name": metric.name, **({"container": metric.container} if metric.container else {})}
        suffix = "" if proposal.utilization is None else " utilization (percentage of request)"
        return MetricResult(
            replicas=proposal.replicas,
            name=f"{metric.name} {named if suffix else 'resource'}{suffix}",
            status={"type": field[0].upper() + field[1:], field: {**status, "current": current}},
        )

    def _read_samples(self, metric: ResourceMetric, pods: Sequence[JsonObject], now: datetime) -> dict[str, Sample]:
        if self._usage is None:
            raise MetricError(
                f"unable to get metrics for resource {metric.name}: unable to fetch metrics from resource metrics API:"
                " metrics.k8s.io is not served here"
            )
        measured = self._usage.measure(self._store, pods, now)
        found = {}
        for pod in pods:
            usage = measured.get(pod["metadata"]["uid"])
            amount = None if usage is None else usage.amount(metric.name, metric.container)
            if usage is not None and amount is not None:
                found[pod["metadata"]["name"]] = Sample(value=amount, at=usage.at, window=usage.window)
        if not found:
            hint = f": {self._usage.hint}" if self._usage.hint else ""
            raise MetricError(f"unable to get metrics for resource {metric.name}: {_NO_RESOURCE_METRICS}{hint}")
        return found

    # Pods, Object and External

    def _evaluate_pods(
        self, series: SeriesMetric, spec: HorizontalAutoscalerSpec, state: ScaleState, now: datetime
    ) -> MetricResult:
        target = _require_target(series.target.average_milli, "pods")
        name = series.metric.name
        values = read_pod_metric(state.pods, name, series.metric.selector)
        if not values:
            raise MetricError(f"unable to get metric {name}: {_NO_CUSTOM_METRICS}")
        samples = {pod: Sample(value=value, at=now) for pod, value in values.items()}
        pods = [read_pod(pod) for pod in state.pods]
        proposal = propose_by_average(state.spec_replicas, target, pods, samples, spec.tolerances, now, is_cpu=False)
        status = {"metric": _name_status(series), "current": {"averageValue": format_decimal(proposal.usage)}}
        return MetricResult(
            replicas=proposal.replicas, name=f"pods metric {name}", status={"type": "Pods", "pods": status}
        )

    def _evaluate_object(self, series: SeriesMetric, spec: HorizontalAutoscalerSpec, state: ScaleState) -> MetricResult:
        described, name = series.described_object, series.metric.name
        usage = self._read_object(described, series, state.namespace)
        proposal, current = _propose_series(series, "object", usage, spec, state)
        status = {
            "metric": _name_status(series),
            "current": current,
            "describedObject": msgspec.to_builtins(described),
        }
        return MetricResult(
            replicas=proposal.replicas,
            name=f"{described.kind} metric {name}",
            status={"type": "Object", "object": status},
        )

    def _read_object(self, described: ObjectReference, series: SeriesMetric, namespace: str) -> int:
        name = series.metric.name
        value = None
        for resource_info in self._kinds.resources:
            if (resource_info.kind, resource_info.group) == (described.kind, described.group):
                place = namespace if resource_info.namespaced else ""
                entry = self._store.table(resource_info).find(place, described.name)
                value = None if entry is None else read_object_metric(entry.obj, name, series.metric.selector)
                break
        if value is None:
            raise MetricError(
                f"unable to get metric {name} on {described.kind} {namespace}/{described.name}: {_NO_CUSTOM_METRICS}"
            )
        return value

    def _evaluate_external(
        self, series: SeriesMetric, spec: HorizontalAutoscalerSpec, state: ScaleState
    ) -> MetricResult:
        name = series.metric.name
        values = read_external_metric(self._store, state.namespace, name, series.metric.selector)
        if not values:
            raise MetricError(
                f"failed to get {name} external metric: unable to get external metric {state.namespace}/{name}:"
                f" {_NO_EXTERNAL_METRICS}"
            )
        proposal, current = _propose_series(series, "external", sum(values), spec, state)
        status = {"metric": _name_status(series), "current": current}
        return MetricResult(
            replicas=proposal.replicas, name=f"external metric {name}", status={"type": "External", "external": status}
        )


def _combine(results: list[MetricResult], failures: list[MetricFailure], current: int) -> Evaluation:
    statuses = tuple(result.status for result in results)
    first = failures[0] if failures else None
    # The first of equal counts, as Kubernetes chooses.
    highest = max(results, key=lambda result: result.replicas, default=None)
    if highest is None or (first is not None and highest.replicas < current):
        return Evaluation(replicas=None, statuses=statuses, failure=first)
    return Evaluation(replicas=highest.replicas, metric=highest.name, statuses=statuses, failure=first)


def _propose_resource(
    metric: ResourceMetric,
    spec: HorizontalAutoscalerSpec,
    state: ScaleState,
    samples: Mapping[str, Sample],
    now: datetime,
) -> Proposal:
    pods = [read_pod(pod) for pod in state.pods]
    is_cpu = metric.name == "cpu"
    average, percent = metric.target.average_milli, metric.target.average_utilization
    if average is not None:
        return propose_by_average(state.spec_replicas, average, pods, samples, spec.tolerances, now, is_cpu=is_cpu)
    if percent is None:
        raise MetricError("neither an average utilization target nor an average value (usage) target was set")
    requests = {pod["metadata"]["name"]: _read_request(pod, metric) for pod in state.pods}
    return propose_by_utilization(
        state.spec_replicas, percent, pods, samples, requests, spec.tolerances, now, is_cpu=is_cpu
    )


def _propose_series(
    series: SeriesMetric, kind: str, usage: int, spec: HorizontalAutoscalerSpec, state: ScaleState
) -> tuple[Proposal, JsonObject]:
    """Return the proposal for a metric that is not measured per pod, and its current value in the status."""
    average, value = series.target.average_milli, series.target.value_milli
    if average is not None:
        proposal = propose_by_value_per_replica(state.status_replicas, average, usage, spec.tolerances)
        return proposal, {"averageValue": format_decimal(proposal.usage)}
    target = _require_target(value, kind)
    pods = [read_pod(pod) for pod in state.pods]
    proposal = propose_by_value(state.spec_replicas, target, usage, pods, spec.tolerances)
    return proposal, {"value": format_decimal(proposal.usage)}


def _require_target(target: int | None, kind: str) -> int:
    if not target:
        raise MetricError(f"invalid {kind} metric source: neither a value target nor an average value target was set")
    return target


def _name_status(series: SeriesMetric) -> JsonObject:
    selector = series.metric.selector
    return {"name": series.metric.name, **({"selector": selector} if selector is not None else {})}


def _read_request(pod: JsonObject, metric: ResourceMetric) -> int:
    """Return the request of the pod, or of one container. Raises `MetricError` if a container has none."""
    spec, name = part(pod.get("spec")), pod["metadata"]["name"]
    sidecars = [each for each in items(spec.get("initContainers")) if each.get("restartPolicy") == "Always"]
    containers = [*items(spec.get("containers")), *sidecars]
    chosen = [each for each in containers if metric.container in ("", each.get("name"))]
    if not chosen:
        raise MetricError(f"container {metric.container} not found in Pod {name}")
    total = 0
    for container in chosen:
        request = part(part(container.get("resources")).get("requests")).get(metric.name)
        if request is None:
            raise MetricError(f"missing request for {metric.name} in container {container.get('name')} of Pod {name}")
        total += parse_milli(request)
    return total


def read_pod(pod: JsonObject) -> ScaledPod:
    """Return what the calculator reads of a pod."""
    status = part(pod.get("status"))
    ready = next((each for each in items(status.get("conditions")) if each.get("type") == "Ready"), None)
    return ScaledPod(
        name=pod["metadata"]["name"],
        phase=status.get("phase", ""),
        is_terminating="deletionTimestamp" in pod["metadata"],
        is_ready=None if ready is None else ready.get("status") == "True",
        ready_changed_at=None if ready is None else _read_time(ready.get("lastTransitionTime")),
        started_at=_read_time(status.get("startTime")),
    )


def _read_time(text: object) -> datetime | None:
    try:
        return None if text is None else msgspec.convert(text, datetime)
    except msgspec.ValidationError:
        return None

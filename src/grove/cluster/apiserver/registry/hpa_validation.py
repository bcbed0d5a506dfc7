"""Validation of HorizontalPodAutoscalers, with the messages of Kubernetes. Their defaults are set in `hpa.py`."""

from collections.abc import Iterator
from typing import Annotated, Any

import msgspec

from grove.api.types.meta import JsonObject
from grove.api.validation.field_errors import FieldError, forbidden, invalid, not_supported, required
from grove.api.values.quantities import QuantityError, parse_milli
from grove.cluster.apiserver.codec.label_selectors import LabelSelector
from grove.cluster.apiserver.codec.lenient_json import items, part
from grove.cluster.apiserver.registry.metadata import (
    build_unreadable_error,
    find_dns_label_error,
    find_path_segment_error,
)
from grove.cluster.built_in_resources import AUTOSCALERS

_LONGEST_PERIOD, _LONGEST_WINDOW = 1800, 3600
_SELECT_POLICIES = ("Disabled", "Max", "Min")
_POLICY_TYPES = ("Percent", "Pods")
_METRIC_TYPES = ("ContainerResource", "External", "Object", "Pods", "Resource")
_FIELDS = {kind: kind[0].lower() + kind[1:] for kind in ("Object", "External", "Pods", "Resource", "ContainerResource")}
_TARGET_TYPES = ("Utilization", "Value", "AverageValue")


_Int = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
_Quantity = str | int | float


class _Reference(msgspec.Struct, rename="camel"):
    api_version: str | None = None
    kind: str | None = None
    name: str | None = None


class _Name(msgspec.Struct):
    name: str | None = None
    selector: LabelSelector | None = None


class _Target(msgspec.Struct, rename="camel"):
    type: str | None = None
    value: _Quantity | None = None
    average_value: _Quantity | None = None
    average_utilization: _Int | None = None


class _Source(msgspec.Struct, rename="camel"):
    name: str | None = None
    container: str | None = None
    metric: _Name | None = None
    target: _Target | None = None
    described_object: _Reference | None = None


class _Metric(msgspec.Struct, rename="camel"):
    type: str | None = None
    resource: _Source | None = None
    container_resource: _Source | None = None
    pods: _Source | None = None
    object: _Source | None = None
    external: _Source | None = None


class _Policy(msgspec.Struct, rename="camel"):
    type: str | None = None
    value: _Int | None = None
    period_seconds: _Int | None = None


class _Rules(msgspec.Struct, rename="camel"):
    stabilization_window_seconds: _Int | None = None
    select_policy: str | None = None
    policies: list[_Policy] | None = None
    tolerance: _Quantity | None = None


class _Behavior(msgspec.Struct, rename="camel"):
    scale_up: _Rules | None = None
    scale_down: _Rules | None = None


class _Spec(msgspec.Struct, rename="camel"):
    scale_target_ref: _Reference | None = None
    min_replicas: _Int | None = None
    max_replicas: _Int | None = None
    metrics: list[_Metric] | None = None
    behavior: _Behavior | None = None


def check_autoscaler(obj: JsonObject) -> None:
    """Raise 400 for fields of a wrong type."""
    try:
        spec = msgspec.convert(obj.get("spec") or {}, _Spec)
        for quantity in _quantities(spec):
            parse_milli(quantity)
    except (msgspec.ValidationError, QuantityError) as error:
        raise build_unreadable_error(AUTOSCALERS, str(error)) from None


def _quantities(spec: _Spec) -> Iterator[_Quantity]:
    for metric in spec.metrics or ():
        for source in (metric.resource, metric.container_resource, metric.pods, metric.object, metric.external):
            target = (source.target if source is not None else None) or _Target()
            yield from (each for each in (target.value, target.average_value) if each is not None)
    behavior = spec.behavior or _Behavior()
    for rules in (behavior.scale_up, behavior.scale_down):
        if rules is not None and rules.tolerance is not None:
            yield rules.tolerance


def validate_autoscaler(obj: JsonObject, old: JsonObject | None = None) -> list[FieldError]:
    """Return all errors. An update that does not change the target may keep an invalid apiVersion of it."""
    spec = part(obj.get("spec"))
    reference, before = part(spec.get("scaleTargetRef")), part(part((old or {}).get("spec")).get("scaleTargetRef"))
    is_same = old is not None and all(before.get(key) == reference.get(key) for key in ("apiVersion", "kind"))
    return [
        *_validate_bounds(spec),
        *_validate_reference(reference, "spec.scaleTargetRef", needs_group=True, checks_version=not is_same),
        *_validate_metrics(spec),
        *_validate_behavior(part(spec.get("behavior"))),
    ]


def _validate_bounds(spec: JsonObject) -> Iterator[FieldError]:
    least, most = spec.get("minReplicas"), spec.get("maxReplicas") or 0
    if isinstance(least, int) and least < 0:
        yield invalid("spec.minReplicas", least, "must be greater than or equal to 0")
    if most == 0:
        yield required("spec.maxReplicas", "must be set and greater than 0")
    elif most < 0:
        yield invalid("spec.maxReplicas", most, "must be greater than or equal to 1")
    if isinstance(least, int) and most < least:
        yield invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`")


def _validate_reference(
    reference: JsonObject, where: str, *, needs_group: bool, checks_version: bool = True
) -> Iterator[FieldError]:
    for field in ("kind", "name"):
        text = reference.get(field) or ""
        if not text:
            yield required(f"{where}.{field}", "")
        elif why := find_path_segment_error(text):
            yield invalid(f"{where}.{field}", text, why)
    version = reference.get("apiVersion") or ""
    if not checks_version:
        return
    if version.count("/") > 1:
        yield invalid(f"{where}.apiVersion", version, f"unexpected GroupVersion string: {version}")
    elif needs_group and "/" not in version and reference.get("kind") != "ReplicationController":
        yield invalid(f"{where}.apiVersion", version, "apiVersion must specify API group")


# Metrics


def _validate_metrics(spec: JsonObject) -> Iterator[FieldError]:
    metrics = items(spec.get("metrics"))
    for index, metric in enumerate(metrics):
        yield from _validate_metric(metric, f"spec.metrics[{index}]")
    if spec.get("minReplicas") == 0 and not any(metric.get("type") in ("Object", "External") for metric in metrics):
        yield forbidden(
            "spec.metrics", "must specify at least one Object or External metric to support scaling to zero replicas"
        )


def _validate_metric(metric: JsonObject, where: str) -> Iterator[FieldError]:
    kind = metric.get("type") or ""
    if not kind:
        yield required(f"{where}.type", "must specify a metric source type")
    if kind not in _METRIC_TYPES:
        yield not_supported(f"{where}.type", kind, _METRIC_TYPES)
    given = [field for field in _FIELDS.values() if isinstance(metric.get(field), dict)]
    if given:
        yield from _validate_source(given[0], metric[given[0]], f"{where}.{given[0]}")
    expected = _FIELDS.get(kind)
    if expected is None:
        yield not_supported(f"{where}.type", kind, _METRIC_TYPES)
    elif expected not in given:
        yield required(f"{where}.{expected}", "must populate information for the given metric source")
    if len(given) != 1:
        for field in given:
            if field != expected:
                yield forbidden(f"{where}.{field}", "must populate the given metric source only")


def _validate_source(field: str, source: JsonObject, where: str) -> Iterator[FieldError]:
    target = part(source.get("target"))
    match field:
        case "object":
            yield from _validate_reference(
                part(source.get("describedObject")), f"{where}.describedObject", needs_group=False
            )
            yield from _validate_name(source, where)
        case "external" | "pods":
            yield from _validate_name(source, where)
        case _:
            yield from _validate_resource(field, source, where)
    yield from _validate_target(target, f"{where}.target")
    yield from _validate_target_kind(field, target, f"{where}.target")


def _validate_name(source: JsonObject, where: str) -> Iterator[FieldError]:
    name = part(source.get("metric")).get("name") or ""
    if not name:
        yield required(f"{where}.metric.name", "must specify a metric name")
    elif why := find_path_segment_error(name):
        yield invalid(f"{where}.metric.name", name, why)


def _validate_resource(field: str, source: JsonObject, where: str) -> Iterator[FieldError]:
    if not source.get("name"):
        yield required(f"{where}.name", "must specify a resource name")
    if field == "containerResource":
        container = source.get("container") or ""
        if not container:
            yield required(f"{where}.container", "must specify a container")
        elif why := find_dns_label_error(container):
            yield invalid(f"{where}.container", container, why)


def _validate_target(target: JsonObject, where: str) -> Iterator[FieldError]:
    kind, percent = target.get("type") or "", target.get("averageUtilization")
    if not kind:
        yield required(f"{where}.type", "must specify a metric target type")
    if kind not in _TARGET_TYPES:
        yield invalid(f"{where}.type", kind, "must be either Utilization, Value, or AverageValue")
    for field in ("value", "averageValue"):
        if target.get(field) is not None and not _is_positive(target[field]):
            yield invalid(f"{where}.{field}", target[field], "must be positive")
    if isinstance(percent, int) and percent < 1:
        yield invalid(f"{where}.averageUtilization", percent, "must be greater than 0")


def _validate_target_kind(field: str, target: JsonObject, where: str) -> Iterator[FieldError]:
    """Yield errors of targets that this kind of metric cannot have."""
    has = {key for key in ("value", "averageValue", "averageUtilization") if target.get(key) is not None}
    match field:
        case "object" if not has & {"value", "averageValue"}:
            yield required(f"{where}.averageValue", "must set either a target value or averageValue")
        case "external" if not has & {"value", "averageValue"}:
            yield required(f"{where}.averageValue", "must set either a target value for metric or a per-pod target")
        case "external" if has >= {"value", "averageValue"}:
            yield forbidden(f"{where}.value", "may not set both a target value for metric and a per-pod target")
        case "pods" if "averageValue" not in has:
            yield required(f"{where}.averageValue", "must specify a positive target averageValue")
        case "resource" | "containerResource" if not has & {"averageUtilization", "averageValue"}:
            yield required(f"{where}.averageUtilization", "must set either a target raw value or a target utilization")
        case "resource" | "containerResource" if has >= {"averageUtilization", "averageValue"}:
            yield forbidden(f"{where}.averageValue", "may not set both a target raw value and a target utilization")


def _is_positive(quantity: Any) -> bool:
    try:
        return isinstance(quantity, str | int | float) and parse_milli(quantity) > 0
    except QuantityError:
        return False


# Behavior


def _validate_behavior(behavior: JsonObject) -> Iterator[FieldError]:
    for direction in ("scaleUp", "scaleDown"):
        if isinstance(behavior.get(direction), dict):
            yield from _validate_rules(behavior[direction], f"spec.behavior.{direction}")


def _validate_rules(rules: JsonObject, where: str) -> Iterator[FieldError]:
    window, select = rules.get("stabilizationWindowSeconds"), rules.get("selectPolicy")
    if isinstance(window, int) and window < 0:
        yield invalid(f"{where}.stabilizationWindowSeconds", window, "must be greater than or equal to zero")
    if isinstance(window, int) and window > _LONGEST_WINDOW:
        yield invalid(f"{where}.stabilizationWindowSeconds", window, f"must be less than or equal to {_LONGEST_WINDOW}")
    if select is not None and select not in _SELECT_POLICIES:
        yield not_supported(f"{where}.selectPolicy", select, _SELECT_POLICIES)
    if rules.get("tolerance") is not None and parse_milli(rules["tolerance"]) < 0:
        yield invalid(f"{where}.tolerance", rules["tolerance"], "must be greater than or equal to 0")
    policies = items(rules.get("policies"))
    if not policies:
        yield required(f"{where}.policies", "must specify at least one Policy")
    for index, policy in enumerate(policies):
        yield from _validate_policy(policy, f"{where}.policies[{index}]")


def _validate_policy(policy: JsonObject, where: str) -> Iterator[FieldError]:
    kind, value, period = policy.get("type") or "", policy.get("value") or 0, policy.get("periodSeconds") or 0
    if kind not in _POLICY_TYPES:
        yield not_supported(f"{where}.type", kind, _POLICY_TYPES)
    if value <= 0:
        yield invalid(f"{where}.value", value, "must be greater than zero")
    if period <= 0:
        yield invalid(f"{where}.periodSeconds", period, "must be greater than zero")
    if period > _LONGEST_PERIOD:
        yield invalid(f"{where}.periodSeconds", period, f"must be less than or equal to {_LONGEST_PERIOD}")

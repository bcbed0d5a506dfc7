"""Strategy of HorizontalPodAutoscalers: defaults and the TARGETS column."""

from grove.api.types.meta import JsonObject
from grove.cluster.apiserver.codec.lenient_json import items, part

_METRICS = [
    {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}
]
_HUNDRED_PERCENT = {"type": "Percent", "value": 100, "periodSeconds": 15}
_SCALE_DOWN: JsonObject = {"selectPolicy": "Max", "policies": [_HUNDRED_PERCENT]}
_SCALE_UP: JsonObject = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}, _HUNDRED_PERCENT],
}
_MOST_SHOWN = 2


def prepare_autoscaler(obj: JsonObject) -> JsonObject:
    spec = part(obj.get("spec"))
    filled = {**spec, "minReplicas": 1 if spec.get("minReplicas") is None else spec["minReplicas"]}
    filled["metrics"] = spec.get("metrics") or _METRICS
    if isinstance(behavior := spec.get("behavior"), dict):
        filled["behavior"] = {
            "scaleUp": {**_SCALE_UP, **part(behavior.get("scaleUp"))},
            "scaleDown": {**_SCALE_DOWN, **part(behavior.get("scaleDown"))},
        }
    return {**obj, "spec": filled}


def format_targets(spec: JsonObject, status: JsonObject) -> str:
    """Return the cell of the TARGETS column: the current value, if it is known, and the target of each metric."""
    current = {_identity(metric): metric for metric in items(status.get("currentMetrics"))}
    targets = [_format_target(metric, current.get(_identity(metric))) for metric in items(spec.get("metrics"))]
    if not targets:
        return "<none>"
    more = f" + {len(targets) - _MOST_SHOWN} more..." if len(targets) > _MOST_SHOWN else ""
    return ", ".join(targets[:_MOST_SHOWN]) + more


def _identity(metric: JsonObject) -> tuple[str, str, str]:
    """Return what a metric of the spec and its value in the status have in common."""
    kind, source = str(metric.get("type", "")), _source(metric)
    name = source.get("name") or part(source.get("metric")).get("name") or ""
    owner = source.get("container") or part(source.get("describedObject")).get("name") or ""
    return kind, str(name), str(owner)


def _source(metric: JsonObject) -> JsonObject:
    kind = str(metric.get("type", ""))
    return part(metric.get(kind[:1].lower() + kind[1:]))


def _format_target(metric: JsonObject, status: JsonObject | None) -> str:
    kind, source = str(metric.get("type", "")), _source(metric)
    target, current = part(source.get("target")), part(_source(status or {}).get("current"))
    # Only resource metrics show their name. Averages are marked where the target could also be a plain value.
    name = f"{source.get('name', '')}: " if kind in ("Resource", "ContainerResource") else ""
    if target.get("averageUtilization") is not None:
        percent = current.get("averageUtilization")
        shown = "<unknown>" if percent is None else f"{percent}%"
        return f"{name}{shown}/{target['averageUtilization']}%"
    average = target.get("averageValue")
    suffix = " (avg)" if kind in ("External", "Object") and average is not None else ""
    field = "value" if average is None else "averageValue"
    return f"{name}{current.get(field, '<unknown>')}/{target.get(field, '')}{suffix}"

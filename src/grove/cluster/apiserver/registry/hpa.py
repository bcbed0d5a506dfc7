"""Strategy of HorizontalPodAutoscalers: defaults and the TARGETS column. No controller acts on them here."""

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


def format_targets(spec: JsonObject) -> str:
    """Return the cell of the TARGETS column. Current values are unknown: nothing is measured here."""
    targets = [_format_target(metric) for metric in items(spec.get("metrics"))]
    if not targets:
        return "<none>"
    more = f" + {len(targets) - _MOST_SHOWN} more..." if len(targets) > _MOST_SHOWN else ""
    return ", ".join(targets[:_MOST_SHOWN]) + more


def _format_target(metric: JsonObject) -> str:
    kind = str(metric.get("type", ""))
    source = part(metric.get(kind[:1].lower() + kind[1:]))
    target = part(source.get("target"))
    # Only resource metrics show their name. Averages are marked where the target could also be a plain value.
    name = f"{source.get('name', '')}: " if kind in ("Resource", "ContainerResource") else ""
    if target.get("averageUtilization") is not None:
        return f"{name}<unknown>/{target['averageUtilization']}%"
    average = target.get("averageValue")
    suffix = " (avg)" if kind in ("External", "Object") and average is not None else ""
    return f"{name}<unknown>/{target.get('value', '') if average is None else average}{suffix}"

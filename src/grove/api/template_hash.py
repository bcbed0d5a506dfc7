"""Compute the hash of a pod template: a short label value that changes if and only if the pods would differ.

The hash is only a label; templates are compared through stored revisions. The golden test pins the values, because a
new value for an old template would look like a change to every reader of the label.
"""

from typing import Any

import msgspec

from grove.api.names import derived_letters
from grove.api.types.meta import JsonObject
from grove.api.types.podcliqueset import CliqueTemplate, SetTemplate

_LENGTH = 12
# Defaults that admission sets (`defaulting.py`), now or later: a template without them makes the same pods.
_POD_DEFAULTS = {"restartPolicy": "Always", "terminationGracePeriodSeconds": 30}
_ENCODER = msgspec.json.Encoder(order="deterministic")


def template_hash(clique: CliqueTemplate, set_priority_class: str) -> str:
    """Return the hash of labels, annotations and podSpec. Replicas and the order of map keys do not matter."""
    return derived_letters(canonical_template(clique, set_priority_class), _LENGTH)


def generation_hash(template: SetTemplate) -> str:
    """Return the hash of all pod templates of a set. The order of its cliques does not matter."""
    hashes = sorted([c.name, template_hash(c, template.priority_class_name)] for c in template.cliques)
    return derived_letters(_ENCODER.encode(hashes), _LENGTH)


def canonical_template(clique: CliqueTemplate, set_priority_class: str) -> bytes:
    """Return the canonical JSON of a clique's pod template: equal bytes mean equal pods."""
    pod_spec: JsonObject = dict(clique.spec.pod_spec)
    if set_priority_class:
        pod_spec["priorityClassName"] = set_priority_class
    if not pod_spec.get("priorityClassName"):
        pod_spec.pop("priorityClassName", None)
    for field, default in _POD_DEFAULTS.items():
        if pod_spec.get(field) == default:
            del pod_spec[field]
    template = {
        "labels": clique.labels,
        "annotations": clique.annotations,
        "podSpec": _without_filled_values(pod_spec),
    }
    return _ENCODER.encode(_canonical(template))


def _without_filled_values(value: Any) -> Any:
    """Drop values that servers and clients fill in without changing the pods.

    The API server adds `protocol: TCP` to a port that has no protocol (`kubernetes_schemas.py`).
    """
    if isinstance(value, dict):
        has_default_protocol = "containerPort" in value and value.get("protocol") == "TCP"
        # Go clients write an empty `resources` where a user wrote none.
        result = {
            key: _without_filled_values(item) for key, item in value.items() if not (key == "resources" and item == {})
        }
        if has_default_protocol:
            del result["protocol"]
        return result
    if isinstance(value, list | tuple):
        return [_without_filled_values(item) for item in value]
    return value


# Lists that are maps: their order has no meaning. The order of init containers, commands and arguments does.
_MAPS = {
    "containers": ("name",),
    "volumes": ("name",),
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
    "ports": ("containerPort", "protocol"),
    "env": ("name",),
    "imagePullSecrets": ("name",),
    "hostAliases": ("ip",),
    "resourceClaims": ("name",),
    "claims": ("name", "request"),
    "schedulingGates": ("name",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
}


def _canonical(value: Any) -> Any:
    """Sort keys, drop nulls, and sort lists that are maps by their keys."""
    if isinstance(value, dict):
        return {key: _canonical_field(key, value[key]) for key in sorted(value) if value[key] is not None}
    if isinstance(value, list | tuple):
        return [_canonical(item) for item in value]
    return value


def _canonical_field(name: str, value: Any) -> Any:
    result = _canonical(value)
    keys = _MAPS.get(name)
    if keys is None or not isinstance(result, list) or not all(isinstance(item, dict) for item in result):
        return result
    order = [tuple(str(item.get(key, "")) for key in keys) for item in result]
    if len(set(order)) < len(order) or (name == "env" and _has_references(result)):
        return result
    return [item for _, item in sorted(zip(order, result, strict=True), key=lambda pair: pair[0])]


def _has_references(variables: list[JsonObject]) -> bool:
    """Return whether a variable uses `$(NAME)`, which refers to a variable above it: then the order has a meaning."""
    return any("$(" in str(variable.get("value", "")) for variable in variables)

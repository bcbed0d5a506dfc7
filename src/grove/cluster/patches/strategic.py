"""Strategic merge patch: like a merge patch, but some lists are merged by a key of their items.

Which lists, and by which key, is a table of the built-in kinds; any other list is replaced as a whole.
"""

from typing import Any

from grove.api.meta import JsonObject
from grove.cluster.patches import PatchInvalidError

# Lists of plain values that are merged as sets.
_AS_SET = ""

_METADATA = {"metadata.ownerReferences": "uid", "metadata.finalizers": _AS_SET}
_CONTAINER_LISTS = {
    "env": "name", "ports": "containerPort", "volumeMounts": "mountPath", "volumeDevices": "devicePath",
}  # fmt: skip
_CONTAINERS = ("spec.containers", "spec.initContainers", "spec.ephemeralContainers")

_MERGE_KEYS: dict[str, dict[str, str]] = {
    "Pod": {
        **dict.fromkeys(_CONTAINERS, "name"),
        **{f"{path}.{field}": key for path in _CONTAINERS for field, key in _CONTAINER_LISTS.items()},
        "spec.volumes": "name",
        "spec.imagePullSecrets": "name",
        "spec.hostAliases": "ip",
        "spec.topologySpreadConstraints": "topologyKey",
        "spec.schedulingGates": "name",
        "spec.resourceClaims": "name",
        "status.conditions": "type",
        "status.podIPs": "ip",
        "status.hostIPs": "ip",
        "status.resourceClaimStatuses": "name",
    },
    "Node": {"status.conditions": "type", "status.addresses": "type", "spec.podCIDRs": _AS_SET},
    "Namespace": {"status.conditions": "type"},
    "Service": {"spec.ports": "port", "status.conditions": "type"},
    "ServiceAccount": {"secrets": "name"},
    "HorizontalPodAutoscaler": {"status.conditions": "type"},
}

_DIRECTIVE = "$patch"
_RETAIN = "$retainKeys"
_ORDER = "$setElementOrder/"
_DELETE_VALUES = "$deleteFromPrimitiveList/"


def apply_strategic_patch(kind: str, obj: JsonObject, patch: Any) -> JsonObject:
    if not isinstance(patch, dict):
        raise PatchInvalidError("a strategic merge patch must be a JSON object")
    return _merge({**_METADATA, **_MERGE_KEYS.get(kind, {})}, "", obj, patch)


def _merge(keys: dict[str, str], path: str, current: Any, patch: JsonObject) -> JsonObject:
    match patch.get(_DIRECTIVE):
        case None | "merge":
            pass
        case "replace":
            return {key: value for key, value in patch.items() if key != _DIRECTIVE}
        case "delete":
            return {}
        case other:
            raise PatchInvalidError(f"Unexpected patch directive: {other}")
    result = dict(current) if isinstance(current, dict) else {}
    if _RETAIN in patch:
        kept = _texts(patch[_RETAIN], _RETAIN)
        result = {key: value for key, value in result.items() if key in kept}
    for key, value in patch.items():
        if not key.startswith("$"):
            _set(result, key, _merged_value(keys, f"{path}.{key}" if path else key, result.get(key), value, patch))
    _delete_values(result, patch)
    return result


def _set(result: JsonObject, key: str, value: Any) -> None:
    if value is None:
        result.pop(key, None)
    else:
        result[key] = value


def _merged_value(keys: dict[str, str], path: str, current: Any, value: Any, patch: JsonObject) -> Any:
    if isinstance(value, dict):
        return _merge(keys, path, current, value)
    if not isinstance(value, list) or path not in keys:
        return value
    order = patch.get(_ORDER + path.rpartition(".")[2])
    if keys[path] == _AS_SET:
        merged = _union(current, value)
    else:
        merged = _merge_items(keys, path, current if isinstance(current, list) else [], value)
    return merged if order is None else _in_order(merged, order, keys[path])


def _union(current: Any, added: list[Any]) -> list[Any]:
    kept = list(current) if isinstance(current, list) else []
    return kept + [value for position, value in enumerate(added) if value not in kept and value not in added[:position]]


def _merge_items(keys: dict[str, str], path: str, current: list[Any], patch: list[Any]) -> list[Any]:
    key = keys[path]
    result = list(current)
    for item in patch:
        if not isinstance(item, dict):
            raise PatchInvalidError(f"{path}: items of a patch to this list must be objects")
        directive = item.get(_DIRECTIVE)
        if directive == "replace" and len(item) == 1:
            result = []
            continue
        if key not in item:
            raise PatchInvalidError(f"{path}: map: {item} does not contain declared merge key: {key}")
        position = next((at for at, old in enumerate(result) if _key_of(old, key) == item[key]), None)
        if directive == "delete":
            result = [old for old in result if _key_of(old, key) != item[key]]
        elif position is None:
            result.append(_merge(keys, path, {}, item))
        else:
            result[position] = _merge(keys, path, result[position], item)
    return result


def _key_of(item: Any, key: str) -> Any:
    return item.get(key) if isinstance(item, dict) else None


def _in_order(items: list[Any], order: Any, key: str) -> list[Any]:
    """Items named by the order take its sequence; the others stay behind the one they followed."""
    if not isinstance(order, list):
        raise PatchInvalidError(f"{_ORDER}: must be a list")
    wanted = [_key_of(entry, key) if key else entry for entry in order]
    anchored: list[list[Any]] = [[]]
    for item in items:
        if (_key_of(item, key) if key else item) in wanted:
            anchored.append([item])
        else:
            anchored[-1].append(item)
    first, *rest = anchored
    rest.sort(key=lambda run: wanted.index(_key_of(run[0], key) if key else run[0]))
    return first + [item for run in rest for item in run]


def _delete_values(result: JsonObject, patch: JsonObject) -> None:
    for key, values in patch.items():
        if key.startswith(_DELETE_VALUES):
            field = key.removeprefix(_DELETE_VALUES)
            gone = _texts(values, key)
            if isinstance(result.get(field), list):
                result[field] = [value for value in result[field] if value not in gone]


def _texts(values: Any, where: str) -> list[Any]:
    if not isinstance(values, list):
        raise PatchInvalidError(f"{where}: must be a list")
    return values

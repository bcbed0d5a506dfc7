"""Strategic merge patch: like a merge patch, but some lists are merged by a key of their items.

The merge keys come from a table of the built-in kinds. All other lists are replaced.
"""

from typing import Any

from grove.api.types.meta import JsonObject
from grove.cluster.patches import PatchInvalidError

# Lists of plain values that are merged as sets.
_AS_SET = ""
# Objects that are replaced as a whole.
_AS_WHOLE = "$replace"

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
    "PodDisruptionBudget": {"spec.selector": _AS_WHOLE, "status.conditions": "type"},
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
        kept = _check_list(patch[_RETAIN], _RETAIN)
        result = {key: value for key, value in result.items() if key in kept}
    for key, value in patch.items():
        if not key.startswith("$"):
            _set(result, key, _merge_value(keys, f"{path}.{key}" if path else key, result.get(key), value, patch))
    _delete_values(result, patch)
    return result


def _set(result: JsonObject, key: str, value: Any) -> None:
    if value is None:
        result.pop(key, None)
    else:
        result[key] = value


def _merge_value(keys: dict[str, str], path: str, current: Any, value: Any, patch: JsonObject) -> Any:
    if isinstance(value, dict):
        return value if keys.get(path) == _AS_WHOLE else _merge(keys, path, current, value)
    if not isinstance(value, list) or path not in keys:
        return value
    order = patch.get(_ORDER + path.rpartition(".")[2])
    before = current if isinstance(current, list) else []
    key = keys[path]
    merged = _union(before, value) if key == _AS_SET else _merge_items(keys, path, before, value)
    if order is None:
        order = [item for item in value if not isinstance(item, dict) or key in item]
    elif not isinstance(order, list):
        raise PatchInvalidError(f"{_ORDER}: must be a list")
    return _in_order(merged, before, order, key)


def _union(current: list[Any], added: list[Any]) -> list[Any]:
    return list(current) + [
        value for position, value in enumerate(added) if value not in current and value not in added[:position]
    ]


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


def _in_order(merged: list[Any], before: list[Any], order: list[Any], key: str) -> list[Any]:
    """Return patched items in the order of the patch and the others in their old order, new items first.

    An old item stays behind an old item that it followed. This is the order of a real API server.
    """
    wanted = [_identity(item, key) for item in order]
    places = [_identity(item, key) for item in before]
    patched = sorted(
        (item for item in merged if _identity(item, key) in wanted), key=lambda item: wanted.index(_identity(item, key))
    )
    others = [item for item in merged if _identity(item, key) not in wanted]
    result: list[Any] = []
    while patched and others:
        first, other = _identity(patched[0], key), _identity(others[0], key)
        is_other_ahead = first in places and other in places and places.index(other) < places.index(first)
        result.append(others.pop(0) if is_other_ahead else patched.pop(0))
    return result + patched + others


def _identity(item: Any, key: str) -> Any:
    return _key_of(item, key) if key else item


def _delete_values(result: JsonObject, patch: JsonObject) -> None:
    for key, values in patch.items():
        if key.startswith(_DELETE_VALUES):
            field = key.removeprefix(_DELETE_VALUES)
            removed = _check_list(values, key)
            if isinstance(result.get(field), list):
                result[field] = [value for value in result[field] if value not in removed]


def _check_list(values: Any, where: str) -> list[Any]:
    if not isinstance(values, list):
        raise PatchInvalidError(f"{where}: must be a list")
    return values

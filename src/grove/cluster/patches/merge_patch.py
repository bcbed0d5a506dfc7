"""JSON merge patch (RFC 7386): values replace, objects are merged, null removes."""

from typing import Any

from grove.api.types.meta import JsonObject
from grove.cluster.patches import PatchInvalidError


def apply_merge_patch(obj: JsonObject, patch: Any) -> JsonObject:
    if not isinstance(patch, dict):
        raise PatchInvalidError("error decoding patch: a merge patch is a JSON object")
    return _merge(obj, patch)


def _merge(target: Any, patch: JsonObject) -> JsonObject:
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = _merge(result.get(key), value)
        else:
            result[key] = value
    return result

"""Compute the JSON Patch (RFC 6902) between two JSON values. The API server applies it."""

from typing import Any

from grove.api.types.meta import JsonObject


def json_patch(old: Any, new: Any, path: str = "") -> list[JsonObject]:
    """Return the patch that turns `old` into `new`; empty if they are equal. A list of another length is replaced."""
    if isinstance(old, dict) and isinstance(new, dict):
        return _between_objects(old, new, path)
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [
            operation
            for i, (before, after) in enumerate(zip(old, new, strict=True))
            if not _is_same_leaf(before, after)
            for operation in json_patch(before, after, f"{path}/{i}")
        ]
    if type(old) is type(new) and old == new:
        return []
    return [{"op": "replace", "path": path, "value": new}]


def _is_same_leaf(old: Any, new: Any) -> bool:
    """Return whether two scalars are equal. Most are, so this is checked first."""
    return type(old) is type(new) and not isinstance(new, dict | list) and bool(old == new)


def _between_objects(old: JsonObject, new: JsonObject, path: str) -> list[JsonObject]:
    operations: list[JsonObject] = [{"op": "remove", "path": f"{path}/{_escape(key)}"} for key in old if key not in new]
    for key, value in new.items():
        if key not in old:
            operations.append({"op": "add", "path": f"{path}/{_escape(key)}", "value": value})
        elif not _is_same_leaf(old[key], value):
            operations += json_patch(old[key], value, f"{path}/{_escape(key)}")
    return operations


def _escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")

"""The smallest JSON merge patch (RFC 7386) between two objects, so that a write touches nothing else.

Applying patches is the server's work (`cluster/patches/`). In a merge patch null means "absent": so it does here.
"""

from typing import Any

from grove.api.types.meta import JsonObject


def merge_patch(old: JsonObject, new: JsonObject) -> JsonObject | None:
    """Turns `old` into `new`: what is missing from `new` is removed. None when they are equal already."""
    patch = _towards(old, new)
    for key, value in old.items():
        if key not in new and value is not None:
            patch[key] = None
        elif isinstance(value, dict) and isinstance(new.get(key), dict):
            _set_or_drop(patch, key, merge_patch(value, new[key]))
    return patch or None


def patch_towards(current: JsonObject, desired: JsonObject) -> JsonObject | None:
    """Brings the keys of `desired` into `current` and leaves all others alone. None when they are there already."""
    return _towards(current, desired) or None


def _towards(current: JsonObject, desired: JsonObject) -> JsonObject:
    patch: JsonObject = {}
    for key, value in desired.items():
        now = current.get(key)
        if isinstance(now, dict) and isinstance(value, dict):
            _set_or_drop(patch, key, _towards(now, value) or None)
        elif not _is_same(now, value):
            patch[key] = value
    return patch


def _set_or_drop(patch: JsonObject, key: str, value: JsonObject | None) -> None:
    if value is None:
        patch.pop(key, None)
    else:
        patch[key] = value


def _is_same(left: Any, right: Any) -> bool:
    """Equal as JSON: Python's True == 1 is not."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_is_same(value, right[key]) for key, value in left.items())
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(_is_same, left, right))
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)

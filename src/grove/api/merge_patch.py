"""Compute the smallest JSON merge patch (RFC 7386) between two objects, so that a write changes nothing else.

The API server applies patches (`cluster/patches/`). As in a merge patch, null means "absent" in the inputs.
"""

from typing import Any

from grove.api.types.meta import JsonObject


def merge_patch(old: JsonObject, new: JsonObject) -> JsonObject | None:
    """Return the patch that turns `old` into `new`, removing keys that `new` does not have. None if they are equal."""
    patch = _diff_towards(old, new)
    for key, value in old.items():
        if key not in new and value is not None:
            patch[key] = None
        elif isinstance(value, dict) and isinstance(new.get(key), dict):
            _set_or_drop(patch, key, merge_patch(value, new[key]))
    return patch or None


def patch_towards(current: JsonObject, desired: JsonObject) -> JsonObject | None:
    """Return the patch that sets the keys of `desired` in `current` and keeps all others. None if nothing changes."""
    return _diff_towards(current, desired) or None


def _diff_towards(current: JsonObject, desired: JsonObject) -> JsonObject:
    patch: JsonObject = {}
    for key, value in desired.items():
        now = current.get(key)
        if isinstance(now, dict) and isinstance(value, dict):
            _set_or_drop(patch, key, _diff_towards(now, value) or None)
        elif not _is_same(now, value):
            patch[key] = value
    return patch


def _set_or_drop(patch: JsonObject, key: str, value: JsonObject | None) -> None:
    if value is None:
        patch.pop(key, None)
    else:
        patch[key] = value


def _is_same(left: Any, right: Any) -> bool:
    """Return whether two values are equal as JSON, where `true` is not 1 as it is in Python."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_is_same(value, right[key]) for key, value in left.items())
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(_is_same, left, right))
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)

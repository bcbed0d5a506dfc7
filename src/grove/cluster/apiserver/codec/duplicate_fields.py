"""Duplicate keys in a JSON body. The decoder keeps the last one; strict field validation reports them."""

import json
from typing import Any


def find_duplicate_fields(body: bytes) -> tuple[str, ...]:
    """Return the paths of duplicate keys, in the order of the body; empty if it is not JSON."""
    if not body:
        return ()
    try:
        found = json.loads(body, object_pairs_hook=_Pairs)
    except (ValueError, RecursionError):
        return ()
    paths: dict[str, None] = {}
    _collect(found, "", paths)
    return tuple(paths)


class _Pairs:
    """A JSON object with all its keys, duplicates included."""

    __slots__ = ("pairs",)

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        self.pairs = pairs


def _collect(value: Any, path: str, paths: dict[str, None]) -> None:
    if isinstance(value, list):
        for index, item in enumerate(value):
            _collect(item, f"{path}[{index}]", paths)
    if not isinstance(value, _Pairs):
        return
    seen: dict[str, None] = {}
    for key, inner in value.pairs:
        where = f"{path}.{key}" if path else key
        if key in seen:
            paths[where] = None
        seen[key] = None
        _collect(inner, where, paths)

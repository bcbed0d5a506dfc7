"""Lenient access to JSON of any shape. Values of an unexpected type are treated as absent."""

from typing import Any

from grove.api.types.meta import JsonObject


def part(value: Any) -> JsonObject:
    """Return the value if it is an object, else an empty object."""
    return value if isinstance(value, dict) else {}


def at(obj: Any, steps: tuple[str, ...]) -> Any:
    """Return the value at this path; None if there is none."""
    found = obj
    for step in steps:
        found = found.get(step) if isinstance(found, dict) else None
    return found


def items(value: Any) -> list[JsonObject]:
    """Return the objects of a list; empty if it is not a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []

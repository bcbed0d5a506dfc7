"""Reading JSON of which nothing is promised: users may have written anything, and a view of it shows what it can."""

from typing import Any

from grove.api.types.meta import JsonObject


def part(value: Any) -> JsonObject:
    """The object, or an empty one."""
    return value if isinstance(value, dict) else {}


def at(obj: Any, steps: tuple[str, ...]) -> Any:
    """What is found by these steps from the root; None if there is nothing."""
    found = obj
    for step in steps:
        found = found.get(step) if isinstance(found, dict) else None
    return found


def items(value: Any) -> list[JsonObject]:
    """The objects of a list, or none."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []

"""Schema keywords that several modules use, and the names of JSON types."""

from typing import Any

PRESERVE = "x-kubernetes-preserve-unknown-fields"
INT_OR_STRING = "x-kubernetes-int-or-string"
EMBEDDED = "x-kubernetes-embedded-resource"
LIST_TYPE = "x-kubernetes-list-type"
MAP_KEYS = "x-kubernetes-list-map-keys"
MAP_TYPE = "x-kubernetes-map-type"
VALIDATIONS = "x-kubernetes-validations"

# List types whose items must be unique.
DISTINCT = ("map", "set")
# Fields of a whole object that the server handles itself.
ALWAYS_KNOWN = ("apiVersion", "kind", "metadata")


def type_name(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def child(path: str, field: str) -> str:
    return f"{path}.{field}" if path else field


def key_of(item: Any, keys: tuple[str, ...]) -> tuple[Any, ...]:
    """Return the key of a list item: the values of these fields, or the item itself without fields."""
    return tuple(str(item.get(key)) for key in keys) if keys else (item,)

"""Words that several passes over a schema read, and the names of JSON's types."""

from typing import Any

PRESERVE = "x-kubernetes-preserve-unknown-fields"
INT_OR_STRING = "x-kubernetes-int-or-string"
EMBEDDED = "x-kubernetes-embedded-resource"
LIST_TYPE = "x-kubernetes-list-type"
MAP_KEYS = "x-kubernetes-list-map-keys"
MAP_TYPE = "x-kubernetes-map-type"
VALIDATIONS = "x-kubernetes-validations"

# Types of lists whose items must differ.
DISTINCT = ("map", "set")
# The server's own business in a whole object, whatever a schema says.
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
    """What tells an item of a list from others: these of its fields, or itself."""
    return tuple(str(item.get(key)) for key in keys) if keys else (item,)

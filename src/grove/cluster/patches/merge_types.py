"""Merge types: how each part of an object merges, by list keys and atomic maps.

Types come from the schema of a CRD (`type_of_schema`) or, for built-in kinds, from `built_in_types.json`, which
`tests/kube/controlplane/merge_types.py` extracts from an API server. In this file, `text`, `number` and `truth` are
scalars, `value` is a scalar of any type, `anything` is replaced as a whole, and `#Name` refers to a definition. An
object has `fields`, or `each` for the type of all values. A list has `items`, and `keys` with defaults if it merges (no
keys: by value).
"""

import pkgutil
from functools import cache
from typing import Any

import msgspec

from grove.api.types.meta import JsonObject

_VERBATIM = "x-kubernetes-preserve-unknown-fields"


class Scalar(msgspec.Struct, frozen=True):
    # The type name of a real API server; empty: any scalar.
    name: str = ""


class Anything(msgspec.Struct, frozen=True):
    """A value of any type that is owned and replaced as a whole."""


class Deduced(msgspec.Struct, frozen=True):
    """A value without a schema: objects merge by field, lists are replaced as a whole."""


class Members(msgspec.Struct, frozen=True, kw_only=True):
    """An object. Not hashed or compared, because types can be recursive."""

    fields: "dict[str, Type]"
    # The type of all other fields; None: there are no other fields.
    each: "Type | None" = None
    is_atomic: bool = False


class Items(msgspec.Struct, frozen=True, kw_only=True):
    """A list. `keys`, with defaults, identify its items; no keys: by value; None: replaced as a whole."""

    items: "Type"
    keys: dict[str, Any] | None = None


Type = Scalar | Anything | Deduced | Members | Items

TEXT = Scalar("string")
NUMBER = Scalar("numeric (int or float)")
TRUTH = Scalar("boolean")
VALUE = Scalar()
ANYTHING = Anything()
DEDUCED = Deduced()
_SIGNS: dict[str, Type] = {"text": TEXT, "number": NUMBER, "truth": TRUTH, "value": VALUE, "anything": ANYTHING}
_SCALARS = {"string": TEXT, "integer": NUMBER, "number": NUMBER, "boolean": TRUTH}


@cache
def built_in_type(api_version: str, kind: str) -> Type | None:
    """Return the merge type of a built-in kind, or None if it is unknown."""
    name = _built_in().kinds.get(f"{api_version}/{kind}")
    return None if name is None else _built_in().definition(name)


class _BuiltIn:
    """The built-in types. Each is built on first use."""

    def __init__(self, data: JsonObject) -> None:
        self.kinds: dict[str, str] = data["kinds"]
        self._data: JsonObject = data["definitions"]
        self._types: dict[str, Type] = {}

    def definition(self, name: str) -> Type:
        type_ = self._types.get(name)
        if type_ is None:
            # Stored before its fields are built: types can be recursive.
            data = self._data[name]
            type_ = self._types[name] = Members(fields={}, is_atomic=data.get("atomic", False))
            type_.fields.update({field: self._type(inner) for field, inner in data["fields"].items()})
        return type_

    def _type(self, data: Any) -> Type:
        match data:
            case str():
                return self.definition(data[1:]) if data.startswith("#") else _SIGNS[data]
            case {"items": items}:
                return Items(items=self._type(items), keys=data.get("keys"))
            case {"each": each}:
                return Members(fields={}, each=self._type(each), is_atomic=data.get("atomic", False))
            case _:
                fields = {field: self._type(inner) for field, inner in data["fields"].items()}
                return Members(fields=fields, is_atomic=data.get("atomic", False))


@cache
def _built_in() -> _BuiltIn:
    data = pkgutil.get_data(__package__, "built_in_types.json")
    return _BuiltIn(msgspec.json.decode(data or b""))


def custom_type(schema: JsonObject) -> Type:
    """Return the merge type of a custom resource from the schema of its CRD."""
    type_ = type_of_schema({**schema, "x-kubernetes-embedded-resource": True})
    # Without an object schema only the metadata is known.
    return type_ if isinstance(type_, Members) else Members(fields=_resource_fields(), each=DEDUCED)


def type_of_schema(schema: JsonObject) -> Type:
    if schema.get("x-kubernetes-int-or-string"):
        return VALUE
    is_verbatim = bool(schema.get(_VERBATIM))
    match schema.get("type"):
        case "array":
            return _list_of_schema(schema)
        case "object":
            return _object_of_schema(schema, is_verbatim)
        case None:
            return DEDUCED if is_verbatim else ANYTHING
        case other:
            return _SCALARS[other]


def _list_of_schema(schema: JsonObject) -> Type:
    items = schema.get("items") or {}
    type_ = type_of_schema(items)
    match schema.get("x-kubernetes-list-type"):
        case "map":
            fields = items.get("properties") or {}
            names = schema.get("x-kubernetes-list-map-keys") or ()
            return Items(items=type_, keys={name: fields.get(name, {}).get("default") for name in names})
        case "set":
            return Items(items=type_, keys={})
        case _:
            return Items(items=type_)


def _object_of_schema(schema: JsonObject, is_verbatim: bool) -> Type:
    is_atomic = schema.get("x-kubernetes-map-type") == "atomic"
    fields = {name: type_of_schema(inner) for name, inner in (schema.get("properties") or {}).items()}
    if schema.get("x-kubernetes-embedded-resource"):
        fields |= _resource_fields()
    values = schema.get("additionalProperties")
    if isinstance(values, dict):
        return Members(fields=fields, each=type_of_schema(values), is_atomic=is_atomic)
    if is_verbatim or values is True:
        return Members(fields=fields, each=DEDUCED, is_atomic=is_atomic) if fields else DEDUCED
    return Members(fields=fields, is_atomic=is_atomic) if fields else ANYTHING


def _resource_fields() -> "dict[str, Type]":
    return {"apiVersion": TEXT, "kind": TEXT, "metadata": _built_in().definition("ObjectMeta")}

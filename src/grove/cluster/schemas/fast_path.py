"""Fast path of schema validation: checks with one msgspec call that a value is valid and needs no pruning or defaults.

Schemas that msgspec types cannot express have no fast path; their values take the slow path (`pruning_defaulting.py`,
`schema_validation.py`).
"""

import re
from contextlib import suppress
from datetime import datetime
from types import GenericAlias
from typing import Annotated, Any, Literal

import msgspec

from grove.api.types.meta import JsonObject
from grove.cluster.schemas.formats import is_known_format
from grove.cluster.schemas.keywords import (
    DISTINCT,
    EMBEDDED,
    INT_OR_STRING,
    LIST_TYPE,
    MAP_KEYS,
    PRESERVE,
    key_of,
)
from grove.cluster.schemas.regex_match import is_linear
from grove.cluster.schemas.regex_translate import translate_pattern

_BOUNDS = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
_ALTERNATIVES = ("allOf", "anyOf", "oneOf", "not")


class SchemaType(msgspec.Struct, frozen=True, kw_only=True):
    """A schema as a msgspec type that accepts values which are valid unchanged, and its lists with unique items."""

    type: Any
    keyed: "Keyed | None"

    def fits(self, value: Any) -> bool:
        try:
            msgspec.convert(value, self.type)
        except (msgspec.ValidationError, RecursionError):
            return False
        return self.keyed is None or self.keyed.is_distinct(value)


class Keyed(msgspec.Struct, frozen=True, kw_only=True):
    """The places of lists with unique items in a value."""

    # Of a list: its map keys, () if items are unique by value, None if items may repeat; and what is in items.
    keys: tuple[str, ...] | None = None
    items: "Keyed | None" = None
    # Of an object.
    fields: dict[str, "Keyed"] = {}
    # Of a map: the lists in its values.
    values: "Keyed | None" = None

    def is_distinct(self, value: Any) -> bool:
        """Return whether all such lists have unique items. The value must have the right type."""
        if isinstance(value, dict):
            if self.values is not None:
                return all(self.values.is_distinct(inner) for inner in value.values())
            return all(inner.is_distinct(value[field]) for field, inner in self.fields.items() if field in value)
        if not isinstance(value, list):
            return True
        if self.keys is not None and len({key_of(item, self.keys) for item in value}) < len(value):
            return False
        return self.items is None or all(self.items.is_distinct(item) for item in value)


class NoFastPathError(Exception):
    """No msgspec type can express this schema."""


class TypeBuilder:
    """A builder of msgspec types. Shared parts of a schema, as in a podSpec, share their type."""

    def __init__(self) -> None:
        # The schema is kept with its type, because the id of a collected object may be reused.
        self._types: dict[int, tuple[JsonObject, Any]] = {}

    def build(self, schema: JsonObject) -> SchemaType | None:
        """Return the type of the schema, or None if it needs the slow path."""
        try:
            type_ = self._of(schema)
            _check_type(type_)
            return SchemaType(type=type_, keyed=_find_keyed(schema))
        except (NoFastPathError, TypeError, ValueError):
            return None

    def _of(self, schema: JsonObject) -> Any:
        found = self._types.get(id(schema))
        if found is None:
            found = self._types[id(schema)] = (schema, self._type(schema))
        return found[1]

    def _type(self, schema: JsonObject) -> Any:
        if any(word in schema for word in _ALTERNATIVES) or schema.get(EMBEDDED):
            raise NoFastPathError
        plain = self._plain_type(schema)
        return plain | None if schema.get("nullable") else plain

    def _plain_type(self, schema: JsonObject) -> Any:
        if schema.get(INT_OR_STRING):
            return int | _text_type(schema)
        match schema.get("type"):
            case None:
                return Any
            case "object":
                return self._object_type(schema)
            case "array":
                items = GenericAlias(list, (self._of(schema["items"]),))
                return _with_limits(items, schema, min_length="minItems", max_length="maxItems")
            case "string":
                return _text_type(schema)
            case "integer" if "enum" in schema:
                return Literal[tuple(schema["enum"])]
            case "integer":
                return _integer_type(schema)
            case "number":
                return _number_type(schema)
            case _:
                return bool

    def _object_type(self, schema: JsonObject) -> Any:
        additional, properties = schema.get("additionalProperties"), schema.get("properties")
        if schema.get(PRESERVE) and not properties:
            return _with_limits(dict, schema, min_length="minProperties", max_length="maxProperties")
        if isinstance(additional, dict):
            values = GenericAlias(dict, (str, self._of(additional)))
            return _with_limits(values, schema, min_length="minProperties", max_length="maxProperties")
        if schema.get(PRESERVE) or additional is not None or "minProperties" in schema or "maxProperties" in schema:
            raise NoFastPathError
        return self._struct(schema)

    def _struct(self, schema: JsonObject) -> type[msgspec.Struct]:
        """Return a struct that rejects unknown fields. Required fields and fields with a default must be present."""
        fields: list[Any] = []
        for index, (name, inner) in enumerate(schema.get("properties", {}).items()):
            if name in schema.get("required", ()) or "default" in inner:
                fields.append((f"f{index}", self._of(inner)))
            else:
                fields.append((f"f{index}", self._of(inner) | msgspec.UnsetType, msgspec.UNSET))
        names = {f"f{index}": name for index, name in enumerate(schema.get("properties", {}))}
        return msgspec.defstruct("Fitting", fields, kw_only=True, forbid_unknown_fields=True, rename=names, gc=False)


def _check_type(type_: Any) -> None:
    """Raise `TypeError` now instead of with the first value: an empty enum, or types that msgspec cannot express."""
    with suppress(msgspec.ValidationError):
        msgspec.convert(None, type_)


def _text_type(schema: JsonObject) -> Any:
    if "enum" in schema:
        return Literal[tuple(schema["enum"])]
    form = schema.get("format", "")
    if form == "date-time":
        return datetime
    if form and is_known_format(form):
        raise NoFastPathError
    limits: dict[str, Any] = {mine: schema[theirs] for mine, theirs in _LENGTHS.items() if theirs in schema}
    if "pattern" in schema:
        if not is_linear(schema["pattern"]):
            raise NoFastPathError
        limits["pattern"] = _inline(translate_pattern(schema["pattern"]))
    return Annotated[str, msgspec.Meta(**limits)]


def _inline(pattern: str) -> str:
    """Return the pattern with its flags inline: msgspec compiles it without flags."""
    try:
        return re.compile(f"(?a:{pattern})").pattern
    except re.error:
        raise NoFastPathError from None


_LENGTHS = {"min_length": "minLength", "max_length": "maxLength"}


def _integer_type(schema: JsonObject) -> Any:
    lowest, highest = _BOUNDS.get(schema.get("format", "int64"), _BOUNDS["int64"])
    if schema.get("exclusiveMinimum") or schema.get("exclusiveMaximum"):
        raise NoFastPathError
    limits: dict[str, Any] = {
        "ge": max(lowest, schema.get("minimum", lowest)),
        "le": min(highest, schema.get("maximum", highest)),
    }
    if "multipleOf" in schema:
        limits["multiple_of"] = schema["multipleOf"]
    return Annotated[int, msgspec.Meta(**limits)]


def _number_type(schema: JsonObject) -> Any:
    if any(word in schema for word in ("minimum", "maximum", "multipleOf", "enum")):
        raise NoFastPathError
    return float


def _with_limits(type_: Any, schema: JsonObject, **message: str) -> Any:
    limits: dict[str, Any] = {mine: schema[theirs] for mine, theirs in message.items() if theirs in schema}
    return Annotated[type_, msgspec.Meta(**limits)] if limits else type_


def _find_keyed(schema: JsonObject) -> Keyed | None:
    """Return the lists with unique items, or None if there are none."""
    fields = {name: found for name, inner in schema.get("properties", {}).items() if (found := _find_keyed(inner))}
    items = _find_keyed(schema["items"]) if isinstance(schema.get("items"), dict) else None
    additional = schema.get("additionalProperties")
    values = _find_keyed(additional) if isinstance(additional, dict) else None
    keys = tuple(schema.get(MAP_KEYS, ())) if schema.get(LIST_TYPE) in DISTINCT else None
    if not fields and items is None and values is None and keys is None:
        return None
    return Keyed(keys=keys, items=items, fields=fields, values=values)

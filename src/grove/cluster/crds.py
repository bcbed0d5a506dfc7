"""Our custom kinds as a server sees them: what a CustomResourceDefinition says, made ready for use.

A structural schema is compiled once. An object that conforms is recognised in one quick pass and stored as it is; only
for others is the slow pass taken, which prunes unknown fields and nulls, fills in defaults, and names what is wrong.
Not here: rules over several fields in CEL (admission checks those), and built-in kinds, whose unknown fields are kept.
"""

import re
from datetime import datetime
from functools import cache
from types import GenericAlias
from typing import Annotated, Any, Literal

import msgspec

from grove.api.crds import custom_resource_definitions
from grove.api.fielderrors import (
    ErrorKind,
    FieldError,
    duplicate,
    invalid,
    not_supported,
    required,
    type_invalid,
)
from grove.api.meta import JsonObject

_BOUNDS = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
_TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool,
}  # fmt: skip
_VERBATIM = "x-kubernetes-preserve-unknown-fields"
_INT_OR_STRING = "x-kubernetes-int-or-string"
# Types of lists whose items must differ.
_DISTINCT = ("map", "set")
# The server's own business, whatever a schema says.
_ALWAYS_KNOWN = ("apiVersion", "kind", "metadata")


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """One printer column, as the definition has it."""

    name: str
    type: str
    json_path: str
    priority: int
    description: str


class Conformed(msgspec.Struct, frozen=True):
    """An object made to fit its schema, as far as that goes: what was pruned, and what is wrong with the rest."""

    obj: JsonObject
    unknown: tuple[str, ...] = ()
    errors: tuple[FieldError, ...] = ()


class CustomKind(msgspec.Struct, frozen=True, kw_only=True):
    schema: JsonObject
    short_names: tuple[str, ...]
    categories: tuple[str, ...]
    columns: tuple[Column, ...]
    # Of spec, status and whatever else is there.
    shapes: dict[str, "Shape"]

    def conformed(self, obj: JsonObject, old: JsonObject | None = None) -> Conformed:
        """Parts shared with `old` are not looked at again; what was wrong in it before is not held against `obj`."""
        if self._is_clean(obj, old or {}):
            return Conformed(obj)
        findings = _Findings()
        result = findings.object(obj, self.schema, "")
        assert isinstance(result, dict)
        errors = tuple(findings.errors)
        if errors and old is not None:
            before = _Findings()
            before.object(old, self.schema, "")
            errors = tuple(error for error in errors if error not in before.errors)
        return Conformed(result, tuple(findings.unknown), errors)

    def _is_clean(self, obj: JsonObject, old: JsonObject) -> bool:
        for field, value in obj.items():
            if field in _ALWAYS_KNOWN:
                continue
            shape = self.shapes.get(field)
            if shape is None or not (value is old.get(field) or shape.fits(value)):
                return False
        return all(field in obj for field in self.schema.get("required", ()))


@cache
def custom_kinds() -> dict[str, CustomKind]:
    """By the definition's name: plural and group."""
    types = _Types()
    found = custom_resource_definitions()
    return {definition["metadata"]["name"]: _custom_kind(definition["spec"], types) for definition in found}


def _custom_kind(spec: JsonObject, types: "_Types") -> CustomKind:
    version = spec["versions"][0]
    schema = version["schema"]["openAPIV3Schema"]
    return CustomKind(
        schema=schema,
        short_names=tuple(spec["names"].get("shortNames", ())),
        categories=tuple(spec["names"].get("categories", ())),
        columns=tuple(_column(column) for column in version["additionalPrinterColumns"]),
        shapes={
            field: Shape(type=types.of(inner), keyed=_keyed(inner))
            for field, inner in schema["properties"].items()
            if field not in _ALWAYS_KNOWN
        },
    )


def _column(column: JsonObject) -> Column:
    return Column(
        name=column["name"],
        type=column["type"],
        json_path=column["jsonPath"],
        priority=column.get("priority", 0),
        description=column.get("description", ""),
    )


# The quick pass: does this value conform, with nothing to prune, to fill in or to blame? Asked of msgspec, in one call


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """A schema as a type that accepts what conforms as it is; and the lists whose items must differ in their keys."""

    type: Any
    keyed: "Keyed | None"

    def fits(self, value: Any) -> bool:
        try:
            msgspec.convert(value, self.type)
        except (msgspec.ValidationError, RecursionError):
            return False
        return self.keyed is None or self.keyed.is_distinct(value)


class Keyed(msgspec.Struct, frozen=True, kw_only=True):
    """Where inside a value such lists are: a walk meets only what is there."""

    # Of a list: the fields by which an item is known, or () if by itself, None if items may repeat; what is in items.
    keys: tuple[str, ...] | None = None
    items: "Keyed | None" = None
    # Of an object.
    fields: dict[str, "Keyed"] = {}

    def is_distinct(self, value: Any) -> bool:
        """Of a value that has the right type."""
        if isinstance(value, dict):
            return all(inner.is_distinct(value[field]) for field, inner in self.fields.items() if field in value)
        if self.keys is not None and len({_key_of(item, self.keys) for item in value}) < len(value):
            return False
        return self.items is None or all(self.items.is_distinct(item) for item in value)


class _Types:
    """Makes types of schemas. Parts of a schema that are shared, as those of a podSpec are, share their type."""

    def __init__(self) -> None:
        # The schema is kept beside its type: an identity means nothing once its object is gone.
        self._made: dict[int, tuple[JsonObject, Any]] = {}

    def of(self, schema: JsonObject) -> Any:
        made = self._made.get(id(schema))
        if made is None:
            made = self._made[id(schema)] = (schema, self._type(schema))
        return made[1]

    def _type(self, schema: JsonObject) -> Any:
        match schema.get("type"):
            case None:
                return int | _text_type(schema)
            case "object" if schema.get(_VERBATIM):
                return dict
            case "object" if isinstance(schema.get("additionalProperties"), dict):
                return GenericAlias(dict, (str, self.of(schema["additionalProperties"])))
            case "object":
                return self._struct(schema)
            case "array":
                items = GenericAlias(list, (self.of(schema["items"]),))
                return Annotated[items, msgspec.Meta(min_length=schema.get("minItems", 0))]
            case "string":
                return _text_type(schema)
            case "integer":
                lowest, highest = _BOUNDS[schema.get("format", "int64")]
                return Annotated[int, msgspec.Meta(ge=max(lowest, schema.get("minimum", lowest)), le=highest)]
            case "number":
                return float
            case _:
                return bool

    def _struct(self, schema: JsonObject) -> type[msgspec.Struct]:
        """Unknown fields do not fit; required ones and those with a default must be there."""
        fields: list[Any] = []
        for index, (name, inner) in enumerate(schema.get("properties", {}).items()):
            if name in schema.get("required", ()) or "default" in inner:
                fields.append((f"f{index}", self.of(inner)))
            else:
                fields.append((f"f{index}", self.of(inner) | msgspec.UnsetType, msgspec.UNSET))
        names = {f"f{index}": name for index, name in enumerate(schema.get("properties", {}))}
        return msgspec.defstruct("Fitting", fields, kw_only=True, forbid_unknown_fields=True, rename=names, gc=False)


def _text_type(schema: JsonObject) -> Any:
    if "enum" in schema:
        return Literal[tuple(schema["enum"])]
    if schema.get("format") == "date-time":
        return datetime
    limits = {"min_length": "minLength", "max_length": "maxLength", "pattern": "pattern"}
    return Annotated[str, msgspec.Meta(**{mine: schema[theirs] for mine, theirs in limits.items() if theirs in schema})]


def _keyed(schema: JsonObject) -> Keyed | None:
    """None: there is no such list in it."""
    fields = {name: found for name, inner in schema.get("properties", {}).items() if (found := _keyed(inner))}
    items = _keyed(schema["items"]) if "items" in schema else None
    keys = _keys(schema) if schema.get("x-kubernetes-list-type") in _DISTINCT else None
    return Keyed(keys=keys, items=items, fields=fields) if fields or items or keys is not None else None


def _keys(schema: JsonObject) -> tuple[str, ...]:
    return tuple(schema.get("x-kubernetes-list-map-keys", ()))


def _key_of(item: Any, keys: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(str(item.get(key)) for key in keys) if keys else (item,)


# The slow pass: the same questions, asked one by one


class _Findings:
    """Collects what the slow pass meets; its methods return the value as it should be stored."""

    def __init__(self) -> None:
        self.unknown: list[str] = []
        self.errors: list[FieldError] = []

    def value(self, value: Any, schema: JsonObject, path: str) -> Any:
        if not _is_of_type(value, schema):
            shown = type_name(value)
            detail = f'{_inside(path)} in body must be of type {schema.get("type", "integer,string")}: "{shown}"'
            self.errors.append(type_invalid(path, shown, detail))
            return value
        match schema.get("type", type_name(value)):
            case "object" if schema.get(_VERBATIM):
                return value
            case "object":
                return self.object(value, schema, path)
            case "array":
                return self.array(value, schema, path)
            case "string":
                self.errors += _text_errors(value, schema, path)
            case "integer":
                self.errors += _integer_errors(value, schema, path)
        return value

    def object(self, value: JsonObject, schema: JsonObject, path: str) -> JsonObject:
        values = schema.get("additionalProperties")
        if isinstance(values, dict):
            return {key: self.value(item, values, f"{path}.{key}") for key, item in value.items() if item is not None}
        known = schema.get("properties", {})
        result: JsonObject = {}
        for field, item in value.items():
            where = f"{path}.{field}" if path else field
            if not path and field in _ALWAYS_KNOWN:
                result[field] = item
            elif field not in known:
                self.unknown.append(where)
            elif item is not None:
                result[field] = self.value(item, known[field], where)
        for field, inner in known.items():
            if "default" in inner and field not in result:
                result[field] = inner["default"]
        for field in schema.get("required", ()):
            if field not in result:
                self.errors.append(required(f"{path}.{field}" if path else field, ""))
        return result

    def array(self, value: list[Any], schema: JsonObject, path: str) -> list[Any]:
        fewest = schema.get("minItems", 0)
        if len(value) < fewest:
            self.errors.append(invalid(path, len(value), f"{path} in body should have at least {fewest} items"))
        result = [self.value(item, schema["items"], f"{path}[{index}]") for index, item in enumerate(value)]
        if schema.get("x-kubernetes-list-type") in _DISTINCT:
            self._name_duplicates(result, _keys(schema), path)
        return result

    def _name_duplicates(self, items: list[Any], keys: tuple[str, ...], path: str) -> None:
        seen: dict[tuple[Any, ...], None] = {}
        for index, item in enumerate(items):
            if isinstance(item, dict) != bool(keys) or isinstance(item, list):
                # Of another type than it should be, and blamed for that.
                continue
            key = _key_of(item, keys)
            if key in seen:
                shown = {name: item.get(name) for name in keys} if keys else item
                self.errors.append(duplicate(f"{path}[{index}]", shown, ""))
            seen[key] = None


def _inside(path: str) -> str:
    """A status is written by itself, so the types of its fields are named from there."""
    return path.removeprefix("status.")


def _text_errors(value: str, schema: JsonObject, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if "enum" in schema and value not in schema["enum"]:
        errors.append(not_supported(path, value, tuple(schema["enum"])))
    if len(value) < schema.get("minLength", 0):
        errors.append(invalid(path, value, f"{path} in body should be at least {schema['minLength']} chars long"))
    if len(value) > schema.get("maxLength", len(value)):
        detail = f"may not be more than {schema['maxLength']} bytes"
        errors.append(FieldError(path=path, kind=ErrorKind.TOO_LONG, detail=detail))
    if "pattern" in schema and not re.search(schema["pattern"], value):
        errors.append(invalid(path, value, f"{path} in body should match '{schema['pattern']}'"))
    if schema.get("format") == "date-time" and not _is_time(value):
        errors.append(type_invalid(path, value, f'{_inside(path)} in body must be of type date-time: "{value}"'))
    return errors


def _is_time(text: str) -> bool:
    try:
        msgspec.convert(text, datetime)
    except msgspec.ValidationError:
        return False
    return True


def _integer_errors(value: int, schema: JsonObject, path: str) -> list[FieldError]:
    form = schema.get("format", "int64")
    lowest, highest = _BOUNDS[form]
    if not lowest <= value <= highest:
        return [invalid(path, value, f"{path} in body must be of type {form}")]
    if value < schema.get("minimum", value):
        return [invalid(path, value, f"{path} in body should be greater than or equal to {schema['minimum']}")]
    return []


def _is_of_type(value: Any, schema: JsonObject) -> bool:
    if isinstance(value, bool):
        return schema.get("type") == "boolean"
    return isinstance(value, (int, str) if schema.get(_INT_OR_STRING) else _TYPES[schema["type"]])


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

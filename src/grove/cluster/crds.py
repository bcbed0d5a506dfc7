"""Our custom kinds as a server sees them: what a CustomResourceDefinition says, made ready for use.

A structural schema is compiled once. An object that conforms is recognised in one quick pass and stored as it is; only
for others is the slow pass taken, which prunes unknown fields, fills in defaults, and names what is wrong.
Not here: rules over several fields in CEL (admission checks those), and built-in kinds, whose unknown fields are kept.
"""

import re
from collections.abc import Callable
from functools import cache
from typing import Any

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
    checks: dict[str, "Check"]

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
            check = self.checks.get(field)
            if check is None or not (value is old.get(field) or check(value)):
                return False
        return all(field in obj for field in self.schema.get("required", ()))


@cache
def custom_kinds() -> dict[str, CustomKind]:
    """By the definition's name: plural and group."""
    return {definition["metadata"]["name"]: _custom_kind(definition["spec"]) for definition in _definitions()}


@cache
def _definitions() -> tuple[JsonObject, ...]:
    return custom_resource_definitions()


def _custom_kind(spec: JsonObject) -> CustomKind:
    version = spec["versions"][0]
    schema = version["schema"]["openAPIV3Schema"]
    return CustomKind(
        schema=schema,
        short_names=tuple(spec["names"].get("shortNames", ())),
        categories=tuple(spec["names"].get("categories", ())),
        columns=tuple(_column(column) for column in version["additionalPrinterColumns"]),
        checks={
            field: _check_of(inner) for field, inner in schema["properties"].items() if field not in _ALWAYS_KNOWN
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


# The quick pass: does this value conform, with nothing to prune, to fill in or to blame?

Check = Callable[[Any], bool]


def _check_of(schema: JsonObject) -> Check:
    match schema["type"]:
        case "object" if schema.get(_VERBATIM):
            return lambda value: type(value) is dict
        case "object" if "properties" in schema:
            return _fields_check(schema)
        case "object":
            return _map_check(schema)
        case "array":
            return _list_check(schema)
        case "string":
            return _text_check(schema)
        case "integer":
            return _integer_check(schema)
        case "number":
            return lambda value: type(value) is float or type(value) is int
        case _:
            return lambda value: type(value) is bool


def _fields_check(schema: JsonObject) -> Check:
    properties = schema["properties"]
    checks = {field: _check_of(inner) for field, inner in properties.items()}
    expected = tuple({**dict.fromkeys(schema.get("required", ())), **{f: None for f in properties if _has_default(properties[f])}})  # fmt: skip

    def check(value: Any) -> bool:
        if type(value) is not dict:
            return False
        for field in expected:
            if field not in value:
                return False
        for field, item in value.items():
            inner = checks.get(field)
            if inner is None or not inner(item):
                return False
        return True

    return check


def _has_default(schema: JsonObject) -> bool:
    return "default" in schema


def _map_check(schema: JsonObject) -> Check:
    values = schema.get("additionalProperties")
    inner = _check_of(values) if isinstance(values, dict) else None

    def check(value: Any) -> bool:
        if type(value) is not dict:
            return False
        if inner is None:
            # An object without any known field: whatever is in it would be pruned.
            return not value
        return all(map(inner, value.values()))

    return check


def _list_check(schema: JsonObject) -> Check:
    inner = _check_of(schema["items"])
    keys = tuple(schema.get("x-kubernetes-list-map-keys", ()))
    fewest = schema.get("minItems", 0)

    def check(value: Any) -> bool:
        if type(value) is not list or len(value) < fewest:
            return False
        for item in value:
            if not inner(item):
                return False
        return not keys or len(value) < 2 or len({_key_of(item, keys) for item in value}) == len(value)

    return check


def _key_of(item: JsonObject, keys: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(str(item.get(key)) for key in keys)


def _text_check(schema: JsonObject) -> Check:
    if not schema.keys() & {"enum", "minLength", "maxLength", "pattern"}:
        return lambda value: type(value) is str
    return lambda value: type(value) is str and not _text_errors(value, schema, "")


def _integer_check(schema: JsonObject) -> Check:
    lowest, highest = _BOUNDS[schema.get("format", "int64")]
    lowest = max(lowest, schema.get("minimum", lowest))
    return lambda value: type(value) is int and lowest <= value <= highest


# The slow pass: the same questions, asked one by one


class _Findings:
    """Collects what the slow pass meets; its methods return the value as it should be stored."""

    def __init__(self) -> None:
        self.unknown: list[str] = []
        self.errors: list[FieldError] = []

    def value(self, value: Any, schema: JsonObject, path: str) -> Any:
        expected = schema["type"]
        if not isinstance(value, _TYPES[expected]) or (isinstance(value, bool) and expected != "boolean"):
            shown = _type_name(value)
            detail = f'{path} in body must be of type {expected}: "{shown}"'
            self.errors.append(type_invalid(path, shown, detail))
            return value
        match expected:
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
            return {key: self.value(item, values, f"{path}.{key}") for key, item in value.items()}
        known = schema.get("properties", {})
        result: JsonObject = {}
        for field, item in value.items():
            where = f"{path}.{field}" if path else field
            if not path and field in _ALWAYS_KNOWN:
                result[field] = item
            elif field not in known:
                self.unknown.append(where)
            elif item is not None or "default" not in known[field]:
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
        if keys := tuple(schema.get("x-kubernetes-list-map-keys", ())):
            self._name_duplicates(result, keys, path)
        return result

    def _name_duplicates(self, items: list[Any], keys: tuple[str, ...], path: str) -> None:
        seen: dict[tuple[Any, ...], None] = {}
        for index, item in enumerate(items):
            if not isinstance(item, dict):
                continue
            key = _key_of(item, keys)
            if key in seen:
                shown = {name: item.get(name) for name in keys}
                self.errors.append(duplicate(f"{path}[{index}]", shown, ""))
            seen[key] = None


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
    return errors


def _integer_errors(value: int, schema: JsonObject, path: str) -> list[FieldError]:
    form = schema.get("format", "int64")
    lowest, highest = _BOUNDS[form]
    if not lowest <= value <= highest:
        return [invalid(path, value, f"{path} in body must be of type {form}")]
    if value < schema.get("minimum", value):
        return [invalid(path, value, f"{path} in body should be greater than or equal to {schema['minimum']}")]
    return []


def _type_name(value: Any) -> str:
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

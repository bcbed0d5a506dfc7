"""Validation of structural schemas in CRDs, with the error texts of a real API server.

A structural schema specifies the type of every part outside of `allOf` and the like. CEL rules:
`cel_rule_validation.py`.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from grove.api.types.meta import JsonObject
from grove.api.validation.field_errors import ErrorKind, FieldError, forbidden, invalid, not_supported, required
from grove.cluster.schemas.cel_rule_validation import validate_default, validate_rules
from grove.cluster.schemas.keywords import (
    EMBEDDED,
    INT_OR_STRING,
    LIST_TYPE,
    MAP_KEYS,
    MAP_TYPE,
    PRESERVE,
    VALIDATIONS,
)
from grove.cluster.schemas.pruning_defaulting import PruningPass
from grove.cluster.schemas.regex_match import find_pattern_error
from grove.cluster.schemas.schema_validation import NO_PATH, validate_value

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_SCALARS = ("boolean", "integer", "number", "string")
_ALTERNATIVES = ("allOf", "anyOf", "oneOf")
_UNSUPPORTED = ("id", "patternProperties", "dependencies", "definitions", "$ref")
# Keywords that are forbidden inside of alternatives, and the value that they must have.
_OUTSIDE_ONLY = {
    "additionalProperties": "undefined",
    "default": "undefined",
    "description": "empty",
    "nullable": "false",
    "title": "empty",
    "type": "empty",
    EMBEDDED: "false",
    INT_OR_STRING: "false",
    LIST_TYPE: "undefined",
    MAP_KEYS: "empty",
    MAP_TYPE: "undefined",
    PRESERVE: "undefined",
    VALIDATIONS: "empty",
}
_HEAD = {"apiVersion": "string", "kind": "string", "metadata": "object"}
_KEYS_IN_METADATA = ("name", "generateName")


class SchemaShape(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of a schema, with their types."""

    type: str | None = None
    format: str | None = None
    title: str | None = None
    description: str | None = None
    pattern: str | None = None
    properties: "dict[str, SchemaShape] | None" = None
    items: "SchemaShape | list[SchemaShape] | None" = None
    additional_properties: "SchemaShape | bool | None" = None
    required: list[str] | None = None
    enum: list[Any] | None = None
    minimum: float | None = None
    maximum: float | None = None
    exclusive_minimum: bool | None = None
    exclusive_maximum: bool | None = None
    multiple_of: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    min_items: int | None = None
    max_items: int | None = None
    unique_items: bool | None = None
    min_properties: int | None = None
    max_properties: int | None = None
    nullable: bool | None = None
    all_of: "list[SchemaShape] | None" = None
    any_of: "list[SchemaShape] | None" = None
    one_of: "list[SchemaShape] | None" = None
    not_: "SchemaShape | None" = msgspec.field(default=None, name="not")
    preserve: bool | None = msgspec.field(default=None, name=PRESERVE)
    embedded: bool | None = msgspec.field(default=None, name=EMBEDDED)
    int_or_string: bool | None = msgspec.field(default=None, name=INT_OR_STRING)
    list_type: str | None = msgspec.field(default=None, name=LIST_TYPE)
    map_keys: list[str] | None = msgspec.field(default=None, name=MAP_KEYS)
    map_type: str | None = msgspec.field(default=None, name=MAP_TYPE)
    validations: "list[RuleShape] | None" = msgspec.field(default=None, name=VALIDATIONS)


class RuleShape(msgspec.Struct, frozen=True, rename="camel"):
    rule: str = ""
    message: str | None = None
    message_expression: str | None = None
    reason: str | None = None
    field_path: str | None = None
    optional_old_self: bool | None = None


def validate_structural_schema(schema: JsonObject, path: str) -> list[FieldError]:
    """Return the errors of the schema of a whole object, whose types are right."""
    errors = list(_validate_keywords(schema, path))
    if any(error.path.endswith((".$ref", ".items")) and error.kind is ErrorKind.FORBIDDEN for error in errors):
        # Such a schema cannot be parsed any further.
        return errors
    structure = [*_validate_root(schema, path), *_validate_structure(schema, path, is_root=True)]
    errors += structure
    if not structure:
        errors += _validate_defaults(schema, path, is_root=True)
    if not errors:
        errors += validate_rules(schema, path)
    return errors


def _parts(schema: JsonObject, path: str) -> Iterator[tuple[JsonObject, str]]:
    """Yield the nested schemas with their paths, without those in alternatives."""
    for name, inner in schema.get("properties", {}).items():
        yield inner, f"{path}.properties[{name}]"
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), dict):
            yield schema[word], f"{path}.{word}"


def _alternatives(schema: JsonObject, path: str) -> Iterator[tuple[JsonObject, str]]:
    for word in _ALTERNATIVES:
        for index, inner in enumerate(schema.get(word, ())):
            yield inner, f"{path}.{word}[{index}]"
    if "not" in schema:
        yield schema["not"], f"{path}.not"


# Invalid keywords


def _validate_keywords(schema: JsonObject, path: str) -> Iterator[FieldError]:
    for word in _UNSUPPORTED:
        if schema.get(word):
            yield forbidden(f"{path}.{word}", f"{word} is not supported")
    if schema.get("uniqueItems"):
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden(f"{path}.uniqueItems", detail)
    if schema.get("properties") and schema.get("additionalProperties") is not None:
        detail = "additionalProperties and properties are mutual exclusive"
        yield forbidden(f"{path}.additionalProperties", detail)
    yield from _validate_type_keywords(schema, path)
    if isinstance(pattern := schema.get("pattern"), str) and (error_message := find_pattern_error(pattern)):
        detail = f"must be a valid regular expression, but isn't: error parsing regexp: {error_message}"
        yield invalid(f"{path}.pattern", pattern, detail)
    if schema.get(PRESERVE) is False:
        yield invalid(f"{path}.{PRESERVE}", False, "must be true or undefined")
    yield from _validate_map_type(schema, path)
    yield from _validate_list_type(schema, path)
    for inner, where in (*_parts(schema, path), *_alternatives(schema, path)):
        yield from _validate_keywords(inner, where)


def _validate_type_keywords(schema: JsonObject, path: str) -> Iterator[FieldError]:
    type_ = schema.get("type")
    if type_ and type_ not in _TYPES:
        yield not_supported(f"{path}.type", type_, _TYPES)
    if isinstance(schema.get("items"), list):
        yield forbidden(f"{path}.items", "items must be a schema object and not an array")
    elif type_ == "array" and not isinstance(schema.get("items"), dict):
        yield required(f"{path}.items", "must be specified")


def _validate_map_type(schema: JsonObject, path: str) -> Iterator[FieldError]:
    map_type = schema.get(MAP_TYPE)
    if map_type is None:
        return
    if schema.get("type") != "object":
        yield _type_error(schema, path, f"must be object if {MAP_TYPE} is specified")
    if map_type not in ("atomic", "granular"):
        yield not_supported(f"{path}.{MAP_TYPE}", map_type, ("atomic", "granular"))


def _type_error(schema: JsonObject, path: str, detail: str) -> FieldError:
    type_ = schema.get("type")
    return invalid(f"{path}.type", type_, detail) if type_ else required(f"{path}.type", detail)


def _validate_list_type(schema: JsonObject, path: str) -> Iterator[FieldError]:
    list_type, keys = schema.get(LIST_TYPE), schema.get(MAP_KEYS) or []
    if list_type is not None and schema.get("type") != "array":
        yield _type_error(schema, path, f"must be array if {LIST_TYPE} is specified")
    if list_type not in (None, "atomic", "set", "map"):
        yield not_supported(f"{path}.{LIST_TYPE}", list_type, ("atomic", "set", "map"))
    if keys and list_type is None:
        yield required(f"{path}.{LIST_TYPE}", f"must be map if {MAP_KEYS} is non-empty")
    elif keys and list_type != "map":
        yield invalid(f"{path}.{LIST_TYPE}", list_type, f"must be map if {MAP_KEYS} is non-empty")
    items = schema.get("items")
    if list_type == "set" and isinstance(items, dict):
        yield from _validate_set_items(items, f"{path}.items")
    if list_type == "map":
        yield from _validate_map_items(schema, keys, path)


def _validate_set_items(items: JsonObject, path: str) -> Iterator[FieldError]:
    if items.get("nullable"):
        yield forbidden(f"{path}.nullable", f"cannot be nullable when {LIST_TYPE} is set")
    if items.get("type") == "object" and items.get(MAP_TYPE) != "atomic":
        detail = f"must be atomic as item of a list with {LIST_TYPE}=set"
        yield invalid(f"{path}.{MAP_TYPE}", items.get(MAP_TYPE), detail)
    if items.get("type") == "array" and items.get(LIST_TYPE) not in (None, "atomic"):
        detail = f"must be atomic as item of a list with {LIST_TYPE}=set"
        yield invalid(f"{path}.{LIST_TYPE}", items.get(LIST_TYPE), detail)


def _validate_map_items(schema: JsonObject, keys: list[str], path: str) -> Iterator[FieldError]:
    items = schema.get("items")
    if not keys:
        yield required(f"{path}.{MAP_KEYS}", f"must not be empty if {LIST_TYPE} is map")
    if not isinstance(items, dict):
        yield required(f"{path}.items", f"must have a schema if {LIST_TYPE} is map")
        return
    if items.get("type") != "object":
        yield invalid(f"{path}.items.type", items.get("type"), f"must be object if parent array's {LIST_TYPE} is map")
    properties, seen = items.get("properties", {}), dict.fromkeys(keys)
    for key in seen:
        inner, where = properties.get(key), f"{path}.items.properties[{key}]"
        if inner is None:
            continue
        if inner.get("type") not in _SCALARS:
            detail = f"must be a scalar type if parent array's {LIST_TYPE} is map"
            yield invalid(f"{where}.type", inner.get("type"), detail)
        elif key not in items.get("required", ()) and "default" not in inner:
            detail = f"this property is in {MAP_KEYS}, so it must have a default or be a required property"
            yield required(f"{where}.default", detail)
    if any(key not in properties for key in keys):
        yield invalid(f"{path}.{MAP_KEYS}", keys, "entries must all be names of item properties")
    if len(seen) < len(keys):
        yield invalid(f"{path}.{MAP_KEYS}", keys, "must not contain duplicate entries")


# Structure


def _validate_root(schema: JsonObject, path: str) -> Iterator[FieldError]:
    type_ = schema.get("type")
    if not type_:
        yield required(f"{path}.type", "must not be empty at the root")
    elif type_ != "object":
        yield invalid(f"{path}.type", type_, "must be object at the root")
    if schema.get("nullable"):
        yield forbidden(f"{path}.nullable", "nullable cannot be true at the root")


def _validate_structure(schema: JsonObject, path: str, *, is_root: bool = False) -> Iterator[FieldError]:
    if is_root or schema.get(EMBEDDED):
        yield from _validate_head(schema, path, is_root=is_root)
    if schema.get(EMBEDDED):
        yield from _validate_embedded(schema, path)
    if schema.get(INT_OR_STRING) and schema.get("type") not in (None, "", "integer", "string"):
        yield _type_error(schema, path, f"must be empty if {INT_OR_STRING} is true")
    for inner, where in _alternatives(schema, path):
        yield from _validate_alternative(inner, where, is_number_or_text=bool(schema.get(INT_OR_STRING)))
    for inner, where in _parts(schema, path):
        if not inner.get("type") and not inner.get(INT_OR_STRING) and not inner.get(PRESERVE):
            what = "specified array items" if where.endswith(".items") else "specified object fields"
            yield required(f"{where}.type", f"must not be empty for {what}")
        yield from _validate_structure(inner, where)


def _validate_head(schema: JsonObject, path: str, *, is_root: bool) -> Iterator[FieldError]:
    for field, type_ in _HEAD.items():
        inner = schema.get("properties", {}).get(field)
        where = f"{path}.properties[{field}]"
        if inner is None:
            continue
        if inner.get("type") != type_:
            yield invalid(f"{where}.type", inner.get("type"), f"must be {type_}")
        elif field == "metadata" and is_root:
            yield from _validate_metadata(inner, where)


def _validate_metadata(metadata: JsonObject, path: str) -> Iterator[FieldError]:
    properties = metadata.get("properties", {})
    allowed = {"type", "properties", "description"}
    if any(name not in _KEYS_IN_METADATA for name in properties) or not set(metadata) <= allowed:
        detail = "must not specify anything other than name and generateName, but metadata is implicitly specified"
        yield forbidden(path, detail)
    for name, inner in properties.items():
        if "default" in inner:
            yield forbidden(f"{path}.properties[{name}].default", "must not be set in top-level metadata")


def _validate_embedded(schema: JsonObject, path: str) -> Iterator[FieldError]:
    if not schema.get(PRESERVE) and not schema.get("properties"):
        detail = f"must not be empty if {EMBEDDED} is true without {PRESERVE}"
        yield required(f"{path}.properties", detail)
    if schema.get("type") != "object":
        yield _type_error(schema, path, f"must be object if {EMBEDDED} is true")


def _validate_alternative(schema: JsonObject, path: str, *, is_number_or_text: bool = False) -> Iterator[FieldError]:
    for word, wanted in _OUTSIDE_ONLY.items():
        if word not in schema or (schema[word] in (None, "", [], False) and wanted != "undefined"):
            continue
        if word == "type" and is_number_or_text and schema["type"] in ("integer", "string"):
            continue
        yield forbidden(f"{path}.{word}", f"must be {wanted} to be structural")
    for inner, where in (*_parts(schema, path), *_alternatives(schema, path)):
        if where != f"{path}.additionalProperties":
            yield from _validate_alternative(inner, where, is_number_or_text=is_number_or_text)


# Defaults


def _validate_defaults(schema: JsonObject, path: str, *, is_root: bool = False) -> Iterator[FieldError]:
    if schema.get("default") is not None:
        yield from _validate_one_default(schema, f"{path}.default", is_root=is_root)
    for inner, where in _parts(schema, path):
        yield from _validate_defaults(inner, where)


def _validate_one_default(schema: JsonObject, path: str, *, is_root: bool) -> Iterator[FieldError]:
    default = schema["default"]
    pruning = PruningPass()
    pruned = pruning.value(default, schema, "")
    if pruning.unknown:
        yield invalid(path, default, "must not have unknown fields")
        return
    if is_root and isinstance(default, dict):
        yield from (required(f"{path}.{field}", "") for field in ("apiVersion", "kind") if field not in default)
    found = validate_value(pruned, schema, "")
    for error in found or validate_default(pruned, schema):
        inside = "" if error.path == NO_PATH else error.path
        where = f"{path}.{inside}" if inside and not inside.startswith("[") else f"{path}{inside}"
        yield msgspec.structs.replace(error, path=where)

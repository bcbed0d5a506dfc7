"""Validate a JSON object against the schema of its kind: types, required fields, enumerations and bounds.

The API server checks the same with the CRDs; this check also works without an API server. Types of Kubernetes, such as
a podSpec, are left to the API server. Rules over several fields are in the other files.
"""

import re
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

import msgspec

from grove.api.resources import Resource
from grove.api.schema.crd_generator import own_schema
from grove.api.types.meta import HasMetadata, JsonObject, ObjectMeta
from grove.api.validation.field_errors import (
    FieldError,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
    type_invalid,
)

T = TypeVar("T", bound=HasMetadata)

_BOUNDS = {"int32": 2**31, "int64": 2**63}
_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}


class DecodedObject(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """A decoded object and its errors. `object` is None if it cannot be decoded."""

    object: T | None
    errors: tuple[FieldError, ...] = ()


def decode_object(resource: Resource[T], json: JsonObject) -> DecodedObject[T]:
    """Decode metadata and spec and validate them against the schema. Of the status, keep only phase and conditions."""
    spec_schema = own_schema(resource)["properties"]["spec"]
    errors = tuple(
        _errors(json["spec"], spec_schema, "spec") if "spec" in json else _missing_field_errors("spec", spec_schema)
    )
    relevant = {"metadata": json.get("metadata", {}), "spec": json.get("spec", {})}
    if status := _status_for_rules(json.get("status")):
        relevant["status"] = status
    try:
        decoded = msgspec.convert(relevant, type=resource.view)
    except msgspec.ValidationError as error:
        found = (*_metadata_errors(relevant["metadata"]), *errors)
        return DecodedObject(object=None, errors=found or (decoding_error(error),))
    return DecodedObject(object=decoded, errors=errors)


def _status_for_rules(status: object) -> JsonObject:
    """Return the parts of a status that rules use. A damaged status is no reason to reject a spec."""
    if not isinstance(status, dict):
        return {}
    phase, conditions = status.get("phase"), status.get("conditions")
    relevant: JsonObject = {"phase": phase} if isinstance(phase, str) else {}
    valid = [
        {"type": condition["type"], "status": condition["status"]}
        for condition in (conditions if isinstance(conditions, list) else ())
        if isinstance(condition, dict)
        and isinstance(condition.get("type"), str)
        and isinstance(condition.get("status"), str)
    ]
    return {**relevant, "conditions": valid} if valid else relevant


def _metadata_errors(metadata: object) -> Iterator[FieldError]:
    """Return the first decoding error of metadata, which the schema does not cover."""
    try:
        msgspec.convert(metadata, type=ObjectMeta)
    except msgspec.ValidationError as error:
        yield decoding_error(error, "metadata")


def decoding_error(error: msgspec.ValidationError, at: str = "") -> FieldError:
    """Convert a decoder's error, which ends in "- at `$.path`", to a field error."""
    text, _, place = str(error).partition(" - at `")
    path = at + place.rstrip("`").partition("$")[2].replace("[...]", "")
    return type_invalid(path.lstrip(".") or "metadata", None, text.replace("`", ""))


def _errors(value: Any, schema: JsonObject, path: str) -> Iterator[FieldError]:
    expected = schema["type"]
    if type(value) not in _TYPES[expected]:
        yield type_invalid(path, value, f"must be of type {expected}")
        return
    match expected:
        case "object" if not schema.get("x-kubernetes-preserve-unknown-fields"):
            yield from _object_errors(value, schema, path)
        case "array":
            yield from _array_errors(value, schema, path)
        case "string":
            yield from _string_errors(value, schema, path)
        case "integer":
            yield from _integer_errors(value, schema, path)


def _object_errors(value: JsonObject, schema: JsonObject, path: str) -> Iterator[FieldError]:
    properties = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            yield from _missing_field_errors(f"{path}.{name}", properties[name])
    for name, inner in properties.items():
        if name in value:
            yield from _errors(value[name], inner, f"{path}.{name}")
    if "additionalProperties" in schema:
        for name, item in value.items():
            yield from _errors(item, schema["additionalProperties"], f"{path}[{name}]")


def _missing_field_errors(path: str, schema: JsonObject) -> Iterator[FieldError]:
    if "default" not in schema:
        yield required(path, schema.get("description", "write this field"))


def _array_errors(value: list[Any], schema: JsonObject, path: str) -> Iterator[FieldError]:
    if len(value) > schema.get("maxItems", len(value)):
        # The items are not validated: the list is rejected anyway.
        yield too_many(path, len(value), schema["maxItems"])
        return
    if len(value) < schema.get("minItems", 0):
        yield required(path, f"must have at least {schema['minItems']} items")
    items = schema["items"]
    # Fast path for long lists of names, which are nearly always valid.
    longest = items.get("maxLength", 0) if items["type"] == "string" and "pattern" not in items else -1
    for i, item in enumerate(value):
        if not (type(item) is str and len(item) <= longest):
            yield from _errors(item, items, f"{path}[{i}]")


def _string_errors(value: str, schema: JsonObject, path: str) -> Iterator[FieldError]:
    if "enum" in schema and value not in schema["enum"]:
        yield not_supported(path, value, tuple(schema["enum"]))
    if len(value) > schema.get("maxLength", len(value)):
        yield too_long(path, schema["maxLength"])
    elif len(value) < schema.get("minLength", 0):
        yield invalid(path, value, f"must have {schema['minLength']} to {schema['maxLength']} characters")
    elif "pattern" in schema and not re.search(schema["pattern"], value):
        yield invalid(path, value, f"must match {schema['pattern']}")


def _integer_errors(value: int, schema: JsonObject, path: str) -> Iterator[FieldError]:
    bound = _BOUNDS[schema["format"]]
    if value < schema.get("minimum", value):
        yield invalid(path, value, f"must be at least {schema['minimum']}")
    elif value > schema.get("maximum", value):
        yield invalid(path, value, f"must not be greater than {schema['maximum']}")
    elif not -bound <= value < bound:
        yield invalid(path, value, f"must be between {-bound} and {bound - 1}")

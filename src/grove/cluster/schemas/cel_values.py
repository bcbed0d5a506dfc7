"""CEL values: converts JSON values by their schema. Times become timestamps, numbers floats, field names are escaped.

Most schemas need no conversion, and their values are passed unchanged.
"""

import base64
import binascii
import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from typing import Any

import msgspec
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from grove.api.types.meta import JsonObject
from grove.cluster.schemas.keywords import EMBEDDED

Convert = Callable[[Any], Any]

_RESERVED = frozenset(
    (
        "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import",
        "let", "loop", "package", "namespace", "return", "var", "void", "while",
    )
)  # fmt: skip
_ESCAPES = (("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__"))
_UNESCAPED = re.compile(r"__|[.\-/]")
_IDENTIFIER = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PIECE = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|ms|s|m|h)")


@cache
def escape(name: str) -> str | None:
    """Return the name of a field in expressions, or None if it cannot be used there."""
    if name in _RESERVED:
        return f"__{name}__"
    message = _UNESCAPED.sub(lambda match: dict(_ESCAPES)[match[0]], name)
    return message if _IDENTIFIER.fullmatch(message) else None


def build_converter(schema: JsonObject, *, is_root: bool = False) -> Convert | None:
    """Return the conversion for values of this schema, or None if they are passed unchanged."""
    match schema.get("type"):
        case "object" if is_root or schema.get(EMBEDDED):
            return _build_root_converter(schema)
        case "object":
            return _build_object_converter(schema)
        case "array" if isinstance(schema.get("items"), dict):
            return _build_array_converter(schema)
        case "number":
            return lambda value: float(value) if isinstance(value, int) else value
        case "string":
            return _TEXTS.get(schema.get("format", ""))
        case _:
            return None


def _build_array_converter(schema: JsonObject) -> Convert | None:
    inner = build_converter(schema["items"])
    if inner is None:
        return None
    return lambda value: [inner(item) for item in value] if isinstance(value, list) else value


def _build_object_converter(schema: JsonObject) -> Convert | None:
    additional = schema.get("additionalProperties")
    if isinstance(additional, dict):
        of_values = build_converter(additional)
        if of_values is None:
            return None
        return lambda value: {key: of_values(item) for key, item in value.items()} if isinstance(value, dict) else value
    fields = schema.get("properties", {})
    converts = {name: found for name, inner in fields.items() if (found := build_converter(inner)) is not None}
    renames = {name: escape(name) for name in fields if escape(name) != name}
    if not converts and not renames and not any(inner.get("nullable") for inner in fields.values()):
        return None
    return lambda value: _convert_fields(value, converts, renames) if isinstance(value, dict) else value


def _convert_fields(value: JsonObject, converts: dict[str, Convert], renames: dict[str, str | None]) -> JsonObject:
    result: JsonObject = {}
    for field, item in value.items():
        name = renames.get(field, field)
        # To a rule, a null field is absent.
        if name is not None and item is not None:
            result[name] = converts[field](item) if field in converts else item
    return result


def _build_root_converter(schema: JsonObject) -> Convert:
    """Return the conversion of a whole object. Rules see only the names in its metadata."""
    inner = _build_object_converter(schema)

    def convert(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        result: JsonObject = inner(value) if inner is not None else dict(value)
        metadata = value.get("metadata")
        if isinstance(metadata, dict):
            result["metadata"] = {name: metadata[name] for name in ("name", "generateName") if name in metadata}
        return result

    return convert


def _time(value: Any) -> Any:
    try:
        instant = msgspec.convert(value, datetime)
    except msgspec.ValidationError:
        return value
    message = Timestamp()
    message.FromDatetime(instant.astimezone(UTC))
    return message


def _date(value: Any) -> Any:
    return _time(f"{value}T00:00:00Z") if isinstance(value, str) else value


def _duration(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    sign = -1 if value.startswith("-") else 1
    seconds = sign * sum(float(number) * _UNITS[unit] for number, unit in _PIECE.findall(value))
    message = Duration()
    message.FromNanoseconds(round(seconds * 1e9))
    return message


def _bytes(value: Any) -> Any:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError, TypeError):
        return value


_TEXTS: dict[str, Convert] = {
    "byte": _bytes, "date": _date, "date-time": _time, "datetime": _time, "duration": _duration,
}  # fmt: skip

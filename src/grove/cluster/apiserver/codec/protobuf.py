"""Decodes protobuf bodies of built-in kinds, as kubectl and Go clients send them, into JSON.

The field numbers are in `protobuf_numbers.json`, which `tests/kube/controlplane/numbers.py` extracts from the Go types.
Responses are never protobuf: every client accepts JSON as well.
"""

import base64
import pkgutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import msgspec

from grove.api.types.meta import JsonObject
from grove.cluster.apiserver.status_errors import (
    StatusError,
    UnreadableError,
    bad_request,
    unrecognized,
    unsupported_media_type,
)
from grove.kube.transport import Request

PROTOBUF = "application/vnd.kubernetes.protobuf"
_JSON = "application/json"
_MAGIC = b"k8s\0"
_FIXED64 = 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_DEPTH = 100

_Value = int | bytes


class MalformedError(Exception):
    """The bytes are not a valid message."""


class UnknownKindError(Exception):
    """The field numbers of the kind are not known."""


class _Field(msgspec.Struct, frozen=True):
    """A field of a protobuf message, found by its number."""

    # Empty: the fields are inlined into the outer message.
    name: str
    # A scalar, a special type, or the name of a message.
    type: str
    is_list: bool = False
    is_map: bool = False
    # A zero or empty value is not the same as an absent one.
    keeps_zero: bool = False


def decode(body: bytes, api_version: str, kind: str) -> JsonObject:
    """Decode the object of a body. The given kind is the default.

    Raises `MalformedError`, `UnknownKindError`, or `UnreadableError` once the kind is known.
    """
    if not body:
        raise MalformedError("empty data")
    if not body.startswith(_MAGIC):
        expected = " ".join(str(byte) for byte in _MAGIC)
        raise MalformedError(f"provided data does not appear to be a protobuf message, expected prefix [{expected}]")
    if body == _MAGIC:
        raise MalformedError("empty body")
    envelope = dict(_fields(body[len(_MAGIC) :]))
    type_meta = {number: _text(value) for number, value in _fields(_as_bytes(envelope.get(1, b"")))}
    api_version, given_kind = type_meta.get(1) or api_version, type_meta.get(2) or kind
    message = _kinds().get(f"{api_version} {given_kind}")
    if message is None:
        raise UnknownKindError(f"{api_version} {given_kind}")
    try:
        content = _message(message, _as_bytes(envelope.get(2, b"")), 0)
    except MalformedError as error:
        raise UnreadableError(given_kind, api_version.rpartition("/")[2], kind, str(error)) from None
    return {"kind": given_kind, "apiVersion": api_version, **content}


def to_json_request(request: Request, api_version: str, kind: str) -> Request:
    """Return the request with a JSON body. The given kind is the default. Raises 400 or 415."""
    try:
        obj = decode(request.body, api_version, kind)
    except MalformedError as error:
        raise unrecognized(kind, request.body, str(error)) from None
    except UnknownKindError as error:
        raise _unsupported_kind_error(str(error)) from None
    return msgspec.structs.replace(request, body=msgspec.json.encode(obj), content_type=_JSON)


def options_to_json_request(request: Request) -> Request:
    """Like `to_json_request`, for delete options. As in a real API server, the errors have fewer details."""
    try:
        obj = decode(request.body, "v1", "DeleteOptions")
    except MalformedError as error:
        raise bad_request(str(error)) from None
    except UnknownKindError as error:
        raise _unsupported_kind_error(str(error)) from None
    return msgspec.structs.replace(request, body=msgspec.json.encode(obj), content_type=_JSON)


def is_protobuf(request: Request) -> bool:
    return request.content_type != _JSON and request.content_type.partition(";")[0] == PROTOBUF


def _unsupported_kind_error(what: str) -> StatusError:
    error = unsupported_media_type((_JSON,))
    hint = f"the embedded cluster does not support protobuf for {what}: send JSON"
    return StatusError(error.code, error.reason, f"{error.message}; {hint}")


# --- the wire --------------------------------------------------------------------------------------------------------


def _fields(data: bytes) -> Iterator[tuple[int, _Value]]:
    """Yield number and value of each field, in wire order."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, wire_type = key >> 3, key & 7
        if number == 0:
            raise MalformedError(f"proto: illegal tag 0 (wire type {wire_type})")
        match wire_type:
            case 0:
                value, at = _varint(data, at)
                yield number, value
            case 1 | 5:
                size = 8 if wire_type == _FIXED64 else 4
                yield number, int.from_bytes(_cut(data, at, size), "little")
                at += size
            case 2:
                size, at = _varint(data, at)
                yield number, _cut(data, at, size)
                at += size
            case 4:
                raise MalformedError("proto: wiretype end group for non-group")
            case _:
                raise MalformedError(f"proto: illegal wireType {wire_type}")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the varint at that offset, and the offset after it."""
    value = shift = 0
    while True:
        if at >= len(data):
            raise MalformedError("unexpected EOF")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (2**64 - 1), at
        shift += 7
        if shift >= 64:
            raise MalformedError("proto: integer overflow")


def _cut(data: bytes, at: int, size: int) -> bytes:
    if at + size > len(data):
        raise MalformedError("unexpected EOF")
    return data[at : at + size]


# --- values ----------------------------------------------------------------------------------------------------------


def _message(name: str, data: bytes, depth: int) -> JsonObject:
    if depth > _MAX_DEPTH:
        raise MalformedError("the body is nested too deeply")
    fields = _messages()[name]
    found: JsonObject = {}
    for number, value in _fields(data):
        field = fields.get(number)
        if field is None:
            # A field of a newer release is ignored, as on a real API server.
            continue
        _set_field(found, field, value, depth)
    return found


def _set_field(found: JsonObject, field: _Field, value: _Value, depth: int) -> None:
    if not field.name:
        found |= _message(field.type, _bytes_of(field, value), depth + 1)
    elif field.is_map:
        key, inner = _pair(field, _bytes_of(field, value), depth)
        found.setdefault(field.name, {})[key] = inner
    elif field.is_list:
        found.setdefault(field.name, []).extend(_items(field, value, depth))
    else:
        content = _content(field, value, depth)
        if content is not None and (content or field.keeps_zero):
            found[field.name] = content
        elif field.name in found and not field.keeps_zero:
            del found[field.name]


def _pair(field: _Field, data: bytes, depth: int) -> tuple[str, Any]:
    parts = dict(_fields(data))
    empty: _Value = 0 if field.type in ("int", "bool") else b""
    return _text(parts.get(1, b"")), _content(field, parts.get(2, empty), depth)


def _items(field: _Field, value: _Value, depth: int) -> list[Any]:
    """Return the items of a repeated field. Numbers may be packed."""
    if field.type in ("int", "bool") and isinstance(value, bytes):
        items, at = [], 0
        while at < len(value):
            number, at = _varint(value, at)
            items.append(_content(field, number, depth))
        return items
    return [_content(field, value, depth)]


def _content(field: _Field, value: _Value, depth: int) -> Any:
    match field.type:
        case "int":
            number = _number_of(field, value)
            return number - 2**64 if number >= 2**63 else number
        case "bool":
            return bool(_number_of(field, value))
        case "string":
            return _text(_bytes_of(field, value))
        case "bytes":
            return base64.b64encode(_bytes_of(field, value)).decode()
        case "Time" | "MicroTime":
            return _time(field.type, _bytes_of(field, value))
        case "Quantity":
            return _text(dict(_fields(_bytes_of(field, value))).get(1, b"")) or "0"
        case "IntOrString":
            return _int_or_string(_bytes_of(field, value))
        case "Raw":
            return _raw(_bytes_of(field, value))
        case "items":
            return [_text(item) for number, item in _fields(_bytes_of(field, value)) if number == 1]
        case _:
            return _message(field.type, _bytes_of(field, value), depth + 1)


def _time(kind: str, data: bytes) -> str | None:
    """Decode a time; None for an empty message."""
    if not data:
        return None
    parts = dict(_fields(data))
    seconds, nanos = (_read_signed(parts.get(number, 0)) for number in (1, 2))
    try:
        instant = _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)
    except OverflowError:
        raise MalformedError("time out of range") from None
    precision = "microseconds" if kind == "MicroTime" else "seconds"
    return instant.replace(tzinfo=None).isoformat(timespec=precision) + "Z"


def _int_or_string(data: bytes) -> int | str:
    parts = dict(_fields(data))
    if parts.get(1, 0):
        return _text(parts.get(3, b""))
    return _read_signed(parts.get(2, 0))


def _raw(data: bytes) -> Any:
    """Decode embedded JSON."""
    raw = _as_bytes(dict(_fields(data)).get(1, b""))
    if not raw:
        return None
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedError(f"embedded data is not JSON: {error}") from None


def _read_signed(value: _Value) -> int:
    if not isinstance(value, int):
        raise MalformedError("proto: wrong wireType = 2")
    return value - 2**64 if value >= 2**63 else value


def _text(value: _Value) -> str:
    # Invalid UTF-8 is not a legal value of any field: validation rejects it later.
    return _as_bytes(value).decode("utf-8", "replace")


def _as_bytes(value: _Value) -> bytes:
    if not isinstance(value, bytes):
        raise MalformedError("proto: wrong wireType = 0")
    return value


def _bytes_of(field: _Field, value: _Value) -> bytes:
    if not isinstance(value, bytes):
        raise MalformedError(f"proto: wrong wireType = 0 for field {_go_name(field)}")
    return value


def _number_of(field: _Field, value: _Value) -> int:
    if not isinstance(value, int):
        raise MalformedError(f"proto: wrong wireType = 2 for field {_go_name(field)}")
    return value


def _go_name(field: _Field) -> str:
    return "ObjectMeta" if field.name == "metadata" else field.name[:1].upper() + field.name[1:]


# --- tables ----------------------------------------------------------------------------------------------------------


@cache
def _numbers() -> JsonObject:
    data = pkgutil.get_data(__package__, "protobuf_numbers.json")
    assert data is not None
    found: JsonObject = msgspec.json.decode(data)
    return found


@cache
def _kinds() -> dict[str, str]:
    """Return the message name by `apiVersion kind`."""
    kinds: dict[str, str] = _numbers()["kinds"]
    return kinds


@cache
def _messages() -> dict[str, dict[int, _Field]]:
    return {
        name: {int(number): _read_field(text) for number, text in fields.items()}
        for name, fields in _numbers()["messages"].items()
    }


def _read_field(text: str) -> _Field:
    """Parse `name type`. Prefixes of the type: `[]` a list, `{}` a map, `*` optional, `!` also written if zero."""
    name, _, type_name = text.partition(" ")
    is_list, is_map = type_name.startswith("[]"), type_name.startswith("{}")
    bare = type_name.removeprefix("[]").removeprefix("{}")
    keeps_zero = bare[:1] in ("*", "!")
    return _Field(name, bare.lstrip("*!"), is_list, is_map, keeps_zero)

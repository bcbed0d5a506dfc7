"""Strategy of ConfigMaps and Secrets: defaults, validation of data, immutability."""

import base64
import binascii
import re

import msgspec

from grove.api.types.meta import JsonObject
from grove.api.validation.field_errors import ErrorKind, FieldError, forbidden, invalid
from grove.cluster.apiserver.registry.metadata import build_unreadable_error
from grove.cluster.apiserver.status_errors import immutable
from grove.cluster.built_in_resources import ResourceInfo

_IS_KEY = re.compile("[-._a-zA-Z0-9]{1,253}")
_NOT_BASE64 = re.compile(r"[^A-Za-z0-9+/=\r\n]")
_KEY_MESSAGE = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or "
    "'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
_LARGEST = 1024 * 1024


class _Config(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of both kinds, with their types."""

    data: dict[str, str] | None = None
    binary_data: dict[str, str] | None = None
    string_data: dict[str, str] | None = None
    immutable: bool | None = None
    type: str | None = None


# Maps that are dropped when they are empty.
_MAPS = ("data", "binaryData")


def prepare_config(resource_info: ResourceInfo, obj: JsonObject) -> JsonObject:
    """Return the object as it will be stored: `stringData` of a Secret is encoded. Raises 400 for wrong types."""
    try:
        config = msgspec.convert(obj, _Config)
    except msgspec.ValidationError as error:
        raise build_unreadable_error(resource_info, f"json: {error}") from None
    encoded = config.data if resource_info.kind == "Secret" else config.binary_data
    for text in (encoded or {}).values():
        _check_encoded(resource_info, text)
    if config.data == {} or config.binary_data == {}:
        obj = {name: value for name, value in obj.items() if name not in _MAPS or value}
    if resource_info.kind != "Secret":
        return obj
    fields = {name: value for name, value in obj.items() if name != "stringData"}
    if config.string_data:
        plain = {key: base64.b64encode(text.encode()).decode() for key, text in config.string_data.items()}
        fields["data"] = {**(config.data or {}), **plain}
    return {**fields, "type": config.type or "Opaque"}


def _check_encoded(resource_info: ResourceInfo, text: str) -> None:
    try:
        base64.b64decode(text.replace("\n", "").replace("\r", ""), validate=True)
    except (binascii.Error, ValueError):
        illegal = _NOT_BASE64.search(text)
        place = illegal.start() if illegal else len(text)
        raise build_unreadable_error(resource_info, f"illegal base64 data at input byte {place}") from None


def validate_config(obj: JsonObject) -> list[FieldError]:
    data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
    errors = [
        invalid(f"{field}[{key}]", key, _KEY_MESSAGE)
        for field, values in (("data", data), ("binaryData", binary))
        for key in values
        if not _IS_KEY.fullmatch(key)
    ]
    errors += [invalid(f"data[{key}]", key, "duplicate of key present in binaryData") for key in data if key in binary]
    size = sum(len(value) for values in (data, binary) for value in values.values())
    if size > _LARGEST:
        detail = f"may not be more than {_LARGEST} bytes"
        errors.append(FieldError(path="[]", kind=ErrorKind.TOO_LONG, detail=detail))
    return errors


def validate_config_update(old: JsonObject, new: JsonObject) -> list[FieldError]:
    errors = validate_config(new)
    if old.get("type") != new.get("type"):
        errors.append(immutable("type", new.get("type")))
    if old.get("immutable"):
        fields = ("immutable", "data", "binaryData")
        changed = [field for field in fields if (old.get(field) or {}) != (new.get(field) or {})]
        errors += [forbidden(field, "field is immutable when `immutable` is set") for field in changed]
    return errors

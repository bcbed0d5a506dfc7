"""Strategy of ControllerRevisions: a revision that is not negative, and immutable data."""

from typing import Any

import msgspec

from grove.api.types.meta import JsonObject
from grove.api.validation.field_errors import FieldError, invalid, required
from grove.cluster.apiserver.status_errors import UnreadableError, immutable

_LARGEST = 2**63 - 1


def prepare_revision(obj: JsonObject) -> JsonObject:
    """Return the object with `revision` set. Raises 400 for a value that a real API server cannot decode."""
    number = obj.get("revision")
    if number is None:
        return {**obj, "revision": 0}
    if not isinstance(number, int) or isinstance(number, bool) or not -_LARGEST - 1 <= number <= _LARGEST:
        field = "Go struct field ControllerRevision.revision of type int64"
        error_message = f"json: cannot unmarshal {_go_type_name(number)} into {field}"
        raise UnreadableError("ControllerRevision", "v1", "ControllerRevision", error_message)
    return obj


def validate_revision(obj: JsonObject) -> list[FieldError]:
    data = obj.get("data")
    if data is None:
        return [*_validate_number(obj), required("data", "data is mandatory")]
    if not isinstance(data, dict):
        return [*_validate_number(obj), required("data", "data must be a valid JSON object")]
    return _validate_number(obj)


def validate_revision_update(old: JsonObject, new: JsonObject) -> list[FieldError]:
    is_kept = old.get("data") == new.get("data")
    return [*_validate_number(new), *([] if is_kept else [immutable("data", new.get("data"))])]


def _validate_number(obj: JsonObject) -> list[FieldError]:
    number = obj["revision"]
    return [] if number >= 0 else [invalid("revision", number, "must be greater than or equal to 0")]


def _go_type_name(value: Any) -> str:
    match value:
        case bool():
            return "bool"
        case str():
            return "string"
        case int() | float():
            return f"number {msgspec.json.encode(value).decode()}"
        case list():
            return "array"
        case _:
            return "object"

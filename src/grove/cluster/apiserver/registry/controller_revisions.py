"""Strategy of ControllerRevisions: a revision that is not negative, and immutable data."""

from typing import Any

import msgspec

from grove.api.types.meta import JsonObject
from grove.api.validation.field_errors import FieldError, invalid, required
from grove.cluster.apiserver.status_errors import UnreadableError, immutable

_LARGEST = 2**63 - 1


def prepared_revision(obj: JsonObject) -> JsonObject:
    """Return the object with `revision` set. Raises 400 for a value that a real API server cannot decode."""
    number = obj.get("revision")
    if number is None:
        return {**obj, "revision": 0}
    if not isinstance(number, int) or isinstance(number, bool) or not -_LARGEST - 1 <= number <= _LARGEST:
        problem = (
            f"json: cannot unmarshal {_named(number)} into Go struct field ControllerRevision.revision of type int64"
        )
        raise UnreadableError("ControllerRevision", "v1", "ControllerRevision", problem)
    return obj


def revision_errors(obj: JsonObject) -> list[FieldError]:
    data = obj.get("data")
    if data is None:
        return [*_number_errors(obj), required("data", "data is mandatory")]
    if not isinstance(data, dict):
        return [*_number_errors(obj), required("data", "data must be a valid JSON object")]
    return _number_errors(obj)


def revision_change_errors(old: JsonObject, new: JsonObject) -> list[FieldError]:
    is_kept = old.get("data") == new.get("data")
    return [*_number_errors(new), *([] if is_kept else [immutable("data", new.get("data"))])]


def _number_errors(obj: JsonObject) -> list[FieldError]:
    number = obj["revision"]
    return [] if number >= 0 else [invalid("revision", number, "must be greater than or equal to 0")]


def _named(value: Any) -> str:
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

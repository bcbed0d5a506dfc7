"""Field errors, with the kinds and texts of Kubernetes (`k8s.io/apimachinery/pkg/util/validation/field`)."""

from collections.abc import Collection, Iterable
from enum import StrEnum
from itertools import islice

import msgspec

from grove.api.types.meta import WireStruct


class ErrorKind(StrEnum):
    """The `reason` of a cause in a Kubernetes Status."""

    REQUIRED = "FieldValueRequired"
    INVALID = "FieldValueInvalid"
    DUPLICATE = "FieldValueDuplicate"
    FORBIDDEN = "FieldValueForbidden"
    NOT_SUPPORTED = "FieldValueNotSupported"
    NOT_FOUND = "FieldValueNotFound"
    TYPE_INVALID = "FieldValueTypeInvalid"
    TOO_LONG = "FieldValueTooLong"
    TOO_MANY = "FieldValueTooMany"


_PHRASES = {
    ErrorKind.REQUIRED: "Required value",
    ErrorKind.INVALID: "Invalid value",
    ErrorKind.DUPLICATE: "Duplicate value",
    ErrorKind.FORBIDDEN: "Forbidden",
    ErrorKind.NOT_SUPPORTED: "Unsupported value",
    ErrorKind.NOT_FOUND: "Not found",
    ErrorKind.TYPE_INVALID: "Invalid value",
    ErrorKind.TOO_LONG: "Too long",
    ErrorKind.TOO_MANY: "Too many",
}
_WITHOUT_VALUE = frozenset({ErrorKind.REQUIRED, ErrorKind.FORBIDDEN, ErrorKind.TOO_LONG})
_LISTED_NAMES = 10
_LONGEST_QUOTE = 100
# A bad value that the message leaves out, for any kind of error.
OMITTED: object = object()


IMMUTABLE = "field is immutable: restore the old value, or create a new PodCliqueSet"
_LONGEST_OLD_VALUE = 80


class Verbatim(str):
    """A value that the message shows unquoted and in full."""

    __slots__ = ()


class FieldError(WireStruct):
    """An error of one field: its path, what is wrong with its value, and what to do (`detail`)."""

    path: str
    kind: ErrorKind
    detail: str
    bad_value: object = None

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"

    @property
    def key(self) -> tuple[str, str, str, bytes]:
        """Return a hashable key: errors with equal keys are equal."""
        value = b"" if self.bad_value is OMITTED else _encode(self.bad_value)
        return self.path, self.kind, self.detail, value

    @property
    def message(self) -> str:
        """Return the text without the path: the `message` of a cause in a Status, beside its `field`."""
        parts = [_PHRASES[self.kind]]
        if self.kind not in _WITHOUT_VALUE and self.bad_value is not OMITTED:
            parts.append(_format_value(self.bad_value))
        if self.detail:
            parts.append(self.detail)
        return ": ".join(parts)


def required(path: str, detail: str) -> FieldError:
    return FieldError(path=path, kind=ErrorKind.REQUIRED, detail=detail)


def invalid(path: str, bad_value: object, detail: str) -> FieldError:
    return FieldError(path=path, kind=ErrorKind.INVALID, detail=detail, bad_value=bad_value)


def duplicate(path: str, bad_value: object, detail: str) -> FieldError:
    return FieldError(path=path, kind=ErrorKind.DUPLICATE, detail=detail, bad_value=bad_value)


def forbidden(path: str, detail: str) -> FieldError:
    return FieldError(path=path, kind=ErrorKind.FORBIDDEN, detail=detail)


def not_supported(path: str, bad_value: object, supported: tuple[str, ...]) -> FieldError:
    detail = "supported values: " + ", ".join(f'"{value}"' for value in supported)
    return FieldError(path=path, kind=ErrorKind.NOT_SUPPORTED, detail=detail, bad_value=bad_value)


def not_found(path: str, bad_value: object, detail: str) -> FieldError:
    return FieldError(path=path, kind=ErrorKind.NOT_FOUND, detail=detail, bad_value=bad_value)


def type_invalid(path: str, bad_value: object, detail: str) -> FieldError:
    return FieldError(path=path, kind=ErrorKind.TYPE_INVALID, detail=detail, bad_value=bad_value)


def too_long(path: str, most: int) -> FieldError:
    return FieldError(path=path, kind=ErrorKind.TOO_LONG, detail=f"may not be more than {most} bytes")


def too_many(path: str, count: int, most: int) -> FieldError:
    return FieldError(path=path, kind=ErrorKind.TOO_MANY, detail=f"must have at most {most} items", bad_value=count)


def error_keys(errors: Iterable[FieldError]) -> frozenset[tuple[str, str, str, bytes]]:
    return frozenset(error.key for error in errors)


def shorten(text: str) -> str:
    """Truncate a user's text for a message."""
    return text if len(text) <= _LONGEST_QUOTE else text[: _LONGEST_QUOTE - 3] + "..."


def join_names(names: Collection[str]) -> str:
    """Join names for a message: the first few, and how many more there are."""
    shown = ", ".join(shorten(name) for name in islice(names, _LISTED_NAMES))
    more = len(names) - _LISTED_NAMES
    return f"{shown} and {more} more" if more > 0 else shown


def _format_value(value: object) -> str:
    return str(value) if isinstance(value, Verbatim) else shorten(_encode(value).decode())


def _encode(value: object) -> bytes:
    """Encode as JSON. Subclasses of `str` are encoded as strings."""
    return msgspec.json.encode(value, enc_hook=str)


def describe_immutable(old: object) -> str:
    """Return the rule with the value to restore, if that is short."""
    text = _encode(old).decode()
    if not old:
        return IMMUTABLE.replace("restore the old value", "remove it")
    return IMMUTABLE.replace("the old value", text) if len(text) <= _LONGEST_OLD_VALUE else IMMUTABLE

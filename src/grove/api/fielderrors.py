"""What is wrong with a field: where, of which kind, and what to do. The words are those of Kubernetes."""

from enum import StrEnum

import msgspec

from grove.api.meta import Wire


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
# In place of a value that is not shown, whatever the kind of the error.
UNSHOWN: object = object()


class Verbatim(str):
    """A value that is shown as it stands, and in full."""

    __slots__ = ()


class FieldError(Wire):
    path: str
    kind: ErrorKind
    detail: str
    bad_value: object = None

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"

    @property
    def message(self) -> str:
        """Without the path: what a cause of a Status says beside its `field`."""
        parts = [_PHRASES[self.kind]]
        if self.kind not in _WITHOUT_VALUE and self.bad_value is not UNSHOWN:
            parts.append(_shown(self.bad_value))
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


def _shown(value: object) -> str:
    if isinstance(value, Verbatim):
        return str(value)
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 100 else text[:97] + "..."

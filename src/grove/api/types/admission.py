"""Admission requests of an API server and their results. `admission/` computes the results."""

from collections.abc import Callable
from enum import StrEnum

from grove.api.types.meta import JsonObject, WireStruct
from grove.api.validation.field_errors import FieldError


class Operation(StrEnum):
    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"


class AdmissionRequest(WireStruct):
    """A write before it is stored. A scale request is an update of its parent: `object` is the resulting parent."""

    operation: Operation
    group: str
    plural: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    object: JsonObject | None = None
    old: JsonObject | None = None


class AdmissionResult(WireStruct):
    """The result of admission. Without errors the write is allowed, and `object` is stored, with defaults."""

    object: JsonObject | None = None
    errors: tuple[FieldError, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def is_allowed(self) -> bool:
        return not self.errors


AdmissionControl = Callable[[AdmissionRequest], AdmissionResult]

"""What an API server asks before it stores an object, and what it is answered. The answers are made in `admission/`."""

from collections.abc import Callable
from enum import StrEnum

from grove.api.types.meta import JsonObject, WireStruct
from grove.api.validation.field_errors import FieldError


class Operation(StrEnum):
    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"


class AdmissionRequest(WireStruct):
    """One write about to happen. A scale is the update of its parent: `object` is what would result."""

    operation: Operation
    group: str
    plural: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    object: JsonObject | None = None
    old: JsonObject | None = None


class AdmissionAnswer(WireStruct):
    """Allowed when there are no errors; then `object` is what to store, with defaults filled in."""

    object: JsonObject | None = None
    errors: tuple[FieldError, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def is_allowed(self) -> bool:
        return not self.errors


AdmissionControl = Callable[[AdmissionRequest], AdmissionAnswer]

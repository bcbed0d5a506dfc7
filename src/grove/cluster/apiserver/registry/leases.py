"""Strategy of leases: validation of durations, transitions and times with microseconds."""

import re

from grove.api.types.meta import JsonObject
from grove.api.validation.field_errors import FieldError, invalid
from grove.cluster.apiserver.status_errors import UnreadableError

_MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\d*(?:Z|[+-]\d\d:\d\d)", re.ASCII)


def check_lease_times(obj: JsonObject) -> None:
    """Raise 400 for a time that a real API server cannot decode: it requires microseconds."""
    spec = obj.get("spec") or {}
    for field in ("acquireTime", "renewTime"):
        time = spec.get(field)
        if time is not None and not (isinstance(time, str) and _MICRO_TIME.fullmatch(time)):
            error_message = f'parsing time "{time}" as "2006-01-02T15:04:05.000000Z07:00": it has no microseconds'
            raise UnreadableError("Lease", "v1", "Lease", error_message)


def validate_lease(obj: JsonObject) -> list[FieldError]:
    spec = obj.get("spec") or {}
    errors = []
    duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if isinstance(duration, int) and duration <= 0:
        errors.append(invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
    if isinstance(transitions, int) and transitions < 0:
        errors.append(invalid("spec.leaseTransitions", transitions, "must be greater than or equal to 0"))
    return errors

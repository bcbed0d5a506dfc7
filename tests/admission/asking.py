"""Questions to admission, in one line each."""

from grove.admission.policy import DEFAULT_SETTINGS, NO_LOOKUP, AdmissionLookups, review
from grove.api.resources import PODCLIQUESETS
from grove.api.types.admission import AdmissionRequest, AdmissionResult, Operation
from grove.api.types.meta import JsonObject
from grove.api.validation.validation_options import ValidationOptions


def created(
    json: JsonObject, lookup: AdmissionLookups = NO_LOOKUP, settings: ValidationOptions = DEFAULT_SETTINGS
) -> AdmissionResult:
    """The answer to the creation of a set."""
    return review(_request(Operation.CREATE, json), lookup, settings)


def updated(
    old: JsonObject,
    new: JsonObject,
    lookup: AdmissionLookups = NO_LOOKUP,
    settings: ValidationOptions = DEFAULT_SETTINGS,
) -> AdmissionResult:
    """The answer to the replacement of a stored set."""
    return review(_request(Operation.UPDATE, new, old), lookup, settings)


def refusals(json: JsonObject) -> list[str]:
    return texts(created(json))


def texts(answer: AdmissionResult) -> list[str]:
    return [str(error) for error in answer.errors]


def _request(operation: Operation, new: JsonObject, old: JsonObject | None = None) -> AdmissionRequest:
    return AdmissionRequest(
        operation=operation, group=PODCLIQUESETS.group, plural=PODCLIQUESETS.plural, object=new, old=old
    )

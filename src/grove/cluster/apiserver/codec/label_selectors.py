"""Label selectors in objects (`matchLabels`, `matchExpressions`): validation and matching.

Selectors in a query are strings: `selectors.py`.
"""

import msgspec

from grove.api.types.meta import JsonObject
from grove.api.validation.field_errors import FieldError, forbidden, invalid, required
from grove.cluster.apiserver.registry.metadata import find_label_key_error, find_label_value_error

_WITH_VALUES = ("In", "NotIn")
_WITHOUT_VALUES = ("Exists", "DoesNotExist")


class LabelSelectorRequirement(msgspec.Struct):
    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class LabelSelector(msgspec.Struct, rename="camel"):
    """A label selector, decoded for validation."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[LabelSelectorRequirement] | None = None


def validate_selector(selector: LabelSelector | None, where: str) -> list[FieldError]:
    if selector is None:
        return []
    errors: list[FieldError] = []
    for key, value in (selector.match_labels or {}).items():
        for text, error_message in ((key, find_label_key_error(key)), (value, find_label_value_error(value))):
            if error_message:
                errors.append(invalid(f"{where}.matchLabels", text, error_message))
    for index, requirement in enumerate(selector.match_expressions or ()):
        errors += _validate_requirement(requirement, f"{where}.matchExpressions[{index}]")
    return errors


def _validate_requirement(requirement: LabelSelectorRequirement, where: str) -> list[FieldError]:
    errors: list[FieldError] = []
    values = requirement.values or []
    if requirement.operator in _WITH_VALUES and not values:
        errors.append(required(f"{where}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif requirement.operator in _WITHOUT_VALUES and values:
        errors.append(
            forbidden(f"{where}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
        )
    elif requirement.operator not in (*_WITH_VALUES, *_WITHOUT_VALUES):
        errors.append(invalid(f"{where}.operator", requirement.operator, "not a valid selector operator"))
    if error_message := find_label_key_error(requirement.key):
        errors.append(invalid(f"{where}.key", requirement.key, error_message))
    for index, value in enumerate(values):
        if error_message := find_label_value_error(value):
            errors.append(invalid(f"{where}.values[{index}]", value, error_message))
    return errors


def selects(selector: JsonObject, obj: JsonObject) -> bool:
    """Return whether the selector matches the labels of the object. An empty selector matches everything."""
    labels: dict[str, str] = (obj.get("metadata") or {}).get("labels") or {}
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_meets(requirement, labels) for requirement in selector.get("matchExpressions") or ())


def _meets(requirement: JsonObject, labels: dict[str, str]) -> bool:
    key, values = requirement.get("key", ""), requirement.get("values") or ()
    match requirement.get("operator"):
        case "In":
            return key in labels and labels[key] in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case _:
            return key not in labels

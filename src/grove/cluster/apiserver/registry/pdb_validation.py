"""Strategy of PodDisruptionBudgets: defaults, and validation of spec and status.

Evictions are admitted in `evict.py`. The counts are written by `disruption_controller.py`.
"""

import re
from datetime import datetime
from typing import Annotated, Any, TypeVar

import msgspec

from grove.api.types.meta import JsonObject
from grove.api.validation.field_errors import FieldError, Verbatim, invalid, not_supported, required
from grove.cluster.apiserver.codec.label_selectors import LabelSelector, validate_selector
from grove.cluster.apiserver.registry.metadata import build_unreadable_error, find_label_key_error
from grove.cluster.apiserver.status_errors import invalid as invalid_object
from grove.cluster.built_in_resources import BUDGETS

_NO_STATUS: JsonObject = {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}
_POLICIES = ("AlwaysAllow", "IfHealthyBudget")
_STATUSES = ("False", "True", "Unknown")
_PERCENT = re.compile("[0-9]+%", re.ASCII)
_PERCENT_MESSAGE = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
    "validation is '[0-9]+%')"
)
_NEGATIVE = "must be greater than or equal to 0"
_REASON = re.compile("[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_REASON_MESSAGE = (
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
    "characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or "
    "'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is "
    "'[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')"
)

_Int = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
_Time = Annotated[datetime, msgspec.Meta(tz=True)]
_Amount = _Int | str | None
Part = TypeVar("Part", bound=msgspec.Struct)


class _Spec(msgspec.Struct, rename="camel"):
    min_available: _Amount = None
    max_unavailable: _Amount = None
    selector: LabelSelector | None = None
    unhealthy_pod_eviction_policy: str | None = None


class _Condition(msgspec.Struct, rename="camel"):
    type: str = ""
    status: str = ""
    observed_generation: int | None = None
    last_transition_time: _Time | None = None
    reason: str = ""
    message: str = ""


class _Status(msgspec.Struct, rename="camel"):
    observed_generation: int | None = None
    disrupted_pods: dict[str, _Time] | None = None
    disruptions_allowed: _Int = 0
    current_healthy: _Int = 0
    desired_healthy: _Int = 0
    expected_pods: _Int = 0
    conditions: list[_Condition] | None = None


def prepare_budget(obj: JsonObject) -> JsonObject:
    """Return a new budget with zero counts."""
    _read(obj, "spec", _Spec)
    return {**obj, "spec": obj.get("spec") or {}, "status": dict(_NO_STATUS)}


def prepare_budget_update(new: JsonObject) -> JsonObject:
    _read(new, "spec", _Spec)
    return {**new, "spec": new.get("spec") or {}}


def validate_budget(obj: JsonObject) -> list[FieldError]:
    spec = _read(obj, "spec", _Spec)
    errors: list[FieldError] = []
    if spec.min_available is not None and spec.max_unavailable is not None:
        errors.append(invalid("spec", _format_spec(obj["spec"]), "minAvailable and maxUnavailable cannot be both set"))
    errors += _validate_amount(spec.min_available, "spec.minAvailable")
    errors += _validate_amount(spec.max_unavailable, "spec.maxUnavailable")
    errors += validate_selector(spec.selector, "spec.selector")
    policy = spec.unhealthy_pod_eviction_policy
    if policy is not None and policy not in _POLICIES:
        errors.append(not_supported("spec.unhealthyPodEvictionPolicy", policy, _POLICIES))
    return errors


def check_budget_status(obj: JsonObject) -> None:
    """Raise 400 for wrong types in the status, 422 for invalid values."""
    status = _read(obj, "status", _Status)
    errors = [error for index, each in enumerate(status.conditions or ()) for error in _validate_condition(each, index)]
    counts = {
        "disruptionsAllowed": status.disruptions_allowed,
        "currentHealthy": status.current_healthy,
        "desiredHealthy": status.desired_healthy,
        "expectedPods": status.expected_pods,
    }
    errors += [invalid(f"status.{field}", count, _NEGATIVE) for field, count in counts.items() if count < 0]
    if errors:
        raise invalid_object(BUDGETS, obj["metadata"]["name"], errors)


def _read(obj: JsonObject, field: str, shape: type[Part]) -> Part:
    value: Any = obj.get(field)
    try:
        return msgspec.convert({} if value is None else value, shape)
    except msgspec.ValidationError as error:
        raise build_unreadable_error(BUDGETS, f"json: {str(error).replace('`$', f'`$.{field}')}") from None


def _validate_amount(amount: _Amount, where: str) -> list[FieldError]:
    match amount:
        case int() if amount < 0:
            return [invalid(where, amount, _NEGATIVE)]
        case str() if not _PERCENT.fullmatch(amount):
            return [invalid(where, amount, _PERCENT_MESSAGE)]
        case str() if len(digits := amount[:-1].lstrip("0")) > 3 or int(digits or "0") > 100:
            return [invalid(where, amount, "must not be greater than 100%")]
        case _:
            return []


def _format_spec(spec: JsonObject) -> Verbatim:
    """Return the spec as a real API server prints it: as a Go struct."""
    shown = {
        "MinAvailable": spec.get("minAvailable"),
        "Selector": spec.get("selector"),
        "MaxUnavailable": spec.get("maxUnavailable"),
        "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy"),
    }
    return Verbatim(msgspec.json.encode(shown).decode())


def _validate_condition(condition: _Condition, index: int) -> list[FieldError]:
    where = f"status.conditions[{index}]"
    errors: list[FieldError] = []
    if not condition.type:
        errors.append(required(f"{where}.type", ""))
    elif error_message := find_label_key_error(condition.type):
        errors.append(invalid(f"{where}.type", condition.type, error_message))
    if condition.status not in _STATUSES:
        errors.append(not_supported(f"{where}.status", condition.status, _STATUSES))
    if not condition.last_transition_time:
        errors.append(required(f"{where}.lastTransitionTime", ""))
    if not condition.reason:
        errors.append(required(f"{where}.reason", ""))
    elif not _REASON.fullmatch(condition.reason):
        errors.append(invalid(f"{where}.reason", condition.reason, _REASON_MESSAGE))
    return errors

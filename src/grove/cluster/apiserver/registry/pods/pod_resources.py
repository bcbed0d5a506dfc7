"""Validation of container `resources`, as a real API server does it."""

from functools import lru_cache

import msgspec

from grove.api.validation.field_errors import FieldError, invalid, required
from grove.api.values.quantities import QuantityError, parse_milli
from grove.cluster.apiserver.registry.metadata import find_label_key_error

Quantities = dict[str, str | int | float]
_Pairs = tuple[tuple[str, str | int | float], ...]

_STANDARD = frozenset({"cpu", "memory", "ephemeral-storage"})
_QUANTITY_MESSAGE = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


class ResourceFields(msgspec.Struct, frozen=True):
    requests: Quantities | None = None
    limits: Quantities | None = None


def find_quantity_error(resources: ResourceFields) -> str:
    """Return an error message if a quantity cannot be parsed, else an empty string."""
    for quantities in (resources.limits, resources.requests):
        for quantity in (quantities or {}).values():
            try:
                parse_milli(quantity)
            except QuantityError:
                return _QUANTITY_MESSAGE
    return ""


def validate_resources(path: str, resources: ResourceFields) -> list[FieldError]:
    """Return the errors of one container whose quantities can be parsed. `path` is that of its resources."""
    found = _validate(_pairs(resources.limits), _pairs(resources.requests))
    return [msgspec.structs.replace(error, path=f"{path}.{error.path}") for error in found]


def _pairs(quantities: Quantities | None) -> _Pairs:
    return tuple(quantities.items()) if quantities else ()


# The pods of a clique have equal resources, and a cluster may have thousands of them.
@lru_cache(maxsize=1024)
def _validate(limits: _Pairs, requests: _Pairs) -> tuple[FieldError, ...]:
    errors: list[FieldError] = []
    for part, pairs in (("limits", limits), ("requests", requests)):
        for name, quantity in pairs:
            where = f"{part}[{name}]"
            errors += _validate_name(where, name) or _validate_quantity(where, name, quantity)
    return tuple(errors or _validate_requests(dict(limits), requests))


def _validate_name(path: str, name: str) -> list[FieldError]:
    if error_message := find_label_key_error(name):
        return [
            invalid(path, name, error_message),
            invalid(path, name, "doesn't follow extended resource name standard"),
        ]
    if name in _STANDARD or name.startswith("hugepages-") or "/" in name:
        return []
    return [
        invalid(path, name, "must be a standard resource type or fully qualified"),
        invalid(path, name, "must be a standard resource for containers"),
    ]


def _validate_quantity(path: str, name: str, quantity: str | int | float) -> list[FieldError]:
    amount = parse_milli(quantity)
    if amount < 0:
        return [invalid(path, str(quantity), "must be greater than or equal to 0")]
    if not _is_native(name) and amount % 1000:
        return [invalid(path, str(quantity), "must be an integer")]
    return []


def _validate_requests(limits: Quantities, requests: _Pairs) -> list[FieldError]:
    """Compare requests with limits. They must be equal for resources that cannot be overcommitted."""
    errors: list[FieldError] = []
    for name, quantity in requests:
        amount, limit = parse_milli(quantity), limits.get(name)
        can_overcommit = _is_native(name) and not name.startswith("hugepages-")
        if limit is None:
            if not can_overcommit:
                errors.append(required("limits", "Limit must be set for non overcommitable resources"))
        elif not can_overcommit and amount != parse_milli(limit):
            errors.append(invalid("requests", str(quantity), f"must be equal to {name} limit of {limit}"))
        elif amount > parse_milli(limit):
            detail = f"must be less than or equal to {name} limit of {limit}"
            errors.append(invalid("requests", str(quantity), detail))
    return errors


def _is_native(name: str) -> bool:
    return "/" not in name or name.partition("/")[0].endswith("kubernetes.io")

"""Validation of `tolerations`, `nodeSelector` and `affinity` of pods, as a real API server does it.

The scheduler evaluates them (`cluster/scheduler/types.py`).
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import msgspec

from grove.api.validation.field_errors import FieldError, forbidden, invalid, not_supported, required
from grove.cluster.apiserver.registry.metadata import find_label_key_error, find_label_value_error

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


class TolerationFields(msgspec.Struct, frozen=True, rename="camel"):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None
    toleration_seconds: int | None = None


class _Requirement(msgspec.Struct, frozen=True):
    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class _NodeTerm(msgspec.Struct, frozen=True, rename="camel"):
    match_expressions: list[_Requirement] | None = None
    match_fields: list[_Requirement] | None = None


class _NodeTerms(msgspec.Struct, frozen=True, rename="camel"):
    node_selector_terms: list[_NodeTerm] | None = None


class _PreferredNodes(msgspec.Struct, frozen=True):
    weight: int = 0
    preference: _NodeTerm | None = None


class _NodeAffinity(msgspec.Struct, frozen=True):
    required: _NodeTerms | None = msgspec.field(name="requiredDuringSchedulingIgnoredDuringExecution", default=None)
    preferred: list[_PreferredNodes] | None = msgspec.field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default=None
    )


class _LabelSelector(msgspec.Struct, frozen=True, rename="camel"):
    match_labels: dict[str, str] | None = None
    match_expressions: list[_Requirement] | None = None


class _PodTerm(msgspec.Struct, frozen=True, rename="camel"):
    topology_key: str = ""
    label_selector: _LabelSelector | None = None
    namespace_selector: _LabelSelector | None = None
    namespaces: list[str] | None = None
    match_label_keys: Any = None
    mismatch_label_keys: Any = None


class _PreferredPods(msgspec.Struct, frozen=True, rename="camel"):
    weight: int = 0
    pod_affinity_term: _PodTerm | None = None


class _PodAffinity(msgspec.Struct, frozen=True):
    required: list[_PodTerm] | None = msgspec.field(name="requiredDuringSchedulingIgnoredDuringExecution", default=None)
    preferred: list[_PreferredPods] | None = msgspec.field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default=None
    )


class AffinityFields(msgspec.Struct, frozen=True, rename="camel"):
    node_affinity: _NodeAffinity | None = None
    pod_affinity: _PodAffinity | None = None
    pod_anti_affinity: _PodAffinity | None = None


def validate_tolerations(tolerations: list[TolerationFields]) -> Iterator[FieldError]:
    for index, toleration in enumerate(tolerations):
        yield from _validate_cached(f"spec.tolerations[{index}]", toleration)


# Most pods have the same tolerations.
@lru_cache(maxsize=1024)
def _validate_cached(path: str, toleration: TolerationFields) -> tuple[FieldError, ...]:
    return tuple(_validate_toleration(path, toleration))


def _validate_toleration(path: str, toleration: TolerationFields) -> Iterator[FieldError]:
    operator, effect = toleration.operator or "", toleration.effect or ""
    if toleration.key and (error_message := find_label_key_error(toleration.key)):
        yield invalid(f"{path}.key", toleration.key, error_message)
    if not toleration.key and operator != "Exists":
        detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        yield invalid(f"{path}.operator", operator, detail)
    if toleration.toleration_seconds is not None and effect != "NoExecute":
        yield invalid(f"{path}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
    match operator:
        case "" | "Equal":
            if error_message := find_label_value_error(toleration.value or ""):
                yield invalid(f"{path}.operator", toleration.value, error_message)
        case "Exists":
            if toleration.value:
                detail = "value must be empty when `operator` is 'Exists'"
                yield invalid(f"{path}.operator", toleration.value, detail)
        case _:
            yield not_supported(f"{path}.operator", operator, ("Equal", "Exists"))
    if effect and effect not in _EFFECTS:
        yield not_supported(f"{path}.effect", effect, _EFFECTS)


def validate_node_selector(selector: dict[str, str]) -> Iterator[FieldError]:
    yield from _validate_labels("spec.nodeSelector", selector)


def _validate_labels(path: str, labels: dict[str, str]) -> Iterator[FieldError]:
    for key, value in labels.items():
        if error_message := find_label_key_error(key):
            yield invalid(path, key, error_message)
        if error_message := find_label_value_error(value):
            yield invalid(path, value, error_message)


def validate_affinity(affinity: AffinityFields) -> Iterator[FieldError]:
    if affinity.node_affinity is not None:
        yield from _validate_node_affinity("spec.affinity.nodeAffinity", affinity.node_affinity)
    for field, pods in (("podAffinity", affinity.pod_affinity), ("podAntiAffinity", affinity.pod_anti_affinity)):
        if pods is not None:
            yield from _validate_pod_affinity(f"spec.affinity.{field}", pods)


def _validate_node_affinity(path: str, affinity: _NodeAffinity) -> Iterator[FieldError]:
    if affinity.required is not None:
        where = f"{path}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
        terms = affinity.required.node_selector_terms or []
        if not terms:
            yield required(where, "must have at least one node selector term")
        for index, term in enumerate(terms):
            yield from _validate_node_term(f"{where}[{index}]", term)
    for index, preferred in enumerate(affinity.preferred or ()):
        where = f"{path}.preferredDuringSchedulingIgnoredDuringExecution[{index}]"
        yield from _validate_weight(where, preferred.weight)
        yield from _validate_node_term(f"{where}.preference", preferred.preference or _NodeTerm())


def _validate_weight(path: str, weight: int) -> Iterator[FieldError]:
    if not 1 <= weight <= 100:
        yield invalid(f"{path}.weight", weight, "must be in the range 1-100")


def _validate_node_term(path: str, term: _NodeTerm) -> Iterator[FieldError]:
    for index, requirement in enumerate(term.match_expressions or ()):
        where = f"{path}.matchExpressions[{index}]"
        yield from _validate_requirement(where, requirement)
        if error_message := find_label_key_error(requirement.key):
            yield invalid(f"{where}.key", requirement.key, error_message)
    for index, requirement in enumerate(term.match_fields or ()):
        where = f"{path}.matchFields[{index}]"
        if requirement.operator not in ("In", "NotIn"):
            yield invalid(f"{where}.operator", requirement.operator, "not a valid selector operator")
        elif len(requirement.values or ()) != 1:
            yield required(f"{where}.values", "must be only one value when `operator` is 'In' or 'NotIn' for field")
        if requirement.key != "metadata.name":
            yield invalid(f"{where}.key", requirement.key, "not a valid field selector key")


def _validate_requirement(path: str, requirement: _Requirement) -> Iterator[FieldError]:
    count = len(requirement.values or ())
    match requirement.operator:
        case "In" | "NotIn" if not count:
            yield required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        case "Exists" | "DoesNotExist" if count:
            yield forbidden(f"{path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
        case "Gt" | "Lt" if count != 1:
            yield required(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
        case "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt":
            return
        case other:
            yield invalid(f"{path}.operator", other, "not a valid selector operator")


def _validate_pod_affinity(path: str, affinity: _PodAffinity) -> Iterator[FieldError]:
    for index, term in enumerate(affinity.required or ()):
        yield from _validate_pod_term(f"{path}.requiredDuringSchedulingIgnoredDuringExecution[{index}]", term)
    for index, preferred in enumerate(affinity.preferred or ()):
        where = f"{path}.preferredDuringSchedulingIgnoredDuringExecution[{index}]"
        yield from _validate_weight(where, preferred.weight)
        yield from _validate_pod_term(f"{where}.podAffinityTerm", preferred.pod_affinity_term or _PodTerm())


def _validate_pod_term(path: str, term: _PodTerm) -> Iterator[FieldError]:
    for field, selector in (("labelSelector", term.label_selector), ("namespaceSelector", term.namespace_selector)):
        if selector is not None:
            yield from _validate_label_selector(f"{path}.{field}", selector)
    if not term.topology_key:
        yield required(f"{path}.topologyKey", "can not be empty")
    elif error_message := find_label_key_error(term.topology_key):
        yield invalid(f"{path}.topologyKey", term.topology_key, error_message)


def _validate_label_selector(path: str, selector: _LabelSelector) -> Iterator[FieldError]:
    yield from _validate_labels(f"{path}.matchLabels", selector.match_labels or {})
    for index, requirement in enumerate(selector.match_expressions or ()):
        where = f"{path}.matchExpressions[{index}]"
        if requirement.operator in ("Gt", "Lt"):
            yield invalid(f"{where}.operator", requirement.operator, "not a valid selector operator")
        else:
            yield from _validate_requirement(where, requirement)
        if error_message := find_label_key_error(requirement.key):
            yield invalid(f"{where}.key", requirement.key, error_message)

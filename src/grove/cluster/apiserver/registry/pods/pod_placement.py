"""Validation of `tolerations`, `nodeSelector` and `affinity` of pods, as a real API server does it.

The scheduler evaluates them (`cluster/scheduler/types.py`).
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import msgspec

from grove.api.validation.field_errors import FieldError, forbidden, invalid, not_supported, required
from grove.cluster.apiserver.registry.metadata import label_key_problem, label_value_problem

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


def toleration_errors(tolerations: list[TolerationFields]) -> Iterator[FieldError]:
    for index, toleration in enumerate(tolerations):
        yield from _known_toleration_errors(f"spec.tolerations[{index}]", toleration)


# Most pods have the same tolerations.
@lru_cache(maxsize=1024)
def _known_toleration_errors(path: str, toleration: TolerationFields) -> tuple[FieldError, ...]:
    return tuple(_toleration_errors(path, toleration))


def _toleration_errors(path: str, toleration: TolerationFields) -> Iterator[FieldError]:
    operator, effect = toleration.operator or "", toleration.effect or ""
    if toleration.key and (problem := label_key_problem(toleration.key)):
        yield invalid(f"{path}.key", toleration.key, problem)
    if not toleration.key and operator != "Exists":
        detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        yield invalid(f"{path}.operator", operator, detail)
    if toleration.toleration_seconds is not None and effect != "NoExecute":
        yield invalid(f"{path}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
    match operator:
        case "" | "Equal":
            if problem := label_value_problem(toleration.value or ""):
                yield invalid(f"{path}.operator", toleration.value, problem)
        case "Exists":
            if toleration.value:
                detail = "value must be empty when `operator` is 'Exists'"
                yield invalid(f"{path}.operator", toleration.value, detail)
        case _:
            yield not_supported(f"{path}.operator", operator, ("Equal", "Exists"))
    if effect and effect not in _EFFECTS:
        yield not_supported(f"{path}.effect", effect, _EFFECTS)


def node_selector_errors(selector: dict[str, str]) -> Iterator[FieldError]:
    yield from _label_errors("spec.nodeSelector", selector)


def _label_errors(path: str, labels: dict[str, str]) -> Iterator[FieldError]:
    for key, value in labels.items():
        if problem := label_key_problem(key):
            yield invalid(path, key, problem)
        if problem := label_value_problem(value):
            yield invalid(path, value, problem)


def affinity_errors(affinity: AffinityFields) -> Iterator[FieldError]:
    if affinity.node_affinity is not None:
        yield from _node_affinity_errors("spec.affinity.nodeAffinity", affinity.node_affinity)
    for field, pods in (("podAffinity", affinity.pod_affinity), ("podAntiAffinity", affinity.pod_anti_affinity)):
        if pods is not None:
            yield from _pod_affinity_errors(f"spec.affinity.{field}", pods)


def _node_affinity_errors(path: str, affinity: _NodeAffinity) -> Iterator[FieldError]:
    if affinity.required is not None:
        where = f"{path}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
        terms = affinity.required.node_selector_terms or []
        if not terms:
            yield required(where, "must have at least one node selector term")
        for index, term in enumerate(terms):
            yield from _node_term_errors(f"{where}[{index}]", term)
    for index, wish in enumerate(affinity.preferred or ()):
        where = f"{path}.preferredDuringSchedulingIgnoredDuringExecution[{index}]"
        yield from _weight_errors(where, wish.weight)
        yield from _node_term_errors(f"{where}.preference", wish.preference or _NodeTerm())


def _weight_errors(path: str, weight: int) -> Iterator[FieldError]:
    if not 1 <= weight <= 100:
        yield invalid(f"{path}.weight", weight, "must be in the range 1-100")


def _node_term_errors(path: str, term: _NodeTerm) -> Iterator[FieldError]:
    for index, requirement in enumerate(term.match_expressions or ()):
        where = f"{path}.matchExpressions[{index}]"
        yield from _node_requirement_errors(where, requirement)
        if problem := label_key_problem(requirement.key):
            yield invalid(f"{where}.key", requirement.key, problem)
    for index, requirement in enumerate(term.match_fields or ()):
        where = f"{path}.matchFields[{index}]"
        if requirement.operator not in ("In", "NotIn"):
            yield invalid(f"{where}.operator", requirement.operator, "not a valid selector operator")
        elif len(requirement.values or ()) != 1:
            yield required(f"{where}.values", "must be only one value when `operator` is 'In' or 'NotIn' for field")
        if requirement.key != "metadata.name":
            yield invalid(f"{where}.key", requirement.key, "not a valid field selector key")


def _node_requirement_errors(path: str, requirement: _Requirement) -> Iterator[FieldError]:
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


def _pod_affinity_errors(path: str, affinity: _PodAffinity) -> Iterator[FieldError]:
    for index, term in enumerate(affinity.required or ()):
        yield from _pod_term_errors(f"{path}.requiredDuringSchedulingIgnoredDuringExecution[{index}]", term)
    for index, wish in enumerate(affinity.preferred or ()):
        where = f"{path}.preferredDuringSchedulingIgnoredDuringExecution[{index}]"
        yield from _weight_errors(where, wish.weight)
        yield from _pod_term_errors(f"{where}.podAffinityTerm", wish.pod_affinity_term or _PodTerm())


def _pod_term_errors(path: str, term: _PodTerm) -> Iterator[FieldError]:
    for field, selector in (("labelSelector", term.label_selector), ("namespaceSelector", term.namespace_selector)):
        if selector is not None:
            yield from _label_selector_errors(f"{path}.{field}", selector)
    if not term.topology_key:
        yield required(f"{path}.topologyKey", "can not be empty")
    elif problem := label_key_problem(term.topology_key):
        yield invalid(f"{path}.topologyKey", term.topology_key, problem)


def _label_selector_errors(path: str, selector: _LabelSelector) -> Iterator[FieldError]:
    yield from _label_errors(f"{path}.matchLabels", selector.match_labels or {})
    for index, requirement in enumerate(selector.match_expressions or ()):
        where = f"{path}.matchExpressions[{index}]"
        count = len(requirement.values or ())
        match requirement.operator:
            case "In" | "NotIn" if not count:
                yield required(f"{where}.values", "must be specified when `operator` is 'In' or 'NotIn'")
            case "Exists" | "DoesNotExist" if count:
                yield forbidden(f"{where}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
            case "In" | "NotIn" | "Exists" | "DoesNotExist":
                pass
            case other:
                yield invalid(f"{where}.operator", other, "not a valid selector operator")
        if problem := label_key_problem(requirement.key):
            yield invalid(f"{where}.key", requirement.key, problem)

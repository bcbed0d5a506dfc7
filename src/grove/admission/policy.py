"""One write in, the answer out: decode, default, validate, warn. The rules themselves are in `api/validation/`.

Deletion is never blocked: deletes, and updates of what is leaving, pass unread.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, TypeVar

import msgspec

from grove.admission.schedulers import FindQueue, scheduler_errors, scheduler_warnings
from grove.api.defaulting import default_podcliqueset, default_scaling_group
from grove.api.resources import GROUPS, PODCLIQUES, PODCLIQUESETS, PODGANGS, TOPOLOGY_BINDINGS, Resource
from grove.api.types.admission import AdmissionAnswer, AdmissionRequest, Operation
from grove.api.types.meta import HasMetadata, JsonObject, OwnerReference, without_nulls
from grove.api.types.podclique import PodClique
from grove.api.types.podcliquescalinggroup import PodCliqueScalingGroup
from grove.api.types.podcliqueset import PodCliqueSet, WorkloadType
from grove.api.unsupported_fields import unbuilt_changes, unbuilt_fields
from grove.api.validation.clustertopologybinding import topology_binding_errors
from grove.api.validation.field_errors import UNSHOWN, ErrorKind, FieldError, invalid
from grove.api.validation.object_budget import clique_budget_errors, group_budget_errors
from grove.api.validation.podclique import podclique_errors
from grove.api.validation.podcliquescalinggroup import scaling_group_errors
from grove.api.validation.podcliqueset import validate_podcliqueset, validate_podcliqueset_update
from grove.api.validation.ratcheting import new_errors
from grove.api.validation.schema import Reading, read
from grove.api.validation.stored_bytes import scaled_clique_byte_errors, spec_errors
from grove.api.validation.topology_constraints import topology_warnings
from grove.api.validation.training import training_clique_changes, training_group_changes, training_warnings
from grove.api.validation.validation_options import FindBinding, ValidationOptions

T = TypeVar("T", bound=HasMetadata)


class AdmissionLookups(msgspec.Struct, frozen=True, kw_only=True):
    """What the answer may depend on besides the object. A question that cannot be asked here is None."""

    topology_binding: FindBinding | None = None
    # The set behind an owner reference in a namespace: the set itself, or the one that owns that group.
    owner_set: Callable[[str, OwnerReference], PodCliqueSet | None] | None = None
    queue: FindQueue | None = None


# An answer names so many; of warnings, an API server passes on 4 KB.
MOST_ERRORS = 100
MOST_WARNINGS = 100
_SEPARATORS = re.compile(r"[.\[]")
# Paths of our schemas are shorter. A longer one ends in the key of a map, which may be of any length.
_LONGEST_PLACE = 512

NO_LOOKUP = AdmissionLookups()
DEFAULT_SETTINGS = ValidationOptions()


def review(
    request: AdmissionRequest, lookup: AdmissionLookups = NO_LOOKUP, settings: ValidationOptions = DEFAULT_SETTINGS
) -> AdmissionAnswer:
    if request.object is None or request.operation is Operation.DELETE or request.subresource == "status":
        return AdmissionAnswer(object=request.object)
    # Not the new object: a deletion timestamp that somebody wrote into it would switch every rule off.
    if is_terminating(request.old):
        return AdmissionAnswer(object=request.object)
    match request.group, request.plural:
        case PODCLIQUESETS.group, PODCLIQUESETS.plural:
            return _review_set(request, lookup, settings)
        case PODCLIQUES.group, PODCLIQUES.plural:
            new = without_nulls(request.object)
            change_rule = _of_set(lookup, partial(_clique_changes, settings))
            return _review_child(PODCLIQUES, new, request, podclique_errors, change_rule)
        case GROUPS.group, GROUPS.plural:
            new = default_scaling_group(request.object)
            change_rule = _of_set(lookup, partial(_group_changes, settings))
            return _review_child(GROUPS, new, request, scaling_group_errors, change_rule)
        case PODGANGS.group, PODGANGS.plural:
            return _review_child(PODGANGS, without_nulls(request.object), request, lambda _: ())
        case TOPOLOGY_BINDINGS.group, TOPOLOGY_BINDINGS.plural:
            new = without_nulls(request.object)
            return _review_child(TOPOLOGY_BINDINGS, new, request, lambda b: topology_binding_errors(b, settings))
        case _:
            return AdmissionAnswer(object=request.object)


def _review_set(request: AdmissionRequest, lookup: AdmissionLookups, settings: ValidationOptions) -> AdmissionAnswer:
    old_json = None if request.old is None else default_podcliqueset(request.old)
    new_json = default_podcliqueset(request.object or {}, old_json, default_delay=settings.default_delay)
    new = read(PODCLIQUESETS, new_json)
    old: Reading[PodCliqueSet] = Reading(object=None) if old_json is None else read(PODCLIQUESETS, old_json)
    before = (*old.errors, *(() if old_json is None else spec_errors(old_json)))
    shape = new_errors((*new.errors, *spec_errors(new_json)), before)
    if new.object is None or _is_beyond_limits(shape):
        return _answer(new_json, shape)
    if old.object is None:
        rules = validate_podcliqueset(new.object, settings, lookup.topology_binding)
    else:
        rules = validate_podcliqueset_update(old.object, new.object, settings, lookup.topology_binding)
    rules = _joined(rules, scheduler_errors(old.object, new.object, settings, lookup.queue))
    warnings = () if request.subresource else _warnings(old.object, new.object, lookup, settings)
    return _answer(new_json, _joined(shape, rules), warnings)


def _warnings(
    old: PodCliqueSet | None, new: PodCliqueSet, lookup: AdmissionLookups, settings: ValidationOptions
) -> tuple[str, ...]:
    """What the writer should know; silent when neither spec nor annotations changed."""
    # Silent by itself, unless another queue is asked for.
    schedulers = tuple(scheduler_warnings(old, new, settings, lookup.queue))
    if old is not None and old.spec == new.spec and old.metadata.annotations == new.metadata.annotations:
        return schedulers
    changes = () if old is None else unbuilt_changes(old, new)
    topology = topology_warnings(new.spec.template, lookup.topology_binding)
    fields = (str(field) for field in (*unbuilt_fields(new), *changes))
    return (*fields, *topology, *training_warnings(new.spec), *schedulers)


ChangeRule = Callable[[Any, Any], Iterable[FieldError]]


def _review_child(
    resource: Resource[T],
    new_json: JsonObject,
    request: AdmissionRequest,
    rules: Callable[[T], Iterable[FieldError]],
    change_rule: ChangeRule | None = None,
) -> AdmissionAnswer:
    """One object with rules of its own; what it had wrong before may stay."""
    if request.old is not None and request.old.get("spec") == new_json.get("spec"):
        return AdmissionAnswer(object=new_json)
    new = read(resource, new_json)
    old = None if request.old is None else read(resource, without_nulls(request.old))
    shape = new_errors(new.errors, old.errors if old is not None else ())
    if _is_beyond_limits(shape):
        return _answer(new_json, shape)
    errors = _joined(new.errors, tuple(rules(new.object)) if new.object is not None else ())
    if old is None or not (errors or change_rule):
        return _answer(new_json, errors)
    if errors and old.object is not None:
        errors = new_errors(errors, _joined(old.errors, tuple(rules(old.object))))
    if change_rule is not None and new.object is not None and old.object is not None:
        errors = _joined(tuple(change_rule(old.object, new.object)), errors)
    return _answer(new_json, errors)


def _of_set(lookup: AdmissionLookups, rule: Callable[[Any, Any, PodCliqueSet], Iterable[FieldError]]) -> ChangeRule:
    """A rule for children that depends on their set.

    The set is found through the owner that the child had: a write that also takes the owner away is not let off.
    """

    def errors(old: PodClique | PodCliqueScalingGroup, new: PodClique | PodCliqueScalingGroup) -> Iterable[FieldError]:
        owner = next((owner for owner in old.metadata.owner_references if owner.controller), None)
        if owner is None or lookup.owner_set is None:
            return ()
        pcs = lookup.owner_set(old.metadata.namespace, owner)
        return () if pcs is None else rule(old, new, pcs)

    return errors


def _clique_changes(
    settings: ValidationOptions, old: PodClique, new: PodClique, pcs: PodCliqueSet
) -> Iterator[FieldError]:
    if pcs.spec.workload_type == WorkloadType.TRAINING:
        yield from training_clique_changes(old, new, pcs.metadata.name)
    elif new.spec.replicas > old.spec.replicas:
        # By the labels that it had: a write that also takes them away is not let off.
        scaled = msgspec.structs.replace(new, metadata=old.metadata)
        too_many = tuple(clique_budget_errors(scaled, pcs, settings.objects_per_set))
        yield from too_many or scaled_clique_byte_errors(scaled, pcs)


def _group_changes(
    settings: ValidationOptions, old: PodCliqueScalingGroup, new: PodCliqueScalingGroup, pcs: PodCliqueSet
) -> Iterator[FieldError]:
    if pcs.spec.workload_type == WorkloadType.TRAINING:
        yield from training_group_changes(old, new, pcs.metadata.name)
    elif new.spec.replicas > old.spec.replicas:
        scaled = msgspec.structs.replace(new, metadata=old.metadata)
        yield from group_budget_errors(scaled, pcs, settings.objects_per_set)


def _joined(first: tuple[FieldError, ...], second: tuple[FieldError, ...]) -> tuple[FieldError, ...]:
    """All errors; but a place that the first blame is not blamed by the second too, nor is what lies inside it."""
    blamed = frozenset(error.path for error in first)
    return first + tuple(e for e in second if blamed.isdisjoint(_around(e.path))) if blamed else second


def _around(path: str) -> Iterator[str]:
    """The path itself, and every place that it lies in."""
    yield path
    for separator in _SEPARATORS.finditer(path, 0, _LONGEST_PLACE):
        yield path[: separator.start()]


def _is_beyond_limits(errors: tuple[FieldError, ...]) -> bool:
    """Is a list or a text larger than its limit? Then no rule is asked: their work is bounded by these limits."""
    return any(error.kind in (ErrorKind.TOO_MANY, ErrorKind.TOO_LONG) for error in errors)


def _answer(new: JsonObject, errors: tuple[FieldError, ...], warnings: tuple[str, ...] = ()) -> AdmissionAnswer:
    if errors:
        return AdmissionAnswer(errors=_first_errors(errors))
    return AdmissionAnswer(object=new, warnings=warnings[:MOST_WARNINGS])


def _first_errors(errors: tuple[FieldError, ...]) -> tuple[FieldError, ...]:
    if len(errors) <= MOST_ERRORS:
        return errors
    return (*errors[:MOST_ERRORS], invalid("spec", UNSHOWN, "there are more errors, not listed: correct these first"))


def is_terminating(json: JsonObject | None) -> bool:
    """Being deleted already; None is not."""
    metadata = (json or {}).get("metadata")
    return isinstance(metadata, dict) and metadata.get("deletionTimestamp") is not None

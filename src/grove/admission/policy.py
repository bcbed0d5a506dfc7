"""Review one write: decode, default, validate, warn. The rules are in `api/validation/`.

Deletion is never blocked: deletes, and updates of terminating objects, are allowed without validation.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, TypeVar

import msgspec

from grove.admission.schedulers import FindQueue, scheduler_errors, scheduler_warnings
from grove.api.defaulting import default_podcliqueset, default_scaling_group
from grove.api.resources import GROUPS, PODCLIQUES, PODCLIQUESETS, PODGANGS, TOPOLOGY_BINDINGS, Resource
from grove.api.startup_order import describe_unknown_image
from grove.api.types.admission import AdmissionRequest, AdmissionResult, Operation
from grove.api.types.meta import HasMetadata, JsonObject, OwnerReference, without_nulls
from grove.api.types.podclique import PodClique
from grove.api.types.podcliquescalinggroup import PodCliqueScalingGroup
from grove.api.types.podcliqueset import PodCliqueSet, WorkloadType
from grove.api.unsupported_fields import find_unsupported_changes, find_unsupported_fields
from grove.api.validation.clustertopologybinding import topology_binding_errors
from grove.api.validation.field_errors import OMITTED, ErrorKind, FieldError, invalid
from grove.api.validation.object_budget import clique_budget_errors, group_budget_errors
from grove.api.validation.podclique import podclique_errors
from grove.api.validation.podcliquescalinggroup import scaling_group_errors
from grove.api.validation.podcliqueset import validate_podcliqueset, validate_podcliqueset_update
from grove.api.validation.ratcheting import new_errors
from grove.api.validation.schema import DecodedObject, decode_object
from grove.api.validation.stored_bytes import scaled_clique_byte_errors, spec_errors
from grove.api.validation.topology_constraints import topology_warnings
from grove.api.validation.training import training_clique_changes, training_group_changes, training_warnings
from grove.api.validation.validation_options import FindBinding, ValidationOptions

T = TypeVar("T", bound=HasMetadata)


class AdmissionLookups(msgspec.Struct, frozen=True, kw_only=True):
    """Lookups that rules use besides the object. None: the lookup is not available."""

    topology_binding: FindBinding | None = None
    # The set behind an owner reference in a namespace: the set itself, or the one that owns that group.
    owner_set: Callable[[str, OwnerReference], PodCliqueSet | None] | None = None
    queue: FindQueue | None = None


# Maximum numbers in a response; an API server truncates warnings at 4 KB.
MOST_ERRORS = 100
MOST_WARNINGS = 100
_SEPARATORS = re.compile(r"[.\[]")
# Paths of the schemas are shorter. A longer one ends in the key of a map.
_LONGEST_PATH = 512

NO_LOOKUP = AdmissionLookups()
DEFAULT_SETTINGS = ValidationOptions()


def review(
    request: AdmissionRequest, lookup: AdmissionLookups = NO_LOOKUP, settings: ValidationOptions = DEFAULT_SETTINGS
) -> AdmissionResult:
    if request.object is None or request.operation is Operation.DELETE or request.subresource == "status":
        return AdmissionResult(object=request.object)
    # Not the new object: a user could write a deletion timestamp into it to disable every rule.
    if is_terminating(request.old):
        return AdmissionResult(object=request.object)
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
            return AdmissionResult(object=request.object)


def _review_set(request: AdmissionRequest, lookup: AdmissionLookups, settings: ValidationOptions) -> AdmissionResult:
    old_json = None if request.old is None else default_podcliqueset(request.old)
    new_json = default_podcliqueset(request.object or {}, old_json, default_delay=settings.default_delay)
    new = decode_object(PODCLIQUESETS, new_json)
    old: DecodedObject[PodCliqueSet] = (
        DecodedObject(object=None) if old_json is None else decode_object(PODCLIQUESETS, old_json)
    )
    before = (*old.errors, *(() if old_json is None else spec_errors(old_json)))
    shape = new_errors((*new.errors, *spec_errors(new_json)), before)
    if new.object is None or _is_beyond_limits(shape):
        return _respond(new_json, shape)
    if old.object is None:
        rules = validate_podcliqueset(new.object, settings, lookup.topology_binding)
    else:
        rules = validate_podcliqueset_update(old.object, new.object, settings, lookup.topology_binding)
    rules = _merge_errors(rules, scheduler_errors(old.object, new.object, settings, lookup.queue))
    warnings = () if request.subresource else _warnings(old.object, new.object, lookup, settings)
    return _respond(new_json, _merge_errors(shape, rules), warnings)


def _warnings(
    old: PodCliqueSet | None, new: PodCliqueSet, lookup: AdmissionLookups, settings: ValidationOptions
) -> tuple[str, ...]:
    """Return the warnings. If neither spec nor annotations changed, only those about the queue."""
    # These warn only if another queue is requested.
    schedulers = tuple(scheduler_warnings(old, new, settings, lookup.queue))
    if old is not None and old.spec == new.spec and old.metadata.annotations == new.metadata.annotations:
        return schedulers
    changes = () if old is None else find_unsupported_changes(old, new)
    topology = topology_warnings(new.spec.template, lookup.topology_binding)
    fields = (str(field) for field in (*find_unsupported_fields(new), *changes))
    no_image = describe_unknown_image(new.spec.template, settings.init_image)
    startup = (f"spec.template.cliqueStartupType: {no_image}",) if no_image else ()
    return (*fields, *topology, *startup, *training_warnings(new), *schedulers)


ChangeRule = Callable[[Any, Any], Iterable[FieldError]]


def _review_child(
    resource: Resource[T],
    new_json: JsonObject,
    request: AdmissionRequest,
    rules: Callable[[T], Iterable[FieldError]],
    change_rule: ChangeRule | None = None,
) -> AdmissionResult:
    """Review a child object; errors that it had before may stay."""
    if request.old is not None and request.old.get("spec") == new_json.get("spec"):
        return AdmissionResult(object=new_json)
    new = decode_object(resource, new_json)
    old = None if request.old is None else decode_object(resource, without_nulls(request.old))
    shape = new_errors(new.errors, old.errors if old is not None else ())
    if _is_beyond_limits(shape):
        return _respond(new_json, shape)
    errors = _merge_errors(new.errors, tuple(rules(new.object)) if new.object is not None else ())
    if old is None or not (errors or change_rule):
        return _respond(new_json, errors)
    if errors and old.object is not None:
        errors = new_errors(errors, _merge_errors(old.errors, tuple(rules(old.object))))
    if change_rule is not None and new.object is not None and old.object is not None:
        errors = _merge_errors(tuple(change_rule(old.object, new.object)), errors)
    return _respond(new_json, errors)


def _of_set(lookup: AdmissionLookups, rule: Callable[[Any, Any, PodCliqueSet], Iterable[FieldError]]) -> ChangeRule:
    """Return a rule for children that depends on their set.

    The set is found through the old owner, so that a write cannot avoid the rule by removing the owner.
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
        # With the old labels, so that a write cannot avoid the rule by removing them.
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


def _merge_errors(first: tuple[FieldError, ...], second: tuple[FieldError, ...]) -> tuple[FieldError, ...]:
    """Return all errors, without those of `second` at or below a path of `first`."""
    paths = frozenset(error.path for error in first)
    return first + tuple(e for e in second if paths.isdisjoint(_enclosing_paths(e.path))) if paths else second


def _enclosing_paths(path: str) -> Iterator[str]:
    """Yield the path and every path that contains it."""
    yield path
    for separator in _SEPARATORS.finditer(path, 0, _LONGEST_PATH):
        yield path[: separator.start()]


def _is_beyond_limits(errors: tuple[FieldError, ...]) -> bool:
    """Return whether a list or text exceeds its limit. Then no rule runs: the limits bound their work."""
    return any(error.kind in (ErrorKind.TOO_MANY, ErrorKind.TOO_LONG) for error in errors)


def _respond(new: JsonObject, errors: tuple[FieldError, ...], warnings: tuple[str, ...] = ()) -> AdmissionResult:
    if errors:
        return AdmissionResult(errors=_first_errors(errors))
    return AdmissionResult(object=new, warnings=warnings[:MOST_WARNINGS])


def _first_errors(errors: tuple[FieldError, ...]) -> tuple[FieldError, ...]:
    if len(errors) <= MOST_ERRORS:
        return errors
    return (*errors[:MOST_ERRORS], invalid("spec", OMITTED, "too many errors to list: correct these first"))


def is_terminating(json: JsonObject | None) -> bool:
    """Return whether the object is terminating; False for None."""
    metadata = (json or {}).get("metadata")
    return isinstance(metadata, dict) and metadata.get("deletionTimestamp") is not None

"""One write in, the answer out: decode, default, validate, warn. The rules themselves are in `api/validation/`.

Deletion is never blocked: deletes, and updates of what is leaving, pass unread.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec

from grove.admission.schedulers import FindQueue, scheduler_errors, scheduler_warnings
from grove.api.admission import AdmissionAnswer, AdmissionRequest, Operation
from grove.api.defaulting import default_podcliqueset, default_scaling_group
from grove.api.fielderrors import FieldError
from grove.api.meta import HasMetadata, JsonObject, OwnerReference, without_nulls
from grove.api.podclique import PodClique
from grove.api.podcliqueset import PodCliqueSet, WorkloadType
from grove.api.resources import GROUPS, PODCLIQUES, PODCLIQUESETS, PODGANGS, TOPOLOGY_BINDINGS, Resource
from grove.api.scalinggroup import PodCliqueScalingGroup
from grove.api.unbuilt import unbuilt_changes, unbuilt_fields
from grove.api.validation.podclique import podclique_errors
from grove.api.validation.podcliqueset import validate_podcliqueset, validate_podcliqueset_update
from grove.api.validation.ratchet import new_errors
from grove.api.validation.scalinggroup import scaling_group_errors
from grove.api.validation.settings import FindBinding, Settings
from grove.api.validation.shape import Reading, read
from grove.api.validation.topology import topology_warnings
from grove.api.validation.topologybinding import topology_binding_errors
from grove.api.validation.training import training_clique_changes, training_group_changes, training_warnings

T = TypeVar("T", bound=HasMetadata)


class Lookup(msgspec.Struct, frozen=True, kw_only=True):
    """What the answer may depend on besides the object. A question that cannot be asked here is None."""

    topology_binding: FindBinding | None = None
    # The set behind an owner reference in a namespace: the set itself, or the one that owns that group.
    owner_set: Callable[[str, OwnerReference], PodCliqueSet | None] | None = None
    queue: FindQueue | None = None


NO_LOOKUP = Lookup()
DEFAULT_SETTINGS = Settings()


def review(
    request: AdmissionRequest, lookup: Lookup = NO_LOOKUP, settings: Settings = DEFAULT_SETTINGS
) -> AdmissionAnswer:
    if request.object is None or request.operation is Operation.DELETE or request.subresource == "status":
        return AdmissionAnswer(object=request.object)
    # Not the new object: a deletion timestamp that somebody wrote into it would switch every rule off.
    if is_leaving(request.old):
        return AdmissionAnswer(object=request.object)
    match request.group, request.plural:
        case PODCLIQUESETS.group, PODCLIQUESETS.plural:
            return _review_set(request, lookup, settings)
        case PODCLIQUES.group, PODCLIQUES.plural:
            new = without_nulls(request.object)
            change_rule = _of_training(lookup, training_clique_changes)
            return _review_child(PODCLIQUES, new, request, podclique_errors, change_rule)
        case GROUPS.group, GROUPS.plural:
            new = default_scaling_group(request.object)
            change_rule = _of_training(lookup, training_group_changes)
            return _review_child(GROUPS, new, request, scaling_group_errors, change_rule)
        case PODGANGS.group, PODGANGS.plural:
            return _review_child(PODGANGS, without_nulls(request.object), request, lambda _: ())
        case TOPOLOGY_BINDINGS.group, TOPOLOGY_BINDINGS.plural:
            new = without_nulls(request.object)
            return _review_child(TOPOLOGY_BINDINGS, new, request, lambda b: topology_binding_errors(b, settings))
        case _:
            return AdmissionAnswer(object=request.object)


def _review_set(request: AdmissionRequest, lookup: Lookup, settings: Settings) -> AdmissionAnswer:
    old_json = None if request.old is None else default_podcliqueset(request.old)
    new_json = default_podcliqueset(request.object or {}, old_json)
    new = read(PODCLIQUESETS, new_json)
    old: Reading[PodCliqueSet] = Reading(object=None) if old_json is None else read(PODCLIQUESETS, old_json)
    shape = new_errors(new.errors, old.errors)
    if new.object is None:
        return _answer(new_json, shape)
    if old.object is None:
        rules = validate_podcliqueset(new.object, settings, lookup.topology_binding)
    else:
        rules = validate_podcliqueset_update(old.object, new.object, settings, lookup.topology_binding)
    rules = _joined(rules, scheduler_errors(old.object, new.object, settings, lookup.queue))
    warnings = () if request.subresource else _warnings(old.object, new.object, lookup, settings)
    return _answer(new_json, _joined(shape, rules), warnings)


def _warnings(old: PodCliqueSet | None, new: PodCliqueSet, lookup: Lookup, settings: Settings) -> tuple[str, ...]:
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
    errors = _joined(new.errors, tuple(rules(new.object)) if new.object is not None else ())
    if request.old is None or not (errors or change_rule):
        return _answer(new_json, errors)
    old = read(resource, without_nulls(request.old))
    if errors and old.object is not None:
        errors = new_errors(errors, _joined(old.errors, tuple(rules(old.object))))
    if change_rule is not None and new.object is not None and old.object is not None:
        errors = _joined(tuple(change_rule(old.object, new.object)), errors)
    return _answer(new_json, errors)


def _of_training(lookup: Lookup, rule: Callable[[Any, Any, str], Iterable[FieldError]]) -> ChangeRule:
    """A rule for children of training sets: it needs the name of the set.

    The set is found through the owner that the child had: a write that also takes the owner away is not let off.
    """

    def errors(old: PodClique | PodCliqueScalingGroup, new: PodClique | PodCliqueScalingGroup) -> Iterable[FieldError]:
        owner = next((owner for owner in old.metadata.owner_references if owner.controller), None)
        if owner is None or lookup.owner_set is None:
            return ()
        pcs = lookup.owner_set(old.metadata.namespace, owner)
        if pcs is None or pcs.spec.workload_type != WorkloadType.TRAINING:
            return ()
        return rule(old, new, pcs.metadata.name)

    return errors


def _joined(first: tuple[FieldError, ...], second: tuple[FieldError, ...]) -> tuple[FieldError, ...]:
    """All errors; but a place that the first blame is not blamed by the second too, nor is what lies inside it."""
    blamed = tuple(error.path for error in first)
    inside = tuple(path + separator for path in blamed for separator in ".[")
    return first + tuple(e for e in second if e.path not in blamed and not e.path.startswith(inside))


def _answer(new: JsonObject, errors: tuple[FieldError, ...], warnings: tuple[str, ...] = ()) -> AdmissionAnswer:
    if errors:
        return AdmissionAnswer(errors=errors)
    return AdmissionAnswer(object=new, warnings=warnings)


def is_leaving(json: JsonObject | None) -> bool:
    """Being deleted already; None is not."""
    metadata = (json or {}).get("metadata")
    return isinstance(metadata, dict) and metadata.get("deletionTimestamp") is not None

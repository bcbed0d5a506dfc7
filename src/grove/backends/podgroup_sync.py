"""Create and update the PodGroup of a gang for KAI or Volcano; it has the name of the gang.

`kai.py` and `volcano.py` build the desired PodGroup. Only the fields of the operator are written; the scheduler and
others own the rest.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from grove.api import labels
from grove.api.merge_patch import merge_patch, patch_towards
from grove.api.resources import Resource
from grove.api.types.meta import JsonObject
from grove.api.types.podcliqueset import PodCliqueSetSpec
from grove.api.types.podgang import PodGang
from grove.api.types.scheduler_object import SchedulerObject
from grove.api.validation.topology_constraints import levels_of
from grove.backends.base import (
    GangInput,
    NewSchedulerObject,
    SchedulerMessage,
    SchedulerObjectDelete,
    SchedulerObjectPatch,
    SchedulerObjectPlan,
    Value,
)

_OWN_BOOKKEEPING = (labels.TEARDOWN, labels.RECREATION, labels.ZERO_COUNTS)
_OWN_LABELS = (labels.INCARNATION, labels.GENERATION_HASH)


class DesiredPodGroup(Value):
    """The desired PodGroup."""

    resource: Resource[SchedulerObject]
    # None: the field must be absent.
    spec: JsonObject
    # Without these fields the scheduler cannot place the gang.
    essential: tuple[str, ...]
    # Written at creation only; then the scheduler owns them.
    create_only: tuple[str, ...] = ()
    # Fields that older versions of the scheduler do not have, and the text to report where one is missing.
    newer_fields: Mapping[str, str] = {}
    kept_labels: tuple[str, ...] = ()
    # The operator's fields of list items; a server may add more.
    item_fields: tuple[str, ...] = ()


def plan_podgroup(
    inputs: GangInput,
    found: Sequence[tuple[Resource[SchedulerObject], SchedulerObject]],
    desired: DesiredPodGroup,
    messages: Sequence[SchedulerMessage],
) -> SchedulerObjectPlan:
    name = inputs.gang.metadata.name
    is_empty = not (inputs.cliques and inputs.gang.spec.podgroups)
    current = None if is_empty else current_podgroup(inputs.gang, desired.resource, found)
    orphans = tuple(
        SchedulerObjectDelete(resource=resource, existing=existing, reason="the gang does not need it")
        for resource, existing in found
        if existing is not current and not existing.metadata.is_terminating
    )
    if is_empty:
        # Every clique is scaled to zero, or was until now.
        return SchedulerObjectPlan(delete=orphans, waits=f"PodGang {name} has no pods yet")
    if current is None:
        body = {
            "apiVersion": desired.resource.api_version,
            "kind": desired.resource.kind,
            "metadata": {"name": name, **_metadata(inputs.gang, desired)},
            "spec": _without_none(desired.spec),
        }
        new = NewSchedulerObject(resource=desired.resource, name=name, body=body)
        return SchedulerObjectPlan(create=(new,), delete=orphans, waits=f"PodGroup {name} is written first")
    if current.metadata.is_terminating:
        return SchedulerObjectPlan(
            delete=orphans, waits=f"PodGroup {name} is being deleted; it is created again after that"
        )
    patch, dropped = _diff(inputs.gang, current, desired)
    return SchedulerObjectPlan(
        patch=_as_patches(current, patch, desired),
        delete=orphans,
        waits=_waits(name, patch, dropped, desired),
        messages=() if is_placed(inputs) else tuple(messages),
        unmet=tuple(desired.newer_fields[field] for field in dropped if field not in desired.essential),
    )


def assign_pod(pod: JsonObject, scheduler: str, *, labels: Mapping[str, str], annotations: Mapping[str, str]) -> None:
    """Add the scheduler, and the labels and annotations that name the PodGroup, to the manifest of a new pod."""
    metadata = pod["metadata"]
    pod["metadata"] = {
        **metadata,
        "labels": {**metadata.get("labels", {}), **labels},
        "annotations": {**metadata.get("annotations", {}), **annotations},
    }
    pod["spec"] = {**pod["spec"], "schedulerName": scheduler}


def current_podgroup(
    gang: PodGang,
    resource: Resource[SchedulerObject],
    found: Sequence[tuple[Resource[SchedulerObject], SchedulerObject]],
) -> SchedulerObject | None:
    kind = resource.full_name
    return next((m for r, m in found if r.full_name == kind and m.metadata.name == gang.metadata.name), None)


def is_placed(inputs: GangInput) -> bool:
    return all(clique.placed_count >= clique.minimum for clique in inputs.cliques)


def priority_of(inputs: GangInput) -> str | None:
    """Return the priority class of the set, or the one that all of its cliques have."""
    own = {clique.priority_class_name for clique in inputs.cliques}
    return inputs.gang.spec.priority_class_name or (own.pop() if len(own) == 1 else "") or None


def topology_paths(spec: PodCliqueSetSpec) -> Iterator[str]:
    """Return the paths of all topology constraints of a set."""
    return (level.path for level in levels_of(spec.template).values() if level.constraint is not None)


def _metadata(gang: PodGang, desired: DesiredPodGroup) -> JsonObject:
    """Return the labels and annotations of the gang, which include those of the set."""
    shown = {k: v for k, v in gang.metadata.annotations.items() if k not in _OWN_BOOKKEEPING}
    # A field that is listed here but absent was dropped by a server that does not know it.
    requested = {labels.REQUESTED_FIELDS: ",".join(desired.newer_fields)} if desired.newer_fields else {}
    return {
        "labels": {k: v for k, v in gang.metadata.labels.items() if k not in _OWN_LABELS},
        "annotations": {**shown, **requested},
    }


def _diff(gang: PodGang, current: SchedulerObject, desired: DesiredPodGroup) -> tuple[JsonObject, tuple[str, ...]]:
    """Return the patch, and the fields that the server dropped."""
    requested = current.metadata.annotations.get(labels.REQUESTED_FIELDS, "").split(",")
    spec: JsonObject = {}
    dropped: list[str] = []
    for field, wanted in desired.spec.items():
        now = current.spec.get(field)
        if is_same(now, wanted, desired.item_fields) or (field in desired.create_only and now):
            continue
        if now is None and field in desired.newer_fields and field in requested:
            dropped.append(field)
        elif isinstance(now, dict) and isinstance(wanted, dict):
            spec[field] = merge_patch(now, wanted)
        else:
            spec[field] = _keep_foreign_fields(now, wanted, desired.item_fields)
    metadata = _diff_metadata(gang, current, desired)
    patch = {**({"metadata": metadata} if metadata else {}), **({"spec": spec} if spec else {})}
    return patch, tuple(dropped)


def _diff_metadata(gang: PodGang, current: SchedulerObject, desired: DesiredPodGroup) -> JsonObject:
    wanted = _metadata(gang, desired)
    theirs = {key: current.metadata.labels[key] for key in desired.kept_labels if key in current.metadata.labels}
    pairs = {
        "labels": patch_towards(current.metadata.labels, {**wanted["labels"], **theirs}),
        "annotations": patch_towards(current.metadata.annotations, wanted["annotations"]),
    }
    return {field: changed for field, changed in pairs.items() if changed}


def _as_patches(
    current: SchedulerObject, patch: JsonObject, desired: DesiredPodGroup
) -> tuple[SchedulerObjectPatch, ...]:
    if not patch:
        return ()
    reason = "the PodGroup is updated to match its gang"
    return (SchedulerObjectPatch(resource=desired.resource, existing=current, patch=patch, reason=reason),)


def _waits(name: str, patch: JsonObject, dropped: Sequence[str], desired: DesiredPodGroup) -> str:
    lost = [desired.newer_fields[field] for field in dropped if field in desired.essential]
    if lost:
        return lost[0]
    if any(field in patch.get("spec", {}) for field in desired.essential):
        return f"PodGroup {name} is brought up to date first"
    return ""


def is_same(now: Any, wanted: Any, item_fields: Sequence[str] = ()) -> bool:
    """Return whether both are equal, ignoring fields that a server adds to list items. Empty is the same as absent."""
    return bool(_drop_empty(_own_fields(now, item_fields)) == _drop_empty(wanted))


def _keep_foreign_fields(now: Any, wanted: Any, item_fields: Sequence[str]) -> Any:
    """Return the value to write. A list is written as a whole, so fields that others added to its items are kept."""
    if not isinstance(now, list) or not isinstance(wanted, list):
        return wanted
    found = {one.get("name"): one for one in now if isinstance(one, dict)}
    return [{**{k: v for k, v in found.get(one["name"], {}).items() if k not in item_fields}, **one} for one in wanted]


def _own_fields(value: Any, item_fields: Sequence[str]) -> Any:
    if not isinstance(value, list):
        return value
    return [{k: v for k, v in one.items() if k in item_fields} if isinstance(one, dict) else one for one in value]


def _drop_empty(value: Any) -> Any:
    """Drop nulls, zeros, and empty texts, lists and objects, which Go omits."""
    if isinstance(value, dict):
        kept = {key: _drop_empty(inner) for key, inner in value.items()}
        return {key: inner for key, inner in kept.items() if inner not in (None, "", 0, {}, [])} or None
    if isinstance(value, list | tuple):
        return [_drop_empty(inner) for inner in value] or None
    return value or None


def _without_none(spec: JsonObject) -> JsonObject:
    return {field: value for field, value in spec.items() if value is not None}

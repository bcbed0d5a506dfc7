"""One PodGroup per gang, named like it: how KAI's and Volcano's mirrors are created and kept up to date.

What a PodGroup says is the matter of `kai.py` and `volcano.py`. Only what is ours is ever written: the rest of the
object belongs to its scheduler, or to others.
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
from grove.backends.base import GangAsk, MirrorDelete, MirrorPatch, MirrorPlan, NewMirror, SchedulerMessage, Value

_OWN_BOOKKEEPING = (labels.TEARDOWN, labels.RECREATION, labels.ZERO_COUNTS)
_OWN_LABELS = (labels.INCARNATION, labels.GENERATION_HASH)


class Design(Value):
    """A PodGroup as it should be."""

    resource: Resource[SchedulerObject]
    # A field of ours that is not wanted is None.
    spec: JsonObject
    # The gang is not described without them.
    vital: tuple[str, ...]
    # Written when the object is made; from then on they are the scheduler's.
    first_only: tuple[str, ...] = ()
    # Younger than the oldest version of the scheduler that we may meet: what it means where one is not known.
    young: Mapping[str, str] = {}
    kept_labels: tuple[str, ...] = ()
    # What is ours of the items of lists; a server may add more.
    item_fields: tuple[str, ...] = ()


def plan_podgroup(
    ask: GangAsk,
    found: Sequence[tuple[Resource[SchedulerObject], SchedulerObject]],
    design: Design,
    said: Sequence[SchedulerMessage],
) -> MirrorPlan:
    name = ask.gang.metadata.name
    is_empty = not (ask.cliques and ask.gang.spec.podgroups)
    current = None if is_empty else current_podgroup(ask.gang, design.resource, found)
    strays = tuple(
        MirrorDelete(resource=resource, mirror=mirror, reason="nothing of the gang needs it")
        for resource, mirror in found
        if mirror is not current and not mirror.metadata.is_terminating
    )
    if is_empty:
        # Every clique is scaled to zero, or was until a moment ago.
        return MirrorPlan(delete=strays, waits=f"PodGang {name} names its pods first")
    if current is None:
        body = {
            "apiVersion": design.resource.api_version,
            "kind": design.resource.kind,
            "metadata": {"name": name, **_metadata(ask.gang, design)},
            "spec": _without_none(design.spec),
        }
        new = NewMirror(resource=design.resource, name=name, body=body)
        return MirrorPlan(create=(new,), delete=strays, waits=f"PodGroup {name} is written first")
    if current.metadata.is_terminating:
        return MirrorPlan(delete=strays, waits=f"PodGroup {name} is being deleted, and is made anew when it is gone")
    patch, dropped = _difference(ask.gang, current, design)
    return MirrorPlan(
        patch=_as_patches(current, patch, design),
        delete=strays,
        waits=_waits(name, patch, dropped, design),
        said=() if is_placed(ask) else tuple(said),
        unmet=tuple(design.young[field] for field in dropped if field not in design.vital),
    )


def current_podgroup(
    gang: PodGang,
    resource: Resource[SchedulerObject],
    found: Sequence[tuple[Resource[SchedulerObject], SchedulerObject]],
) -> SchedulerObject | None:
    kind = resource.full_name
    return next((m for r, m in found if r.full_name == kind and m.metadata.name == gang.metadata.name), None)


def is_placed(ask: GangAsk) -> bool:
    return all(clique.placed_count >= clique.minimum for clique in ask.cliques)


def priority_of(ask: GangAsk) -> str | None:
    """The set's, or the one that all of its cliques share: a gang has one place in the line."""
    own = {clique.priority_class_name for clique in ask.cliques}
    return ask.gang.spec.priority_class_name or (own.pop() if len(own) == 1 else "") or None


def topology_paths(spec: PodCliqueSetSpec) -> Iterator[str]:
    """Where a set asks for topology."""
    return (level.path for level in levels_of(spec.template).values() if level.constraint is not None)


def _metadata(gang: PodGang, design: Design) -> JsonObject:
    """The gang's labels and annotations, so that a scheduler sees what the user wrote on the set."""
    shown = {k: v for k, v in gang.metadata.annotations.items() if k not in _OWN_BOOKKEEPING}
    # A field that is named here and is not there was dropped by a server that does not know it.
    asked = {labels.ASKED_FIELDS: ",".join(design.young)} if design.young else {}
    return {
        "labels": {k: v for k, v in gang.metadata.labels.items() if k not in _OWN_LABELS},
        "annotations": {**shown, **asked},
    }


def _difference(gang: PodGang, current: SchedulerObject, design: Design) -> tuple[JsonObject, tuple[str, ...]]:
    """What to write, and which of our fields the server dropped."""
    asked = current.metadata.annotations.get(labels.ASKED_FIELDS, "").split(",")
    spec: JsonObject = {}
    dropped: list[str] = []
    for field, wanted in design.spec.items():
        now = current.spec.get(field)
        if is_same(now, wanted, design.item_fields) or (field in design.first_only and now):
            continue
        if now is None and field in design.young and field in asked:
            dropped.append(field)
        elif isinstance(now, dict) and isinstance(wanted, dict):
            spec[field] = merge_patch(now, wanted)
        else:
            spec[field] = _with_theirs(now, wanted, design.item_fields)
    metadata = _metadata_difference(gang, current, design)
    patch = {**({"metadata": metadata} if metadata else {}), **({"spec": spec} if spec else {})}
    return patch, tuple(dropped)


def _metadata_difference(gang: PodGang, current: SchedulerObject, design: Design) -> JsonObject:
    wanted = _metadata(gang, design)
    theirs = {key: current.metadata.labels[key] for key in design.kept_labels if key in current.metadata.labels}
    pairs = {
        "labels": patch_towards(current.metadata.labels, {**wanted["labels"], **theirs}),
        "annotations": patch_towards(current.metadata.annotations, wanted["annotations"]),
    }
    return {field: changed for field, changed in pairs.items() if changed}


def _as_patches(current: SchedulerObject, patch: JsonObject, design: Design) -> tuple[MirrorPatch, ...]:
    if not patch:
        return ()
    reason = "the PodGroup follows its gang"
    return (MirrorPatch(resource=design.resource, mirror=current, patch=patch, reason=reason),)


def _waits(name: str, patch: JsonObject, dropped: Sequence[str], design: Design) -> str:
    lost = [design.young[field] for field in dropped if field in design.vital]
    if lost:
        return lost[0]
    if any(field in patch.get("spec", {}) for field in design.vital):
        return f"PodGroup {name} is brought up to date first"
    return ""


def is_same(now: Any, wanted: Any, item_fields: Sequence[str] = ()) -> bool:
    """Equal, whatever a server adds to items of a list; what is empty there is as good as absent."""
    return bool(_filled(_ours(now, item_fields)) == _filled(wanted))


def _with_theirs(now: Any, wanted: Any, item_fields: Sequence[str]) -> Any:
    """A list is written as a whole: what others added to its items stays there."""
    if not isinstance(now, list) or not isinstance(wanted, list):
        return wanted
    found = {one.get("name"): one for one in now if isinstance(one, dict)}
    return [{**{k: v for k, v in found.get(one["name"], {}).items() if k not in item_fields}, **one} for one in wanted]


def _ours(value: Any, item_fields: Sequence[str]) -> Any:
    if not isinstance(value, list):
        return value
    return [{k: v for k, v in one.items() if k in item_fields} if isinstance(one, dict) else one for one in value]


def _filled(value: Any) -> Any:
    """Without what says nothing: nulls, empty texts, lists and objects, and zeros, which Go leaves out at will."""
    if isinstance(value, dict):
        kept = {key: _filled(inner) for key, inner in value.items()}
        return {key: inner for key, inner in kept.items() if inner not in (None, "", 0, {}, [])} or None
    if isinstance(value, list | tuple):
        return [_filled(inner) for inner in value] or None
    return value or None


def _without_none(spec: JsonObject) -> JsonObject:
    return {field: value for field, value in spec.items() if value is not None}

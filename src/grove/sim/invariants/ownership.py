"""Invariants of ownership: the operator never reads, writes or deletes foreign objects as part of a set.

An object belongs to a set if every owner key from it up to a PodCliqueSet names an existing object in the same
namespace. Labels, names and the uid in an owner reference prove nothing: any client can write them.

`pods_and_gangs.py` checks these rules first, and passes only objects of sets to the other rules.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from grove.api.resources import (
    AUTOSCALERS,
    CONTROLLER_REVISIONS,
    EVENTS,
    GROUPS,
    KAI_PODGROUPS,
    NATIVE_COMPOSITES,
    NATIVE_PODGROUPS,
    PODCLIQUES,
    PODCLIQUESETS,
    PODGANGS,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SERVICES,
    VOLCANO_PODGROUPS,
    Resource,
)
from grove.api.types.meta import HasMetadata, JsonObject, ObjectMeta, OwnerKey, Uid
from grove.cluster.storage.store import Change, ChangeType, Entry
from grove.kube.request_info import RequestSummary
from grove.planner.snapshot import Snapshot
from grove.sim.faults import RecordedWrite

_OWNERS: dict[str, Resource[Any]] = {
    resource.full_name: resource for resource in (PODCLIQUESETS, GROUPS, PODCLIQUES, PODGANGS)
}
_CHILDREN = frozenset(
    resource.full_name
    for resource in (
        GROUPS, PODCLIQUES, PODGANGS, PODS, SERVICES, AUTOSCALERS, CONTROLLER_REVISIONS, ROLES,
        ROLE_BINDINGS, NATIVE_PODGROUPS, NATIVE_COMPOSITES, KAI_PODGROUPS, VOLCANO_PODGROUPS,
    )
)  # fmt: skip

# The full name of a kind, a namespace and a name.
_Place = tuple[str, str, str]


class _Known(msgspec.Struct, frozen=True):
    uid: Uid
    is_part_of_set: bool


class OwnershipRules:
    """The rules, with a record of every object of the kinds that sets consist of, foreign ones included."""

    def __init__(self) -> None:
        # The owner keys of sets and of their parts that may own objects, including deleted ones.
        self._owners: set[OwnerKey] = set()
        # The last object of each name; a deleted one stays until its successor is created.
        self._places: dict[_Place, _Known] = {}
        # Foreign objects that were deleted or became terminating: by the current request, and by the last one.
        self._foreign_deletes: list[_Place] = []
        self._last_foreign_deletes: list[_Place] = []

    def note(self, change: Change) -> bool:
        """Remember a write to the store; return whether its object belongs to a set."""
        kind = change.resource_info.qualified
        if kind not in _CHILDREN and kind not in _OWNERS:
            return False
        metadata = msgspec.convert(change.entry.obj["metadata"], ObjectMeta)
        is_part = kind == PODCLIQUESETS.full_name or metadata.controller in self._owners
        place = (kind, metadata.namespace, metadata.name)
        self._places[place] = _Known(metadata.uid, is_part)
        if is_part and kind in _OWNERS:
            self._owners.add(_OWNERS[kind].owner_key(metadata))
        if not is_part and _is_end(change):
            self._foreign_deletes.append(place)
        return is_part

    def is_part_of_set(self, entry: Entry) -> bool:
        """Return whether this version of a child belongs to a set by its controller reference."""
        return msgspec.convert(entry.obj["metadata"], ObjectMeta).controller in self._owners

    def end_request(self) -> None:
        """Note that the server has finished a request: later deletes belong to another one."""
        self._last_foreign_deletes, self._foreign_deletes = self._foreign_deletes, []

    def check(self, write: RecordedWrite) -> Iterator[str]:
        """Yield the reasons why the operator should not have made this write, the last request of all."""
        target, kind = write.target, _kind_of(write)
        if write.status >= 300:
            return
        if target.verb == "deletecollection":
            for _, namespace, name in self._last_foreign_deletes:
                yield f"deleted {namespace}/{name}, which belongs to no set, together with what does"
        elif kind == EVENTS.full_name:
            yield from self._check_event(target, write)
        elif target.verb == "create" and kind in _CHILDREN:
            metadata = msgspec.convert(_body(write)["metadata"], ObjectMeta)
            if metadata.namespace != target.namespace or metadata.controller not in self._owners:
                yield "was created for no set of its namespace"
        elif kind in _CHILDREN:
            known = self._places.get((kind, target.namespace, target.name))
            if known is None or not known.is_part_of_set:
                yield "was written although it belongs to no set of its namespace"

    def _check_event(self, target: RequestSummary, write: RecordedWrite) -> Iterator[str]:
        about = _body(write).get("involvedObject") or {}
        if target.verb == "create" and about.get("namespace") and about["namespace"] != target.namespace:
            yield f"is about an object of namespace {about['namespace']}"


def foreign_facts(snapshot: Snapshot) -> Iterator[str]:
    """Yield every object that a plan could use although it does not belong to the set."""
    pcs = snapshot.pcs.metadata
    top = PODCLIQUESETS.owner_key(pcs)
    yield from _not_of((top,), snapshot.revisions)
    yield from _not_of((top,), snapshot.orphaned_gangs)
    for replica in snapshot.replicas:
        groups = [GROUPS.owner_key(group.metadata) for group in replica.groups.values()]
        yield from _not_of((top,), replica.groups.values())
        yield from _not_of((top,), replica.gangs.values())
        yield from _not_of((top,), replica.services.values())
        yield from _not_of((top,), replica.autoscalers.values())
        yield from _not_of((top, *groups), (view.clique for view in replica.cliques.values()))
        for view in replica.cliques.values():
            pods = (*view.active, *view.terminating, *view.failed, *view.succeeded)
            yield from _not_of((PODCLIQUES.owner_key(view.clique.metadata),), pods)
        gangs = {gang.metadata.uid: PODGANGS.owner_key(gang.metadata) for gang in replica.gangs.values()}
        for uid, scheduler_objects in replica.scheduler_objects.items():
            yield from _not_of((gangs[uid],), (scheduler_object for _, scheduler_object in scheduler_objects))


def _not_of(owners: Sequence[OwnerKey], objects: Iterable[HasMetadata]) -> Iterator[str]:
    for obj in objects:
        if obj.metadata.controller not in owners:
            yield f"{obj.metadata.namespace}/{obj.metadata.name} is read as a fact of a set that does not control it"


def _is_end(change: Change) -> bool:
    """Return whether the object is gone or terminating."""
    before = {} if change.before is None else change.before.obj["metadata"]
    is_marked = "deletionTimestamp" in change.entry.obj["metadata"] and "deletionTimestamp" not in before
    return change.type is ChangeType.DELETED or is_marked


def _kind_of(write: RecordedWrite) -> str:
    """Return the full name of the kind of a request."""
    parts = write.request.path.strip("/").split("/")
    plural = write.target.resource.partition("/")[0]
    return plural if parts[0] == "api" else f"{plural}.{parts[1]}"


def _body(write: RecordedWrite) -> JsonObject:
    body: JsonObject = msgspec.json.decode(write.request.body)
    return body

"""Garbage collector: deletes objects whose owners are gone, by the propagation policy of the deletion.

Background: dependents are deleted after their owner. Foreground: the owner waits for the dependents that block it.
Orphan: dependents stay. It watches the store and writes through the API, like any controller. It also runs the pod
garbage collector (`pod_gc.py`), the namespace controller (`namespace_controller.py`) and `crd_finalizer.py`.
"""

import asyncio

import msgspec

from grove.api.types.meta import JsonObject
from grove.cluster.apiserver.api_server import ApiServer
from grove.cluster.apiserver.auth.user_info import GARBAGE_COLLECTOR
from grove.cluster.apiserver.verbs.delete import FOREGROUND, ORPHAN
from grove.cluster.built_in_resources import ResourceInfo
from grove.cluster.controllers.controller import ControllerWriter
from grove.cluster.controllers.crd_finalizer import CrdFinalizer
from grove.cluster.controllers.namespace_controller import NamespaceController
from grove.cluster.controllers.pod_gc import PodGarbageCollector
from grove.cluster.storage.store import Change, ChangeType, Entry
from grove.kube.transport import MERGE_PATCH, Request

# A real collector works through queues, so clients must not see its writes in the same instant.
_DELAY_SECONDS = 0.02
_BATCH_SIZE = 100


class _ObjectRef(msgspec.Struct, frozen=True):
    """The kind, namespace and name of an object."""

    resource_info: ResourceInfo
    namespace: str
    name: str


class _Owners(msgspec.Struct, frozen=True):
    """The owner references of one object, as the garbage collector of Kubernetes classifies them."""

    # The owner exists: the object stays.
    solid: list[JsonObject]
    # The owner is gone, or an object with another uid has its name.
    dangling: list[JsonObject]
    # The owner is terminating in the foreground and waits for the object.
    waiting: list[JsonObject]


class GarbageCollector:
    """A controller that deletes the dependents of deleted owners."""

    def __init__(self, server: ApiServer, *, delay: float = _DELAY_SECONDS) -> None:
        self._server = server
        self._delay = delay
        self._refs: dict[str, _ObjectRef] = {}
        self._dependents: dict[str, dict[str, None]] = {}
        self._queue: dict[str, None] = {}
        self._has_work = asyncio.Event()
        self._writer = ControllerWriter(server, GARBAGE_COLLECTOR, self._enqueue)
        self._pod_gc = PodGarbageCollector(server)
        self._namespace_controller = NamespaceController(server, delay=delay)
        self._crd_finalizer = CrdFinalizer(server, delay=delay)
        for table in server.store.tables():
            for entry in table.entries(None):
                self._follow(Change(table.resource_info, ChangeType.ADDED, entry, None))
        server.store.subscribe(self._follow)

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pod_gc.run())
            group.create_task(self._namespace_controller.run())
            group.create_task(self._crd_finalizer.run())
            group.create_task(self._reconcile_queue())

    async def _reconcile_queue(self) -> None:
        clock = self._server.clock
        while True:
            await self._has_work.wait()
            await clock.sleep(self._delay)
            for _ in range(_BATCH_SIZE):
                if not self._queue:
                    self._has_work.clear()
                    break
                uid = next(iter(self._queue))
                del self._queue[uid]
                await self._reconcile(uid)
            if self._writer.has_failed:
                await self._writer.wait_and_retry()

    def _enqueue(self, uid: str) -> None:
        self._queue[uid] = None
        self._has_work.set()

    # Changes of the store

    def _follow(self, change: Change) -> None:
        metadata = change.entry.obj["metadata"]
        before = None if change.before is None else change.before.obj["metadata"]
        uid = metadata["uid"]
        match change.type:
            case ChangeType.ADDED:
                self._refs[uid] = _ObjectRef(change.resource_info, change.entry.namespace, change.entry.name)
                self._add_dependent(uid, change.entry)
            case ChangeType.DELETED:
                del self._refs[uid]
                self._remove_dependent(uid, before or metadata)
                for dependent in self._dependents.get(uid, ()):
                    self._enqueue(dependent)
            case ChangeType.MODIFIED if before is not None:
                if metadata.get("ownerReferences") is not before.get("ownerReferences"):
                    self._remove_dependent(uid, before)
                    self._add_dependent(uid, change.entry)
        if change.type is not ChangeType.DELETED and _needs_finalizing(metadata):
            self._enqueue(uid)

    def _add_dependent(self, uid: str, entry: Entry) -> None:
        for owner in entry.obj["metadata"].get("ownerReferences", ()):
            self._dependents.setdefault(owner["uid"], {})[uid] = None
            ref = self._refs.get(owner["uid"])
            if ref is None or not _is_owner(ref, owner, entry.namespace) or self._is_in_foreground(ref):
                self._enqueue(uid)

    def _remove_dependent(self, uid: str, metadata: JsonObject) -> None:
        for owner in metadata.get("ownerReferences", ()):
            dependents = self._dependents.get(owner["uid"], {})
            dependents.pop(uid, None)
            if not dependents:
                self._dependents.pop(owner["uid"], None)
            ref = self._refs.get(owner["uid"])
            if ref is not None and self._is_in_foreground(ref):
                # The owner may have waited for this object.
                self._enqueue(owner["uid"])

    # Reconcile

    async def _reconcile(self, uid: str) -> None:
        ref = self._refs.get(uid)
        entry = None if ref is None else self._find(ref)
        if ref is None or entry is None:
            return
        metadata = entry.obj["metadata"]
        finalizers = metadata.get("finalizers", ())
        if "deletionTimestamp" not in metadata:
            await self._reconcile_dependent(ref, entry)
        elif ORPHAN in finalizers:
            await self._orphan_dependents(ref, entry)
        elif FOREGROUND in finalizers:
            await self._await_dependents(ref, entry)

    async def _reconcile_dependent(self, ref: _ObjectRef, entry: Entry) -> None:
        metadata = entry.obj["metadata"]
        owners = self._sort_owners(ref, metadata)
        if owners.solid:
            if owners.dangling or owners.waiting:
                await self._patch(ref, entry, {"ownerReferences": owners.solid})
        elif owners.waiting and self._dependents.get(metadata["uid"]):
            await self._delete(ref, entry, "Foreground")
        elif owners.waiting or owners.dangling:
            await self._delete(ref, entry, _policy(metadata))

    def _sort_owners(self, ref: _ObjectRef, metadata: JsonObject) -> _Owners:
        owners = _Owners([], [], [])
        for reference in metadata.get("ownerReferences", ()):
            owner = self._refs.get(reference["uid"])
            if owner is None or not _is_owner(owner, reference, ref.namespace):
                owners.dangling.append(reference)
            elif self._is_in_foreground(owner):
                owners.waiting.append(reference)
            else:
                owners.solid.append(reference)
        return owners

    async def _orphan_dependents(self, ref: _ObjectRef, entry: Entry) -> None:
        uid = entry.obj["metadata"]["uid"]
        for dependent in list(self._dependents.get(uid, ())):
            orphan = self._refs.get(dependent)
            found = None if orphan is None else self._find(orphan)
            if orphan is None or found is None:
                continue
            others = [owner for owner in found.obj["metadata"]["ownerReferences"] if owner["uid"] != uid]
            await self._patch(orphan, found, {"ownerReferences": others})
        await self._drop_finalizer(ref, entry, ORPHAN)

    async def _await_dependents(self, ref: _ObjectRef, entry: Entry) -> None:
        uid = entry.obj["metadata"]["uid"]
        is_blocked = False
        for dependent in self._dependents.get(uid, ()):
            blocker = self._refs.get(dependent)
            found = None if blocker is None else self._find(blocker)
            if found is None or not _blocks(found.obj["metadata"], uid):
                continue
            is_blocked = True
            if "deletionTimestamp" not in found.obj["metadata"]:
                self._enqueue(dependent)
        if not is_blocked:
            await self._drop_finalizer(ref, entry, FOREGROUND)

    def _is_in_foreground(self, ref: _ObjectRef) -> bool:
        entry = self._find(ref)
        if entry is None:
            return False
        metadata = entry.obj["metadata"]
        return "deletionTimestamp" in metadata and FOREGROUND in metadata.get("finalizers", ())

    def _find(self, ref: _ObjectRef) -> Entry | None:
        return self._server.store.table(ref.resource_info).find(ref.namespace, ref.name)

    # Writes

    async def _drop_finalizer(self, ref: _ObjectRef, entry: Entry, finalizer: str) -> None:
        kept = [other for other in entry.obj["metadata"].get("finalizers", ()) if other != finalizer]
        await self._patch(ref, entry, {"finalizers": kept})

    async def _patch(self, ref: _ObjectRef, entry: Entry, metadata: JsonObject) -> None:
        body = msgspec.json.encode({"metadata": {**_version(entry), **metadata}})
        request = Request(method="PATCH", path=_path(ref), body=body, content_type=MERGE_PATCH)
        await self._writer.write(request, entry.obj["metadata"]["uid"])

    async def _delete(self, ref: _ObjectRef, entry: Entry, policy: str) -> None:
        uid = entry.obj["metadata"]["uid"]
        options = {"propagationPolicy": policy, "preconditions": {"uid": uid}}
        request = Request(method="DELETE", path=_path(ref), body=msgspec.json.encode(options))
        await self._writer.write(request, uid)


def _is_owner(owner: _ObjectRef, reference: JsonObject, namespace: str) -> bool:
    """Return whether the reference names this object. A namespaced owner owns only objects of its namespace."""
    group = reference["apiVersion"].rpartition("/")[0]
    named = (group, reference["kind"], reference["name"])
    return named == (owner.resource_info.group, owner.resource_info.kind, owner.name) and owner.namespace in (
        "",
        namespace,
    )


def _needs_finalizing(metadata: JsonObject) -> bool:
    finalizers = metadata.get("finalizers", ())
    return "deletionTimestamp" in metadata and (ORPHAN in finalizers or FOREGROUND in finalizers)


def _policy(metadata: JsonObject) -> str:
    finalizers = metadata.get("finalizers", ())
    if ORPHAN in finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in finalizers else "Background"


def _blocks(metadata: JsonObject, owner_uid: str) -> bool:
    return any(
        owner["uid"] == owner_uid and owner.get("blockOwnerDeletion") for owner in metadata.get("ownerReferences", ())
    )


def _version(entry: Entry) -> JsonObject:
    return {"resourceVersion": entry.obj["metadata"]["resourceVersion"]}


def _path(ref: _ObjectRef) -> str:
    return ref.resource_info.path(ref.namespace, ref.name)

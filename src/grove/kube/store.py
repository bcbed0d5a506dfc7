"""A cache of the objects of one kind: by uid, by name, by controller; never older than the client's own writes.

`reflector.py` fills it from lists and watches; clients add the responses of their own writes.

How it stays correct. Versions are compared as integers, within one kind only:
* The watch has a *horizon*: everything up to this version was applied. An event from before the horizon about an object
  that is not cached is outdated: the object was deleted since.
* The response to an own write may be ahead of the horizon. An entry changes only towards a newer version, and a list
  removes only entries that are not newer than the list.
* The response to an own delete has no version, so the uid is kept as a tombstone until the watch is past
  the deletion.
* Two uids with one name: the one with the higher version is the later one, and the other is gone.

A new history. Every list is requested without a resourceVersion: by the contract of the API that is a consistent read,
at least as new as anything that was returned or watched before it was sent (a list with resourceVersion 0 may be older,
and is never requested). So a list that is older than what was known when it was sent - by its own version, by an object
in it, or by an object that was deleted before - comes from a server that was restored from a backup. Then the whole
cache is invalid: versions of two histories cannot be compared. A list in which a cached object is missing
is no sign of a restore: the object was deleted.
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Generic, TypeVar, assert_never, cast

import msgspec

from grove.api.types.meta import HasMetadata, ObjectMeta, OwnerKey, Uid
from grove.kube.response_decoding import Added, Bookmark, Deleted, Listing, Modified, Unreadable, WatchEvent

T = TypeVar("T", bound=HasMetadata)

Listener = Callable[[T | None, T | None], None]

_BEFORE_EVERYTHING = -1


class ListMark(msgspec.Struct, frozen=True, kw_only=True):
    """The state when a list was sent: the list must contain what was known then, and may miss later changes."""

    number: int
    horizon: int
    # The newest version at that time.
    newest_version: int
    cached: dict[Uid, Any]
    # Tombstones.
    tombstones: frozenset[Uid]
    # Missing from a partial list: they may still exist outside of it.
    missed: frozenset[Uid]


class Store(Generic[T]):
    """A store of one kind, filled by one watch. Listeners are called after each change, with all indexes updated."""

    def __init__(self, monotonic: Callable[[], float] = lambda: 0.0) -> None:
        self.is_listed = False
        self._monotonic = monotonic
        # The oldest and the newest own write that the watch has not shown yet: version and time.
        self._unseen: tuple[int, float] | None = None
        self._newest_unseen: tuple[int, float] | None = None
        self._objects: dict[Uid, T] = {}
        self._uids_by_name: dict[str, dict[str, Uid]] = {}
        self._children: dict[OwnerKey, dict[Uid, T]] = {}
        self._listeners: list[Listener[T]] = []
        self._horizon = _BEFORE_EVERYTHING
        # The newest version ever received.
        self._newest_version = _BEFORE_EVERYTHING
        self._list_count = 0
        # Tombstones: uid -> a version at which it still existed.
        self._tombstones: dict[Uid, int] = {}
        # uid -> version of the partial list that did not contain it. It was deleted, or left the selection: until the
        # watch is past that version this is unknown, and its events are deferred.
        self._missed: dict[Uid, int] = {}
        self._deferred: dict[Uid, T] = {}
        # Missed objects whose deletion the watch has shown: they need no tombstone later.
        self._deleted_while_missed: dict[Uid, None] = {}
        self._missed_until = _BEFORE_EVERYTHING
        # uid -> number of lists when its deletion was assumed; only a later list may contradict.
        self._assumed_terminating: dict[Uid, int] = {}

    # Reading

    def get(self, uid: Uid) -> T | None:
        return self._objects.get(uid)

    def by_name(self, namespace: str, name: str) -> T | None:
        uid = self._uids_by_name.get(namespace, {}).get(name)
        return None if uid is None else self._objects[uid]

    def owned_by(self, owner: OwnerKey) -> tuple[T, ...]:
        """Return the objects that this owner controls, in the order of insertion."""
        children = self._children.get(owner)
        return () if children is None else tuple(children.values())

    def values(self) -> Iterable[T]:
        return self._objects.values()

    def __len__(self) -> int:
        return len(self._objects)

    @property
    def tombstone_count(self) -> int:
        """Return the number of deletions that the watch has not confirmed yet."""
        return len(self._tombstones) + len(self._missed)

    @property
    def newest_version(self) -> int:
        """Return the newest version ever received."""
        return self._newest_version

    @property
    def behind_seconds(self) -> float:
        """Return for how long the watch has not shown one of the own writes: an open watch may hang."""
        return 0.0 if self._unseen is None else self._monotonic() - self._unseen[1]

    def subscribe(self, listener: Listener[T]) -> None:
        """Call the listener with (old, new) after each change; None: absent. The listener must not change the store."""
        self._listeners.append(listener)

    # Own writes

    def observe(self, obj: T) -> None:
        """Store the response to an own write, unless the cached object is newer."""
        version = _version(obj)
        self._store_if_newer(obj, version)
        if version > self._horizon:
            self._newest_unseen = (version, self._monotonic())
            self._unseen = self._unseen or self._newest_unseen

    def forget(self, uid: Uid) -> None:
        """Remove an object after an own delete; older events do not bring it back."""
        cached = self._objects.get(uid)
        if cached is not None:
            self._remove_with_tombstone(cached)
        elif uid in self._missed:
            self._tombstones[uid] = self._horizon

    def mark_terminating(self, uids: Iterable[Uid], at: datetime) -> None:
        """Mark objects as terminating after a bulk delete, until a newer object or a later list arrives.

        The response of a bulk delete shows the objects as they were before.
        """
        for uid in uids:
            cached = self._objects.get(uid)
            if cached is not None and not cached.metadata.is_terminating:
                metadata = msgspec.structs.replace(cached.metadata, deletion_timestamp=at)
                self._put(cast("T", msgspec.structs.replace(cast("Any", cached), metadata=metadata)), cached)
                self._assumed_terminating[uid] = self._list_count

    # Lists and watches

    def begin_list(self) -> ListMark:
        """Return a mark of the current state. Call it before a list is sent, full or partial."""
        self._list_count += 1
        return ListMark(
            number=self._list_count,
            horizon=self._horizon,
            newest_version=self._newest_version,
            cached=self._objects.copy(),
            tombstones=frozenset(self._tombstones),
            missed=frozenset(self._missed),
        )

    def apply_list(self, listing: Listing[T], mark: ListMark) -> bool:
        """Apply a full list. Return whether it comes from a restored etcd: its versions contradict the cache."""
        version = int(listing.resource_version)
        is_new_history = _is_new_history(listing, version, mark)
        if is_new_history:
            self._start_over()
        if version >= self._horizon:
            self._deferred.clear()
            self._apply_listed(listing, version, mark, self._objects.values())
            self._advance(version)
            self._drop_confirmed(listing, version)
        self.is_listed = True
        return is_new_history

    def apply_nothing(self) -> None:
        """Remove everything: the kind is not served any more."""
        self._start_over()

    def apply_partial_list(self, listing: Listing[T], mark: ListMark, where: Callable[[T], bool]) -> bool:
        """Apply a list of a selection: `where` returns whether a cached object should be in it.

        Other objects do not change. Return whether it is of a new history; then nothing of it was applied.
        """
        version = int(listing.resource_version)
        if _is_new_history(listing, version, mark):
            return True
        # The horizon stays: the list has no information about other objects.
        missing = self._apply_listed(listing, version, mark, filter(where, self._objects.values()))
        if missing and version > self._horizon:
            self._missed.update(dict.fromkeys(missing, version))
            self._missed_until = max(self._missed_until, version)
        return False

    def apply(self, event: WatchEvent[T]) -> None:
        """Apply the next event of the watch; outdated ones are ignored."""
        match event:
            case Added() | Modified():
                version = _version(event.object)
                self._store_if_newer(event.object, version)
                self._advance(version)
            case Deleted():
                self._remove_deleted(event.object.metadata)
            case Bookmark():
                self._advance(int(event.resource_version))
            case Unreadable():
                if event.is_deleted and event.metadata.uid and event.metadata.resource_version.isdecimal():
                    self._remove_deleted(event.metadata)
            case _:
                assert_never(event)

    # Changes of entries

    def _store_if_newer(self, obj: T, version: int) -> None:
        """Store the object if it is newer than the cached one."""
        uid = obj.metadata.uid
        cached = self._objects.get(uid)
        if cached is not None:
            if version > _version(cached):
                self._put(obj, cached)
        elif version > self._horizon and uid not in self._tombstones:
            if version > self._missed.get(uid, _BEFORE_EVERYTHING):
                self._insert(obj, version)
            else:
                self._deferred[uid] = obj
                self._deleted_while_missed.pop(uid, None)

    def _apply_listed(self, listing: Listing[T], version: int, mark: ListMark, scope: Iterable[T]) -> tuple[Uid, ...]:
        """Apply a list; return the uids that it showed to be gone."""
        if version < self._horizon:
            return ()
        listed = _uids(listing)
        gone = [obj for obj in scope if obj.metadata.uid not in listed and _version(obj) <= version]
        for obj in gone:
            self._drop(obj)
        for obj in listing.items:
            self._apply_listed_object(obj, version, mark)
        return tuple(obj.metadata.uid for obj in gone)

    def _apply_listed_object(self, obj: T, list_version: int, mark: ListMark) -> None:
        uid = obj.metadata.uid
        version = _version(obj)
        cached = self._objects.get(uid)
        if uid in self._tombstones:
            return
        if cached is None:
            if list_version < self._missed.get(uid, _BEFORE_EVERYTHING):
                self._deferred[uid] = obj
            else:
                self._insert(obj, version)
        elif version > _version(cached) or (version == _version(cached) and self._is_contradicted(uid, mark)):
            self._put(obj, cached)

    def _is_contradicted(self, uid: Uid, mark: ListMark) -> bool:
        assumed_at = self._assumed_terminating.get(uid)
        return assumed_at is not None and mark.number > assumed_at

    def _insert(self, obj: T, version: int) -> None:
        """Insert a new uid. The cached object of its name is older and removed, or newer and kept."""
        namesake = self.by_name(obj.metadata.namespace, obj.metadata.name)
        if namesake is not None:
            if _version(namesake) > version:
                return
            self._remove_with_tombstone(namesake)
        self._put(obj, None)

    def _remove_deleted(self, metadata: ObjectMeta) -> None:
        version = int(metadata.resource_version)
        cached = self._objects.get(metadata.uid)
        if cached is not None and _version(cached) <= version:
            self._drop(cached)
        self._deferred.pop(metadata.uid, None)
        if metadata.uid in self._missed:
            self._deleted_while_missed[metadata.uid] = None
        # An older DELETED event only means that the object was not selected for a while.
        if self._tombstones.get(metadata.uid, version + 1) <= version:
            del self._tombstones[metadata.uid]
        self._advance(version)

    def _remove_with_tombstone(self, cached: T) -> None:
        """Remove an object that was deleted at an unknown version; ignore its older events of the watch."""
        self._tombstones[cached.metadata.uid] = _version(cached)
        self._drop(cached)

    def _put(self, obj: T, cached: T | None) -> None:
        metadata = obj.metadata
        uid = metadata.uid
        owner = metadata.controller
        self._objects[uid] = obj
        self._newest_version = max(self._newest_version, _version(obj))
        if cached is None:
            self._uids_by_name.setdefault(metadata.namespace, {})[metadata.name] = uid
        else:
            if self._assumed_terminating:
                self._assumed_terminating.pop(uid, None)
            old_owner = cached.metadata.controller
            if old_owner is not None and old_owner != owner:
                self._remove_from_owner(old_owner, uid)
        if owner is not None:
            self._children.setdefault(owner, {})[uid] = obj
        self._notify(cached, obj)

    def _drop(self, cached: T) -> None:
        metadata = cached.metadata
        uid = metadata.uid
        del self._objects[uid]
        names = self._uids_by_name[metadata.namespace]
        if names.get(metadata.name) == uid:
            del names[metadata.name]
            if not names:
                del self._uids_by_name[metadata.namespace]
        owner = metadata.controller
        if owner is not None:
            self._remove_from_owner(owner, uid)
        self._assumed_terminating.pop(uid, None)
        self._notify(cached, None)

    def _remove_from_owner(self, owner: OwnerKey, uid: Uid) -> None:
        children = self._children[owner]
        del children[uid]
        if not children:
            del self._children[owner]

    def _notify(self, old: T | None, new: T | None) -> None:
        for listener in self._listeners:
            listener(old, new)

    # The horizon

    def _advance(self, version: int) -> None:
        if version > self._horizon:
            self._horizon = version
            self._newest_version = max(self._newest_version, version)
            self._update_unseen()
            if self._missed and version >= self._missed_until:
                self._missed.clear()
                for uid in self._deleted_while_missed:
                    self._tombstones.pop(uid, None)
                self._deleted_while_missed.clear()
                self._insert_deferred()

    def _update_unseen(self) -> None:
        if self._unseen is not None and self._unseen[0] <= self._horizon:
            newest = self._newest_unseen
            self._unseen = newest if newest is not None and newest[0] > self._horizon else None

    def _insert_deferred(self) -> None:
        """Insert deferred objects: the watch is past the partial lists and did not show their deletion."""
        deferred = tuple(self._deferred.values())
        self._deferred.clear()
        for obj in deferred:
            if obj.metadata.uid not in self._objects and obj.metadata.uid not in self._tombstones:
                self._insert(obj, _version(obj))

    def _drop_confirmed(self, listing: Listing[T], version: int) -> None:
        """Drop tombstones that a list confirmed: it is newer than the object and does not contain it."""
        if self._tombstones:
            listed = _uids(listing)
            kept = {uid: known for uid, known in self._tombstones.items() if uid in listed or known > version}
            self._tombstones = kept

    def _start_over(self) -> None:
        """Clear the store: the server was restored from a backup, or does not serve the kind any more."""
        self._horizon = self._newest_version = _BEFORE_EVERYTHING
        self._unseen = None
        self._tombstones.clear()
        self._missed.clear()
        self._deferred.clear()
        self._deleted_while_missed.clear()
        for cached in tuple(self._objects.values()):
            self._drop(cached)


def _is_new_history(listing: Listing[T], version: int, mark: ListMark) -> bool:
    return version < mark.newest_version or any(_is_from_a_backup(obj, mark) for obj in listing.items)


def _is_from_a_backup(obj: HasMetadata, mark: ListMark) -> bool:
    """Return whether the object contradicts what was known when the list was sent."""
    uid = obj.metadata.uid
    cached = mark.cached.get(uid)
    if cached is not None:
        return _version(obj) < _version(cached)
    # Everything that existed at the horizon and did not change since was cached.
    return uid in mark.tombstones or (_version(obj) <= mark.horizon and uid not in mark.missed)


def _version(obj: HasMetadata) -> int:
    return int(obj.metadata.resource_version)


def _uids(listing: Listing[T]) -> set[Uid]:
    uids = {obj.metadata.uid for obj in listing.items}
    uids.update(metadata.uid for metadata in listing.unreadable)
    return uids

"""The store of the API server: objects, one revision counter, and the history that watches follow.

Objects are JSON dicts that never change after they are stored: a new version shares unchanged parts with the old
one. Each version is encoded once; reads, lists and watches reuse those bytes.

A store with a persister (`group_commit.py`) accepts a write before it is on disk. Later writes see it at once, and
watches see it when it is persisted. If it cannot be persisted, it is rolled back.
Validation and authorization are in `apiserver/`, the file on disk is in `sqlite_log.py`.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Any, Protocol

import msgspec

from grove.api.types.meta import JsonObject
from grove.cluster.built_in_resources import SERVED, ResourceInfo
from grove.cluster.storage.managed_fields import UNOWNED, Ownership, with_managed_fields
from grove.errors import require

# Changes of one kind that watches can start from.
HISTORY = 100_000
# How deeply an object may be nested.
DEEPEST = 200

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Entry(msgspec.Struct, frozen=True):
    """One version of one object."""

    namespace: str
    name: str
    obj: JsonObject
    data: bytes
    revision: int
    ownership: Ownership = UNOWNED

    @property
    def whole(self) -> bytes:
        """Return the JSON of the object with `managedFields`."""
        owned = with_managed_fields(self.obj, self.ownership)
        return self.data if owned is self.obj else _encode(owned)


class ChangeType(StrEnum):
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


class Change(msgspec.Struct, frozen=True):
    """One write. `entry` is the new version; for a delete, the last version with the revision of the delete."""

    resource_info: ResourceInfo
    type: ChangeType
    entry: Entry
    before: Entry | None

    @property
    def revision(self) -> int:
        return self.entry.revision

    @property
    def inverse(self) -> "Change":
        """Return the change that listeners receive when this one is rolled back."""
        if self.before is None:
            return Change(self.resource_info, ChangeType.DELETED, self.entry, self.entry)
        if self.type is ChangeType.DELETED:
            return Change(self.resource_info, ChangeType.ADDED, self.before, None)
        return Change(self.resource_info, ChangeType.MODIFIED, self.before, self.entry)


class Version(msgspec.Struct, frozen=True):
    """A persisted change. The version before it is in the log, too."""

    revision: int
    # The qualified name of the kind.
    kind: str
    type: ChangeType
    namespace: str
    name: str
    data: bytes
    # Encoded managedFields; empty: none.
    ownership: bytes = b""


class Backup(msgspec.Struct, frozen=True):
    """All objects at one revision, by the qualified name of their kind."""

    revision: int
    entries: dict[str, tuple[Entry, ...]]


class CompactedError(Exception):
    """The revision is older than the history: the client must list again."""

    def __init__(self, oldest: int) -> None:
        super().__init__(f"history begins after revision {oldest}")
        self.oldest = oldest


Listener = Callable[[Change], None]


class Persister(Protocol):
    """Persists changes asynchronously."""

    def record(self, change: Change) -> None: ...

    async def wait_persisted(self) -> None:
        """Wait until all writes so far are persisted. Raises `NotPersistedError` if they were rolled back."""
        ...


class NotPersistedError(Exception):
    """A write could not be persisted and was rolled back. The message says what the administrator must fix."""


class TooDeepError(Exception):
    """An object is nested too deeply for its readers' stack. Nothing was stored; the client must flatten it."""


class Storage:
    """All objects of a cluster. One writer (the API server) and any number of readers, all on one event loop."""

    def __init__(self, history: int = HISTORY) -> None:
        self.revision = 0
        # None: in memory only.
        self.persister: Persister | None = None
        self._history = history
        self._tables = {resource_info.qualified: Table(resource_info, history) for resource_info in SERVED}
        self._listeners: list[Listener] = []
        # The last persisted revision, if there is a persister.
        self._persisted_revision = 0
        # Restored versions of kinds without a table yet, and the revision up to which history is incomplete.
        self._versions_without_table: dict[str, list[Version]] = {}
        self._floor = 0

    def table(self, resource_info: ResourceInfo) -> "Table":
        return self._tables[resource_info.qualified]

    def open_table(self, resource_info: ResourceInfo) -> "Table":
        """Return the table of a kind. A new table starts with the restored objects of the kind."""
        table = self._tables.get(resource_info.qualified)
        if table is None:
            table = self._tables[resource_info.qualified] = Table(resource_info, self._history)
            table.compacted = self._floor
            for version in self._versions_without_table.pop(resource_info.qualified, ()):
                table.restore(version, self._floor)
        return table

    def close_table(self, resource_info: ResourceInfo) -> None:
        """Drop the table of a kind that is no longer served. Its objects must be removed first."""
        self._tables.pop(resource_info.qualified, None)

    @property
    def visible_revision(self) -> int:
        """Return the last revision that watches may see."""
        return self.revision if self.persister is None else self._persisted_revision

    def tables(self) -> Iterator["Table"]:
        """Yield all tables, in the order of the served kinds."""
        yield from self._tables.values()

    def subscribe(self, listener: Listener) -> None:
        """Call `listener` synchronously after every change, in order. The listener must not write."""
        self._listeners.append(listener)

    def put(
        self,
        resource_info: ResourceInfo,
        namespace: str,
        name: str,
        obj: JsonObject,
        ownership: Ownership | None = None,
    ) -> Entry:
        """Store a new version with the next revision as its resourceVersion. Without `ownership`, the old one stays."""
        table = self._tables[resource_info.qualified]
        if resource_info.version != table.resource_info.version:
            # The request used another version than the storage version.
            resource_info = table.resource_info
            obj = {**obj, "apiVersion": resource_info.api_version}
        before = table.find(namespace, name)
        if ownership is None:
            ownership = UNOWNED if before is None else before.ownership
        entry = self._build_entry(namespace, name, obj, ownership)
        self._commit(table, Change(resource_info, ChangeType.MODIFIED if before else ChangeType.ADDED, entry, before))
        return entry

    def remove(self, resource_info: ResourceInfo, namespace: str, name: str) -> Entry:
        """Remove an object. Watches see its last version with the revision of the delete."""
        table = self._tables[resource_info.qualified]
        before = table.find(namespace, name)
        require(before is not None, f"{resource_info.plural} {namespace}/{name} exists")
        assert before is not None
        entry = self._build_entry(namespace, name, before.obj, before.ownership)
        self._commit(table, Change(resource_info, ChangeType.DELETED, entry, before))
        return entry

    def compact(self) -> None:
        """Drop all history: every watch from an older revision has to list again."""
        for table in self._tables.values():
            table.drop_history(len(table.log) - table.hidden_count, self.visible_revision)

    def restore(self, versions: Iterable[Version], floor: int) -> None:
        """Load persisted versions into an empty store without listeners. History is complete after revision `floor`."""
        self._floor = floor
        for version in versions:
            table = self._tables.get(version.kind)
            if table is None:
                self._versions_without_table.setdefault(version.kind, []).append(version)
            else:
                table.restore(version, floor)
            self.revision = self._persisted_revision = version.revision
        for table in self._tables.values():
            table.compacted = max(table.compacted, floor)

    def back_up(self) -> Backup:
        """Return all current objects, as an etcd snapshot does."""
        return Backup(self.revision, {kind: tuple(table.entries(None)) for kind, table in self._tables.items()})

    def restore_backup(self, backup: Backup, *, bump: int = 0) -> None:
        """Replace all objects by those of the backup, as restoring etcd does: objects have their old revisions.

        `bump` is added to the revision counter of the backup, as `etcdutl snapshot restore --bump-revision
        --mark-compacted` does; with 0, the counter goes back. Watches end, and there is no history.
        """
        require(self.persister is None, "only an in-memory store can restore a backup")
        self.revision = self._persisted_revision = backup.revision + bump
        for kind, table in self._tables.items():
            for change in table.replace_all(backup.entries.get(kind, ()), self.revision):
                for listener in self._listeners:
                    listener(change)

    def make_visible(self, changes: Sequence[Change]) -> None:
        """Make persisted changes visible to watches."""
        self._persisted_revision = changes[-1].revision
        tables = {change.resource_info.qualified: 0 for change in changes}
        for change in changes:
            tables[change.resource_info.qualified] += 1
        for qualified, count in tables.items():
            table = self._tables.get(qualified)
            if table is not None:
                table.make_visible(count)

    def roll_back(self, changes: Sequence[Change]) -> None:
        """Undo the last changes, which could not be persisted. No watch has seen them."""
        for change in reversed(changes):
            self.open_table(change.resource_info).undo(change)
            self.revision = change.revision - 1
            for listener in self._listeners:
                listener(change.inverse)

    def _build_entry(self, namespace: str, name: str, obj: JsonObject, ownership: Ownership) -> Entry:
        revision = self.revision + 1
        stamped = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(revision)}}
        data = _encode(stamped)
        # Every level has a bracket; most objects have too few brackets to be too deep.
        if len(data) > 2 * DEEPEST and data.count(b"{") + data.count(b"[") > DEEPEST and _is_too_deep(stamped):
            raise TooDeepError(f"{name} is nested more than {DEEPEST} levels deep")
        entry = Entry(namespace, name, stamped, data, revision, ownership)
        # After encoding: an object that cannot be encoded uses no revision.
        self.revision = revision
        return entry

    def _commit(self, table: "Table", change: Change) -> None:
        table.apply(change)
        for listener in self._listeners:
            listener(change)
        if self.persister is None:
            table.wake()
        else:
            table.hidden_count += 1
            self.persister.record(change)


def _is_too_deep(obj: JsonObject) -> bool:
    level: list[Any] = [obj]
    for _ in range(DEEPEST):
        children = (child for each in level for child in (each.values() if isinstance(each, dict) else each))
        level = [child for child in children if isinstance(child, dict | list)]
        if not level:
            return False
    return True


def draft(namespace: str, name: str, obj: JsonObject, revision: int, ownership: Ownership = UNOWNED) -> Entry:
    """Build an entry that is returned but not stored, such as the response of a dry run."""
    return Entry(namespace, name, obj, _encode(obj), revision, ownership)


class Table:
    """The objects of one kind and their history."""

    def __init__(self, resource_info: ResourceInfo, history: int) -> None:
        self.resource_info = resource_info
        self.log: list[Change] = []
        # Changes dropped from the front of the log. Cursors count them, so they stay valid.
        self.dropped_count = 0
        # History up to and including this revision may be incomplete.
        self.compacted = 0
        # Changes at the end of the log that are not persisted yet: watches do not see them.
        self.hidden_count = 0
        # How often the kind stopped being served: watches end when this changes.
        self.retirements = 0
        self._history = history
        self._entries: dict[str, dict[str, Entry]] = {}
        self._sorted_names: dict[str, list[str]] = {}
        self._label_indexes: dict[str, _LabelIndex] = {}
        self._wakers: dict[object, Callable[[], None]] = {}

    def find(self, namespace: str, name: str) -> Entry | None:
        named = self._entries.get(namespace)
        return None if named is None else named.get(name)

    def count(self, namespace: str) -> int:
        return len(self._entries.get(namespace, ()))

    def entries(self, namespace: str | None) -> Iterator[Entry]:
        """Yield the objects of one namespace, or of all (None), sorted by namespace and name."""
        for each in sorted(self._entries, key=sort_key) if namespace is None else (namespace,):
            named = self._entries.get(each, {})
            names = self._sorted_names.get(each)
            if names is None:
                names = self._sorted_names[each] = sorted(named)
            for name in names:
                yield named[name]

    def find_candidates(self, labels: Sequence[tuple[str, str]]) -> list[Entry]:
        """Return candidates for these labels, found by the rarest label, sorted by namespace and name."""
        entries = min((self._label_index(key).entries.get(value, {}) for key, value in labels), key=len)
        return [self._entries[namespace][name] for namespace, name in sorted(entries, key=_sort_key)]

    def _label_index(self, key: str) -> "_LabelIndex":
        index = self._label_indexes.get(key)
        if index is None:
            index = self._label_indexes[key] = _LabelIndex(key)
            for entry in self.entries(None):
                index.add(entry)
        return index

    def entries_at(self, revision: int, namespace: str | None) -> list[Entry]:
        """Return the entries as of that revision, by undoing later changes. Raises `CompactedError`."""
        later = self.log[self.cursor_after(revision) - self.dropped_count :]
        if not later:
            return list(self.entries(namespace))
        state = {(entry.namespace, entry.name): entry for entry in self.entries(namespace)}
        for change in reversed(later):
            key = (change.entry.namespace, change.entry.name)
            if namespace is not None and namespace != key[0]:
                continue
            if change.before is None:
                state.pop(key, None)
            else:
                state[key] = change.before
        return [state[key] for key in sorted(state, key=_sort_key)]

    def cursor_after(self, revision: int) -> int:
        """Return the cursor of the first change after that revision. Raises `CompactedError`."""
        if revision < self.compacted:
            raise CompactedError(self.compacted)
        return self.dropped_count + bisect_right(self.log, revision, key=_revision)

    @property
    def end(self) -> int:
        """Return the cursor of the next change."""
        return self.dropped_count + len(self.log)

    @property
    def visible_end(self) -> int:
        """Return the cursor of the first change that watches may not see yet."""
        return self.dropped_count + len(self.log) - self.hidden_count

    def apply(self, change: Change) -> None:
        self._replace(change)
        self.log.append(change)
        if len(self.log) > self._history and (half := min(len(self.log) // 2, len(self.log) - self.hidden_count)):
            self.drop_history(half, self.log[half - 1].revision)

    def undo(self, change: Change) -> None:
        """Undo the last change."""
        self._replace(change.inverse)
        if self.log:
            self.log.pop()
        self.hidden_count -= 1

    def make_visible(self, count: int) -> None:
        self.hidden_count -= count
        self.wake()

    def restore(self, version: Version, floor: int) -> None:
        """Load the next persisted version. Versions up to `floor` only change the objects, not the history."""
        before = self.find(version.namespace, version.name)
        if before is None and version.type is ChangeType.DELETED:
            # The object was pruned from the log already.
            return
        data = version.data
        ownership = Ownership.restore(version.ownership)
        entry = Entry(version.namespace, version.name, _decode(data), data, version.revision, ownership)
        change = Change(self.resource_info, version.type, entry, before)
        if version.revision > floor:
            self.apply(change)
        else:
            self._replace(change)

    def replace_all(self, entries: Iterable[Entry], revision: int) -> Iterator[Change]:
        """Replace all objects and drop the history; yield each change after it was made."""
        found = {(entry.namespace, entry.name): entry for entry in self.entries(None)}
        wanted = {(entry.namespace, entry.name): entry for entry in entries}
        self.drop_history(len(self.log), revision)
        removed = [
            Change(self.resource_info, ChangeType.DELETED, old, old) for key, old in found.items() if key not in wanted
        ]
        new = [
            Change(self.resource_info, ChangeType.MODIFIED if key in found else ChangeType.ADDED, entry, found.get(key))
            for key, entry in wanted.items()
            if found.get(key) is not entry
        ]
        for change in (*removed, *new):
            self._replace(change)
            yield change
        self.retire()

    def _replace(self, change: Change) -> None:
        entry = change.entry
        named = self._entries.setdefault(entry.namespace, {})
        if change.type is ChangeType.DELETED:
            del named[entry.name]
            self._sorted_names.pop(entry.namespace, None)
        else:
            named[entry.name] = entry
            if change.before is None:
                self._sorted_names.pop(entry.namespace, None)
        for index in self._label_indexes.values():
            index.follow(change)

    def drop_history(self, count: int, revision: int) -> None:
        del self.log[:count]
        self.dropped_count += count
        self.compacted = revision

    def retire(self) -> None:
        """End all watches, because the kind is no longer served."""
        self.retirements += 1
        self.wake()

    def wake_on_change(self, who: object, waker: Callable[[], None]) -> None:
        """Call `waker` once, after the next change."""
        self._wakers[who] = waker

    def stop_waking(self, who: object) -> None:
        self._wakers.pop(who, None)

    def wake(self) -> None:
        if self._wakers:
            wakers, self._wakers = self._wakers, {}
            for waker in wakers.values():
                waker()


class _LabelIndex:
    """An index of objects by the value of one label key, built when a selector first uses the key."""

    def __init__(self, key: str) -> None:
        self._key = key
        self.entries: dict[str, dict[tuple[str, str], None]] = {}

    def add(self, entry: Entry) -> None:
        value = self._value(entry)
        if value is not None:
            self.entries.setdefault(value, {})[(entry.namespace, entry.name)] = None

    def follow(self, change: Change) -> None:
        before = None if change.before is None else self._value(change.before)
        after = None if change.type is ChangeType.DELETED else self._value(change.entry)
        if before == after:
            return
        if before is not None:
            entries = self.entries[before]
            del entries[(change.entry.namespace, change.entry.name)]
            if not entries:
                del self.entries[before]
        if after is not None:
            self.add(change.entry)

    def _value(self, entry: Entry) -> str | None:
        labels = entry.obj["metadata"].get("labels")
        return None if labels is None else labels.get(self._key)


def sort_key(namespace: str) -> str:
    """Return a key that sorts namespaces as etcd does, where a slash follows the name."""
    return f"{namespace}/"


def _sort_key(place: tuple[str, str]) -> tuple[str, str]:
    return sort_key(place[0]), place[1]


def _revision(change: Change) -> int:
    return change.entry.revision

"""Versions of objects in a file: what a store was told to keep, in the order of revisions. SQLite does the work.

One row per version, none ever changed. A row goes when another one took its place so long ago that no watch may begin
before it: what is left at the end of the file is the history that watches resume from, before it only what there is.
Not here: when to write, and what waits for it (`group_commit.py`); who may open the folder (`data_dir.py`).
"""

import sqlite3
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice, takewhile
from pathlib import Path

import msgspec

from grove.cluster.storage.store import Change, ChangeType, Version
from grove.cluster.storage.wal_check import find_damage
from grove.errors import UserError

# How many revisions back a watch can begin after a restart; a real server keeps the history of some minutes.
HISTORY = 10_000
# Rows that go are not many more than rows that come: no commit takes long.
_GOING_PER_COMING = 2

_PAGE_SIZE = 8192
# Two megabytes: read whole after a crash.
_WRITE_AHEAD_PAGES = 256
_CACHE_KIB = 16_384

_SCHEMA = """
CREATE TABLE version (
    revision INTEGER PRIMARY KEY,
    kind TEXT NOT NULL, type TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
    data BLOB NOT NULL, ownership BLOB NOT NULL, checksum INTEGER NOT NULL
);
CREATE TABLE history (floor INTEGER NOT NULL, checksum INTEGER NOT NULL);
"""
_INSERT = "INSERT INTO version VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_DELETE = "DELETE FROM version WHERE revision = ?"
_UPDATE_FLOOR = "UPDATE history SET floor = ?, checksum = ?"
_SELECT = "SELECT revision, kind, type, namespace, name, data, ownership, checksum FROM version ORDER BY revision"


class DiskError(Exception):
    """The disk did not take it: full, or out of order. Nothing was written; the next attempt may go well."""


class _Superseded(msgspec.Struct, frozen=True):
    """A row that is of no use to those who begin at or after `at`."""

    at: int
    revision: int


class VersionLog:
    """One file, one process. `stage` and `confirm` are quick; `commit` waits for the disk and may do so in a thread."""

    def __init__(self, path: Path, *, history: int = HISTORY) -> None:
        """Opens the file, or makes it. Raises `UserError`, and has deleted nothing, when it cannot be used."""
        self.path = path
        self._history = history
        self._superseded: deque[_Superseded] = deque()
        self._staged: Sequence[Change] = ()
        self._going: list[_Superseded] = []
        if damage := find_damage(path):
            raise self._damaged(damage)
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        try:
            _prepare(self._db)
            self.floor = _read_floor(self._db)
        except sqlite3.OperationalError as problem:
            self._db.close()
            raise UserError(
                f"{path}: cannot be opened ({problem}); see to it, or choose another --data-dir"
            ) from problem
        except (sqlite3.DatabaseError, TypeError) as problem:
            self._db.close()
            raise self._damaged(str(problem)) from problem

    def versions(self) -> Iterator[Version]:
        """Everything kept, oldest first; before anything is staged. Raises `UserError` at the first that is damaged."""
        newest: dict[tuple[str, str, str], int] = {}
        last = 0
        for version in self._read():
            revision = version.revision
            if revision > self.floor and revision != (expected := max(last, self.floor) + 1):
                raise self._damaged(f"revision {expected} is missing")
            last = revision
            key = (version.kind, version.namespace, version.name)
            before = newest.pop(key, 0)
            if before:
                self._superseded.append(_Superseded(revision, before))
            if version.type is ChangeType.DELETED:
                self._superseded.append(_Superseded(revision, revision))
            else:
                newest[key] = revision
            yield version

    def stage(self, changes: Sequence[Change]) -> None:
        """Hand over what `commit` will make last. Raises `DiskError`."""
        self._staged = changes
        floor = changes[-1].revision - self._history
        old = takewhile(lambda row: row.at <= floor, self._superseded)
        self._going = list(islice(old, len(changes) * _GOING_PER_COMING))
        self._attempt(self._write)

    def commit(self) -> None:
        """All that was staged, or nothing of it. Raises `DiskError`."""
        self._attempt(lambda: self._db.execute("COMMIT"))

    def confirm(self) -> None:
        """After a `commit` that went well, where `stage` was called."""
        for _ in self._going:
            self.floor = self._superseded.popleft().at
        for change in self._staged:
            if change.before is not None:
                self._superseded.append(_Superseded(change.revision, change.before.revision))
            if change.type is ChangeType.DELETED:
                self._superseded.append(_Superseded(change.revision, change.revision))

    def close(self) -> None:
        """The file is whole without its companions."""
        self._db.close()

    def _write(self) -> None:
        if self._db.in_transaction:
            # The last attempt failed so badly that it could not even be undone.
            self._db.execute("ROLLBACK")
        self._db.execute("BEGIN IMMEDIATE")
        self._db.executemany(_INSERT, map(_row, self._staged))
        if self._going:
            self._db.executemany(_DELETE, [(row.revision,) for row in self._going])
            self._db.execute(_UPDATE_FLOOR, _floor_row(self._going[-1].at))

    def _attempt(self, work: Callable[[], object]) -> None:
        try:
            work()
        except sqlite3.Error as problem:
            # Of some failures SQLite has undone everything itself.
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise DiskError(f"{self.path}: {problem}") from problem

    def _read(self) -> Iterator[Version]:
        try:
            for row in self._db.execute(_SELECT):
                revision, kind, type_, namespace, name, data, ownership, checksum = row
                version = Version(revision, kind, ChangeType(type_), namespace, name, data, ownership)
                if _checksum(version) != checksum:
                    raise self._damaged(f"revision {version.revision} is not what was written")
                yield version
        except (sqlite3.DatabaseError, ValueError, TypeError, AttributeError) as problem:
            raise self._damaged(str(problem)) from problem

    def _damaged(self, how: str) -> UserError:
        return UserError(
            f"{self.path}: is damaged ({how}); nothing was deleted. Put back a copy of its folder, "
            "or begin anew with another --data-dir"
        )


def _prepare(db: sqlite3.Connection) -> None:
    db.execute(f"PRAGMA page_size = {_PAGE_SIZE}")
    db.execute("PRAGMA locking_mode = EXCLUSIVE")
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute(f"PRAGMA wal_autocheckpoint = {_WRITE_AHEAD_PAGES}")
    db.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
    if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'history'").fetchone():
        db.executescript(f"BEGIN;{_SCHEMA}")
        db.execute("INSERT INTO history VALUES (?, ?)", _floor_row(0))
        db.execute("COMMIT")
    found = str(db.execute("PRAGMA quick_check(1)").fetchone()[0])
    if found != "ok":
        raise sqlite3.DatabaseError(found)
    # What a crash left to be read again is not left to the next one, if there is room.
    with suppress(sqlite3.OperationalError):
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _read_floor(db: sqlite3.Connection) -> int:
    found = db.execute("SELECT floor, checksum FROM history").fetchone()
    if found is None or found != _floor_row(found[0]):
        raise sqlite3.DatabaseError("where its history begins is not what was written")
    return int(found[0])


def _floor_row(floor: int) -> tuple[int, int]:
    return floor, zlib.crc32(f"floor {floor}".encode())


def _row(change: Change) -> tuple[int, str, str, str, str, bytes, bytes, int]:
    entry = change.entry
    kind, type_, owned = change.resource_info.qualified, change.type, entry.ownership.encoded
    version = Version(entry.revision, kind, type_, entry.namespace, entry.name, entry.data, owned)
    return entry.revision, kind, type_.value, entry.namespace, entry.name, entry.data, owned, _checksum(version)


def _checksum(version: Version) -> int:
    head = f"{version.revision} {version.kind} {version.type.value} {version.namespace} {version.name} "
    return zlib.crc32(version.ownership, zlib.crc32(version.data, zlib.crc32(head.encode())))

"""The log of object versions in an SQLite file, in the order of revisions.

There is one row per version, and rows never change. A superseded row is pruned once no watch may start before its
successor: the end of the file is the history that watches resume from, the part before it is only the live objects.
`group_commit.py` decides when to write; `data_dir.py` locks the directory.
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

# How many revisions back a watch can start after a restart. A real API server keeps some minutes of history.
HISTORY = 10_000
# Limits the rows that one commit deletes, so that no commit takes long.
_PRUNED_PER_WRITE = 2

_PAGE_SIZE = 8192
# Two megabytes, which are read completely after a crash.
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
    """A write failed because the disk is full or broken. Nothing was written; a retry may succeed."""


class _Superseded(msgspec.Struct, frozen=True):
    """A row that no watch needs that starts at revision `at` or later."""

    at: int
    revision: int


class VersionLog:
    """A log of versions in one file, for one process.

    `stage` and `confirm` are quick. `commit` waits for the disk and may run in a thread.
    """

    def __init__(self, path: Path, *, history: int = HISTORY) -> None:
        """Open or create the file. Raises `UserError` if it cannot be used, and then deletes nothing."""
        self.path = path
        self._history = history
        self._superseded: deque[_Superseded] = deque()
        self._staged: Sequence[Change] = ()
        self._to_prune: list[_Superseded] = []
        if damage := find_damage(path):
            raise self._damage_error(damage)
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        try:
            _prepare(self._db)
            self.floor = _read_floor(self._db)
        except sqlite3.OperationalError as error:
            self._db.close()
            raise UserError(f"{path}: cannot be opened ({error}); fix this, or choose another --data-dir") from error
        except (sqlite3.DatabaseError, TypeError) as error:
            self._db.close()
            raise self._damage_error(str(error)) from error

    def versions(self) -> Iterator[Version]:
        """Yield all versions, oldest first. Call it before `stage`. Raises `UserError` at the first damaged row."""
        newest: dict[tuple[str, str, str], int] = {}
        last = 0
        for version in self._read():
            revision = version.revision
            if revision > self.floor and revision != (expected := max(last, self.floor) + 1):
                raise self._damage_error(f"revision {expected} is missing")
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
        """Write the changes into an open transaction, which `commit` makes durable. Raises `DiskError`."""
        self._staged = changes
        floor = changes[-1].revision - self._history
        old = takewhile(lambda row: row.at <= floor, self._superseded)
        self._to_prune = list(islice(old, len(changes) * _PRUNED_PER_WRITE))
        self._attempt(self._write)

    def commit(self) -> None:
        """Commit everything that was staged, or nothing. Raises `DiskError`."""
        self._attempt(lambda: self._db.execute("COMMIT"))

    def confirm(self) -> None:
        """Update the bookkeeping after a successful `commit`, in the thread that called `stage`."""
        for _ in self._to_prune:
            self.floor = self._superseded.popleft().at
        for change in self._staged:
            if change.before is not None:
                self._superseded.append(_Superseded(change.revision, change.before.revision))
            if change.type is ChangeType.DELETED:
                self._superseded.append(_Superseded(change.revision, change.revision))

    def close(self) -> None:
        """Close the database. The file is then complete without its -wal file."""
        self._db.close()

    def _write(self) -> None:
        if self._db.in_transaction:
            # The rollback of the last attempt failed, too.
            self._db.execute("ROLLBACK")
        self._db.execute("BEGIN IMMEDIATE")
        self._db.executemany(_INSERT, map(_row, self._staged))
        if self._to_prune:
            self._db.executemany(_DELETE, [(row.revision,) for row in self._to_prune])
            self._db.execute(_UPDATE_FLOOR, _floor_row(self._to_prune[-1].at))

    def _attempt(self, work: Callable[[], object]) -> None:
        try:
            work()
        except sqlite3.Error as error:
            # After some errors SQLite has already rolled back.
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise DiskError(f"{self.path}: {error}") from error

    def _read(self) -> Iterator[Version]:
        try:
            for row in self._db.execute(_SELECT):
                revision, kind, type_, namespace, name, data, ownership, checksum = row
                version = Version(revision, kind, ChangeType(type_), namespace, name, data, ownership)
                if _checksum(version) != checksum:
                    raise self._damage_error(f"wrong checksum of revision {version.revision}")
                yield version
        except (sqlite3.DatabaseError, ValueError, TypeError, AttributeError) as error:
            raise self._damage_error(str(error)) from error

    def _damage_error(self, how: str) -> UserError:
        return UserError(
            f"{self.path}: is damaged ({how}); nothing was deleted. Restore a backup of its directory, "
            "or start a new cluster with another --data-dir"
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
    # Checkpoint what a crash left in the write-ahead file, if the disk has space.
    with suppress(sqlite3.OperationalError):
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _read_floor(db: sqlite3.Connection) -> int:
    found = db.execute("SELECT floor, checksum FROM history").fetchone()
    if found is None or found != _floor_row(found[0]):
        raise sqlite3.DatabaseError("wrong checksum of the start of the history")
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

"""A store that is kept in a real folder whose disk can be crashed, torn, damaged, filled, held and broken."""

import asyncio
import resource
import shutil
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from grove.api.types.meta import JsonObject
from grove.clock import LoopClock
from grove.cluster.built_in_resources import BY_QUALIFIED, SERVED
from grove.cluster.storage.group_commit import GroupCommit
from grove.cluster.storage.sqlite_log import HISTORY, DiskError, VersionLog
from grove.cluster.storage.store import Change, Entry, Storage

CONFIGS = BY_QUALIFIED["configmaps"]
FILE = "cluster.db"
WRITE_AHEAD = "cluster.db-wal"
State = dict[str, Any]
T = TypeVar("T")


class FaultyLog(VersionLog):
    """A real log on a real disk, which can be made to wait, and to fail when it has to write for good."""

    def __init__(self, path: Path, *, history: int = HISTORY) -> None:
        super().__init__(path, history=history)
        self.is_free = threading.Event()
        self.is_free.set()
        self.is_broken = False
        self.sizes: list[int] = []

    def stage(self, changes: Sequence[Change]) -> None:
        super().stage(changes)
        self.sizes.append(len(changes))

    def commit(self) -> None:
        self.is_free.wait()
        if self.is_broken:
            self._db.execute("ROLLBACK")
            raise DiskError(f"{self.path}: the disk is broken")
        super().commit()


class Disk:
    """A folder of the machine's disk. `crash` is what a machine finds that lost its processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._crash_count = 0
        folder.mkdir(exist_ok=True)

    @property
    def file(self) -> Path:
        return self.folder / FILE

    @property
    def write_ahead(self) -> Path:
        return self.folder / WRITE_AHEAD

    def contents(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in sorted(self.folder.iterdir())}

    def crash(self, write_ahead_size: int | None = None) -> "Disk":
        """What is on disk now, with no more than this much of the write-ahead file: the rest never got there."""
        self._crash_count += 1
        folder = self.folder.with_name(f"{self.folder.name}-{self._crash_count}")
        shutil.copytree(self.folder, folder)
        left = Disk(folder)
        if write_ahead_size is not None:
            with left.write_ahead.open("r+b") as file:
                file.truncate(write_ahead_size)
        return left

    def flip(self, name: str, at: int) -> None:
        """One bit is not what was written."""
        path = self.folder / name
        data = bytearray(path.read_bytes())
        data[at] ^= 1
        path.write_bytes(data)

    def remove(self) -> None:
        shutil.rmtree(self.folder)

    @contextmanager
    def full(self) -> Iterator[None]:
        """Files of this process do not grow beyond what is small: the system says no to the write itself."""
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


class Keeping:
    """A store, its journal and its disk, on a running event loop."""

    def __init__(self, disk: Disk, *, history: int = HISTORY) -> None:
        self.disk = disk
        self.log = FaultyLog(disk.file, history=history)
        self.store = restored(self.log)
        self.journal = GroupCommit(self.store, self.log)

    def put(self, name: str, value: object = "", namespace: str = "d", **labels: str) -> Entry:
        return self.store.put(CONFIGS, namespace, name, config(name, value, **labels))

    def remove(self, name: str, namespace: str = "d") -> Entry:
        return self.store.remove(CONFIGS, namespace, name)


def keep(disk: Disk, story: Callable[[Keeping], Awaitable[T]], *, history: int = HISTORY) -> T:
    """Tell a story with a store that is kept, and close it; what the story returns."""

    async def tell() -> T:
        keeping = Keeping(disk, history=history)
        try:
            return await story(keeping)
        finally:
            keeping.log.is_free.set()
            await keeping.journal.close()

    return asyncio.run(tell())


async def turns(number: int = 5) -> None:
    """Everybody who can do something does it."""
    clock = LoopClock.starting_now()
    for _ in range(number):
        await clock.sleep(0)


def reopened(disk: Disk, *, history: int = HISTORY) -> Storage:
    """What a new process finds. Raises `UserError`."""
    log = VersionLog(disk.file, history=history)
    try:
        return restored(log)
    finally:
        log.close()


def restored(log: VersionLog) -> Storage:
    store = Storage()
    store.restore(log.versions(), log.floor)
    return store


def config(name: str, value: object = "", **labels: str) -> JsonObject:
    return {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"name": name, "labels": labels},
        "data": {"value": value},
    }


def state(store: Storage) -> State:
    """All that can be seen of a store: its objects, what watches may see, and its revision."""
    return {
        "revision": store.revision,
        "shown": store.visible_revision,
        "objects": {
            resource_info.qualified: [_seen(entry) for entry in store.table(resource_info).entries(None)]
            for resource_info in SERVED
        },
        "history": {
            resource_info.qualified: [
                (change.type, _seen(change.entry), change.before and _seen(change.before))
                for change in store.table(resource_info).log
            ]
            for resource_info in SERVED
        },
    }


def _seen(entry: Entry) -> tuple[Any, ...]:
    return entry.namespace, entry.name, entry.revision, entry.obj, entry.data

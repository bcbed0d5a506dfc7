"""Group commit: writes reach the disk before a client sees their response, many writes in one transaction.

A write is in memory at once, so that the next one builds on it. All writes of one iteration of the event loop, and all
that arrive during a commit, form one transaction, so a request is never split. If a commit fails, this write and all
later ones are rolled back. The commit runs in a thread.
The file is in `sqlite_log.py`; `apiserver/api_server.py` delays the responses.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import structlog

from grove.cluster.storage.sqlite_log import VersionLog
from grove.cluster.storage.store import Change, NotPersistedError, Storage

logger = structlog.get_logger()


class GroupCommit:
    """A `Persister` for a store that was restored from the same file.

    Create it on the event loop that writes, and `close` it.
    """

    def __init__(self, store: Storage, log: VersionLog) -> None:
        self._store = store
        self._log = log
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="group-commit")
        # Changes of the running transaction, and changes that came after it started.
        self._committing: list[Change] = []
        self._pending: list[Change] = []
        self._committing_waiters: list[asyncio.Future[None]] = []
        self._pending_waiters: list[asyncio.Future[None]] = []
        self._is_scheduled = False
        self._is_failing = False
        store.persister = self

    def record(self, change: Change) -> None:
        self._pending.append(change)
        if not self._is_scheduled and not self._committing:
            self._is_scheduled = True
            self._loop.call_soon(self._begin)

    @property
    def is_behind(self) -> bool:
        """Return whether there are changes that are not on disk yet."""
        return bool(self._pending or self._committing)

    async def wait_persisted(self) -> None:
        if self.is_behind:
            done: asyncio.Future[None] = self._loop.create_future()
            (self._pending_waiters if self._pending else self._committing_waiters).append(done)
            await done

    async def close(self) -> None:
        """Persist pending changes, or roll them back if the disk fails; then close the log."""
        while self.is_behind:
            try:
                await self.wait_persisted()
            except NotPersistedError:
                break
        self._thread.shutdown()
        self._log.close()

    def _begin(self) -> None:
        self._is_scheduled = False
        self._committing, self._pending = self._pending, []
        self._committing_waiters, self._pending_waiters = self._pending_waiters, []
        try:
            # Not in the thread: these are many short steps, and each would wait for the interpreter lock.
            self._log.stage(self._committing)
        except Exception as error:
            # Catch every error: otherwise the waiters would never be notified.
            self._roll_back(error)
            return
        self._loop.run_in_executor(self._thread, self._log.commit).add_done_callback(self._end)

    def _end(self, commit: "asyncio.Future[None]") -> None:
        if (error := commit.exception()) is not None:
            self._roll_back(error)
            return
        self._log.confirm()
        persisted, self._committing = self._committing, []
        self._store.make_visible(persisted)
        for waiter in self._committing_waiters:
            if not waiter.done():
                waiter.set_result(None)
        was_failing, self._is_failing = self._is_failing, False
        if self._pending:
            self._begin()
        if was_failing:
            logger.info("writes are persisted again", path=str(self._log.path))

    def _roll_back(self, error: BaseException) -> None:
        """Roll back the failed transaction and all later changes, which were built on it."""
        failed, self._committing, self._pending = self._committing + self._pending, [], []
        waiters, self._committing_waiters, self._pending_waiters = (
            self._committing_waiters + self._pending_waiters,
            [],
            [],
        )
        self._store.roll_back(failed)
        for waiter in waiters:
            if not waiter.done():
                waiter.set_exception(NotPersistedError(str(error)))
        # Log last: the log may go to the same full disk.
        if not self._is_failing:
            self._is_failing = True
            logger.error("writes are rejected: they cannot be persisted", why=str(error))

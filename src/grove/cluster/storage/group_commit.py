"""Group commit: writes reach the disk before a client sees their response, many writes in one transaction.

A write is in memory at once, so that the next one builds on it. All writes of one iteration of the event loop, and all
that arrive during a commit, form one transaction, so a request is never split. If a commit fails, this write and all
later ones are rolled back. The commit runs in a thread.
Not here: the file (`sqlite_log.py`), and the responses that wait (`apiserver/api_server.py`).
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import structlog

from grove.cluster.storage.sqlite_log import VersionLog
from grove.cluster.storage.store import Change, NotKeptError, Storage

logger = structlog.get_logger()


class GroupCommit:
    """A `Persister` for a store that was restored from the same file.

    Create it on the event loop that writes, and `close` it.
    """

    def __init__(self, store: Storage, log: VersionLog) -> None:
        self._store = store
        self._log = log
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="journal")
        # Changes of the running transaction, and changes that came after it started.
        self._under_way: list[Change] = []
        self._since: list[Change] = []
        self._await_this: list[asyncio.Future[None]] = []
        self._await_next: list[asyncio.Future[None]] = []
        self._is_scheduled = False
        self._is_refused = False
        store.keeper = self

    def record(self, change: Change) -> None:
        self._since.append(change)
        if not self._is_scheduled and not self._under_way:
            self._is_scheduled = True
            self._loop.call_soon(self._begin)

    @property
    def is_behind(self) -> bool:
        """Return whether there are changes that are not on disk yet."""
        return bool(self._since or self._under_way)

    async def settled(self) -> None:
        if self.is_behind:
            done: asyncio.Future[None] = self._loop.create_future()
            (self._await_next if self._since else self._await_this).append(done)
            await done

    async def close(self) -> None:
        """Persist pending changes, or roll them back if the disk fails; then close the log."""
        while self.is_behind:
            try:
                await self.settled()
            except NotKeptError:
                break
        self._thread.shutdown()
        self._log.close()

    def _begin(self) -> None:
        self._is_scheduled = False
        self._under_way, self._since = self._since, []
        self._await_this, self._await_next = self._await_next, []
        try:
            # Not in the thread: these are many short steps, and each would wait for the interpreter lock.
            self._log.stage(self._under_way)
        except Exception as error:
            # Any error: otherwise the waiters would wait forever.
            self._refuse(error)
            return
        self._loop.run_in_executor(self._thread, self._log.commit).add_done_callback(self._end)

    def _end(self, commit: "asyncio.Future[None]") -> None:
        if (error := commit.exception()) is not None:
            self._refuse(error)
            return
        self._log.confirm()
        kept, self._under_way = self._under_way, []
        self._store.show(kept)
        for waiter in self._await_this:
            if not waiter.done():
                waiter.set_result(None)
        was_refused, self._is_refused = self._is_refused, False
        if self._since:
            self._begin()
        if was_refused:
            logger.info("writes are kept again", path=str(self._log.path))

    def _refuse(self, error: BaseException) -> None:
        """Roll back the failed transaction and all later changes, which were built on it."""
        lost, self._under_way, self._since = self._under_way + self._since, [], []
        waiters, self._await_this, self._await_next = self._await_this + self._await_next, [], []
        self._store.take_back(lost)
        for waiter in waiters:
            if not waiter.done():
                waiter.set_exception(NotKeptError(str(error)))
        # Log last: the log may go to the same full disk.
        if not self._is_refused:
            self._is_refused = True
            logger.error("writes are refused", why=str(error))

"""Writes made by built-in controllers: own user, admission webhooks apply, retried on failure."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable

from grove.cluster.apiserver.api_server import ApiServer
from grove.cluster.apiserver.auth.user_info import UserInfo
from grove.kube.transport import Request

# The delay before the retry of a failed write, such as one that a webhook rejected.
RETRY_SECONDS = 1.0
_IGNORED = (404, 409)


class ControllerWriter:
    """A writer for one controller. It passes the keys of failed writes to `requeue` after a delay."""

    def __init__(self, server: ApiServer, user: UserInfo, requeue: Callable[[str], None]) -> None:
        self._server = server
        self._user = user
        self._requeue = requeue
        self._failed: dict[str, None] = {}

    async def write(self, request: Request, key: str) -> None:
        """Send the request. If it fails, `wait_and_retry` requeues `key`."""
        response = await self._server.handle_with_webhooks(request, self._user)
        if response.status >= 400 and response.status not in _IGNORED:
            self._failed[key] = None

    @property
    def has_failed(self) -> bool:
        return bool(self._failed)

    async def wait_and_retry(self) -> None:
        await self._server.clock.sleep(RETRY_SECONDS)
        failed, self._failed = self._failed, {}
        for key in failed:
            self._requeue(key)


class BatchController(ABC):
    """A controller that reconciles queued names in batches: each name once per batch.

    It waits for `delay` before a batch, so that a burst of changes becomes one batch.
    """

    def __init__(self, server: ApiServer, user: UserInfo, *, delay: float) -> None:
        self._server = server
        self._delay = delay
        self._queue: dict[str, None] = {}
        self._has_work = asyncio.Event()
        self._writer = ControllerWriter(server, user, self._enqueue)

    async def run(self) -> None:
        """Reconcile until cancelled."""
        while True:
            await self._has_work.wait()
            await self._server.clock.sleep(self._delay)
            self._has_work.clear()
            queue, self._queue = self._queue, {}
            for name in queue:
                await self._reconcile(name)
            if self._writer.has_failed:
                await self._writer.wait_and_retry()

    def _enqueue(self, name: str) -> None:
        self._queue[name] = None
        self._has_work.set()

    @abstractmethod
    async def _reconcile(self, name: str) -> None: ...

"""A fence around the writes of one term: no write is sent after the term is over.

Cancelling the work is not enough: a process that was suspended may get to a write before it gets to the timer that ends
its term. So every write checks the clock itself, and once more right before its bytes are sent, because it may have
waited for a connection. A process that is suspended between that check and the kernel sends this one write when it
resumes; `leader_election.py` explains why that does no harm.
"""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from datetime import timedelta

import msgspec

from grove.clock import Clock
from grove.kube.api_errors import ConnectionLost
from grove.kube.transport import Request, Response, Transport


class Fence:
    """A fence that is open until its term expires or it is closed. It never opens again."""

    def __init__(self, clock: Clock, until: float = math.inf) -> None:
        self._clock = clock
        self._set(until)
        self._is_closed = False
        self._in_flight = 0
        self._calm = asyncio.Event()
        self._calm.set()

    @property
    def is_open(self) -> bool:
        is_over = self._clock.monotonic() >= self._until
        # The monotonic clock may stop while the machine sleeps, and others take the lease meanwhile.
        return not (self._is_closed or is_over or self._has_slept())

    def extend(self, until: float) -> None:
        """Extend the term. A term that is over is not resumed: another leader may have started."""
        if self.is_open:
            self._set(until)

    def close(self) -> None:
        self._is_closed = True

    async def over(self) -> None:
        """Wait until the term expires."""
        while (seconds := self._remaining_seconds()) > 0:
            await self._clock.sleep(min(seconds, _LONGEST_SLEEP_SECONDS))

    async def calm(self) -> None:
        """Wait until no write is in flight."""
        await self._calm.wait()

    def _set(self, until: float) -> None:
        self._until = until
        self._ends_at = None if math.isinf(until) else self._clock.now() + timedelta(seconds=self._remaining_seconds())

    def _has_slept(self) -> bool:
        return self._ends_at is not None and self._clock.now() >= self._ends_at

    def _remaining_seconds(self) -> float:
        return self._until - self._clock.monotonic()

    def enter(self) -> None:
        self._in_flight += 1
        self._calm.clear()

    def leave(self) -> None:
        self._in_flight -= 1
        if not self._in_flight:
            self._calm.set()


# asyncio cannot sleep for an infinite time.
_LONGEST_SLEEP_SECONDS = 3600.0


class FencedTransport:
    """A `Transport` whose writes raise `ConnectionLost` after the term."""

    def __init__(self, inner: Transport, fence: Fence) -> None:
        self._inner = inner
        self._fence = fence

    async def send(self, request: Request) -> Response:
        if not request.is_write:
            return await self._inner.send(request)
        if not self._fence.is_open:
            raise ConnectionLost(f"{request.method} {request.path}: not sent, the term is over")
        self._fence.enter()
        try:
            return await self._inner.send(msgspec.structs.replace(request, may_send=self._is_open))
        finally:
            self._fence.leave()

    def _is_open(self) -> bool:
        return self._fence.is_open

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._inner.stream(request)

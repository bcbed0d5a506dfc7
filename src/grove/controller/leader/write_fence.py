"""One term of leading: writes leave while it lasts, and none sets out after it.

Cancelling the work is not enough: a program that was stopped for a while and wakes up may get to a write before it
gets to the timer that ends its term. So every write looks at the clock itself, and once more when its bytes are about
to leave: a connection may have been waited for in between. The one write that stands between that last look and the
kernel when its program is stopped goes out when it wakes (`leader_election.py` says why that does no harm).
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
    """Open until its time is over or it is closed; what is closed stays closed."""

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
        # Its timer stands still while a machine sleeps, and others take the lease meanwhile.
        return not (self._is_closed or is_over or self._has_slept())

    def extend(self, until: float) -> None:
        """A term that is over is not resumed: others may have begun theirs."""
        if self.is_open:
            self._set(until)

    def close(self) -> None:
        self._is_closed = True

    async def over(self) -> None:
        """Returns when the time is over."""
        while (seconds := self._remaining()) > 0:
            await self._clock.sleep(min(seconds, _LONGEST_SLEEP_SECONDS))

    async def calm(self) -> None:
        """Returns when no write is on its way."""
        await self._calm.wait()

    def _set(self, until: float) -> None:
        self._until = until
        self._ends_at = None if math.isinf(until) else self._clock.now() + timedelta(seconds=self._remaining())

    def _has_slept(self) -> bool:
        return self._ends_at is not None and self._clock.now() >= self._ends_at

    def _remaining(self) -> float:
        return self._until - self._clock.monotonic()

    def enter(self) -> None:
        self._in_flight += 1
        self._calm.clear()

    def leave(self) -> None:
        self._in_flight -= 1
        if not self._in_flight:
            self._calm.set()


# A loop cannot wait for an infinite time.
_LONGEST_SLEEP_SECONDS = 3600.0


class FencedTransport:
    """Implements `Transport`. A write that comes too late is answered like one whose connection broke."""

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
            return await self._inner.send(msgspec.structs.replace(request, may_leave=self._is_open))
        finally:
            self._fence.leave()

    def _is_open(self) -> bool:
        return self._fence.is_open

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._inner.stream(request)

"""An optional fixed limit of writes per second. Without it, the responses of the API server control the rate."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

from grove.clock import Clock
from grove.kube.transport import Request, Response, Transport


class RateLimitedTransport:
    """A `Transport` that limits the rate of writes; after a pause, `burst` of them may be sent at once."""

    def __init__(self, inner: Transport, clock: Clock, *, per_second: float, burst: int) -> None:
        self._inner = inner
        self._clock = clock
        self._seconds = 1 / per_second
        self._credit = self._seconds * max(0, burst - 1)
        # When the next write would be sent if they were spread evenly.
        self._next_at = float("-inf")

    async def send(self, request: Request) -> Response:
        if request.is_write:
            now = self._clock.monotonic()
            turn_at = max(self._next_at, now - self._credit)
            self._next_at = turn_at + self._seconds
            if turn_at > now:
                await self._clock.sleep(turn_at - now)
        return await self._inner.send(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._inner.stream(request)

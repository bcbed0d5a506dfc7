"""A limit of writes in flight, with fair queuing between flows.

The limit adapts to the server. Flows (one per set) are served in turn, so that ten thousand creates of one set never
delay the deletion of another. Retries are up to the caller, who knows what is safe to repeat.
"""

import asyncio
from collections import OrderedDict, deque
from types import TracebackType

from grove.clock import Clock
from grove.errors import require

SLOW_ANSWER_SECONDS = 0.5
# Too many requests, and unavailable: the server is overloaded, and may send Retry-After.
OVERLOADED = (429, 503)
NO_ANSWER = 0
_SECONDS_BETWEEN_CUTS = 1.0


class WriteLimiter:
    """A limiter of writes in flight: the limit is halved on overload and raised slowly otherwise."""

    def __init__(self, clock: Clock, *, start: int = 32, lowest: int = 4, highest: int = 64) -> None:
        require(0 < lowest <= start <= highest, "a write limit starts between its bounds")
        self._clock = clock
        self._lowest = lowest
        self._highest = highest
        # The lowest limit for slow responses: the server may be far away rather than overloaded.
        self._lowest_when_slow = max(lowest, start // 2)
        self._limit = float(start)
        self._in_flight = 0
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self._cut_at = float("-inf")
        self._closed_until = float("-inf")

    @property
    def limit(self) -> int:
        return int(self._limit)

    @property
    def in_flight(self) -> int:
        return self._in_flight

    def slot(self, flow: str) -> "WriteSlot":
        """Return a slot: `async with limiter.slot(flow) as slot:` send, then `slot.record_response(...)`."""
        return WriteSlot(self, self._clock, flow)

    async def acquire(self, flow: str) -> None:
        """Wait for a slot of this flow, then until the Retry-After time of the server."""
        if self._waiting or self._in_flight >= self.limit:
            await self._queue_up(flow)
        else:
            self._in_flight += 1
        try:
            # Waiting inside the slot keeps the order of the flows; a later response may extend the pause.
            while (seconds := self._closed_until - self._clock.monotonic()) > 0:
                await self._clock.sleep(seconds)
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        self._in_flight -= 1
        self._admit()

    def learn(self, status: int, latency: float, retry_after: float | None) -> None:
        """Adjust the limit to one response, or to its absence."""
        if status in OVERLOADED:
            if retry_after is not None:
                self._closed_until = max(self._closed_until, self._clock.monotonic() + retry_after)
            self._cut(self._lowest)
        elif status == NO_ANSWER:
            # A connection that breaks at once is no sign of load; a timeout is.
            if latency > SLOW_ANSWER_SECONDS:
                self._cut(self._lowest)
        elif latency > SLOW_ANSWER_SECONDS:
            self._cut(self._lowest_when_slow)
        elif status < 500:
            self._limit = min(float(self._highest), self._limit + 1 / self._limit)

    async def _queue_up(self, flow: str) -> None:
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(flow, deque()).append(ready)
        self._admit()
        try:
            await ready
        except asyncio.CancelledError:
            # If it was cancelled in the queue, `_admit` skips it; if it had a slot already, release the slot.
            if not ready.cancelled():
                self.release()
            raise

    def _admit(self) -> None:
        while self._waiting and self._in_flight < self.limit:
            flow, queue = self._waiting.popitem(last=False)
            ready = queue.popleft()
            if queue:
                self._waiting[flow] = queue
            if not ready.done():
                self._in_flight += 1
                ready.set_result(None)

    def _cut(self, lowest: int) -> None:
        # Many responses show the same overload: decrease the limit once for all of them.
        now = self._clock.monotonic()
        if now - self._cut_at >= _SECONDS_BETWEEN_CUTS:
            self._cut_at = now
            self._limit = min(self._limit, max(float(lowest), self._limit / 2))


class WriteSlot:
    """The slot of one write among the writes in flight."""

    __slots__ = ("_clock", "_flow", "_limiter", "_started_at")

    def __init__(self, limiter: WriteLimiter, clock: Clock, flow: str) -> None:
        self._limiter = limiter
        self._clock = clock
        self._flow = flow
        self._started_at = 0.0

    async def __aenter__(self) -> "WriteSlot":
        await self._limiter.acquire(self._flow)
        self._started_at = self._clock.monotonic()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._limiter.release()

    def record_response(self, status: int, *, retry_after: float | None = None) -> None:
        """Report a response; the limiter uses its status and latency."""
        self._limiter.learn(status, self._clock.monotonic() - self._started_at, retry_after)

    def record_no_response(self) -> None:
        """Report that there was no response."""
        self._limiter.learn(NO_ANSWER, self._clock.monotonic() - self._started_at, None)

"""How many writes may be on their way at once, and whose turn is next.

The limit follows what the server can take; lanes (one per set) take turns, so that ten thousand creates of one set
never stand in front of another set's deletion. Retrying is not here: callers know what is safe to repeat.
"""

import asyncio
from collections import OrderedDict, deque
from types import TracebackType

from grove.clock import Clock
from grove.errors import require

SLOW_ANSWER_SECONDS = 0.5
# Too many requests, and unavailable: the server says that it cannot keep up, and perhaps when to come back.
OVERLOADED = (429, 503)
NO_ANSWER = 0
_SECONDS_BETWEEN_CUTS = 1.0


class WriteLimiter:
    """Bounded writes in flight: halved when the server pushes back, raised slowly while it keeps up."""

    def __init__(self, clock: Clock, *, start: int = 32, lowest: int = 4, highest: int = 64) -> None:
        require(0 < lowest <= start <= highest, "a write limit starts between its bounds")
        self._clock = clock
        self._lowest = lowest
        self._highest = highest
        # Slowness alone cuts no deeper than this: the server may be far away rather than overloaded.
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

    def turn(self, flow: str) -> "WriteSlot":
        """`async with limiter.turn(lane) as turn:` send, then `turn.answered(...)`."""
        return WriteSlot(self, self._clock, flow)

    async def acquire(self, flow: str) -> None:
        """Waits for this lane's turn, then until the instant that the server asked us to wait for."""
        if self._waiting or self._in_flight >= self.limit:
            await self._queue_up(flow)
        else:
            self._in_flight += 1
        try:
            # Waiting inside the turn keeps the order of the lanes; a later answer may move the instant again.
            while (seconds := self._closed_until - self._clock.monotonic()) > 0:
                await self._clock.sleep(seconds)
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        self._in_flight -= 1
        self._admit()

    def learn(self, status: int, latency: float, retry_after: float | None) -> None:
        """What one answer, or its absence, says about the server."""
        if status in OVERLOADED:
            if retry_after is not None:
                self._closed_until = max(self._closed_until, self._clock.monotonic() + retry_after)
            self._cut(self._lowest)
        elif status == NO_ANSWER:
            # A connection that breaks at once says nothing about load; waiting in vain does.
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
            # If it was cancelled in the queue, `_admit` passes over it; if its turn had come already, hand that on.
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
        # Many answers tell of the same overload: one cut for all of them.
        now = self._clock.monotonic()
        if now - self._cut_at >= _SECONDS_BETWEEN_CUTS:
            self._cut_at = now
            self._limit = min(self._limit, max(float(lowest), self._limit / 2))


class WriteSlot:
    """One write's place among the writes in flight."""

    __slots__ = ("_clock", "_lane", "_limiter", "_started_at")

    def __init__(self, limiter: WriteLimiter, clock: Clock, flow: str) -> None:
        self._limiter = limiter
        self._clock = clock
        self._lane = flow
        self._started_at = 0.0

    async def __aenter__(self) -> "WriteSlot":
        await self._limiter.acquire(self._lane)
        self._started_at = self._clock.monotonic()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._limiter.release()

    def answered(self, status: int, *, retry_after: float | None = None) -> None:
        """The server answered; the limiter learns from the status and from how long it took."""
        self._limiter.learn(status, self._clock.monotonic() - self._started_at, retry_after)

    def unanswered(self) -> None:
        """There was no answer, for as long as we waited."""
        self._limiter.learn(NO_ANSWER, self._clock.monotonic() - self._started_at, None)

"""Keys to visit: each at most once in the queue, the earliest wake-up wins, never the same key twice at once."""

import asyncio
import heapq
from collections import deque
from datetime import datetime, timedelta

from grove.api.types.meta import Uid
from grove.clock import Clock

SPARE_WAKES = 64
# A timer stands still while the machine sleeps: so often it is asked anew what is due.
LONGEST_WAIT = timedelta(minutes=1)


class WorkQueue:
    """`take` waits for the next key that is due and not being visited; `done` frees it for its next visit."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ready: deque[Uid] = deque()
        # Since when each waits; in the order of `_ready`.
        self._queued: dict[Uid, float] = {}
        self._visiting: set[Uid] = set()
        self._again: set[Uid] = set()
        self._wakes: list[tuple[datetime, Uid]] = []
        self._wake_of: dict[Uid, datetime] = {}
        self._changed = asyncio.Event()
        # One worker waits for all of them: the others would wake up with it for nothing.
        self._waiting = asyncio.Lock()

    @property
    def is_quiet(self) -> bool:
        """Nothing to visit now; wake-ups in the future do not count."""
        return not (self._ready or self._visiting)

    @property
    def depth(self) -> int:
        """Keys that wait for a visit."""
        return len(self._ready)

    @property
    def oldest_seconds(self) -> float:
        """How long the first of them has waited."""
        since = next(iter(self._queued.values()), None)
        return 0.0 if since is None else self._clock.monotonic() - since

    @property
    def next_wake(self) -> datetime | None:
        return min(self._wake_of.values(), default=None)

    def add(self, key: Uid) -> None:
        """Visit this key soon; during a visit: once more after it."""
        if key in self._visiting:
            self._again.add(key)
        elif key not in self._queued:
            self._queued[key] = self._clock.monotonic()
            self._ready.append(key)
            self._changed.set()

    def requeue_at(self, key: Uid, instant: datetime | None) -> None:
        """Replace the key's wake-up; None: only an event wakes it."""
        if instant is None:
            self._wake_of.pop(key, None)
            return
        if self._wake_of.get(key) == instant:
            return
        self._wake_of[key] = instant
        heapq.heappush(self._wakes, (instant, key))
        self._drop_replaced_wakes()
        self._changed.set()

    async def take(self) -> Uid:
        async with self._waiting:
            while True:
                self._promote_due()
                if self._ready:
                    key = self._ready.popleft()
                    del self._queued[key]
                    self._visiting.add(key)
                    return key
                await self._wait_for_change()

    def done(self, key: Uid) -> None:
        self._visiting.discard(key)
        if key in self._again:
            self._again.discard(key)
            self.add(key)

    def _drop_replaced_wakes(self) -> None:
        """Keep the heap about as large as the number of keys, however often their wake-ups are replaced."""
        if len(self._wakes) > 2 * len(self._wake_of) + SPARE_WAKES:
            self._wakes = [(instant, key) for key, instant in self._wake_of.items()]
            heapq.heapify(self._wakes)

    def _promote_due(self) -> None:
        now = self._clock.now()
        while self._wakes and self._wakes[0][0] <= now:
            instant, key = heapq.heappop(self._wakes)
            # A wake-up that was replaced since is not this key's any more.
            if self._wake_of.get(key) == instant:
                del self._wake_of[key]
                self.add(key)

    async def _wait_for_change(self) -> None:
        self._changed.clear()
        remaining = self._wakes[0][0] - self._clock.now() if self._wakes else None
        if remaining is None:
            await self._changed.wait()
            return
        try:
            async with asyncio.timeout(min(max(remaining, timedelta(0)), LONGEST_WAIT).total_seconds()):
                await self._changed.wait()
        except TimeoutError:
            return

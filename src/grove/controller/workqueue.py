"""A work queue as in client-go: deduplicated keys, delayed requeues, and no key is processed twice at once."""

import asyncio
import heapq
from collections import deque
from datetime import datetime, timedelta

from grove.api.types.meta import Uid
from grove.clock import Clock

SPARE_WAKES = 64
# Timers stop while the machine sleeps: check this often which keys are due.
LONGEST_WAIT = timedelta(minutes=1)


class WorkQueue:
    """A queue of keys. `take` waits for the next key that is due and not being processed; `done` releases it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ready: deque[Uid] = deque()
        # When each key was queued; in the order of `_ready`.
        self._queued: dict[Uid, float] = {}
        self._processing: set[Uid] = set()
        self._again: set[Uid] = set()
        self._wakes: list[tuple[datetime, Uid]] = []
        self._requeue_times: dict[Uid, datetime] = {}
        self._changed = asyncio.Event()
        # One worker waits for changes: waking all of them would be useless.
        self._waiting = asyncio.Lock()

    @property
    def is_quiet(self) -> bool:
        """Return whether no key is queued or being processed; delayed keys do not count."""
        return not (self._ready or self._processing)

    @property
    def depth(self) -> int:
        """Return the number of queued keys."""
        return len(self._ready)

    @property
    def oldest_seconds(self) -> float:
        """Return how long the first key has waited."""
        since = next(iter(self._queued.values()), None)
        return 0.0 if since is None else self._clock.monotonic() - since

    @property
    def next_wake(self) -> datetime | None:
        return min(self._requeue_times.values(), default=None)

    def add(self, key: Uid) -> None:
        """Queue this key; if it is being processed, queue it again afterwards."""
        if key in self._processing:
            self._again.add(key)
        elif key not in self._queued:
            self._queued[key] = self._clock.monotonic()
            self._ready.append(key)
            self._changed.set()

    def requeue_at(self, key: Uid, instant: datetime | None) -> None:
        """Replace the delayed requeue of the key; None: only an event queues it."""
        if instant is None:
            self._requeue_times.pop(key, None)
            return
        if self._requeue_times.get(key) == instant:
            return
        self._requeue_times[key] = instant
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
                    self._processing.add(key)
                    return key
                await self._wait_for_change()

    def done(self, key: Uid) -> None:
        self._processing.discard(key)
        if key in self._again:
            self._again.discard(key)
            self.add(key)

    def _drop_replaced_wakes(self) -> None:
        """Remove replaced entries, so that the size of the heap is bounded by the number of keys."""
        if len(self._wakes) > 2 * len(self._requeue_times) + SPARE_WAKES:
            self._wakes = [(instant, key) for key, instant in self._requeue_times.items()]
            heapq.heapify(self._wakes)

    def _promote_due(self) -> None:
        now = self._clock.now()
        while self._wakes and self._wakes[0][0] <= now:
            instant, key = heapq.heappop(self._wakes)
            # Skip an entry that was replaced.
            if self._requeue_times.get(key) == instant:
                del self._requeue_times[key]
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

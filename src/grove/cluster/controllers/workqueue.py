"""Work queue of the built-in controllers and kubelets: deduplicates keys and adds keys at requested times."""

import asyncio
import heapq
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Generic, TypeVar

from grove.clock import Clock

K = TypeVar("K")


class DelayingQueue(Generic[K]):
    """A work queue that deduplicates keys and requeues them at given times.

    At most one worker reconciles a key at a time. A key that is added during its own reconcile is reconciled once more
    afterwards.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._queue: asyncio.Queue[K] = asyncio.Queue()
        self._queued: set[K] = set()
        self._visiting: set[K] = set()
        self._alarms: list[tuple[float, int, K]] = []
        self._alarm_of: dict[K, float] = {}
        self._alarm_count = 0
        self._alarm_set = asyncio.Event()

    def add(self, key: K) -> None:
        """Queue the key, unless it is queued already."""
        if key in self._queued:
            return
        self._queued.add(key)
        if key not in self._visiting:
            self._queue.put_nowait(key)

    async def run(self, visit: Callable[[K], Awaitable[datetime | None]], *, workers: int) -> None:
        """Visit keys for ever. A visit answers when its key wants to be visited again, or None: not before `add`."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._ring_alarms())
            for _ in range(workers):
                group.create_task(self._work(visit))

    async def _work(self, visit: Callable[[K], Awaitable[datetime | None]]) -> None:
        while True:
            key = await self._queue.get()
            self._queued.discard(key)
            self._visiting.add(key)
            self._set_alarm(key, await visit(key))
            self._visiting.discard(key)
            if key in self._queued:
                self._queue.put_nowait(key)

    def _set_alarm(self, key: K, requeue_at: datetime | None) -> None:
        if requeue_at is None:
            self._alarm_of.pop(key, None)
            return
        at = self._clock.monotonic() + (requeue_at - self._clock.now()).total_seconds()
        self._alarm_of[key] = at
        self._alarm_count += 1
        heapq.heappush(self._alarms, (at, self._alarm_count, key))
        self._alarm_set.set()

    async def _ring_alarms(self) -> None:
        while True:
            self._alarm_set.clear()
            delay = self._ring_due_alarms()
            try:
                async with asyncio.timeout(delay):
                    await self._alarm_set.wait()
            except TimeoutError:
                continue

    def _ring_due_alarms(self) -> float | None:
        """Queue every key that is due. Return the seconds until the next timer, or None."""
        now = self._clock.monotonic()
        while self._alarms:
            at, _, key = self._alarms[0]
            is_current = self._alarm_of.get(key) == at
            if is_current and at > now:
                return at - now
            heapq.heappop(self._alarms)
            if is_current:
                del self._alarm_of[key]
                self.add(key)
        return None

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
        self._dirty: set[K] = set()
        self._processing: set[K] = set()
        self._timers: list[tuple[float, int, K]] = []
        self._timer_of: dict[K, float] = {}
        self._timer_count = 0
        self._timer_added = asyncio.Event()

    def add(self, key: K) -> None:
        """Queue the key, unless it is queued already."""
        if key in self._dirty:
            return
        self._dirty.add(key)
        if key not in self._processing:
            self._queue.put_nowait(key)

    async def run(self, reconcile: Callable[[K], Awaitable[datetime | None]], *, workers: int) -> None:
        """Reconcile keys until cancelled. `reconcile` returns when to requeue its key, or None."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._run_timers())
            for _ in range(workers):
                group.create_task(self._work(reconcile))

    async def _work(self, reconcile: Callable[[K], Awaitable[datetime | None]]) -> None:
        while True:
            key = await self._queue.get()
            self._dirty.discard(key)
            self._processing.add(key)
            self._set_timer(key, await reconcile(key))
            self._processing.discard(key)
            if key in self._dirty:
                self._queue.put_nowait(key)

    def _set_timer(self, key: K, requeue_at: datetime | None) -> None:
        if requeue_at is None:
            self._timer_of.pop(key, None)
            return
        at = self._clock.monotonic() + (requeue_at - self._clock.now()).total_seconds()
        self._timer_of[key] = at
        self._timer_count += 1
        heapq.heappush(self._timers, (at, self._timer_count, key))
        self._timer_added.set()

    async def _run_timers(self) -> None:
        while True:
            self._timer_added.clear()
            delay = self._add_due_keys()
            try:
                async with asyncio.timeout(delay):
                    await self._timer_added.wait()
            except TimeoutError:
                continue

    def _add_due_keys(self) -> float | None:
        """Queue every key that is due. Return the seconds until the next timer, or None."""
        now = self._clock.monotonic()
        while self._timers:
            at, _, key = self._timers[0]
            is_current = self._timer_of.get(key) == at
            if is_current and at > now:
                return at - now
            heapq.heappop(self._timers)
            if is_current:
                del self._timer_of[key]
                self.add(key)
        return None

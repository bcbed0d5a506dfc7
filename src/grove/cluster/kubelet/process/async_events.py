"""Waits for several events at once, and an event that wakes all current waiters."""

import asyncio
from collections.abc import Coroutine
from typing import Any


class Broadcast:
    """An event without a state: `notify` wakes the tasks that wait now. Later ones wait for the next call."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def notify(self) -> None:
        self._event.set()
        self._event = asyncio.Event()

    def wait(self) -> Coroutine[Any, Any, object]:
        """Return an awaitable for the next `notify` after this call, even if it is awaited later."""
        return self._event.wait()


async def wait_first(*waits: Coroutine[Any, Any, object], seconds: float | None = None) -> None:
    """Wait until one of the coroutines has completed or the time has passed. The caller checks which one it was."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()

"""Waiting for the first of several things, and telling everybody who waits."""

import asyncio
from collections.abc import Coroutine
from typing import Any


class Broadcast:
    """Whoever waits when it is told is woken; whoever comes later waits for the next time."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def tell(self) -> None:
        self._event.set()
        self._event = asyncio.Event()

    def wait(self) -> Coroutine[Any, Any, object]:
        """For what is told after this call, also if it is awaited later."""
        return self._event.wait()


async def first_of(*waits: Coroutine[Any, Any, object], seconds: float | None = None) -> None:
    """Until one of them is there, or the time has passed; which one it was, the caller sees by himself."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()

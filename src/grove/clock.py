"""The time door: the only module that asks what time it is or sleeps.

Time is the running event loop's, so the simulator replaces the loop and nothing else (`sim/clock.py`).
"""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """What the effectful rooms may know of time. Pure rooms are given `now` instead."""

    def now(self) -> datetime: ...
    def monotonic(self) -> float: ...
    async def sleep(self, seconds: float) -> None: ...


class LoopClock:
    """A clock that runs with the event loop: real under asyncio's own loop, virtual under the simulator's."""

    def __init__(self, epoch: datetime) -> None:
        self._epoch = epoch
        self._start = asyncio.get_running_loop().time()

    @classmethod
    def starting_now(cls) -> "LoopClock":
        """A clock whose epoch is the machine's present time."""
        return cls(datetime.now(UTC))

    def now(self) -> datetime:
        return self._epoch + timedelta(seconds=self.monotonic() - self._start)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

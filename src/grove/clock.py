"""The time door: the only module that asks what time it is or sleeps.

Time is the running event loop's, so the simulator replaces the loop and nothing else (`sim/virtual_clock.py`). Only
a program that shares its times with other machines follows the machine's own clock.
"""

import asyncio
from collections.abc import Callable
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


class MachineClock(LoopClock):
    """The machine's own time, for a program whose times are compared with those of others.

    The event loop stands still while the machine sleeps, and knows nothing of a clock that was set; others go on. So
    this one follows every jump ahead. When the machine's clock is set back it goes on at half speed until it is caught
    up with: no instant comes twice, and nobody waits longer than twice as long.
    """

    def __init__(self, read: Callable[[], datetime]) -> None:
        super().__init__(read())
        self._read = read
        self._last = self._epoch
        self._last_at = self._start

    @classmethod
    def of_this_machine(cls) -> "MachineClock":
        return cls(lambda: datetime.now(UTC))

    def now(self) -> datetime:
        at = self.monotonic()
        slowly = self._last + timedelta(seconds=at - self._last_at) / 2
        self._last, self._last_at = max(self._read(), slowly), at
        return self._last

"""The clock: the only module that reads the time or sleeps.

Time is the time of the running event loop, so the simulator replaces only the loop (`sim/virtual_clock.py`). A program
that compares its times with other machines uses the system time.
"""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """The interface for time of all modules that do I/O. Pure modules get `now` as an argument."""

    def now(self) -> datetime: ...
    def monotonic(self) -> float: ...
    async def sleep(self, seconds: float) -> None: ...


class LoopClock:
    """A clock of the event loop: real with the loop of asyncio, virtual with the loop of the simulator."""

    def __init__(self, epoch: datetime) -> None:
        self._epoch = epoch
        self._start = asyncio.get_running_loop().time()

    @classmethod
    def starting_now(cls) -> "LoopClock":
        """Return a clock that starts at the current system time."""
        return cls(datetime.now(UTC))

    def now(self) -> datetime:
        return self._epoch + timedelta(seconds=self.monotonic() - self._start)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class MachineClock(LoopClock):
    """The system time, for a program whose times are compared with those of other machines.

    The event loop stops while the machine sleeps and does not see that the system clock was set. This clock follows
    every jump ahead. If the system clock is set back, this clock runs at half speed until the system clock has caught
    up. So no time occurs twice, and a wait takes at most twice as long.
    """

    def __init__(self, read: Callable[[], datetime]) -> None:
        super().__init__(read())
        self._read = read
        self._last = self._epoch
        self._last_at = self._start

    @classmethod
    def from_system_time(cls) -> "MachineClock":
        return cls(lambda: datetime.now(UTC))

    def now(self) -> datetime:
        at = self.monotonic()
        slowed = self._last + timedelta(seconds=at - self._last_at) / 2
        self._last, self._last_at = max(self._read(), slowed), at
        return self._last

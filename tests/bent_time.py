"""An event loop with real files, sockets and processes, whose time need not be waited for."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

# On loopback, what one end has sent is there for the other end at once; on a busy machine almost at once.
STILLNESS_SECONDS = 0.02


class BentLoop(asyncio.SelectorEventLoop):
    """Only the time that the program reads is bent: it runs faster, or leaps ahead."""

    def __init__(self, *, speed: float = 1.0, skips_stillness: bool = False) -> None:
        self.speed = speed
        self._ahead = 0.0
        super().__init__(_StillnessSkipped(self) if skips_stillness else _Sped(speed))

    def time(self) -> float:
        return super().time() * self.speed + self._ahead

    def leap(self, seconds: float) -> None:
        """Let this time have passed."""
        self._ahead += seconds


class _Sped(selectors.DefaultSelector):
    def __init__(self, speed: float) -> None:
        super().__init__()
        self._speed = speed

    def select(self, timeout: float | None = None) -> Any:
        return super().select(None if timeout is None else timeout / self._speed)


class _StillnessSkipped(selectors.DefaultSelector):
    def __init__(self, loop: BentLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None or timeout <= STILLNESS_SECONDS:
            return super().select(timeout)
        events = super().select(STILLNESS_SECONDS)
        if not events:
            self._loop.leap(timeout - STILLNESS_SECONDS)
        return events


def run_without_stillness(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` to its end. Where nothing happens until a timer is due, time leaps to that timer.

    For tests that have both ends of every connection in their loop, and no thread or process that takes its time.
    """
    with asyncio.Runner(loop_factory=lambda: BentLoop(skips_stillness=True)) as runner:
        return runner.run(main)

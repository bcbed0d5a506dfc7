"""Measurement of the delay of the event loop. A late loop reads, writes and renews its lease late."""

from collections import deque

from grove.clock import Clock

PERIOD_SECONDS = 1.0
REMEMBERED_PERIODS = 60


class LoopLag:
    """A probe that sleeps repeatedly and measures how much longer than requested it slept. `run` until cancelled."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._delays: deque[float] = deque(maxlen=REMEMBERED_PERIODS)

    @property
    def seconds(self) -> float:
        """Return the longest delay of the last minute."""
        return max(self._delays, default=0.0)

    async def run(self) -> None:
        while True:
            started_at = self._clock.monotonic()
            await self._clock.sleep(PERIOD_SECONDS)
            self._delays.append(max(0.0, self._clock.monotonic() - started_at - PERIOD_SECONDS))

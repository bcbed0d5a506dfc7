"""How late the event loop is."""

import asyncio

from grove.clock import Clock, LoopClock
from grove.controller.observability.event_loop_lag import LoopLag
from grove.sim.virtual_clock import run_virtual
from tests.dsl import NOW


class LateClock(LoopClock):
    """A clock whose sleepers wake up late, as on a loop that is busy."""

    late = 0.0

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds + self.late)


def test_the_longest_delay_of_the_last_minute_is_known_and_forgotten() -> None:
    async def main() -> None:
        clock = LateClock(NOW)
        lag = LoopLag(clock)
        measuring = asyncio.create_task(lag.run())
        plain: Clock = LoopClock(NOW)
        await plain.sleep(10)
        assert lag.seconds < 0.001
        clock.late = 2.5
        await plain.sleep(5)
        clock.late = 0.0
        await plain.sleep(10)
        assert 2.4 < lag.seconds < 2.6
        await plain.sleep(60)
        assert lag.seconds < 0.001
        measuring.cancel()

    run_virtual(main())

"""The time of a program that shares its times with other machines."""

from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any

from grove.clock import LoopClock, MachineClock
from grove.sim.virtual_clock import run_virtual

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


class Machine:
    """A machine whose clock can be set; its event loop does not notice."""

    def __init__(self) -> None:
        self._running = LoopClock(NOON)
        self.ahead = timedelta(0)

    def read(self) -> datetime:
        return self._running.now() + self.ahead


def run(story: Coroutine[Any, Any, None]) -> None:
    run_virtual(story)


def test_it_shows_what_the_machine_shows() -> None:
    async def story() -> None:
        clock = MachineClock(Machine().read)
        assert clock.now() == NOON
        await clock.sleep(90)
        assert clock.now() == NOON + timedelta(seconds=90)

    run(story())


def test_the_hours_that_the_machine_slept_have_passed() -> None:
    async def story() -> None:
        machine = Machine()
        clock = MachineClock(machine.read)
        machine.ahead = 8 * HOUR
        assert clock.now() == NOON + 8 * HOUR
        assert clock.monotonic() == 0

    run(story())


def test_no_instant_comes_twice_when_the_machine_is_set_back_and_it_catches_up() -> None:
    async def story() -> None:
        machine = Machine()
        clock = MachineClock(machine.read)
        machine.ahead = -HOUR
        assert clock.now() == NOON
        await clock.sleep(3600)
        assert clock.now() == NOON + HOUR / 2
        await clock.sleep(3600)
        assert clock.now() == machine.read() == NOON + HOUR
        await clock.sleep(60)
        assert clock.now() == machine.read()

    run(story())

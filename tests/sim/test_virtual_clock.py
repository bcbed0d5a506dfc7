"""Virtual time: jumps, order, deadlocks and tidy ends."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from grove.clock import LoopClock
from grove.errors import Bug
from grove.sim.virtual_clock import Deadlock, run_virtual

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
YEAR = 365 * 24 * 3600.0


def test_time_begins_at_zero_and_sleeping_a_year_takes_no_time() -> None:
    async def main() -> list[float]:
        clock = LoopClock(EPOCH)
        begin = clock.monotonic()
        await clock.sleep(YEAR)
        return [begin, clock.monotonic()]

    assert run_virtual(main()) == [0.0, YEAR]


def test_the_wall_clock_follows_virtual_time() -> None:
    async def main() -> datetime:
        clock = LoopClock(EPOCH)
        await clock.sleep(90)
        return clock.now()

    assert run_virtual(main()) == EPOCH + timedelta(seconds=90)


def test_time_stands_still_while_anyone_has_work() -> None:
    async def main() -> float:
        clock = LoopClock(EPOCH)
        for _ in range(1000):
            await clock.sleep(0)
        return clock.monotonic()

    assert run_virtual(main()) == 0.0


@pytest.mark.parametrize("start", [0.0, 0.1, 3 * YEAR + 0.1, 40 * YEAR + 0.7])
def test_a_sleeper_wakes_at_its_instant_and_never_before(start: float) -> None:
    async def main() -> None:
        clock = LoopClock(EPOCH)
        await clock.sleep(start)
        for seconds in (0.1, 0.2, 0.3, 1e-6, 7.7):
            deadline = clock.monotonic() + seconds
            await clock.sleep(seconds)
            assert clock.monotonic() == deadline

    run_virtual(main())


def test_sleepers_wake_in_the_order_of_their_instants() -> None:
    async def main() -> list[str]:
        clock = LoopClock(EPOCH)
        order: list[str] = []

        async def sleeper(name: str, seconds: float) -> None:
            await clock.sleep(seconds)
            order.append(name)

        async with asyncio.TaskGroup() as group:
            for name, seconds in (("late", 3.0), ("early", 1.0), ("middle", 2.0)):
                group.create_task(sleeper(name, seconds))
        return order

    assert run_virtual(main()) == ["early", "middle", "late"]


def test_a_timeout_counts_virtual_seconds() -> None:
    async def main() -> float:
        clock = LoopClock(EPOCH)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(4 * 3600):
                await clock.sleep(5 * 3600)
        return clock.monotonic()

    assert run_virtual(main()) == 4 * 3600


def test_waiting_for_what_can_never_come_is_a_deadlock_that_names_the_waiters() -> None:
    async def waits_for_ever() -> None:
        await asyncio.get_running_loop().create_future()

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(waits_for_ever(), name="the patient one")

    with pytest.raises(Deadlock, match=r"(?s)at 0\.000 s.*task-1: .*main.*the patient one: .*waits_for_ever"):
        run_virtual(main())


def test_leftover_tasks_are_cancelled_in_the_order_they_began_and_may_still_clean_up() -> None:
    ended: list[int] = []

    async def background(number: int, clock: LoopClock) -> None:
        try:
            await clock.sleep(YEAR)
        finally:
            await clock.sleep(number)
            ended.append(number)

    async def main() -> str:
        clock = LoopClock(EPOCH)
        tasks = [asyncio.create_task(background(number, clock)) for number in range(20)]
        await clock.sleep(1)
        return f"{len(tasks)} running"

    assert run_virtual(main()) == "20 running"
    assert ended == list(range(20))


def test_a_failure_of_main_is_raised_and_the_rest_is_cancelled() -> None:
    cancelled: list[str] = []

    async def background(clock: LoopClock) -> None:
        try:
            await clock.sleep(YEAR)
        except asyncio.CancelledError:
            cancelled.append("background")
            raise

    async def main() -> None:
        clock = LoopClock(EPOCH)
        task = asyncio.create_task(background(clock))
        await clock.sleep(1)
        raise ValueError(f"main fails beside {task.get_name()}")

    with pytest.raises(ValueError, match="main fails beside task-2"):
        run_virtual(main())
    assert cancelled == ["background"]


def test_a_group_of_tasks_that_fails_cancels_its_members_in_order() -> None:
    ended: list[int] = []

    async def member(number: int, clock: LoopClock) -> None:
        try:
            await clock.sleep(YEAR)
        finally:
            ended.append(number)

    async def main() -> None:
        clock = LoopClock(EPOCH)
        async with asyncio.TaskGroup() as group:
            for number in range(30):
                group.create_task(member(number, clock))
            await clock.sleep(1)
            raise ValueError("enough")

    with pytest.raises(ExceptionGroup):
        run_virtual(main())
    assert ended == list(range(30))


def test_threads_are_refused() -> None:
    async def main() -> None:
        await asyncio.to_thread(print)

    with pytest.raises(Bug, match="threads do not exist in virtual time"):
        run_virtual(main())


def test_worlds_can_follow_each_other() -> None:
    async def main() -> tuple[float, str]:
        task = asyncio.create_task(LoopClock(EPOCH).sleep(2))
        await task
        return LoopClock(EPOCH).monotonic(), task.get_name()

    assert [run_virtual(main()) for _ in range(3)] == [(2.0, "task-2")] * 3

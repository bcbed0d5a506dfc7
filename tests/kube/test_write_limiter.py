"""Writes in flight: bounded, fair between lanes, and slower when the server says so."""

import asyncio
from datetime import UTC, datetime

import pytest

from grove.clock import LoopClock
from grove.errors import Bug
from grove.kube.write_limiter import WriteLimiter
from grove.sim.virtual_clock import run_virtual

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


async def write(limiter: WriteLimiter, flow: str, seconds: float, done: list[tuple[str, float]]) -> None:
    clock = LoopClock(EPOCH)
    async with limiter.slot(flow) as slot:
        await clock.sleep(seconds)
        slot.record_response(200)
        done.append((flow, clock.monotonic()))


async def one_answer(
    limiter: WriteLimiter, status: int, *, seconds: float = 0.0, retry_after: float | None = None
) -> int:
    async with limiter.slot("a") as slot:
        await LoopClock(EPOCH).sleep(seconds)
        slot.record_response(status, retry_after=retry_after)
    return limiter.limit


def test_no_more_writes_than_the_limit_are_in_flight() -> None:
    async def main() -> list[int]:
        limiter = WriteLimiter(LoopClock(EPOCH), start=3, lowest=1, highest=3)
        seen: list[int] = []

        async def count() -> None:
            async with limiter.slot("a"):
                seen.append(limiter.in_flight)
                await LoopClock(EPOCH).sleep(1)

        async with asyncio.TaskGroup() as group:
            for _ in range(10):
                group.create_task(count())
        return [max(seen), limiter.in_flight]

    assert run_virtual(main()) == [3, 0]


def test_a_late_lane_does_not_wait_behind_the_crowd_of_another() -> None:
    async def main() -> list[tuple[str, float]]:
        limiter = WriteLimiter(LoopClock(EPOCH), start=1, lowest=1, highest=1)
        done: list[tuple[str, float]] = []
        async with asyncio.TaskGroup() as group:
            for _ in range(6):
                group.create_task(write(limiter, "crowd", 0.1, done))
            await LoopClock(EPOCH).sleep(0.05)
            group.create_task(write(limiter, "late", 0.1, done))
            group.create_task(write(limiter, "late", 0.1, done))
        return done

    assert [flow for flow, _ in run_virtual(main())] == [
        "crowd", "crowd", "late", "crowd", "late", "crowd", "crowd", "crowd",
    ]  # fmt: skip


def test_many_lanes_take_turns_one_by_one() -> None:
    async def main() -> str:
        limiter = WriteLimiter(LoopClock(EPOCH), start=1, lowest=1, highest=1)
        done: list[tuple[str, float]] = []
        async with asyncio.TaskGroup() as group:
            for flow in "xaaabbc":
                group.create_task(write(limiter, flow, 0.1, done))
        return "".join(flow for flow, _ in done)

    assert run_virtual(main()) == "xabcaba"


def test_a_push_back_halves_the_limit_at_most_once_per_second() -> None:
    async def main() -> list[int]:
        clock = LoopClock(EPOCH)
        limiter = WriteLimiter(clock)
        limits = [limiter.limit, await one_answer(limiter, 429), await one_answer(limiter, 429)]
        await clock.sleep(0.99)
        limits.append(await one_answer(limiter, 429))
        await clock.sleep(0.01)
        return [*limits, await one_answer(limiter, 429)]

    assert run_virtual(main()) == [32, 16, 16, 16, 8]


def test_the_limit_never_falls_below_the_lowest() -> None:
    async def main() -> list[int]:
        clock = LoopClock(EPOCH)
        limiter = WriteLimiter(clock)
        limits = []
        for _ in range(5):
            limits.append(await one_answer(limiter, 429))
            await clock.sleep(1)
        return limits

    assert run_virtual(main()) == [16, 8, 4, 4, 4]


def test_nothing_starts_before_the_instant_the_server_asked_for() -> None:
    async def main() -> list[tuple[str, float]]:
        limiter = WriteLimiter(LoopClock(EPOCH), start=2, lowest=1, highest=2)
        await one_answer(limiter, 429, retry_after=5)
        done: list[tuple[str, float]] = []
        async with asyncio.TaskGroup() as group:
            for flow in "aab":
                group.create_task(write(limiter, flow, 0.0, done))
        return done

    assert run_virtual(main()) == [("a", 5.0), ("a", 5.0), ("b", 5.0)]


def test_the_longer_of_two_waits_counts() -> None:
    async def main() -> list[tuple[str, float]]:
        limiter = WriteLimiter(LoopClock(EPOCH))
        done: list[tuple[str, float]] = []
        async with asyncio.TaskGroup() as group:
            group.create_task(one_answer(limiter, 429, seconds=2, retry_after=4))
            group.create_task(one_answer(limiter, 429, seconds=0, retry_after=3))
            await LoopClock(EPOCH).sleep(1)
            group.create_task(write(limiter, "a", 0.0, done))
        return done

    assert run_virtual(main()) == [("a", 6.0)]


@pytest.mark.parametrize(
    ("seconds", "limit"),
    [pytest.param(0.5, 32, id="just in time"), pytest.param(0.51, 16, id="too slow")],
)
def test_slow_answers_halve_the_limit(seconds: float, limit: int) -> None:
    async def main() -> int:
        return await one_answer(WriteLimiter(LoopClock(EPOCH)), 200, seconds=seconds)

    assert run_virtual(main()) == limit


def test_slowness_alone_does_not_cut_deeper_than_half_of_the_start() -> None:
    async def main() -> list[int]:
        limiter = WriteLimiter(LoopClock(EPOCH))
        return [await one_answer(limiter, 200, seconds=2) for _ in range(3)] + [
            await one_answer(limiter, 429),
            await one_answer(limiter, 200, seconds=2),
        ]

    assert run_virtual(main()) == [16, 16, 16, 16, 16]


def test_slowness_does_not_raise_a_limit_that_push_back_has_cut() -> None:
    async def main() -> list[int]:
        clock = LoopClock(EPOCH)
        limiter = WriteLimiter(clock)
        for _ in range(2):
            await one_answer(limiter, 429)
            await clock.sleep(1)
        return [limiter.limit, await one_answer(limiter, 200, seconds=2)]

    assert run_virtual(main()) == [8, 8]


def test_successes_raise_the_limit_slowly_up_to_the_highest() -> None:
    async def main() -> list[int]:
        limiter = WriteLimiter(LoopClock(EPOCH), start=4, lowest=4, highest=6)
        return [await one_answer(limiter, 201) for _ in range(12)]

    assert run_virtual(main()) == [4, 4, 4, 4, 5, 5, 5, 5, 5, 6, 6, 6]


def test_a_server_that_is_unavailable_is_pushed_less_and_left_alone_as_long_as_it_asks() -> None:
    async def main() -> tuple[int, list[tuple[str, float]]]:
        limiter = WriteLimiter(LoopClock(EPOCH))
        limit = await one_answer(limiter, 503, retry_after=5)
        done: list[tuple[str, float]] = []
        await write(limiter, "a", 0.0, done)
        return limit, done

    assert run_virtual(main()) == (16, [("a", 5.0)])


@pytest.mark.parametrize(
    ("seconds", "limits"),
    [pytest.param(0.5, [32] * 4, id="broke at once"), pytest.param(60, [16, 8, 4, 4], id="waited in vain")],
)
def test_waiting_in_vain_is_push_back_and_a_broken_connection_is_not(seconds: float, limits: list[int]) -> None:
    async def main() -> list[int]:
        clock = LoopClock(EPOCH)
        limiter = WriteLimiter(clock)
        found = []
        for _ in range(4):
            async with limiter.slot("a") as slot:
                await clock.sleep(seconds)
                slot.record_no_response()
            found.append(limiter.limit)
        return found

    assert run_virtual(main()) == limits


def test_a_server_error_does_not_raise_the_limit() -> None:
    async def main() -> list[int]:
        limiter = WriteLimiter(LoopClock(EPOCH), start=4, lowest=4, highest=6)
        return [await one_answer(limiter, 500) for _ in range(12)]

    assert run_virtual(main()) == [4] * 12


def test_those_who_give_up_leave_their_place_to_the_others() -> None:
    async def main() -> tuple[list[tuple[str, float]], int]:
        limiter = WriteLimiter(LoopClock(EPOCH), start=1, lowest=1, highest=1)
        done: list[tuple[str, float]] = []
        async with asyncio.TaskGroup() as group:
            group.create_task(write(limiter, "a", 1.0, done))
            given_up = [group.create_task(write(limiter, "b", 1.0, done)) for _ in range(3)]
            await LoopClock(EPOCH).sleep(0.5)
            for task in given_up:
                task.cancel()
            group.create_task(write(limiter, "c", 1.0, done))
        return done, limiter.in_flight

    assert run_virtual(main()) == ([("a", 1.0), ("c", 2.0)], 0)


def test_one_who_gives_up_when_its_turn_has_just_come_hands_it_on() -> None:
    async def main() -> tuple[list[tuple[str, float]], int]:
        limiter = WriteLimiter(LoopClock(EPOCH), start=1, lowest=1, highest=1)
        done: list[tuple[str, float]] = []
        async with asyncio.TaskGroup() as group:
            first = limiter.slot("a")
            await first.__aenter__()
            given_up = group.create_task(write(limiter, "b", 1.0, done))
            group.create_task(write(limiter, "c", 1.0, done))
            await LoopClock(EPOCH).sleep(0)
            await first.__aexit__(None, None, None)
            given_up.cancel()
        return done, limiter.in_flight

    assert run_virtual(main()) == ([("c", 1.0)], 0)


def test_one_who_gives_up_while_the_server_wants_a_pause_hands_its_turn_on() -> None:
    async def main() -> tuple[list[tuple[str, float]], int]:
        limiter = WriteLimiter(LoopClock(EPOCH), start=1, lowest=1, highest=1)
        await one_answer(limiter, 429, retry_after=5)
        done: list[tuple[str, float]] = []
        async with asyncio.TaskGroup() as group:
            given_up = group.create_task(write(limiter, "a", 1.0, done))
            group.create_task(write(limiter, "b", 1.0, done))
            await LoopClock(EPOCH).sleep(1)
            given_up.cancel()
        return done, limiter.in_flight

    assert run_virtual(main()) == ([("b", 6.0)], 0)


def test_a_write_that_fails_gives_its_turn_back() -> None:
    async def main() -> int:
        limiter = WriteLimiter(LoopClock(EPOCH), start=1, lowest=1, highest=1)
        with pytest.raises(ValueError, match="lost"):
            async with limiter.slot("a"):
                raise ValueError("lost")
        return limiter.in_flight

    assert run_virtual(main()) == 0


def test_a_limit_that_cannot_be_kept_is_a_bug() -> None:
    async def main() -> None:
        WriteLimiter(LoopClock(EPOCH), start=1, lowest=2, highest=3)

    with pytest.raises(Bug, match="a write limit starts between its bounds"):
        run_virtual(main())

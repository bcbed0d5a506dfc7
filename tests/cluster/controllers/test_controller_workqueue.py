"""Keys to visit: each queued once, visited by one worker at a time, woken at exact instants."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from grove.clock import LoopClock
from grove.cluster.controllers.workqueue import DelayingQueue
from grove.sim.virtual_clock import run_virtual

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)

Answer = Callable[[str, int], timedelta | None]


class Diary:
    """Visits keys, each visit taking a second, and writes down when it began."""

    def __init__(self, answer: Answer) -> None:
        self.clock = LoopClock(EPOCH)
        self.agenda: DelayingQueue[str] = DelayingQueue(self.clock)
        self.visits: list[tuple[float, str]] = []
        self._answer = answer

    async def visit(self, key: str) -> datetime | None:
        self.visits.append((self.clock.monotonic(), key))
        await self.clock.sleep(1)
        delay = self._answer(key, len(self.visits))
        return None if delay is None else self.clock.now() + delay


def visits(
    happenings: list[tuple[float, str]], *, workers: int = 4, answer: Answer = lambda _key, _count: None
) -> list[tuple[float, str]]:
    """Adds each key at its time and tells which visits began when, within a thousand seconds."""

    async def main() -> list[tuple[float, str]]:
        diary = Diary(answer)
        running = asyncio.create_task(diary.agenda.run(diary.visit, workers=workers))
        for at, key in happenings:
            await diary.clock.sleep(at - diary.clock.monotonic())
            diary.agenda.add(key)
        await diary.clock.sleep(1000)
        running.cancel()
        return diary.visits

    return run_virtual(main())


def test_keys_are_visited_in_the_order_they_were_added() -> None:
    assert visits([(0, "a"), (0, "b"), (0, "c")], workers=1) == [(0, "a"), (1, "b"), (2, "c")]


def test_workers_visit_different_keys_side_by_side() -> None:
    assert visits([(0, "a"), (0, "b"), (0, "c")], workers=2) == [(0, "a"), (0, "b"), (1, "c")]


def test_a_key_added_twice_before_its_visit_is_visited_once() -> None:
    assert visits([(0, "a"), (0, "b"), (0, "b")], workers=1) == [(0, "a"), (1, "b")]


def test_a_key_added_during_its_visit_is_visited_once_more_after_it() -> None:
    assert visits([(0, "a"), (0.5, "a"), (0.7, "a")]) == [(0, "a"), (1, "a")]


def test_a_visit_may_ask_for_the_next_at_an_exact_instant() -> None:
    later = timedelta(seconds=10.5)
    assert visits([(0, "a")], answer=lambda _key, count: later if count == 1 else None) == [(0, "a"), (11.5, "a")]


def test_an_earlier_instant_that_comes_later_is_kept_too() -> None:
    delays = {"slow": timedelta(seconds=100), "quick": timedelta(seconds=5)}
    seen = visits([(0, "slow"), (10, "quick")], answer=lambda key, count: delays[key] if count <= 2 else None)
    assert seen == [(0, "slow"), (10, "quick"), (16, "quick"), (101, "slow")]


def test_a_new_visit_replaces_the_instant_that_was_asked_for_before() -> None:
    later = timedelta(seconds=10)
    seen = visits([(0, "a"), (5, "a")], answer=lambda _key, count: later if count <= 2 else None)
    assert seen == [(0, "a"), (5, "a"), (16, "a")]


def test_a_visit_that_asks_for_nothing_takes_the_instant_away() -> None:
    later = timedelta(seconds=10)
    assert visits([(0, "a"), (5, "a")], answer=lambda _key, count: later if count == 1 else None) == [
        (0, "a"),
        (5, "a"),
    ]

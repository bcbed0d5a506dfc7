"""Keys to visit: each once, the earliest wake-up wins, never the same key twice at once."""

import asyncio
from collections.abc import Coroutine
from datetime import datetime, timedelta
from typing import Any

from grove.api.types.meta import Uid
from grove.clock import LoopClock, MachineClock
from grove.controller.workqueue import LONGEST_WAIT, SPARE_WAKES, WorkQueue
from grove.sim.virtual_clock import run_virtual
from tests.dsl import NOW, at

A, B, C = Uid("a"), Uid("b"), Uid("c")


def run(story: Coroutine[Any, Any, None]) -> None:
    run_virtual(story)


async def take(queue: WorkQueue, clock: LoopClock) -> tuple[Uid, datetime]:
    key = await queue.take()
    return key, clock.now()


def test_a_key_that_is_added_often_is_visited_once() -> None:
    async def story() -> None:
        queue = WorkQueue(LoopClock(NOW))
        for key in (A, B, A, C, B, A):
            queue.add(key)
        assert [await queue.take() for _ in range(3)] == [A, B, C]
        assert not queue.is_quiet
        for key in (A, B, C):
            queue.done(key)
        assert queue.is_quiet

    run(story())


def test_a_key_is_never_visited_twice_at_once_and_once_more_after_the_visit() -> None:
    async def story() -> None:
        queue = WorkQueue(LoopClock(NOW))
        queue.add(A)
        assert await queue.take() == A
        queue.add(A)
        queue.add(A)
        other = asyncio.create_task(queue.take())
        await asyncio.wait([other], timeout=5)
        assert not other.done()
        queue.done(A)
        assert await other == A
        queue.done(A)
        assert queue.is_quiet

    run(story())


def test_a_visit_without_news_is_the_last() -> None:
    async def story() -> None:
        queue = WorkQueue(LoopClock(NOW))
        queue.add(A)
        await queue.take()
        queue.done(A)
        assert (queue.is_quiet, queue.next_wake) == (True, None)

    run(story())


def test_a_key_wakes_up_at_its_instant_and_not_before() -> None:
    async def story() -> None:
        clock = LoopClock(NOW)
        queue = WorkQueue(clock)
        queue.requeue_at(A, at(30))
        queue.requeue_at(B, at(10))
        assert queue.next_wake == at(10)
        assert await take(queue, clock) == (B, at(10))
        assert await take(queue, clock) == (A, at(30))
        assert queue.next_wake is None

    run(story())


def test_a_wake_up_in_the_past_is_due_now() -> None:
    async def story() -> None:
        clock = LoopClock(NOW)
        queue = WorkQueue(clock)
        queue.requeue_at(A, at(-5))
        assert await take(queue, clock) == (A, NOW)

    run(story())


def test_the_last_wake_up_given_is_the_one_that_counts() -> None:
    async def story() -> None:
        clock = LoopClock(NOW)
        queue = WorkQueue(clock)
        queue.requeue_at(A, at(10))
        queue.requeue_at(A, at(20))
        assert await take(queue, clock) == (A, at(20))
        queue.done(A)
        queue.requeue_at(A, at(90))
        queue.requeue_at(A, at(30))
        assert await take(queue, clock) == (A, at(30))
        queue.done(A)
        queue.requeue_at(A, at(50))
        queue.requeue_at(A, None)
        queue.requeue_at(B, at(60))
        assert await take(queue, clock) == (B, at(60))

    run(story())


def test_an_event_beats_a_wake_up() -> None:
    async def story() -> None:
        clock = LoopClock(NOW)
        queue = WorkQueue(clock)
        queue.requeue_at(A, at(100))
        waiting = asyncio.create_task(take(queue, clock))
        await clock.sleep(7)
        queue.add(A)
        assert await waiting == (A, at(7))

    run(story())


def test_a_wake_up_that_comes_during_a_visit_leads_to_one_more() -> None:
    async def story() -> None:
        clock = LoopClock(NOW)
        queue = WorkQueue(clock)
        queue.add(A)
        await queue.take()
        queue.requeue_at(A, at(5))
        other = asyncio.create_task(queue.take())
        await clock.sleep(10)
        assert not other.done()
        queue.done(A)
        assert await other == A

    run(story())


def test_many_workers_share_the_keys() -> None:
    async def story() -> None:
        queue = WorkQueue(LoopClock(NOW))
        workers = [asyncio.create_task(queue.take()) for _ in range(3)]
        await asyncio.wait(workers, timeout=1)
        for key in (A, B, C):
            queue.add(key)
        assert sorted([await worker for worker in workers]) == [A, B, C]

    run(story())


def test_replaced_wake_ups_do_not_pile_up() -> None:
    async def story() -> None:
        clock = LoopClock(NOW)
        queue = WorkQueue(clock)
        for step in range(10 * SPARE_WAKES):
            queue.requeue_at(A, at(1000) + timedelta(seconds=step))
            queue.requeue_at(B, at(500))
        assert len(queue._wakes) <= SPARE_WAKES + 4
        assert await take(queue, clock) == (B, at(500))
        assert await take(queue, clock) == (A, at(1000 + 10 * SPARE_WAKES - 1))

    run(story())


def test_it_tells_how_many_wait_and_how_long_the_first_has_waited() -> None:
    async def story() -> None:
        clock = LoopClock(NOW)
        queue = WorkQueue(clock)
        assert (queue.depth, queue.oldest_seconds) == (0, 0.0)
        queue.add(A)
        await clock.sleep(3)
        queue.add(B)
        queue.add(A)
        await clock.sleep(4)
        assert (queue.depth, queue.oldest_seconds) == (2, 7.0)
        assert await queue.take() == A
        assert (queue.depth, queue.oldest_seconds) == (1, 4.0)
        queue.add(A)
        queue.done(A)
        assert queue.depth == 2

    run(story())


def test_a_key_whose_time_came_while_the_machine_slept_is_visited_soon_after() -> None:
    async def story() -> None:
        inner, slept = LoopClock(NOW), timedelta(0)
        clock = MachineClock(lambda: inner.now() + slept)
        queue = WorkQueue(clock)
        queue.requeue_at(A, at(4 * 3600))
        visit = asyncio.create_task(queue.take())
        await inner.sleep(30)
        slept = timedelta(hours=8)
        assert await visit == A
        assert inner.now() - NOW <= LONGEST_WAIT

    run(story())

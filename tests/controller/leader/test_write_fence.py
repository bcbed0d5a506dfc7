"""The end of a term: no write leaves after it, whatever is said later."""

import asyncio
from datetime import timedelta

import pytest

from grove.clock import LoopClock, MachineClock
from grove.controller.leader.write_fence import Fence, FencedTransport
from grove.kube.api_errors import ConnectionLost
from grove.kube.transport import Request, Response
from grove.sim.virtual_clock import run_virtual
from tests.dsl import NOW
from tests.kube.scripted import ScriptedTransport, Silence

WRITE = Request(method="POST", path="/api/v1/pods")
READ = Request(method="GET", path="/api/v1/pods")
OK = Response(status=200)


def test_writes_leave_until_the_time_is_over_and_reads_after_it_too() -> None:
    async def main() -> None:
        clock = LoopClock(NOW)
        fence = Fence(clock, until=10)
        transport = FencedTransport(ScriptedTransport([OK] * 3), fence)
        await clock.sleep(9.999)
        assert await transport.send(WRITE) == OK
        await fence.over()
        assert clock.monotonic() == 10
        with pytest.raises(ConnectionLost, match="the term is over"):
            await transport.send(WRITE)
        assert await transport.send(READ) == OK

    run_virtual(main())


def test_a_write_that_waits_for_its_connection_may_leave_only_while_the_term_lasts() -> None:
    async def main() -> None:
        clock = LoopClock(NOW)
        fence = Fence(clock, until=10)
        inner = ScriptedTransport([OK])
        await FencedTransport(inner, fence).send(WRITE)
        (waiting,) = inner.requests
        assert waiting.may_send is not None
        await clock.sleep(9.999)
        assert waiting.may_send()
        await fence.over()
        assert not waiting.may_send()

    run_virtual(main())


def test_a_term_may_be_extended_while_it_lasts_and_never_resumed() -> None:
    async def main() -> None:
        clock = LoopClock(NOW)
        fence = Fence(clock, until=10)
        await clock.sleep(5)
        fence.extend(20)
        over = asyncio.create_task(fence.over())
        await clock.sleep(10)
        assert (fence.is_open, over.done()) == (True, False)
        await over
        fence.extend(100)
        assert not fence.is_open

    run_virtual(main())


def test_a_term_is_over_when_its_machine_slept_through_the_end_of_it() -> None:
    async def main() -> None:
        running, slept = LoopClock(NOW), timedelta(0)
        fence = Fence(MachineClock(lambda: running.now() + slept), until=10)
        slept = timedelta(seconds=9)
        assert fence.is_open
        slept = timedelta(hours=8)
        assert not fence.is_open
        fence.extend(1000)
        assert not fence.is_open

    run_virtual(main())


def test_a_closed_fence_stays_closed() -> None:
    async def main() -> None:
        fence = Fence(LoopClock(NOW))
        assert fence.is_open
        fence.close()
        fence.extend(1000)
        assert not fence.is_open

    run_virtual(main())


def test_it_is_calm_when_the_last_write_was_answered() -> None:
    async def main() -> None:
        clock = LoopClock(NOW)
        fence = Fence(clock)
        transport = FencedTransport(ScriptedTransport([Silence(3), OK, Silence(4), OK]), fence)
        await fence.calm()
        writes = [asyncio.create_task(transport.send(WRITE)) for _ in range(2)]
        await clock.sleep(0)
        fence.close()
        await fence.calm()
        assert all(write.done() for write in writes)

    run_virtual(main())

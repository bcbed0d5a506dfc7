"""A fixed limit of writes, for those who ask for one."""

import asyncio

import pytest

from grove.clock import LoopClock
from grove.controller.rate_limit import RateLimitedTransport
from grove.kube.transport import Request, Response
from grove.sim.virtual_clock import run_virtual
from tests.dsl import NOW
from tests.kube.scripted import ScriptedTransport

OK = Response(status=200)


async def times(clock: LoopClock, transport: RateLimitedTransport, method: str, count: int) -> list[float]:
    async def send() -> float:
        await transport.send(Request(method=method, path="/api/v1/pods"))
        return clock.monotonic()

    return list(await asyncio.gather(*(send() for _ in range(count))))


@pytest.mark.parametrize(("burst", "expected"), [(1, [0, 0.1, 0.2, 0.3]), (3, [0, 0, 0, 0.1]), (0, [0, 0.1, 0.2, 0.3])])
def test_after_the_burst_writes_leave_at_the_given_rate(burst: int, expected: list[float]) -> None:
    async def main() -> None:
        clock = LoopClock(NOW)
        await clock.sleep(100)
        transport = RateLimitedTransport(ScriptedTransport([OK] * 8), clock, per_second=10, burst=burst)
        for _ in range(2):
            started_at = clock.monotonic()
            sent = await times(clock, transport, "POST", 4)
            assert [at - started_at for at in sent] == pytest.approx(expected)
            # A pause fills the burst again, and not more than that.
            await clock.sleep(1000)

    run_virtual(main())


def test_reads_do_not_wait() -> None:
    async def main() -> None:
        clock = LoopClock(NOW)
        transport = RateLimitedTransport(ScriptedTransport([OK] * 50), clock, per_second=1, burst=1)
        assert await times(clock, transport, "GET", 50) == [0] * 50

    run_virtual(main())

"""Hostile bytes on real sockets: whole requests are answered, broken ones do no harm, and nobody is left behind."""

import asyncio
import ssl
from random import Random

from structlog.processors import format_exc_info
from structlog.testing import capture_logs

from grove.cluster.in_process_transport import InProcessTransport
from tests.cluster.served_http import HttpClient, over_http
from tests.fuzz.counts import ALL, BY_DOCUMENT, BY_MACHINE, IN_PROCESS, ON_SOCKETS
from tests.fuzz.rounds import error_message, moody, populate
from tests.fuzz.verdicts import shown_by, wrong_with_state
from tests.fuzz.wire import Writer, attempt

_AT_ONCE = 60


def test_the_runs_add_up_to_ten_thousand() -> None:
    assert IN_PROCESS + ON_SOCKETS + BY_MACHINE + BY_DOCUMENT >= ALL


def test_every_request_on_a_socket_is_answered_and_nobody_is_left_behind() -> None:
    over_http(_story)


async def _story(http: HttpClient) -> None:
    # Never those that a stored configuration names: they may be anywhere.
    http.server.enable_webhooks(moody(Random(7)))
    failures: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(str(context)))
    transport = InProcessTransport(http.server, http.server.clock)
    await populate(transport)
    before = await shown_by(transport)
    trusted = ssl.create_default_context(cadata=http.api.ca.decode())
    with capture_logs(processors=[format_exc_info]) as log:
        for first in range(0, ON_SOCKETS, _AT_ONCE):
            wires = [Writer(Random(seed), http.api.port).draw() for seed in range(first, first + _AT_ONCE)]
            problems = await asyncio.gather(*(attempt(http, wire, trusted) for wire in wires))
            assert [(p, w.data[:2000]) for p, w in zip(problems, wires, strict=True) if p] == []
    assert error_message(log) == ""
    assert failures == []
    assert await wrong_with_state(transport, before) == []
    await _until_alone(http)


async def _until_alone(http: HttpClient) -> None:
    """Nobody serves a connection that is gone. Bounded by turns of the loop, not by time."""
    for _ in range(2_000):
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        if not others and not http.api.stream_count:
            return
        await http.server.clock.sleep(0.005)
    raise AssertionError(f"{http.api.stream_count} streams and {others} are left")

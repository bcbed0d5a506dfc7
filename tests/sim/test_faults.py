"""A faulty connection: delays, errors, lost answers, broken watches, refusals and crashes, all from a seed."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from random import Random

import msgspec
import pytest

from grove.clock import LoopClock
from grove.kube.api_errors import ApiError, ConnectionLost
from grove.kube.request_info import RequestSummary, summarize
from grove.kube.transport import Request, Response
from grove.sim.faults import CALM, FaultPlan, FaultyTransport
from grove.sim.virtual_clock import run_virtual

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
PODS = "/api/v1/namespaces/default/pods"


class Echo:
    """A server that does everything it is asked and remembers when; its watch says a line per second."""

    def __init__(self, clock: LoopClock) -> None:
        self.done: list[tuple[float, str]] = []
        self._clock = clock

    async def send(self, request: Request) -> Response:
        self.done.append((self._clock.monotonic(), f"{request.method} {request.path}"))
        return Response(status=200, body=b"{}")

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        yield self._lines()

    async def _lines(self) -> AsyncIterator[bytes]:
        for number in range(5):
            yield f"line {number}".encode()
            await self._clock.sleep(1)


class Connection(msgspec.Struct):
    clock: LoopClock
    server: Echo
    transport: FaultyTransport


def connect(plan: FaultPlan, seed: int = 1) -> Connection:
    clock = LoopClock(EPOCH)
    server = Echo(clock)
    return Connection(clock=clock, server=server, transport=FaultyTransport(server, clock, Random(seed), plan))


def post(name: str = "") -> Request:
    return Request(method="POST", path=PODS + (f"/{name}" if name else ""))


def patch(name: str = "a") -> Request:
    return Request(method="PATCH", path=f"{PODS}/{name}")


def watch() -> Request:
    return Request(method="GET", path="/api/v1/pods", query={"watch": "true"})


def run(story: Callable[[Connection], Awaitable[None]], plan: FaultPlan = CALM, seed: int = 1) -> None:
    async def main() -> None:
        await story(connect(plan, seed))

    run_virtual(main())


def test_a_calm_connection_changes_nothing_and_remembers_the_writes() -> None:
    async def story(connection: Connection) -> None:
        for request in (post(), patch("a"), Request(method="GET", path=PODS)):
            assert (await connection.transport.send(request)).status == 200
        assert connection.server.done == [(0.0, f"POST {PODS}"), (0.0, f"PATCH {PODS}/a"), (0.0, f"GET {PODS}")]
        assert connection.transport.write_counts() == {("create", "pods"): 1, ("patch", "pods"): 1}

    run(story)


def test_delays_reorder_requests_differently_for_each_seed_and_equally_for_equal_seeds() -> None:
    def order(seed: int) -> list[str]:
        async def main() -> list[str]:
            connection = connect(FaultPlan(latency=(0.0, 1.0)), seed)
            async with asyncio.TaskGroup() as group:
                for number in range(8):
                    group.create_task(connection.transport.send(patch(f"pod-{number}")))
            return [what for _, what in connection.server.done]

        return run_virtual(main())

    orders = [order(seed) for seed in range(5)]
    assert orders == [order(seed) for seed in range(5)]
    assert len({tuple(o) for o in orders}) == 5


def test_a_server_error_means_that_nothing_was_done() -> None:
    async def story(connection: Connection) -> None:
        codes = [(await connection.transport.send(post())).status for _ in range(50)]
        assert sorted(set(codes)) == [429, 500, 503]
        assert connection.server.done == []

    run(story, FaultPlan(server_error=1.0))


def test_too_many_requests_says_when_to_come_back() -> None:
    async def story(connection: Connection) -> None:
        answers = [await connection.transport.send(post()) for _ in range(50)]
        limited = next(answer for answer in answers if answer.status == 429)
        assert limited.headers == {"Retry-After": "1"}
        assert msgspec.json.decode(limited.body)["details"] == {"retryAfterSeconds": 1}

    run(story, FaultPlan(server_error=1.0))


def test_conflicts_meet_patches_but_never_creates() -> None:
    async def story(connection: Connection) -> None:
        assert (await connection.transport.send(patch())).status == 409
        assert (await connection.transport.send(post())).status == 200
        assert connection.server.done == [(0.0, f"POST {PODS}")]

    run(story, FaultPlan(conflict=1.0))


@pytest.mark.parametrize(
    ("plan", "done"),
    [
        pytest.param(FaultPlan(lost_request=1.0), [], id="the request was lost: not done"),
        pytest.param(FaultPlan(lost_answer=1.0), [(0.0, f"POST {PODS}")], id="the answer was lost: done"),
    ],
)
def test_a_lost_connection_leaves_the_caller_in_the_dark(plan: FaultPlan, done: list[tuple[float, str]]) -> None:
    async def story(connection: Connection) -> None:
        with pytest.raises(ConnectionLost):
            await connection.transport.send(post())
        assert connection.server.done == done

    run(story, plan)


def test_creates_beyond_the_rate_wait_for_their_turn_and_nothing_else_does() -> None:
    async def story(connection: Connection) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(4):
                group.create_task(connection.transport.send(post()))
            group.create_task(connection.transport.send(patch()))
        assert [(at, what.split()[0]) for at, what in connection.server.done] == [
            (0.0, "POST"), (0.0, "PATCH"), (0.5, "POST"), (1.0, "POST"), (1.5, "POST"),
        ]  # fmt: skip

    run(story, FaultPlan(creates_per_second=2.0))


def test_a_refusal_lasts_until_it_is_lifted() -> None:
    async def story(connection: Connection) -> None:
        transport = connection.transport
        forbidden = ApiError(403, "Forbidden", "exceeded quota")
        refusal = transport.refuse(lambda request: request.method == "POST", forbidden)
        assert (await transport.send(post())).status == 403
        assert (await transport.send(patch())).status == 200
        transport.lift(refusal)
        assert (await transport.send(post())).status == 200

    run(story)


async def read_watch(connection: Connection) -> list[tuple[float, bytes]]:
    async with connection.transport.stream(watch()) as lines:
        return [(round(connection.clock.monotonic(), 3), line) async for line in lines]


def test_slow_lines_are_late_but_their_delays_do_not_add_up() -> None:
    async def story(connection: Connection) -> None:
        assert await read_watch(connection) == [(n + 2.0, f"line {n}".encode()) for n in range(5)]

    run(story, FaultPlan(watch_latency=(2.0, 2.0)))


@pytest.mark.parametrize("seed", range(5))
def test_slow_lines_never_overtake_each_other(seed: int) -> None:
    async def story(connection: Connection) -> None:
        assert [line for _, line in await read_watch(connection)] == [f"line {n}".encode() for n in range(5)]

    run(story, FaultPlan(watch_latency=(0.0, 9.0)), seed)


def test_a_cut_watch_ends_after_a_line() -> None:
    async def story(connection: Connection) -> None:
        assert await read_watch(connection) == [(0.0, b"line 0")]

    run(story, FaultPlan(cut_watch=1.0))


def test_a_watch_may_be_too_old() -> None:
    async def story(connection: Connection) -> None:
        with pytest.raises(ApiError, match="410 Expired"):
            await read_watch(connection)

    run(story, FaultPlan(gone=1.0))


def test_a_frozen_watch_says_nothing_until_it_thaws_while_requests_go_through() -> None:
    async def story(connection: Connection) -> None:
        transport = connection.transport
        transport.freeze_watch("pods")
        reader = asyncio.create_task(read_watch(connection))
        await connection.clock.sleep(100)
        assert (await transport.send(Request(method="GET", path="/api/v1/pods"))).status == 200
        transport.thaw_watch("pods")
        assert await reader == [(100.0, f"line {n}".encode()) for n in range(5)]

    run(story)


@pytest.mark.parametrize(("number", "before", "after"), [(1, 0, 1), (2, 1, 2), (3, 2, 3)])
def test_a_crash_before_a_write_leaves_it_undone_and_a_crash_after_it_done(
    number: int, before: int, after: int
) -> None:
    async def write_until_crash(connection: Connection) -> int:
        async def program() -> None:
            while True:
                await connection.transport.send(post())
                await connection.transport.send(Request(method="GET", path=PODS))

        task = asyncio.create_task(program())
        await connection.transport.crashed.wait()
        await connection.clock.sleep(3600)
        assert not task.done()
        return sum(what.startswith("POST") for _, what in connection.server.done)

    async def main() -> list[int]:
        dies_before, dies_after = connect(FaultPlan()), connect(FaultPlan())
        dies_before.transport.crash_before_write(number)
        dies_after.transport.crash_after_write(number)
        return [await write_until_crash(dies_before), await write_until_crash(dies_after)]

    assert run_virtual(main()) == [before, after]


def test_a_dead_program_hears_no_more_of_its_watches() -> None:
    async def story(connection: Connection) -> None:
        heard: list[bytes] = []

        async def listen() -> None:
            async with connection.transport.stream(watch()) as lines:
                async for line in lines:
                    heard.append(line)

        task = asyncio.create_task(listen())
        await connection.clock.sleep(1.5)
        connection.transport.crash()
        await connection.clock.sleep(100)
        assert not task.done()
        assert heard == [b"line 0", b"line 1"]

    run(story)


@pytest.mark.parametrize(
    ("method", "path", "target"),
    [
        ("POST", "/api/v1/namespaces/d/pods", RequestSummary(verb="create", resource="pods", namespace="d")),
        ("POST", "/api/v1/namespaces/d/pods/a/binding",
         RequestSummary(verb="create", resource="pods/binding", namespace="d", name="a")),
        ("PATCH", "/apis/grove.io/v1alpha1/namespaces/d/podcliques/a/status",
         RequestSummary(verb="patch", resource="podcliques/status", namespace="d", name="a")),
        ("DELETE", "/apis/grove.io/v1alpha1/namespaces/d/podcliques",
         RequestSummary(verb="deletecollection", resource="podcliques", namespace="d")),
        ("DELETE", "/api/v1/nodes/n", RequestSummary(verb="delete", resource="nodes", name="n")),
        ("DELETE", "/api/v1/namespaces/d", RequestSummary(verb="delete", resource="namespaces", name="d")),
        ("PUT", "/api/v1/nodes/n", RequestSummary(verb="update", resource="nodes", name="n")),
    ],
)  # fmt: skip
def test_a_request_says_what_it_wants_and_of_whom(method: str, path: str, target: RequestSummary) -> None:
    assert summarize(Request(method=method, path=path)) == target

"""The whole client on real sockets: following a kind through every break, and writing as fast as a server can take."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from random import Random
from typing import TypeVar

import msgspec
import pytest
from aiohttp import web

from grove.api.resources import PODS
from grove.api.types.meta import JsonObject
from grove.api.types.pod import Pod
from grove.kube import reflector, write_limiter
from grove.kube.api_errors import ApiError
from grove.kube.client import Client
from grove.kube.http_transport import HttpTransport
from grove.kube.kubeconfig import Access
from grove.kube.reflector import BackOff, ListAll, Reflector, State, WatchFrom
from grove.kube.store import Store
from grove.kube.write_limiter import WriteLimiter
from tests.kube.loopback import SetClock, connected, http_server
from tests.kube.scripted import bookmark, error_line, line, pod_json, refusal

T = TypeVar("T")


def ask(
    answer: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
    question: Callable[[HttpTransport], Awaitable[T]],
) -> T:
    async def main() -> T:
        async with AsyncExitStack() as stack:
            url = await stack.enter_async_context(http_server(answer))
            return await question(await stack.enter_async_context(connected(Access(server=url, source="test"))))

    return asyncio.run(main())


# --- following -------------------------------------------------------------------------------------------------------


class Kind:
    """A server of one kind: each list and watch is answered by the next line of a script."""

    def __init__(self, *script: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]) -> None:
        self._script = iter(script)
        self.asked: list[str] = []

    async def answer(self, http: web.BaseRequest) -> web.StreamResponse:
        query = http.query
        self.asked.append(f"watch {query['resourceVersion']}" if "watch" in query else f"list {query.get('continue')}")
        return await next(self._script)(http)


def listing(*items: JsonObject, version: int, more: str = "") -> Callable[[web.BaseRequest], Awaitable[web.Response]]:
    async def answer(_: web.BaseRequest) -> web.Response:
        metadata = {"resourceVersion": str(version), "continue": more}
        return web.json_response({"kind": "PodList", "metadata": metadata, "items": list(items)})

    return answer


def refusing(code: int, reason: str) -> Callable[[web.BaseRequest], Awaitable[web.Response]]:
    async def answer(_: web.BaseRequest) -> web.Response:
        said = refusal(code, reason)
        return web.Response(status=code, body=said.body, headers={"Retry-After": "0"})

    return answer


def telling(*parts: bytes, is_cut: bool = False) -> Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]:
    async def answer(http: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        await response.prepare(http)
        for part in parts:
            await response.write(part)
        if is_cut:
            assert http.transport is not None
            # What was written arrives, and then nothing: not even the end of the body.
            http.transport.close()
            raise ConnectionResetError
        return response

    return answer


def follow(kind: Kind, until: Callable[[Store[Pod]], bool]) -> list[str]:
    """The names that are known in the end."""

    async def question(transport: HttpTransport) -> list[str]:
        clock = SetClock()
        store = Store[Pod]()
        reflector = Reflector(Client(transport, clock), PODS, store, clock, Random(0))
        state: State = ListAll()
        while not until(store):
            state = await reflector.step(state)
        return names(store)

    return ask(kind.answer, question)


def names(store: Store[Pod]) -> list[str]:
    return sorted(pod.metadata.name for pod in store.values())


def test_a_kind_is_followed_through_cuts_and_forgotten_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflector, "FIRST_DELAY_SECONDS", 0.001)
    added, half = line("ADDED", pod_json("b", 6)) + b"\n", line("ADDED", pod_json("c", 7))[:20]
    kind = Kind(
        refusing(429, "TooManyRequests"),
        listing(pod_json("a", 3), version=5, more="token"),
        refusing(410, "Expired"),
        listing(pod_json("a", 3), version=5),
        telling(added, half, is_cut=True),
        # After a watch that ended early the server is asked how far it is: it may have been restored.
        listing(version=6),
        telling(line("ADDED", pod_json("c", 7)) + b"\n", bookmark(20) + b"\n"),
        listing(version=20),
        telling(error_line(410, "Expired") + b"\n"),
        listing(pod_json("c", 7), pod_json("d", 30), version=31),
    )
    assert follow(kind, lambda store: "d" in names(store)) == ["c", "d"]
    assert kind.asked == [
        "list None", "list None", "list token", "list None",
        "watch 5", "list None", "watch 6", "list None", "watch 20", "list None",
    ]  # fmt: skip


@pytest.mark.parametrize("is_watch", [False, True], ids=["list", "watch"])
def test_a_server_that_asks_for_time_is_given_it(is_watch: bool) -> None:
    async def busy(_: web.BaseRequest) -> web.Response:
        return web.Response(status=429, text="Too many requests, please try again later.", headers={"Retry-After": "9"})

    async def question(transport: HttpTransport) -> State:
        clock = SetClock()
        reflector = Reflector(Client(transport, clock), PODS, Store[Pod](), clock, Random(0))
        return await reflector.step(WatchFrom(resource_version="5") if is_watch else ListAll())

    state = ask(busy, question)
    assert isinstance(state, BackOff)
    assert state.seconds == 9.0


# --- writing ---------------------------------------------------------------------------------------------------------


class Busy:
    """A server that can take only so many writes at once, and says so."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.refusal = 429
        self.in_flight = 0
        self.busiest = 0
        self.refused_count = 0
        self.names: list[str] = []

    async def answer(self, http: web.BaseRequest) -> web.StreamResponse:
        body = msgspec.json.decode(await http.read())
        self.in_flight += 1
        self.busiest = max(self.busiest, self.in_flight)
        try:
            is_welcome = self.in_flight <= self.capacity
            await SetClock().sleep(0.01)
        finally:
            self.in_flight -= 1
        if not is_welcome:
            self.refused_count += 1
            said = refusal(self.refusal, "Busy")
            return web.Response(status=said.status, body=said.body, headers={"Retry-After": "0"})
        self.names.append(body["metadata"]["name"])
        return web.json_response(pod_json(body["metadata"]["name"], 1), status=201)


async def create_until_done(client: Client, name: str) -> None:
    while True:
        with suppress(ApiError):
            await client.create(PODS, "default", {"metadata": {"name": name}})
            return


async def create_all(client: Client, names: list[str]) -> None:
    async with asyncio.TaskGroup() as group:
        for name in names:
            group.create_task(create_until_done(client, name))


@pytest.mark.parametrize("refusal_code", [429, 503])
def test_writes_slow_down_to_what_a_server_can_take_and_speed_up_again(
    monkeypatch: pytest.MonkeyPatch, refusal_code: int
) -> None:
    # A tenth of the usual, for a test of a second.
    monkeypatch.setattr(write_limiter, "_SECONDS_BETWEEN_CUTS", 0.1)
    # A busy machine is no busy server.
    monkeypatch.setattr(write_limiter, "SLOW_ANSWER_SECONDS", 60.0)

    async def question(transport: HttpTransport) -> None:
        clock = SetClock()
        limiter = WriteLimiter(clock)
        client = Client(transport, clock, limiter)
        await create_all(client, [f"calm-{n}" for n in range(2000)])
        assert limiter.limit == 64
        server.capacity, server.refusal = 8, refusal_code
        await create_all(client, [f"busy-{n}" for n in range(400)])
        assert limiter.limit < 24
        # One that does not adapt would meet 56 in each of 50 rounds. The fastest machine has ten rounds between cuts:
        # 56 at once, 240 with 32 on their way, 80 with 16, and a few whenever the limit has grown again.
        assert 0 < server.refused_count < 50 * 56 / 4
        server.capacity = 1000
        await create_all(client, [f"again-{n}" for n in range(2500)])
        assert limiter.limit == 64

    server = Busy(1000)
    ask(server.answer, question)
    assert len(server.names) == len({*server.names}) == 4900
    assert 32 < server.busiest <= 64


def test_a_late_set_is_served_beside_a_crowd() -> None:
    server = Busy(1000)

    async def question(transport: HttpTransport) -> None:
        clock = SetClock()
        client = Client(transport, clock, WriteLimiter(clock, start=4, lowest=4, highest=4))
        async with asyncio.TaskGroup() as group:
            crowd = group.create_task(create_all(client.with_flow("crowd"), [f"crowd-{n}" for n in range(200)]))
            while len(server.names) < 20:
                await clock.sleep(0.001)
            await create_all(client.with_flow("late"), [f"late-{n}" for n in range(10)])
            assert not crowd.done()

    ask(server.answer, question)
    last = max(index for index, name in enumerate(server.names) if name.startswith("late"))
    # Every second one is the late set's, after those that were on their way.
    assert last < 20 + 4 + 2 * 10 + 4 * 2

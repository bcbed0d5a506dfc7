"""Probes: who is ready, and in which words the others are told why not."""

import asyncio
import socket
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from random import Random

import msgspec
import pytest
from structlog.testing import capture_logs

from grove.api import labels
from grove.api.resources import PODGANGS
from grove.api.types.meta import JsonObject
from grove.clock import Clock
from grove.controller.manager import Controller
from grove.controller.observability.health import Health, advice
from grove.controller.observability.http_endpoints import Endpoint, Pages, Query
from grove.controller.observability.instrumentation import InstrumentedTransport, RequestAttributes
from grove.errors import UserError
from grove.kube.api_errors import ApiError
from grove.kube.client import Client
from grove.kube.request_info import plural_of
from grove.kube.transport import Request, Response, Transport
from grove.sim.simulation import SimulatedOperator, World
from grove.sim.virtual_clock import run_virtual


class Watched:
    """A world whose operator's health is known."""

    def __init__(self) -> None:
        self.health = Health()
        self.health.leader = lambda: "this process"
        self.world = World(operator=self._operator)

    def _operator(self, _: Client, clock: Clock, random: Random) -> SimulatedOperator:
        client = Client(InstrumentedTransport(self.world.operator, self.health), clock)
        self.health.controller = Controller(client, clock, random)
        return self.health.controller

    async def ready(self) -> tuple[int, list[str]]:
        page = await self.health.pages()["/readyz"]({})
        return page.status, page.body.decode().splitlines()


def test_a_leader_is_ready_when_every_kind_was_listed() -> None:
    async def main() -> None:
        watched = Watched()
        async with watched.world as world:
            await world.clock.sleep(1)
            assert await watched.ready() == (200, ["ok", "leader: this process"])

    run_virtual(main())


def test_an_event_loop_that_is_late_is_told_until_it_keeps_its_pace() -> None:
    async def main() -> None:
        watched = Watched()
        async with watched.world as world:
            await world.clock.sleep(1)
            watched.health.lag_seconds = lambda: 0.9
            assert await watched.ready() == (200, ["ok", "leader: this process"])
            watched.health.lag_seconds = lambda: 3.21
            late = "event loop: 3.2 s late in the last minute; give the operator more CPU"
            assert await watched.ready() == (200, ["ok", "leader: this process", late])

    run_virtual(main())


class OddGangs:
    """Implements `Transport`. A server whose lists show gangs in another form than the operator knows."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner

    async def send(self, request: Request) -> Response:
        answer = await self._inner.send(request)
        if plural_of(request) != "podgangs" or request.is_write:
            return answer
        return msgspec.structs.replace(answer, body=answer.body.replace(b'"podgroups":[]', b'"podgroups":7'))

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._inner.stream(request)


def test_objects_that_cannot_be_read_are_named_until_they_are_gone() -> None:
    async def main() -> None:
        health = Health()

        def operator(_: Client, clock: Clock, random: Random) -> SimulatedOperator:
            health.controller = Controller(Client(OddGangs(world.operator), clock), clock, random)
            return health.controller

        world = World(operator=operator)
        async with world:
            for name in "abcdefg":
                await world.client.create(PODGANGS, "default", odd_gang(name))
            await world.restart_controller()
            await world.clock.sleep(1)
            page = await health.pages()["/readyz"]({})
            assert page.status == 200
            names = ", ".join(f"default/{name}" for name in "abcde")
            why = "cannot be read: a field has another type than the operator knows"
            assert f"podgangs: {names} and 2 more {why}\n" in page.body.decode()
            for name in "abcdefg":
                await world.delete(PODGANGS, name)
            await world.clock.sleep(1)
            page = await health.pages()["/readyz"]({})
            assert "cannot be read" not in page.body.decode()

    run_virtual(main())


def odd_gang(name: str) -> JsonObject:
    metadata = {"name": name, "labels": labels.default_labels("x")}
    return {
        "apiVersion": PODGANGS.api_version,
        "kind": PODGANGS.kind,
        "metadata": metadata,
        "spec": {"podgroups": []},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (ApiError(404, "NotFound", "the server could not find the requested resource"), "; install the Custom"),
        (ApiError(403, "Forbidden", "podgangs is forbidden"), "; the operator's role does not allow it"),
        (
            ApiError(401, "Unauthorized", "Unauthorized"),
            "; the server does not accept the operator's credentials",
        ),
        (ApiError(503, "ServiceUnavailable", "etcd is away"), ""),
    ],
)
def test_a_kind_that_cannot_be_listed_is_named_and_said_once(error: ApiError, advice: str) -> None:
    async def main() -> None:
        watched = Watched()
        async with watched.world as world:
            refusal = world.operator.refuse(lambda request: plural_of(request) == "podgangs", error)
            await world.clock.sleep(500)
            status, lines = await watched.ready()
            assert (status, lines[0]) == (503, "not ready: waiting for podgangs")
            (line,) = [line for line in lines if line.startswith("podgangs: ")]
            assert line.startswith(f"podgangs: {error}{advice}")
            world.operator.lift(refusal)
            await world.clock.sleep(60)
            assert await watched.ready() == (200, ["ok", "leader: this process"])

    with capture_logs() as logged:
        run_virtual(main())
    assert [(line["event"], line["log_level"]) for line in logged] == [
        ("cannot list podgangs", "error"),
        ("can list podgangs again", "info"),
    ]
    assert (logged[0]["code"], logged[0]["reason"]) == (error.code, error.reason)


def test_a_kind_that_can_be_listed_but_not_watched_is_said_once() -> None:
    """A role that is too small by one verb: every attempt to watch begins with a list, which goes well."""
    health = Health()
    forbidden = ApiError(403, "Forbidden", "podgangs is forbidden")

    async def lines() -> list[str]:
        return (await health.pages()["/readyz"]({})).body.decode().splitlines()

    with capture_logs() as logged:
        for _ in range(3):
            health.on_list_watch(RequestAttributes("list", "podgangs"), None)
            health.on_list_watch(RequestAttributes("watch", "podgangs"), forbidden)
            assert run_virtual(lines())[2:] == [f"podgangs: {forbidden}; {advice(forbidden)}"]
        health.on_list_watch(RequestAttributes("list", "podgangs"), None)
        health.on_list_watch(RequestAttributes("watch", "podgangs"), None)
    assert run_virtual(lines())[2:] == []
    assert [line["event"] for line in logged] == ["cannot watch podgangs", "can watch podgangs again"]


@pytest.mark.parametrize("code", [403, 404])
def test_what_a_server_does_not_offer_is_no_trouble(code: int) -> None:
    """A real one has no check of a gang scheduler, and mostly no native gangs: nobody has to install anything."""

    async def main() -> None:
        watched = Watched()
        async with watched.world as world:
            world.operator.refuse(
                lambda request: not plural_of(request), ApiError(code, "Refused", "no such page for you")
            )
            await world.clock.sleep(60)
            assert await watched.ready() == (200, ["ok", "leader: this process"])

    with capture_logs() as logged:
        run_virtual(main())
    assert logged == []


def test_a_server_that_asks_for_patience_has_not_got_over_its_trouble() -> None:
    async def main() -> None:
        watched = Watched()
        async with watched.world as world:
            missing = world.operator.refuse(lambda request: plural_of(request) == "podgangs", ApiError(404, "", "no"))
            await world.clock.sleep(10)
            world.operator.lift(missing)
            world.operator.refuse(
                lambda request: plural_of(request) == "podgangs", ApiError(429, "TooManyRequests", "storage is new", 1)
            )
            await world.clock.sleep(60)
            status, lines = await watched.ready()
            assert (status, lines[0]) == (503, "not ready: waiting for podgangs")
            assert lines[2].startswith("podgangs: 404")

    with capture_logs() as logged:
        run_virtual(main())
    assert [line["event"] for line in logged] == ["cannot list podgangs"]


def test_trouble_after_the_first_list_is_told_and_takes_nobodys_webhooks_away() -> None:
    async def main() -> None:
        watched = Watched()
        async with watched.world as world:
            await world.clock.sleep(1)
            watched.health.on_list_watch(RequestAttributes("list", "pods"), ApiError(503, "Unavailable", "away"))
            status, lines = await watched.ready()
            assert (status, lines) == (200, ["ok", "leader: this process", "pods: 503 Unavailable: away"])

    run_virtual(main())


def test_a_standby_is_ready_when_its_webhooks_are() -> None:
    async def main() -> None:
        health = Health()
        health.leader = lambda: "the-other"
        is_ready = False
        health.webhooks_ready = lambda: is_ready
        page = await health.pages()["/readyz"]({})
        assert (page.status, page.body) == (
            503,
            b"not ready: the webhooks have no certificate yet\nleader: the-other\n",
        )
        is_ready = True
        page = await health.pages()["/readyz"]({})
        assert (page.status, page.body) == (200, b"ok\nleader: the-other\n")

    run_virtual(main())


def test_when_a_term_is_over_its_troubles_are_forgotten() -> None:
    async def main() -> None:
        watched = Watched()
        async with watched.world as world:
            world.operator.refuse(lambda _: True, ApiError(403, "Forbidden", "no"))
            await world.clock.sleep(10)
            assert (await watched.ready())[0] == 503
            watched.health.forget()
            assert await watched.ready() == (200, ["ok", "leader: this process"])

    run_virtual(main())


# --- over HTTP -------------------------------------------------------------------------------------------------------


async def hello(query: Query) -> Endpoint:
    return Endpoint(body=f"hello {query['name']}".encode(), status=201)


def ask(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_pages_are_served_on_a_free_port_and_nothing_else_is() -> None:
    async def main() -> None:
        async with Pages({"/hello": hello}, "127.0.0.1", 0, "key") as pages:
            loop = asyncio.get_running_loop()
            assert pages.url.startswith("http://127.0.0.1:")
            assert await loop.run_in_executor(None, ask, f"{pages.url}/hello?name=you") == (201, "hello you")
            assert (await loop.run_in_executor(None, ask, f"{pages.url}/secret"))[0] == 404

    asyncio.run(main())


def test_a_port_that_is_taken_names_the_key_to_change() -> None:
    async def main(port: int) -> None:
        async with Pages({}, "127.0.0.1", port, "server.metrics.port"):
            raise AssertionError("it cannot be had")

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(UserError, match=r"choose another server\.metrics\.port"):
            asyncio.run(main(taken.getsockname()[1]))


def test_an_address_that_is_not_of_this_machine_is_not_called_a_port() -> None:
    async def main() -> None:
        # Of those that stand for no machine.
        async with Pages({}, "192.0.2.1", 0, "server.metrics.port"):
            raise AssertionError("it cannot be had")

    with pytest.raises(UserError, match=r"192\.0\.2\.1.*correct the address that belongs to server\.metrics\.port"):
        asyncio.run(main())

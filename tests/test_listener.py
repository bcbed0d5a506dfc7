"""A listening socket stands clients that say nothing, half of something, or come in crowds."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from aiohttp import web

from grove.clock import LoopClock
from grove.cluster.http.loopback_certificates import make_certificates
from grove.listener import ConnectionLimits, HttpListener

HOST = "127.0.0.1"
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
LIMITS = ConnectionLimits(
    connections=4, idle_seconds=60.0, handshake_seconds=60.0, header_seconds=60.0, shutdown_seconds=0.1
)
SOON = 0.1
# Longer than any deadline of these tests.
PATIENCE = 20.0


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def ask(self) -> int:
        """Send a request, and return the status of the answer."""
        await self.send(GET)
        return await self.status()

    async def status(self) -> int:
        async with asyncio.timeout(PATIENCE):
            head = await self._reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].split()[0])
            await self._reader.readexactly(length)
        return int(head.split()[1])

    async def is_cut(self) -> bool:
        """Wait until the server closes the connection."""
        async with asyncio.timeout(PATIENCE):
            try:
                return await self._reader.read(1) == b""
            except (ConnectionResetError, BrokenPipeError):
                return True

    async def close(self) -> None:
        self._writer.close()


class RunningServer:
    """A listener; requests wait while `gate` is closed."""

    def __init__(self, limits: ConnectionLimits, tls: ssl.SSLContext | None) -> None:
        self.listener = HttpListener(self._answer, limits, tls=tls)
        self.gate = asyncio.Event()
        self.gate.set()
        self.waiting = 0
        self._clients: list[Client] = []

    async def _answer(self, _: web.BaseRequest) -> web.StreamResponse:
        self.waiting += 1
        await self.gate.wait()
        self.waiting -= 1
        return web.Response(text="ok")

    async def connect(self, **options: Any) -> Client:
        _, port = self.listener.addresses[0]
        client = Client(*await asyncio.open_connection(HOST, port, **options))
        self._clients.append(client)
        return client

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not holds():
                await LoopClock.starting_now().sleep(0.005)

    async def close(self) -> None:
        self.gate.set()
        for client in self._clients:
            await client.close()
        await self.listener.stop()


@asynccontextmanager
async def running_server(
    limits: ConnectionLimits = LIMITS, tls: ssl.SSLContext | None = None
) -> AsyncIterator[RunningServer]:
    one = RunningServer(limits, tls)
    await one.listener.start(HOST, 0)
    try:
        yield one
    finally:
        await one.close()


def run_story(
    story: Callable[[RunningServer], Awaitable[None]], tls: ssl.SSLContext | None = None, **changes: Any
) -> None:
    async def tell() -> None:
        async with running_server(msgspec.structs.replace(LIMITS, **changes), tls) as one:
            await story(one)

    asyncio.run(tell())


# --- time ------------------------------------------------------------------------------------------------------------


def test_a_client_that_sends_nothing_is_cut() -> None:
    async def story(one: RunningServer) -> None:
        client = await one.connect()
        assert await client.is_cut()
        assert one.listener.connection_count == 0

    run_story(story, header_seconds=SOON)


def test_a_client_that_sends_its_headers_letter_by_letter_is_cut() -> None:
    async def story(one: RunningServer) -> None:
        client = await one.connect()
        clock = LoopClock.starting_now()
        for letter in GET[:-4]:
            try:
                await client.send(bytes((letter,)))
            except ConnectionError:
                break
            await clock.sleep(SOON / 2)
        assert await client.is_cut()

    run_story(story, header_seconds=SOON)


def test_the_second_request_of_a_connection_has_no_more_time_for_its_headers_than_the_first() -> None:
    async def story(one: RunningServer) -> None:
        client = await one.connect()
        assert await client.ask() == 200
        await client.send(GET[:10])
        assert await client.is_cut()

    run_story(story, header_seconds=SOON)


def test_an_idle_connection_is_closed_after_a_while_and_not_before() -> None:
    async def story(one: RunningServer) -> None:
        client = await one.connect()
        assert await client.ask() == 200
        assert await client.ask() == 200
        assert await client.is_cut()

    run_story(story, idle_seconds=SOON)


def test_a_long_request_is_not_cut() -> None:
    async def story(one: RunningServer) -> None:
        client = await one.connect()
        one.gate.clear()
        await client.send(GET)
        await LoopClock.starting_now().sleep(6 * SOON)
        one.gate.set()
        assert await client.status() == 200

    run_story(story, idle_seconds=SOON, header_seconds=SOON)


def test_a_handshake_that_does_not_come_to_an_end_is_cut() -> None:
    async def story(one: RunningServer) -> None:
        silent, talking = await one.connect(), await one.connect()
        await talking.send(b"\x16\x03\x01")
        assert await silent.is_cut()
        assert await talking.is_cut()
        await one.until(lambda: one.listener.connection_count == 0)

    run_story(story, _context(), handshake_seconds=SOON)


def test_what_is_no_handshake_is_cut_at_once() -> None:
    async def story(one: RunningServer) -> None:
        client = await one.connect()
        await client.send(GET)
        assert await client.is_cut()

    run_story(story, _context())


# --- places ----------------------------------------------------------------------------------------------------------


def test_a_new_client_takes_the_place_of_the_connection_that_was_idle_longest() -> None:
    async def story(one: RunningServer) -> None:
        first, second = await one.connect(), await one.connect()
        silent = [await one.connect() for _ in range(2)]
        assert [await second.ask(), await first.ask()] == [200, 200]
        newcomer = await one.connect()
        assert await newcomer.ask() == 200
        assert await second.is_cut()
        assert await first.ask() == 200
        assert [await client.ask() for client in silent] == [200, 200]

    run_story(story)


def test_without_idle_connections_it_takes_the_place_of_the_one_that_never_asked_anything() -> None:
    async def story(one: RunningServer) -> None:
        silent = [await one.connect() for _ in range(4)]
        await one.until(lambda: one.listener.connection_count == 4)
        newcomer = await one.connect()
        assert await newcomer.ask() == 200
        assert await silent[0].is_cut()
        assert [await client.ask() for client in silent[1:]] == [200, 200, 200]

    run_story(story)


def test_a_client_with_a_real_handshake_gets_through_a_crowd_that_never_completes_theirs() -> None:
    async def story(one: RunningServer) -> None:
        for _ in range(40):
            await one.connect()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        client = await one.connect(ssl=context)
        assert await client.ask() == 200
        assert one.listener.connection_count <= 4

    run_story(story, _context())


def test_a_request_under_way_is_never_cut_and_who_finds_no_place_is_told_to_come_back() -> None:
    async def story(one: RunningServer) -> None:
        one.gate.clear()
        busy = [await one.connect() for _ in range(4)]
        for client in busy:
            await client.send(GET)
        await one.until(lambda: one.waiting == 4)
        turned_away = await one.connect()
        assert await turned_away.status() == 503
        assert await turned_away.is_cut()
        one.gate.set()
        assert [await client.status() for client in busy] == [200, 200, 200, 200]
        newcomer = await one.connect()
        assert await newcomer.ask() == 200

    run_story(story)


def test_a_place_is_free_again_when_its_client_leaves() -> None:
    async def story(one: RunningServer) -> None:
        for _ in range(3 * 4):
            client = await one.connect()
            assert await client.ask() == 200
            await client.close()
            await one.until(lambda: one.listener.connection_count == 0)

    run_story(story)


@pytest.mark.parametrize("header", [b"X: " + b"x" * 9000, b"\r\n".join(b"X-%d: x" % i for i in range(200))])
def test_headers_that_are_too_long_or_too_many_are_a_bad_request(header: bytes) -> None:
    async def story(one: RunningServer) -> None:
        client = await one.connect()
        await client.send(b"GET / HTTP/1.1\r\n" + header + b"\r\n\r\n")
        assert await client.status() == 400

    run_story(story)


def test_a_stop_answers_what_is_under_way_and_ends_the_rest() -> None:
    async def story(one: RunningServer) -> None:
        one.gate.clear()
        silent, busy = await one.connect(), await one.connect()
        await busy.send(GET)
        await one.until(lambda: one.waiting == 1)
        stopping = asyncio.create_task(one.listener.stop())
        one.gate.set()
        assert await busy.status() == 200
        assert await silent.is_cut()
        await stopping
        assert one.listener.connection_count == 0

    run_story(story, shutdown_seconds=PATIENCE)


def _context() -> ssl.SSLContext:
    async def make() -> ssl.SSLContext:
        return make_certificates(LoopClock.starting_now().now()).server_context()

    return asyncio.run(make())

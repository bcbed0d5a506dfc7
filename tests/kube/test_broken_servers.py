"""Servers at their worst, byte by byte: slow, silent, lying, gone in the middle. Never a hang, never a write twice."""

import asyncio
import gzip
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import TypeVar

import pytest

from grove.api.resources import PODS
from grove.kube import client, http_transport
from grove.kube.api_errors import ConnectionLost
from grove.kube.client import Client
from grove.kube.http_transport import HttpTransport
from grove.kube.kubeconfig import Access
from grove.kube.transport import Request
from tests.bent_time import run_without_stillness
from tests.kube.loopback import (
    DELETE,
    GET,
    POST,
    WATCH,
    SetClock,
    Talk,
    connected,
    lines_of,
    ok_bytes,
    raw_server,
    read_request,
)

T = TypeVar("T")

PATCH = Request(method="PATCH", path="/api/v1/x", body=b"{}")
LOG = Request(method="GET", path="/api/v1/x/log", query={"follow": "true"})

CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(content: bytes) -> bytes:
    return f"{len(content):x}\r\n".encode() + content + b"\r\n"


def ask(talk: Talk, question: Callable[[HttpTransport], Awaitable[T]], *, scheme: str = "http") -> T:
    async def main() -> T:
        async with AsyncExitStack() as stack:
            url = await stack.enter_async_context(raw_server(talk))
            access = Access(server=url.replace("http", scheme), source="test", token="hidden", is_insecure=True)
            return await question(await stack.enter_async_context(connected(access)))

    return run_without_stillness(main())


def saying(*parts: bytes, then_silent: bool = False) -> Talk:
    """Reads a request, says this, and hangs up or falls silent."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        for part in parts:
            writer.write(part)
            await writer.drain()
        if then_silent:
            await reader.read()

    return talk


async def dripping(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A header that goes on for ever, a byte at a time."""
    await read_request(reader)
    writer.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
    while True:
        writer.write(b"x")
        await SetClock().sleep(0.02)


async def dripping_body(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await read_request(reader)
    writer.write(CHUNKED)
    while True:
        writer.write(chunk(b"x"))
        await SetClock().sleep(0.02)


async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Accepts, and does not even read."""
    await asyncio.get_running_loop().create_future()


# --- no answer, or not in time ---------------------------------------------------------------------------------------

NEVER = {
    "accepts and never reads": deaf,
    "reads and never answers": saying(then_silent=True),
    "half a status line": saying(b"HTTP/1.1 20", then_silent=True),
    "half a header": saying(b"HTTP/1.1 200 OK\r\nContent-Le", then_silent=True),
    "a header without end": dripping,
}


# aiohttp would have us send a long body in pieces.
@pytest.mark.filterwarnings("ignore:Sending a large body")
@pytest.mark.parametrize("talk", NEVER.values(), ids=NEVER)
@pytest.mark.parametrize(
    "question",
    [
        pytest.param(lambda transport: transport.send(GET), id="read"),
        pytest.param(lambda transport: transport.send(POST), id="write"),
        pytest.param(
            lambda transport: transport.send(Request(method="POST", path="/", body=b"x" * 30_000_000)), id="long write"
        ),
        pytest.param(lines_of, id="watch"),
        pytest.param(lambda transport: lines_of(transport, LOG), id="log"),
    ],
)
def test_a_server_that_never_answers_is_given_up(
    monkeypatch: pytest.MonkeyPatch, talk: Talk, question: Callable[[HttpTransport], Awaitable[object]]
) -> None:
    monkeypatch.setattr(http_transport, "ANSWER_SECONDS", 0.3)
    with pytest.raises(ConnectionLost, match="no response in time") as caught:
        ask(talk, question)
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize(
    "talk",
    [
        pytest.param(dripping_body, id="without end"),
        pytest.param(saying(CHUNKED, b"5\r\nab", then_silent=True), id="half a chunk"),
        pytest.param(saying(ok_bytes(b"{}")[:-1], then_silent=True), id="one byte missing"),
    ],
)
def test_a_body_that_does_not_end_is_given_up(monkeypatch: pytest.MonkeyPatch, talk: Talk) -> None:
    monkeypatch.setattr(http_transport, "ANSWER_SECONDS", 0.3)
    with pytest.raises(ConnectionLost, match="GET http://127"):
        ask(talk, lambda transport: transport.send(GET))


def test_a_handshake_that_does_not_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_transport, "CONNECT_SECONDS", 0.3)
    with pytest.raises(ConnectionLost, match="Connection timeout"):
        ask(deaf, lambda transport: transport.send(GET), scheme="https")


def test_a_refused_watch_whose_reason_does_not_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_transport, "ANSWER_SECONDS", 0.3)
    talk = saying(CHUNKED.replace(b"200 OK", b"403 Forbidden"), then_silent=True)
    with pytest.raises(ConnectionLost, match="no response in time"):
        ask(talk, lines_of)


def test_a_list_whose_pages_never_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "LIST_SECONDS", 0.3)
    page = ok_bytes(b'{"metadata":{"resourceVersion":"1","continue":"more"},"items":[]}')

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await read_request(reader)
            writer.write(page)

    with pytest.raises(ConnectionLost, match=r"the list was not complete after 0\.3 s"):
        ask(talk, lambda transport: Client(transport, SetClock()).list(PODS))


# --- silence ---------------------------------------------------------------------------------------------------------


def test_a_watch_that_falls_silent_is_a_lost_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    # More than a busy machine takes to say the first lines.
    monkeypatch.setattr(http_transport, "WATCH_SILENCE_SECONDS", 3.0)
    seen: list[bytes] = []

    async def question(transport: HttpTransport) -> None:
        async with transport.stream(WATCH) as lines:
            async for line in lines:
                seen.append(line)

    with pytest.raises(ConnectionLost, match="Timeout on reading data"):
        ask(saying(CHUNKED, chunk(b"a\nb\nhal"), then_silent=True), question)
    assert seen == [b"a", b"b"]


def test_bookmarks_keep_a_watch_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    silence = 4.0
    monkeypatch.setattr(http_transport, "WATCH_SILENCE_SECONDS", silence)
    said_at = 0.0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal said_at
        await read_request(reader)
        writer.write(CHUNKED)
        for _ in range(25):
            writer.write(chunk(b"bookmark\n"))
            said_at = SetClock().monotonic()
            await SetClock().sleep(0.2)
        writer.write(chunk(b""))

    async def question(transport: HttpTransport) -> list[bytes]:
        try:
            return await lines_of(transport)
        except ConnectionLost:
            # A machine that stood still for so long was silent itself: ask once more.
            if SetClock().monotonic() - said_at < silence:
                raise
            return await question(transport)

    assert ask(talk, question) == [b"bookmark"] * 25


def test_a_log_may_be_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_transport, "WATCH_SILENCE_SECONDS", 0.05)
    monkeypatch.setattr(http_transport, "ANSWER_SECONDS", 3.0)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(CHUNKED + chunk(b"first\n"))
        await SetClock().sleep(3.5)
        writer.write(chunk(b"last") + chunk(b""))

    assert ask(talk, lambda transport: lines_of(transport, LOG)) == [b"first", b"last"]


def test_an_error_of_whoever_reads_a_stream_stays_what_it_is() -> None:
    async def question(transport: HttpTransport) -> None:
        async with transport.stream(WATCH) as lines:
            async for _ in lines:
                raise BrokenPipeError("our own reader has gone")

    with pytest.raises(BrokenPipeError):
        ask(saying(CHUNKED, chunk(b"a\n"), then_silent=True), question)


def gzipped(body: bytes) -> bytes:
    return ok_bytes(body).replace(b"Content-Type", b"Content-Encoding: gzip\r\nContent-Type")


# --- lies ------------------------------------------------------------------------------------------------------------

LIES = {
    "hangs up at once": saying(),
    "half a header": saying(b"HTTP/1.1 200 OK\r\nContent-"),
    "another protocol": saying(b"SSH-2.0-OpenSSH_9.9\r\n"),
    "binary": saying(bytes(range(256)) * 4),
    "a short body": saying(ok_bytes(b'{"a": 1}')[:-3]),
    "half a chunk": saying(CHUNKED, b"20\r\n{"),
    "no last chunk": saying(CHUNKED, chunk(b"{}")),
    "a chunk of nonsense": saying(CHUNKED, b"xyz\r\n{}\r\n"),
    "two lengths": saying(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}"),
    "a negative length": saying(b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n{}"),
    "a header of a megabyte": saying(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 1_000_000 + b"\r\n\r\n"),
    "broken compression": saying(gzipped(b"not compressed at all")),
}


@pytest.mark.parametrize("talk", LIES.values(), ids=LIES)
@pytest.mark.parametrize("request_", [GET, POST, DELETE], ids=lambda request: request.method)
def test_an_answer_that_is_broken_is_no_answer(talk: Talk, request_: Request) -> None:
    with pytest.raises(ConnectionLost) as caught:
        ask(talk, lambda transport: transport.send(request_))
    assert str(caught.value).startswith(f"0 ConnectionLost: {request_.method} http://127.0.0.1:")
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize("talk", LIES.values(), ids=LIES)
def test_a_watch_that_is_broken_is_a_lost_connection(talk: Talk) -> None:
    with pytest.raises(ConnectionLost):
        ask(talk, lines_of)


def test_half_of_a_compressed_object_is_no_object() -> None:
    pod = b'{"metadata":{"name":"a","resourceVersion":"1"},"spec":{"x":"' + b"x" * 1000 + b'"}}'

    async def question(transport: HttpTransport) -> object:
        return await Client(transport, SetClock()).get(PODS, "default", "a")

    assert ask(saying(gzipped(gzip.compress(pod))), question)
    with pytest.raises(ConnectionLost, match="the response cannot be decoded"):
        ask(saying(gzipped(gzip.compress(pod)[:40])), question)


def test_a_watch_that_is_cut_within_a_line_tells_the_lines_before() -> None:
    seen: list[bytes] = []

    async def question(transport: HttpTransport) -> None:
        async with transport.stream(WATCH) as lines:
            async for line in lines:
                seen.append(line)

    with pytest.raises(ConnectionLost):
        ask(saying(CHUNKED, chunk(b'{"a":1}\n{"b":')), question)
    assert seen == [b'{"a":1}']


def test_a_second_answer_that_nobody_asked_for_is_not_taken_for_the_next_one() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            request = await read_request(reader)
            is_first = request.startswith(b"GET")
            writer.write(ok_bytes(b'"asked"') + (ok_bytes(b'"unasked"') if is_first else b""))

    async def question(transport: HttpTransport) -> list[bytes]:
        return [(await transport.send(request)).body for request in (GET, POST, GET, POST)]

    assert ask(talk, question) == [b'"asked"'] * 4


# --- kept connections that end at the worst moment -------------------------------------------------------------------


class HangsUp:
    """Answers the first request of a connection, reads the second one, and closes without a word."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._hear(reader)
        writer.write(ok_bytes())
        await self._hear(reader)

    async def _hear(self, reader: asyncio.StreamReader) -> None:
        self.heard.append((await read_request(reader)).split(b" ")[0].decode())


@pytest.mark.parametrize("request_", [POST, PATCH, DELETE], ids=lambda request: request.method)
def test_a_write_on_a_connection_that_ends_is_not_repeated(request_: Request) -> None:
    server = HangsUp()

    async def question(transport: HttpTransport) -> None:
        await transport.send(GET)
        await transport.send(request_)

    with pytest.raises(ConnectionLost, match=f"{request_.method} http://127"):
        ask(server.talk, question)
    assert server.heard == ["GET", request_.method]


def test_a_read_on_a_connection_that_ends_is_asked_once_more() -> None:
    server = HangsUp()

    async def question(transport: HttpTransport) -> list[int]:
        return [(await transport.send(GET)).status for _ in range(3)]

    assert ask(server.talk, question) == [200] * 3
    # On a new connection, which answers once more.
    assert server.heard == ["GET"] * 5


def test_a_read_is_not_repeated_for_ever() -> None:
    heard: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        heard.append(await read_request(reader))

    with pytest.raises(ConnectionLost):
        ask(talk, lambda transport: transport.send(GET))
    assert len(heard) == 2


def test_a_connection_that_the_server_closed_in_peace_is_not_used_again() -> None:
    closed = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(ok_bytes())
        await writer.drain()
        writer.close()
        await writer.wait_closed()
        closed.set()

    async def question(transport: HttpTransport) -> list[int]:
        found = []
        for _ in range(5):
            found.append((await transport.send(POST)).status)
            await closed.wait()
            closed.clear()
            # One more turn of the loop that both sides live in: the end is read there.
            await SetClock().sleep(0.01)
        return found

    assert ask(talk, question) == [200] * 5


def test_a_server_that_closes_after_every_answer_is_lived_with() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(ok_bytes().replace(b"\r\n", b"\r\nConnection: close\r\n", 1))

    async def question(transport: HttpTransport) -> list[int]:
        return [r.status for r in await asyncio.gather(*(transport.send(POST) for _ in range(20)))]

    assert ask(talk, question) == [200] * 20

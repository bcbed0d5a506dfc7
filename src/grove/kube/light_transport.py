"""A transport for short commands: simple reads without aiohttp, whose import takes longer than the reads.

`grove status` takes about 245 ms of CPU time with it and 495 ms with `HttpTransport` (the least of 20 runs each).

It handles only a GET with the response 200, and a watch. For anything else (an error, a redirect, a broken response) it
repeats the read with `HttpTransport`, so that a command behaves the same with both. Writes, proxies and credential
plugins use `HttpTransport` directly.

A program that retries by itself and must stay small (`grove wait`) sets `stays_light`: then an error response is
returned and a broken connection raises, without `HttpTransport` and its 10 MB.
"""

import asyncio
import zlib
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from string import hexdigits
from types import TracebackType
from typing import TYPE_CHECKING, Self
from urllib.parse import SplitResult, quote, urlencode, urlsplit

from grove.clock import Clock
from grove.kube.api_errors import ConnectionLost
from grove.kube.credentials import ClientIdentity, credentials_of
from grove.kube.kubeconfig import Access
from grove.kube.response_decoding import check
from grove.kube.transport import READ_HEADERS, WATCH_SILENCE_SECONDS, Request, Response, user_agent

if TYPE_CHECKING:
    from grove.kube.http_transport import HttpTransport

CONNECTIONS = 16
CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 60.0
# Delay before the next address of a name is tried (happy eyeballs).
NEXT_ADDRESS_SECONDS = 0.25
LONGEST_LINES = 1 << 16


class NotPlain(Exception):
    """The response was not a simple 200: repeat the read with `HttpTransport`."""


class LightTransport:
    """A small `Transport`. `async with LightTransport(access, clock) as transport:`; connections are kept alive."""

    def __init__(self, access: Access, clock: Clock, *, stays_light: bool = False) -> None:
        self._access = access
        self._clock = clock
        self._stays_light = stays_light
        self._credentials = credentials_of(access, clock)
        self._url = urlsplit(access.server)
        is_clean = quote(access.server, safe="/:%[]") == access.server
        self._is_direct = is_clean and not access.proxy_url and access.plugin is None
        self._slots = asyncio.Semaphore(CONNECTIONS)
        self._idle: list[_Wire] = []
        # The full transport, once it is needed.
        self._complete: HttpTransport | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for wire in self._idle:
            await wire.close()
        if self._complete is not None:
            await self._complete.close()

    @property
    def is_light(self) -> bool:
        """Return whether no request needed `HttpTransport` so far."""
        return self._complete is None

    async def send(self, request: Request) -> Response:
        if self._stays_light and self._is_plain(request):
            return await self._read_with_renewal(request)
        if self._complete is None and self._is_plain(request):
            with suppress(NotPlain):
                return await self._read(request)
        return await self._complete_transport().send(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        if self._complete is None and self._is_plain(request) and "watch" in request.query:
            return self._watch(request)
        return self._complete_transport().stream(request)

    @asynccontextmanager
    async def _watch(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a watch on a connection of its own. Anything but a plain start is left to `HttpTransport`."""
        name = self._name(request)
        try:
            wire = await self._open_watch(request, name)
        except NotPlain as error:
            if self._stays_light:
                raise _connection_lost(name, error) from error
            async with self._complete_transport().stream(request) as lines:
                yield lines
            return
        try:
            yield _watch_lines(wire, name)
        finally:
            wire.abort()

    async def _open_watch(self, request: Request, name: str) -> "_Wire":
        """Return a connection on which the events follow. Raises `NotPlain`, `ConnectionLost`."""
        identity = await self._credentials.current()
        wire = await self._connect(identity, name)
        is_open = False
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                wire.write(_head(request, self._url, identity.token, is_compressed=False))
                status, headers = _parse(await wire.read_until(b"\r\n\r\n"))
                if self._stays_light and _is_error(status):
                    check(request, await _read_response(wire, status, headers))
            is_json = "json" in headers.get("content-type", "")
            is_chunked = headers.get("transfer-encoding", "").lower() == "chunked"
            is_open = status == "HTTP/1.1 200" and is_json and is_chunked and "content-encoding" not in headers
        except TimeoutError as error:
            raise ConnectionLost(f"{name}: no response in time") from error
        except (OSError, EOFError, ValueError) as error:
            raise NotPlain from error
        finally:
            if not is_open:
                wire.abort()
        if not is_open:
            raise NotPlain
        return wire

    def _complete_transport(self) -> "HttpTransport":
        if self._complete is None:
            from grove.kube.http_transport import HttpTransport

            self._complete = HttpTransport(self._access, self._clock)
        return self._complete

    def _is_plain(self, request: Request) -> bool:
        is_clean = quote(request.path, safe="/:") == request.path
        return self._is_direct and is_clean and request.method == "GET" and not request.body

    async def _read_with_renewal(self, request: Request) -> Response:
        """Return the response, whatever its status. Credentials that the server rejects are read again."""
        identity = await self._credentials.current()
        try:
            response = await self._read(request)
            if response.status == 401 and await self._credentials.renew(identity):
                response = await self._read(request)
        except NotPlain as error:
            raise _connection_lost(self._name(request), error) from error
        return response

    def _name(self, request: Request) -> str:
        return f"{request.method} {self._access.server}{request.path}"

    async def _read(self, request: Request) -> Response:
        identity = await self._credentials.current()
        name = self._name(request)
        head = _head(request, self._url, identity.token)
        async with self._slots:
            wire = self._take_idle() or await self._connect(identity, name)
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    response = await _exchange(wire, head, takes_errors=self._stays_light)
            except TimeoutError as error:
                # No retry: it would take as long again.
                raise ConnectionLost(f"{name}: no response in time") from error
            except (OSError, EOFError, ValueError, zlib.error) as error:
                raise NotPlain from error
        if wire.is_clean:
            self._idle.append(wire)
        return response

    def _take_idle(self) -> "_Wire | None":
        while self._idle:
            wire = self._idle.pop()
            if wire.is_clean:
                return wire
            wire.abort()
        return None

    async def _connect(self, identity: ClientIdentity, name: str) -> "_Wire":
        is_tls = self._url.scheme == "https"
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                _, wire = await asyncio.get_running_loop().create_connection(
                    _Wire,
                    self._url.hostname or "",
                    self._url.port or (443 if is_tls else 80),
                    happy_eyeballs_delay=NEXT_ADDRESS_SECONDS,
                    ssl=identity.tls if is_tls else None,
                    server_hostname=(self._access.tls_server_name or self._url.hostname) if is_tls else None,
                )
        except TimeoutError as error:
            raise ConnectionLost(f"{name}: Connection timeout to host {self._access.server}") from error
        except (OSError, ValueError) as error:
            raise NotPlain from error
        return wire


def _head(request: Request, url: SplitResult, token: str, *, is_compressed: bool = True) -> bytes:
    query = urlencode(request.query, quote_via=quote)
    lines = [
        f"GET {url.path}{request.path}{'?' if query else ''}{query} HTTP/1.1",
        f"Host: {url.netloc}",
        f"Accept: {request.accept or 'application/json'}",
        *(["Accept-Encoding: gzip"] if is_compressed else []),
        f"User-Agent: {user_agent()}",
        *([f"Authorization: Bearer {token}"] if token else []),
    ]
    return "\r\n".join([*lines, "", ""]).encode("ascii")


# --- one connection --------------------------------------------------------------------------------------------------


class _Wire(asyncio.Protocol):
    """A connection and the received bytes. A caller that stops in the middle of a response must `abort`."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._has_data = asyncio.Event()
        self._closed = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._has_data.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed.set()
        self._has_data.set()

    @property
    def is_clean(self) -> bool:
        """Return whether another request may be sent: the connection is open and has no unexpected bytes."""
        return self._transport is not None and not self._transport.is_closing() and not self._buffer

    def write(self, data: bytes) -> None:
        assert self._transport is not None
        self._transport.write(data)

    async def read_until(self, mark: bytes) -> bytes:
        """Return the bytes before the mark, which is dropped."""
        while (end := self._buffer.find(mark)) < 0:
            if len(self._buffer) > LONGEST_LINES:
                raise ValueError("too long")
            await self._wait()
        return self._take(end + len(mark))[:end]

    async def read(self, size: int) -> bytes:
        while len(self._buffer) < size:
            await self._wait()
        return self._take(size)

    def _take(self, size: int) -> bytes:
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data

    async def _wait(self) -> None:
        if self._closed.is_set():
            raise EOFError
        self._has_data.clear()
        await self._has_data.wait()

    def abort(self) -> None:
        assert self._transport is not None
        # An orderly close would wait for the server.
        self._transport.abort()

    async def close(self) -> None:
        self.abort()
        await self._closed.wait()


async def _exchange(wire: _Wire, head: bytes, *, takes_errors: bool) -> Response:
    """Send the request and return the response. On any error, close the connection and raise."""
    is_kept = False
    try:
        wire.write(head)
        status, headers = _parse(await wire.read_until(b"\r\n\r\n"))
        if status != "HTTP/1.1 200" and not (takes_errors and _is_error(status)):
            raise NotPlain
        response = await _read_response(wire, status, headers)
        is_kept = headers.get("connection", "").lower() != "close"
    finally:
        if not is_kept:
            wire.abort()
    return response


async def _read_response(wire: _Wire, status: str, headers: dict[str, str]) -> Response:
    body = _unpack(await _read_body(wire, headers), headers.get("content-encoding", ""))
    shown = {name: headers[name.lower()] for name in READ_HEADERS if name.lower() in headers}
    return Response(status=int(status[-3:]), body=body, headers=shown)


def _is_error(status: str) -> bool:
    return status[:-2] in ("HTTP/1.1 4", "HTTP/1.1 5") and status[-2:].isdecimal() and status.isascii()


def _connection_lost(name: str, error: NotPlain) -> ConnectionLost:
    cause = error.__cause__
    if isinstance(cause, EOFError):
        return ConnectionLost(f"{name}: the connection broke")
    return ConnectionLost(f"{name}: {cause or 'the response is not valid'}")


async def _watch_lines(wire: _Wire, name: str) -> AsyncIterator[bytes]:
    """Yield the lines of a watch until the server ends it. Raises `ConnectionLost`."""
    rest = b""
    try:
        async for piece in _watch_pieces(wire):
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                yield line
    except TimeoutError as error:
        raise ConnectionLost(f"{name}: no response in time") from error
    except EOFError as error:
        raise ConnectionLost(f"{name}: the connection broke") from error
    except (OSError, ValueError, NotPlain) as error:
        raise ConnectionLost(f"{name}: {error or 'the response is not valid'}") from error
    if rest:
        yield rest


async def _watch_pieces(wire: _Wire) -> AsyncIterator[bytes]:
    """Yield the chunks of a body. A bookmark is due every minute, so a longer silence is a lost connection."""
    while True:
        async with asyncio.timeout(WATCH_SILENCE_SECONDS):
            size = await _read_chunk_size(wire)
            piece = await wire.read(size)
            is_complete = await wire.read(2) == b"\r\n"
        if not is_complete:
            raise NotPlain
        if not size:
            return
        yield piece


def _parse(head: bytes) -> tuple[str, dict[str, str]]:
    """Return version and status, and the headers with their names in small letters; repeated ones become lines."""
    status_line, *lines = head.decode("utf-8", "surrogateescape").split("\r\n")
    headers: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        name, value = name.lower(), value.strip()
        headers[name] = f"{headers[name]}\n{value}" if name in headers else value
    return " ".join(status_line.split(" ")[:2]), headers


async def _read_body(wire: _Wire, headers: dict[str, str]) -> bytes:
    if "transfer-encoding" not in headers:
        length = headers.get("content-length", "")
        if not (length.isascii() and length.isdecimal()):
            raise NotPlain
        return await wire.read(int(length))
    if headers["transfer-encoding"].lower() != "chunked":
        raise NotPlain
    pieces = []
    while size := await _read_chunk_size(wire):
        pieces.append(await wire.read(size))
        if await wire.read(2) != b"\r\n":
            raise NotPlain
    while await wire.read_until(b"\r\n"):
        pass
    return b"".join(pieces)


async def _read_chunk_size(wire: _Wire) -> int:
    size = (await wire.read_until(b"\r\n")).partition(b";")[0].decode("ascii").strip()
    if not size or size.strip(hexdigits):
        raise NotPlain
    return int(size, 16)


def _unpack(body: bytes, encoding: str) -> bytes:
    if not encoding:
        return body
    if encoding.lower() != "gzip":
        raise NotPlain
    unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    unpacked = unpacker.decompress(body)
    if not unpacker.eof or unpacker.unused_data:
        raise NotPlain
    return unpacked

"""A listening HTTP socket with limits on connections and on idle time.

Webhooks, the operator's endpoints and the embedded API server use it. aiohttp reads requests and writes responses. This
module decides which connections stay open, from accept on, before any TLS handshake:

* A client that does not complete its TLS handshake or its request headers in time is disconnected.
* An idle connection is closed after a while.
* At the connection limit, a new client replaces the connection that has been idle longest, or else the one that has
  waited longest without a request. A running request is never aborted: if all connections have one, the new client is
  rejected (over plain HTTP with a 503).
"""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable
from enum import Enum, auto
from typing import Any, cast

import msgspec
from aiohttp import web
from aiohttp.http_parser import RawRequestMessage
from aiohttp.web_protocol import RequestHandler

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

# aiohttp answers invalid HTTP with a 400 and logs a traceback, which is useless and would fill the log.
_WIRE = logging.getLogger("grove.listener.wire")
_WIRE.addHandler(logging.NullHandler())
_WIRE.propagate = False

_BACKLOG = 1024
# Limited, so that other tasks of the event loop run during a flood.
_ACCEPT_BATCH = 8
_ACCEPT_PAUSE_SECONDS = 1.0
_GRACE_SECONDS = 0.2
_UNAVAILABLE = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class ConnectionLimits(msgspec.Struct, frozen=True, kw_only=True):
    connections: int
    idle_seconds: float
    # From accept to the end of the TLS handshake.
    handshake_seconds: float = 10.0
    # From the first byte of a request, or from the handshake, to the end of its headers.
    header_seconds: float = 5.0
    # How long `stop` waits for running requests.
    shutdown_seconds: float = 1.0
    largest_body: int = 1024
    longest_header: int = 8190
    most_headers: int = 128


class HttpListener:
    """An HTTP server. Call `start`, then `stop`."""

    def __init__(
        self, handler: Handler, limits: ConnectionLimits, *, tls: ssl.SSLContext | None = None, **options: Any
    ) -> None:
        """Create the server. `options` are passed to `web.Server` of aiohttp."""
        self._handler = handler
        self._limits = limits
        self._tls = tls
        self._options = options
        self._sockets: list[socket.socket] = []
        # In each phase, the oldest connection first.
        self._connections: dict[_Phase, dict[_Connection, None]] = {phase: {} for phase in _Phase}
        self._by_handler: dict[RequestHandler, _Connection] = {}
        self._server: web.Server | None = None
        self._runner: web.ServerRunner | None = None

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Return host and port of every socket."""
        return [listening.getsockname()[:2] for listening in self._sockets]

    @property
    def connection_count(self) -> int:
        return sum(map(len, self._connections.values()))

    async def start(self, host: str, port: int) -> None:
        """Listen. An empty host means all interfaces, port 0 a free port. Raises `OSError`."""
        loop = asyncio.get_running_loop()
        limits = self._limits
        self._server = web.Server(
            self._serve,
            request_factory=self._make_request,
            access_log=None,
            logger=_WIRE,
            # This module closes idle connections, so aiohttp must not.
            keepalive_timeout=2 * limits.idle_seconds,
            lingering_time=limits.header_seconds,
            max_line_size=limits.longest_header,
            max_field_size=limits.longest_header,
            max_headers=limits.most_headers,
            **self._options,
        )
        self._runner = web.ServerRunner(self._server, shutdown_timeout=limits.shutdown_seconds)
        await self._runner.setup()
        self._sockets = await _bind_sockets(host, port)
        for listening in self._sockets:
            listening.listen(_BACKLOG)
            loop.add_reader(listening, self._accept_some, listening)

    async def stop(self) -> None:
        """Stop listening and wait for running requests, up to the shutdown limit."""
        loop = asyncio.get_running_loop()
        for listening in self._sockets:
            loop.remove_reader(listening)
            listening.close()
        self._sockets = []
        for connection in (*self._connections[_Phase.OPENING],):
            connection.abort()
        if self._runner is not None:
            await self._runner.cleanup()
        for connection in (*self._by_handler.values(),):
            connection.abort()

    def _accept_some(self, listening: socket.socket) -> None:
        for _ in range(_ACCEPT_BATCH):
            try:
                accepted, _address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:
                # Too many open files: the client waits in the backlog until some are closed.
                self._pause(listening)
                return
            accepted.setblocking(False)
            if self.connection_count < self._limits.connections or self._evict_connection():
                self._open(accepted)
            else:
                self._reject(accepted)

    def _pause(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(listening)

        def resume() -> None:
            if listening in self._sockets:
                loop.add_reader(listening, self._accept_some, listening)

        loop.call_later(_ACCEPT_PAUSE_SECONDS, resume)

    def _evict_connection(self) -> bool:
        for phase in (_Phase.IDLE, _Phase.OPENING):
            for connection in self._connections[phase]:
                connection.abort()
                return True
        return False

    def _reject(self, accepted: socket.socket) -> None:
        if self._tls is None:
            with contextlib.suppress(OSError):
                accepted.send(_UNAVAILABLE)
        accepted.close()

    def _open(self, accepted: socket.socket) -> None:
        assert self._server is not None
        inner = self._server()
        connection = self._by_handler[inner] = _Connection(self, inner, self._limits)
        self.move(connection, _Phase.OPENING)
        connection.opening = asyncio.get_running_loop().create_task(self._connect(connection, accepted))

    async def _connect(self, connection: "_Connection", accepted: socket.socket) -> None:
        limits = self._limits
        seconds = (
            {"ssl_handshake_timeout": limits.handshake_seconds, "ssl_shutdown_timeout": limits.shutdown_seconds}
            if self._tls is not None
            else {}
        )
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection, accepted, ssl=self._tls, **seconds
            )
        except (OSError, asyncio.CancelledError):
            self.forget(connection)
        finally:
            connection.opening = None

    async def _serve(self, http: web.BaseRequest) -> web.StreamResponse:
        connection = self._by_handler.get(http.protocol)
        if connection is None:
            # The connection timed out before its request was read: the client is gone.
            return web.Response(status=503)
        connection.begin_request()
        try:
            return await self._handler(http)
        finally:
            connection.end_request()

    def _make_request(
        self, message: RawRequestMessage, payload: Any, protocol: Any, writer: Any, task: Any
    ) -> web.BaseRequest:
        loop, largest = asyncio.get_running_loop(), self._limits.largest_body
        return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=largest)

    def move(self, connection: "_Connection", phase: "_Phase") -> None:
        """Move a connection to another phase, as its newest."""
        for connections in self._connections.values():
            connections.pop(connection, None)
        self._connections[phase][connection] = None

    def forget(self, connection: "_Connection") -> None:
        for connections in self._connections.values():
            connections.pop(connection, None)
        self._by_handler.pop(connection.inner, None)


class _Phase(Enum):
    # No request yet.
    OPENING = auto()
    BUSY = auto()
    IDLE = auto()


class _Connection(asyncio.Protocol):
    """One connection between a socket and aiohttp. It forwards everything and enforces the time limits."""

    def __init__(self, listener: HttpListener, inner: RequestHandler, limits: ConnectionLimits) -> None:
        self.inner = inner
        # Until the handshake is done.
        self.opening: asyncio.Task[None] | None = None
        self._listener = listener
        self._limits = limits
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._is_idle = False

    def abort(self) -> None:
        """Close at once. An orderly close would wait for the client."""
        self._listener.forget(self)
        self._cancel_deadline()
        if self._transport is not None:
            self._transport.abort()
        elif self.opening is not None:
            self.opening.cancel()

    def begin_request(self) -> None:
        self._cancel_deadline()
        self._is_idle = False
        self._listener.move(self, _Phase.BUSY)

    def end_request(self) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        self._listener.move(self, _Phase.IDLE)
        self._is_idle = True
        self._abort_after(self._limits.idle_seconds)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._abort_after(self._limits.header_seconds)
        self.inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self._is_idle:
            self._is_idle = False
            self._abort_after(self._limits.header_seconds)
        self.inner.data_received(data)

    def eof_received(self) -> None:
        self.inner.eof_received()

    def pause_writing(self) -> None:
        self.inner.pause_writing()

    def resume_writing(self) -> None:
        self.inner.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        self._cancel_deadline()
        self._listener.forget(self)
        self._transport = None
        self.inner.connection_lost(error)

    def _abort_after(self, seconds: float) -> None:
        self._cancel_deadline()
        self._deadline = asyncio.get_running_loop().call_later(seconds, self._expire)

    def _expire(self) -> None:
        """Abort after a short grace: after a pause of the whole process, data that arrived in time is not read yet."""
        self._deadline = asyncio.get_running_loop().call_later(_GRACE_SECONDS, self.abort)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


async def _bind_sockets(host: str, port: int) -> list[socket.socket]:
    """Return sockets bound as asyncio binds them: one for each address of the host."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(asyncio.Protocol, host or None, port, start_serving=False)
    bound = [each.dup() for each in server.sockets]
    server.close()
    for each in bound:
        each.setblocking(False)
    return bound

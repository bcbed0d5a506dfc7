"""The HTTP transport: keep-alive connections to an API server, with aiohttp.

No status is an error here (see `transport.py`). No write is repeated, with one exception: the server rejected the
credentials (401, so nothing was executed) and there are others to try. A read on a connection that the server had just
closed is sent again. `kubeconfig.py` finds the server, `credentials.py` provides the credentials.
"""

import asyncio
import base64
import re
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from io import BytesIO
from types import TracebackType
from typing import Self

import aiohttp
import msgspec
from aiohttp.abc import AbstractStreamWriter
from yarl import URL

from grove.clock import Clock
from grove.kube.api_errors import ConnectionLost
from grove.kube.credentials import ClientIdentity, credentials_of
from grove.kube.kubeconfig import Access
from grove.kube.response_decoding import check
from grove.kube.transport import READ_HEADERS, WATCH_SILENCE_SECONDS, Request, Response, user_agent

CONNECTIONS = 128
CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 60.0
# Shorter than the timeouts of servers and load balancers, so that the client usually closes first.
IDLE_SECONDS = 30.0
# A dead peer (a node without power, an expired NAT entry) is detected after about a minute.
_KEEPALIVE_IDLE_SECONDS = 30
_KEEPALIVE_INTERVAL_SECONDS = 10
_KEEPALIVE_PROBES = 3


class HttpTransport:
    """A `Transport` over HTTP. `async with HttpTransport(access, clock) as transport:`; connections are kept alive."""

    def __init__(self, access: Access, clock: Clock) -> None:
        self._access = access
        self._credentials = credentials_of(access, clock)
        self._proxy = _Proxy.of(access)
        connector = aiohttp.TCPConnector(
            limit=0, ttl_dns_cache=60, keepalive_timeout=IDLE_SECONDS, socket_factory=_keepalive_socket
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            headers={"User-Agent": user_agent()},
            cookie_jar=aiohttp.DummyCookieJar(),
            middlewares=(_send_writes_once,),
        )
        # Watches keep their connection for minutes; they must not use those of short requests.
        self._slots = asyncio.Semaphore(CONNECTIONS)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._session.close()

    async def send(self, request: Request) -> Response:
        identity = await self._credentials.current()
        response = await self._exchange(request, identity)
        if response.status == 401 and await self._credentials.renew(identity):
            response = await self._exchange(request, await self._credentials.current())
        return response

    async def _exchange(self, request: Request, identity: ClientIdentity) -> Response:
        timeout = aiohttp.ClientTimeout(total=ANSWER_SECONDS, connect=CONNECT_SECONDS)
        try:
            async with self._slots, await self._send_once(request, identity, timeout) as response:
                return Response(status=response.status, body=await response.read(), headers=_headers(response))
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._connection_lost(request, error) from error

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        identity = await self._credentials.current()
        response = await self._open(request, identity)
        try:
            if response.status == 401 and await self._credentials.renew(identity):
                response.close()
                response = await self._open(request, await self._credentials.current())
            await self._check_stream(request, response)
            yield self._lines(request, response)
        finally:
            _abort(response)

    async def _open(self, request: Request, identity: ClientIdentity) -> aiohttp.ClientResponse:
        """Open a stream. It has no total timeout, but its headers must arrive in time."""
        # A log may be silent for hours; only a watch has bookmarks.
        silence = WATCH_SILENCE_SECONDS if "watch" in request.query else None
        timeout = aiohttp.ClientTimeout(total=None, connect=CONNECT_SECONDS, sock_read=silence)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await self._send_once(request, identity, timeout)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._connection_lost(request, error) from error

    async def _check_stream(self, request: Request, response: aiohttp.ClientResponse) -> None:
        if response.status < 300 and response.content_type == "text/html":
            raise ConnectionLost(f"{self._name(request)}: the response is text/html, perhaps from a proxy")
        if response.status < 300:
            return
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                body = await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._connection_lost(request, error) from error
        check(request, Response(status=response.status, body=body, headers=_headers(response)))

    async def _lines(self, request: Request, response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        """Yield the lines of the body. They may be longer than the line limit of the reader, so they are split here."""
        rest = b""
        try:
            async for chunk in response.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n") if rest else chunk.split(b"\n")
                for line in lines:
                    yield line
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._connection_lost(request, error) from error
        if rest:
            yield rest

    async def _send_once(
        self, request: Request, identity: ClientIdentity, timeout: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        headers = {"Accept": request.accept or "application/json", **self._proxy.request_headers}
        if identity.token:
            headers["Authorization"] = f"Bearer {identity.token}"
        if request.body:
            headers["Content-Type"] = request.content_type
        return await self._session.request(
            request.method,
            URL(self._access.server + request.path, encoded=True).with_query(dict(request.query)),
            data=_body_of(request),
            headers=headers,
            timeout=timeout,
            allow_redirects=False,
            ssl=identity.tls,
            proxy=self._proxy.url,
            proxy_headers=self._proxy.tunnel_headers,
            server_hostname=self._access.tls_server_name or None,
        )

    def _connection_lost(self, request: Request, error: Exception) -> ConnectionLost:
        # Remove the TLS settings of aiohttp from the message.
        why = re.sub(r" ssl:(<[^>]*>|\w+)", "", str(error))
        return ConnectionLost(f"{self._name(request)}: {why or 'no response in time'}")

    def _name(self, request: Request) -> str:
        return f"{request.method} {self._access.server}{request.path}"


class _GuardedBody(aiohttp.BytesPayload):
    """The body of a write with a deadline: the connection may be slow, or this process may be suspended.

    A server does not execute a request whose body did not arrive.
    """

    def __init__(self, body: bytes, content_type: str, may_send: Callable[[], bool]) -> None:
        super().__init__(body, content_type=content_type)
        self._may_leave = may_send

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        if not self._may_leave():
            raise ConnectionLost("not sent: its deadline has passed")
        await super().write_with_length(writer, content_length)


# aiohttp warns about longer bodies that are written in one piece.
_LARGE_BODY = 1 << 20


def _body_of(request: Request) -> bytes | BytesIO | _GuardedBody | None:
    if request.may_send is None or not request.body:
        return BytesIO(request.body) if len(request.body) > _LARGE_BODY else request.body or None
    return _GuardedBody(request.body, request.content_type, request.may_send)


class _Proxy(msgspec.Struct, frozen=True, kw_only=True):
    """The proxy. Its credentials are removed from the URL, which errors quote."""

    url: URL | None = None
    # Sent only to the proxy, when it opens a tunnel; without TLS there is no tunnel, and every request sends them.
    tunnel_headers: Mapping[str, str] = {}
    request_headers: Mapping[str, str] = {}

    @classmethod
    def of(cls, access: Access) -> Self:
        url = URL(access.proxy_url)
        if not access.proxy_url or url.user is None:
            return cls(url=url if access.proxy_url else None)
        login = base64.b64encode(f"{url.user}:{url.password or ''}".encode()).decode()
        headers = {"Proxy-Authorization": f"Basic {login}"}
        if access.server.startswith("https://"):
            return cls(url=url.with_user(None), tunnel_headers=headers)
        return cls(url=url.with_user(None), request_headers=headers)

    def __repr__(self) -> str:
        return f"_Proxy({self.url})"


async def _send_writes_once(request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Prevent aiohttp from repeating a DELETE when a kept connection breaks: the outcome of the first is unknown."""
    try:
        return await send(request)
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        if request.method == "GET" or isinstance(error, aiohttp.ClientConnectorError):
            raise
        raise aiohttp.ClientConnectionError(str(error) or "the connection broke") from error


def _abort(response: aiohttp.ClientResponse) -> None:
    """Abort an open stream. An orderly close would wait for the server while the client does not read."""
    connection = response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()
    response.close()


def _keepalive_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """Create a socket with TCP keepalive, which detects a dead peer even when nothing is sent."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family=family, type=kind, proto=protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    options = {
        "TCP_KEEPIDLE": _KEEPALIVE_IDLE_SECONDS,
        "TCP_KEEPINTVL": _KEEPALIVE_INTERVAL_SECONDS,
        "TCP_KEEPCNT": _KEEPALIVE_PROBES,
    }
    for name, value in options.items():
        # Not every operating system has all of them.
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made


def _headers(response: aiohttp.ClientResponse) -> Mapping[str, str]:
    """Return the headers that are used; several warnings become lines."""
    headers: dict[str, str] = {}
    for name in READ_HEADERS:
        values = response.headers.getall(name, [])
        if values:
            headers[name] = "\n".join(values)
    return headers

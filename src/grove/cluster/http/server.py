"""The HTTP face of the embedded API: TLS, the token, and requests turned into those of `ApiServer`. It knows no verbs.

It listens on loopback only. Still any web page can reach a laptop's ports: hence the token, no CORS headers, and a Host
header that must name this machine (a page whose name was re-bound to 127.0.0.1 says another).
"""

import asyncio
import hmac
import logging
from typing import Any

import structlog
from aiohttp import web
from aiohttp.client_exceptions import ClientConnectionResetError
from aiohttp.http_parser import RawRequestMessage
from multidict import CIMultiDict

from grove.clock import LoopClock
from grove.cluster.http.certificates import make_certificates
from grove.cluster.server import ApiServer, Stream, is_stream
from grove.cluster.server.status_errors import RefusedError, internal_error
from grove.errors import require
from grove.kube.errors import ApiError
from grove.kube.transport import Request, Response

log = structlog.get_logger()

# What is no HTTP is answered with a 400 by aiohttp, whose traceback tells nobody anything.
_WIRE = logging.getLogger("grove.cluster.http.wire")
_WIRE.addHandler(logging.NullHandler())
_WIRE.propagate = False

ADDRESS = "127.0.0.1"
# What a real server accepts.
LARGEST_BODY = 3 * 1024 * 1024
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_JSON = "application/json"
_SHUTDOWN_SECONDS = 0.2


class HttpApi:
    """Serves one `ApiServer`. Every path asks for the token."""

    def __init__(self, server: ApiServer, *, token: str, port: int = 0) -> None:
        self.token = token
        self._server = server
        self._authorization = f"Bearer {token}".encode()
        # The machine's clock: clients judge certificates by it, whatever time it is in the cluster.
        self._certificates = make_certificates(LoopClock.starting_now().now())
        self._wanted_port = port
        self._runner: web.ServerRunner | None = None
        self._streams: dict[Stream, None] = {}
        self._port = 0

    @property
    def url(self) -> str:
        require(self._port, "the HTTP server was started")
        return f"https://{ADDRESS}:{self._port}"

    @property
    def ca(self) -> bytes:
        """The PEM of the authority that clients must trust."""
        return self._certificates.ca

    @property
    def stream_count(self) -> int:
        """How many watches and followed logs are being served."""
        return len(self._streams)

    async def start(self) -> None:
        """Raises `OSError` when the port is taken."""
        server = web.Server(
            self._answer, request_factory=_make_request, handler_cancellation=True, access_log=None, logger=_WIRE
        )
        self._runner = web.ServerRunner(server, shutdown_timeout=_SHUTDOWN_SECONDS)
        await self._runner.setup()
        context = self._certificates.server_context()
        site = web.TCPSite(self._runner, ADDRESS, self._wanted_port, ssl_context=context, backlog=1024)
        await site.start()
        self._port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Streams end at once; requests under way are answered."""
        for stream in tuple(self._streams):
            stream.close()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _answer(self, http: web.BaseRequest) -> web.StreamResponse:
        try:
            self._check_caller(http)
            request = await _read(http)
            if is_stream(request):
                return await self._stream(http, request)
            return _to_http(self._server.handle(request))
        except RefusedError as refused:
            return _to_http(refused.response())
        except (ClientConnectionResetError, asyncio.CancelledError):
            raise
        except Exception:
            log.exception("request failed", method=http.method, path=http.path)
            return _to_http(internal_error().response())

    def _check_caller(self, http: web.BaseRequest) -> None:
        headers = http.headers
        if _host_name(headers.get("Host", "")) not in _LOOPBACK:
            raise RefusedError(403, "Forbidden", "this API answers to 127.0.0.1 and localhost only: check the Host")
        given = headers.get("Authorization", "").encode("utf-8", "surrogateescape")
        if not hmac.compare_digest(given, self._authorization):
            raise RefusedError(401, "Unauthorized", "Unauthorized")

    async def _stream(self, http: web.BaseRequest, request: Request) -> web.StreamResponse:
        try:
            stream = self._server.open_stream(request)
        except ApiError as error:
            raise RefusedError(error.code, error.reason, error.message) from None
        self._streams[stream] = None
        try:
            return await _send_lines(http, stream)
        finally:
            del self._streams[stream]
            stream.close()


async def _send_lines(http: web.BaseRequest, stream: Stream) -> web.StreamResponse:
    response = web.StreamResponse(headers=_headers(stream.headers))
    response.enable_chunked_encoding()
    await response.prepare(http)
    while lines := await stream.batch():
        lines.append(b"")
        await response.write(b"\n".join(lines))
    await response.write_eof()
    return response


async def _read(http: web.BaseRequest) -> Request:
    try:
        body = await http.read() if http.body_exists else b""
    except web.HTTPRequestEntityTooLarge:
        message = f"Request entity too large: limit is {LARGEST_BODY}"
        raise RefusedError(413, "RequestEntityTooLarge", message) from None
    url, headers = http.rel_url, http.headers
    return Request(
        method=http.method,
        path=url.path,
        query=dict(url.query) if url.raw_query_string else {},
        body=body,
        content_type=headers.get("Content-Type", _JSON),
        accept=headers.get("Accept", ""),
    )


def _to_http(response: Response) -> web.Response:
    return web.Response(status=response.status, body=response.body, headers=_headers(response.headers))


def _headers(given: Any) -> CIMultiDict[str]:
    headers = CIMultiDict({"Content-Type": _JSON, "Cache-Control": "no-cache, private"})
    for name, value in given.items():
        if name == "Warning":
            # One header line each; control characters would end a header early.
            for line in value.splitlines():
                headers.add(name, "".join(letter if letter.isprintable() else " " for letter in line))
        else:
            headers[name] = value
    return headers


def _host_name(host: str) -> str:
    """Without the port: `127.0.0.1:6443`, `[::1]:6443`."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower()


def _make_request(
    message: RawRequestMessage,
    payload: Any,
    protocol: Any,
    writer: Any,
    task: Any,
) -> web.BaseRequest:
    return web.BaseRequest(
        message, payload, protocol, writer, task, asyncio.get_running_loop(), client_max_size=LARGEST_BODY
    )

"""The HTTPS server of the embedded API: TLS, authentication, and conversion of requests for `ApiServer`.

It listens on loopback only. Any web page can still reach local ports, so every request needs a token, there are no CORS
headers, and the Host header must be a loopback name (which stops DNS rebinding).
"""

import asyncio
from typing import Any
from urllib.parse import unquote

import structlog
from aiohttp import web
from aiohttp.client_exceptions import ClientConnectionResetError
from multidict import CIMultiDict, CIMultiDictProxy

from grove.clock import LoopClock
from grove.cluster.apiserver.api_server import ApiServer, Stream, is_stream
from grove.cluster.apiserver.auth.user_info import ADMIN, UserInfo, impersonate
from grove.cluster.apiserver.status_errors import StatusError, internal_error
from grove.cluster.http.loopback_certificates import Certificates, make_certificates
from grove.cluster.http.request_bodies import LARGEST_BODY, MOST_BODY_BYTES, RequestBodies
from grove.cluster.http.webhook_client import WebhookClient
from grove.errors import require
from grove.kube.api_errors import ApiError
from grove.kube.transport import Request, Response
from grove.listener import ConnectionLimits, HttpListener

log = structlog.get_logger()

ADDRESS = "127.0.0.1"
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_JSON = "application/json"
_EXTRA = "impersonate-extra-"
LIMITS = ConnectionLimits(
    # A watch keeps its connection; the informers and kubectls of a cluster need some hundred.
    connections=1024,
    idle_seconds=300.0,
    shutdown_seconds=0.2,
    largest_body=LARGEST_BODY,
)


class HttpApi:
    """An HTTPS server for one `ApiServer`. Every path requires this token or one of a service account."""

    def __init__(
        self,
        server: ApiServer,
        *,
        token: str,
        port: int = 0,
        certificates: Certificates | None = None,
        most_body_bytes: int = MOST_BODY_BYTES,
    ) -> None:
        self.token = token
        self._bodies = RequestBodies(most_body_bytes)
        self._server = server
        # The machine's clock: clients check certificates by it, not by the cluster's clock.
        self._certificates = certificates or make_certificates(LoopClock.starting_now().now())
        server.authenticator.trust(token, ADMIN)
        server.authenticator.derive_key(self._certificates.key)
        self._webhooks = WebhookClient()
        server.enable_webhooks(self._webhooks.call)
        self._requested_port = port
        self._listener = HttpListener(
            self._handle,
            LIMITS,
            tls=self._certificates.server_context(),
            handler_cancellation=True,
            # A real API server ignores Content-Encoding.
            auto_decompress=False,
        )
        self._streams: dict[Stream, None] = {}
        self._port = 0

    @property
    def url(self) -> str:
        require(self._port, "the HTTP server was started")
        return f"https://{ADDRESS}:{self._port}"

    @property
    def port(self) -> int:
        require(self._port, "the HTTP server was started")
        return self._port

    @property
    def ca(self) -> bytes:
        """Return the PEM of the CA that clients must trust."""
        return self._certificates.ca

    @property
    def stream_count(self) -> int:
        """Return the number of open watches and followed logs."""
        return len(self._streams)

    @property
    def held_body_bytes(self) -> int:
        """Return the size of all request bodies in memory."""
        return self._bodies.held_bytes

    async def start(self) -> None:
        """Listen on the port. Raises `OSError` if it is in use."""
        await self._listener.start(ADDRESS, self._requested_port)
        self._port = self._listener.addresses[0][1]

    async def stop(self) -> None:
        """End all streams at once, finish running requests, and stop."""
        for stream in tuple(self._streams):
            stream.close()
        await self._listener.stop()
        await self._webhooks.close()

    async def _handle(self, http: web.BaseRequest) -> web.StreamResponse:
        try:
            user = self._user_of(http)
            answer = await self._serve(http, user)
            return await self._stream(http, answer) if isinstance(answer, Request) else answer
        except StatusError as error:
            return _to_http(error.response())
        except (ClientConnectionResetError, asyncio.CancelledError):
            raise
        except Exception:
            log.exception("request failed", method=http.method, path=http.path)
            return _to_http(internal_error().response())

    async def _serve(self, http: web.BaseRequest, user: UserInfo) -> web.Response | Request:
        """Return the response; for a stream only its request, without a body: streams stay open for long."""
        async with self._bodies.read(http) as body:
            request = _to_request(http, body)
            self._server.authorize(request, user)
            if is_stream(request):
                return _to_request(http, b"")
            return _to_http(await self._server.serve(request, user))

    def _user_of(self, http: web.BaseRequest) -> UserInfo:
        """Return the user of the request's token. Raises 401 or 403."""
        headers = http.headers
        if _host_name(headers.get("Host", "")) not in _LOOPBACK:
            raise StatusError(403, "Forbidden", "the Host header must be 127.0.0.1 or localhost")
        scheme, _, token = headers.get("Authorization", "").partition(" ")
        identity = self._server.authenticator.identify(token) if scheme.lower() == "bearer" else None
        if identity is None:
            raise StatusError(401, "Unauthorized", "Unauthorized")
        return self._effective_user(headers, identity.user)

    def _effective_user(self, headers: CIMultiDictProxy[str], user: UserInfo) -> UserInfo:
        """Return the user to act as (`kubectl --as`). Only an unrestricted user may impersonate."""
        name = _text(headers, "Impersonate-User")
        groups = tuple(map(_readable, headers.getall("Impersonate-Group", ())))
        uid, extra = _text(headers, "Impersonate-Uid"), _impersonated_extra(headers)
        if not name:
            if groups or uid or extra:
                raise StatusError(400, "BadRequest", "Impersonate-User is missing")
            return user
        if not user.is_unrestricted:
            raise StatusError(403, "Forbidden", f'User "{user.name}" cannot impersonate users', {})
        return impersonate(name, groups, uid, extra)

    async def _stream(self, http: web.BaseRequest, request: Request) -> web.StreamResponse:
        try:
            stream = await self._server.stream(request)
        except ApiError as error:
            raise StatusError(error.code, error.reason, error.message) from None
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


def _to_request(http: web.BaseRequest, body: bytes) -> Request:
    url, headers = http.rel_url, http.headers
    return Request(
        method=http.method,
        path=url.path,
        query=dict(url.query) if url.raw_query_string else {},
        body=body,
        content_type=_text(headers, "Content-Type", _JSON),
        accept=_text(headers, "Accept"),
        program=_text(headers, "User-Agent") or "unknown",
    )


def _text(headers: CIMultiDictProxy[str], name: str, default: str = "") -> str:
    return _readable(headers.get(name, default))


def _readable(value: str) -> str:
    """Replace bytes that are not UTF-8: they can be neither stored nor returned."""
    return value if value.isascii() else value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _impersonated_extra(headers: CIMultiDictProxy[str]) -> dict[str, tuple[str, ...]]:
    """Read the `Impersonate-Extra-KEY` headers; KEY is case-insensitive and percent-encoded."""
    extra: dict[str, tuple[str, ...]] = {}
    for name, value in headers.items():
        if name.lower().startswith(_EXTRA):
            key = unquote(name.lower().removeprefix(_EXTRA))
            extra[key] = (*extra.get(key, ()), _readable(value))
    return extra


def _to_http(response: Response) -> web.Response:
    # A real API server ends an object with a newline.
    body = response.body if "Content-Type" in response.headers or not response.body else response.body + b"\n"
    return web.Response(status=response.status, body=body, headers=_headers(response.headers))


def _headers(extra_headers: Any) -> CIMultiDict[str]:
    headers = CIMultiDict({"Content-Type": _JSON, "Cache-Control": "no-cache, private"})
    for name, value in extra_headers.items():
        if name == "Warning":
            # One header line each; control characters would end a header early.
            for line in value.splitlines():
                headers.add(name, "".join(letter if letter.isprintable() else " " for letter in line))
        else:
            headers[name] = value
    return headers


def _host_name(host: str) -> str:
    """Return the host without the port: `127.0.0.1:6443`, `[::1]:6443`."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower()

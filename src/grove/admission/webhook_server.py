"""HTTPS server of the webhooks: TLS, sizes and content types. `handler.py` computes the responses.

A request that fails does not affect others. Bodies are never logged: they may contain Secrets. `listener.py` limits
connections, `thread.py` has the thread.
"""

import asyncio
import traceback
from collections.abc import Callable
from ipaddress import ip_address
from urllib.parse import urlsplit

import structlog
from aiohttp import web

from grove.admission.admission_review import MalformedReviewError, OversizedReviewError, decode_review, encode_review
from grove.admission.handler import AdmissionHandler
from grove.admission.tls import LiveContext
from grove.errors import UserError
from grove.kube.api_errors import ApiError
from grove.listener import ConnectionLimits, HttpListener

log = structlog.get_logger()

# An API server accepts bodies of 3 MiB; a review has the object twice.
LARGEST_BODY = 8 * 1024 * 1024
# All bodies in memory.
MAX_BODY_BYTES = 64 * 1024 * 1024
# More concurrent requests are rejected: the API server tells its client to retry.
MAX_REQUESTS = 64
LIMITS = ConnectionLimits(
    # Each may take some 300 KB, most of it for TLS.
    connections=256,
    # API servers close a connection after 90 idle seconds. Closing it earlier here could lose a request.
    idle_seconds=300.0,
    shutdown_seconds=5.0,
    largest_body=LARGEST_BODY,
    longest_header=4096,
    most_headers=64,
)
# Less than the timeout of the API server (10 s), so that it gets the reason.
_ANSWER_SECONDS = 8.0


# Called with the last part of the path, the result and the seconds, on the thread of the server.
ReviewListener = Callable[[str, str, float], None]


class BusyError(Exception):
    """An error for a request that must be retried later: too many are in progress."""


class WebhookServer:
    """The server: `start`, then `stop`. The `LiveContext` has its certificate."""

    def __init__(
        self,
        handler: AdmissionHandler,
        tls: LiveContext,
        *,
        host: str,
        port: int,
        on_review: ReviewListener = lambda _path, _result, _seconds: None,
        monotonic: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._handler = handler
        self._on_review = on_review
        self._monotonic = monotonic
        self._host = host
        self._wanted_port = port
        # An API server never compresses bodies. Do not decompress: a small body could become huge.
        self._listener = HttpListener(self._respond, LIMITS, tls=tls.context, auto_decompress=False)
        self._request_count = 0
        self.held_bytes = 0
        """The bytes of bodies in memory."""
        self.port = 0
        """The port it listens on, once started."""

    @property
    def connection_count(self) -> int:
        return self._listener.connection_count

    async def start(self) -> None:
        try:
            await self._listener.start(self._host, self._wanted_port)
        except OSError as error:
            raise UserError(
                f"webhooks: port {self._wanted_port} cannot be used ({error.strerror}); choose another port"
            ) from error
        self.port = self._listener.addresses[0][1]

    async def stop(self) -> None:
        """Stop. Requests in progress get their responses."""
        await self._listener.stop()

    async def _respond(self, http: web.BaseRequest) -> web.StreamResponse:
        """Answer a request, and report reviews with their result and duration. Unknown paths are not reported."""
        start = self._monotonic()
        response, is_allowed = await self._respond_safely(http)
        if self._handler.find_handler(http.path) is not None:
            result = "error" if is_allowed is None else "allowed" if is_allowed else "rejected"
            self._on_review(http.path.rpartition("/")[2], result, self._monotonic() - start)
        return response

    async def _respond_safely(self, http: web.BaseRequest) -> tuple[web.Response, bool | None]:
        """Return the response and whether the write is allowed; None: the review failed."""
        self._request_count += 1
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                return await self._handle(http)
        except MalformedReviewError as error:
            return _text(400, str(error)), None
        except OversizedReviewError as error:
            return _text(413, str(error)), None
        except BusyError as error:
            return _text(503, str(error)), None
        except ApiError as error:
            return _fail(http, f"a lookup in the cluster failed: {error}"), None
        except TimeoutError:
            return _fail(http, f"no response within {_ANSWER_SECONDS:g} s"), None
        except Exception as error:
            # Without the values of variables, which might be secret.
            where = "".join(traceback.format_exception(error))
            log.error("admission failed", path=http.path, where=where)
            return _text(500, "this is a bug of the operator; its log has the details"), None
        finally:
            self._request_count -= 1

    async def _handle(self, http: web.BaseRequest) -> tuple[web.Response, bool | None]:
        handle = self._handler.find_handler(http.path)
        if handle is None:
            return _text(404, "unknown path"), None
        if http.method != "POST":
            return _text(405, "send a POST"), None
        if http.content_type != "application/json":
            return _text(415, "send application/json"), None
        if self._request_count > MAX_REQUESTS:
            raise BusyError(f"{MAX_REQUESTS} requests are in progress: try again")
        body = bytearray()
        try:
            await self._read_into(body, http)
            request = decode_review(bytes(body))
            response = await handle(request)
        finally:
            self.held_bytes -= len(body)
        content = encode_review(request.uid, response)
        return web.Response(body=content, content_type="application/json"), response.allowed

    async def _read_into(self, body: bytearray, http: web.BaseRequest) -> None:
        """Read the body. All bodies in memory together are limited."""
        async for chunk in http.content.iter_any():
            body += chunk
            self.held_bytes += len(chunk)
            if len(body) > LARGEST_BODY:
                raise OversizedReviewError(f"the body has more than {LARGEST_BODY} bytes")
            if self.held_bytes > MAX_BODY_BYTES:
                raise BusyError(f"{MAX_BODY_BYTES} bytes of requests are in progress: try again")


def _fail(http: web.BaseRequest, why: str) -> web.Response:
    """Return an error. The API server then applies the failure policy of the webhook."""
    log.warning("admission failed", path=http.path, why=why)
    return _text(500, why)


def _text(status: int, words: str) -> web.Response:
    return web.Response(status=status, text=words + "\n")


def host_of_url(url: str) -> str:
    """Return the host of the webhook URL, an address in canonical form. Raises `UserError` if the URL is invalid."""
    parts = urlsplit(url)
    if parts.scheme != "https" or not parts.hostname or parts.query or parts.fragment or parts.username:
        raise UserError(f"{url}: not an address that an API server can call; write https://HOST:PORT")
    try:
        return str(ip_address(parts.hostname))
    except ValueError:
        return parts.hostname

"""The HTTP face of admission: TLS, sizes, content types, and questions turned over to the judge. It knows no rules.

One request that fails fails alone. Bodies are never logged: they may be anybody's Secrets.
"""

import asyncio
import traceback
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

import structlog
from aiohttp import web
from aiohttp.http_parser import RawRequestMessage

from grove.admission.envelope import MalformedReviewError, close_review, open_review
from grove.admission.judging import Judge
from grove.admission.tls import LiveContext
from grove.errors import UserError
from grove.kube.errors import ApiError

log = structlog.get_logger()

# An API server takes bodies of 3 MiB; a question holds the object twice, and some words around it.
LARGEST_BODY = 8 * 1024 * 1024
# API servers drop a connection that was idle for 90 s. If we did it first, a question might meet the closing door.
_IDLE_SECONDS = 300.0
_SHUTDOWN_SECONDS = 5.0
# Less than what the API server gives us (10 s): then it hears why there is no answer.
_ANSWER_SECONDS = 8.0


class WebhookServer:
    """`start`, then `stop`. Which certificate it shows is said to the `LiveContext`."""

    def __init__(self, judge: Judge, tls: LiveContext, *, host: str, port: int) -> None:
        self._judge = judge
        self._tls = tls
        self._host = host
        self._wanted_port = port
        self._runner: web.ServerRunner | None = None
        self.port = 0
        """The port it listens on, once started."""

    async def start(self) -> None:
        server = web.Server(
            self._answer, request_factory=_make_request, access_log=None, keepalive_timeout=_IDLE_SECONDS
        )
        self._runner = web.ServerRunner(server, shutdown_timeout=_SHUTDOWN_SECONDS)
        await self._runner.setup()
        site = web.TCPSite(
            self._runner, self._host or None, self._wanted_port, ssl_context=self._tls.context, backlog=1024
        )
        try:
            await site.start()
        except OSError as error:
            raise UserError(
                f"webhooks: port {self._wanted_port} cannot be used ({error.strerror}); choose another one"
            ) from error
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Questions under way are answered."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _answer(self, http: web.BaseRequest) -> web.StreamResponse:
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                return await self._judged(http)
        except MalformedReviewError as error:
            return _text(400, str(error))
        except web.HTTPRequestEntityTooLarge:
            return _text(413, f"the body has more than {LARGEST_BODY} bytes")
        except ApiError as error:
            return _failed(http, f"a look at the cluster failed: {error}")
        except TimeoutError:
            return _failed(http, f"no answer within {_ANSWER_SECONDS:g} s")
        except Exception as error:
            # Without the values of variables, which might be secret.
            where = "".join(traceback.format_exception(error))
            log.error("admission failed", path=http.path, where=where)
            return _text(500, "this is a bug of the operator; its log has the details")

    async def _judged(self, http: web.BaseRequest) -> web.Response:
        question = self._judge.question(http.path)
        if question is None:
            return _text(404, "nothing is asked here")
        if http.method != "POST":
            return _text(405, "send a POST")
        if http.content_type != "application/json":
            return _text(415, "send application/json")
        request = open_review(await http.read())
        verdict = await question(request)
        return web.Response(body=close_review(request.uid, verdict), content_type="application/json")


def _failed(http: web.BaseRequest, why: str) -> web.Response:
    """No verdict: the failure policy of the webhook decides."""
    log.warning("admission has no answer", path=http.path, why=why)
    return _text(500, why)


def _text(status: int, words: str) -> web.Response:
    return web.Response(status=status, text=words + "\n")


def _make_request(message: RawRequestMessage, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
    return web.BaseRequest(
        message, payload, protocol, writer, task, asyncio.get_running_loop(), client_max_size=LARGEST_BODY
    )


def reached_host(url: str) -> str:
    """By which host an API server reaches us at this URL, an address in its usual form. Raises `UserError`."""
    parts = urlsplit(url)
    if parts.scheme != "https" or not parts.hostname or parts.query or parts.fragment or parts.username:
        raise UserError(f"{url}: not an address that an API server can ask; write https://HOST:PORT")
    try:
        return str(ip_address(parts.hostname))
    except ValueError:
        return parts.hostname

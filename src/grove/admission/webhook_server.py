"""The HTTP face of admission: TLS, sizes, content types, and questions turned over to the judge. It knows no rules.

One request that fails fails alone. Bodies are never logged: they may be anybody's Secrets. How many connections there
may be, and how long a silent one stays, is in `listener.py`; on which thread all this happens, in `thread.py`.
"""

import asyncio
import traceback
from ipaddress import ip_address
from urllib.parse import urlsplit

import structlog
from aiohttp import web

from grove.admission.admission_review import MalformedReviewError, OversizedReviewError, close_review, open_review
from grove.admission.handler import AdmissionHandler
from grove.admission.tls import LiveContext
from grove.errors import UserError
from grove.kube.api_errors import ApiError
from grove.listener import ConnectionLimits, HttpListener

log = structlog.get_logger()

# An API server takes bodies of 3 MiB; a question holds the object twice, and some words around it.
LARGEST_BODY = 8 * 1024 * 1024
# All bodies that were read and not answered yet.
MOST_HELD = 64 * 1024 * 1024
# More questions than this at a time are turned away: the API server tells its client to try again.
MOST_QUESTIONS = 64
LIMITS = ConnectionLimits(
    # Each may take some 300 KB, most of it for TLS.
    connections=256,
    # API servers drop a connection that was idle for 90 s. If we did it first, a question might meet the closing door.
    idle_seconds=300.0,
    shutdown_seconds=5.0,
    largest_body=LARGEST_BODY,
    longest_header=4096,
    most_headers=64,
)
# Less than what the API server gives us (10 s): then it hears why there is no answer.
_ANSWER_SECONDS = 8.0


class BusyError(Exception):
    """Whoever asks must try again later: too much is under way."""


class WebhookServer:
    """`start`, then `stop`. Which certificate it shows is said to the `LiveContext`."""

    def __init__(self, judge: AdmissionHandler, tls: LiveContext, *, host: str, port: int) -> None:
        self._judge = judge
        self._host = host
        self._wanted_port = port
        # An API server never compresses: a body that unfolds to many times its size is no question.
        self._listener = HttpListener(self._answer, LIMITS, tls=tls.context, auto_decompress=False)
        self._question_count = 0
        self.held_bytes = 0
        """Of bodies that were read, or partly, and are not answered yet."""
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
                f"webhooks: port {self._wanted_port} cannot be used ({error.strerror}); choose another one"
            ) from error
        self.port = self._listener.addresses[0][1]

    async def stop(self) -> None:
        """Questions under way are answered."""
        await self._listener.stop()

    async def _answer(self, http: web.BaseRequest) -> web.StreamResponse:
        self._question_count += 1
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                return await self._judged(http)
        except MalformedReviewError as error:
            return _text(400, str(error))
        except OversizedReviewError as error:
            return _text(413, str(error))
        except BusyError as error:
            return _text(503, str(error))
        except ApiError as error:
            return _failed(http, f"a look at the cluster failed: {error}")
        except TimeoutError:
            return _failed(http, f"no answer within {_ANSWER_SECONDS:g} s")
        except Exception as error:
            # Without the values of variables, which might be secret.
            where = "".join(traceback.format_exception(error))
            log.error("admission failed", path=http.path, where=where)
            return _text(500, "this is a bug of the operator; its log has the details")
        finally:
            self._question_count -= 1

    async def _judged(self, http: web.BaseRequest) -> web.Response:
        question = self._judge.question(http.path)
        if question is None:
            return _text(404, "nothing is asked here")
        if http.method != "POST":
            return _text(405, "send a POST")
        if http.content_type != "application/json":
            return _text(415, "send application/json")
        if self._question_count > MOST_QUESTIONS:
            raise BusyError(f"{MOST_QUESTIONS} questions are under way: try again")
        body = bytearray()
        try:
            await self._read_into(body, http)
            request = open_review(bytes(body))
            verdict = await question(request)
        finally:
            self.held_bytes -= len(body)
        return web.Response(body=close_review(request.uid, verdict), content_type="application/json")

    async def _read_into(self, body: bytearray, http: web.BaseRequest) -> None:
        """What was read is held, whoever sent it and however slowly: all of it together is bounded."""
        async for chunk in http.content.iter_any():
            body += chunk
            self.held_bytes += len(chunk)
            if len(body) > LARGEST_BODY:
                raise OversizedReviewError(f"the body has more than {LARGEST_BODY} bytes")
            if self.held_bytes > MOST_HELD:
                raise BusyError(f"{MOST_HELD} bytes of questions are under way: try again")


def _failed(http: web.BaseRequest, why: str) -> web.Response:
    """No verdict: the failure policy of the webhook decides."""
    log.warning("admission has no answer", path=http.path, why=why)
    return _text(500, why)


def _text(status: int, words: str) -> web.Response:
    return web.Response(status=status, text=words + "\n")


def reached_host(url: str) -> str:
    """By which host an API server reaches us at this URL, an address in its usual form. Raises `UserError`."""
    parts = urlsplit(url)
    if parts.scheme != "https" or not parts.hostname or parts.query or parts.fragment or parts.username:
        raise UserError(f"{url}: not an address that an API server can ask; write https://HOST:PORT")
    try:
        return str(ip_address(parts.hostname))
    except ValueError:
        return parts.hostname

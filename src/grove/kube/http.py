"""The network door over HTTP: keep-alive connections to an API server, through aiohttp.

Nothing is retried here, and no status is an error: see `transport.py`. Where the server is and who we are is found by
`config.py`.
"""

import asyncio
import ssl
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import aiohttp
from yarl import URL

from grove.clock import Clock
from grove.errors import UserError
from grove.kube.answers import check
from grove.kube.config import Access
from grove.kube.errors import ConnectionLost
from grove.kube.transport import Request, Response

CONNECTIONS = 128
CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 60.0
# A server sends a bookmark about every minute; a watch has its own end, see `watch.py`.
SILENCE_SECONDS = 660.0
TOKEN_SECONDS = 60.0


class HttpTransport:
    """Implements `Transport`. `async with HttpTransport(access, clock) as transport:`; connections are kept alive."""

    def __init__(self, access: Access, clock: Clock) -> None:
        self._access = access
        self._clock = clock
        self._token = access.token
        self._token_read_at: float | None = None
        connector = aiohttp.TCPConnector(limit=0, limit_per_host=0, ssl=tls_context(access), ttl_dns_cache=60)
        self._session = aiohttp.ClientSession(
            connector=connector, auto_decompress=True, cookie_jar=aiohttp.DummyCookieJar()
        )
        # Watches hold their connection for minutes; they must not take those of short requests.
        self._turns = asyncio.Semaphore(CONNECTIONS)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._session.close()

    async def send(self, request: Request) -> Response:
        timeout = aiohttp.ClientTimeout(total=ANSWER_SECONDS, connect=CONNECT_SECONDS)
        try:
            async with self._turns, self._ask(request, timeout) as answer:
                body = await answer.read()
                return Response(status=answer.status, body=body, headers=_headers(answer))
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._lost(request, error) from error

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        timeout = aiohttp.ClientTimeout(total=None, connect=CONNECT_SECONDS, sock_read=SILENCE_SECONDS)
        try:
            async with self._ask(request, timeout) as answer:
                if answer.status >= 400:
                    check(request, Response(status=answer.status, body=await answer.read(), headers=_headers(answer)))
                yield self._lines(request, answer)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._lost(request, error) from error

    async def _lines(self, request: Request, answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        """Split by hand: objects may be larger than a reader's line limit."""
        rest = b""
        try:
            async for chunk in answer.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n") if rest else chunk.split(b"\n")
                for line in lines:
                    yield line
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._lost(request, error) from error
        if rest:
            yield rest

    def _ask(
        self, request: Request, timeout: aiohttp.ClientTimeout
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        headers = {"Accept": request.accept or "application/json", "User-Agent": "grove"}
        token = self._current_token()
        if token:
            headers["Authorization"] = f"Bearer {token}"
        if request.body:
            headers["Content-Type"] = request.content_type
        return self._session.request(
            request.method,
            URL(self._access.server + request.path, encoded=True).with_query(dict(request.query)),
            data=request.body or None,
            headers=headers,
            timeout=timeout,
            allow_redirects=False,
            proxy=self._access.proxy_url or None,
            server_hostname=self._access.tls_server_name or None,
        )

    def _current_token(self) -> str:
        path = self._access.token_file
        if path is None:
            return self._token
        now = self._clock.monotonic()
        if self._token_read_at is None or now - self._token_read_at > TOKEN_SECONDS:
            self._token, self._token_read_at = _read_token(path, self._token), now
        return self._token

    def _lost(self, request: Request, error: Exception) -> ConnectionLost:
        why = str(error) or type(error).__name__
        return ConnectionLost(f"{request.method} {self._access.server}{request.path}: {why}")


def tls_context(access: Access) -> ssl.SSLContext | bool:
    """How the server proves itself, and we to it; True (unused) for plain HTTP."""
    if not access.server.startswith("https://"):
        return True
    try:
        context = ssl.create_default_context(cadata=_text(access.certificate_authority))
        # Since Python 3.13 strict checks are on, which the CAs of many clusters do not pass.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if access.is_insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if access.client_certificate is not None and access.client_key is not None:
            _load_client_certificate(context, access.client_certificate, access.client_key)
    except (ssl.SSLError, ValueError) as error:
        raise UserError(f"{access.source}: a certificate or key is not valid PEM ({error}); copy it again") from error
    return context


def _load_client_certificate(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    # The standard library takes files only; this one is readable by us alone, and gone at once.
    with tempfile.NamedTemporaryFile(suffix=".pem") as file:
        file.write(certificate + b"\n" + key)
        file.flush()
        context.load_cert_chain(file.name)


def _text(certificate: bytes | None) -> str | None:
    return None if certificate is None else certificate.decode("ascii")


def _read_token(path: Path, before: str) -> str:
    try:
        return path.read_text().strip()
    except OSError as error:
        if before:
            # Being replaced right now: the old one is good for a while.
            return before
        raise UserError(f"{path}: the token cannot be read ({error.strerror}); check tokenFile") from error


def _headers(answer: aiohttp.ClientResponse) -> Mapping[str, str]:
    """Only what somebody reads; several warnings become lines."""
    found: dict[str, str] = {}
    for name in ("Content-Type", "Retry-After", "Warning"):
        values = answer.headers.getall(name, [])
        if values:
            found[name] = "\n".join(values)
    return found

"""Calls admission webhooks over HTTPS. Requests and responses: `cluster/apiserver/admission/webhook_request.py`."""

import asyncio
import base64
import binascii
import ssl
from functools import lru_cache
from urllib.parse import urlsplit

import aiohttp

from grove.cluster.apiserver.admission.webhook_request import Call, NoVerdict, Outcome, read_verdict

_LARGEST_ANSWER = 8 * 1024 * 1024


class WebhookClient:
    """An HTTPS client with one session. Call `close` at the end."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def ask(self, call: Call, uid: str) -> Outcome:
        address, timeout = call.address, f"?timeout={call.timeout_seconds}s"
        asked = address.shown + timeout
        if address.problem:
            return _failed(asked, address.problem)
        try:
            async with asyncio.timeout(call.timeout_seconds):
                return await self._post(call, address.url + timeout, uid)
        except TimeoutError:
            return _failed(asked, "context deadline exceeded")
        except aiohttp.ClientConnectorCertificateError as problem:
            return _failed(asked, f"tls: failed to verify certificate: {problem.certificate_error}")
        except aiohttp.ClientConnectorError as problem:
            return _failed(asked, f"dial tcp {_host(address.url)}: connect: {_why(problem)}")
        except (aiohttp.ClientError, OSError, ValueError) as problem:
            return _failed(asked, str(problem) or type(problem).__name__)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def _post(self, call: Call, url: str, uid: str) -> Outcome:
        headers = {"Content-Type": "application/json", "Accept": "application/json, */*"}
        request = self._opened().post(
            url,
            data=call.review(uid),
            headers=headers,
            ssl=_trust(call.ca_bundle),
            server_hostname=call.address.tls_name or None,
            allow_redirects=False,
        )
        async with request as response:
            body = await response.content.read(_LARGEST_ANSWER)
            if response.status != 200:
                said = body.decode("utf-8", "replace") if response.content_type.startswith("text/") else ""
                return NoVerdict(f"failed to call webhook: {_http_problem(response.status, said.strip())}")
            return read_verdict(call, uid, body)

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), trust_env=False)
        return self._session


@lru_cache(maxsize=64)
def _trust(bundle: str) -> ssl.SSLContext:
    """Return a TLS context that trusts the bundle (base64 of PEM), or the system CAs if empty. Raises `ValueError`."""
    if not bundle:
        return ssl.create_default_context()
    try:
        return ssl.create_default_context(cadata=base64.b64decode(bundle).decode("ascii"))
    except (binascii.Error, UnicodeDecodeError, ssl.SSLError) as problem:
        raise ValueError(f"unable to load root certificates: {problem}") from None


def _http_problem(status: int, said: str) -> str:
    match status:
        case 404:
            return "the server could not find the requested resource"
        case 401:
            return "the server has asked for the client to provide credentials"
        case 403:
            return "forbidden"
        case _ if status >= 500:
            return f"an error on the server ({_quoted(said or 'unknown')}) has prevented the request from succeeding"
        case _:
            return f"the server responded with the status code {status} but did not return more information"


def _failed(url: str, why: str) -> NoVerdict:
    return NoVerdict(f"failed to call webhook: Post {_quoted(url)}: {why}")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _host(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port or 443}"


def _why(problem: aiohttp.ClientConnectorError) -> str:
    system = problem.os_error.strerror or str(problem)
    return "connection refused" if isinstance(problem.os_error, ConnectionRefusedError) else system

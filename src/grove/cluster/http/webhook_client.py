"""Calls admission webhooks over HTTPS. Requests and responses: `cluster/apiserver/admission/webhook_request.py`."""

import asyncio
import base64
import binascii
import ssl
from functools import lru_cache
from urllib.parse import urlsplit

import aiohttp

from grove.cluster.apiserver.admission.webhook_request import Call, CallFailure, CallResult, read_review

_LARGEST_ANSWER = 8 * 1024 * 1024


class WebhookClient:
    """An HTTPS client with one session. Call `close` at the end."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def call(self, request: Call, uid: str) -> CallResult:
        address, timeout = request.address, f"?timeout={request.timeout_seconds}s"
        shown_url = address.shown + timeout
        if address.error_message:
            return _call_failed(shown_url, address.error_message)
        try:
            async with asyncio.timeout(request.timeout_seconds):
                return await self._post(request, address.url + timeout, uid)
        except TimeoutError:
            return _call_failed(shown_url, "context deadline exceeded")
        except aiohttp.ClientConnectorCertificateError as error:
            return _call_failed(shown_url, f"tls: failed to verify certificate: {error.certificate_error}")
        except aiohttp.ClientConnectorError as error:
            return _call_failed(shown_url, f"dial tcp {_host(address.url)}: connect: {_describe_connect_error(error)}")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return _call_failed(shown_url, str(error) or type(error).__name__)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def _post(self, request: Call, url: str, uid: str) -> CallResult:
        headers = {"Content-Type": "application/json", "Accept": "application/json, */*"}
        post = self._open_session().post(
            url,
            data=request.encode_review(uid),
            headers=headers,
            ssl=_trust(request.ca_bundle),
            server_hostname=request.address.tls_name or None,
            allow_redirects=False,
        )
        async with post as response:
            body = await response.content.read(_LARGEST_ANSWER)
            if response.status != 200:
                text = body.decode("utf-8", "replace") if response.content_type.startswith("text/") else ""
                return CallFailure(f"failed to call webhook: {_describe_status(response.status, text.strip())}")
            return read_review(request, uid, body)

    def _open_session(self) -> aiohttp.ClientSession:
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
    except (binascii.Error, UnicodeDecodeError, ssl.SSLError) as error:
        raise ValueError(f"unable to load root certificates: {error}") from None


def _describe_status(status: int, text: str) -> str:
    match status:
        case 404:
            return "the server could not find the requested resource"
        case 401:
            return "the server has asked for the client to provide credentials"
        case 403:
            return "forbidden"
        case _ if status >= 500:
            return f"an error on the server ({_quote(text or 'unknown')}) has prevented the request from succeeding"
        case _:
            return f"the server responded with the status code {status} but did not return more information"


def _call_failed(url: str, reason: str) -> CallFailure:
    return CallFailure(f"failed to call webhook: Post {_quote(url)}: {reason}")


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _host(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port or 443}"


def _describe_connect_error(error: aiohttp.ClientConnectorError) -> str:
    system = error.os_error.strerror or str(error)
    return "connection refused" if isinstance(error.os_error, ConnectionRefusedError) else system

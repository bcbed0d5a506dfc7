"""Read the bodies of requests. All bodies in memory together are limited, so that clients cannot exhaust it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web
from aiohttp.web_protocol import RequestPayloadError

from grove.cluster.apiserver.status_errors import StatusError

# The limit of a real API server.
LARGEST_BODY = 3 * 1024 * 1024
# Of all bodies together; a few tens of the largest ones.
MOST_BODY_BYTES = 64 * 1024 * 1024
_BODY_SECONDS = 60.0
_RETRY_SECONDS = 1


class RequestBodies:
    """The bodies that are in memory, each from its first byte until its request is answered."""

    def __init__(self, most_bytes: int = MOST_BODY_BYTES) -> None:
        self._most_bytes = most_bytes
        self.held_bytes = 0

    @asynccontextmanager
    async def read(self, http: web.BaseRequest) -> AsyncIterator[bytes]:
        """Read the body, and count it while the context is open. Raises a `StatusError` with 400, 408, 413 or 429."""
        body = bytearray()
        try:
            if http.body_exists:
                await self._read_into(body, http)
            yield bytes(body)
        finally:
            self.held_bytes -= len(body)

    async def _read_into(self, body: bytearray, http: web.BaseRequest) -> None:
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                async for chunk in http.content.iter_any():
                    body += chunk
                    self.held_bytes += len(chunk)
                    self._check(len(body))
        except TimeoutError:
            message = f"the body did not arrive within {_BODY_SECONDS:g} s"
            raise StatusError(408, "RequestTimeout", message) from None
        except RequestPayloadError:
            message = "the request body is incomplete or does not match its headers"
            raise StatusError(400, "BadRequest", message) from None

    def _check(self, size: int) -> None:
        if size > LARGEST_BODY:
            message = f"Request entity too large: limit is {LARGEST_BODY}"
            raise StatusError(413, "RequestEntityTooLarge", message)
        if self.held_bytes > self._most_bytes:
            message = f"the bodies of all requests in progress have more than {self._most_bytes} bytes: try again later"
            raise StatusError(429, "TooManyRequests", message, {"retryAfterSeconds": _RETRY_SECONDS})

"""The transport interface: a request in, a response or a stream of lines out.

Implementations: `cluster/in_process_transport.py` (no sockets) and, over HTTP, `http_transport.py`, and
`light_transport.py` for short commands. `sim/faults.py` wraps one. No other module connects to an API server.
"""

import platform
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import cache
from typing import Protocol

import msgspec

from grove import __version__

# The response headers that are used.
READ_HEADERS = ("Content-Type", "Location", "Retry-After", "Warning")
# A server sends a bookmark about every minute, the first perhaps after two, even for kinds without objects.
WATCH_SILENCE_SECONDS = 200.0


class Request(msgspec.Struct, frozen=True, kw_only=True):
    method: str
    path: str
    query: Mapping[str, str] = {}
    body: bytes = b""
    content_type: str = "application/json"
    # The Accept header; empty: plain JSON.
    accept: str = ""
    # The client program, as in a User-Agent; empty inside one process, where managedFields are not needed.
    program: str = ""
    # For a write with a deadline: checked last, right before its bytes are sent.
    may_send: Callable[[], bool] | None = None

    @property
    def is_write(self) -> bool:
        return self.method != "GET"


class Response(msgspec.Struct, frozen=True, kw_only=True):
    status: int
    body: bytes = b""
    headers: Mapping[str, str] = {}


class Transport(Protocol):
    """A connection to an API server.

    Raises `ConnectionLost` when there is no response; every HTTP status is a `Response`.
    """

    async def send(self, request: Request) -> Response: ...

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Return the lines of a watch, without newlines, until the server ends it. Entering may raise `ApiError`."""
        ...


MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


@cache
def user_agent() -> str:
    """Return the User-Agent, as it appears in the audit log of the server."""
    return f"grove/{__version__} ({platform.system().lower()}/{platform.machine()})"

"""The network door: one request in, one response or one stream of lines out.

Implementations: `cluster/in_process_transport.py` (no sockets) and, over HTTP, `http_transport.py`, and
`light_transport.py` for short commands. `sim/faults.py` wraps one. Nothing else in the project talks to a server.
"""

import platform
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import cache
from typing import Protocol

import msgspec

from grove import __version__

# Of an answer; nobody reads the others.
READ_HEADERS = ("Content-Type", "Location", "Retry-After", "Warning")


class Request(msgspec.Struct, frozen=True, kw_only=True):
    method: str
    path: str
    query: Mapping[str, str] = {}
    body: bytes = b""
    content_type: str = "application/json"
    # As in HTTP; empty: JSON as it is.
    accept: str = ""
    # The program that asks, as in a User-Agent; empty inside one process, where nobody wants to see managedFields.
    program: str = ""
    # For a write that comes too late at some instant: asked last of all, when its bytes are about to leave.
    may_leave: Callable[[], bool] | None = None

    @property
    def is_write(self) -> bool:
        return self.method != "GET"


class Response(msgspec.Struct, frozen=True, kw_only=True):
    status: int
    body: bytes = b""
    headers: Mapping[str, str] = {}


class Transport(Protocol):
    """Raises `ConnectionLost` when there is no answer; every HTTP status is a `Response`."""

    async def send(self, request: Request) -> Response: ...

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Lines of a watch, without their newline, until the server ends it; entering raises `ApiError` if refused."""
        ...


MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


@cache
def user_agent() -> str:
    """How we are named in the server's audit log."""
    return f"grove/{__version__} ({platform.system().lower()}/{platform.machine()})"

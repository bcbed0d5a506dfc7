"""A small HTTP server for probes, metrics and profiles.

It shares the event loop of the reconciler, so connections are limited and slow clients are disconnected
(`listener.py`).
"""

import errno
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Self

import msgspec
from aiohttp import web

from grove.errors import UserError
from grove.listener import ConnectionLimits, HttpListener

Query = Mapping[str, str]


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    body: bytes
    status: int = 200
    content_type: str = "text/plain; charset=utf-8"


# Prometheus keeps a connection between two scrapes; the kubelet opens a new one for each probe.
LIMITS = ConnectionLimits(connections=64, idle_seconds=120.0, longest_header=4096, most_headers=64)

PageMaker = Callable[[Query], Awaitable[Endpoint]]


class Pages:
    """An HTTP server: `async with Pages(makers, host, port) as pages:`, then `pages.url`. Port 0: a free port."""

    def __init__(self, makers: Mapping[str, PageMaker], host: str, port: int, key: str) -> None:
        self._host = host
        self._port = port
        # The configuration key of the address, for error messages.
        self._key = key
        self._makers = makers
        self._listener = HttpListener(self._answer, LIMITS)

    @property
    def url(self) -> str:
        host, port = self._listener.addresses[0]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"

    async def __aenter__(self) -> Self:
        try:
            await self._listener.start(self._host, self._port)
        except OSError as error:
            await self._listener.stop()
            where = f"{self._host or 'all interfaces'}, port {self._port}"
            is_port = error.errno in (errno.EADDRINUSE, errno.EACCES)
            hint = f"choose another {self._key}" if is_port else f"correct the address that belongs to {self._key}"
            raise UserError(f"{where} cannot be used ({error.strerror}); {hint}") from error
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._listener.stop()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        make = self._makers.get(request.path)
        if make is None:
            return web.Response(status=404, text=f"no such page; there are {', '.join(self._makers)}\n")
        if request.method not in ("GET", "HEAD"):
            return web.Response(status=405, text="send a GET\n")
        page = await make(request.query)
        return web.Response(body=page.body, status=page.status, headers={"Content-Type": page.content_type})

"""Small pages over plain HTTP: probes, metrics, profiles. What stands on them is decided by whoever gives them."""

import errno
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Self

import msgspec
from aiohttp import web

from grove.errors import UserError

Query = Mapping[str, str]


class Page(msgspec.Struct, frozen=True, kw_only=True):
    body: bytes
    status: int = 200
    content_type: str = "text/plain; charset=utf-8"


PageMaker = Callable[[Query], Awaitable[Page]]


class Pages:
    """`async with Pages(makers, host, port) as pages:`; then `pages.url`. Port 0: a free one."""

    def __init__(self, makers: Mapping[str, PageMaker], host: str, port: int, key: str) -> None:
        self._host = host
        self._port = port
        # The key of the configuration that chose the address, for people.
        self._key = key
        app = web.Application()
        for path, make in makers.items():
            app.router.add_get(path, _answer_with(make))
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)

    @property
    def url(self) -> str:
        host, port = self._runner.addresses[0][:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, self._host or None, self._port).start()
        except OSError as error:
            await self._runner.cleanup()
            where = f"{self._host or 'all interfaces'}, port {self._port}"
            is_port = error.errno in (errno.EADDRINUSE, errno.EACCES)
            hint = f"choose another {self._key}" if is_port else f"correct the address that belongs to {self._key}"
            raise UserError(f"{where} cannot be used ({error.strerror}); {hint}") from error
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.cleanup()


def _answer_with(make: PageMaker) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(request: web.Request) -> web.Response:
        page = await make(request.query)
        return web.Response(body=page.body, status=page.status, headers={"Content-Type": page.content_type})

    return answer

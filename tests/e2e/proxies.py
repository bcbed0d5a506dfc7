"""Bad roads to an API server, on loopback: one that cuts connections, and one that loses and spoils answers."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from random import Random
from urllib.parse import urlsplit

import aiohttp
import yaml
from aiohttp import web

from grove.kube.kubeconfig import Access
from grove.kube.tls import tls_context
from tests.kube.controlplane.plane import LOOPBACK

LONGEST_SILENCE_SECONDS = 3.0
# Headers that belong to one connection, not to the message.
_HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length", "content-encoding", "host"})


def redirected(kubeconfig: Path, server: str) -> Path:
    """The same kubeconfig, by another road."""
    config = yaml.safe_load(kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = server
    path = kubeconfig.with_name(f"{kubeconfig.stem}-by-proxy.kubeconfig")
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(config))
    return path


class CuttingProxy:
    """Passes bytes on, until `cut` ends every connection there is, in the middle of whatever it carries."""

    def __init__(self, target: str) -> None:
        self._target = urlsplit(target)
        self._writers: list[asyncio.StreamWriter] = []
        self.cut_count = 0
        self.url = ""

    @asynccontextmanager
    async def running(self) -> AsyncIterator["CuttingProxy"]:
        server = await asyncio.start_server(self._connect, LOOPBACK, 0)
        self.url = f"https://{LOOPBACK}:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()
            self.cut()

    def cut(self) -> None:
        writers, self._writers = self._writers, []
        for writer in writers:
            writer.transport.abort()
        self.cut_count += len(writers) // 2

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(self._target.hostname, self._target.port)
        except OSError:
            writer.transport.abort()
            return
        self._writers += [writer, far_writer]
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_pour(reader, far_writer))
            tasks.create_task(_pour(far_reader, writer))


async def _pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while chunk := await reader.read(65536):
            writer.write(chunk)
            await writer.drain()
    writer.transport.abort()


class SpoilingProxy:
    """Answers a share of the requests with 429, 500 or nothing; what is not answered may have been carried out."""

    def __init__(self, access: Access, random: Random, share: float) -> None:
        self._access = access
        self._random = random
        self._share = share
        self.spoilt_count = 0
        self.passed_count = 0
        self.url = ""

    @asynccontextmanager
    async def running(self) -> AsyncIterator["SpoilingProxy"]:
        application = web.Application(client_max_size=16 * 1024 * 1024)
        application.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(application, shutdown_timeout=0.1)
        connector = aiohttp.TCPConnector(limit=0, ssl=tls_context(self._access))
        async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout()) as self._session:
            await runner.setup()
            site = web.TCPSite(runner, LOOPBACK, 0)
            await site.start()
            self.url = f"http://{LOOPBACK}:{runner.addresses[0][1]}"
            try:
                yield self
            finally:
                await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if self._random.random() >= self._share:
            self.passed_count += 1
            return await self._pass_on(request)
        self.spoilt_count += 1
        match self._random.randrange(5):
            case 0:
                return _status(429, "TooManyRequests", {"Retry-After": "1"})
            case 1:
                return _status(500, "InternalError", {})
            case 2:
                # Carried out, and nobody hears of it.
                if request.method != "GET":
                    await self._ask(request)
            case 3:
                # A long silence, then the end.
                await asyncio.sleep(self._random.uniform(0.0, LONGEST_SILENCE_SECONDS))
        if request.transport is not None:
            request.transport.abort()
        return web.Response()

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        is_stream = request.query.get("watch") == "true"
        if not is_stream:
            status, body, kind = await self._ask(request)
            return web.Response(status=status, body=body, headers={"Content-Type": kind})
        async with self._open(request, b"") as answer:
            response = web.StreamResponse(status=answer.status, headers=_kept(answer.headers))
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            return response

    async def _ask(self, request: web.Request) -> tuple[int, bytes, str]:
        async with self._open(request, await request.read()) as answer:
            return answer.status, await answer.read(), answer.headers.get("Content-Type", "application/json")

    def _open(self, request: web.Request, body: bytes) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        return self._session.request(
            request.method, f"{self._access.server}{request.path_qs}", data=body or None, headers=_kept(request.headers)
        )


def _kept(headers: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in headers.items() if key.lower() not in _HOP_BY_HOP}


def _status(code: int, reason: str, headers: dict[str, str]) -> web.Response:
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code,
            "message": "the road is bad today"}  # fmt: skip
    return web.json_response(body, status=code, headers=headers)

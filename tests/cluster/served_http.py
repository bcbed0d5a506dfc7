"""An embedded API behind real sockets, for tests of its HTTP face: same loop, real time, no waiting."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from io import BytesIO
from random import Random
from typing import Any

import aiohttp
import msgspec

from grove.clock import LoopClock
from grove.cluster.apiserver.api_server import ApiServer
from grove.cluster.http.https_server import HttpApi
from grove.sim.in_process_admission import admission_of

TOKEN = "a token for tests"


class Answer(msgspec.Struct, frozen=True):
    status: int
    body: bytes
    headers: dict[str, list[str]]

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def refusal(self) -> tuple[int, str, int, str]:
        status = self.json
        return self.status, status["kind"], status["code"], status["reason"]


class HttpClient:
    def __init__(self, api: HttpApi, server: ApiServer, session: aiohttp.ClientSession) -> None:
        self.api = api
        self.server = server
        self.session = session

    async def send(
        self, method: str, path: str, body: Any = b"", *, token: str | None = TOKEN, **headers: str
    ) -> Answer:
        """Headers are written with `_` for `-`."""
        sent = {"Content-Type": "application/json"} | {name.replace("_", "-"): value for name, value in headers.items()}
        if token is not None:
            sent["Authorization"] = f"Bearer {token}"
        data = BytesIO(body if isinstance(body, bytes) else msgspec.json.encode(body))
        async with self.session.request(method, self.api.url + path, data=data, headers=sent) as response:
            found: dict[str, list[str]] = {}
            for name, value in response.headers.items():
                found.setdefault(name, []).append(value)
            return Answer(response.status, await response.read(), found)

    async def send_raw(self, data: bytes) -> asyncio.StreamWriter:
        """Send bytes on a connection of their own, and leave it open."""
        tls = ssl.create_default_context(cadata=self.api.ca.decode())
        _, writer = await asyncio.open_connection("127.0.0.1", self.api.port, ssl=tls)
        writer.write(data)
        await writer.drain()
        return writer


@asynccontextmanager
async def http_cluster(**options: Any) -> AsyncIterator[HttpClient]:
    clock = LoopClock.starting_now()
    server: ApiServer = ApiServer(clock, Random(7), admission=admission_of(lambda: server.store))
    api = HttpApi(server, token=TOKEN, **options)
    await api.start()
    connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cadata=api.ca.decode()))
    try:
        async with aiohttp.ClientSession(connector=connector) as session:
            yield HttpClient(api, server, session)
    finally:
        await api.stop()


def over_http(story: Callable[[HttpClient], Awaitable[None]], **options: Any) -> None:
    """Tell the story to an API server with these options of `HttpApi`."""

    async def tell() -> None:
        async with http_cluster(**options) as client:
            await story(client)

    asyncio.run(tell())

"""A transport without sockets: it calls the embedded API server directly."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from grove.clock import Clock
from grove.cluster.apiserver.api_server import ApiServer
from grove.kube.transport import Request, Response


class InProcessTransport:
    """A `kube.transport.Transport` that yields to other tasks before each request, as a network does."""

    def __init__(self, server: ApiServer, clock: Clock) -> None:
        self._server = server
        self._clock = clock

    async def send(self, request: Request) -> Response:
        # Yield before the call: a task that is cancelled here has written nothing, and no response is lost.
        await self._clock.sleep(0)
        return await self._server.serve(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        await self._clock.sleep(0)
        stream = await self._server.stream(request)
        try:
            yield stream
        finally:
            stream.close()

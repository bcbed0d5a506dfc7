"""A transport without sockets: requests reach the embedded server by a function call."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from grove.clock import Clock
from grove.cluster.apiserver.api_server import ApiServer
from grove.kube.transport import Request, Response


class InProcessTransport:
    """Implements `kube.transport.Transport`. Others get their turn before each request, as with a network."""

    def __init__(self, server: ApiServer, clock: Clock) -> None:
        self._server = server
        self._clock = clock

    async def send(self, request: Request) -> Response:
        # Yield first: a caller that is cancelled here has written nothing, and an answer is never lost.
        await self._clock.sleep(0)
        return await self._server.answer(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        await self._clock.sleep(0)
        stream = await self._server.stream(request)
        try:
            yield stream
        finally:
            stream.close()

"""Run admission on its own thread, so that its load does not delay reconciler, lease and probes.

All work that a client can cause at its port runs on the event loop of this thread: handshakes, decoding, rules. The
interpreter switches threads every millisecond, so the other event loop waits no longer than that. Lookups run on the
other loop, which has the connections to the API server.
"""

import asyncio
import contextlib
import sys
import threading
from types import TracebackType
from typing import Protocol, Self, TypeVar

from grove.api.resources import Resource
from grove.api.types.meta import HasMetadata
from grove.kube.client import Client

T = TypeVar("T", bound=HasMetadata)

# The switch interval of the interpreter. The default is five times longer, and a probe needs several switches.
SWITCH_SECONDS = 0.001


class ThreadedServer(Protocol):
    async def start(self) -> None: ...
    async def stop(self) -> None: ...


class ServerThread:
    """A server on an event loop and a thread of its own. `async with ServerThread(server):` serves inside of it."""

    def __init__(self, server: ThreadedServer) -> None:
        self._server = server
        self._thread = threading.Thread(target=self._run, name="admission", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._caller = asyncio.get_running_loop()
        self._started: asyncio.Future[None] = self._caller.create_future()
        self._ended: asyncio.Future[None] = self._caller.create_future()
        self._stop: asyncio.Event | None = None
        self._usual_seconds = sys.getswitchinterval()

    async def __aenter__(self) -> Self:
        """Raises what `start` of the server raises."""
        self._usual_seconds = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_SECONDS)
        self._thread.start()
        try:
            await asyncio.shield(self._started)
        except BaseException:
            await self._end()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._end()

    async def _end(self) -> None:
        with contextlib.suppress(Exception):
            await asyncio.shield(self._started)
        if self._loop is not None and self._stop is not None:
            # The loop is closed if the server could not start.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._stop.set)
        await asyncio.shield(self._ended)
        sys.setswitchinterval(self._usual_seconds)

    def _run(self) -> None:
        error: Exception | None = None
        try:
            asyncio.run(self._serve())
        except Exception as raised:
            error = raised
        self._caller.call_soon_threadsafe(_resolve, self._ended, error)

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        try:
            await self._server.start()
        except Exception as error:
            self._caller.call_soon_threadsafe(_resolve, self._started, error)
            return
        self._caller.call_soon_threadsafe(_resolve, self._started, None)
        await self._stop.wait()
        await self._server.stop()


class CrossLoopReader:
    """A `Reader` for one event loop that uses the client of another loop."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._loop = asyncio.get_running_loop()

    async def get(self, resource: Resource[T], namespace: str, name: str) -> T:
        lookup = asyncio.run_coroutine_threadsafe(self._client.get(resource, namespace, name), self._loop)
        return await asyncio.wrap_future(lookup)


def _resolve(future: asyncio.Future[None], error: Exception | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)

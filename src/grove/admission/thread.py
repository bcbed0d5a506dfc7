"""Admission on a thread of its own: whatever arrives there, reconciler, lease and probes keep their pace.

All that a stranger can make us do at its port happens on the event loop of this thread: handshakes, bodies, rules.
The threads of the process take turns of a millisecond, so the other event loop waits that long and no longer. Looks at
the cluster are made by the other loop, which has the connections to the API server.
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

# How long a thread may keep another one waiting. By default it is five times that, and a probe takes several turns.
TURN_SECONDS = 0.001


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
        sys.setswitchinterval(TURN_SECONDS)
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
            # Closed already: it could not start.
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


class DistantReader:
    """A `Reader` for one event loop, whose looks are made by the client of another."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._loop = asyncio.get_running_loop()

    async def get(self, resource: Resource[T], namespace: str, name: str) -> T:
        look = asyncio.run_coroutine_threadsafe(self._client.get(resource, namespace, name), self._loop)
        return await asyncio.wrap_future(look)


def _resolve(future: asyncio.Future[None], error: Exception | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)

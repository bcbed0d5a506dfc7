"""Stream the lines of all pods of an object."""

import asyncio
import warnings
from collections.abc import AsyncGenerator

import msgspec

from grove.api.resources import PODS
from grove.operations.connection import Connection
from grove.operations.logs.log_follower import LogFollower
from grove.operations.logs.log_reader import ContainerRun, LogRecord, LogSelection, list_runs, read_all
from grove.operations.logs.log_targets import LogTarget
from grove.operations.random_source import fresh_random

# Reading pauses while so many lines were not taken yet.
WAITING_LINES = 1_000


class PodLogLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the log of a container. `written_at` is the time of the kubelet.

    Example:
        for line in client.logs("chat"):
            print(line.pod, line.text)
    """

    pod: str
    container: str
    text: str
    written_at: str

    def __str__(self) -> str:
        return f"{self.pod} | {self.text}"


async def read_lines(connection: Connection, target: LogTarget, options: LogSelection) -> list[PodLogLine]:
    """Return the lines that exist now, by time."""
    pods = await connection.client.list(PODS, namespace=connection.namespace, label_selector=target.selector)
    records = await read_all(connection, list_runs(pods.items, options), options)
    return [_to_line(record) for record in records]


async def follow_lines(
    connection: Connection, target: LogTarget, options: LogSelection
) -> AsyncGenerator[PodLogLine, None]:
    """Yield lines as they are written, also of later pods, until the object is deleted or has completed."""
    sink = _QueueSink()
    follower = LogFollower(connection, target, options, sink, fresh_random())
    # Not a TaskGroup: the consumer may resume a generator in another task than the one that began it.
    following = asyncio.create_task(follower.run())
    following.add_done_callback(lambda _: sink.finish())
    try:
        while (record := await sink.take()) is not None:
            yield _to_line(record)
        await following
    finally:
        following.cancel()
        await asyncio.wait([following])


def _to_line(record: LogRecord) -> PodLogLine:
    return PodLogLine(
        pod=record.run.pod, container=record.run.container, text=record.text, written_at=record.written_at
    )


class _QueueSink:
    """A sink whose lines another task takes. The followed logs wait for it when it is full."""

    def __init__(self) -> None:
        self._records: asyncio.Queue[LogRecord] = asyncio.Queue(WAITING_LINES)
        self._is_finished = False
        self._arrived = asyncio.Event()

    async def write(self, record: LogRecord) -> None:
        await self._records.put(record)
        self._arrived.set()

    def start(self, run: ContainerRun) -> None:
        pass

    def end(self, run: ContainerRun) -> None:
        pass

    def warn(self, text: str) -> None:
        warnings.warn(text, stacklevel=2)

    def finish(self) -> None:
        self._is_finished = True
        self._arrived.set()

    async def take(self) -> LogRecord | None:
        """Return the next record, or None if there are no more."""
        while self._records.empty():
            if self._is_finished:
                return None
            self._arrived.clear()
            await self._arrived.wait()
        return self._records.get_nowait()

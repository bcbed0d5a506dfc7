"""Follow the logs of all pods of an object: of those that exist, and of those that appear later."""

import asyncio
from random import Random
from typing import Any, Protocol

from grove.api.resources import PODS, Resource
from grove.api.types.pod import Pod
from grove.api.types.podcliqueset import PodCliqueSet, SetPhase
from grove.kube.api_errors import ApiError
from grove.kube.reflector import Reflector
from grove.kube.store import Store
from grove.operations.connection import Connection
from grove.operations.logs.log_reader import ContainerRun, LogRecord, LogSelection, list_runs, parse_line
from grove.operations.logs.log_targets import LogTarget

# Each followed log is one connection to the API server.
MAX_STREAMS = 200
RETRY_SECONDS = 1.0


class LogSink(Protocol):
    """An output for the lines of several logs. A sink that waits slows the reading down."""

    async def write(self, record: LogRecord) -> None: ...

    def start(self, run: ContainerRun) -> None:
        """Report that a log begins."""

    def end(self, run: ContainerRun) -> None:
        """Report that a log has ended."""

    def warn(self, text: str) -> None:
        """Report why some logs are not followed."""


class LogFollower:
    """A follower of all runs of containers, each by a stream of its own.

    A run that began before the command is read as the options say; a later one is read whole. It ends when the object
    was deleted, or a training set is finished, and every log has ended.
    """

    def __init__(
        self, connection: Connection, target: LogTarget, options: LogSelection, sink: LogSink, random: Random
    ) -> None:
        self._connection = connection
        self._target = target
        self._options = options
        self._sink = sink
        self._random = random
        self._changed = asyncio.Event()
        self._pods: Store[Pod] = Store()
        self._owners: Store[Any] = Store()
        self._seen: set[tuple[str, str, int]] = set()
        self._active = 0
        self._has_warned = False

    async def run(self) -> None:
        reflectors = [self._reflector(PODS, self._pods, label_selector=self._target.selector)]
        if self._target.owner is not None:
            by_name = f"metadata.name={self._target.ref.name}"
            reflectors.append(self._reflector(self._target.owner, self._owners, field_selector=by_name))
        async with asyncio.TaskGroup() as tasks:
            watching = [tasks.create_task(reflector.run()) for reflector in reflectors]
            for reflector in reflectors:
                await reflector.listed.wait()
            await self._follow_until_over(tasks)
            for task in watching:
                task.cancel()

    def _reflector(
        self, resource: Resource[Any], store: Store[Any], *, label_selector: str = "", field_selector: str = ""
    ) -> Reflector[Any]:
        store.subscribe(lambda *_: self._changed.set())
        connection = self._connection
        return Reflector(
            connection.client,
            resource,
            store,
            connection.clock,
            self._random,
            namespace=connection.namespace,
            label_selector=label_selector,
            field_selector=field_selector,
        )

    async def _follow_until_over(self, tasks: asyncio.TaskGroup) -> None:
        is_first = True
        while True:
            self._changed.clear()
            for run in self._new_runs():
                query = self._options.query() if is_first else {}
                self._active += 1
                tasks.create_task(self._follow_run(run, query))
            if self._is_over():
                return
            is_first = False
            await self._changed.wait()

    def _new_runs(self) -> list[ContainerRun]:
        """Return runs that are not followed yet, as many as there are streams left."""
        runs = [run for run in list_runs(self._pods.values(), self._options) if _key(run) not in self._seen]
        chosen = runs[: MAX_STREAMS - self._active]
        if len(chosen) < len(runs) and not self._has_warned:
            self._has_warned = True
            self._sink.warn(
                f"following {MAX_STREAMS} of {self._active + len(runs)} logs of {self._target.ref}; "
                "name a smaller object, such as pclq/NAME, or one container with -c"
            )
        self._seen.update(map(_key, chosen))
        return chosen

    def _is_over(self) -> bool:
        if self._active or self._target.owner is None:
            return False
        owner = next(iter(self._owners.values()), None)
        if owner is None:
            return True
        return isinstance(owner, PodCliqueSet) and owner.status.phase in (SetPhase.SUCCEEDED, SetPhase.FAILED)

    async def _follow_run(self, run: ContainerRun, query: dict[str, str]) -> None:
        self._sink.start(run)
        stream = _RunStream(self._connection, run, self._sink)
        while await stream.read(query) and self._is_running(run):
            # The connection broke; the container still runs.
            await self._connection.clock.sleep(RETRY_SECONDS)
        self._sink.end(run)
        self._active -= 1
        self._changed.set()

    def _is_running(self, run: ContainerRun) -> bool:
        for pod in self._pods.values():
            if pod.metadata.uid == run.uid:
                statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
                found = [status for status in statuses if status.name == run.container]
                return any(one.restart_count == run.restarts and one.state.running is not None for one in found)
        return False


def _key(run: ContainerRun) -> tuple[str, str, int]:
    return run.uid, run.container, run.restarts


class _RunStream:
    """The log of one run. After a broken connection it continues with the first line that was not printed."""

    def __init__(self, connection: Connection, run: ContainerRun, sink: LogSink) -> None:
        self._connection = connection
        self._run = run
        self._sink = sink
        self._last_time = ""
        # Lines that were printed with the last time.
        self._printed = 0

    async def read(self, query: dict[str, str]) -> bool:
        """Print lines until the stream ends. Return whether it may be opened again."""
        since = {"sinceTime": self._last_time} if self._last_time else query
        skipped, last_time = self._printed, self._last_time
        try:
            async with self._connection.transport.stream(self._run.request({"follow": "true"} | since)) as lines:
                async for line in lines:
                    record = parse_line(self._run, line.decode(errors="replace"))
                    if record.written_at < last_time or (record.written_at == last_time and skipped > 0):
                        skipped -= record.written_at == last_time
                        continue
                    self._printed = self._printed + 1 if record.written_at == self._last_time else 1
                    self._last_time = record.written_at
                    await self._sink.write(record)
        except ApiError as error:
            return error.code not in (400, 403, 404)
        return True

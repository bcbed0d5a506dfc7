"""Read the logs of several pods once, and merge their lines by time."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from grove.api.resources import PODS
from grove.api.types.pod import ContainerStatus, Pod
from grove.kube.api_errors import ApiError
from grove.kube.response_decoding import check
from grove.kube.transport import Request
from grove.operations.connection import Connection
from grove.operations.logs.log_targets import host_of

CONCURRENT_READS = 16
# Lines of each container, if several pods are read and the user does not say how many.
DEFAULT_TAIL = 10


class LogSelection(msgspec.Struct, frozen=True, kw_only=True):
    """What to read of each log."""

    # Empty: all containers.
    container: str = ""
    # None: all lines.
    tail: int | None = None
    since_seconds: int | None = None
    is_previous: bool = False

    def query(self) -> dict[str, str]:
        numbers = {"tailLines": self.tail, "sinceSeconds": self.since_seconds}
        found = {key: str(number) for key, number in numbers.items() if number is not None}
        return found | ({"previous": "true"} if self.is_previous else {})


class ContainerRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a container of a pod. A restart is another run."""

    namespace: str
    pod: str
    uid: str
    host: str
    container: str
    restarts: int
    # Whether it is the only container of its pod.
    is_alone: bool

    @property
    def label(self) -> str:
        return self.pod if self.is_alone else f"{self.pod}/{self.container}"

    def request(self, query: dict[str, str]) -> Request:
        every = {"container": self.container, "timestamps": "true"}
        return Request(method="GET", path=PODS.path(self.namespace, self.pod, "log"), query=every | query)


class LogRecord(msgspec.Struct, frozen=True, kw_only=True):
    run: ContainerRun
    written_at: str
    text: str

    def to_json(self) -> dict[str, str]:
        return {"pod": self.run.pod, "container": self.run.container, "line": self.text, "at": self.written_at}


def list_runs(pods: Iterable[Pod], options: LogSelection) -> list[ContainerRun]:
    """Return the runs that have a log: containers that started, or with `--previous` that were restarted."""
    return [
        ContainerRun(
            namespace=pod.metadata.namespace,
            pod=pod.metadata.name,
            uid=pod.metadata.uid,
            host=host_of(pod),
            container=status.name,
            restarts=status.restart_count,
            is_alone=len(statuses) == 1,
        )
        for pod in sorted(pods, key=_sort_key)
        for statuses in [(*pod.status.init_container_statuses, *pod.status.container_statuses)]
        for status in statuses
        if options.container in ("", status.name) and _has_log(status, options)
    ]


def _sort_key(pod: Pod) -> tuple[str, str]:
    return host_of(pod), pod.metadata.name


def _has_log(status: ContainerStatus, options: LogSelection) -> bool:
    if options.is_previous:
        return status.last_state.terminated is not None
    return any((status.state.running, status.state.terminated, status.last_state.terminated))


async def read_all(connection: Connection, runs: Sequence[ContainerRun], options: LogSelection) -> list[LogRecord]:
    """Return the lines of all runs by time. A log that is gone meanwhile has no lines."""
    slots = asyncio.Semaphore(CONCURRENT_READS)

    async def read(run: ContainerRun) -> list[LogRecord]:
        request = run.request(options.query())
        async with slots:
            response = await connection.transport.send(request)
        try:
            check(request, response)
        except ApiError as error:
            if error.code in (400, 404):
                return []
            raise
        return list(parse_lines(run, response.body.decode(errors="replace")))

    logs = await asyncio.gather(*map(read, runs))
    # Stable: lines of the same time stay in the order of their logs.
    return sorted((record for log in logs for record in log), key=lambda record: record.written_at)


def parse_lines(run: ContainerRun, text: str) -> Iterator[LogRecord]:
    for line in text.removesuffix("\n").split("\n") if text else ():
        yield parse_line(run, line)


def parse_line(run: ContainerRun, line: str) -> LogRecord:
    """Split a line into its time and its text."""
    written_at, _, text = line.partition(" ")
    return LogRecord(run=run, written_at=written_at, text=text)

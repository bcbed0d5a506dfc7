"""The logs of containers that run as processes: which run's is meant, and following it. Written in
`container_log.py`."""

from collections.abc import Callable

from grove.api.types.meta import JsonObject
from grove.cluster.apiserver.codec.lenient_json import part
from grove.cluster.apiserver.verbs.logs import LogLine, LogTail, container_status
from grove.cluster.kubelet.process.container_log import RunLog


class ProcessLogs:
    """A `LogSource`. Runs are known by the id that the container has in its status while, or after, they run."""

    def __init__(self) -> None:
        self._logs: dict[str, RunLog] = {}

    def keep(self, container_id: str, log: RunLog) -> None:
        self._logs[container_id] = log

    def drop(self, container_id: str) -> None:
        log = self._logs.pop(container_id, None)
        if log is not None:
            log.remove()

    def close(self) -> None:
        """Nobody writes any more."""
        for log in self._logs.values():
            log.close()

    def lines(self, pod: JsonObject, container: str, state: JsonObject) -> tuple[LogLine, ...]:
        log = self._log(pod, container, state)
        return () if log is None else log.lines_from(0)[0]

    def follow(self, pod: JsonObject, container: str, state: JsonObject, wake: Callable[[], None]) -> LogTail | None:
        log = self._log(pod, container, state)
        return None if log is None else _Tail(log, wake)

    def _log(self, pod: JsonObject, container: str, state: JsonObject) -> RunLog | None:
        ended = part(state.get("terminated"))
        container_id = ended.get("containerID") or container_status(pod, container).get("containerID") or ""
        return self._logs.get(container_id)


class _Tail:
    def __init__(self, log: RunLog, wake: Callable[[], None]) -> None:
        self._log = log
        self._place = 0
        log.subscribe(self, wake)

    def news(self) -> tuple[LogLine, ...]:
        lines, self._place = self._log.lines_from(self._place)
        return lines

    def close(self) -> None:
        self._log.unsubscribe(self)

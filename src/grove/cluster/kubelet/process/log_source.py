"""Logs of containers that run as processes: finds the log of a run and follows it. `container_log.py` writes it."""

from collections.abc import Callable

from grove.api.types.meta import JsonObject
from grove.cluster.apiserver.codec.lenient_json import part
from grove.cluster.apiserver.verbs.logs import LogLine, LogTail, container_status
from grove.cluster.kubelet.process.container_log import ContainerLog


class ProcessLogs:
    """A `LogSource` for processes. It identifies a run by the container id in the status of the pod."""

    def __init__(self) -> None:
        self._logs: dict[str, ContainerLog] = {}

    def keep(self, container_id: str, log: ContainerLog) -> None:
        self._logs[container_id] = log

    def drop(self, container_id: str) -> None:
        log = self._logs.pop(container_id, None)
        if log is not None:
            log.remove()

    def close(self) -> None:
        """Close all logs: all writers have ended."""
        for log in self._logs.values():
            log.close()

    def lines(self, pod: JsonObject, container: str, state: JsonObject) -> tuple[LogLine, ...]:
        log = self._log(pod, container, state)
        return () if log is None else log.lines_from(0)[0]

    def follow(self, pod: JsonObject, container: str, state: JsonObject, wake: Callable[[], None]) -> LogTail | None:
        log = self._log(pod, container, state)
        return None if log is None else _Tail(log, wake)

    def _log(self, pod: JsonObject, container: str, state: JsonObject) -> ContainerLog | None:
        ended = part(state.get("terminated"))
        container_id = ended.get("containerID") or container_status(pod, container).get("containerID") or ""
        return self._logs.get(container_id)


class _Tail:
    def __init__(self, log: ContainerLog, wake: Callable[[], None]) -> None:
        self._log = log
        self._offset = 0
        log.subscribe(self, wake)

    def new_lines(self) -> tuple[LogLine, ...]:
        lines, self._offset = self._log.lines_from(self._offset)
        return lines

    def close(self) -> None:
        self._log.unsubscribe(self)

"""GET pods/NAME/log with follow=true: streams the log of a container. Other log requests: `logs.py`."""

from collections import Counter, deque

from grove.api.types.meta import JsonObject
from grove.cluster.apiserver.codec.bool_params import is_on
from grove.cluster.apiserver.codec.lenient_json import part
from grove.cluster.apiserver.context import Context
from grove.cluster.apiserver.request_info import RequestInfo
from grove.cluster.apiserver.verbs.change_waiter import ChangeWaiter
from grove.cluster.apiserver.verbs.logs import (
    TEXT,
    LogLine,
    LogSource,
    choose_container,
    choose_run,
    container_status,
    has_node,
    read_log_options,
)
from grove.cluster.apiserver.verbs.read import find_entry
from grove.cluster.built_in_resources import PODS
from grove.kube.transport import Request


def is_followed_log(request: Request) -> bool:
    return request.method == "GET" and is_on(request.query, "follow") and request.path.endswith("/log")


class LogStream:
    """An async iterator of the lines of one run of one container, until the run ends or the stream is closed.

    The stream checks the pod whenever a pod changes, so a log source must write the pod's status after its last line. A
    source with a `LogTail` also wakes the stream in between.
    """

    headers = TEXT

    def __init__(self, context: Context, target: RequestInfo, request: Request, source: LogSource) -> None:
        """Open the stream. Raises `StatusError`."""
        self._table = context.store.table(PODS)
        self._target = target
        self._source = source
        self._last_entry = find_entry(context, target)
        pod = self._last_entry.obj
        self._uid = pod["metadata"]["uid"]
        self._options = read_log_options(context, target, request)
        self._container = choose_container(pod, self._options.container)
        is_bound = has_node(pod)
        state = choose_run(pod, self._container, self._options) if is_bound else {}
        self._started_at = _started_at(state)
        self._restarts = _restarts(pod, self._container)
        self._waiter = ChangeWaiter(self._table)
        # Without a tail, new lines are found by comparing with the known ones.
        self._tail = source.follow(pod, self._container, state, self._waiter.wake) if is_bound else None
        if self._tail is not None:
            lines = self._tail.new_lines()
        else:
            lines = source.lines(pod, self._container, state) if is_bound else ()
        # Lines of the run that were already processed, sent or not.
        self._seen_lines = Counter(() if self._tail else lines)
        self._budget = self._options.limit
        self._lines: deque[bytes] = deque()
        self._is_over = "running" not in state
        self._append_lines(self._options.select(lines))

    def __aiter__(self) -> "LogStream":
        return self

    async def __anext__(self) -> bytes:
        while True:
            if not self._lines and not self._is_over:
                self._read_new_lines()
            if self._lines:
                return self._lines.popleft()
            if self._is_over:
                self.close()
                raise StopAsyncIteration
            await self._waiter.wait()

    async def batch(self) -> list[bytes]:
        """Wait for a line, and return all that are available. Return an empty list at the end of the stream."""
        try:
            lines = [await anext(self)]
        except StopAsyncIteration:
            return []
        lines += self._lines
        self._lines.clear()
        return lines

    def close(self) -> None:
        self._is_over = True
        self._lines.clear()
        if self._tail is not None:
            self._tail.close()
        self._waiter.close()

    def _read_new_lines(self) -> None:
        """Add the new lines of the run. A deleted pod or a restarted container ends the stream."""
        entry = self._table.find(self._target.namespace, self._target.name)
        if entry is None or entry.obj["metadata"]["uid"] != self._uid:
            self._append_lines(() if self._tail is None else self._tail.new_lines())
            self._is_over = True
            return
        if self._tail is not None:
            # The last lines are written before the status with the end of the run.
            self._append_lines(self._tail.new_lines())
            self._is_over |= "running" not in self._find_run(entry.obj)
            return
        if entry is self._last_entry:
            return
        self._last_entry = entry
        state = self._find_run(entry.obj)
        if state:
            self._append_lines(self._select_new_lines(self._source.lines(entry.obj, self._container, state)))
        self._is_over |= "running" not in state

    def _select_new_lines(self, lines: tuple[LogLine, ...]) -> tuple[LogLine, ...]:
        left = self._seen_lines.copy()
        new_lines = []
        for line in lines:
            left[line] -= 1
            if left[line] < 0:
                new_lines.append(line)
        self._seen_lines.update(new_lines)
        return tuple(new_lines)

    def _find_run(self, pod: JsonObject) -> JsonObject:
        """Return the container state of the followed run; empty if the status no longer has it."""
        status = container_status(pod, self._container)
        state, last = part(status.get("state")), part(status.get("lastState"))
        # Times are whole seconds, so two runs of the same second differ only in the restart count.
        if _started_at(state) == self._started_at and _restarts(pod, self._container) == self._restarts:
            return state
        return last if _started_at(last) == self._started_at else {}

    def _append_lines(self, lines: tuple[LogLine, ...]) -> None:
        for line in lines:
            text = self._options.format_line(line).encode()
            if self._budget is not None:
                # The newline counts too.
                text, self._budget = text[: self._budget], self._budget - len(text) - 1
                self._is_over |= self._budget <= 0
            self._lines.append(text)
            if self._is_over and self._budget is not None:
                return


def _restarts(pod: JsonObject, container: str) -> object:
    return container_status(pod, container).get("restartCount", 0)


def _started_at(state: JsonObject) -> object:
    return next((found for name in ("running", "terminated") if (found := part(state.get(name)).get("startedAt"))), "")

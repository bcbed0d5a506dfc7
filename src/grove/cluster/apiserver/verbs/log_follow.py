"""GET pods/NAME/log with follow=true: streams the log of a container. Other log requests: `logs.py`."""

import asyncio
from collections import Counter, deque

from grove.api.types.meta import JsonObject
from grove.cluster.apiserver.codec.bool_params import is_on
from grove.cluster.apiserver.codec.lenient_json import part
from grove.cluster.apiserver.context import Context
from grove.cluster.apiserver.request_info import RequestInfo
from grove.cluster.apiserver.verbs.logs import (
    TEXT,
    LogLine,
    LogSource,
    chosen_container,
    chosen_run,
    container_status,
    is_somewhere,
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
        """Raises `StatusError`."""
        self._table = context.store.table(PODS)
        self._target = target
        self._source = source
        self._looked_at = find_entry(context, target)
        pod = self._looked_at.obj
        self._uid = pod["metadata"]["uid"]
        self._options = read_log_options(context, target, request)
        self._container = chosen_container(pod, self._options.container)
        is_anywhere = is_somewhere(pod)
        state = chosen_run(pod, self._container, self._options) if is_anywhere else {}
        self._started_at = _started_at(state)
        self._restarts = _restarts(pod, self._container)
        # Without a tail, new lines are found by comparing with the known ones.
        self._tail = source.follow(pod, self._container, state, self._wake) if is_anywhere else None
        self._waiter: asyncio.Future[None] | None = None
        if self._tail is not None:
            written = self._tail.news()
        else:
            written = source.lines(pod, self._container, state) if is_anywhere else ()
        # Lines of the run that were already processed, sent or not.
        self._known = Counter(() if self._tail else written)
        self._budget = self._options.limit
        self._lines: deque[bytes] = deque()
        self._is_over = "running" not in state
        self._add(self._options.selected(written))

    def __aiter__(self) -> "LogStream":
        return self

    async def __anext__(self) -> bytes:
        while True:
            if not self._lines and not self._is_over:
                self._look()
            if self._lines:
                return self._lines.popleft()
            if self._is_over:
                self.close()
                raise StopAsyncIteration
            await self._change()

    async def batch(self) -> list[bytes]:
        """Return all available lines, at least one; empty at the end of the stream."""
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
        self._table.stop_waking(self)
        if self._tail is not None:
            self._tail.close()
        self._wake()

    def _look(self) -> None:
        """Add the new lines of the run. A deleted pod or a restarted container ends the stream."""
        entry = self._table.find(self._target.namespace, self._target.name)
        if entry is None or entry.obj["metadata"]["uid"] != self._uid:
            self._add(() if self._tail is None else self._tail.news())
            self._is_over = True
            return
        if self._tail is not None:
            # The last lines are written before the status with the end of the run.
            self._add(self._tail.news())
            self._is_over |= "running" not in self._run_in(entry.obj)
            return
        if entry is self._looked_at:
            return
        self._looked_at = entry
        state = self._run_in(entry.obj)
        if state:
            self._add(self._news(self._source.lines(entry.obj, self._container, state)))
        self._is_over |= "running" not in state

    def _news(self, lines: tuple[LogLine, ...]) -> tuple[LogLine, ...]:
        left = self._known.copy()
        news = []
        for line in lines:
            left[line] -= 1
            if left[line] < 0:
                news.append(line)
        self._known.update(news)
        return tuple(news)

    def _run_in(self, pod: JsonObject) -> JsonObject:
        """Return the container state of the followed run; empty if the status no longer has it."""
        status = container_status(pod, self._container)
        state, last = part(status.get("state")), part(status.get("lastState"))
        # Times are whole seconds, so two runs of the same second differ only in the restart count.
        if _started_at(state) == self._started_at and _restarts(pod, self._container) == self._restarts:
            return state
        return last if _started_at(last) == self._started_at else {}

    def _add(self, lines: tuple[LogLine, ...]) -> None:
        for line in lines:
            text = self._options.shown(line).encode()
            if self._budget is not None:
                # The newline counts too.
                text, self._budget = text[: self._budget], self._budget - len(text) - 1
                self._is_over |= self._budget <= 0
            self._lines.append(text)
            if self._is_over and self._budget is not None:
                return

    async def _change(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        self._table.wake_on_change(self, self._wake)
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _restarts(pod: JsonObject, container: str) -> object:
    return container_status(pod, container).get("restartCount", 0)


def _started_at(state: JsonObject) -> object:
    return next((found for name in ("running", "terminated") if (found := part(state.get(name)).get("startedAt"))), "")

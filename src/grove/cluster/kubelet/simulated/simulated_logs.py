"""Logs of simulated containers: start, readiness and exit, derived from the pod status."""

from collections.abc import Callable, Iterator

from grove.api.types.meta import JsonObject
from grove.cluster.apiserver.codec.lenient_json import items, part
from grove.cluster.apiserver.verbs.logs import LogLine, container_status


class SimulatedLogs:
    """A `LogSource` without memory: it shows only what the current status contains."""

    def lines(self, pod: JsonObject, container: str, state: JsonObject) -> tuple[LogLine, ...]:
        lines = [*_run(container, state)]
        if "running" in state and container_status(pod, container).get("ready"):
            lines += _readiness(container, part(pod.get("status")))
        # A stable sort keeps the order of events of the same second.
        return tuple(sorted(lines, key=lambda line: line.written_at))

    def follow(self, pod: JsonObject, container: str, state: JsonObject, wake: Callable[[], None]) -> None:
        """Follow nothing: the log changes only with the pod status."""


def _run(container: str, state: JsonObject) -> Iterator[LogLine]:
    for name in ("running", "terminated"):
        if started_at := part(state.get(name)).get("startedAt"):
            yield LogLine(str(started_at), f"container {container} started (simulated: no process runs)")
    ended = part(state.get("terminated"))
    if finished_at := ended.get("finishedAt"):
        yield LogLine(str(finished_at), f"container {container} ended with exit code {ended.get('exitCode', 0)}")


def _readiness(container: str, status: JsonObject) -> Iterator[LogLine]:
    for condition in items(status.get("conditions")):
        if condition.get("type") == "Ready" and condition.get("status") == "True":
            yield LogLine(str(condition.get("lastTransitionTime")), f"container {container} is ready")

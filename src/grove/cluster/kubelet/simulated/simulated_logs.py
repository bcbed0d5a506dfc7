"""Logs of simulated containers. No process runs, so none writes: each container's log is its life, from its status."""

from collections.abc import Callable, Iterator

from grove.api.types.meta import JsonObject
from grove.cluster.apiserver.codec.lenient_json import items, part
from grove.cluster.apiserver.verbs.logs import LogLine, container_status


class SimulatedLogs:
    """A `LogSource`. It remembers nothing: what the status no longer says is not in the log either."""

    def lines(self, pod: JsonObject, container: str, state: JsonObject) -> tuple[LogLine, ...]:
        lines = [*_run(container, state)]
        if "running" in state and container_status(pod, container).get("ready"):
            lines += _readiness(container, part(pod.get("status")))
        # Stable: what happened in the same second stays in the order of the story.
        return tuple(sorted(lines, key=lambda line: line.written_at))

    def follow(self, pod: JsonObject, container: str, state: JsonObject, wake: Callable[[], None]) -> None:
        """Nothing is written but what the pod's status says."""


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

"""Record what pods of an embedded cluster write, how their containers end, and the status of their sets.

The recorder subscribes to the store itself, so it gets every change once and in order, and keeps the output of deleted
pods. `view.py` renders it.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import msgspec

from grove.api import labels
from grove.api.reasons import EventReason
from grove.api.resources import PODCLIQUES, PODCLIQUESETS, PODGANGS
from grove.api.types.meta import JsonObject, Uid, WireStruct
from grove.api.types.pod import ContainerStatus, Pod, TerminatedState
from grove.api.types.podclique import PodClique
from grove.api.types.podcliqueset import PodCliqueSet
from grove.cluster.apiserver.codec.lenient_json import items, part
from grove.cluster.apiserver.verbs.logs import LogLine, LogSource, LogTail, container_status
from grove.cluster.built_in_resources import EVENTS, PODS
from grove.cluster.storage.store import Change, ChangeType
from grove.operations.object_ref import KINDS
from grove.planner.teardown.recreation import count_of

# Number of lines that are kept of a failed container.
LAST_LINES = 10
# Further failures usually have the same cause.
MAX_FAILURES = 100

_LATE = datetime.max.replace(tzinfo=UTC)
_STARTING = ("", "ContainerCreating", "PodInitializing")
_SHOWN_KINDS = (PODCLIQUESETS.kind, PODGANGS.kind)
_SHOWN_REASONS = (EventReason.REPLICA_RESTARTING,)
# Other events give the reason of a teardown, and phases show it. Why a set failed is printed with its condition.
_HIDDEN_REASONS = (
    EventReason.REPLICA_DELETED, EventReason.MAX_RESTARTS_EXCEEDED, EventReason.MAX_RUNTIME_EXCEEDED
)  # fmt: skip


class SetKey(WireStruct):
    namespace: str
    name: str


class PodContainer(WireStruct):
    """A container of a pod."""

    pod: str
    container: str
    # The hostname of the pod. Its successors have the same.
    host: str
    is_alone: bool

    def __str__(self) -> str:
        return self.pod if self.is_alone else f"{self.pod}/{self.container}"


class PodLine(WireStruct):
    origin: PodContainer
    written_at: str
    text: str
    # A remark about the container, not a line of its log.
    is_remark: bool = False


class RunEvent(WireStruct):
    """An event that matters to the owner of a set."""

    # KIND/NAME, as `grove why` takes it.
    about: str
    reason: str
    message: str
    at: datetime | None = None


OutputItem = PodLine | RunEvent


class ContainerFailure(WireStruct):
    """A container that exited with an error, or a failed pod, that was not being deleted."""

    of_set: SetKey
    # The pod; the container too, if it is not the only one.
    where: str
    pod: str
    # The attempt of its replica; the first is 1.
    attempt: int
    container: str = ""
    # None if the pod failed as a whole.
    exit_code: int | None = None
    reason: str = ""
    at: datetime | None = None
    last_lines: tuple[str, ...] = ()


class _Involved(WireStruct):
    kind: str = ""
    name: str = ""


class _Event(WireStruct):
    involved_object: _Involved = _Involved()
    reason: str = ""
    message: str = ""
    type: str = "Normal"
    last_timestamp: datetime | None = None


class RunRecorder:
    """A recorder of pods and sets. Subscribe `observe` to the store; it calls `emit` at once. Neither may write."""

    def __init__(self, source: LogSource, emit: Callable[[OutputItem], None]) -> None:
        self._source = source
        self._emit = emit
        self._runs: dict[Uid, dict[str, _ContainerRun]] = {}
        # The last remark of each container of a clique.
        self._remarks: dict[tuple[str, str, str], str] = {}
        self._failed: dict[Uid, None] = {}
        self.sets: dict[SetKey, PodCliqueSet] = {}
        self._failures: list[ContainerFailure] = []
        # The pods that the operator reported as the first that failed.
        self._reported: dict[str, None] = {}
        self.changed = asyncio.Event()
        """Set when a set was added, removed or has another status."""

    @property
    def failures(self) -> list[ContainerFailure]:
        """The failures by attempt. The first of an attempt is the one that the operator reported, if it reported one.

        Times are whole seconds, so the order of pods that fail together is not known.
        """
        return sorted(
            self._failures, key=lambda one: (one.attempt, one.pod not in self._reported, one.at or _LATE, one.pod)
        )

    def observe(self, change: Change) -> None:
        if change.resource_info is PODS:
            self._observe_pod(change.entry.obj, msgspec.json.decode(change.entry.data, type=Pod))
            if change.type is ChangeType.DELETED:
                self._forget(Uid(change.entry.obj["metadata"]["uid"]))
        elif change.resource_info is EVENTS:
            if change.type is ChangeType.ADDED:
                self._observe_event(msgspec.json.decode(change.entry.data, type=_Event))
        elif change.resource_info.qualified == PODCLIQUES.full_name:
            failure = msgspec.json.decode(change.entry.data, type=PodClique).status.first_failure
            self._reported.update({failure.pod: None} if failure is not None else {})
        elif change.resource_info.qualified == PODCLIQUESETS.full_name:
            key = SetKey(namespace=change.entry.namespace, name=change.entry.name)
            if change.type is ChangeType.DELETED:
                self.sets.pop(key, None)
            else:
                self.sets[key] = msgspec.json.decode(change.entry.data, type=PodCliqueSet)
            self.changed.set()

    def _observe_pod(self, raw: JsonObject, pod: Pod) -> None:
        for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
            origin = _container_of(raw, status)
            for state, ended in _runs_in(raw, status):
                self._observe_run(raw, pod, origin, state, ended)
            self._observe_waiting(pod, origin, status)
        if pod.is_failed and not pod.metadata.is_terminating:
            self._record_failure(pod, _build_failure(pod, pod.metadata.name, reason=pod.status.reason))

    def _observe_run(
        self, raw: JsonObject, pod: Pod, origin: PodContainer, state: JsonObject, ended: TerminatedState | None
    ) -> None:
        runs = self._runs.setdefault(pod.metadata.uid, {})
        run_id = f"{origin.container} {_run_id(raw, origin.container, state)}"
        run = runs.get(run_id)
        if run is None:
            run = runs[run_id] = _ContainerRun(self._source, raw, origin, state, self._emit)
        if run.is_over:
            return
        run.read(raw, state)
        if ended is None:
            return
        run.close()
        # Exit codes of pods that were being deleted are not failures.
        if ended.exit_code and not pod.metadata.is_terminating:
            self._emit_remark(origin, f"ended with exit code {ended.exit_code}")
            failure = _build_failure(
                pod,
                str(origin),
                container=origin.container,
                exit_code=ended.exit_code,
                reason=ended.reason,
                at=ended.finished_at,
                last_lines=tuple(run.last_lines),
            )
            self._record_failure(pod, failure)

    def _record_failure(self, pod: Pod, failure: ContainerFailure) -> None:
        if failure.exit_code is None and pod.metadata.uid in self._failed:
            return
        self._failed[pod.metadata.uid] = None
        if len(self._failures) < MAX_FAILURES:
            self._failures.append(failure)

    def _observe_waiting(self, pod: Pod, origin: PodContainer, status: ContainerStatus) -> None:
        """Emit why a container cannot start, because it has no log."""
        waiting = status.state.waiting
        remark = "" if waiting is None or waiting.reason in _STARTING else f"{waiting.reason}: {waiting.message}"
        # Pods of one clique cannot start for the same reason: it is printed once.
        key = (pod.metadata.namespace, pod.metadata.labels.get(labels.PODCLIQUE, ""), origin.container)
        if remark and self._remarks.get(key) != remark:
            self._remarks[key] = remark
            self._emit_remark(origin, remark)

    def _emit_remark(self, origin: PodContainer, text: str) -> None:
        self._emit(PodLine(origin=origin, written_at="", text=text, is_remark=True))

    def _observe_event(self, event: _Event) -> None:
        """Emit warnings and restarts of sets and gangs. Pods and cliques are covered by their containers."""
        kind, reason = event.involved_object.kind, event.reason
        is_warning = event.type == "Warning" and reason not in _HIDDEN_REASONS
        if kind in _SHOWN_KINDS and (is_warning or reason in _SHOWN_REASONS):
            about = f"{KINDS[kind.lower()][0]}/{event.involved_object.name}"
            self._emit(RunEvent(about=about, reason=event.reason, message=event.message, at=event.last_timestamp))

    def _forget(self, uid: Uid) -> None:
        for run in self._runs.pop(uid, {}).values():
            run.close()
        self._failed.pop(uid, None)


class _ContainerRun:
    """One run of a container, from its first line to its last."""

    def __init__(
        self,
        source: LogSource,
        pod: JsonObject,
        origin: PodContainer,
        state: JsonObject,
        emit: Callable[[OutputItem], None],
    ) -> None:
        self._source = source
        self._origin = origin
        self._emit = emit
        self.last_lines: deque[str] = deque(maxlen=LAST_LINES)
        self.is_over = False
        # Lines that were emitted, for a source that returns only the whole log.
        self._emitted: Counter[LogLine] = Counter()
        # Read at once: the files of the pod may be deleted a moment later.
        self._tail: LogTail | None = source.follow(pod, origin.container, state, self._read_tail)

    def read(self, pod: JsonObject, state: JsonObject) -> None:
        if self._tail is not None:
            self._read_tail()
            return
        left = self._emitted.copy()
        for line in self._source.lines(pod, self._origin.container, state):
            left[line] -= 1
            if left[line] < 0:
                self._emitted[line] += 1
                self._emit_line(line)

    def close(self) -> None:
        if self._tail is not None and not self.is_over:
            self._read_tail()
            self._tail.close()
        self.is_over = True

    def _read_tail(self) -> None:
        if self._tail is not None and not self.is_over:
            for line in self._tail.new_lines():
                self._emit_line(line)

    def _emit_line(self, line: LogLine) -> None:
        self.last_lines.append(line.text)
        self._emit(PodLine(origin=self._origin, written_at=line.written_at, text=line.text))


def _build_failure(
    pod: Pod,
    where: str,
    *,
    container: str = "",
    exit_code: int | None = None,
    reason: str = "",
    at: datetime | None = None,
    last_lines: tuple[str, ...] = (),
) -> ContainerFailure:
    metadata = pod.metadata
    return ContainerFailure(
        of_set=SetKey(namespace=metadata.namespace, name=metadata.labels.get(labels.PART_OF, "")),
        where=where,
        pod=metadata.name,
        attempt=count_of(metadata.labels.get(labels.INCARNATION, "")) + 1,
        container=container,
        exit_code=exit_code,
        reason=reason,
        at=at,
        last_lines=last_lines,
    )


def _container_of(pod: JsonObject, status: ContainerStatus) -> PodContainer:
    spec = pod["spec"]
    others = len(items(spec.get("containers"))) + len(items(spec.get("initContainers"))) - 1
    name = str(pod["metadata"]["name"])
    return PodContainer(
        pod=name, container=status.name, host=str(spec.get("hostname") or name), is_alone=others == 0
    )  # fmt: skip


def _runs_in(pod: JsonObject, status: ContainerStatus) -> Iterator[tuple[JsonObject, TerminatedState | None]]:
    """Yield the runs in a container's status, oldest first, each with its termination."""
    raw = container_status(pod, status.name)
    if status.last_state.terminated is not None:
        yield part(raw.get("lastState")), status.last_state.terminated
    if status.state.running is not None or status.state.terminated is not None:
        yield part(raw.get("state")), status.state.terminated


def _run_id(pod: JsonObject, container: str, state: JsonObject) -> str:
    """Return an id of a run that is stable while the status contains it: container id and start time."""
    ended, running = part(state.get("terminated")), part(state.get("running"))
    number = ended.get("containerID") or container_status(pod, container).get("containerID") or ""
    return f"{number} {ended.get('startedAt') or running.get('startedAt') or ''}"

"""A recorder of the pods of some sets while a store changes: the history of each pod, and when it was ready.

It records facts in order; `prediction.py` interprets them.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from grove.api import labels
from grove.api.resources import AUTOSCALERS, GROUPS, PODCLIQUES, PODCLIQUESETS, PODGANGS, PODS, SERVICES, Resource
from grove.api.types.horizontalpodautoscaler import HorizontalPodAutoscaler
from grove.api.types.meta import Condition, HasMetadata, NamespacedName, Uid, find_condition
from grove.api.types.pod import Pod
from grove.api.types.podclique import PodClique
from grove.api.types.podcliquescalinggroup import PodCliqueScalingGroup
from grove.api.types.podcliqueset import PodCliqueSet
from grove.api.types.podgang import PodGang
from grove.api.types.service import Service
from grove.clock import Clock
from grove.cluster.built_in_resources import BY_QUALIFIED
from grove.cluster.storage.store import Change, ChangeType, Storage
from grove.controller.observability.decision_log import Done, NoDecisionLog
from grove.errors import Bug
from grove.planner.actions import Delete, DeleteMany, EventRecord

T = TypeVar("T", bound=HasMetadata)

# The namespace and name of a set.
Place = tuple[str, str]


class PodHistory(msgspec.Struct, frozen=True, kw_only=True):
    """The history of one pod since the change. Times are seconds; None: it did not happen."""

    uid: Uid
    name: str
    set_replica: int
    clique: str
    index: int
    template_hash: str = ""
    # Empty and -1 for a pod of a standalone clique.
    group: str = ""
    group_replica: int = -1
    was_there: bool = False
    # Ready, or succeeded.
    was_ready: bool = False
    ready_at: float | None = None
    left_at: float | None = None
    # The planner's reason for its deletion.
    why: str = ""
    # The state at the end.
    is_there: bool = True
    is_ready: bool = False
    # The scheduler's message about a pod without a node.
    waits_for: str = ""

    @property
    def slot(self) -> tuple[str, int]:
        """Return the place that a replacement pod takes over."""
        return self.clique, self.index


class Readiness(msgspec.Struct, frozen=True, kw_only=True):
    """A change of the readiness of a pod."""

    at: float
    clique: str
    is_ready: bool


class ReplicaUpdateStarted(msgspec.Struct, frozen=True, kw_only=True):
    """The start of the update of a set replica."""

    at: float
    set_replica: int


class Structure(msgspec.Struct, frozen=True, kw_only=True):
    """The objects of one set at one moment, by name."""

    pcs: PodCliqueSet | None
    groups: dict[str, PodCliqueScalingGroup]
    cliques: dict[str, PodClique]
    gangs: dict[str, PodGang]
    services: dict[str, Service]
    autoscalers: dict[str, HorizontalPodAutoscaler] = {}


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """The recording of one set, from the change to the end."""

    place: NamespacedName
    before: Structure
    after: Structure
    pods: tuple[PodHistory, ...]
    readiness: tuple[Readiness, ...]
    turns: tuple[ReplicaUpdateStarted, ...]


class PodRecorder(NoDecisionLog):
    """A recorder of store changes and operator decisions, for the given sets."""

    def __init__(self, clock: Clock, store: Storage, sets: Sequence[NamespacedName]) -> None:
        self._clock = clock
        self._store = store
        self._tapes: dict[Place, _Tape] = {(one.namespace, one.name): _Tape() for one in sets}
        self._whys: dict[Uid, str] = {}
        # The time of the last change, and of the last progress.
        self.changed_at = clock.monotonic()
        self.advanced_at = clock.monotonic()
        self.change_count = 0
        store.subscribe(self._observe)
        self.begin()

    def begin(self) -> None:
        """Drop everything recorded so far, and start with the pods that exist now."""
        for place, tape in self._tapes.items():
            tape.begin(_structure(self._store, place), _pods(self._store, place))

    def find_changed_pods(self) -> dict[NamespacedName, tuple[PodHistory, ...]]:
        """Return, by set, the pods that were created, deleted or changed since the start."""
        now = self._build_recordings()
        return {one.place: tuple(pod for pod in one.pods if _is_moved(pod)) for one in now}

    def end(self) -> tuple[Recorded, ...]:
        return self._build_recordings()

    def log_decisions(self, key: Uid, done: Sequence[Done], emits: Sequence[EventRecord]) -> None:
        for _, action in done:
            if isinstance(action, Delete):
                self._whys.setdefault(action.uid, action.reason)
            elif isinstance(action, DeleteMany):
                for uid in action.uids:
                    self._whys.setdefault(uid, action.reason)

    def log_panic(self, key: Uid) -> None:
        """Raise: the actions of an operator with a bug are no prediction."""
        raise Bug("the operator failed in the rehearsal")

    def _build_recordings(self) -> tuple[Recorded, ...]:
        return tuple(
            Recorded(
                place=NamespacedName(namespace=place[0], name=place[1]),
                before=tape.before,
                after=_structure(self._store, place),
                pods=tuple(pod.build_history(self._whys.get(pod.uid, "")) for pod in tape.pods.values()),
                readiness=tuple(tape.readiness),
                turns=tuple(tape.turns),
            )
            for place, tape in self._tapes.items()
        )

    # Changes of the store

    def _observe(self, change: Change) -> None:
        match change.resource_info.plural:
            case "pods":
                self._pod_changed(change)
            case "podcliquesets":
                self._set_changed(change)

    def _set_changed(self, change: Change) -> None:
        tape = self._tapes.get((change.entry.namespace, change.entry.name))
        if tape is None:
            return
        old = None if change.before is None else msgspec.convert(change.before.obj, PodCliqueSet)
        new = msgspec.convert(change.entry.obj, PodCliqueSet)
        if old is None or old.metadata.generation != new.metadata.generation:
            self._record_change(is_advance=True)
        elif _condition_summary(old) != _condition_summary(new):
            self._record_change(is_advance=False)
        turn = _updating_replica(new)
        if turn is not None and (old is None or turn != _updating_replica(old)):
            tape.turns.append(ReplicaUpdateStarted(at=self._clock.monotonic(), set_replica=turn))
            self._record_change(is_advance=True)

    def _pod_changed(self, change: Change) -> None:
        pod_labels = change.entry.obj["metadata"].get("labels") or {}
        tape = self._tapes.get((change.entry.namespace, pod_labels.get(labels.PART_OF, "")))
        if tape is None or pod_labels.get(labels.MANAGED_BY) != labels.MANAGED_BY_VALUE:
            return
        pod = msgspec.convert(change.entry.obj, Pod)
        if pod.metadata.controller is None:
            return
        at = self._clock.monotonic()
        recording = tape.pods.get(pod.metadata.uid)
        if recording is None:
            recording = tape.pods[pod.metadata.uid] = _PodRecording(pod)
            self._record_change(is_advance=False)
        is_gone = change.type is ChangeType.DELETED
        if recording.left_at is None and (is_gone or pod.metadata.is_terminating):
            recording.left_at = at
            self._record_change(is_advance=recording.was_there)
        if pod.spec.node_name and not recording.node:
            recording.node = pod.spec.node_name
            self._record_change(is_advance=False)
        is_ready = pod.is_ready and not is_gone
        if is_ready != recording.is_ready:
            tape.readiness.append(Readiness(at=at, clique=recording.clique, is_ready=is_ready))
            self._record_change(is_advance=is_ready and recording.ready_at is None)
            recording.ready_at = at if is_ready else recording.ready_at
        recording.is_ready, recording.is_there = is_ready, not is_gone and not pod.metadata.is_terminating
        recording.has_succeeded = pod.is_succeeded
        recording.waits_for = _waits_for(pod)

    def _record_change(self, *, is_advance: bool) -> None:
        self.changed_at = self._clock.monotonic()
        self.change_count += 1
        if is_advance:
            self.advanced_at = self.changed_at


class _Tape:
    """The recording of one set."""

    def __init__(self) -> None:
        self.before = Structure(pcs=None, groups={}, cliques={}, gangs={}, services={})
        self.pods: dict[Uid, _PodRecording] = {}
        self.readiness: list[Readiness] = []
        self.turns: list[ReplicaUpdateStarted] = []

    def begin(self, before: Structure, pods: list[Pod]) -> None:
        self.before = before
        self.pods = {
            pod.metadata.uid: _PodRecording(pod, was_there=True) for pod in pods if not pod.metadata.is_terminating
        }
        self.readiness.clear()
        self.turns.clear()


class _PodRecording:
    """The history of a pod, still being recorded."""

    def __init__(self, pod: Pod, *, was_there: bool = False) -> None:
        pod_labels = pod.metadata.labels
        self.uid = pod.metadata.uid
        self.name = pod.metadata.name
        self.clique = pod_labels.get(labels.PODCLIQUE, "")
        self._set_replica = _number(pod_labels, labels.SET_REPLICA_INDEX)
        self._index = _number(pod_labels, labels.POD_INDEX)
        self._template_hash = pod_labels.get(labels.TEMPLATE_HASH, "")
        self._group = pod_labels.get(labels.GROUP, "")
        self._group_replica = _number(pod_labels, labels.GROUP_REPLICA_INDEX)
        self.was_there = was_there
        # A pod that succeeded needs nothing more, as one that is ready.
        self._was_ready = was_there and (pod.is_ready or pod.is_succeeded)
        self.is_ready = was_there and pod.is_ready
        self.has_succeeded = pod.is_succeeded
        self.is_there = True
        self.ready_at: float | None = None
        self.left_at: float | None = None
        self.node = pod.spec.node_name if was_there else ""
        self.waits_for = _waits_for(pod)

    def build_history(self, why: str) -> PodHistory:
        return PodHistory(
            uid=self.uid, name=self.name, set_replica=self._set_replica, clique=self.clique, index=self._index,
            template_hash=self._template_hash, group=self._group, group_replica=self._group_replica,
            was_there=self.was_there, was_ready=self._was_ready, ready_at=self.ready_at, left_at=self.left_at,
            why=why, is_there=self.is_there, is_ready=self.is_ready or self.has_succeeded,
            waits_for=self.waits_for,
        )  # fmt: skip


def _is_moved(pod: PodHistory) -> bool:
    return not pod.was_there or pod.left_at is not None or pod.is_ready != pod.was_ready


def _number(pod_labels: dict[str, str], key: str) -> int:
    """Return the number in a label, -1 without one."""
    text = pod_labels.get(key, "")
    return int(text) if text.isdecimal() else -1


def _waits_for(pod: Pod) -> str:
    condition = find_condition(pod.status.conditions, "PodScheduled")
    return condition.message if condition is not None and condition.status == "False" else ""


def _updating_replica(pcs: PodCliqueSet) -> int | None:
    progress = pcs.status.rolling_update_progress
    current = progress.currently_updating if progress is not None else None
    return None if current is None else current.replica_index


def _condition_summary(pcs: PodCliqueSet) -> tuple[tuple[str, str, str], ...]:
    def summary(condition: Condition) -> tuple[str, str, str]:
        return condition.type, condition.status, condition.reason

    return tuple(sorted(summary(condition) for condition in pcs.status.conditions))


def _pods(store: Storage, place: Place) -> list[Pod]:
    return _objects(store, PODS, place)


def _structure(store: Storage, place: Place) -> Structure:
    entry = store.table(BY_QUALIFIED[_full_name(PODCLIQUESETS)]).find(*place)
    return Structure(
        pcs=None if entry is None else msgspec.convert(entry.obj, PodCliqueSet),
        groups={one.metadata.name: one for one in _objects(store, GROUPS, place)},
        cliques={one.metadata.name: one for one in _objects(store, PODCLIQUES, place)},
        gangs={one.metadata.name: one for one in _objects(store, PODGANGS, place)},
        services={one.metadata.name: one for one in _objects(store, SERVICES, place)},
        autoscalers={one.metadata.name: one for one in _objects(store, AUTOSCALERS, place)},
    )


def _objects(store: Storage, resource: Resource[T], place: Place) -> list[T]:
    """Return the objects of the set, by name. Objects without a controller only carry its labels."""
    namespace, name = place
    wanted = labels.default_labels(name)
    found = [
        msgspec.convert(entry.obj, resource.view)
        for entry in store.table(BY_QUALIFIED[_full_name(resource)]).find_candidates(tuple(wanted.items()))
        if entry.namespace == namespace and wanted.items() <= entry.obj["metadata"]["labels"].items()
    ]
    return [one for one in found if one.metadata.controller is not None]


def _full_name(resource: Resource[Any]) -> str:
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural

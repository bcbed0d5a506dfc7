"""A recorder of the pods of some sets while a store changes: the history of each pod, and when it was ready.

Facts only, in the order in which they happened. What they amount to is `prediction.py`.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from grove.api import labels
from grove.api.resources import GROUPS, PODCLIQUES, PODCLIQUESETS, PODGANGS, PODS, SERVICES, Resource
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
from grove.controller.observability.decision_log import Done, NoJournal
from grove.errors import Bug
from grove.planner.actions import Delete, DeleteMany, EventRecord

T = TypeVar("T", bound=HasMetadata)

# The namespace and name of a set.
Place = tuple[str, str]


class PodStory(msgspec.Struct, frozen=True, kw_only=True):
    """One pod, from the change on. Times are seconds; None: it never happened."""

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
    was_ready: bool = False
    ready_at: float | None = None
    left_at: float | None = None
    # Why it was deleted, in the planner's words.
    why: str = ""
    # How it is at the end.
    is_there: bool = True
    is_ready: bool = False
    # What the scheduler says of a pod without a node.
    waits_for: str = ""

    @property
    def slot(self) -> tuple[str, int]:
        """What one pod after the other fills."""
        return self.clique, self.index


class Readiness(msgspec.Struct, frozen=True, kw_only=True):
    """A pod became ready, or is ready no more."""

    at: float
    clique: str
    is_ready: bool


class ReplicaUpdateStarted(msgspec.Struct, frozen=True, kw_only=True):
    """An update has come to this set replica."""

    at: float
    set_replica: int


class Structure(msgspec.Struct, frozen=True, kw_only=True):
    """The objects of one set at one moment, by name."""

    pcs: PodCliqueSet | None
    groups: dict[str, PodCliqueScalingGroup]
    cliques: dict[str, PodClique]
    gangs: dict[str, PodGang]
    services: dict[str, Service]


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """One set, from the change to the end."""

    place: NamespacedName
    before: Structure
    after: Structure
    pods: tuple[PodStory, ...]
    readiness: tuple[Readiness, ...]
    turns: tuple[ReplicaUpdateStarted, ...]


class PodRecorder(NoJournal):
    """Listens to a store and to an operator's decisions, for the sets it was given."""

    def __init__(self, clock: Clock, store: Storage, sets: Sequence[NamespacedName]) -> None:
        self._clock = clock
        self._store = store
        self._tapes: dict[Place, _Tape] = {(one.namespace, one.name): _Tape() for one in sets}
        self._whys: dict[Uid, str] = {}
        # When something was last seen to change, and when something last went forward.
        self.changed_at = clock.monotonic()
        self.advanced_at = clock.monotonic()
        self.change_count = 0
        store.subscribe(self._follow)
        self.begin()

    def begin(self) -> None:
        """Forget what happened so far: the story begins with the pods that are there now."""
        for place, tape in self._tapes.items():
            tape.begin(_structure(self._store, place), _pods(self._store, place))

    def happened(self) -> dict[NamespacedName, tuple[PodStory, ...]]:
        """The pods that came, went or changed since it began, by set."""
        now = self._recorded()
        return {one.place: tuple(pod for pod in one.pods if _is_moved(pod)) for one in now}

    def end(self) -> tuple[Recorded, ...]:
        return self._recorded()

    def decided(self, key: Uid, done: Sequence[Done], emits: Sequence[EventRecord]) -> None:
        for _, action in done:
            if isinstance(action, Delete):
                self._whys.setdefault(action.uid, action.reason)
            elif isinstance(action, DeleteMany):
                for uid in action.uids:
                    self._whys.setdefault(uid, action.reason)

    def failed(self, key: Uid) -> None:
        """What an operator with a bug does is no prediction."""
        raise Bug("the operator failed in the rehearsal")

    def _recorded(self) -> tuple[Recorded, ...]:
        return tuple(
            Recorded(
                place=NamespacedName(namespace=place[0], name=place[1]),
                before=tape.before,
                after=_structure(self._store, place),
                pods=tuple(pod.told(self._whys.get(pod.uid, "")) for pod in tape.pods.values()),
                readiness=tuple(tape.readiness),
                turns=tuple(tape.turns),
            )
            for place, tape in self._tapes.items()
        )

    # What the store tells

    def _follow(self, change: Change) -> None:
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
            self._note(is_advance=True)
        elif _standing(old) != _standing(new):
            self._note(is_advance=False)
        turn = _turn(new)
        if turn is not None and (old is None or turn != _turn(old)):
            tape.turns.append(ReplicaUpdateStarted(at=self._clock.monotonic(), set_replica=turn))
            self._note(is_advance=True)

    def _pod_changed(self, change: Change) -> None:
        marks = change.entry.obj["metadata"].get("labels") or {}
        tape = self._tapes.get((change.entry.namespace, marks.get(labels.PART_OF, "")))
        if tape is None or marks.get(labels.MANAGED_BY) != labels.MANAGED_BY_VALUE:
            return
        pod = msgspec.convert(change.entry.obj, Pod)
        if pod.metadata.controller is None:
            return
        at = self._clock.monotonic()
        story = tape.pods.get(pod.metadata.uid)
        if story is None:
            story = tape.pods[pod.metadata.uid] = _Story(pod)
            self._note(is_advance=False)
        is_gone = change.type is ChangeType.DELETED
        if story.left_at is None and (is_gone or pod.metadata.is_terminating):
            story.left_at = at
            self._note(is_advance=story.was_there)
        if pod.spec.node_name and not story.node:
            story.node = pod.spec.node_name
            self._note(is_advance=False)
        is_ready = pod.is_ready and not is_gone
        if is_ready != story.is_ready:
            tape.readiness.append(Readiness(at=at, clique=story.clique, is_ready=is_ready))
            self._note(is_advance=is_ready and story.ready_at is None)
            story.ready_at = at if is_ready else story.ready_at
        story.is_ready, story.is_there = is_ready, not is_gone and not pod.metadata.is_terminating
        story.waits_for = _waits_for(pod)

    def _note(self, *, is_advance: bool) -> None:
        self.changed_at = self._clock.monotonic()
        self.change_count += 1
        if is_advance:
            self.advanced_at = self.changed_at


class _Tape:
    """What is recorded of one set."""

    def __init__(self) -> None:
        self.before = Structure(pcs=None, groups={}, cliques={}, gangs={}, services={})
        self.pods: dict[Uid, _Story] = {}
        self.readiness: list[Readiness] = []
        self.turns: list[ReplicaUpdateStarted] = []

    def begin(self, before: Structure, pods: list[Pod]) -> None:
        self.before = before
        self.pods = {pod.metadata.uid: _Story(pod, was_there=True) for pod in pods if not pod.metadata.is_terminating}
        self.readiness.clear()
        self.turns.clear()


class _Story:
    """A pod's story while it goes on."""

    def __init__(self, pod: Pod, *, was_there: bool = False) -> None:
        marks = pod.metadata.labels
        self.uid = pod.metadata.uid
        self.name = pod.metadata.name
        self.clique = marks.get(labels.PODCLIQUE, "")
        self._set_replica = _number(marks, labels.SET_REPLICA_INDEX)
        self._index = _number(marks, labels.POD_INDEX)
        self._template_hash = marks.get(labels.TEMPLATE_HASH, "")
        self._group = marks.get(labels.GROUP, "")
        self._group_replica = _number(marks, labels.GROUP_REPLICA_INDEX)
        self.was_there = was_there
        self._was_ready = was_there and pod.is_ready
        self.is_ready = self._was_ready
        self.is_there = True
        self.ready_at: float | None = None
        self.left_at: float | None = None
        self.node = pod.spec.node_name if was_there else ""
        self.waits_for = _waits_for(pod)

    def told(self, why: str) -> PodStory:
        return PodStory(
            uid=self.uid, name=self.name, set_replica=self._set_replica, clique=self.clique, index=self._index,
            template_hash=self._template_hash, group=self._group, group_replica=self._group_replica,
            was_there=self.was_there, was_ready=self._was_ready, ready_at=self.ready_at, left_at=self.left_at,
            why=why, is_there=self.is_there, is_ready=self.is_ready, waits_for=self.waits_for,
        )  # fmt: skip


def _is_moved(pod: PodStory) -> bool:
    return not pod.was_there or pod.left_at is not None or pod.is_ready != pod.was_ready


def _number(marks: dict[str, str], key: str) -> int:
    """-1: it does not say, or not in a number."""
    text = marks.get(key, "")
    return int(text) if text.isdecimal() else -1


def _waits_for(pod: Pod) -> str:
    condition = find_condition(pod.status.conditions, "PodScheduled")
    return condition.message if condition is not None and condition.status == "False" else ""


def _turn(pcs: PodCliqueSet) -> int | None:
    progress = pcs.status.rolling_update_progress
    current = progress.currently_updating if progress is not None else None
    return None if current is None else current.replica_index


def _standing(pcs: PodCliqueSet) -> tuple[tuple[str, str, str], ...]:
    def said(condition: Condition) -> tuple[str, str, str]:
        return condition.type, condition.status, condition.reason

    return tuple(sorted(said(condition) for condition in pcs.status.conditions))


def _pods(store: Storage, place: Place) -> list[Pod]:
    return _objects(store, PODS, place)


def _structure(store: Storage, place: Place) -> Structure:
    entry = store.table(BY_QUALIFIED[_qualified(PODCLIQUESETS)]).find(*place)
    return Structure(
        pcs=None if entry is None else msgspec.convert(entry.obj, PodCliqueSet),
        groups={one.metadata.name: one for one in _objects(store, GROUPS, place)},
        cliques={one.metadata.name: one for one in _objects(store, PODCLIQUES, place)},
        gangs={one.metadata.name: one for one in _objects(store, PODGANGS, place)},
        services={one.metadata.name: one for one in _objects(store, SERVICES, place)},
    )


def _objects(store: Storage, resource: Resource[T], place: Place) -> list[T]:
    """What belongs to the set, by name. What has no controller only wears its labels, and takes room."""
    namespace, name = place
    wanted = labels.default_labels(name)
    found = [
        msgspec.convert(entry.obj, resource.view)
        for entry in store.table(BY_QUALIFIED[_qualified(resource)]).labelled(tuple(wanted.items()))
        if entry.namespace == namespace and wanted.items() <= entry.obj["metadata"]["labels"].items()
    ]
    return [one for one in found if one.metadata.controller is not None]


def _qualified(resource: Resource[Any]) -> str:
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural

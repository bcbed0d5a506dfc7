"""Sync of the pods of a clique: which to create, replace and delete, and the names that its gang must reference first.

Not here: when a gate goes (`scheduling_gates.py`), what happens when the server refuses pods (`create_backoff.py`).
"""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from math import inf
from types import MappingProxyType

import msgspec

from grove.api import labels, names
from grove.api.types.meta import Uid, find_condition
from grove.api.types.pod import Pod
from grove.planner.actions import earliest
from grove.planner.views import CliqueView, count_index_failures, pod_index, template_hash_of

FIRST_BACKOFF = timedelta(seconds=10)
LONGEST_BACKOFF = timedelta(minutes=5)
# A pod that lived this long before it ended starts the count anew.
HEALTHY_LIFE = timedelta(minutes=10)

# An index is looked for among so many of its names from the first; later it is known by the pod before.
FIRST_NAMES = 64

_EPOCH = datetime.fromtimestamp(0, UTC)


class NewPod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod to create: the lowest free index, under the name its gang references."""

    name: str
    index: int
    failures: int = 0


class PodToDelete(msgspec.Struct, frozen=True, kw_only=True):
    pod: Pod
    reason: str


class CliquePods(msgspec.Struct, frozen=True, kw_only=True):
    """What one clique's pods should become. `names` is what the gang references, in the order of their indices."""

    names: tuple[str, ...] = ()
    # The last names of indices that have no pod any more, and none to come: the gang remembers them.
    last_names: tuple[str, ...] = ()
    create: tuple[NewPod, ...] = ()
    # Ended pods whose place is taken again, and pods above the count.
    delete: tuple[PodToDelete, ...] = ()
    # Deletes that rest on the state of running pods: look again first.
    needs_look: bool = False
    requeue_at: datetime | None = None


def plan_pods(
    clique: CliqueView,
    referenced: tuple[str, ...],
    now: datetime,
    stranded: Mapping[Uid, str] = MappingProxyType({}),
    last_names: tuple[str, ...] = (),
) -> CliquePods:
    """Make the pods of a clique as many as it asks for; `referenced` is what its gang names today.

    `stranded` are pods that no scheduler will place, and why: they are made anew. `last_names` are those of indices
    that the gang named before: no name is used twice in the life of a clique.
    """
    keepers, surplus = _one_per_index(clique, frozenset(referenced))
    surplus += [
        PodToDelete(pod=pod, reason=f"pod {pod.metadata.name} {stranded[pod.metadata.uid]}")
        for pod in keepers.values()
        if pod.metadata.uid in stranded
    ]
    keepers = {index: pod for index, pod in keepers.items() if pod.metadata.uid not in stranded}
    surplus += _above_count(keepers, clique.replicas, frozenset(referenced), clique.template_hash)
    given_up = {entry.pod.metadata.uid for entry in surplus}
    kept = {index: pod for index, pod in keepers.items() if pod.metadata.uid not in given_up}
    ended = _latest_ended(clique)
    names_of = _Names(clique, referenced, last_names)
    create: list[NewPod] = []
    waiting: dict[int, datetime] = {}
    resolved = {*kept, *clique.done_indices, *clique.given_up}
    for index in _free_indices(resolved, clique.replicas):
        before = ended.get(index)
        # What failed with another template says nothing about this one.
        before = before if before is None or template_hash_of(before.metadata) == clique.template_hash else None
        due = _replacement_due(before, now, is_finite=clique.is_finite) if before else now
        if due > now:
            waiting[index] = due
        else:
            failures = _count_for_next(clique, index, before)
            create.append(NewPod(name=names_of.next_for(index), index=index, failures=failures))
    # The last pod of an index that is tried later, or never again, stays for its logs.
    staying = {i: ended[i] for i in (*waiting, *clique.given_up) if i in ended and i not in kept}
    done_with = [
        PodToDelete(pod=pod, reason=f"pod {pod.metadata.name} ended ({pod.status.phase}) and is not needed any more")
        for pod in (*(() if clique.is_finite else clique.succeeded), *clique.failed)
        if staying.get(pod_index(pod)) is not pod
    ]
    # What has ended well and is still there stays named: it did its part in the gang. So does what is tried again
    # later: its name tells the next one.
    done = {pod_index(pod): pod for pod in clique.succeeded} if clique.is_finite else {}
    named = sorted(
        [
            *((i, pod.metadata.name) for i, pod in {**staying, **done, **kept}.items()),
            *((new.index, new.name) for new in create),
        ]
    )
    return CliquePods(
        names=tuple(name for _, name in named),
        last_names=names_of.last_names({index for index, _ in named}),
        create=tuple(create),
        delete=(*surplus, *done_with),
        needs_look=bool(surplus),
        requeue_at=earliest(*waiting.values()),
    )


def _latest_ended(clique: CliqueView) -> dict[int, Pod]:
    """Per index the pod that ended last: how often it failed in a row decides when the index is tried again."""
    ended = sorted((*clique.succeeded, *clique.failed), key=lambda pod: (_ended_at(pod) or _EPOCH, pod.metadata.name))
    return {pod_index(pod): pod for pod in ended}


def _one_per_index(clique: CliqueView, referenced: Collection[str]) -> tuple[dict[int, Pod], list[PodToDelete]]:
    """Two pods with one index cannot both stay: the one its gang references does, else the first by name."""
    keepers: dict[int, Pod] = {}
    surplus: list[PodToDelete] = []
    for pod in clique.active:
        index = pod_index(pod)
        rival = keepers.get(index)
        if rival is None:
            keepers[index] = pod
            continue
        loser = rival
        if rival.metadata.name in referenced or pod.metadata.name not in referenced:
            loser = pod
        keepers[index] = pod if loser is rival else rival
        surplus.append(PodToDelete(pod=loser, reason=f"index {index} is held by {keepers[index].metadata.name}"))
    return keepers, surplus


def _above_count(
    keepers: dict[int, Pod], replicas: int, referenced: Collection[str], template_hash: str
) -> list[PodToDelete]:
    excess = len(keepers) - replicas
    if excess <= 0:
        return []
    order = sorted(keepers.values(), key=lambda pod: _scale_in_order(pod, referenced, template_hash))
    reason = f"the clique has {len(keepers)} pods and asks for {replicas}"
    return [PodToDelete(pod=pod, reason=reason) for pod in order[:excess]]


def _scale_in_order(pod: Pod, referenced: Collection[str], template_hash: str) -> tuple[object, ...]:
    """Least useful first. A choice once made is recorded by the gang no longer referencing the pod."""
    phases = {"Pending": 0, "Unknown": 1}
    created = pod.metadata.creation_timestamp
    return (
        pod.metadata.name in referenced,
        pod.is_scheduled,
        phases.get(pod.status.phase, 2),
        pod.is_ready,
        template_hash_of(pod.metadata) == template_hash,
        -created.timestamp() if created else -inf,
        -pod_index(pod),
    )


def _free_indices(kept: Collection[int], replicas: int) -> list[int]:
    """The lowest free indices, as many as pods are missing."""
    free: list[int] = []
    index = 0
    while len(kept) + len(free) < replicas:
        if index not in kept:
            free.append(index)
        index += 1
    return free


class _Names:
    """The name a new pod gets: the one its gang reserved for the index, or the next that no pod had."""

    def __init__(self, clique: CliqueView, referenced: tuple[str, ...], last_names: tuple[str, ...]) -> None:
        self._clique = clique
        # The suffix has a fixed length: what is before it is the prefix of one index.
        self._reserved = {_prefix_of(name): name for name in (*last_names, *reversed(referenced))}
        self._last = {_prefix_of(name): name for name in last_names}
        self._pods = frozenset(
            pod.metadata.name for pod in (*clique.active, *clique.leaving, *clique.failed, *clique.succeeded)
        )
        # An update records the pod that it takes before it deletes it: a crash in between must not repeat the name.
        self._used = self._pods.union(clique.gone_names, last_names, _taken_by_update(clique))

    def last_names(self, named: Collection[int]) -> tuple[str, ...]:
        """The last names of indices that are not named any more, and of those whose next pod was not seen yet."""
        if not self._reserved:
            return ()
        resolved = {names.pod_prefix(self._clique.name, index) for index in (*named, *self._clique.done_indices)}
        let_go = {prefix: name for prefix, name in self._reserved.items() if prefix not in resolved}
        seen = {_prefix_of(name) for name in self._pods.difference(self._last.values())}
        kept = {prefix: name for prefix, name in self._last.items() if prefix not in seen}
        return tuple(sorted({**kept, **let_go}.values()))

    def next_for(self, index: int) -> str:
        name = self._reserved_for(index)
        while not name or name in self._used:
            name = self._name_after(index, name)
        return name

    def _reserved_for(self, index: int) -> str:
        """What the gang holds for this index; not what an earlier clique held, whose pod may be leaving for ever."""
        name = self._reserved.get(names.pod_prefix(self._clique.name, index), "")
        return name if name in self._used or self._is_of_this_life(index, name) else ""

    def _is_of_this_life(self, index: int, name: str) -> bool:
        if not name:
            return False
        one = ""
        for _ in range(FIRST_NAMES):
            one = self._name_after(index, one)
            if one == name:
                return True
        prefix = names.pod_prefix(self._clique.name, index)
        return any(used.startswith(prefix) and self._name_after(index, used) == name for used in self._used)

    def _name_after(self, index: int, before: str) -> str:
        return names.pod(self._clique.name, self._clique.uid, index, before)


def _count_for_next(clique: CliqueView, index: int, before: Pod | None) -> int:
    """How often the index failed before its next pod; of a training set in this incarnation, else in a row."""
    if not clique.is_finite:
        return _failures_in_a_row(before, is_finite=False) + 1 if before else 0
    # One that is lost instead of failing forgets nothing.
    mine = (pod for pod in (*clique.failed, *clique.leaving) if pod_index(pod) == index)
    return max(map(count_index_failures, mine), default=0)


def _taken_by_update(clique: CliqueView) -> tuple[str, ...]:
    progress = clique.clique.status.rolling_update_progress
    selected = progress.ready_pods_selected_to_update if progress is not None else None
    return (selected.current, *selected.completed) if selected is not None else ()


def _prefix_of(name: str) -> str:
    return name[: -names.SUFFIX_LENGTH]


def _failures_in_a_row(pod: Pod, *, is_finite: bool) -> int:
    ended_at, created_at = _ended_at(pod), pod.metadata.creation_timestamp
    if not is_finite and ended_at and created_at and ended_at - created_at >= HEALTHY_LIFE:
        return 0
    value = pod.metadata.annotations.get(labels.FAILURES, "0")
    return int(value) if value.isdecimal() else 0


def _replacement_due(pod: Pod, now: datetime, *, is_finite: bool) -> datetime:
    """At once after the first end, then later and later while the index keeps ending."""
    failures = _failures_in_a_row(pod, is_finite=is_finite)
    ended_at = _ended_at(pod)
    if not failures or ended_at is None:
        return now
    return ended_at + min(FIRST_BACKOFF * (1 << min(failures - 1, 16)), LONGEST_BACKOFF)


def _ended_at(pod: Pod) -> datetime | None:
    finished = [
        status.state.terminated.finished_at
        for status in pod.status.container_statuses
        if status.state.terminated and status.state.terminated.finished_at
    ]
    if finished:
        return max(finished)
    ready = find_condition(pod.status.conditions, "Ready")
    return ready.last_transition_time if ready else pod.metadata.creation_timestamp

"""Sync the pods of a clique: which to create, replace and delete, and the names that its gang must reference first.

`scale_in.py` chooses the pods to delete on scale-in, `gate_removal.py` removes gates, `rejected_gangs.py` handles
rejected pods.
"""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType

import msgspec

from grove.api import labels, names
from grove.api.types.meta import Uid, find_condition
from grove.api.types.pod import Pod
from grove.api.values.numbers_in_text import parse_number
from grove.planner.actions import earliest
from grove.planner.pods.scale_in import select_pods_to_delete
from grove.planner.views import CliqueView, count_index_failures, pod_index, template_hash_of

FIRST_BACKOFF = timedelta(seconds=10)
LONGEST_BACKOFF = timedelta(minutes=5)
# A pod that ran this long before it ended resets the failure count.
HEALTHY_RUN_TIME = timedelta(minutes=10)

# How many names of an index are compared; later names follow from the pod before.
FIRST_NAMES = 64

_EPOCH = datetime.fromtimestamp(0, UTC)


class NewPod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod to create: the lowest free index, with the name that its gang references."""

    name: str
    index: int
    failures: int = 0


class PodToDelete(msgspec.Struct, frozen=True, kw_only=True):
    pod: Pod
    reason: str


class CliquePods(msgspec.Struct, frozen=True, kw_only=True):
    """The changes to the pods of one clique. `names`: what the gang references, by index."""

    names: tuple[str, ...] = ()
    # The last names of indices that have no pod and get none: the gang remembers them.
    last_names: tuple[str, ...] = ()
    create: tuple[NewPod, ...] = ()
    # Ended pods that are replaced, and pods above the count.
    delete: tuple[PodToDelete, ...] = ()
    # The deletes depend on the state of running pods: read them live first.
    needs_live_read: bool = False
    requeue_at: datetime | None = None


def plan_pods(
    clique: CliqueView,
    referenced: tuple[str, ...],
    now: datetime,
    unplaceable: Mapping[Uid, str] = MappingProxyType({}),
    last_names: tuple[str, ...] = (),
) -> CliquePods:
    """Return the pods to create and delete, so that the clique has its replicas.

    `referenced`: the pod names that its gang references now. `unplaceable`: pods that no scheduler will place, and
    why; they are recreated. `last_names`: names that the gang referenced before. A clique never uses a name twice.
    """
    kept, surplus = _select_kept(clique, frozenset(referenced), unplaceable)
    ended = _latest_ended(clique)
    names_of = _Names(clique, referenced, last_names)
    create, waiting = _replace_missing(clique, kept, ended, names_of, now)
    # The last pod of an index that is retried later, or never again, stays for its logs.
    staying = {i: ended[i] for i in (*waiting, *clique.failed_indices) if i in ended and i not in kept}
    # Succeeded pods of a training clique and pods that are retried later stay referenced: they count for the gang,
    # and the next name of an index is derived from the last.
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
        delete=(*surplus, *_select_ended(clique, staying)),
        needs_live_read=bool(surplus),
        requeue_at=earliest(*waiting.values()),
    )


def _select_kept(
    clique: CliqueView, referenced: frozenset[str], unplaceable: Mapping[Uid, str]
) -> tuple[dict[int, Pod], list[PodToDelete]]:
    """Return the active pods to keep, by index, and those to delete."""
    keepers, surplus = _one_per_index(clique, referenced)
    surplus += [
        PodToDelete(pod=pod, reason=f"pod {pod.metadata.name} {unplaceable[pod.metadata.uid]}")
        for pod in keepers.values()
        if pod.metadata.uid in unplaceable
    ]
    keepers = {index: pod for index, pod in keepers.items() if pod.metadata.uid not in unplaceable}
    surplus += _above_count(keepers, clique.replicas, referenced, clique.template_hash)
    deleted = {entry.pod.metadata.uid for entry in surplus}
    return {index: pod for index, pod in keepers.items() if pod.metadata.uid not in deleted}, surplus


def _replace_missing(
    clique: CliqueView, kept: Collection[int], ended: Mapping[int, Pod], names_of: "_Names", now: datetime
) -> tuple[list[NewPod], dict[int, datetime]]:
    """Return the pods to create now, and by index when those in back-off are due."""
    create: list[NewPod] = []
    waiting: dict[int, datetime] = {}
    for index in _free_indices({*kept, *clique.done_indices, *clique.failed_indices}, clique.replicas):
        before = ended.get(index)
        # A failure of another template does not delay this one.
        before = before if before is None or template_hash_of(before.metadata) == clique.template_hash else None
        due = _replacement_due(before, now, is_finite=clique.is_finite) if before else now
        if due > now:
            waiting[index] = due
        else:
            failures = _count_for_next(clique, index, before)
            create.append(NewPod(name=names_of.next_for(index), index=index, failures=failures))
    return create, waiting


def _select_ended(clique: CliqueView, staying: Mapping[int, Pod]) -> list[PodToDelete]:
    """Return the ended pods to delete: all but those that stay for their logs."""
    return [
        PodToDelete(pod=pod, reason=f"pod {pod.metadata.name} ended ({pod.status.phase}) and is no longer needed")
        for pod in (*(() if clique.is_finite else clique.succeeded), *clique.failed)
        if staying.get(pod_index(pod)) is not pod
    ]


def _latest_ended(clique: CliqueView) -> dict[int, Pod]:
    """Return by index the pod that ended last. Its failure count decides when the index is retried."""
    ended = sorted((*clique.succeeded, *clique.failed), key=lambda pod: (_ended_at(pod) or _EPOCH, pod.metadata.name))
    return {pod_index(pod): pod for pod in ended}


def _one_per_index(clique: CliqueView, referenced: Collection[str]) -> tuple[dict[int, Pod], list[PodToDelete]]:
    """Keep one pod per index: the one that its gang references, else the first by name."""
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
    reason = f"the clique has {len(keepers)} pods and requests {replicas}"
    chosen = select_pods_to_delete(keepers.values(), len(keepers) - replicas, referenced, template_hash)
    return [PodToDelete(pod=pod, reason=reason) for pod in chosen]


def _free_indices(kept: Collection[int], replicas: int) -> list[int]:
    """Return the lowest free indices, as many as pods are missing."""
    free: list[int] = []
    index = 0
    while len(kept) + len(free) < replicas:
        if index not in kept:
            free.append(index)
        index += 1
    return free


class _Names:
    """The names of new pods: the one that the gang reserved for the index, or the next unused one."""

    def __init__(self, clique: CliqueView, referenced: tuple[str, ...], last_names: tuple[str, ...]) -> None:
        self._clique = clique
        # The suffix has a fixed length: what is before it is the prefix of one index.
        self._reserved = {_prefix_of(name): name for name in (*last_names, *reversed(referenced))}
        self._last = {_prefix_of(name): name for name in last_names}
        self._pods = frozenset(
            pod.metadata.name for pod in (*clique.active, *clique.terminating, *clique.failed, *clique.succeeded)
        )
        # An update stores the pod before it deletes it: a crash in between must not repeat the name.
        self._used = self._pods.union(clique.gone_names, last_names, _taken_by_update(clique))

    def last_names(self, named: Collection[int]) -> tuple[str, ...]:
        """Return the last names of indices that are no longer referenced, or whose next pod was not observed yet."""
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
        """Return the name that the gang reserved for this index, unless it is that of an earlier clique."""
        name = self._reserved.get(names.pod_prefix(self._clique.name, index), "")
        return name if name in self._used or self._is_of_this_incarnation(index, name) else ""

    def _is_of_this_incarnation(self, index: int, name: str) -> bool:
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
    """Return the failure count for the next pod of an index: in this incarnation (training), else in a row."""
    if not clique.is_finite:
        return _failures_in_a_row(before, is_finite=False) + 1 if before else 0
    # A pod that was deleted keeps the count.
    mine = (pod for pod in (*clique.failed, *clique.terminating) if pod_index(pod) == index)
    return max(map(count_index_failures, mine), default=0)


def _taken_by_update(clique: CliqueView) -> tuple[str, ...]:
    progress = clique.clique.status.rolling_update_progress
    selected = progress.ready_pods_selected_to_update if progress is not None else None
    return (selected.current, *selected.completed) if selected is not None else ()


def _prefix_of(name: str) -> str:
    return name[: -names.SUFFIX_LENGTH]


def _failures_in_a_row(pod: Pod, *, is_finite: bool) -> int:
    ended_at, created_at = _ended_at(pod), pod.metadata.creation_timestamp
    if not is_finite and ended_at and created_at and ended_at - created_at >= HEALTHY_RUN_TIME:
        return 0
    return parse_number(pod.metadata.annotations.get(labels.FAILURES, ""), 0)


def _replacement_due(pod: Pod, now: datetime, *, is_finite: bool) -> datetime:
    """Return when to replace an ended pod: at once the first time, then after a growing back-off."""
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

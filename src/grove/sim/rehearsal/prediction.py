"""Prediction of a change, for people and programs: what is replaced, in which order, and what is down meanwhile.

Pure: computed from a recording (`pod_recorder.py`). `cli/plan/view.py` prints it.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import TypeVar

import msgspec

from grove.api import labels
from grove.api.reasons import ConditionType
from grove.api.types.meta import WireStruct, find_condition
from grove.sim.rehearsal.downtime import Down, downtime
from grove.sim.rehearsal.pod_recorder import PodHistory, Recorded, Structure

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

# Deletions of one decision are not further apart.
_ONE_STEP_SECONDS = 0.5


class PredictedOutcome(StrEnum):
    # Nothing is created, removed, replaced or scaled.
    NOTHING = "nothing"
    DONE = "done"
    # It settles before everything is as requested.
    STALLED = "stalled"
    # It never settles.
    RESTLESS = "restless"


class UnitKind(StrEnum):
    SET_REPLICA = "setReplica"
    GROUP_REPLICA = "groupReplica"
    POD = "pod"


class ReplacementStep(WireStruct):
    """Objects that are deleted together and recreated: pods of a clique, or a whole group replica."""

    pods: tuple[str, ...]
    group_replica: int | None = None
    # Names of the cliques of a group replica.
    cliques: tuple[str, ...] = ()
    # Pods that were not ready when they were deleted: the update does not wait for them.
    unready_pods: int = 0
    why: str = ""


class PredictedPart(WireStruct):
    """A standalone clique or a group of a set replica; the parts of a replica are updated in parallel."""

    kind: str
    name: str
    # The largest number of steps of this part at the same time.
    at_once: int
    steps: tuple[ReplacementStep, ...]


class ReplicaUpdate(WireStruct):
    """The update of one set replica. Updates are in the order in which they begin."""

    set_replica: int
    parts: tuple[PredictedPart, ...]


class Block(WireStruct):
    """Pods that are created, or removed for good: a set replica, a group replica, or single pods of a clique."""

    unit: UnitKind
    set_replica: int
    name: str
    pods: int
    group_replica: int | None = None
    # The created pods that are ready in the end.
    ready: int = 0
    # The names of removed pods.
    names: tuple[str, ...] = ()


class UntouchedPods(WireStruct):
    """Pods of a standalone clique or of a group that stay."""

    kind: str
    name: str
    pods: int


class Scaled(WireStruct):
    kind: str
    name: str
    before: int
    after: int


class Objects(WireStruct):
    """Objects of the set, as KIND/NAME. An object that is recreated with the same name is not listed."""

    created: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    scaled: tuple[Scaled, ...] = ()


class PendingPods(WireStruct):
    """New pods that are not ready in the end, and the message of the scheduler. Their names are not known yet."""

    pods: int
    cliques: tuple[str, ...]
    waits_for: str = ""


class Counts(WireStruct):
    before: int
    after: int
    kept: int
    # Kept pods that are not ready, before and after.
    kept_unready: int
    replaced: int
    created: int
    removed: int


class Prediction(WireStruct):
    """The prediction for one set."""

    namespace: str
    name: str
    outcome: PredictedOutcome
    pods: Counts
    # Another update was in progress when the change was applied.
    is_updating_before: bool = False
    order: tuple[ReplicaUpdate, ...] = ()
    # The largest number of set replicas that are updated at the same time.
    replicas_at_once: int = 0
    created: tuple[Block, ...] = ()
    removed: tuple[Block, ...] = ()
    down: tuple[Down, ...] = ()
    kept: tuple[UntouchedPods, ...] = ()
    # Pods that stay with an older template than their clique has in the end.
    outdated_pods: int = 0
    objects: Objects = Objects()
    stalled: str = ""
    stalled_reason: str = ""
    waiting: tuple[PendingPods, ...] = ()
    missing_pods: int = 0


def predict(recorded: Recorded, *, is_settled: bool) -> Prediction:
    changes = _classify_pods(recorded.pods)
    order, replicas_at_once = _order_replicas(changes.replaced)
    waiting = _find_pending(recorded.pods)
    missing = _count_missing(recorded)
    objects = _compare_objects(recorded.before, recorded.after)
    stall = _find_stall(recorded.after)
    is_open = _is_updating(recorded.after)
    created, removed = _group_created(recorded, changes.created), _group_removed(recorded, changes.removed)
    if not is_settled:
        outcome = PredictedOutcome.RESTLESS
    elif waiting or missing or stall != ("", "") or is_open:
        outcome = PredictedOutcome.STALLED
    elif order or created or removed or objects != Objects():
        outcome = PredictedOutcome.DONE
    else:
        outcome = PredictedOutcome.NOTHING
    return Prediction(
        namespace=recorded.place.namespace,
        name=recorded.place.name,
        outcome=outcome,
        pods=_count_pods(recorded.pods, changes),
        is_updating_before=_is_updating(recorded.before),
        order=order,
        replicas_at_once=replicas_at_once,
        created=created,
        removed=removed,
        down=downtime(recorded),
        kept=_count_kept(changes.kept),
        outdated_pods=_count_outdated(recorded, changes.kept),
        objects=objects,
        stalled_reason=stall[0],
        stalled=stall[1],
        waiting=waiting,
        missing_pods=missing,
    )


# Kept, replaced, created and removed pods


class _PodChanges(msgspec.Struct, frozen=True, kw_only=True):
    """The pods by what happens to them. `replaced`: the old pod, and the one with its slot in the end."""

    kept: tuple[PodHistory, ...]
    replaced: tuple[tuple[PodHistory, PodHistory], ...]
    created: tuple[PodHistory, ...]
    removed: tuple[PodHistory, ...]


def _classify_pods(pods: Sequence[PodHistory]) -> _PodChanges:
    kept = tuple(pod for pod in pods if pod.was_there and pod.is_there)
    gone = {pod.slot: pod for pod in pods if pod.was_there and not pod.is_there}
    new = {pod.slot: pod for pod in pods if not pod.was_there and pod.is_there}
    return _PodChanges(
        kept=kept,
        replaced=tuple((old, new[slot]) for slot, old in gone.items() if slot in new),
        created=tuple(pod for slot, pod in new.items() if slot not in gone),
        removed=tuple(pod for slot, pod in gone.items() if slot not in new),
    )


def _count_pods(pods: Sequence[PodHistory], changes: _PodChanges) -> Counts:
    return Counts(
        before=sum(pod.was_there for pod in pods),
        after=sum(pod.is_there for pod in pods),
        kept=len(changes.kept),
        kept_unready=sum(not pod.was_ready and not pod.is_ready for pod in changes.kept),
        replaced=len(changes.replaced),
        created=len(changes.created),
        removed=len(changes.removed),
    )


def _count_kept(pods: Sequence[PodHistory]) -> tuple[UntouchedPods, ...]:
    return tuple(
        UntouchedPods(kind=kind, name=name, pods=len(some))
        for (kind, name), some in sorted(_group_by(pods, _part_of).items())
    )


def _count_outdated(recorded: Recorded, kept: Sequence[PodHistory]) -> int:
    cliques = recorded.after.cliques
    return sum(
        pod.clique in cliques and pod.template_hash != cliques[pod.clique].metadata.labels.get(labels.TEMPLATE_HASH)
        for pod in kept
    )


# Order of updates


class _Span(msgspec.Struct, frozen=True, kw_only=True):
    """One step with its times; `until` None: its pods never became ready."""

    step: ReplacementStep
    since: float
    until: float | None


Replaced = tuple[PodHistory, PodHistory]


def _order_replicas(replaced: Sequence[Replaced]) -> tuple[tuple[ReplicaUpdate, ...], int]:
    """Return the updates of set replicas in order, and how many of them overlap at most."""
    turns: list[tuple[float, ReplicaUpdate]] = []
    whole: list[_Span] = []
    for set_replica, pairs in _group_by(replaced, lambda pair: pair[0].set_replica).items():
        spans = {key: _build_spans(some) for key, some in _group_by(pairs, lambda pair: _part_of(pair[0])).items()}
        parts = sorted(spans.items(), key=lambda item: item[1][0].since)
        turns.append(
            (
                parts[0][1][0].since,
                ReplicaUpdate(set_replica=set_replica, parts=tuple(_build_part(*key, some) for key, some in parts)),
            )
        )
        whole.append(_merge_spans([span for some in spans.values() for span in some]))
    # A stable order also for those that begin at the same time.
    ordered = sorted(turns, key=lambda turn: (turn[0], -turn[1].set_replica))
    return tuple(turn for _, turn in ordered), _max_overlap(whole)


def _part_of(pod: PodHistory) -> tuple[str, str]:
    return ("podcliquescalinggroup", pod.group) if pod.group else ("podclique", pod.clique)


def _build_part(kind: str, name: str, spans: Sequence[_Span]) -> PredictedPart:
    return PredictedPart(kind=kind, name=name, at_once=_max_overlap(spans), steps=tuple(span.step for span in spans))


def _build_spans(pairs: Sequence[Replaced]) -> list[_Span]:
    """Group pods that are replaced by one decision: of one group replica, or of one clique at one time."""
    by_replica = _group_by(pairs, lambda pair: pair[0].group_replica)
    found = [_build_span(some) for pairs in by_replica.values() for some in _by_time(pairs)]
    return sorted(found, key=lambda span: span.since)


def _by_time(pairs: Sequence[Replaced]) -> Iterator[list[Replaced]]:
    ordered = sorted(pairs, key=lambda pair: (_left_at(pair[0]), _is_single_ready(pair), pair[0].clique, pair[0].index))
    current: list[Replaced] = []
    for pair in ordered:
        if current and not _is_same_step(current, pair):
            yield current
            current = []
        current.append(pair)
    if current:
        yield current


def _is_same_step(current: Sequence[Replaced], pair: Replaced) -> bool:
    """Return whether the pod was deleted together with these, for the same reason, before one of them was replaced."""
    at = _left_at(pair[0])
    is_alike = _is_single_ready(pair) == _is_single_ready(current[-1])
    is_soon = at - _left_at(current[-1][0]) <= _ONE_STEP_SECONDS
    return is_alike and is_soon and not any(new.ready_at is not None and new.ready_at <= at for _, new in current)


def _is_single_ready(pair: Replaced) -> bool:
    """Return whether a ready pod of a clique is replaced on its own. Pods that are not ready are deleted first."""
    return pair[0].was_ready and not pair[0].group


def _build_span(pairs: Sequence[Replaced]) -> _Span:
    olds = [old for old, _ in pairs]
    readies = [new.ready_at for _, new in pairs]
    is_group = bool(olds[0].group)
    step = ReplacementStep(
        pods=tuple(old.name for old in olds),
        group_replica=olds[0].group_replica if is_group else None,
        cliques=tuple(dict.fromkeys(old.clique for old in olds)) if is_group else (),
        unready_pods=sum(not old.was_ready for old in olds),
        why=next((old.why for old in olds if old.why), ""),
    )
    until = max((at for at in readies if at is not None), default=None) if None not in readies else None
    return _Span(step=step, since=_left_at(olds[0]), until=until)


def _merge_spans(spans: Sequence[_Span]) -> _Span:
    ends = [span.until for span in spans]
    until = max((end for end in ends if end is not None), default=None) if None not in ends else None
    return _Span(step=spans[0].step, since=min(span.since for span in spans), until=until)


def _max_overlap(spans: Sequence[_Span]) -> int:
    """Return how many overlap at most; one that begins when another ends does not overlap it."""
    edges = [(span.since, 1) for span in spans]
    edges += [(max(span.until, span.since), -1) for span in spans if span.until is not None]
    most = count = 0
    for _, edge in sorted(edges):
        count += edge
        most = max(most, count)
    return most


def _left_at(pod: PodHistory) -> float:
    return 0.0 if pod.left_at is None else pod.left_at


# Created and removed units


def _group_created(recorded: Recorded, pods: Sequence[PodHistory]) -> tuple[Block, ...]:
    before = [pod for pod in recorded.pods if pod.was_there]
    return _group_into_blocks(pods, others=before)


def _group_removed(recorded: Recorded, pods: Sequence[PodHistory]) -> tuple[Block, ...]:
    after = [pod for pod in recorded.pods if pod.is_there]
    return _group_into_blocks(pods, others=after)


def _group_into_blocks(pods: Sequence[PodHistory], *, others: Sequence[PodHistory]) -> tuple[Block, ...]:
    """Group pods by the largest unit that has no other pods (before, or after the change)."""
    replicas = frozenset(pod.set_replica for pod in others)
    group_replicas = frozenset((pod.group, pod.group_replica) for pod in others)

    def unit_of(pod: PodHistory) -> tuple[UnitKind, int, str, int]:
        if pod.set_replica not in replicas:
            return UnitKind.SET_REPLICA, pod.set_replica, "", -1
        if pod.group and (pod.group, pod.group_replica) not in group_replicas:
            return UnitKind.GROUP_REPLICA, pod.set_replica, pod.group, pod.group_replica
        return UnitKind.POD, pod.set_replica, pod.clique, -1

    return tuple(
        Block(
            unit=unit,
            set_replica=set_replica,
            name=name,
            group_replica=group_replica if group_replica >= 0 else None,
            pods=len(some),
            ready=sum(pod.is_ready for pod in some),
            names=tuple(pod.name for pod in some if pod.was_there),
        )
        for (unit, set_replica, name, group_replica), some in sorted(_group_by(pods, unit_of).items())
    )


def _compare_objects(before: Structure, after: Structure) -> Objects:
    olds, news = dict(_count_objects(before)), dict(_count_objects(after))
    scaled = [
        Scaled(kind=name.partition("/")[0], name=name.partition("/")[2], before=olds[name], after=count)
        for name, count in news.items()
        if name in olds and olds[name] != count
    ]
    return Objects(
        created=tuple(name for name in news if name not in olds),
        removed=tuple(name for name in olds if name not in news),
        scaled=tuple(scaled),
    )


def _count_objects(structure: Structure) -> Iterator[tuple[str, int]]:
    """Yield every object with its number of replicas."""
    if structure.pcs is not None:
        yield f"podcliqueset/{structure.pcs.metadata.name}", structure.pcs.spec.replicas
    yield from ((f"service/{name}", 0) for name in structure.services)
    yield from ((f"horizontalpodautoscaler/{name}", 0) for name in structure.autoscalers)
    yield from ((f"podcliquescalinggroup/{name}", group.spec.replicas) for name, group in structure.groups.items())
    yield from ((f"podclique/{name}", clique.spec.replicas) for name, clique in structure.cliques.items())
    yield from ((f"podgang/{name}", 0) for name in structure.gangs)


# Pods that are missing or not ready in the end


def _find_pending(pods: Sequence[PodHistory]) -> tuple[PendingPods, ...]:
    unready = [pod for pod in pods if pod.is_there and not pod.is_ready and not pod.was_there]
    return tuple(
        PendingPods(pods=len(some), cliques=tuple(dict.fromkeys(pod.clique for pod in some)), waits_for=waits_for)
        for waits_for, some in _group_by(unready, lambda pod: pod.waits_for).items()
    )


def _count_missing(recorded: Recorded) -> int:
    """Count the requested pods that do not exist, because the server rejects them."""
    there = _group_by((pod for pod in recorded.pods if pod.is_there), lambda pod: pod.clique)
    return sum(max(0, one.spec.replicas - len(there.get(name, ()))) for name, one in recorded.after.cliques.items())


def _find_stall(after: Structure) -> tuple[str, str]:
    """Return reason and message of the UpdateStalled condition of the set."""
    conditions = () if after.pcs is None else after.pcs.status.conditions
    condition = find_condition(conditions, ConditionType.UPDATE_STALLED)
    is_stalled = condition is not None and condition.status == "True"
    return (condition.reason, condition.message) if condition is not None and is_stalled else ("", "")


def _is_updating(structure: Structure) -> bool:
    progress = None if structure.pcs is None else structure.pcs.status.rolling_update_progress
    return progress is not None and progress.update_ended_at is None


def _group_by(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    found: dict[K, list[T]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found

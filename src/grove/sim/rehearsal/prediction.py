"""Prediction of a change, for people and programs: what is replaced, in which order, and what is down meanwhile.

Pure: made from what was recorded (`pod_recorder.py`). How it is said is `cli/plan/view.py`.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import TypeVar

import msgspec

from grove.api import labels
from grove.api.reasons import ConditionType
from grove.api.types.meta import WireStruct, find_condition
from grove.sim.rehearsal.downtime import Down, downtime
from grove.sim.rehearsal.pod_recorder import PodStory, Recorded, Structure

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

# Deletions of one decision are not further apart.
_ONE_STEP_SECONDS = 0.5


class PredictedOutcome(StrEnum):
    # Nothing is created, removed, replaced or scaled.
    NOTHING = "nothing"
    DONE = "done"
    # It comes to rest before everything is as it was asked for.
    STALLED = "stalled"
    # It never comes to rest.
    RESTLESS = "restless"


class UnitKind(StrEnum):
    SET_REPLICA = "setReplica"
    GROUP_REPLICA = "groupReplica"
    POD = "pod"


class ReplacementStep(WireStruct):
    """What is deleted at once, to come back: pods of a clique, or a group replica as a whole."""

    pods: tuple[str, ...]
    group_replica: int | None = None
    # Names of the cliques of a group replica.
    cliques: tuple[str, ...] = ()
    # Not ready when they were taken: nobody waits for those.
    unready_pods: int = 0
    why: str = ""


class PredictedPart(WireStruct):
    """A standalone clique or a group of a set replica; the parts of a replica go on side by side."""

    kind: str
    name: str
    # Steps of this part that are under way at the same time, at most.
    at_once: int
    steps: tuple[ReplacementStep, ...]


class ReplicaUpdate(WireStruct):
    """One set replica, in the order in which they begin."""

    set_replica: int
    parts: tuple[PredictedPart, ...]


class Block(WireStruct):
    """Pods that are created, or removed for good: a set replica, a group replica, or single pods of a clique."""

    unit: UnitKind
    set_replica: int
    name: str
    pods: int
    group_replica: int | None = None
    # Of those that are created: how many are ready in the end.
    ready: int = 0
    # Of those that are removed.
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
    """Objects of the set, as KIND/NAME. What is recreated under its name is in neither list."""

    created: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    scaled: tuple[Scaled, ...] = ()


class PendingPods(WireStruct):
    """New pods that are not ready in the end, and what the scheduler says of them. Their names are not known yet."""

    pods: int
    cliques: tuple[str, ...]
    waits_for: str = ""


class Counts(WireStruct):
    before: int
    after: int
    kept: int
    # Of those that are kept: not ready, before and after.
    kept_unready: int
    replaced: int
    created: int
    removed: int


class Prediction(WireStruct):
    """One set."""

    namespace: str
    name: str
    outcome: PredictedOutcome
    pods: Counts
    # Another update was under way when the change came.
    is_updating_before: bool = False
    order: tuple[ReplicaUpdate, ...] = ()
    # Set replicas whose turns overlap, at most.
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
    fates = _fates(recorded.pods)
    order, replicas_at_once = _order(fates.replaced)
    waiting = _waiting(recorded.pods)
    missing = _missing(recorded)
    objects = _objects(recorded.before, recorded.after)
    stall = _stall(recorded.after)
    is_open = _is_updating(recorded.after)
    created, removed = _created(recorded, fates.created), _removed(recorded, fates.removed)
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
        pods=_counts(recorded.pods, fates),
        is_updating_before=_is_updating(recorded.before),
        order=order,
        replicas_at_once=replicas_at_once,
        created=created,
        removed=removed,
        down=downtime(recorded),
        kept=_kept(fates.kept),
        outdated_pods=_outdated(recorded, fates.kept),
        objects=objects,
        stalled_reason=stall[0],
        stalled=stall[1],
        waiting=waiting,
        missing_pods=missing,
    )


# What becomes of each slot


class _Fates(msgspec.Struct, frozen=True, kw_only=True):
    """`replaced`: the old pod, and the one that fills its slot in the end."""

    kept: tuple[PodStory, ...]
    replaced: tuple[tuple[PodStory, PodStory], ...]
    created: tuple[PodStory, ...]
    removed: tuple[PodStory, ...]


def _fates(pods: Sequence[PodStory]) -> _Fates:
    kept = tuple(pod for pod in pods if pod.was_there and pod.is_there)
    gone = {pod.slot: pod for pod in pods if pod.was_there and not pod.is_there}
    new = {pod.slot: pod for pod in pods if not pod.was_there and pod.is_there}
    return _Fates(
        kept=kept,
        replaced=tuple((old, new[slot]) for slot, old in gone.items() if slot in new),
        created=tuple(pod for slot, pod in new.items() if slot not in gone),
        removed=tuple(pod for slot, pod in gone.items() if slot not in new),
    )


def _counts(pods: Sequence[PodStory], fates: _Fates) -> Counts:
    return Counts(
        before=sum(pod.was_there for pod in pods),
        after=sum(pod.is_there for pod in pods),
        kept=len(fates.kept),
        kept_unready=sum(not pod.was_ready and not pod.is_ready for pod in fates.kept),
        replaced=len(fates.replaced),
        created=len(fates.created),
        removed=len(fates.removed),
    )


def _kept(pods: Sequence[PodStory]) -> tuple[UntouchedPods, ...]:
    return tuple(
        UntouchedPods(kind=kind, name=name, pods=len(some))
        for (kind, name), some in sorted(_grouped(pods, _part_of).items())
    )


def _outdated(recorded: Recorded, kept: Sequence[PodStory]) -> int:
    cliques = recorded.after.cliques
    return sum(
        pod.clique in cliques and pod.template_hash != cliques[pod.clique].metadata.labels.get(labels.TEMPLATE_HASH)
        for pod in kept
    )


# In which order


class _Span(msgspec.Struct, frozen=True, kw_only=True):
    """One step with its times; `until` None: its pods never became ready."""

    step: ReplacementStep
    since: float
    until: float | None


Replaced = tuple[PodStory, PodStory]


def _order(replaced: Sequence[Replaced]) -> tuple[tuple[ReplicaUpdate, ...], int]:
    """The turns, and how many of them overlap at most."""
    turns: list[tuple[float, ReplicaUpdate]] = []
    whole: list[_Span] = []
    for set_replica, pairs in _grouped(replaced, lambda pair: pair[0].set_replica).items():
        spans = {key: _spans(some) for key, some in _grouped(pairs, lambda pair: _part_of(pair[0])).items()}
        parts = sorted(spans.items(), key=lambda item: item[1][0].since)
        turns.append(
            (
                parts[0][1][0].since,
                ReplicaUpdate(set_replica=set_replica, parts=tuple(_part(*key, some) for key, some in parts)),
            )
        )
        whole.append(_around([span for some in spans.values() for span in some]))
    # A stable order also for those that begin at the same time.
    ordered = sorted(turns, key=lambda turn: (turn[0], -turn[1].set_replica))
    return tuple(turn for _, turn in ordered), _overlap(whole)


def _part_of(pod: PodStory) -> tuple[str, str]:
    return ("podcliquescalinggroup", pod.group) if pod.group else ("podclique", pod.clique)


def _part(kind: str, name: str, spans: Sequence[_Span]) -> PredictedPart:
    return PredictedPart(kind=kind, name=name, at_once=_overlap(spans), steps=tuple(span.step for span in spans))


def _spans(pairs: Sequence[Replaced]) -> list[_Span]:
    """Those of one decision together: of one group replica, or of one clique at one time."""
    by_replica = _grouped(pairs, lambda pair: pair[0].group_replica)
    found = [_span(some) for pairs in by_replica.values() for some in _by_time(pairs)]
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
    """Deleted together, for the same reason, and not because one of the others was done."""
    at = _left_at(pair[0])
    is_alike = _is_single_ready(pair) == _is_single_ready(current[-1])
    is_soon = at - _left_at(current[-1][0]) <= _ONE_STEP_SECONDS
    return is_alike and is_soon and not any(new.ready_at is not None and new.ready_at <= at for _, new in current)


def _is_single_ready(pair: Replaced) -> bool:
    """Of a clique, those that are not ready go first; a group replica goes as it is."""
    return pair[0].was_ready and not pair[0].group


def _span(pairs: Sequence[Replaced]) -> _Span:
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


def _around(spans: Sequence[_Span]) -> _Span:
    ends = [span.until for span in spans]
    until = max((end for end in ends if end is not None), default=None) if None not in ends else None
    return _Span(step=spans[0].step, since=min(span.since for span in spans), until=until)


def _overlap(spans: Sequence[_Span]) -> int:
    """How many go on at the same time, at most; one that begins when another ends does not overlap it."""
    edges = [(span.since, 1) for span in spans]
    edges += [(max(span.until, span.since), -1) for span in spans if span.until is not None]
    most = count = 0
    for _, edge in sorted(edges):
        count += edge
        most = max(most, count)
    return most


def _left_at(pod: PodStory) -> float:
    return 0.0 if pod.left_at is None else pod.left_at


# What comes and goes for good


def _created(recorded: Recorded, pods: Sequence[PodStory]) -> tuple[Block, ...]:
    before = [pod for pod in recorded.pods if pod.was_there]
    return _blocks(pods, others=before)


def _removed(recorded: Recorded, pods: Sequence[PodStory]) -> tuple[Block, ...]:
    after = [pod for pod in recorded.pods if pod.is_there]
    return _blocks(pods, others=after)


def _blocks(pods: Sequence[PodStory], *, others: Sequence[PodStory]) -> tuple[Block, ...]:
    """In the largest units of which nothing else (of before, or of after) is there."""
    replicas = frozenset(pod.set_replica for pod in others)
    group_replicas = frozenset((pod.group, pod.group_replica) for pod in others)

    def unit_of(pod: PodStory) -> tuple[UnitKind, int, str, int]:
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
        for (unit, set_replica, name, group_replica), some in sorted(_grouped(pods, unit_of).items())
    )


def _objects(before: Structure, after: Structure) -> Objects:
    olds, news = dict(_named(before)), dict(_named(after))
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


def _named(structure: Structure) -> Iterator[tuple[str, int]]:
    """Every object, with the replicas it asks for."""
    if structure.pcs is not None:
        yield f"podcliqueset/{structure.pcs.metadata.name}", structure.pcs.spec.replicas
    yield from ((f"service/{name}", 0) for name in structure.services)
    yield from ((f"podcliquescalinggroup/{name}", group.spec.replicas) for name, group in structure.groups.items())
    yield from ((f"podclique/{name}", clique.spec.replicas) for name, clique in structure.cliques.items())
    yield from ((f"podgang/{name}", 0) for name in structure.gangs)


# What is not as it should be in the end


def _waiting(pods: Sequence[PodStory]) -> tuple[PendingPods, ...]:
    unready = [pod for pod in pods if pod.is_there and not pod.is_ready and not pod.was_there]
    return tuple(
        PendingPods(pods=len(some), cliques=tuple(dict.fromkeys(pod.clique for pod in some)), waits_for=waits_for)
        for waits_for, some in _grouped(unready, lambda pod: pod.waits_for).items()
    )


def _missing(recorded: Recorded) -> int:
    """Pods that are asked for and do not exist: the server refuses them."""
    there = _grouped((pod for pod in recorded.pods if pod.is_there), lambda pod: pod.clique)
    return sum(max(0, one.spec.replicas - len(there.get(name, ()))) for name, one in recorded.after.cliques.items())


def _stall(after: Structure) -> tuple[str, str]:
    """Reason and message of the set's own complaint."""
    conditions = () if after.pcs is None else after.pcs.status.conditions
    condition = find_condition(conditions, ConditionType.UPDATE_STALLED)
    is_stalled = condition is not None and condition.status == "True"
    return (condition.reason, condition.message) if condition is not None and is_stalled else ("", "")


def _is_updating(structure: Structure) -> bool:
    progress = None if structure.pcs is None else structure.pcs.status.rolling_update_progress
    return progress is not None and progress.update_ended_at is None


def _grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    found: dict[K, list[T]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found

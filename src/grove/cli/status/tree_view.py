"""Render sets as trees and tables. Pure; `cli/common/output.py` prints them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import TypeVar

from grove.api.reasons import ConditionType
from grove.api.types.podcliqueset import SetPhase
from grove.api.types.podgang import GangPhase
from grove.cli.common.output import Cell, Row, Tone
from grove.cli.status.tree import (
    AT_ZERO,
    BREACHED,
    GATED,
    LEAVING,
    REFUSED,
    CliqueNode,
    GroupNode,
    GroupReplicaNode,
    PodCounts,
    PodNode,
    ReplicaNode,
    SetNode,
    Training,
    Updating,
    is_settled,
)

N = TypeVar("N")

_TONES = {
    GangPhase.RUNNING.value: Tone.GOOD,
    SetPhase.SUCCEEDED.value: Tone.GOOD,
    SetPhase.FAILED.value: Tone.BAD,
    BREACHED: Tone.BAD,
    REFUSED: Tone.BAD,
    LEAVING: Tone.FAINT,
    AT_ZERO: Tone.FAINT,
    GATED: Tone.WAITING,
    GangPhase.PENDING.value: Tone.WAITING,
    GangPhase.STARTING.value: Tone.WAITING,
}
_SHOWN_BREACHES = 5
_HEADER = ("NAME", "STATUS", "READY", "AVAILABLE", "SCHEDULED", "MIN", "WHERE", "AGE")


def table_rows(sets: Sequence[SetNode], now: datetime, *, has_namespaces: bool) -> list[Row]:
    """Return a table with one row per set."""
    header = ("NAMESPACE",) * has_namespaces + ("NAME", "STATUS", "READY", "AVAILABLE", "SCHEDULED", "AGE")
    rows: list[Row] = [tuple(Cell(word, Tone.FAINT) for word in header)]
    for node in sets:
        cells = (
            Cell(node.name, Tone.STRONG),
            _phase(node.phase),
            Cell(_ready(node.counts)),
            Cell(f"{node.available_replicas}/{node.replicas}"),
            Cell(str(node.counts.scheduled)),
            Cell(age(node.created_at, now)),
        )
        rows.append(((Cell(node.namespace),) if has_namespaces else ()) + cells)
    return rows


def tree_rows(node: SetNode, now: datetime, *, has_hint: bool = True) -> list[Row]:
    """Return the tree of a set. Every name is valid for `grove why` and kubectl; `has_hint` adds the command."""
    rows: list[Row] = [tuple(Cell(word, Tone.FAINT) for word in _HEADER)]
    rows.append(
        _row(
            f"pcs/{node.name}",
            node.phase,
            counts=node.counts,
            available=f"{node.available_replicas}/{node.replicas}",
            age=age(node.created_at, now),
        )
    )
    if node.updating is not None:
        rows.append((Cell(f"{'│  ' if node.set_replicas else '   '}{_update(node, node.updating)}", Tone.WAITING),))
    if node.training is not None and (told := _training(node.training, now)):
        rows.append((Cell(f"{'│  ' if node.set_replicas else '   '}{told}", Tone.FAINT),))
    rows += _branches(node.set_replicas, "", lambda replica, lead, stem: _replica_rows(replica, lead, stem, now))
    rows += [(Cell(text, tone),) for text, tone in _notes(node, now)]
    if has_hint and not is_settled(node) and node.phase != LEAVING:
        rows.append((Cell(f"Why is it not complete? grove why pcs/{node.name}", Tone.FAINT),))
    return rows


def _notes(node: SetNode, now: datetime) -> Iterator[tuple[str, Tone]]:
    for problem in node.problems:
        yield f"! {problem.type}: {problem.message}", Tone.BAD
    is_held = any(problem.type == ConditionType.TEARDOWN_HELD for problem in node.problems)
    breaches = list(_breaches(node))
    for what, unit, at in breaches[:_SHOWN_BREACHES]:
        then = "when teardowns are no longer held" if is_held and at <= now else _when(at, now)
        yield f"! {what} is below its minimum: {unit} is torn down {then} unless it recovers", Tone.BAD
    if len(breaches) > _SHOWN_BREACHES:
        yield f"! {len(breaches) - _SHOWN_BREACHES} more are below their minimum", Tone.BAD
    if node.updating is None and node.updated_replicas < node.replicas and node.available_replicas:
        yield f"{node.updated_replicas} of {node.replicas} replicas run the newest template", Tone.WAITING


def _update(node: SetNode, updating: Updating) -> str:
    done = f"{node.updated_replicas} of {node.replicas} replicas done"
    if updating.replica_index is None:
        return f"updating, {done}"
    return f"updating replica {updating.replica_index}, {updating.updated_pods} of {updating.pods} pods new, {done}"


def _training(training: Training, now: datetime) -> str:
    """Return restarts and deadline, or an empty text if the set has neither limit."""
    told = [f"{training.restarts} of {training.max_restarts} restarts used"] if training.max_restarts else []
    told += (
        [f"ends at {_when(training.deadline, now).removeprefix('about ')} at the latest"] if training.deadline else []
    )
    return ", ".join(told)


def _when(at: datetime, now: datetime) -> str:
    from grove.planner.explain.text import when

    return when(at, now)


def _breaches(node: SetNode) -> Iterator[tuple[str, str, datetime]]:
    """Yield what is breached, what is torn down for it, and when."""
    for replica in node.set_replicas:
        whole = f"replica {replica.index}"
        for clique in replica.cliques:
            if clique.teardown_at is not None:
                yield f"pclq/{clique.name}", whole, clique.teardown_at
        for group in replica.groups:
            if group.teardown_at is not None:
                yield f"pcsg/{group.name}", whole, group.teardown_at
            for one in group.group_replicas:
                for clique in one.cliques:
                    if clique.teardown_at is not None:
                        yield f"pclq/{clique.name}", f"{group.name} replica {one.index}", clique.teardown_at


def _replica_rows(replica: ReplicaNode, lead: str, stem: str, now: datetime) -> Iterator[Row]:
    yield _row(
        f"{lead}replica {replica.index}",
        replica.phase,
        counts=replica.counts,
        where=f"pg/{replica.gang}",
        age=age(replica.created_at, now),
    )
    parts: tuple[CliqueNode | GroupNode, ...] = (*replica.cliques, *replica.groups)
    yield from _branches(parts, stem, lambda part, lead, stem: _part_rows(part, lead, stem, now))


def _part_rows(part: CliqueNode | GroupNode, lead: str, stem: str, now: datetime) -> Iterator[Row]:
    if isinstance(part, CliqueNode):
        yield from _clique_rows(part, lead, stem, now)
        return
    yield _row(
        f"{lead}pcsg/{part.name}",
        part.phase,
        counts=part.counts,
        available=f"{part.available_replicas}/{part.replicas}",
        needed=part.min_available,
        age=age(part.created_at, now),
    )
    yield from _branches(part.group_replicas, stem, lambda one, lead, stem: _group_replica_rows(one, lead, stem, now))


def _group_replica_rows(replica: GroupReplicaNode, lead: str, stem: str, now: datetime) -> Iterator[Row]:
    yield _row(f"{lead}replica {replica.index}", replica.phase, counts=replica.counts, where=f"pg/{replica.gang}")
    yield from _branches(replica.cliques, stem, lambda clique, lead, stem: _clique_rows(clique, lead, stem, now))


def _clique_rows(clique: CliqueNode, lead: str, stem: str, now: datetime) -> Iterator[Row]:
    yield _row(
        f"{lead}pclq/{clique.name}",
        clique.phase,
        counts=clique.counts,
        needed=clique.min_available,
        age=age(clique.created_at, now),
    )
    yield from _branches(clique.pods, stem, lambda pod, lead, stem: iter((_pod_row(pod, lead, now),)))


def _pod_row(pod: PodNode, lead: str, now: datetime) -> Row:
    return (
        Cell(f"{lead}pod/{pod.name}"),
        _phase(pod.phase, is_good=pod.is_ready or pod.phase == SetPhase.SUCCEEDED),
        Cell("yes" if pod.is_ready else "no"),
        Cell(""),
        Cell("yes" if pod.node else "no"),
        Cell(""),
        Cell(pod.node),
        Cell(age(pod.created_at, now)),
    )


def _branches(parts: Sequence[N], stem: str, rows_of: Callable[[N, str, str], Iterable[Row]]) -> Iterator[Row]:
    """Yield the rows of all parts. `rows_of` gets the prefix of the part's own line and of the lines below."""
    for number, part in enumerate(parts, start=1):
        is_last = number == len(parts)
        yield from rows_of(part, stem + ("└─ " if is_last else "├─ "), stem + ("   " if is_last else "│  "))


def _row(
    name: str,
    phase: str,
    *,
    counts: PodCounts,
    available: str = "",
    needed: int | None = None,
    where: str = "",
    age: str = "",
) -> Row:
    return (
        Cell(name),
        _phase(phase),
        Cell(_ready(counts)),
        Cell(available),
        Cell(str(counts.scheduled)),
        Cell("" if needed is None else str(needed)),
        Cell(where),
        Cell(age),
    )


def _ready(counts: PodCounts) -> str:
    return f"{counts.ready}/{counts.wanted}"


def _phase(phase: str, *, is_good: bool = True) -> Cell:
    tone = _TONES.get(phase, Tone.BAD)
    return Cell(phase, Tone.WAITING if tone is Tone.GOOD and not is_good else tone)


def age(created_at: datetime | None, now: datetime) -> str:
    """Return the age as kubectl prints it."""
    if created_at is None:
        return ""
    seconds = max(0, int((now - created_at).total_seconds()))
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return f"{minutes}m{seconds % 60}s"
    if hours < 3:
        return f"{minutes}m"
    if hours < 48:
        return f"{hours}h"
    return f"{days}d"

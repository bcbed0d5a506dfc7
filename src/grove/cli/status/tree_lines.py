"""Turn the tree of a set into lines: names, cells and health, without a layout. Pure.

`tree_folding.py` selects the lines that fit a height, `tree_view.py` the columns that fit a width.
"""

from collections.abc import Iterator
from datetime import datetime
from enum import IntEnum

import msgspec

from grove.api.reasons import ConditionType
from grove.api.types.podcliqueset import SetPhase
from grove.api.types.podgang import GangPhase
from grove.api.values.autoscaler_summary import AutoscalerSummary
from grove.cli.common.output import Cell, Tone
from grove.cli.status.tree import (
    AT_ZERO,
    BREACHED,
    GATED,
    REJECTED,
    TERMINATING,
    CliqueNode,
    GroupNode,
    GroupReplicaNode,
    PodCounts,
    PodNode,
    ReplicaNode,
    SetNode,
    Training,
    Updating,
    is_complete,
)
from grove.operations.hints import hint

# Stands for the name of the parent: `pclq/…-router` below replica 0 of the set `chat` is `pclq/chat-0-router`.
OMITTED = "…"

_TONES = {
    GangPhase.RUNNING.value: Tone.GOOD,
    SetPhase.SUCCEEDED.value: Tone.GOOD,
    SetPhase.FAILED.value: Tone.BAD,
    BREACHED: Tone.BAD,
    REJECTED: Tone.BAD,
    TERMINATING: Tone.FAINT,
    AT_ZERO: Tone.FAINT,
    GATED: Tone.WAITING,
    GangPhase.PENDING.value: Tone.WAITING,
    GangPhase.STARTING.value: Tone.WAITING,
}
_SHOWN_BREACHES = 5


class LineHealth(IntEnum):
    """The health of a line, worst first."""

    BROKEN = 0
    WAITING = 1
    HEALTHY = 2


class TreeLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a tree, with the lines below it."""

    # The noun of a folded line: `8 replicas ready`.
    noun: str
    name: str
    # The name without the name of its parent.
    short_name: str
    # Of the name.
    tone: Tone = Tone.PLAIN
    phase: str
    # The worst of this line and all lines below it.
    health: LineHealth
    status: Cell
    counts: PodCounts
    ready: Cell = Cell("")
    available: str = ""
    scheduled: str = ""
    minimum: str = ""
    where: str = ""
    age: str = ""
    # Texts between this line and those below it.
    remarks: tuple[Cell, ...] = ()
    children: "tuple[TreeLine, ...]" = ()
    # Texts after the lines below it.
    notes: tuple[Cell, ...] = ()
    # The command that explains more, if there is more to explain.
    hint: str = ""


def set_line(node: SetNode, now: datetime, *, home: str = "", has_hint: bool = True) -> TreeLine:
    """Return the lines of a set. `home`: the namespace that needs no `-n`; empty: show no namespaces."""
    flag = f" -n {node.namespace}" if home and node.namespace != home else ""
    children = tuple(_replica_line(replica, node.name, now) for replica in node.set_replicas)
    notes = tuple(Cell(text, tone) for text, tone in _notes(node, now))
    own = _health(node.phase, is_complete=is_complete(node) or node.phase == SetPhase.SUCCEEDED)
    if any(problem.type == ConditionType.RECONCILE_FAILED for problem in node.problems):
        own = LineHealth.BROKEN
    name = f"pcs/{node.name}{flag}"
    return TreeLine(
        noun="set",
        name=name,
        short_name=name,
        phase=node.phase,
        health=_worst(own, children),
        status=phase_cell(node.phase),
        counts=node.counts,
        ready=ready_cell(node.counts),
        available=f"{node.available_replicas}/{node.replicas}",
        scheduled=str(node.counts.scheduled),
        age=age(node.created_at, now),
        remarks=tuple(_remarks(node, now)),
        children=children,
        notes=notes,
        hint=_hint(node) if has_hint else "",
    )


def _hint(node: SetNode) -> str:
    """Return a question with the command that answers it, or an empty text for a set that is as requested."""
    if node.phase == TERMINATING:
        return ""
    if node.phase == SetPhase.FAILED:
        return f"Why did it fail? {hint(f'why pcs/{node.name}', node.namespace)}"
    if node.updating is not None:
        return f"Follow the update: {hint(f'rollout status pcs/{node.name}', node.namespace)}"
    is_done = is_complete(node) or node.phase == SetPhase.SUCCEEDED
    return "" if is_done else f"Why is it not complete? {hint(f'why pcs/{node.name}', node.namespace)}"


def _remarks(node: SetNode, now: datetime) -> Iterator[Cell]:
    if node.updating is not None:
        yield Cell(_describe_update(node, node.updating), Tone.WAITING)
    if node.training is not None and (text := _describe_training(node.training, now)):
        yield Cell(text, Tone.FAINT)
    yield from _autoscaler_remarks(node.autoscaler)


def _autoscaler_remarks(autoscaler: AutoscalerSummary | None) -> tuple[Cell, ...]:
    if autoscaler is None:
        return ()
    return (Cell(f"autoscaler: {autoscaler}", Tone.WAITING if autoscaler.is_stuck else Tone.FAINT),)


def _describe_update(node: SetNode, updating: Updating) -> str:
    done = f"{node.updated_replicas} of {node.replicas} replicas done"
    if updating.replica_index is None:
        return f"updating, {done}"
    return f"updating replica {updating.replica_index}, {updating.updated_pods} of {updating.pods} pods new, {done}"


def _describe_training(training: Training, now: datetime) -> str:
    """Return restarts and deadline, or an empty text if the set has neither limit."""
    parts = [f"{training.restarts} of {training.max_restarts} restarts used"] if training.max_restarts else []
    parts += (
        [f"ends at {_when(training.deadline, now).removeprefix('about ')} at the latest"] if training.deadline else []
    )
    return ", ".join(parts)


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
    # A replica that has not all its pods does not count as updated, whatever its template is.
    if node.updating is None and node.updated_replicas < node.replicas and node.counts.is_complete:
        yield f"{node.updated_replicas} of {node.replicas} replicas run the newest template", Tone.WAITING


def _when(at: datetime, now: datetime) -> str:
    from grove.planner.explain.text import format_when

    return format_when(at, now)


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


def _replica_line(replica: ReplicaNode, pcs: str, now: datetime) -> TreeLine:
    parent = f"{pcs}-{replica.index}"
    cliques = (_clique_line(clique, parent, now) for clique in replica.cliques)
    groups = (_group_line(group, parent, now) for group in replica.groups)
    children = (*cliques, *groups)
    return _any_replica_line(replica, children, age(replica.created_at, now))


def _any_replica_line(
    replica: ReplicaNode | GroupReplicaNode, children: tuple[TreeLine, ...], age_text: str = ""
) -> TreeLine:
    """Return the line of a set replica or of a group replica, which has no age of its own."""
    return TreeLine(
        noun="replica",
        name=f"replica {replica.index}",
        short_name=f"replica {replica.index}",
        phase=replica.phase,
        health=_worst(_health(replica.phase, is_complete=replica.counts.is_complete), children),
        status=phase_cell(replica.phase),
        counts=replica.counts,
        ready=ready_cell(replica.counts),
        scheduled=str(replica.counts.scheduled),
        where=f"pg/{replica.gang}",
        age=age_text,
        children=children,
    )


def _group_line(group: GroupNode, parent: str, now: datetime) -> TreeLine:
    children = tuple(_group_replica_line(one, group.name, now) for one in group.group_replicas)
    is_whole = group.counts.is_complete and group.available_replicas >= group.replicas
    return TreeLine(
        noun="group",
        name=f"pcsg/{group.name}",
        short_name=f"pcsg/{_without(parent, group.name)}",
        phase=group.phase,
        health=_worst(_health(group.phase, is_complete=is_whole or _is_succeeded(children)), children),
        status=phase_cell(group.phase),
        counts=group.counts,
        ready=ready_cell(group.counts),
        available=f"{group.available_replicas}/{group.replicas}",
        scheduled=str(group.counts.scheduled),
        minimum=str(group.min_available),
        age=age(group.created_at, now),
        remarks=_autoscaler_remarks(group.autoscaler),
        children=children,
    )


def _is_succeeded(lines: tuple[TreeLine, ...]) -> bool:
    return bool(lines) and all(line.phase == SetPhase.SUCCEEDED for line in lines)


def _group_replica_line(replica: GroupReplicaNode, group: str, now: datetime) -> TreeLine:
    parent = f"{group}-{replica.index}"
    children = tuple(_clique_line(clique, parent, now) for clique in replica.cliques)
    return _any_replica_line(replica, children)


def _clique_line(clique: CliqueNode, parent: str, now: datetime) -> TreeLine:
    children = tuple(_pod_line(pod, clique.name, now) for pod in clique.pods)
    return TreeLine(
        noun="clique",
        name=f"pclq/{clique.name}",
        short_name=f"pclq/{_without(parent, clique.name)}",
        phase=clique.phase,
        health=_worst(_health(clique.phase, is_complete=clique.counts.is_complete), children),
        status=phase_cell(clique.phase),
        counts=clique.counts,
        ready=ready_cell(clique.counts),
        scheduled=str(clique.counts.scheduled),
        minimum=str(clique.min_available),
        age=age(clique.created_at, now),
        remarks=_autoscaler_remarks(clique.autoscaler),
        children=children,
    )


def _pod_line(pod: PodNode, clique: str, now: datetime) -> TreeLine:
    is_done = pod.phase == SetPhase.SUCCEEDED
    is_good = pod.is_ready or is_done
    return TreeLine(
        noun="pod",
        name=f"pod/{pod.name}",
        short_name=f"pod/{_without(clique, pod.name)}",
        phase=pod.phase if is_good or pod.phase != GangPhase.RUNNING else "not ready",
        health=_health(pod.phase, is_complete=is_good),
        status=phase_cell(pod.phase, is_good=is_good),
        counts=PodCounts(wanted=1, ready=int(pod.is_ready), scheduled=int(bool(pod.node)), succeeded=int(is_done)),
        ready=Cell("done" if is_done else "yes" if pod.is_ready else "no", Tone.PLAIN if is_good else Tone.WAITING),
        scheduled="yes" if pod.node else "no",
        where=pod.node,
        age=age(pod.created_at, now),
    )


def _without(parent: str, name: str) -> str:
    """Return the name with its parent's name omitted. Such names begin with `…-`."""
    rest = name.removeprefix(f"{parent}-")
    return name if rest == name else f"{OMITTED}-{rest}"


def _health(phase: str, *, is_complete: bool) -> LineHealth:
    tone = _TONES.get(phase, Tone.BAD)
    if tone is Tone.BAD:
        return LineHealth.BROKEN
    if tone is Tone.WAITING or phase == TERMINATING or not is_complete:
        return LineHealth.WAITING
    return LineHealth.HEALTHY


def _worst(own: LineHealth, children: tuple[TreeLine, ...]) -> LineHealth:
    return min((own, *(line.health for line in children)))


def ready_cell(counts: PodCounts) -> Cell:
    """Return `3/4`; with pods that succeeded `3/4, 1 done`, or `4 done` if all did."""
    tone = Tone.PLAIN if counts.is_complete else Tone.WAITING
    if not counts.succeeded:
        return Cell(f"{counts.ready}/{counts.wanted}", tone)
    if counts.succeeded >= counts.wanted:
        return Cell(f"{counts.succeeded} done")
    return Cell(f"{counts.ready}/{counts.wanted}, {counts.succeeded} done", tone)


def phase_cell(phase: str, *, is_good: bool = True) -> Cell:
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

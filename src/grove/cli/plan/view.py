"""Render a predicted change as rows: the summary first, then the order, then what is down meanwhile. Pure."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from grove.cli.commands.why import why_rows
from grove.cli.common.output import Cell, Row, Tone
from grove.cli.plan.runner import PlannedSet, PlanResult
from grove.operations.apply.apply_merge import Verb
from grove.operations.hints import name_with_namespace
from grove.planner.explain.text import count_noun, verb
from grove.sim.rehearsal.downtime import Down
from grove.sim.rehearsal.prediction import (
    Block,
    PendingPods,
    PredictedOutcome,
    PredictedPart,
    Prediction,
    ReplacementStep,
    ReplicaUpdate,
    UnitKind,
    UntouchedPods,
)

LISTED = 6
INDENT = "  "


def plan_rows(result: PlanResult, columns: int | None = None) -> list[Row]:
    """Return the rows of all sets. `columns`: wrap explanations that are longer."""
    rows: list[Row] = []
    for planned in result.sets:
        rows += _set_rows(planned, columns)
        rows.append((Cell(""),))
    for name in result.ignored:
        rows.append((Cell(f"Ignored: {name}", Tone.FAINT),))
    rows += [(Cell(f"Note: {note}.", Tone.FAINT),) for note in result.notes]
    return rows


def _set_rows(planned: PlannedSet, columns: int | None) -> Iterator[Row]:
    found = planned.prediction
    yield (Cell(_headline(planned), Tone.STRONG),)
    yield from _stall_rows(planned, columns)
    yield from _section("Order", _order_lines(found))
    yield from _section("Created", [_describe_created(block) for block in found.created])
    yield from _section("Removed", [_describe_removed(block) for block in found.removed])
    yield from _section(
        "Scaled", [f"{one.kind}/{one.name} from {one.before} to {one.after}" for one in found.objects.scaled]
    )
    yield from _section("Objects", _object_lines(found))
    yield from _section("Down at the same time, at most", _down_lines(found))
    if found.outcome is not PredictedOutcome.NOTHING:
        yield from _section("Stays", _untouched_lines(found.kept))
    for warning in planned.warnings:
        yield (Cell(f"Warning: {warning}", Tone.WAITING),)


def _section(title: str, lines: Sequence[str]) -> Iterator[Row]:
    if lines:
        yield (Cell(f"{title}:"),)
        yield from ((Cell(f"{INDENT}{line}"),) for line in lines)


# Summary


def _headline(planned: PlannedSet) -> str:
    found = planned.prediction
    name = name_with_namespace(f"pcs/{found.name}", found.namespace)
    if planned.action is Verb.CREATED:
        return f"{name} is new: {_describe_new_set(found)}."
    if found.outcome is PredictedOutcome.NOTHING:
        what = "only the set itself changes" if planned.action is Verb.CONFIGURED else "nothing changes"
        stay = f"its {count_noun(found.pods.kept, 'pod')} {verb(found.pods.kept, 'stays', 'stay')}"
        return f"{name}: {what}; {stay}{_describe_outdated(found)}."
    return f"{name}: {'; '.join(_clauses(found))}{_describe_outdated(found)}."


def _describe_new_set(found: Prediction) -> str:
    count = found.pods.created
    ready = sum(block.ready for block in found.created)
    if ready == count and not found.missing_pods:
        text = f"{count_noun(count, 'pod')} {verb(count, 'is', 'are')} created"
        return f"{text}, and {verb(count, 'it fits', 'all of them fit')} now"
    pending, missing = count - ready, found.missing_pods
    parts = [f"{ready} of {count_noun(count + missing, 'pod')} would run now"]
    parts += [f"{pending} would stay Pending"] if pending else []
    parts += [f"{missing} would not be created"] if missing else []
    return ", ".join(parts)


def _clauses(found: Prediction) -> Iterator[str]:
    pods = found.pods
    if pods.replaced:
        be = verb(pods.replaced, "is", "are")
        yield f"{pods.replaced} of {count_noun(pods.before, 'pod')} {be} replaced{_describe_pace(found)}"
    if pods.removed:
        yield f"{count_noun(pods.removed, 'pod')} {verb(pods.removed, 'is', 'are')} removed"
    if pods.created:
        yield f"{count_noun(pods.created, 'pod')} {verb(pods.created, 'is', 'are')} created"
    if pods.kept:
        yield f"{pods.kept} {verb(pods.kept, 'stays', 'stay')}"


def _describe_pace(found: Prediction) -> str:
    """Return ", one at a time" (or per group replica) if the update replaces all of it serially, else ""."""
    parts = [part for update in found.order for part in update.parts]
    is_serial = found.replicas_at_once == 1 and all(len(update.parts) == 1 for update in found.order)
    if found.pods.replaced == 1 or not is_serial or any(part.at_once > 1 for part in parts):
        return ""
    if all(part.kind == "podcliquescalinggroup" for part in parts):
        return ", one group replica at a time"
    return ", one at a time" if all(_is_single(part) for part in parts) else ""


def _describe_outdated(found: Prediction) -> str:
    count = found.outdated_pods
    if not count:
        return ""
    is_over = found.outcome in (PredictedOutcome.NOTHING, PredictedOutcome.DONE)
    until = f" until {verb(count, 'it is', 'they are')} deleted" if is_over else ""
    return f"; {count_noun(count, 'pod')} {verb(count, 'keeps', 'keep')} the old template{until}"


# Stalls


def _stall_rows(planned: PlannedSet, columns: int | None) -> Iterator[Row]:
    found = planned.prediction
    if found.outcome not in (PredictedOutcome.STALLED, PredictedOutcome.RESTLESS):
        return
    lead = "It would not complete" if found.outcome is PredictedOutcome.STALLED else "It would never settle"
    is_explained = bool(planned.sentences)
    waiting = [one for one in found.waiting if is_explained or not one.waits_for or one.waits_for not in found.stalled]
    lines = [_describe_waiting(one, with_reason=not is_explained) for one in waiting]
    if found.missing_pods:
        # Existing pods wait for the missing ones, so only the missing ones are listed.
        lines = [f"{count_noun(found.missing_pods, 'pod')} would not be created"]
    reason = "" if is_explained or not found.stalled else f" {found.stalled} ({found.stalled_reason})"
    yield (Cell(f"{lead}:{reason}", Tone.BAD),)
    yield from ((Cell(f"{INDENT}{line}", Tone.WAITING),) for line in dict.fromkeys(lines))
    if is_explained:
        rows = why_rows(planned.sentences, columns and columns - len(INDENT))
        yield from ((Cell(f"{INDENT}{row[0].text}", row[0].tone),) for row in rows)


def _describe_waiting(one: PendingPods, *, with_reason: bool) -> str:
    what = f"{count_noun(one.pods, 'pod')} of {_join(one.cliques)} would stay Pending"
    return f"{what}: {one.waits_for}" if one.waits_for and with_reason else what


# Order


def _order_lines(found: Prediction) -> list[str]:
    lines: list[str] = []
    for _, same in groupby(found.order, key=_shape):
        first, *others = same
        lines += _replica_update_lines(first)
        if others:
            replicas = _join([str(update.set_replica) for update in others])
            pace = ", one after the other" if found.replicas_at_once == 1 and len(others) > 1 else ""
            lines.append(f"then the same in set {verb(len(others), 'replica', 'replicas')} {replicas}{pace}")
    return lines


def _shape(update: ReplicaUpdate) -> tuple[tuple[object, ...], ...]:
    """Return the shape of a replica update without names, to group equal ones."""
    return tuple(
        (part.kind, part.at_once, tuple((len(step.pods), step.group_replica, step.unready_pods) for step in part.steps))
        for part in update.parts
    )


def _replica_update_lines(update: ReplicaUpdate) -> list[str]:
    lead = f"set replica {update.set_replica}: "
    if len(update.parts) == 1:
        return [f"{lead}{_describe_part(update.parts[0])}"]
    return [f"{lead}side by side", *(f"{INDENT}{_describe_part(part)}" for part in update.parts)]


def _describe_part(part: PredictedPart) -> str:
    if part.kind != "podclique":
        return f"group {part.name}: {_join([_describe_group_step(step) for step in part.steps], ', then ')}"
    count = sum(len(step.pods) for step in part.steps)
    names = _join([_describe_pod_step(step) for step in part.steps], ", then ")
    return f"{count_noun(count, 'pod')} of {part.name}{_clique_pace(part, count)}: {names}"


def _clique_pace(part: PredictedPart, count: int) -> str:
    if count == 1:
        return ""
    return ", one at a time" if _is_single(part) else f", up to {_max_at_once(part)} at the same time"


def _is_single(part: PredictedPart) -> bool:
    return part.at_once == 1 and all(len(step.pods) == 1 for step in part.steps)


def _max_at_once(part: PredictedPart) -> int:
    return max(part.at_once, max(len(step.pods) for step in part.steps))


def _describe_pod_step(step: ReplacementStep) -> str:
    text = _join(step.pods)
    return f"{text} (not ready)" if step.unready_pods == len(step.pods) else text


def _describe_group_step(step: ReplacementStep) -> str:
    state = ", not ready" if step.unready_pods == len(step.pods) else ""
    return f"replica {step.group_replica} as a whole ({count_noun(len(step.pods), 'pod')}{state})"


# Created, removed and kept


def _describe_created(block: Block) -> str:
    missing = block.pods - block.ready
    end = f", {missing} of which {verb(missing, 'does', 'do')} not run at the end" if missing else ""
    return f"{_describe_unit(block)}{end}"


def _describe_removed(block: Block) -> str:
    return f"{_describe_unit(block)}: {_join(block.names)}" if block.unit is UnitKind.POD else _describe_unit(block)


def _describe_unit(block: Block) -> str:
    pods = count_noun(block.pods, "pod")
    match block.unit:
        case UnitKind.SET_REPLICA:
            return f"set replica {block.set_replica} ({pods})"
        case UnitKind.GROUP_REPLICA:
            return f"replica {block.group_replica} of group {block.name} ({pods})"
        case UnitKind.POD:
            return f"{pods} of {block.name}"


def _object_lines(found: Prediction) -> list[str]:
    """Return the counts only; the names follow from the created and removed blocks."""
    objects = found.objects
    lines = [(objects.created, "created"), (objects.removed, "removed")]
    return [f"{_count_kinds(names)} {what}" for names, what in lines if names]


def _count_kinds(names: Sequence[str]) -> str:
    kinds = [name.partition("/")[0] for name in names]
    return ", ".join(count_noun(kinds.count(kind), kind) for kind in dict.fromkeys(kinds))


def _down_lines(found: Prediction) -> list[str]:
    lines: list[str] = []
    groups = frozenset(one.name for one in found.down if one.kind == "podcliquescalinggroup")
    # If replicas of a group are down, so are their cliques.
    shown = [one for one in found.down if one.group not in groups]
    for (kind, at_most, of), some in _group_equal(shown):
        what = f"{at_most} of {count_noun(of, 'replica' if kind == 'podcliquescalinggroup' else 'pod')}"
        if kind == "podcliqueset":
            lines.append(f"{at_most} of {count_noun(of, 'set replica')} (below its minimum)")
        elif len(some) > LISTED:
            lines.append(f"{what} of each of {len(some)} {'cliques' if kind == 'podclique' else 'groups'}")
        else:
            lines += [f"{what} of {_WHOSE[kind]}{one.name}" for one in some]
    if found.order and not any(one.kind == "podcliqueset" for one in found.down):
        lines.append("no set replica: each keeps its minimum")
    return lines


_WHOSE = {"pods": "pcs/", "podcliquescalinggroup": "group ", "podclique": ""}


def _group_equal(downs: Sequence[Down]) -> list[tuple[tuple[str, int, int], list[Down]]]:
    found: dict[tuple[str, int, int], list[Down]] = {}
    for one in downs:
        found.setdefault((one.kind, one.at_most, one.of), []).append(one)
    return list(found.items())


def _untouched_lines(kept: Sequence[UntouchedPods]) -> list[str]:
    if not kept:
        return []
    shown = [f"{count_noun(one.pods, 'pod')} of {_WHOSE[one.kind]}{one.name}" for one in kept[:LISTED]]
    rest = kept[LISTED:]
    if rest:
        shown.append(f"{count_noun(sum(one.pods for one in rest), 'pod')} of {len(rest)} more")
    return [", ".join(shown)]


def _join(words: Sequence[str], between: str = ", ") -> str:
    """Join words. Of many, list the first ones and count the rest."""
    if len(words) <= LISTED:
        return between.join(words)
    return f"{between.join(words[: LISTED - 1])} and {len(words) - LISTED + 1} more"

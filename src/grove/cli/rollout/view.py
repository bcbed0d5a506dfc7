"""Render updates and revisions as rows and lines. Pure."""

import textwrap
from collections.abc import Sequence
from datetime import datetime, timedelta

from grove.cli.common.output import GAP, Cell, Row, Tone, plain
from grove.cli.rollout.history import HistoryEntry
from grove.cli.rollout.progress import Rollout, RolloutState, Share, UnitProgress
from grove.cli.rollout.template_diff import told_changes
from grove.cli.status.tree_view import age
from grove.planner.explain.text import counted

WIDEST_BAR = 40
NARROWEST_BAR = 10
_HEADER = ("REVISION", "CURRENT", "REPLICAS", "AGE", "HASH", "CHANGE-CAUSE", "CHANGED")


def progress_rows(rollout: Rollout, now: datetime, width: int) -> list[Row]:
    """Return the live display: two bars, the current replica, and why the update is stalled."""
    rows: list[Row] = [(Cell(line, Tone.STRONG),) for line in wrapped(_title(rollout, now), width)]
    if rollout.state is not RolloutState.UNSEEN:
        rows += _bars(rollout, width)
    for text in _turn_lines(rollout):
        rows += [(Cell(line),) for line in wrapped(text, width)]
    if rollout.stalled is not None:
        text = f"! {rollout.stalled.reason}: {rollout.stalled.message}"
        rows += [(Cell(line, Tone.BAD),) for line in wrapped(text, width)]
    return rows


def progress_line(rollout: Rollout) -> str:
    """Return the progress as one line, for logs."""
    if rollout.is_over:
        return outcome(rollout)
    parts = [_title(rollout, None)]
    if rollout.state is not RolloutState.UNSEEN:
        parts += [f"{rollout.replicas} replicas", f"{rollout.pods} pods"]
    parts += [line.strip() for line in _turn_lines(rollout)]
    if rollout.stalled is not None:
        parts.append(f"{rollout.stalled.reason}: {rollout.stalled.message}")
    return "; ".join(parts)


def substance(rollout: Rollout) -> tuple[object, ...]:
    """Return what must change for a new line. Pods count in steps of one percent: large sets print few lines."""
    percent = 100 * rollout.pods.updated // max(1, rollout.pods.total)
    turn = rollout.turn
    units = () if turn is None else tuple((unit.name, unit.current) for unit in turn.units)
    return (
        rollout.state,
        rollout.revision,
        rollout.observed_generation,
        rollout.replicas,
        rollout.pods.total,
        percent,
        None if turn is None else turn.replica_index,
        units,
        rollout.stalled,
    )


def outcome(rollout: Rollout) -> str:
    """Return the result of an update that is over."""
    name = f"pcs/{rollout.name}"
    if rollout.state is RolloutState.ON_DELETE:
        count = f"{rollout.pods.updated} of {counted(rollout.pods.total, 'pod')}"
        runs = "runs" if rollout.pods.total == 1 else "run"
        return f"{name}: {count} {runs} the newest template; OnDelete: the rest follow when you delete them"
    text = f"{name} is up to date (revision {rollout.revision})"
    if rollout.started_at is not None and rollout.ended_at is not None and rollout.ended_at > rollout.started_at:
        text += f", the update took {took(rollout.ended_at - rollout.started_at)}"
    if rollout.available_replicas < rollout.replicas.total:
        missing = f"{rollout.available_replicas} of {counted(rollout.replicas.total, 'replica')} available"
        text += f"; {missing}, see `grove why {name}`"
    return text


def waits_for(rollout: Rollout) -> str:
    """Return what an update waits for at the timeout: its stall message, else the current replica."""
    parts = [_title(rollout, None)]
    if rollout.state is not RolloutState.UNSEEN:
        parts.append(f"{rollout.replicas} replicas and {rollout.pods} pods are new")
    if rollout.stalled is not None:
        parts.append(f"{rollout.stalled.reason}: {rollout.stalled.message}")
    else:
        parts += [line.strip() for line in _turn_lines(rollout)]
    return "; ".join([*parts, f"`grove why pcs/{rollout.name}` says more"])


def took(duration: timedelta) -> str:
    seconds = max(0, int(duration.total_seconds()))
    hours, minutes = seconds // 3600, seconds // 60 % 60
    if hours:
        return f"{hours}h{minutes}m"
    return f"{minutes}m{seconds % 60}s" if minutes else f"{seconds}s"


def _title(rollout: Rollout, now: datetime | None) -> str:
    name = f"pcs/{rollout.name}"
    if rollout.is_over:
        return outcome(rollout)
    if rollout.state is RolloutState.UNSEEN:
        seen = f"generation {rollout.generation}, it has seen {rollout.observed_generation}"
        return f"{name} waits for the operator to take up the newest templates ({seen})"
    elapsed = f" for {took(now - rollout.started_at)}" if now is not None and rollout.started_at is not None else ""
    return f"{name} updating to revision {rollout.revision}{elapsed}"


def _bars(rollout: Rollout, width: int) -> list[Row]:
    shares = (("replicas", rollout.replicas), ("pods", rollout.pods))
    taken = max(len(word) + len(str(share)) for word, share in shares) + 2 * len(GAP)
    length = min(WIDEST_BAR, max(NARROWEST_BAR, width - taken))
    tone = Tone.GOOD if rollout.stalled is None else Tone.WAITING
    return [(Cell(word), Cell(bar(share, length), tone), Cell(str(share))) for word, share in shares]


def bar(share: Share, length: int) -> str:
    """Return a progress bar. It is full only when everything is updated."""
    filled = length if share.updated >= share.total else length * share.updated // share.total
    return "█" * filled + "░" * (length - filled)


def _turn_lines(rollout: Rollout) -> list[str]:
    turn = rollout.turn
    if turn is None or rollout.is_over:
        return []
    return [f"replica {turn.replica_index}", *(f"  {_unit(unit)}" for unit in turn.units)]


def _unit(unit: UnitProgress) -> str:
    is_group = unit.kind == "pcsg"
    text = f"{unit.kind}/{unit.name} {unit.share} {'replicas' if is_group else 'pods'} new"
    if unit.share.updated >= unit.share.total:
        return f"{text}, not all ready yet"
    if not unit.current:
        return text
    return f"{text}, recreating replica {unit.current}" if is_group else f"{text}, replacing pod/{unit.current}"


def wrapped(text: str, width: int) -> list[str]:
    """Wrap a text between words. Continuation lines are indented."""
    indent = text[: len(text) - len(text.lstrip())]
    lines = textwrap.wrap(
        text.strip(), max(20, width), initial_indent=indent, subsequent_indent=indent + GAP, break_on_hyphens=False
    )
    return lines or [""]


# --- history ---------------------------------------------------------------------------------------------------------


def history_rows(entries: Sequence[HistoryEntry], now: datetime, width: int | None) -> list[Row]:
    """Return one row per revision, oldest first. If rows would be too long, changes go below their revision."""
    header: Row = tuple(Cell(word, Tone.FAINT) for word in _HEADER)
    rows = [header, *(_entry(entry, now, _changed(entry)) for entry in entries)]
    if width is None or max(map(len, plain(rows))) <= width:
        return rows
    narrow: list[Row] = [header[:-1]]
    for entry in entries:
        narrow.append(_entry(entry, now, "")[:-1])
        for text in told_changes(entry.changes):
            narrow += [(Cell(line),) for line in wrapped(f"  {text}", width)]
    return narrow


def _entry(entry: HistoryEntry, now: datetime, changed: str) -> Row:
    return (
        Cell(str(entry.revision), Tone.STRONG if entry.is_current else Tone.PLAIN),
        Cell("*" if entry.is_current else "", Tone.GOOD),
        Cell(str(entry.replicas)),
        Cell(age(entry.created_at, now)),
        Cell(entry.generation_hash),
        Cell(entry.change_cause or "-"),
        Cell(changed),
    )


def _changed(entry: HistoryEntry) -> str:
    return "; ".join(told_changes(entry.changes))

"""Render updates and revisions as rows and lines. Pure."""

import textwrap
from collections.abc import Sequence
from datetime import datetime, timedelta

from grove.cli.common.output import GAP, Cell, Row, Tone, plain_lines
from grove.cli.rollout.history import HistoryEntry
from grove.cli.rollout.progress import Rollout, RolloutState, Share, UnitProgress
from grove.cli.status.tree_lines import age
from grove.operations.hints import hint, name_with_namespace
from grove.operations.rollout.template_diff import describe_changes
from grove.planner.explain.text import count_noun

WIDEST_BAR = 40
NARROWEST_BAR = 10
_HEADER = ("REVISION", "CURRENT", "REPLICAS", "AGE", "HASH", "CHANGE-CAUSE", "CHANGED")


def progress_rows(rollout: Rollout, now: datetime, width: int) -> list[Row]:
    """Return the live display: two bars, the current replica, and why the update is stalled."""
    rows: list[Row] = [(Cell(line, Tone.STRONG),) for line in wrap(_title(rollout, now), width)]
    if rollout.state is not RolloutState.UNSEEN:
        rows += _bars(rollout, width)
    for text in _current_replica_lines(rollout):
        rows += [(Cell(line),) for line in wrap(text, width)]
    if rollout.stalled is not None:
        text = f"! {rollout.stalled.reason}: {rollout.stalled.message}"
        rows += [(Cell(line, Tone.BAD),) for line in wrap(text, width)]
    return rows


def progress_line(rollout: Rollout) -> str:
    """Return the progress as one line, for logs."""
    if rollout.is_over:
        return describe_result(rollout)
    parts = [_title(rollout, None)]
    if rollout.state is not RolloutState.UNSEEN:
        parts += [f"{rollout.replicas} replicas", _describe_pods(rollout.pods)]
    parts += [line.strip() for line in _current_replica_lines(rollout)]
    if rollout.stalled is not None:
        parts.append(f"{rollout.stalled.reason}: {rollout.stalled.message}")
    return "; ".join(parts)


def progress_key(rollout: Rollout) -> tuple[object, ...]:
    """Return a key; a line is printed when it changes. Pods count in steps of one percent, so large sets print few."""
    percent = 100 * rollout.pods.ready // max(1, rollout.pods.total)
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


def describe_result(rollout: Rollout) -> str:
    """Return the result of an update that is over."""
    name = name_with_namespace(f"pcs/{rollout.name}", rollout.namespace)
    if rollout.state is RolloutState.ON_DELETE:
        count = f"{rollout.pods.updated} of {count_noun(rollout.pods.total, 'pod')}"
        runs = "runs" if rollout.pods.total == 1 else "run"
        return f"{name}: {count} {runs} the newest template; OnDelete: delete the others to update them"
    text = f"{name} is up to date (revision {rollout.revision})"
    if rollout.started_at is not None and rollout.ended_at is not None and rollout.ended_at > rollout.started_at:
        text += f", the update took {format_elapsed(rollout.ended_at - rollout.started_at)}"
    if rollout.available_replicas < rollout.replicas.total:
        missing = f"{rollout.available_replicas} of {count_noun(rollout.replicas.total, 'replica')} available"
        text += f"; {missing}, see `{hint(f'why pcs/{rollout.name}', rollout.namespace)}`"
    return text


def describe_wait(rollout: Rollout) -> str:
    """Return what an update waits for at the timeout: its stall message, else the current replica."""
    parts = [_title(rollout, None)]
    if rollout.state is not RolloutState.UNSEEN:
        parts.append(f"{rollout.replicas} replicas are updated, {_describe_pods(rollout.pods)}")
    if rollout.stalled is not None:
        parts.append(f"{rollout.stalled.reason}: {rollout.stalled.message}")
    else:
        parts += [line.strip() for line in _current_replica_lines(rollout)]
    return "; ".join([*parts, f"`{hint(f'why pcs/{rollout.name}', rollout.namespace)}` explains more"])


def format_elapsed(duration: timedelta) -> str:
    seconds = max(0, int(duration.total_seconds()))
    hours, minutes = seconds // 3600, seconds // 60 % 60
    if hours:
        return f"{hours}h{minutes}m"
    return f"{minutes}m{seconds % 60}s" if minutes else f"{seconds}s"


def _title(rollout: Rollout, now: datetime | None) -> str:
    name = name_with_namespace(f"pcs/{rollout.name}", rollout.namespace)
    if rollout.is_over:
        return describe_result(rollout)
    if rollout.state is RolloutState.UNSEEN:
        return f"{name} waits for the operator to begin the update to its newest templates"
    elapsed = (
        f" for {format_elapsed(now - rollout.started_at)}" if now is not None and rollout.started_at is not None else ""
    )
    return f"{name} updating to revision {rollout.revision}{elapsed}"


def _bars(rollout: Rollout, width: int) -> list[Row]:
    shares = (("replicas", rollout.replicas), ("pods", rollout.pods))
    texts = (str(rollout.replicas), _describe_share(rollout.pods))
    used = max(len(word) for word, _ in shares) + max(map(len, texts)) + 2 * len(GAP)
    length = min(WIDEST_BAR, max(NARROWEST_BAR, width - used))
    tone = Tone.GOOD if rollout.stalled is None else Tone.WAITING
    return [
        (Cell(word), Cell(bar(share, length), tone), Cell(text))
        for (word, share), text in zip(shares, texts, strict=True)
    ]


def bar(share: Share, length: int) -> str:
    """Return a progress bar: ready ones, updated ones that are not ready, the rest. Full only when all are ready."""
    ready = _scale(share.ready, share.total, length)
    updated = max(ready, _scale(share.updated, share.total, length))
    return "█" * ready + "▒" * (updated - ready) + "░" * (length - updated)


def _scale(count: int, total: int, length: int) -> int:
    return length if count >= total else length * count // total


def _describe_pods(share: Share) -> str:
    return f"{share} pods new and ready{_describe_starting(share)}"


def _describe_share(share: Share) -> str:
    return f"{share} ready{_describe_starting(share)}"


def _describe_starting(share: Share) -> str:
    return f", {share.updated - share.ready} starting" if share.updated > share.ready else ""


def _current_replica_lines(rollout: Rollout) -> list[str]:
    turn = rollout.turn
    if turn is None or rollout.is_over:
        return []
    return [f"replica {turn.replica_index}", *(f"  {_describe_unit(unit)}" for unit in turn.units)]


def _describe_unit(unit: UnitProgress) -> str:
    is_group = unit.kind == "pcsg"
    noun = "replicas" if is_group else "pods"
    text = f"{unit.kind}/{unit.name} {unit.share} {noun} new and ready{_describe_starting(unit.share)}"
    if unit.share.updated >= unit.share.total or not unit.current:
        return text
    return f"{text}, recreating replica {unit.current}" if is_group else f"{text}, replacing pod/{unit.current}"


def wrap(text: str, width: int) -> list[str]:
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
    rows = [header, *(_entry_row(entry, now, _describe_entry(entry)) for entry in entries)]
    if width is None or max(map(len, plain_lines(rows))) <= width:
        return rows
    narrow: list[Row] = [header[:-1]]
    for entry in entries:
        narrow.append(_entry_row(entry, now, "")[:-1])
        for text in describe_changes(entry.changes):
            narrow += [(Cell(line),) for line in wrap(f"  {text}", width)]
    return narrow


def _entry_row(entry: HistoryEntry, now: datetime, changed: str) -> Row:
    return (
        Cell(str(entry.revision), Tone.STRONG if entry.is_current else Tone.PLAIN),
        Cell("*" if entry.is_current else "", Tone.GOOD),
        Cell(str(entry.replicas)),
        Cell(age(entry.created_at, now)),
        Cell(entry.generation_hash),
        Cell(entry.change_cause or "-"),
        Cell(changed),
    )


def _describe_entry(entry: HistoryEntry) -> str:
    return "; ".join(describe_changes(entry.changes))

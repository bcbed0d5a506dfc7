"""Render the output of `grove run`: the lines of pods with prefixes, and the summary. Pure; `output.py` prints."""

import signal
from collections.abc import Iterator, Sequence
from datetime import timedelta

from grove.api.types.podcliqueset import SetPhase, WorkloadType
from grove.api.values.durations import format_duration
from grove.cli.commands.why import why_rows
from grove.cli.common.output import Cell, Row, Tone
from grove.cli.common.pod_prefix import PodPrefixes, strip_controls
from grove.cli.run.exit_status import RunResult, SetResult, Summary
from grove.cli.run.pod_output import ContainerFailure, OutputItem, PodLine, RunEvent
from grove.operations.hints import name_with_namespace
from grove.planner.explain.text import count_noun

# After the first failure, which is printed in full.
MAX_FURTHER_FAILURES = 5

_PHASE_TONES = {SetPhase.SUCCEEDED.value: Tone.GOOD, SetPhase.FAILED.value: Tone.BAD}
_WHEN_STOPPED = {
    RunResult.AVAILABLE: " and available",
    RunResult.FAILED: " when another set failed",
    RunResult.CANNOT_START: " and cannot start",
    RunResult.TIMED_OUT: " when the timeout expired",
    RunResult.INTERRUPTED: " when interrupted",
    RunResult.TERMINATED: " when terminated",
}


class Prefixes:
    """Rows and lines of pods, each with the prefix of its pod."""

    def __init__(self) -> None:
        self._prefixes = PodPrefixes()

    def plain_line(self, item: OutputItem) -> str:
        if isinstance(item, RunEvent):
            return _format_event(item)
        return f"{self._prefix(item).text} {_mark(item)} {item.text}"

    def row(self, item: OutputItem) -> Row:
        """Return a row for a terminal, without control characters."""
        if isinstance(item, RunEvent):
            return (Cell(_format_event(item), Tone.WAITING),)
        return (self._prefix(item), Cell(f"{_mark(item)} {strip_controls(item.text)}", _tone(item)))

    def _prefix(self, line: PodLine) -> Cell:
        return self._prefixes.cell(str(line.origin), line.origin.host)


def _format_event(event: RunEvent) -> str:
    at = f"{event.at:%H:%M:%S} " if event.at is not None else ""
    return f"{at}{event.about} {event.reason}: {event.message}"


def _mark(line: PodLine) -> str:
    return "!" if line.is_remark else "|"


def _tone(line: PodLine) -> Tone:
    return Tone.BAD if line.is_remark else Tone.PLAIN


def summary_rows(summary: Summary, columns: int | None = None) -> list[Row]:
    """Return the rows of all sets. `columns`: wrap explanations that are longer."""
    return [row for one in summary.sets for row in _set_rows(one, summary, columns)]


def _set_rows(one: SetResult, summary: Summary, columns: int | None) -> Iterator[Row]:
    is_over = one.phase in _PHASE_TONES
    when = "" if is_over else _WHEN_STOPPED.get(summary.outcome, "")
    took = format_duration(timedelta(milliseconds=round(summary.seconds * 10) * 100))
    text = f"{name_with_namespace(f'pcs/{one.name}', one.namespace)} {one.phase}{when} after {took}"
    if one.workload_type == WorkloadType.TRAINING:
        text += f", {count_noun(one.restarts + 1, 'attempt')} ({count_noun(one.restarts, 'restart')})"
    # With a failure, the rest of the message repeats the lines below.
    message = one.message.partition(": ")[0] if one.failures else one.message
    text += f": {message}" if message else ""
    yield (Cell(text, _PHASE_TONES.get(one.phase, Tone.WAITING)),)
    yield from why_rows(one.waits_for, columns)
    if one.failures:
        yield from _failure_rows(one.failures)


def _failure_rows(failures: Sequence[ContainerFailure]) -> Iterator[Row]:
    first, *others = failures
    further = _first_of_attempts(others, after=first.attempt)
    lines = "; its last lines:" if first.last_lines else "; it printed nothing"
    yield (Cell(f"Failed first: {_describe_failure(first)}{lines}", Tone.BAD),)
    for line in first.last_lines:
        yield (Cell(f"  {strip_controls(line)}", Tone.PLAIN),)
    for failure in further[:MAX_FURTHER_FAILURES]:
        yield (Cell(f"Then: {_describe_failure(failure)}", Tone.FAINT),)
    if len(further) > MAX_FURTHER_FAILURES:
        yield (Cell(f"... and {count_noun(len(further) - MAX_FURTHER_FAILURES, 'more failure')}", Tone.FAINT),)


def _first_of_attempts(failures: Sequence[ContainerFailure], *, after: int) -> list[ContainerFailure]:
    """Return the first failure of each attempt. The others usually fail because of it."""
    found: dict[int, ContainerFailure] = {}
    for failure in failures:
        if failure.attempt > after:
            found.setdefault(failure.attempt, failure)
    return list(found.values())


def _describe_failure(failure: ContainerFailure) -> str:
    return f"pod/{failure.where}, {_describe_cause(failure)}, in attempt {failure.attempt}"


def _describe_cause(failure: ContainerFailure) -> str:
    if failure.exit_code is None:
        return failure.reason or "the pod failed"
    killed = _signal_name(failure.exit_code - 128)
    return f"exit code {failure.exit_code}{f' ({killed})' if killed else ''}"


def _signal_name(number: int) -> str:
    return signal.Signals(number).name if number in signal.valid_signals() else ""

"""Render the output of `grove run`: the lines of pods with prefixes, and the summary. Pure; `output.py` prints."""

import re
import signal
from collections.abc import Iterator, Sequence
from datetime import timedelta

from grove.api.types.podcliqueset import SetPhase, WorkloadType
from grove.api.values.durations import format_duration
from grove.cli.commands.why import why_rows
from grove.cli.common.output import Cell, Row, Tone
from grove.cli.run.exit_status import RunResult, SetOutcome, Summary
from grove.cli.run.pod_output import ContainerFailure, Heard, PodLine, RunEvent, Speaker
from grove.planner.explain.text import counted

HUES = (Tone.FIRST_HUE, Tone.SECOND_HUE, Tone.THIRD_HUE, Tone.FOURTH_HUE, Tone.FIFTH_HUE, Tone.SIXTH_HUE)
# After the first failure, which is printed in full.
MOST_FURTHER_FAILURES = 5

# Escape sequences and control characters except the tab: they would move the cursor or change colors.
_CONTROLS = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b.?|[\x00-\x08\x0b-\x1f\x7f]")
_PHASE_TONES = {SetPhase.SUCCEEDED.value: Tone.GOOD, SetPhase.FAILED.value: Tone.BAD}
_BEFORE_ITS_END = {
    RunResult.AVAILABLE: " and available",
    RunResult.FAILED: " when another set failed",
    RunResult.TIMED_OUT: " when its time was up",
    RunResult.INTERRUPTED: " when it was interrupted",
    RunResult.TERMINATED: " when it was told to end",
}


class Prefixes:
    """Prefixes of pod lines: as wide as the widest so far, with one color per host and its successors."""

    def __init__(self) -> None:
        self._width = 0
        self._hues: dict[str, Tone] = {}

    def plain(self, heard: Heard) -> str:
        if isinstance(heard, RunEvent):
            return _happening(heard)
        return f"{self._name(heard.speaker)} {_mark(heard)} {heard.text}"

    def row(self, heard: Heard) -> Row:
        """Return a row for a terminal, without control characters."""
        if isinstance(heard, RunEvent):
            return (Cell(_happening(heard), Tone.WAITING),)
        hue = self._hues.setdefault(heard.speaker.host, HUES[len(self._hues) % len(HUES)])
        text = _CONTROLS.sub("", heard.text)
        return (Cell(self._name(heard.speaker), hue), Cell(f"{_mark(heard)} {text}", _tone(heard)))

    def _name(self, speaker: Speaker) -> str:
        name = str(speaker)
        self._width = max(self._width, len(name))
        return name.ljust(self._width)


def _happening(happening: RunEvent) -> str:
    at = f"{happening.at:%H:%M:%S} " if happening.at is not None else ""
    return f"{at}{happening.about} {happening.reason}: {happening.message}"


def _mark(line: PodLine) -> str:
    return "!" if line.is_remark else "|"


def _tone(line: PodLine) -> Tone:
    return Tone.BAD if line.is_remark else Tone.PLAIN


def summary_rows(summary: Summary) -> list[Row]:
    return [row for one in summary.sets for row in _set_rows(one, summary)]


def _set_rows(one: SetOutcome, summary: Summary) -> Iterator[Row]:
    is_over = one.phase in _PHASE_TONES
    when = "" if is_over else _BEFORE_ITS_END.get(summary.outcome, "")
    took = format_duration(timedelta(milliseconds=round(summary.seconds * 10) * 100))
    text = f"pcs/{one.name} {one.phase}{when} after {took}"
    if one.workload_type == WorkloadType.TRAINING:
        text += f", {counted(one.restarts + 1, 'attempt')} ({counted(one.restarts, 'restart')})"
    text += f": {one.message}" if one.message else ""
    yield (Cell(text, _PHASE_TONES.get(one.phase, Tone.WAITING)),)
    yield from why_rows(one.waits_for)
    if one.failures:
        yield from _failure_rows(one.failures)


def _failure_rows(failures: Sequence[ContainerFailure]) -> Iterator[Row]:
    first, *others = failures
    further = _first_of_attempts(others, after=first.attempt)
    lines = "; its last lines:" if first.last_lines else "; it wrote nothing"
    yield (Cell(f"Failed first: {_failure(first)}{lines}", Tone.BAD),)
    for line in first.last_lines:
        yield (Cell(f"  {_CONTROLS.sub('', line)}", Tone.PLAIN),)
    for failure in further[:MOST_FURTHER_FAILURES]:
        yield (Cell(f"Then: {_failure(failure)}", Tone.FAINT),)
    if len(further) > MOST_FURTHER_FAILURES:
        yield (Cell(f"... and {counted(len(further) - MOST_FURTHER_FAILURES, 'more failure')}", Tone.FAINT),)


def _first_of_attempts(failures: Sequence[ContainerFailure], *, after: int) -> list[ContainerFailure]:
    """Return the first failure of each attempt. The others usually fail because of it."""
    found: dict[int, ContainerFailure] = {}
    for failure in failures:
        if failure.attempt > after:
            found.setdefault(failure.attempt, failure)
    return list(found.values())


def _failure(failure: ContainerFailure) -> str:
    return f"pod/{failure.where}, {_cause(failure)}, in attempt {failure.attempt}"


def _cause(failure: ContainerFailure) -> str:
    if failure.exit_code is None:
        return failure.reason or "it failed"
    killed = _signal_name(failure.exit_code - 128)
    return f"exit code {failure.exit_code}{f' ({killed})' if killed else ''}"


def _signal_name(number: int) -> str:
    return signal.Signals(number).name if number in signal.valid_signals() else ""

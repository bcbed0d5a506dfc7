"""Print the progress of `grove run` to a terminal, to a pipe, or as JSON.

It prints trees of sets (`cli/status/set_watcher.py`) and the lines of pods (`view.py`).
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from grove.cli.common import output
from grove.cli.common.output import Board, Format
from grove.cli.run.exit_status import Summary
from grove.cli.run.pod_output import Heard, RunEvent
from grove.cli.run.view import Prefixes, summary_rows
from grove.cli.status.set_watcher import Changes, LiveTree, Look, Records
from grove.clock import Clock

# Lines that arrive together are printed together, because each print redraws the terminal.
PAUSE_SECONDS = 0.05
# The rest of the terminal's height is for the lines of pods.
SHARE_OF_PICTURE = 0.5


class Stage(Protocol):
    look: Look

    def say(self, lines: Sequence[Heard]) -> None: ...


@contextmanager
def stage(clock: Clock, output_format: Format) -> Iterator[Stage]:
    if output_format is Format.JSON:
        yield JsonOutput()
    elif output.is_terminal():
        with output.board() as board:
            yield Terminal(clock, board)
    else:
        yield Pipe(clock)


class JsonOutput:
    """An output of one JSON value per line: a list of sets per change, an object per pod line or event."""

    def __init__(self) -> None:
        self.look: Look = Records()

    def say(self, lines: Sequence[Heard]) -> None:
        for line in lines:
            output.say_json_line(_record(line))


def _record(heard: Heard) -> dict[str, object]:
    if isinstance(heard, RunEvent):
        return {"about": heard.about, "reason": heard.reason, "message": heard.message, "at": heard.at}
    speaker = heard.speaker
    said = {"remark" if heard.is_remark else "line": heard.text, "at": heard.written_at or None}
    return {"pod": speaker.pod, "container": speaker.container, **said}


class Terminal:
    """A live tree of sets, with the lines of pods above it."""

    def __init__(self, clock: Clock, board: Board) -> None:
        self._board = board
        self._prefixes = Prefixes()
        self.look: Look = LiveTree(clock, board.draw, share=SHARE_OF_PICTURE, has_hint=False)

    def say(self, lines: Sequence[Heard]) -> None:
        self._board.say_above([self._prefixes.row(line) for line in lines])


class Pipe:
    """An output of plain lines."""

    def __init__(self, clock: Clock) -> None:
        self._prefixes = Prefixes()
        self.look: Look = Changes(clock)

    def say(self, lines: Sequence[Heard]) -> None:
        output.say("\n".join(self._prefixes.plain(line) for line in lines))


def say_summary(summary: Summary, output_format: Format) -> None:
    if output_format is Format.JSON:
        output.say_json_line(summary)
    else:
        output.say_rows(summary_rows(summary))


class PodLines:
    """A buffer of pod lines between the recorder and the output. Every line is printed exactly once."""

    def __init__(self) -> None:
        self._waiting: list[Heard] = []
        self._came = asyncio.Event()

    def add(self, line: Heard) -> None:
        self._waiting.append(line)
        self._came.set()

    async def print_for_ever(self, where: Stage, clock: Clock) -> None:
        while True:
            await self._came.wait()
            self.print_now(where)
            await clock.sleep(PAUSE_SECONDS)

    def print_now(self, where: Stage) -> None:
        lines, self._waiting = self._waiting, []
        self._came.clear()
        if lines:
            where.say(lines)

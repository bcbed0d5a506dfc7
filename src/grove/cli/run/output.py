"""Print the progress of `grove run` to a terminal, to a pipe, or as JSON.

It prints trees of sets (`cli/status/set_watcher.py`) and the lines of pods (`view.py`).
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from grove.cli.common import output
from grove.cli.common.live_display import LiveTable, open_live_table
from grove.cli.common.output import Format
from grove.cli.run.exit_status import Summary
from grove.cli.run.pod_output import OutputItem, RunEvent
from grove.cli.run.view import Prefixes, summary_rows
from grove.cli.status.set_watcher import LiveTree, TreeChangeLines, TreeJsonLines, TreeRenderer
from grove.clock import Clock

# Lines that arrive together are printed together, because each print redraws the terminal.
PAUSE_SECONDS = 0.05
# The rest of the terminal's height is for the lines of pods.
TREE_SHARE = 0.5


class RunOutput(Protocol):
    tree: TreeRenderer

    def print_items(self, lines: Sequence[OutputItem]) -> None: ...


@contextmanager
def open_run_output(clock: Clock, output_format: Format) -> Iterator[RunOutput]:
    if output_format is Format.JSON:
        yield JsonOutput()
    elif output.is_terminal():
        with open_live_table() as table:
            yield Terminal(clock, table)
    else:
        yield Pipe(clock)


class JsonOutput:
    """An output of one JSON value per line: a list of sets per change, an object per pod line or event."""

    def __init__(self) -> None:
        self.tree: TreeRenderer = TreeJsonLines()

    def print_items(self, lines: Sequence[OutputItem]) -> None:
        for line in lines:
            output.print_json_line(_record(line))


def _record(item: OutputItem) -> dict[str, object]:
    if isinstance(item, RunEvent):
        return {"about": item.about, "reason": item.reason, "message": item.message, "at": item.at}
    origin = item.origin
    text = {"remark" if item.is_remark else "line": item.text, "at": item.written_at or None}
    return {"pod": origin.pod, "container": origin.container, **text}


class Terminal:
    """A live tree of sets, with the lines of pods above it."""

    def __init__(self, clock: Clock, table: LiveTable) -> None:
        self._table = table
        self._prefixes = Prefixes()
        self.tree: TreeRenderer = LiveTree(clock, table.draw, share=TREE_SHARE, has_hint=False)

    def print_items(self, lines: Sequence[OutputItem]) -> None:
        self._table.print_above([self._prefixes.row(line) for line in lines])


class Pipe:
    """An output of plain lines."""

    def __init__(self, clock: Clock) -> None:
        self._prefixes = Prefixes()
        self.tree: TreeRenderer = TreeChangeLines(clock)

    def print_items(self, lines: Sequence[OutputItem]) -> None:
        output.print_line("\n".join(self._prefixes.plain_line(line) for line in lines))


def print_summary(summary: Summary, output_format: Format) -> None:
    if output_format is Format.JSON:
        output.print_json_line(summary)
    else:
        output.print_rows(summary_rows(summary, output.line_width()))


class PodLines:
    """A buffer of pod lines between the recorder and the output. Every line is printed exactly once."""

    def __init__(self) -> None:
        self._waiting: list[OutputItem] = []
        self._arrived = asyncio.Event()

    def add(self, line: OutputItem) -> None:
        self._waiting.append(line)
        self._arrived.set()

    async def print_until_cancelled(self, run_output: RunOutput, clock: Clock) -> None:
        while True:
            await self._arrived.wait()
            self.print_now(run_output)
            await clock.sleep(PAUSE_SECONDS)

    def print_now(self, run_output: RunOutput) -> None:
        lines, self._waiting = self._waiting, []
        self._arrived.clear()
        if lines:
            run_output.print_items(lines)

"""A table that is redrawn in place on a terminal, and lines that scroll above it.

A frame is one write: every line is overwritten, and only what is left of the old one is erased. Terminals that know
synchronized output (DEC mode 2026) show it at once; others ignore that. So nothing flickers.
"""

import asyncio
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from io import StringIO, TextIOBase
from typing import TYPE_CHECKING, TextIO

from grove.cli.common.output import Row, rich_text

if TYPE_CHECKING:
    from rich.text import Text

BEGIN_UPDATE, END_UPDATE = "\x1b[?2026h", "\x1b[?2026l"
HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"
ERASE_LINE_REST, ERASE_BELOW = "\x1b[K", "\x1b[J"
WIDEST = 10_000
CLEAR_SCREEN = "\x1b[2J\x1b[H"


class LiveTable:
    """A table at the end of the terminal. The cursor stays at the end of its last line."""

    def __init__(self, stream: TextIO, size: Callable[[], tuple[int, int]]) -> None:
        """`size` returns the columns and lines of the terminal."""
        from rich.console import Console

        self._stream = stream
        self._size = size
        self._console: Console = Console(
            # Lines are cut here. Without a width the console would take COLUMNS, which may be 0, and print nothing.
            file=StringIO(), highlight=False, force_terminal=True, width=WIDEST,
        )  # fmt: skip
        self._frame: list[Text] = []
        self._drawn_size = size()

    def draw(self, rows: Sequence[Row]) -> None:
        """Replace the table. Rows and columns beyond the terminal are omitted."""
        columns, lines = size = self._size()
        frame = list(rich_text(rows).split("\n", allow_blank=True))[: max(1, lines - 1)]
        for line in frame:
            line.truncate(columns, overflow="ellipsis")
        if frame == self._frame and size == self._drawn_size:
            return
        self._write(self._move_to_start(size) + self._render(frame, columns) + ERASE_BELOW)
        self._frame, self._drawn_size = frame, size

    def print_above(self, rows: Sequence[Row]) -> None:
        """Print rows that stay on the terminal, above the table."""
        self._print_above(list(rich_text(rows).split("\n", allow_blank=True)))

    def print_text_above(self, text: str) -> None:
        from rich.text import Text

        self._print_above([Text(line) for line in text.split("\n")])

    def _print_above(self, lines: "list[Text]") -> None:
        columns, _ = size = self._size()
        start = self._move_to_start(size)
        above = "".join(f"{self._ansi(line)}{ERASE_LINE_REST}\n" for line in lines)
        self._write(start + ERASE_BELOW + above + self._render(self._frame, columns))
        self._drawn_size = size

    def _move_to_start(self, size: tuple[int, int]) -> str:
        """Return how to get from the end of the frame to its start.

        Where a smaller terminal wrapped or scrolled the frame, its start is unknown, so everything is cleared.
        """
        columns, lines = size
        is_distorted = len(self._frame) > lines or any(line.cell_len > columns for line in self._frame)
        if size != self._drawn_size and is_distorted:
            return CLEAR_SCREEN
        return "\r" + (f"\x1b[{len(self._frame) - 1}A" if len(self._frame) > 1 else "")

    def _render(self, frame: "list[Text]", columns: int) -> str:
        # At the right margin the cursor stays on the last column, which must not be erased.
        return "\n".join(self._ansi(line) + ERASE_LINE_REST * (line.cell_len < columns) for line in frame)

    def _ansi(self, line: "Text") -> str:
        with self._console.capture() as captured:
            self._console.print(line, end="", soft_wrap=True)
        return captured.get()

    def _write(self, text: str) -> None:
        self._stream.write(f"{BEGIN_UPDATE}{text}{END_UPDATE}")
        self._stream.flush()

    def open(self) -> None:
        self._stream.write(HIDE_CURSOR)

    def close(self) -> None:
        """Leave the last frame on the terminal."""
        self._stream.write(("\n" if self._frame else "") + SHOW_CURSOR)
        self._stream.flush()


class _AboveTable(TextIOBase):
    """A stream whose lines are printed above the table."""

    def __init__(self, table: LiveTable) -> None:
        self._table = table
        self._rest = ""

    def write(self, text: str) -> int:
        *lines, self._rest = (self._rest + text).split("\n")
        if lines:
            self._table.print_text_above("\n".join(lines))
        return len(text)

    def isatty(self) -> bool:
        return True


@contextmanager
def open_live_table() -> Iterator[LiveTable]:
    """Open a live display. Its last content stays on the terminal. Other output goes above it."""
    table = LiveTable(sys.stdout, _terminal_size)
    table.open()
    try:
        with ExitStack() as redirected:
            redirected.enter_context(redirect_stdout(_AboveTable(table)))
            if sys.stderr.isatty():
                redirected.enter_context(redirect_stderr(_AboveTable(table)))
            yield table
    finally:
        table.close()


@contextmanager
def open_live_draw() -> Iterator[Callable[[Sequence[Row]], None]]:
    """Open a live display and yield only its `draw` function."""
    with open_live_table() as table:
        yield table.draw


def _terminal_size() -> tuple[int, int]:
    columns, lines = shutil.get_terminal_size()
    return max(1, columns), max(1, lines)


@contextmanager
def call_on_resize(callback: Callable[[], None]) -> Iterator[None]:
    """Call back when the size of the terminal changes."""
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGWINCH, callback)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)

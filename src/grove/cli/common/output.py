"""Print lines, tables, JSON and live displays: with `rich` on a terminal, as plain text elsewhere.

No other module writes to stdout or stderr.
"""

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from io import TextIOWrapper
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text


class Format(StrEnum):
    TEXT = "text"
    JSON = "json"


class Tone(StrEnum):
    """The meaning of a cell. A terminal shows it as a color."""

    PLAIN = ""
    GOOD = "green"
    WAITING = "yellow"
    BAD = "bold red"
    FAINT = "dim"
    STRONG = "bold"
    # Hues have no meaning; they only distinguish neighbors.
    FIRST_HUE = "cyan"
    SECOND_HUE = "magenta"
    THIRD_HUE = "blue"
    FOURTH_HUE = "bright_cyan"
    FIFTH_HUE = "bright_magenta"
    SIXTH_HUE = "bright_blue"


class Cell(msgspec.Struct, frozen=True):
    text: str
    tone: Tone = Tone.PLAIN


Row = tuple[Cell, ...]

GAP = "  "


def prepare_output() -> None:
    """Make stdout and stderr usable even if they are closed, or if the encoding lacks the tree characters."""
    # Python sets them to None if the shell closed them with `>&-`.
    sys.stdout = sys.stdout or os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    sys.stderr = sys.stderr or os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def is_terminal() -> bool:
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def height() -> int:
    """Return the number of lines that a live display may have."""
    return max(1, shutil.get_terminal_size().lines - 1)


def width() -> int:
    """Return the number of columns of the terminal."""
    return shutil.get_terminal_size().columns


def say(text: str = "") -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def say_part(text: str) -> None:
    """Print a text without adding a newline."""
    sys.stdout.write(text)
    sys.stdout.flush()


def say_error(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def say_json(value: object) -> None:
    say(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def say_json_line(value: object) -> None:
    """Print a value as one line of JSON."""
    say(msgspec.json.encode(value).decode())


def say_rows(rows: Sequence[Row]) -> None:
    if is_terminal():
        from rich.console import Console

        Console(highlight=False).print(rich_text(rows), soft_wrap=True)
    else:
        for line in plain(rows):
            say(line)


def plain(rows: Sequence[Row]) -> list[str]:
    """Return aligned lines without colors and without trailing spaces."""
    return ["".join(cell.text for cell in row).rstrip() for row in _padded(rows)]


class Board:
    """A table on the terminal that is redrawn in place, and lines that scroll above it."""

    def __init__(self, live: "Live") -> None:
        self._live = live

    def draw(self, rows: Sequence[Row]) -> None:
        """Replace the table. It is cut to the height of the terminal."""
        room = height()
        shown = rows if len(rows) <= room else [*rows[: room - 1], (Cell(_more(len(rows) - room + 1), Tone.FAINT),)]
        text = rich_text(shown)
        text.no_wrap = True
        text.overflow = "ellipsis"
        self._live.update(text, refresh=True)

    def say_above(self, rows: Sequence[Row]) -> None:
        self._live.console.print(rich_text(rows), soft_wrap=True)


@contextmanager
def screen() -> Iterator[Callable[[Sequence[Row]], None]]:
    """Open a live display and yield only its `draw` function."""
    with board() as shown:
        yield shown.draw


@contextmanager
def board() -> Iterator[Board]:
    """Open a live display. Its last content stays on the terminal."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(highlight=False)
    with Live(Text(), console=console, auto_refresh=False, vertical_overflow="crop", transient=False) as live:
        yield Board(live)


def _more(count: int) -> str:
    return f"... {count} more lines; `grove status NAME` shows all"


def _padded(rows: Sequence[Row]) -> list[Row]:
    """Pad every cell to the width of its column, except the last cell of each row."""
    widths: dict[int, int] = {}
    for row in rows:
        for column, cell in enumerate(row[:-1]):
            widths[column] = max(widths.get(column, 0), len(cell.text))
    return [
        tuple(
            Cell(cell.text.ljust(widths[column]) + GAP if column < len(row) - 1 else cell.text, cell.tone)
            for column, cell in enumerate(row)
        )
        for row in rows
    ]


def rich_text(rows: Sequence[Row]) -> "Text":
    """Return aligned rows with colors."""
    from rich.text import Text

    text = Text()
    for number, row in enumerate(_padded(rows)):
        if number:
            text.append("\n")
        for cell in row:
            text.append(cell.text, cell.tone.value or None)
    return text

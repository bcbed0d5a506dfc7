"""Print lines, tables and JSON: with `rich` on a terminal, as plain text elsewhere.

No other module writes to stdout or stderr, except `live_display.py`.
"""

import os
import shutil
import sys
import textwrap
from collections.abc import Sequence
from enum import StrEnum
from io import TextIOWrapper
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
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
    # Printed faint before the text: the branches of a tree.
    lead: str = ""

    def __len__(self) -> int:
        """Return the number of columns that it takes."""
        return len(self.lead) + len(self.text)


Row = tuple[Cell, ...]

GAP = "  "
# A page where no terminal has a height.
PIPED_PAGE_LINES = 60
PIPED_COLUMNS = 120


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


def page_height() -> int:
    """Return the number of lines that a command should print at most, so that the prompt still fits the terminal."""
    return height() - 1 if is_terminal() else PIPED_PAGE_LINES


def width() -> int:
    """Return the number of columns of the terminal."""
    return shutil.get_terminal_size().columns


def line_width() -> int:
    """Return the number of columns that a sentence should have at most: those of the terminal, or of a wide page."""
    return min(width(), PIPED_COLUMNS) if is_terminal() else PIPED_COLUMNS


def wrap_line(text: str, columns: int | None) -> list[str]:
    """Split a sentence at spaces into lines of at most `columns` characters; None: one line."""
    if columns is None or len(text) <= columns:
        return [text]
    return textwrap.wrap(
        text, max(columns, 20), subsequent_indent=GAP, break_long_words=False, break_on_hyphens=False
    )  # fmt: skip


def print_line(text: str = "") -> None:
    """Print a text and a newline to stdout."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def print_text(text: str) -> None:
    """Print a text without adding a newline."""
    sys.stdout.write(text)
    sys.stdout.flush()


def print_error(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def confirm(question: str) -> bool:
    """Print a question on stderr and return whether the answer is yes. An empty answer means no."""
    sys.stderr.write(question)
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def print_error_row(row: Row) -> None:
    """Print a row to stderr, in color if that is a terminal."""
    if sys.stderr.isatty() and is_terminal():
        from rich.console import Console

        Console(highlight=False, stderr=True).print(rich_text([row]), soft_wrap=True)
    else:
        print_error("".join(cell.text for cell in row))


def print_json(value: object) -> None:
    print_line(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def print_json_line(value: object) -> None:
    """Print a value as one line of JSON."""
    print_line(msgspec.json.encode(value).decode())


def print_rows(rows: Sequence[Row]) -> None:
    if is_terminal():
        from rich.console import Console

        Console(highlight=False).print(rich_text(rows), soft_wrap=True)
    else:
        for line in plain_lines(rows):
            print_line(line)


def plain_lines(rows: Sequence[Row]) -> list[str]:
    """Return aligned lines without colors and without trailing spaces."""
    return ["".join(cell.lead + cell.text for cell in row).rstrip() for row in _pad(rows)]


def _pad(rows: Sequence[Row]) -> list[Row]:
    """Pad every cell to the width of its column, except the last cell of each row."""
    widths = _column_widths(rows)
    return [
        tuple(
            msgspec.structs.replace(cell, text=cell.text.ljust(widths[column] - len(cell.lead)) + GAP)
            if column < len(row) - 1
            else cell
            for column, cell in enumerate(row)
        )
        for row in rows
    ]


def _column_widths(rows: Sequence[Row]) -> dict[int, int]:
    """Return the width of every column. The last cell of a row does not count: nothing follows it."""
    widths: dict[int, int] = {}
    for row in rows:
        for column, cell in enumerate(row[:-1]):
            widths[column] = max(widths.get(column, 0), len(cell))
    return widths


def rich_text(rows: Sequence[Row]) -> "Text":
    """Return aligned rows with colors."""
    from rich.text import Text

    text = Text()
    for number, row in enumerate(_pad(rows)):
        if number:
            text.append("\n")
        for cell in row:
            text.append(cell.lead, Tone.FAINT.value)
            text.append(cell.text, cell.tone.value or None)
    return text

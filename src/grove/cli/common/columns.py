"""Fit tables to a width: drop columns by priority, shorten texts, wrap long ones. Pure."""

import textwrap
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from grove.cli.common.output import GAP, Cell, Row, Tone

ELLIPSIS = "…"


def header_row(columns: Sequence[str]) -> Row:
    return tuple(Cell(column, Tone.FAINT) for column in columns)


def fit_columns(rows: Sequence[Row], width: int | None, dropped_first: Sequence[str]) -> list[Row] | None:
    """Return the rows with as many columns as fit, or None if they are too wide without all of `dropped_first`.

    The first row is the header. Rows of one cell are texts, which are neither measured nor changed. Without a width
    nothing is dropped.
    """
    if width is None:
        return list(rows)
    header = [cell.text for cell in rows[0]]
    widths = measure_columns(rows)
    kept = list(range(len(header)))
    dropped: list[int] = []
    for column in dropped_first:
        if total_width(widths, kept) <= width:
            break
        dropped.append(header.index(column))
        kept.remove(dropped[-1])
    if total_width(widths, kept) > width:
        return None
    for index in reversed(dropped):
        # After a wide column was dropped, a narrow one may fit again.
        if total_width(widths, [*kept, index]) <= width:
            kept = sorted((*kept, index))
    return [row if len(row) == 1 else tuple(row[index] for index in kept) for row in rows]


def measure_columns(rows: Sequence[Row]) -> list[int]:
    """Return the width of every column, from rows of several cells."""
    return [max(map(len, cells)) for cells in zip_longest(*(row for row in rows if len(row) > 1), fillvalue=Cell(""))]


def total_width(widths: Sequence[int], columns: Sequence[int]) -> int:
    return sum(widths[index] for index in columns) + len(GAP) * (len(columns) - 1)


def clip(text: str, length: int) -> str:
    """Cut a text at its end."""
    return text if len(text) <= length else text[: max(0, length - 1)] + ELLIPSIS[: max(0, length)]


def clip_middle(text: str, length: int) -> str:
    """Cut a text in the middle: names of the same origin differ at the end."""
    if len(text) <= length:
        return text
    end = (length - 1) * 2 // 3
    return text[: length - 1 - end] + ELLIPSIS + text[len(text) - end :]


def clip_rows(rows: Sequence[Row], width: int) -> list[Row]:
    """Shorten the cells of the first column, and rows of one cell, so that the rows fit."""
    widths = measure_columns(rows)
    excess = max(0, total_width(widths, range(len(widths))) - width) if widths else 0
    length = max(1, widths[0] - excess) if widths else width
    return [(_clip_cell(row[0], width),) if len(row) == 1 else (_clip_cell(row[0], length), *row[1:]) for row in rows]


def _clip_cell(cell: Cell, length: int) -> Cell:
    """Cut the end of a cell; its lead too, if nothing of the text would be left."""
    lead = cell.lead[: max(0, length - 2)]
    return Cell(clip(cell.text, length - len(lead)), cell.tone, lead)


def wrap_cell(cell: Cell, width: int | None, max_lines: int | None = None) -> Iterator[Cell]:
    """Wrap a text between words. Continuation lines are indented; `max_lines` cuts it."""
    if width is None:
        yield cell
        return
    indent = cell.text[: len(cell.text) - len(cell.text.lstrip())]
    lines = textwrap.wrap(
        cell.text.strip(),
        max(20, width),
        initial_indent=indent,
        subsequent_indent=indent + GAP,
        break_on_hyphens=False,
        max_lines=max_lines,
        placeholder=f" {ELLIPSIS}",
    )
    yield from (Cell(line, cell.tone) for line in lines)

"""Render sets as trees and tables that fit a page. Pure; `cli/common/output.py` prints them."""

from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec

from grove.cli.common.columns import (
    clip,
    clip_middle,
    clip_rows,
    fit_columns,
    header_row,
    measure_columns,
    total_width,
    wrap_cell,
)
from grove.cli.common.output import Cell, Row, Tone
from grove.cli.status.tree import CliqueNode, SetNode
from grove.cli.status.tree_folding import FoldedTree, TreeRow, fold_trees
from grove.cli.status.tree_lines import TreeLine, age, phase_cell, ready_cell, set_line

COLUMNS = ("NAME", "STATUS", "READY", "AVAILABLE", "SCHEDULED", "MIN", "WHERE", "AGE")
# Columns that full names are worth more than, and those that go only if short names do not suffice.
_DROPPED_BEFORE_NAMES = ("SCHEDULED", "MIN")
_DROPPED_FIRST = ("SCHEDULED", "MIN", "AVAILABLE", "AGE", "WHERE")
_DROPPED_FROM_TABLE = ("SCHEDULED", "AVAILABLE", "AGE")
_SHORT_PLACE = 20
_SHORTEST_NAME = 8
_MAX_NOTE_LINES = 3
_WIDE_HEADER = ("UPDATED", "GANGS", "NODES", "PROBLEMS")


class PageSize(msgspec.Struct, frozen=True, kw_only=True):
    """The room for an output. None: no limit."""

    width: int | None = None
    height: int | None = None


def table_rows(
    sets: Sequence[SetNode], now: datetime, *, has_namespaces: bool, width: int | None = None, is_wide: bool = False
) -> list[Row]:
    """Return a table with one row per set. `is_wide` adds columns: updated replicas, gangs, nodes and problems."""
    header = ("NAMESPACE",) * has_namespaces + ("NAME", "STATUS", "READY", "AVAILABLE", "SCHEDULED", "AGE")
    header += _WIDE_HEADER * is_wide
    rows: list[Row] = [header_row(header)]
    for node in sets:
        cells = (
            Cell(node.name, Tone.STRONG),
            phase_cell(node.phase),
            ready_cell(node.counts),
            Cell(f"{node.available_replicas}/{node.replicas}"),
            Cell(str(node.counts.scheduled)),
            Cell(age(node.created_at, now)),
        )
        rows.append(
            ((Cell(node.namespace),) if has_namespaces else ()) + cells + (_wide_cells(node) if is_wide else ())
        )
    return fit_columns(rows, width, _DROPPED_FROM_TABLE) or rows


def _wide_cells(node: SetNode) -> Row:
    pods = [pod for clique in _cliques_of(node) for pod in clique.pods]
    groups = [group for replica in node.set_replicas for group in replica.groups]
    gangs = {replica.gang for replica in node.set_replicas}
    gangs |= {one.gang for group in groups for one in group.group_replicas}
    return (
        Cell(f"{node.updated_replicas}/{node.replicas}"),
        Cell(str(len(gangs))),
        Cell(str(len({pod.node for pod in pods if pod.node}))),
        Cell(",".join(problem.type for problem in node.problems) or "<none>"),
    )


def _cliques_of(node: SetNode) -> Iterator[CliqueNode]:
    for replica in node.set_replicas:
        yield from replica.cliques
        for group in replica.groups:
            for one in group.group_replicas:
                yield from one.cliques


def tree_rows(node: SetNode, now: datetime, *, has_hint: bool = True) -> list[Row]:
    """Return the whole tree of a set. Every name is valid for `grove why` and kubectl; `has_hint` adds the command."""
    return page_rows([node], now, PageSize(), has_hint=has_hint)


def page_rows(
    sets: Sequence[SetNode], now: datetime, page: PageSize, *, home: str = "", has_hint: bool = True, footer: str = ""
) -> list[Row]:
    """Return the trees of sets, folded and shortened to fit the page.

    `home`: the namespace that needs no `-n`. `footer`: the last line if lines are folded.
    """
    lines = [_wrap_texts(set_line(node, now, home=home, has_hint=has_hint), page) for node in sets]
    if page.height is None:
        return _layout(fold_trees(lines).rows, page.width)
    height = max(1, page.height)
    folded = _fold_below_header(lines, height)
    if footer and not folded.is_whole:
        folded = _fold_below_header(lines, height - 1)
        return [*_layout(folded.rows, page.width), (Cell(footer, Tone.FAINT),)]
    return _layout(folded.rows, page.width, has_header=height > 1)


def _fold_below_header(lines: Sequence[TreeLine], height: int) -> FoldedTree:
    return fold_trees(lines, max(1, height - 1))


def _wrap_texts(line: TreeLine, page: PageSize) -> TreeLine:
    limit = None if page.height is None else _MAX_NOTE_LINES
    notes = tuple(cell for note in line.notes for cell in wrap_cell(note, page.width, limit))
    hint = line.hint if page.width is None else clip(line.hint, page.width)
    return msgspec.structs.replace(line, notes=notes, hint=hint)


def _layout(rows: Sequence[TreeRow], width: int | None, *, has_header: bool = True) -> list[Row]:
    """Return rows with the columns and names that fit the width."""
    full = [header_row(COLUMNS), *(_row(row, is_short=False) for row in rows)]
    fitted = fit_columns(full, width, _DROPPED_BEFORE_NAMES)
    if fitted is None:
        short = [header_row(COLUMNS), *(_row(row, is_short=True) for row in rows)]
        fitted = fit_columns(short, width, _DROPPED_FIRST) or _clip(short, width)
    return fitted if has_header else fitted[1:]


def _clip(rows: Sequence[Row], width: int | None) -> list[Row]:
    """Return clipped names, with statuses and counts of pods as long as a few letters of the names are left."""
    if width is None:
        return list(rows)
    widths = [_SHORTEST_NAME, *measure_columns(rows)[1:]]
    columns = next(count for count in (3, 2, 1) if count == 1 or total_width(widths, range(count)) <= width)
    return clip_rows([row[:columns] for row in rows], width)


def _row(row: TreeRow, *, is_short: bool) -> Row:
    line = row.line
    if line is None:
        return (row.text,)
    return (
        Cell(line.short_name if is_short else line.name, line.tone, row.stem),
        line.status,
        line.ready,
        Cell(line.available),
        Cell(line.scheduled),
        Cell(line.minimum),
        Cell(_short_place(line.where) if is_short else line.where),
        Cell(line.age),
    )


def _short_place(where: str) -> str:
    """Return a node without its domain, or a gang, cut in the middle if it is long."""
    return clip_middle(where if where.startswith("pg/") else where.partition(".")[0], _SHORT_PLACE)

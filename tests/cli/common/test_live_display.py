"""What a terminal shows while a live table is drawn on it, also when its size changes."""

from typing import Any

import pytest

from grove.cli.common.live_display import BEGIN_UPDATE, END_UPDATE, LiveTable
from grove.cli.common.output import Cell, Row, Tone
from tests.cli.common.screen import Screen


def rows(*texts: str) -> list[Row]:
    return [(Cell(text, Tone.GOOD),) for text in texts]


def open_table(columns: int = 20, lines: int = 6, *before: str) -> tuple[Screen, LiveTable]:
    screen = Screen(columns, lines)
    screen.write("".join(f"{line}\n" for line in before))
    stream: Any = screen
    return screen, LiveTable(stream, screen.size)


def test_a_shorter_table_leaves_nothing_of_the_longer_one() -> None:
    screen, table = open_table(20, 6, "before")
    table.draw(rows("one long line", "two", "three"))
    table.draw(rows("one", "two"))
    assert screen.visible() == ["before", "one", "two"]


def test_a_line_as_wide_as_the_terminal_keeps_its_last_column() -> None:
    screen, table = open_table(10, 6)
    table.draw(rows("0123456789", "next"))
    assert screen.visible() == ["0123456789", "next"]


def test_lines_beyond_the_terminal_are_cut() -> None:
    screen, table = open_table(10, 4)
    table.draw(rows("0123456789abc", "2", "3", "4", "5"))
    assert screen.visible() == ["012345678…", "2", "3"]


def test_lines_above_the_table_stay() -> None:
    screen, table = open_table(20, 6)
    table.draw(rows("a", "b"))
    table.print_above(rows("said a pod"))
    table.draw(rows("a", "b", "c"))
    assert screen.visible() == ["said a pod", "a", "b", "c"]


def test_a_frame_is_one_synchronized_write_and_an_equal_one_is_none() -> None:
    screen, table = open_table()
    table.draw(rows("a", "b"))
    assert screen.modes == ["2026h", "2026l"]
    assert (screen.writes, BEGIN_UPDATE, END_UPDATE) == (2, "\x1b[?2026h", "\x1b[?2026l")
    table.draw(rows("a", "b"))
    assert screen.writes == 2


def test_nothing_is_erased_before_it_is_overwritten() -> None:
    """A terminal without synchronized output would flicker."""
    written: list[str] = []
    screen, table = open_table()
    table.draw(rows("a", "b"))
    screen.write = written.append  # type: ignore[method-assign,assignment]
    table.draw(rows("a", "c"))
    (frame,) = written
    assert frame.index("c") < frame.index("\x1b[J")
    assert "\x1b[2K" not in frame


@pytest.mark.parametrize("reflows", [True, False])
@pytest.mark.parametrize(
    ("columns", "lines"), [(10, 6), (30, 6), (20, 3), (20, 12), (8, 2)], ids=lambda number: str(number)
)
def test_another_size_leaves_no_residue(columns: int, lines: int, reflows: bool) -> None:
    screen, table = open_table(20, 6)
    table.draw(rows("a line of 20 columns", "second", "third"))
    screen.resize(columns, lines, reflows=reflows)
    table.draw(rows("x", "y")[: lines - 1])
    assert screen.visible() == ["x", "y"][: lines - 1]
    table.draw(rows("z"))
    assert screen.visible() == ["z"]

"""A small terminal: it interprets what a live display writes, and shows what a user would see."""

import re

_TOKEN = re.compile(r"\x1b\[(\??)([\d;]*)([A-Za-z])|([^\x1b])", re.DOTALL)


class Screen:
    """A terminal of some columns and lines, which wraps long lines and scrolls at its end."""

    def __init__(self, columns: int, lines: int) -> None:
        self.columns, self.lines = columns, lines
        self.rows: list[str] = [""]
        self.row = self.column = 0
        self.modes: list[str] = []
        self.writes = 0

    def write(self, text: str) -> int:
        self.writes += 1
        for mark, number, letter, char in _TOKEN.findall(text):
            if char:
                self._put(char)
            elif mark:
                self.modes.append(number + letter)
            else:
                self._control(number, letter)
        return len(text)

    def flush(self) -> None:
        """Do nothing: nothing is buffered."""

    def isatty(self) -> bool:
        return True

    def size(self) -> tuple[int, int]:
        return self.columns, self.lines

    def visible(self) -> list[str]:
        """Return the lines that a user sees, without empty ones at the end."""
        rows = [row.rstrip() for row in self.rows[self._top() :]]
        while rows and not rows[-1]:
            rows.pop()
        return rows

    def resize(self, columns: int, lines: int, *, reflows: bool) -> None:
        """Change the size. Lines that are too long are wrapped, or cut where the terminal does not reflow."""
        below = len(self.rows) - 1 - self.row
        rows: list[str] = []
        for row in self.rows:
            starts = range(0, max(1, len(row)), columns) if reflows else (0,)
            rows += [row[start : start + columns] for start in starts]
        self.columns, self.lines, self.rows = columns, lines, rows
        self.row = len(rows) - 1 - below
        self.column = min(self.column, columns - 1)

    def _top(self) -> int:
        return max(0, len(self.rows) - self.lines)

    def _put(self, char: str) -> None:
        if char == "\r":
            self.column = 0
        elif char == "\n":
            self.column = 0
            self._down()
        else:
            if self.column >= self.columns:
                self.column = 0
                self._down()
            row = self.rows[self.row].ljust(self.column)
            self.rows[self.row] = row[: self.column] + char + row[self.column + 1 :]
            self.column += 1

    def _down(self) -> None:
        self.row += 1
        if self.row == len(self.rows):
            self.rows.append("")

    def _control(self, number: str, letter: str) -> None:
        if letter == "A":
            self.row = max(self._top(), self.row - int(number or 1))
        elif letter == "K":
            # At the right margin the cursor is on the last column, which is erased.
            self.rows[self.row] = self.rows[self.row][: min(self.column, self.columns - 1)]
        elif letter == "J" and number == "2":
            self.rows[self._top() :] = [""] * (len(self.rows) - self._top())
        elif letter == "J":
            self.rows[self.row] = self.rows[self.row][: self.column]
            self.rows[self.row + 1 :] = [""] * (len(self.rows) - self.row - 1)
        elif letter == "H":
            self.row, self.column = self._top(), 0
        else:
            assert letter == "m", (number, letter)

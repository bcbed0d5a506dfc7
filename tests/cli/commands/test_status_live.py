"""`grove status --watch` on a terminal, also when its size changes."""

import fcntl
import os
import pty
import signal
import struct
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from grove.cli.common.live_display import END_UPDATE
from tests.cli.common.screen import Screen
from tests.cli.console import ROOT, SECONDS, Up, environment
from tests.cli.forked import Forked


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with Up(tmp_path_factory.mktemp("live"), str(ROOT / "examples" / "quickstart.yaml"), "--nodes", "3") as up:
        up.wait_for_output("Pending", "status", "chat")
        yield up


class Terminal:
    """A command on a terminal, and what the terminal shows."""

    def __init__(self, folder: Path, columns: int, lines: int, *arguments: str) -> None:
        self.screen = Screen(columns, lines)
        self._unread = b""
        self._leader, follower = pty.openpty()
        self._set_size()
        env = environment(folder, {"COLUMNS": "0", "LINES": "0", "NO_COLOR": "1", "TERM": "xterm-256color"})
        self.process = Forked(folder, arguments, env, files=(follower, follower, follower))
        os.close(follower)

    def read_until(self, text: str) -> list[str]:
        """Read frames until the screen shows the text, and return its lines."""
        while not (self.screen.modes and any(text in line for line in self.screen.visible())):
            self._unread += os.read(self._leader, 1 << 16)
            whole, end, self._unread = self._unread.rpartition(END_UPDATE.encode())
            self.screen.write((whole + end).decode().replace("\r\n", "\n"))
        return self.screen.visible()

    def resize(self, columns: int, lines: int) -> None:
        self.screen.resize(columns, lines, reflows=True)
        self.screen.modes.clear()
        self._set_size()
        self.process.send_signal(signal.SIGWINCH)

    def _set_size(self) -> None:
        size = struct.pack("HHHH", self.screen.lines, self.screen.columns, 0, 0)
        fcntl.ioctl(self._leader, termios.TIOCSWINSZ, size)

    def close(self) -> int:
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(timeout=SECONDS)
        os.close(self._leader)
        return code


@contextmanager
def on_terminal(up: Up, columns: int, lines: int, *arguments: str) -> Iterator[Terminal]:
    terminal = Terminal(up.folder, columns, lines, *arguments)
    yield terminal
    assert terminal.close() == 130


def test_a_live_tree_fits_80_columns_and_another_size_leaves_nothing_behind(up: Up) -> None:
    with on_terminal(up, 80, 24, "status", "chat", "--watch") as terminal:
        first = terminal.read_until("pcs/chat")
        assert first[0].split()[:3] == ["NAME", "STATUS", "READY"]
        assert any("Pending" in line for line in first)
        assert len(first) <= 23
        terminal.resize(50, 9)
        narrow = terminal.read_until("pcs/chat")
        assert [line.split()[0] for line in narrow[:2]] == ["NAME", "pcs/chat"]
        assert len(narrow) <= 8
        assert max(map(len, narrow)) <= 50
        terminal.resize(160, 40)
        wide = terminal.read_until("SCHEDULED")
        assert sum("pcs/chat" in line for line in wide) == 1 + sum("grove why" in line for line in wide)

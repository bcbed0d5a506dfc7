"""Log of one run of a container: read from its pipe line by line, with times, into files of bounded size.

Which run's log is asked for is `log_source.py`'s business.
"""

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from grove.clock import Clock
from grove.cluster.apiserver.verbs.logs import LogLine

# Of one run the last lines are kept: one full file and one that is being filled.
LARGEST_FILE = 4 * 1024 * 1024
# A longer line is cut into several.
LONGEST_LINE = 16 * 1024
_CHUNK = 65536


class RunLog:
    """Open from the start of a run. Places in it are counted from its first byte, also when that is long gone."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._older_path = path.with_suffix(".older")
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._file = path.open("ab", buffering=0)
        try:
            self._reader, self.write_end = os.pipe()
        except OSError:
            self._file.close()
            raise
        os.set_blocking(self._reader, False)
        self._unfinished = b""
        # Where the two files begin.
        self._older_start = self._start = 0
        self._size = 0
        self._wakes: dict[object, Callable[[], None]] = {}
        self.drained = asyncio.Event()
        """Set when nobody can write any more and all that was written is in the files."""
        self._loop.add_reader(self._reader, self._read)

    def close_write_end(self) -> None:
        """Once the process has it: the end of the last writer is then the end of the log."""
        if self.write_end >= 0:
            os.close(self.write_end)
            self.write_end = -1

    def close(self) -> None:
        """Nothing more is read; what there is can still be asked for."""
        self.close_write_end()
        if not self.drained.is_set():
            self._finish()

    def remove(self) -> None:
        """The files go too."""
        self.close()
        for path in (self._path, self._older_path):
            path.unlink(missing_ok=True)
        self._wake_all()

    def subscribe(self, owner: object, wake: Callable[[], None]) -> None:
        """`wake` is called whenever there is something new."""
        self._wakes[owner] = wake

    def unsubscribe(self, owner: object) -> None:
        self._wakes.pop(owner, None)

    def lines_from(self, place: int) -> tuple[tuple[LogLine, ...], int]:
        """The lines that begin at this place or later, as far as they are still there; and where the next one will."""
        content = b""
        if place < self._start:
            content = _tail_of(self._older_path, max(place - self._older_start, 0))
            place = self._start
        content += _tail_of(self._path, place - self._start)
        return tuple(_to_line(line) for line in content.splitlines()), self._start + self._size

    def _read(self) -> None:
        try:
            data = os.read(self._reader, _CHUNK)
        except BlockingIOError:
            return
        if data:
            self._take(data)
        else:
            self._finish()

    def _take(self, data: bytes) -> None:
        *lines, self._unfinished = (self._unfinished + data).split(b"\n")
        while len(self._unfinished) > LONGEST_LINE:
            lines.append(self._unfinished[:LONGEST_LINE])
            self._unfinished = self._unfinished[LONGEST_LINE:]
        if lines:
            self._write(lines)

    def _write(self, lines: list[bytes]) -> None:
        stamp = self._clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ ").encode()
        pending: list[bytes] = []
        size = self._size
        for piece in _pieces(lines):
            content = b"%b%b\n" % (stamp, piece)
            if size + len(content) > LARGEST_FILE:
                self._append(pending)
                self._turn_over()
                pending, size = [], 0
            pending.append(content)
            size += len(content)
        self._append(pending)
        self._wake_all()

    def _append(self, contents: list[bytes]) -> None:
        content = b"".join(contents)
        self._file.write(content)
        self._size += len(content)

    def _turn_over(self) -> None:
        self._file.close()
        self._path.replace(self._older_path)
        self._older_start, self._start, self._size = self._start, self._start + self._size, 0
        self._file = self._path.open("ab", buffering=0)

    def _finish(self) -> None:
        self._loop.remove_reader(self._reader)
        os.close(self._reader)
        if self._unfinished:
            self._write([self._unfinished])
            self._unfinished = b""
        self._file.close()
        self.drained.set()
        self._wake_all()

    def _wake_all(self) -> None:
        for wake in tuple(self._wakes.values()):
            wake()


def _pieces(lines: list[bytes]) -> Iterator[bytes]:
    for line in lines:
        # A carriage return inside would be the end of a line to whoever reads the file.
        whole = line.removesuffix(b"\r").replace(b"\r", b" ")
        for at in range(0, max(len(whole), 1), LONGEST_LINE):
            yield whole[at : at + LONGEST_LINE]


def _tail_of(path: Path, place: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(place)
            return file.read()
    except FileNotFoundError:
        return b""


def _to_line(content: bytes) -> LogLine:
    stamp, _, text = content.partition(b" ")
    return LogLine(stamp.decode(), text.decode(errors="replace"))

"""Log of one run of a container: lines with times, read from its pipe into files of limited size.

`log_source.py` finds the log of a run.
"""

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from grove.clock import Clock
from grove.cluster.apiserver.verbs.logs import LogLine

# A log has at most two files of this size: a full one and the current one.
LARGEST_FILE = 4 * 1024 * 1024
# A longer line is split.
LONGEST_LINE = 16 * 1024
_CHUNK = 65536


class ContainerLog:
    """A log, open from the start of a run. Offsets count from its first byte, even after that was rotated out."""

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
        # Offsets of the first bytes of the two files.
        self._older_start = self._start = 0
        self._size = 0
        self._subscribers: dict[object, Callable[[], None]] = {}
        self.drained = asyncio.Event()
        """Set when all writers have closed the pipe and all output is in the files."""
        self._loop.add_reader(self._reader, self._read)

    def close_write_end(self) -> None:
        """Close the write end here once the process has it, so that the log ends with its last writer."""
        if self.write_end >= 0:
            os.close(self.write_end)
            self.write_end = -1

    def close(self) -> None:
        """Stop reading from the pipe. The log stays readable."""
        self.close_write_end()
        if not self.drained.is_set():
            self._finish()

    def remove(self) -> None:
        """Close the log and remove its files."""
        self.close()
        for path in (self._path, self._older_path):
            path.unlink(missing_ok=True)
        self._notify_subscribers()

    def subscribe(self, owner: object, wake: Callable[[], None]) -> None:
        """Call `wake` whenever there are new lines."""
        self._subscribers[owner] = wake

    def unsubscribe(self, owner: object) -> None:
        self._subscribers.pop(owner, None)

    def lines_from(self, offset: int) -> tuple[tuple[LogLine, ...], int]:
        """Return the lines from this offset on that still exist, and the offset of the next line."""
        content = b""
        if offset < self._start:
            content = _tail_of(self._older_path, max(offset - self._older_start, 0))
            offset = self._start
        content += _tail_of(self._path, offset - self._start)
        return tuple(_to_line(line) for line in content.splitlines()), self._start + self._size

    def _read(self) -> None:
        try:
            data = os.read(self._reader, _CHUNK)
        except BlockingIOError:
            return
        if data:
            self._split_lines(data)
        else:
            self._finish()

    def _split_lines(self, data: bytes) -> None:
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
                self._rotate()
                pending, size = [], 0
            pending.append(content)
            size += len(content)
        self._append(pending)
        self._notify_subscribers()

    def _append(self, contents: list[bytes]) -> None:
        content = b"".join(contents)
        self._file.write(content)
        self._size += len(content)

    def _rotate(self) -> None:
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
        self._notify_subscribers()

    def _notify_subscribers(self) -> None:
        for wake in tuple(self._subscribers.values()):
            wake()


def _pieces(lines: list[bytes]) -> Iterator[bytes]:
    for line in lines:
        # Readers of the file would take a carriage return for the end of a line.
        whole = line.removesuffix(b"\r").replace(b"\r", b" ")
        for at in range(0, max(len(whole), 1), LONGEST_LINE):
            yield whole[at : at + LONGEST_LINE]


def _tail_of(path: Path, offset: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read()
    except FileNotFoundError:
        return b""


def _to_line(content: bytes) -> LogLine:
    stamp, _, text = content.partition(b" ")
    return LogLine(stamp.decode(), text.decode(errors="replace"))

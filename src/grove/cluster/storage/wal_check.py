"""A read-only check of SQLite's write-ahead file: distinguishes a torn end after a crash from damage in the middle.

SQLite reads the file up to the first invalid frame and ignores the rest. That is correct at the end of the file: no
client has seen the response of an incomplete transaction. It would be wrong in the middle. Every transaction is on disk
before the next one starts, so two consecutive transaction ends at or after an invalid frame mean that a confirmed write
was lost.
The format is part of SQLite's documentation ("Database File Format", the write-ahead log).
"""

import struct
import sys
from array import array
from collections.abc import Iterator
from pathlib import Path

import msgspec

_FILE_HEADER = struct.Struct(">8I")
_FRAME_HEADER = struct.Struct(">6I")
_MAGIC = (0x377F0682, 0x377F0683)
_PAGE_SIZES = range(512, 65537)
_WORD = 0xFFFFFFFF

# Two running sums of 32 bits.
Checksum = tuple[int, int]


class _Frame(msgspec.Struct, frozen=True):
    at: int
    # Written since the last reset of the file; other frames are left over from before.
    is_current: bool
    ends_transaction: bool
    checksum: Checksum
    # The correct checksum, given the checksum of the frame before it.
    expected: Checksum


def find_damage(database: Path) -> str:
    """Return a description of the damage in the write-ahead file; empty: no damage, or only a torn end."""
    path = database.with_name(f"{database.name}-wal")
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return ""
    if len(data) <= _FILE_HEADER.size:
        return ""
    magic, _, page_size, *_ = _FILE_HEADER.unpack_from(data)
    if magic not in _MAGIC or page_size not in _PAGE_SIZES:
        return f"{path.name} has an invalid header"
    broken_at = _find_broken_frame(_frames(data))
    return "" if broken_at is None else f"{path.name}, wrong checksum at byte {broken_at}"


def _find_broken_frame(frames: Iterator[_Frame]) -> int | None:
    """Return the offset of the first invalid frame, if a transaction was started after its own had ended."""
    broken = next((frame for frame in frames if not frame.is_current or frame.checksum != frame.expected), None)
    if broken is None or not broken.is_current:
        return None
    # Failed transactions leave frames behind, too; their checksums do not continue each other.
    ends = int(broken.ends_transaction)
    for frame in frames:
        is_continued = frame.is_current and frame.checksum == frame.expected
        ends = ends * is_continued + (frame.is_current and frame.ends_transaction)
        if ends > 1:
            return broken.at
    return None


def _frames(data: bytes) -> Iterator[_Frame]:
    magic, _, page_size, _, *rest = _FILE_HEADER.unpack_from(data)
    salts, is_big = rest[:2], bool(magic & 1)
    before: Checksum = (rest[2], rest[3])
    size = _FRAME_HEADER.size + page_size
    for at in range(_FILE_HEADER.size, len(data) - size + 1, size):
        _, pages_after, *found = _FRAME_HEADER.unpack_from(data, at)
        page = data[at + _FRAME_HEADER.size : at + size]
        checksum: Checksum = (found[2], found[3])
        yield _Frame(
            at=at,
            is_current=found[:2] == salts,
            ends_transaction=bool(pages_after),
            checksum=checksum,
            expected=_extend_checksum(_extend_checksum(before, data[at : at + 8], is_big=is_big), page, is_big=is_big),
        )
        before = checksum


def _extend_checksum(total: Checksum, data: bytes, *, is_big: bool) -> Checksum:
    message = array("I", data)
    if (sys.byteorder == "big") != is_big:
        message.byteswap()
    first, second = total
    pairs = iter(message)
    for even, odd in zip(pairs, pairs, strict=True):
        first = (first + even + second) & _WORD
        second = (second + odd + first) & _WORD
    return first, second

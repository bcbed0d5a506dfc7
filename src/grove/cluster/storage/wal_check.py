"""Whether the write-ahead file of SQLite ends early because of a crash, or is damaged in its middle. Read only.

SQLite reads such a file up to the first frame that is not whole, and forgets the rest. That is right at the end of the
file: nobody was told of a transaction that is not all there. It would be wrong in the middle. Every transaction is on
disk before the next one is begun, so two transactions that follow each other behind a broken frame, the broken one
included, mean that something was lost that somebody was told of.
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
    # Written since the file was begun anew; others are left over from before.
    is_current: bool
    ends_transaction: bool
    checksum: Checksum
    # What its checksum should be if the frame before it is as it should be.
    expected: Checksum


def find_damage(database: Path) -> str:
    """What is wrong with the write-ahead file of this database; empty: nothing, or no more than a torn end."""
    path = database.with_name(f"{database.name}-wal")
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return ""
    if len(data) <= _FILE_HEADER.size:
        return ""
    magic, _, page_size, *_ = _FILE_HEADER.unpack_from(data)
    if magic not in _MAGIC or page_size not in _PAGE_SIZES:
        return f"{path.name} does not begin as it should"
    broken_at = _broken_middle(_frames(data))
    return "" if broken_at is None else f"{path.name}, byte {broken_at}: is not what was written"


def _broken_middle(frames: Iterator[_Frame]) -> int | None:
    """Where the first frame is that is not whole, if a transaction was begun after its own had ended."""
    broken = next((frame for frame in frames if not frame.is_current or frame.checksum != frame.expected), None)
    if broken is None or not broken.is_current:
        return None
    # Attempts that failed leave frames behind as well; they do not continue each other.
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
            expected=_added(_added(before, data[at : at + 8], is_big=is_big), page, is_big=is_big),
        )
        before = checksum


def _added(total: Checksum, data: bytes, *, is_big: bool) -> Checksum:
    words = array("I", data)
    if (sys.byteorder == "big") != is_big:
        words.byteswap()
    first, second = total
    pairs = iter(words)
    for even, odd in zip(pairs, pairs, strict=True):
        first = (first + even + second) & _WORD
        second = (second + odd + first) & _WORD
    return first, second

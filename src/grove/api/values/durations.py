"""Parse and format Go durations: `4h`, `1h30m`, `1.5s`, `300ms`. On the wire they are strings, here `timedelta`.

Go counts nanoseconds, `timedelta` microseconds. Values are rounded away from zero, so that a delay never ends early and
a positive duration never becomes zero.
"""

import re
from datetime import timedelta
from functools import lru_cache

from grove.errors import UserError

_NANOSECONDS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60 * 1_000_000_000,
    "h": 3600 * 1_000_000_000,
}
_PART = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)")
_MICROSECOND = timedelta(microseconds=1)
_MAX_NANOSECONDS = 2**63 - 1
_MAX_LENGTH = 64


class DurationError(UserError, ValueError):
    """An error for a text that is not a Go duration."""


def parse_duration(text: str) -> timedelta:
    """Return the duration of a text. Raises `DurationError`, whose message says what to write instead."""
    if len(text) > _MAX_LENGTH:
        raise DurationError(f"a duration has at most {_MAX_LENGTH} characters, this one has {len(text)}")
    return _parse(text)


@lru_cache(maxsize=1024)
def _parse(text: str) -> timedelta:
    sign, body = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    nanoseconds = 0 if body == "0" else _nanoseconds(text, body)
    if nanoseconds > _MAX_NANOSECONDS:
        raise DurationError(f'"{text}" is too long: the longest duration is 2562047h47m16s')
    return timedelta(microseconds=sign * -(-nanoseconds // 1000))


def format_duration(duration: timedelta) -> str:
    """Return the duration as Go prints it: `4h0m0s`, `1m30s`, `1.5s`, `300ms`, `0s`."""
    microseconds = duration // _MICROSECOND
    sign = "-" if microseconds < 0 else ""
    microseconds = abs(microseconds)
    if microseconds == 0:
        return "0s"
    if microseconds < 1_000:
        return f"{sign}{microseconds}µs"
    if microseconds < 1_000_000:
        return f"{sign}{_decimal(microseconds, 1_000)}ms"
    minutes, rest = divmod(microseconds, 60_000_000)
    seconds = f"{_decimal(rest, 1_000_000)}s"
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{sign}{hours}h{minutes}m{seconds}"
    return f"{sign}{minutes}m{seconds}" if minutes else sign + seconds


def _nanoseconds(text: str, body: str) -> int:
    total, end = 0, 0
    while end < len(body):
        part = _PART.match(body, end)
        if part is None or not (part[1] or part[2]):
            break
        unit, fraction = _NANOSECONDS[part[3]], part[2] or ""
        total += int(part[1] or "0") * unit + int(fraction or "0") * unit // 10 ** len(fraction)
        end = part.end()
    if end < len(body) or not body:
        raise DurationError(f'"{text}" is not a duration: write numbers with units, such as 30s, 5m or 1h30m')
    return total


def _decimal(value: int, scale: int) -> str:
    whole, fraction = divmod(value, scale)
    digits = str(fraction).zfill(len(str(scale)) - 1).rstrip("0")
    return f"{whole}.{digits}" if digits else str(whole)

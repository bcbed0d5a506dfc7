"""Formats ages for tables, in one or two units, as kubectl does."""

from datetime import datetime

_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400


def format_age(instant: object, now: datetime) -> str:
    """Return the age of a timestamp; `<unknown>` if it is not a time."""
    try:
        then = datetime.fromisoformat(str(instant))
        return human_duration(int((now - then).total_seconds()))
    except (ValueError, TypeError):
        return "<unknown>"


def human_duration(seconds: int) -> str:
    """Format seconds as kubectl does: short durations in two units. A clock skew of one second shows as 0s."""
    if seconds < -1:
        return "<invalid>"
    if seconds < 2 * _MINUTE:
        return f"{max(seconds, 0)}s"
    if seconds < 10 * _MINUTE:
        return _format_two_units(seconds, _MINUTE, "m", 1, "s")
    if seconds < 3 * _HOUR:
        return f"{seconds // _MINUTE}m"
    if seconds < 8 * _HOUR:
        return _format_two_units(seconds, _HOUR, "h", _MINUTE, "m")
    if seconds < 2 * _DAY:
        return f"{seconds // _HOUR}h"
    if seconds < 8 * _DAY:
        return _format_two_units(seconds, _DAY, "d", _HOUR, "h")
    if seconds < 2 * _YEAR:
        return f"{seconds // _DAY}d"
    if seconds < 8 * _YEAR:
        return _format_two_units(seconds, _YEAR, "y", _DAY, "d")
    return f"{seconds // _YEAR}y"


def _format_two_units(seconds: int, large: int, large_name: str, small: int, small_name: str) -> str:
    rest = seconds % large // small
    return f"{seconds // large}{large_name}{rest}{small_name}" if rest else f"{seconds // large}{large_name}"

"""Boolean query parameters, parsed as a real API server does: every value but `false` and `0` is true."""

from collections.abc import Mapping

_OFF = ("false", "0")


def parse_bool(query: Mapping[str, str], name: str) -> bool | None:
    """Return the value of the parameter; None if it is absent."""
    value = query.get(name)
    return None if value is None else value.lower() not in _OFF


def is_on(query: Mapping[str, str], name: str) -> bool:
    return bool(parse_bool(query, name))

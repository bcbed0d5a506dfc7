"""Yes-or-no parameters of a query, read as a real server reads them: everything that is not false is true."""

from collections.abc import Mapping

_OFF = ("false", "0")


def switch(query: Mapping[str, str], name: str) -> bool | None:
    """None: nobody spoke of it."""
    said = query.get(name)
    return None if said is None else said.lower() not in _OFF


def is_on(query: Mapping[str, str], name: str) -> bool:
    return bool(switch(query, name))

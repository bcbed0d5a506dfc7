"""The three families of errors, because three different people act on them.

`ApiError`, the third family, lives in `kube/api_errors.py`: it speaks of a server.
"""


class UserError(Exception):
    """The user can fix it: the message says what is wrong, where, and what to do."""


class Bug(Exception):
    """A promise of our own code is broken: the maintainers act. Please report it with the message."""


def require(condition: object, belief: str) -> None:
    """State what must hold here, in production too; raises `Bug` with the broken belief."""
    if not condition:
        raise Bug(f"broken belief: {belief}; please report this")

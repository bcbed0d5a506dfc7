"""The families of errors, by who must act: the user, or the maintainers of Grove.

`ApiError`, the third family, is in `kube/api_errors.py`.
"""


class UserError(Exception):
    """An error that the user can fix. The message says what is wrong, where, and what to do."""


class Bug(Exception):
    """A broken invariant of Grove. The message asks the user to report it."""


def require(condition: object, invariant: str) -> None:
    """Check an invariant, in production too. Raises `Bug` with the broken invariant."""
    if not condition:
        raise Bug(f"broken invariant: {invariant}; please report this")

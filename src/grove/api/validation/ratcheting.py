"""Ratcheting validation: an update may keep existing errors but not add new ones.

Without it, a new rule would block every update of older objects.
"""

from collections.abc import Iterable

from grove.api.validation.field_errors import FieldError, error_keys


def new_errors(after: Iterable[FieldError], before: Iterable[FieldError]) -> tuple[FieldError, ...]:
    """Return the errors of the new object that the old one did not have with the same text and path."""
    old_keys = error_keys(before)
    return tuple(error for error in after if error.key not in old_keys)

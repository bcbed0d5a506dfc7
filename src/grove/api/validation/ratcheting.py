"""An update may keep what was already wrong, and may not add to it: otherwise a new rule would freeze old objects."""

from collections.abc import Iterable

from grove.api.validation.field_errors import FieldError, keys_of


def new_errors(after: Iterable[FieldError], before: Iterable[FieldError]) -> tuple[FieldError, ...]:
    """The errors of the new object that the old one did not have, word for word and at the same place."""
    known = keys_of(before)
    return tuple(error for error in after if error.key not in known)

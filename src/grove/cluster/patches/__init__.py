"""Patch types: pure functions from an object and a patch to the resulting object.

They do not modify their input. The result shares the parts that a patch does not change.
"""


class PatchInvalidError(Exception):
    """The patch is malformed."""


class PatchTooLongError(Exception):
    """The patch has more operations than the server accepts in one request."""


class PatchConflictError(Exception):
    """The patch is valid but cannot be applied to the current object."""

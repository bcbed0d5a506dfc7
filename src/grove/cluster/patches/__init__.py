"""The kinds of patches: pure functions from an object and a patch to the object that results.

None of them changes its input; parts that a patch does not touch are shared with the result.
"""


class PatchInvalidError(Exception):
    """This is no patch: the client must write another one."""


class PatchTooLongError(Exception):
    """More operations than a server carries out for one request."""


class PatchConflictError(Exception):
    """A proper patch that does not fit the object as it is now."""

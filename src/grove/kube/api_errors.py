"""Errors of an API server."""

import msgspec

from grove.api.values.message_text import sanitize_message


class StatusDetails(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: str = ""
    kind: str = ""
    uid: str = ""
    retry_after_seconds: int | None = None


class Status(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The body of a failure, and of some deletes."""

    status: str = "Failure"
    message: str = ""
    reason: str = ""
    code: int = 0
    details: StatusDetails | None = None


class ApiError(Exception):
    """The API server rejected a request, or did not answer. The caller handles it, retries, or reports it to the user.

    `message` is the text of the server, which may quote whole objects; `brief` and `str()` are short enough for logs,
    events and conditions.
    """

    def __init__(self, code: int, reason: str, message: str, retry_after: float | None = None) -> None:
        self.brief = sanitize_message(message)
        super().__init__(f"{code} {reason}: {self.brief}")
        self.code = code
        self.reason = reason
        self.message = message
        self.retry_after = retry_after

    @property
    def is_not_found(self) -> bool:
        return self.code == 404

    @property
    def is_already_exists(self) -> bool:
        return self.code == 409 and self.reason == "AlreadyExists"

    @property
    def is_conflict(self) -> bool:
        """Return whether the object changed since it was read: another version, or another object of this name."""
        return (self.code == 409 and self.reason != "AlreadyExists") or self.is_other_object

    @property
    def is_other_object(self) -> bool:
        """Return whether a patch named the uid of a deleted object and another one has its name now (a 422)."""
        return self.code == 422 and "metadata.uid: Invalid value" in self.message

    @property
    def is_gone(self) -> bool:
        """Return whether the resourceVersion or continue token is too old. The client must then list again."""
        return self.code == 410

    @property
    def is_rejection(self) -> bool:
        """Return whether the server rejected the request: quota, admission, validation. Do not retry at once."""
        return self.code in (400, 403, 422) and not self.is_other_object

    @property
    def is_transient(self) -> bool:
        """Return whether to retry later: overload, a server that restarts, a lost connection (code 0)."""
        return self.code in (0, 408, 429) or self.code >= 500

    @property
    def is_outcome_unknown(self) -> bool:
        """Return whether it is unknown if the request was executed."""
        return self.code in (0, 408) or self.code >= 500


class ConnectionLost(ApiError):
    """No response: the request may or may not have been executed."""

    def __init__(self, message: str) -> None:
        super().__init__(0, "ConnectionLost", message)


class NoCredentials(ConnectionLost):
    """There are no credentials, so nothing was sent. The user must act; until then requests are retried."""

"""What an API server says no with."""

import msgspec

from grove.api.values.message_text import brief


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
    """The server said no, or did not answer. The caller decides: expected answer, retry, or tell the user.

    `message` is what the server said, which may quote whole objects; `brief` and `str()` are fit for logs, events and
    conditions.
    """

    def __init__(self, code: int, reason: str, message: str, retry_after: float | None = None) -> None:
        self.brief = brief(message)
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
        """What was written is not what was read: another version by now, or another object of this name."""
        return (self.code == 409 and self.reason != "AlreadyExists") or self.is_other_object

    @property
    def is_other_object(self) -> bool:
        """A patch named the uid of an object that is gone; there is another one of that name. It says so with a 422."""
        return self.code == 422 and "metadata.uid: Invalid value" in self.message

    @property
    def is_gone(self) -> bool:
        """The resourceVersion or continue token is too old: list again."""
        return self.code == 410

    @property
    def is_refusal(self) -> bool:
        """The server understood and will not: quota, admission, validation. Repeating it at once is pointless."""
        return self.code in (400, 403, 422) and not self.is_other_object

    @property
    def is_transient(self) -> bool:
        """Try again later: overload, a server restarting, a connection lost (code 0)."""
        return self.code in (0, 408, 429) or self.code >= 500

    @property
    def is_without_answer(self) -> bool:
        """Nobody knows whether the request was carried out."""
        return self.code in (0, 408) or self.code >= 500


class ConnectionLost(ApiError):
    """No answer: the request may or may not have been carried out."""

    def __init__(self, message: str) -> None:
        super().__init__(0, "ConnectionLost", message)


class NoCredentials(ConnectionLost):
    """Nobody could tell who we are, so nothing was sent. The user acts on the message; until then it is tried again."""

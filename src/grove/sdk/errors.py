"""Errors of the SDK. All of them are a `GroveError`; the message says what happened, to which set, and what to do."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from grove.errors import UserError
from grove.kube.api_errors import ApiError, ConnectionLost

if TYPE_CHECKING:
    from grove.planner.explain.text import Explanation
    from grove.sdk.set_waiter import WaitProgress


class GroveError(UserError):
    """The base of all errors of the SDK.

    Example:
        try:
            client.submit(chat)
        except GroveError as error:
            print(error)
    """


class InvalidSet(GroveError):
    """A set cannot be built, or cannot be read from YAML. `fields` are the paths of the wrong fields.

    Example:
        try:
            pod_clique_set("chat", [clique("Router", image="example/router:1.0")])
        except InvalidSet as error:
            print(error.fields)
    """

    def __init__(self, message: str, fields: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.fields = fields


class SetRejected(GroveError):
    """The API server rejected a set. The message names every wrong field.

    Example:
        try:
            client.submit(chat)
        except SetRejected as error:
            print(error)
    """


class SetNotFound(GroveError):
    """The set, or the object that was named, does not exist.

    Example:
        try:
            client.get("no-such-set")
        except SetNotFound:
            client.submit(chat)
    """


class ConnectionFailed(GroveError):
    """The cluster cannot be found or does not answer.

    Example:
        try:
            Client(kubeconfig="no-such-file").list()
        except ConnectionFailed as error:
            print(error)
    """


class SetFailed(GroveError):
    """A set that was waited for has failed, and waiting longer does not help. `reason` is that of its condition.

    Example:
        try:
            client.wait("chat", "updated")
        except SetFailed as error:
            client.undo("chat")
    """

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class SetDeleted(GroveError):
    """A set was deleted while it was waited for.

    Example:
        try:
            client.wait("chat")
        except SetDeleted:
            client.submit(chat)
    """


class WaitTimeout(GroveError, TimeoutError):
    """The condition was not true in time. `progress` is the last state, `why` explains what the set waits for.

    Example:
        try:
            client.wait("chat", timeout=600)
        except WaitTimeout as error:
            print(error.progress.ready_pods, [line.text for line in error.why])
    """

    def __init__(self, message: str, progress: "WaitProgress", why: "tuple[Explanation, ...]" = ()) -> None:
        super().__init__(message)
        self.progress = progress
        self.why = why


@contextmanager
def translate_errors() -> Iterator[None]:
    """Raise errors of other packages as a `GroveError`. The original error is its cause."""
    try:
        yield
    except GroveError:
        raise
    except (ApiError, UserError, BaseExceptionGroup) as error:
        found = _first_error(error)
        if isinstance(found, GroveError):
            raise found from found.__cause__
        translated = _translate(found)
        if translated is None:
            raise
        raise translated from found


def _first_error(error: BaseException) -> BaseException:
    """Return the first error of an exception group, which is what a TaskGroup raises."""
    return _first_error(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


def _translate(error: BaseException) -> GroveError | None:
    match error:
        case ConnectionLost():
            return ConnectionFailed(f"{error.message}; check that the cluster runs and that this machine can reach it")
        case ApiError(code=404, reason="NotFound"):
            return SetNotFound(f"{error.message}; check the name and the namespace")
        case ApiError(code=401):
            return ConnectionFailed(f"the cluster rejected the credentials: {error.message}; renew them")
        case ApiError():
            return GroveError(f"{error.message} ({error.code})")
        case UserError():
            return GroveError(str(error))
        case _:
            return None

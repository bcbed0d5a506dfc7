"""Hooks of the reconciler and the transport for metrics and health. `metrics.py` and `health.py` implement them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

import msgspec

from grove.kube.api_errors import ApiError
from grove.kube.request_info import target_of
from grove.kube.response_decoding import check
from grove.kube.transport import Request, Response, Transport

# These codes neither show an error nor end one: a continue token expired, or the server asks to retry later, as
# kube-apiserver does for a CRD that was just installed.
_EVERYDAY = (410, 429)


class Instrumentation(Protocol):
    def reconciled(self, seconds: float) -> None:
        """Record the duration of one reconcile."""

    def refused(self, reason: str) -> None:
        """Record a create that the API server rejected, with the reason of the condition."""

    def failed(self) -> None:
        """Record a reconcile that ended with an unexpected exception."""


class NoMeter:
    """Implements `Instrumentation` and records nothing."""

    def reconciled(self, seconds: float) -> None:
        pass

    def refused(self, reason: str) -> None:
        pass

    def failed(self) -> None:
        pass


class Asked(msgspec.Struct, frozen=True):
    """The verb and resource of a request, as in an audit log: `create`, `pods`."""

    verb: str
    resource: str


class Listener(Protocol):
    def answered(self, asked: Asked, code: int) -> None:
        """Record the status code of a response; 0: no response."""

    def followed(self, asked: Asked, trouble: ApiError | None) -> None:
        """Record that a list or a watch of this resource succeeded or failed."""


class InstrumentedTransport:
    """Implements `Transport`. Notifies its listeners of the result of every request."""

    def __init__(self, inner: Transport, *listeners: Listener) -> None:
        self._inner = inner
        self._listeners = listeners

    async def send(self, request: Request) -> Response:
        asked = _asked(request)
        try:
            response = await self._inner.send(request)
        except ApiError as error:
            self._answered(asked, error.code)
            if asked.verb == "list":
                self._followed(asked, error)
            raise
        self._answered(asked, response.status)
        if asked.verb == "list" and response.status not in _EVERYDAY:
            self._followed(asked, _trouble_of(request, response))
        return response

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        asked = Asked("watch", target_of(request).resource)
        is_open = False
        try:
            async with self._inner.stream(request) as lines:
                is_open = True
                self._answered(asked, 200)
                self._followed(asked, None)
                yield lines
        except ApiError as error:
            if not is_open:
                self._answered(asked, error.code)
                if error.code not in _EVERYDAY:
                    self._followed(asked, error)
            raise

    def _answered(self, asked: Asked, code: int) -> None:
        for listener in self._listeners:
            listener.answered(asked, code)

    def _followed(self, asked: Asked, trouble: ApiError | None) -> None:
        for listener in self._listeners:
            listener.followed(asked, trouble)


def _asked(request: Request) -> Asked:
    target = target_of(request)
    if request.is_write:
        return Asked(target.verb, target.resource)
    # A discovery document is not a list of objects.
    return Asked("list" if target.resource and not target.name else "get", target.resource)


def _trouble_of(request: Request, response: Response) -> ApiError | None:
    if response.status < 400:
        return None
    try:
        check(request, response)
    except ApiError as error:
        return error
    return None

"""Hooks of the reconciler and the transport for metrics and health. `metrics.py` and `health.py` implement them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

import msgspec

from grove.kube.api_errors import ApiError
from grove.kube.request_info import summarize
from grove.kube.response_decoding import check
from grove.kube.transport import Request, Response, Transport

# These codes neither show an error nor end one: a continue token expired, or the server asks to retry later, as
# kube-apiserver does for a CRD that was just installed.
_EVERYDAY = (410, 429)


class Instrumentation(Protocol):
    def observe_reconcile(self, seconds: float) -> None:
        """Record the duration of one reconcile."""

    def count_rejected_create(self, reason: str) -> None:
        """Record a create that the API server rejected, with the reason of the condition."""

    def count_panic(self) -> None:
        """Record a reconcile that ended with an unexpected exception."""


class NoInstrumentation:
    """Implements `Instrumentation` and records nothing."""

    def observe_reconcile(self, seconds: float) -> None:
        pass

    def count_rejected_create(self, reason: str) -> None:
        pass

    def count_panic(self) -> None:
        pass


class RequestAttributes(msgspec.Struct, frozen=True):
    """The verb and resource of a request, as in an audit log: `create`, `pods`."""

    verb: str
    resource: str


class Listener(Protocol):
    def on_response(self, attributes: RequestAttributes, code: int) -> None:
        """Record the status code of a response; 0: no response."""

    def on_list_watch(self, attributes: RequestAttributes, error: ApiError | None) -> None:
        """Record that a list or a watch of this resource succeeded or failed."""


class InstrumentedTransport:
    """A `Transport` that notifies its listeners of the result of every request."""

    def __init__(self, inner: Transport, *listeners: Listener) -> None:
        self._inner = inner
        self._listeners = listeners

    async def send(self, request: Request) -> Response:
        attributes = _attributes_of(request)
        try:
            response = await self._inner.send(request)
        except ApiError as error:
            self._notify_response(attributes, error.code)
            if attributes.verb == "list":
                self._notify_list_watch(attributes, error)
            raise
        self._notify_response(attributes, response.status)
        if attributes.verb == "list" and response.status not in _EVERYDAY:
            self._notify_list_watch(attributes, _error_of(request, response))
        return response

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        attributes = RequestAttributes("watch", summarize(request).resource)
        is_open = False
        try:
            async with self._inner.stream(request) as lines:
                is_open = True
                self._notify_response(attributes, 200)
                self._notify_list_watch(attributes, None)
                yield lines
        except ApiError as error:
            if not is_open:
                self._notify_response(attributes, error.code)
                if error.code not in _EVERYDAY:
                    self._notify_list_watch(attributes, error)
            raise

    def _notify_response(self, attributes: RequestAttributes, code: int) -> None:
        for listener in self._listeners:
            listener.on_response(attributes, code)

    def _notify_list_watch(self, attributes: RequestAttributes, error: ApiError | None) -> None:
        for listener in self._listeners:
            listener.on_list_watch(attributes, error)


def _attributes_of(request: Request) -> RequestAttributes:
    target = summarize(request)
    if request.is_write:
        return RequestAttributes(target.verb, target.resource)
    # A discovery document is not a list of objects.
    return RequestAttributes("list" if target.resource and not target.name else "get", target.resource)


def _error_of(request: Request, response: Response) -> ApiError | None:
    if response.status < 400:
        return None
    try:
        check(request, response)
    except ApiError as error:
        return error
    return None

"""A typed client of an API server: paths, bodies and the write limiter.

It retries nothing: the caller knows what is safe to repeat. `response_decoding.py` decodes responses, `transport.py` is
the network, `write_limiter.py` limits writes, `reflector.py` lists and watches one kind.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import Any, TypeVar

import msgspec

from grove.api.resources import PODS, Object, Resource
from grove.api.types.meta import HasMetadata, JsonObject, WireStruct
from grove.clock import Clock
from grove.kube.api_errors import ApiError, ConnectionLost, NoCredentials
from grove.kube.response_decoding import (
    Listing,
    Page,
    WatchEvent,
    check,
    decode_deleted,
    decode_events,
    decode_object,
    decode_page,
    retry_after_of,
)
from grove.kube.transport import MERGE_PATCH, Request, Response, Transport
from grove.kube.write_limiter import WriteLimiter

T = TypeVar("T", bound=HasMetadata)

JsonPatch = list[JsonObject]

METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

# The continue token of a long list may expire; a list that never completes is an error.
_LIST_ATTEMPTS = 3
# All pages and all attempts together.
LIST_SECONDS = 120.0


class _TokenStatus(WireStruct):
    token: str = ""


class _IssuedToken(WireStruct):
    """The response to a TokenRequest."""

    status: _TokenStatus = _TokenStatus()


class Client:
    """A client of one server, for one flow of writes.

    Every verb raises `ApiError`, or `ConnectionLost` when the outcome is unknown.
    """

    def __init__(
        self, transport: Transport, clock: Clock, limiter: WriteLimiter | None = None, *, flow: str = ""
    ) -> None:
        self._transport = transport
        self._clock = clock
        self._limiter = limiter
        self._flow = flow

    def with_flow(self, flow: str) -> "Client":
        """Return a client of the same server; flows share the write limit fairly."""
        return Client(self._transport, self._clock, self._limiter, flow=flow)

    @property
    def clock(self) -> Clock:
        return self._clock

    async def get(self, resource: Resource[T], namespace: str, name: str) -> T:
        request = Request(method="GET", path=resource.path(namespace, name))
        return decode_object(resource, request, await self._send(request))

    async def read(self, path: str) -> JsonObject | None:
        """Return the JSON at a path that is not an object, such as a discovery document; None: a 403 or 404."""
        request = Request(method="GET", path=path)
        response = await self._send(request)
        if response.status in (403, 404):
            return None
        check(request, response)
        try:
            content = msgspec.json.decode(response.body)
        except msgspec.DecodeError:
            content = {}
        return content if isinstance(content, dict) else {}

    async def read_log(self, namespace: str, pod: str, *, container: str, tail: int, is_previous: bool = False) -> str:
        """Return the last lines of a container's log; `is_previous`: of the run before the current one."""
        query = {"container": container, "tailLines": str(tail)} | ({"previous": "true"} if is_previous else {})
        request = Request(method="GET", path=PODS.path(namespace, pod, "log"), query=query)
        response = await self._send(request)
        check(request, response)
        return response.body.decode(errors="replace")

    async def dry_run_create(self, resource: Resource[Any], namespace: str, body: JsonObject) -> JsonObject:
        """Return what a create would store, by a dry run: it shows which fields this server keeps."""
        request = Request(
            method="POST", path=resource.path(namespace), query={"dryRun": "All"}, body=msgspec.json.encode(body)
        )
        response = await self._send(request)
        check(request, response)
        return msgspec.json.decode(response.body, type=JsonObject)

    async def list(
        self,
        resource: Resource[T],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        page_size: int = 500,
        accept: str = "",
    ) -> Listing[T]:
        """Return all pages, as of one version. An expired continue token starts the list over."""
        query = _selection(label_selector, field_selector) | {"limit": str(page_size)}
        request = Request(method="GET", path=resource.path(namespace), query=query, accept=accept)
        try:
            # Also bounds the number of pages: a server could send them endlessly.
            async with asyncio.timeout(LIST_SECONDS):
                return await self._list_from_the_start(resource, request)
        except TimeoutError as error:
            raise ConnectionLost(f"GET {request.path}: the list was not complete after {LIST_SECONDS:g} s") from error

    async def list_metadata(
        self, resource: Resource[Any], *, namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> Listing[Object]:
        """List only the metadata of objects."""
        return await self.list(
            resource.viewed_as(Object),
            namespace=namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            accept=METADATA_LIST,
        )

    async def current_version(
        self, resource: Resource[Any], *, namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> int:
        """Return the current resource version of the server, by a consistent read of at most one object."""
        query = _selection(label_selector, field_selector) | {"limit": "1"}
        request = Request(method="GET", path=resource.path(namespace), query=query)
        return int(_version_of(request, decode_page(resource, request, await self._send(request))))

    async def _list_from_the_start(self, resource: Resource[T], request: Request) -> Listing[T]:
        for attempt in range(1, _LIST_ATTEMPTS + 1):
            try:
                return await self._list_pages(resource, request)
            except ApiError as error:
                if not error.is_gone or attempt == _LIST_ATTEMPTS:
                    raise
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def create(self, resource: Resource[T], namespace: str, body: JsonObject | bytes) -> T:
        content = body if isinstance(body, bytes) else _as_stored(body)
        request = Request(method="POST", path=resource.path(namespace), body=content)
        return decode_object(resource, request, await self._send(request))

    async def patch(
        self,
        resource: Resource[T],
        namespace: str,
        name: str,
        patch: JsonObject | JsonPatch,
        *,
        content_type: str = MERGE_PATCH,
        subresource: str = "",
    ) -> T:
        """Return the object after the patch. With subresource `scale` it is a Scale decoded as T: do not cache it."""
        request = Request(
            method="PATCH",
            path=resource.path(namespace, name, subresource),
            body=msgspec.json.encode(patch),
            content_type=content_type,
        )
        return decode_object(resource, request, await self._send(request))

    async def delete(
        self,
        resource: Resource[T],
        namespace: str,
        name: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_period_seconds: int | None = None,
        propagation: str = "Background",
    ) -> T | None:
        """Delete an object. Return None if it is gone (or was not there), the object if it is terminating.

        Raises a 409 if the object of this name has another uid.
        """
        preconditions = _without_none(uid=uid, resourceVersion=resource_version)
        options = _without_none(
            kind="DeleteOptions",
            apiVersion="v1",
            propagationPolicy=propagation,
            gracePeriodSeconds=grace_period_seconds,
            preconditions=preconditions or None,
        )
        request = Request(method="DELETE", path=resource.path(namespace, name), body=msgspec.json.encode(options))
        response = await self._send(request)
        if response.status == 404:
            return None
        return decode_deleted(resource, request, response)

    async def delete_collection(
        self,
        resource: Resource[T],
        namespace: str,
        *,
        label_selector: str,
        field_selector: str = "",
        resource_version: str = "",
        propagation: str = "Background",
    ) -> None:
        """Delete all selected objects; with a resource version, those selected at that version and no later ones.

        The server deletes by name, one after the other. Without a body it would use the version as a precondition of
        every object. Its response shows the objects as they were before, so it is not returned.
        """
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation}
        exactly = {"resourceVersion": resource_version, "resourceVersionMatch": "Exact"} if resource_version else {}
        request = Request(
            method="DELETE",
            path=resource.path(namespace),
            query=_selection(label_selector, field_selector) | exactly,
            body=msgspec.json.encode(options),
        )
        check(request, await self._send(request))

    async def bind(self, namespace: str, pod: str, node: str, *, uid: str) -> None:
        """Bind a pod to a node, if the pod still has this uid."""
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod, "namespace": namespace, "uid": uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        path = PODS.path(namespace, pod, "binding")
        request = Request(method="POST", path=path, body=msgspec.json.encode(binding))
        check(request, await self._send(request))

    async def create_token(self, namespace: str, account: str, body: JsonObject) -> str:
        """Request a token of a service account and return it."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        request = Request(method="POST", path=path, body=msgspec.json.encode(body))
        response = await self._send(request)
        check(request, response)
        return msgspec.json.decode(response.body, type=_IssuedToken).status.token

    def watch(
        self,
        resource: Resource[T],
        *,
        resource_version: str,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: int,
    ) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent[T]]]:
        """Watch changes after `resource_version`, until the server ends the watch.

        Raises `ApiError` if the watch is rejected or sends an ERROR event.
        """
        query = _selection(label_selector, field_selector) | {
            "watch": "true",
            "resourceVersion": resource_version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(timeout_seconds),
        }
        return self._watch(resource, Request(method="GET", path=resource.path(namespace), query=query))

    @asynccontextmanager
    async def _watch(self, resource: Resource[T], request: Request) -> AsyncIterator[AsyncIterator[WatchEvent[T]]]:
        async with self._transport.stream(request) as lines, aclosing(decode_events(resource.view, lines)) as events:
            yield events

    async def _list_pages(self, resource: Resource[T], request: Request) -> Listing[T]:
        page = decode_page(resource, request, await self._send(request))
        # The version of the first page: if later pages are newer, the watch only repeats a few events.
        version = _version_of(request, page)
        items = [*page.items]
        unreadable = [*page.unreadable]
        while page.continue_token:
            query = {**request.query, "continue": page.continue_token}
            next_request = msgspec.structs.replace(request, query=query)
            page = decode_page(resource, next_request, await self._send(next_request))
            items += page.items
            unreadable += page.unreadable
        return Listing(items=tuple(items), resource_version=version, unreadable=tuple(unreadable))

    async def _send(self, request: Request) -> Response:
        if self._limiter is None or not request.is_write:
            return await self._transport.send(request)
        async with self._limiter.slot(self._flow) as slot:
            try:
                response = await self._transport.send(request)
            except NoCredentials:
                # Nothing was sent, so the limit does not change.
                raise
            except ConnectionLost:
                slot.record_no_response()
                raise
            slot.record_response(response.status, retry_after=retry_after_of(response))
            return response


def _version_of(request: Request, page: Page[Any]) -> str:
    version = page.resource_version
    if not version.isdecimal():
        raise ConnectionLost(f"GET {request.path}: the list has no resourceVersion to watch from: {version!r}")
    return version


# Characters that Go escapes in JSON strings.
_ESCAPED = (
    (b"&", rb"\u0026"),
    (b"<", rb"\u003c"),
    (b">", rb"\u003e"),
    ("\u2028".encode(), rb"\u2028"),
    ("\u2029".encode(), rb"\u2029"),
)


def _as_stored(body: JsonObject) -> bytes:
    """Encode JSON as an API server does: the data of a ControllerRevision are compared byte by byte.

    They are stored as sent, and every patch is applied to the object as the server encodes it: with a plain `&` in its
    data a revision could never be renumbered, labelled or orphaned again. (Keys sorted: `template_revision.py`.)
    """
    content = msgspec.json.encode(body)
    for plain, escaped in _ESCAPED:
        if plain in content:
            content = content.replace(plain, escaped)
    return content


def _selection(label_selector: str, field_selector: str) -> dict[str, str]:
    return _without_none(labelSelector=label_selector or None, fieldSelector=field_selector or None)


def _without_none(**fields: Any) -> JsonObject:
    return {name: value for name, value in fields.items() if value is not None}

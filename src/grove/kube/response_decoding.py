"""Decodes responses of an API server: objects, pages of a list, watch events, errors.

`client.py` sends the requests. A response that cannot be decoded is an error; one object in it that cannot be decoded
is not.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from functools import cache
from typing import Any, Generic, NoReturn, TypeVar

import msgspec

from grove.api.resources import Object, Resource
from grove.api.types.meta import HasMetadata, ObjectMeta
from grove.kube.api_errors import ApiError, ConnectionLost, Status
from grove.kube.transport import Request, Response

T = TypeVar("T", bound=HasMetadata)

LONGEST_PAUSE_SECONDS = 300.0


class Listing(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """The objects of a list at one version. `unreadable` are objects that cannot be decoded."""

    items: tuple[T, ...]
    resource_version: str
    unreadable: tuple[ObjectMeta, ...] = ()


class Page(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """A page of a list; more follow if there is a continue token."""

    items: tuple[T, ...]
    resource_version: str
    continue_token: str
    unreadable: tuple[ObjectMeta, ...] = ()


class Added(msgspec.Struct, Generic[T], frozen=True, kw_only=True, tag_field="type", tag="ADDED"):
    object: T


class Modified(msgspec.Struct, Generic[T], frozen=True, kw_only=True, tag_field="type", tag="MODIFIED"):
    object: T


class Deleted(msgspec.Struct, Generic[T], frozen=True, kw_only=True, tag_field="type", tag="DELETED"):
    """An object that was deleted, or is no longer selected."""

    object: T


class Bookmark(msgspec.Struct, frozen=True, kw_only=True):
    """A bookmark: everything up to this version was sent."""

    resource_version: str


class Unreadable(msgspec.Struct, frozen=True, kw_only=True):
    """An object that cannot be decoded; a broken line has not even metadata."""

    metadata: ObjectMeta
    is_deleted: bool


WatchEvent = Added[T] | Modified[T] | Deleted[T] | Bookmark | Unreadable


class _ListMeta(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _PageBody(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    metadata: _ListMeta
    items: tuple[T, ...] | None = None


class _RawPageBody(msgspec.Struct, frozen=True, kw_only=True):
    metadata: _ListMeta
    items: tuple[msgspec.Raw, ...] | None = None


class _Kind(msgspec.Struct, frozen=True, kw_only=True):
    kind: str = ""


class _BookmarkLine(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="BOOKMARK"):
    object: Object


class _ErrorLine(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="ERROR"):
    object: Status


class _AnyLine(msgspec.Struct, frozen=True, kw_only=True):
    type: str = ""
    object: Object = Object(metadata=ObjectMeta())


class _Decoders(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """The decoders of one type, built once: building one is far more expensive than using it."""

    object: "msgspec.json.Decoder[T]"
    page: "msgspec.json.Decoder[_PageBody[T]]"
    line: "msgspec.json.Decoder[Added[T] | Modified[T] | Deleted[T] | _BookmarkLine | _ErrorLine]"


@cache
def _decoders_of(view: Any) -> _Decoders[Any]:
    page: Any = _PageBody
    added: Any = Added
    modified: Any = Modified
    deleted: Any = Deleted
    line = added[view] | modified[view] | deleted[view] | _BookmarkLine | _ErrorLine
    return _Decoders(
        object=msgspec.json.Decoder(view),
        page=msgspec.json.Decoder(page[view]),
        line=msgspec.json.Decoder(line),
    )


def _decoders(view: type[T]) -> _Decoders[T]:
    return _decoders_of(view)


_STATUS = msgspec.json.Decoder(Status)
_KIND = msgspec.json.Decoder(_Kind)
_METADATA = msgspec.json.Decoder(Object)
_RAW_PAGE = msgspec.json.Decoder(_RawPageBody)
_ANY_LINE = msgspec.json.Decoder(_AnyLine)


def decode_object(resource: Resource[T], request: Request, response: Response) -> T:
    check(request, response)
    try:
        return _decoders(resource.view).object.decode(response.body)
    except msgspec.MsgspecError as error:
        raise _decoding_error(request, response, error) from error


def decode_deleted(resource: Resource[T], request: Request, response: Response) -> T | None:
    """Return None if the object is gone, the object if it is terminating."""
    check(request, response)
    try:
        if _KIND.decode(response.body).kind == "Status":
            return None
        deleted = _decoders(resource.view).object.decode(response.body)
    except msgspec.MsgspecError as error:
        raise _decoding_error(request, response, error) from error
    return None if _is_last_state(deleted.metadata) else deleted


def _is_last_state(metadata: ObjectMeta) -> bool:
    """Return whether the object is gone. Some kinds return it then; only a grace period or finalizer keeps it."""
    if metadata.deletion_timestamp is None:
        return True
    return not metadata.deletion_grace_period_seconds and not metadata.finalizers


def decode_page(resource: Resource[T], request: Request, response: Response) -> Page[T]:
    check(request, response)
    try:
        body = _decoders(resource.view).page.decode(response.body)
    except msgspec.MsgspecError:
        return _decode_page_piecewise(resource, request, response)
    items = body.items or ()
    if not all(map(_has_version, items)):
        return _decode_page_piecewise(resource, request, response)
    return Page(
        items=items, resource_version=body.metadata.resource_version, continue_token=body.metadata.continue_
    )  # fmt: skip


def _decode_page_piecewise(resource: Resource[T], request: Request, response: Response) -> Page[T]:
    """Decode a page object by object: one that cannot be decoded must not hide the others."""
    decoder = _decoders(resource.view).object
    items: list[T] = []
    unreadable: list[ObjectMeta] = []
    try:
        body = _RAW_PAGE.decode(response.body)
        for raw in body.items or ():
            item = _decode_or_none(decoder, raw)
            if item is not None and _has_version(item):
                items.append(item)
            else:
                unreadable.append(_METADATA.decode(raw).metadata)
    except msgspec.MsgspecError as error:
        raise _decoding_error(request, response, error) from error
    return Page(
        items=tuple(items),
        resource_version=body.metadata.resource_version,
        continue_token=body.metadata.continue_,
        unreadable=tuple(unreadable),
    )


def _decode_or_none(decoder: "msgspec.json.Decoder[T]", raw: msgspec.Raw) -> T | None:
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError:
        return None


def _has_version(obj: HasMetadata) -> bool:
    """Return whether the object has a numeric version: versions are compared as integers."""
    return obj.metadata.resource_version.isdecimal()


async def decode_events(view: type[T], lines: AsyncIterator[bytes]) -> AsyncGenerator[WatchEvent[T], None]:
    """Yield the events of the lines of a watch; an ERROR event raises `ApiError`."""
    decode = _decoders(view).line.decode
    async for line in lines:
        try:
            event = decode(line)
        except msgspec.MsgspecError:
            yield _unreadable_line(line)
            continue
        if isinstance(event, _ErrorLine):
            _raise_status(event.object, event.object.code, None)
        elif not _has_version(event.object):
            yield _unreadable_line(line)
        elif isinstance(event, _BookmarkLine):
            yield Bookmark(resource_version=event.object.metadata.resource_version)
        else:
            yield event


def _unreadable_line(line: bytes) -> Unreadable:
    try:
        found = _ANY_LINE.decode(line)
    except msgspec.MsgspecError:
        found = _AnyLine()
    return Unreadable(metadata=found.object.metadata, is_deleted=found.type == "DELETED")


def check(request: Request, response: Response) -> None:
    """Raise `ApiError` if the response is an error."""
    if response.status < 300:
        return
    if response.status < 400:
        raise _redirect_error(request, response)
    try:
        status = _STATUS.decode(response.body)
    except msgspec.MsgspecError:
        status = _status_of_text(request, response)
    _raise_status(status, response.status, retry_after_of(response))


def _status_of_text(request: Request, response: Response) -> Status:
    """Return the Status of a plain text response. kube-apiserver sends one for a kind of an unknown group."""
    text = " ".join(response.body[:200].decode("utf-8", "replace").split())
    if response.status == 404 and text == "404 page not found":
        return Status(reason="NotFound", message="the server could not find the requested resource")
    return Status(message=f"{request.method} {request.path}: {text}")


def _redirect_error(request: Request, response: Response) -> ApiError:
    """Return the error of a redirect. API servers do not redirect: this is a login proxy, or another server."""
    # The query may contain a secret of the login.
    target = _header(response, "location").partition("?")[0] or "nowhere"
    message = f"{request.method} {request.path}: redirected to {target}; set server to the API server itself"
    return ApiError(response.status, "Redirected", message)


def _raise_status(status: Status, code: int, retry_after: float | None) -> NoReturn:
    if retry_after is None and status.details is not None and status.details.retry_after_seconds is not None:
        retry_after = _limit_pause(status.details.retry_after_seconds)
    raise ApiError(code, status.reason, status.message, retry_after)


def retry_after_of(response: Response) -> float | None:
    """Return the seconds of the Retry-After header; API servers do not use its date form."""
    text = _header(response, "retry-after")
    return _limit_pause(float(text)) if text.isdecimal() else None


def _limit_pause(seconds: float) -> float:
    """Limit the pause: a proxy in maintenance might request a day."""
    return min(max(float(seconds), 0.0), LONGEST_PAUSE_SECONDS)


def _header(response: Response, name: str) -> str:
    return next((value for key, value in response.headers.items() if key.lower() == name), "")


def _decoding_error(request: Request, response: Response, error: Exception) -> ConnectionLost:
    # The server answered, but the outcome is as unknown as without a response.
    what = f"{request.method} {request.path}: the response cannot be decoded: {error}"
    content_type = _header(response, "content-type").partition(";")[0]
    if content_type not in ("", "application/json"):
        # Not from an API server, so no object is quoted here.
        start = " ".join(response.body[:200].decode("utf-8", "replace").split())
        what += f"; it is {content_type}, perhaps from a proxy: {start}"
    return ConnectionLost(what)

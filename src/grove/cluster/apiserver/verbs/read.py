"""GET: returns one object, or a list in pages."""

import base64

import msgspec

from grove.api.types.meta import JsonObject
from grove.api.validation.field_errors import FieldError, forbidden, not_supported
from grove.cluster.apiserver.codec.request_decoding import parse_int64
from grove.cluster.apiserver.codec.selectors import Selection, parse_selection
from grove.cluster.apiserver.context import Context
from grove.cluster.apiserver.request_info import RequestInfo
from grove.cluster.apiserver.status_errors import (
    ExpiredContinueError,
    StatusError,
    bad_request,
    invalid_options,
    not_found,
    too_large_version,
    too_old_list,
)
from grove.cluster.built_in_resources import ResourceInfo
from grove.cluster.storage.store import CompactedError, Entry, draft, sort_key
from grove.kube.transport import Request, Response

_LARGEST_VERSION = 2**64 - 1
_MAX_DIGITS = len(str(_LARGEST_VERSION))


def read_one(context: Context, target: RequestInfo, request: Request) -> Response:
    if version := request.query.get("resourceVersion", ""):
        _check_not_in_future(context, read_version(version))
    return Response(status=200, body=context.encode_entry(find_entry(context, target)))


def find_entry(context: Context, target: RequestInfo) -> Entry:
    entry = context.store.table(target.resource_info).find(target.namespace, target.name)
    if entry is None:
        raise not_found(target.resource_info, target.name)
    custom = target.resource_info.custom
    if custom is None or custom.stored_as is None:
        return entry
    # In the requested version, so that an update is compared with what the client read.
    obj = custom.from_stored(entry.obj, target.resource_info.api_version)
    return entry if obj is entry.obj else draft(entry.namespace, entry.name, obj, entry.revision, entry.ownership)


class ListPage(msgspec.Struct, frozen=True):
    """A page of a list at one revision."""

    entries: list[Entry]
    # The number of objects after this page.
    remaining: int
    revision: int
    # A real API server does not count with a selector.
    is_counted: bool


class _Continue(msgspec.Struct, frozen=True):
    """The content of a continue token: the listed revision (0: current), and the last object of the page."""

    revision: int
    namespace: str
    name: str


def read_list(context: Context, target: RequestInfo, request: Request) -> Response:
    return Response(status=200, body=list_body(context, target, select_page(context, target, request)))


def select_page(context: Context, target: RequestInfo, request: Request) -> ListPage:
    """Return the objects that a query on a collection selects, limited to a page if requested."""
    query = request.query
    selection = read_selection(target, request)
    limit = 0
    if query:
        _check_options(request)
        limit = max(parse_int64(query.get("limit", "0")), 0)
        parse_int64(query.get("timeoutSeconds", "0"))
    version = query.get("resourceVersion", "")
    if token := query.get("continue", ""):
        if version not in ("", "0"):
            raise bad_request("specifying resource version is not allowed when using continue")
        start = _read_token(token)
        revision = start.revision or context.store.revision
        entries = _entries_at(context, target, selection, revision, start)
        matching = [entry for entry in entries if _is_after(entry, start)]
    else:
        revision = _revision_to_list(context, request)
        if version == "0":
            # A real API server serves this from its watch cache and ignores the limit.
            limit = 0
        if revision == context.store.revision:
            matching = select_entries(context, target, selection)
        else:
            matching = _entries_exactly_at(context, target, selection, revision)
    remaining = max(len(matching) - limit, 0) if limit else 0
    page = matching[:limit] if remaining else matching
    return ListPage(page, remaining, revision, is_counted=selection.is_everything)


def read_selection(target: RequestInfo, request: Request) -> Selection:
    query = request.query
    return parse_selection(target.resource_info, query.get("labelSelector", ""), query.get("fieldSelector", ""))


def select_entries(context: Context, target: RequestInfo, selection: Selection) -> list[Entry]:
    """Return the selected objects of a collection, sorted by namespace and name."""
    table = context.store.table(target.resource_info)
    scope = target.scope
    if selection.is_everything:
        return list(table.entries(scope))
    name = selection.single_name
    if name is not None and scope is not None:
        entry = table.find(scope, name)
        return [entry] if entry is not None and selection.matches(entry.obj) else []
    if labels := selection.exact_labels:
        candidates = table.find_candidates(labels)
        return [e for e in candidates if scope in (None, e.namespace) and selection.matches(e.obj)]
    return [entry for entry in table.entries(scope) if selection.matches(entry.obj)]


def _entries_at(
    context: Context, target: RequestInfo, selection: Selection, revision: int, start: _Continue
) -> list[Entry]:
    try:
        entries = context.store.table(target.resource_info).entries_at(revision, target.scope)
    except CompactedError:
        raise ExpiredContinueError(_write_token(msgspec.structs.replace(start, revision=0))) from None
    return [entry for entry in entries if selection.matches(entry.obj)]


def _entries_exactly_at(context: Context, target: RequestInfo, selection: Selection, revision: int) -> list[Entry]:
    try:
        entries = context.store.table(target.resource_info).entries_at(revision, target.scope)
    except CompactedError:
        raise too_old_list() from None
    return [entry for entry in entries if selection.matches(entry.obj)]


def _revision_to_list(context: Context, request: Request) -> int:
    version = request.query.get("resourceVersion", "")
    if not version:
        return context.store.revision
    try:
        wanted = read_version(version)
    except StatusError as error:
        raise bad_request(f"invalid resource version: {error.message}") from None
    _check_not_in_future(context, wanted)
    return wanted if request.query.get("resourceVersionMatch") == "Exact" else context.store.revision


def read_version(text: str) -> int:
    """Parse a resourceVersion. Raises 400. (A real API server often returns 500 for this client error.)"""
    is_number = text.isascii() and text.isdigit()
    digits = text.lstrip("0") or "0"
    if not is_number or len(digits) > _MAX_DIGITS or int(digits) > _LARGEST_VERSION:
        shown = msgspec.json.encode(text).decode()
        error_message = f"strconv.ParseUint: parsing {shown}: {'value out of range' if is_number else 'invalid syntax'}"
        raise bad_request(f"resourceVersion: Invalid value: {shown}: {error_message}")
    return int(digits)


def _check_not_in_future(context: Context, revision: int) -> None:
    current = context.store.revision
    if revision > current:
        raise too_large_version(revision, current)


def _check_options(request: Request) -> None:
    """Raise 422 unless the list options are consistent."""
    errors = version_match_errors(request)
    if "sendInitialEvents" in request.query:
        errors.append(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    if errors:
        raise invalid_options("ListOptions", *errors)


def version_match_errors(request: Request) -> list[FieldError]:
    """Return the errors of `resourceVersionMatch` in lists and watches."""
    query = request.query
    version_match = query.get("resourceVersionMatch", "")
    if not version_match:
        return []
    error_messages = []
    if not query.get("resourceVersion"):
        error_messages.append("resourceVersionMatch is forbidden unless resourceVersion is provided")
    if query.get("continue"):
        error_messages.append("resourceVersionMatch is forbidden when continue is provided")
    errors = [forbidden("resourceVersionMatch", error_message) for error_message in error_messages]
    if version_match not in ("Exact", "NotOlderThan"):
        errors.append(not_supported("resourceVersionMatch", version_match, ("Exact", "NotOlderThan", "")))
    elif version_match == "Exact" and query.get("resourceVersion") == "0":
        error_message = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        errors.append(forbidden("resourceVersionMatch", error_message))
    return errors


def _is_after(entry: Entry, start: _Continue) -> bool:
    return (sort_key(entry.namespace), entry.name) > (sort_key(start.namespace), start.name)


def list_body(context: Context, target: RequestInfo, page: ListPage) -> bytes:
    resource_info = target.resource_info
    metadata = _list_metadata(resource_info, page.revision)
    if page.remaining:
        last = page.entries[-1]
        metadata["continue"] = _write_token(_Continue(page.revision, last.namespace, last.name))
        if page.is_counted:
            metadata["remainingItemCount"] = page.remaining
    head = msgspec.json.encode(
        {"kind": resource_info.list_kind, "apiVersion": resource_info.api_version, "metadata": metadata}
    )
    return b'%b,"items":[%b]}' % (head[:-1], b",".join(_encode_items(context, target, page.entries)))


def _list_metadata(resource_info: ResourceInfo, revision: int) -> JsonObject:
    """Return the list metadata. Lists of custom objects always have `continue`."""
    return (
        {"continue": "", "resourceVersion": str(revision)}
        if resource_info.is_custom
        else {"resourceVersion": str(revision)}
    )


def _encode_items(context: Context, target: RequestInfo, entries: list[Entry]) -> list[bytes]:
    """Return the JSON of list items. Items of built-in kinds omit kind and apiVersion."""
    shown = map(context.encode_entry, entries)
    if target.resource_info.is_custom:
        return list(shown)
    start = len(target.resource_info.head)
    return [b"{" + data[start:] for data in shown]


def _write_token(position: _Continue) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(position)).decode()


def _read_token(token: str) -> _Continue:
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(token), type=_Continue)
    except (ValueError, msgspec.DecodeError):
        raise bad_request("invalid continue token: continue key is not valid: this server did not issue it") from None

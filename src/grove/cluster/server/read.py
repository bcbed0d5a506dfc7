"""GET: one object, or a list of them in pages."""

import base64

import msgspec

from grove.api.meta import JsonObject
from grove.cluster.server.context import Context
from grove.cluster.server.selectors import Selection, parse_selection
from grove.cluster.server.status_errors import (
    bad_request,
    expired_continue,
    not_found,
    too_large_version,
    too_old,
)
from grove.cluster.server.targets import Target
from grove.cluster.store import CompactedError, Entry
from grove.kube.transport import Request, Response


def read_one(context: Context, target: Target) -> Response:
    return Response(status=200, body=find_entry(context, target).data)


def find_entry(context: Context, target: Target) -> Entry:
    entry = context.store.table(target.served).find(target.namespace, target.name)
    if entry is None:
        raise not_found(target.served, target.name)
    return entry


class _Page(msgspec.Struct, frozen=True):
    entries: list[Entry]
    # How many more there are.
    remaining: int


class _Continue(msgspec.Struct, frozen=True):
    """What a continue token says: the state that is being listed, and how far the reader has come."""

    revision: int
    namespace: str
    name: str


def read_list(context: Context, target: Target, request: Request) -> Response:
    query = request.query
    selection = selection_of(target, request)
    limit = _number(query.get("limit", ""), "limit")
    if token := query.get("continue", ""):
        start = _read_token(token)
        revision = start.revision
        entries = _entries_at(context, target, selection, start.revision)
        matching = [entry for entry in entries if _is_after(entry, start)]
    else:
        revision = _revision_to_list(context, request)
        if revision == context.store.revision:
            matching = select_entries(context, target, selection)
        else:
            matching = _entries_exactly_at(context, target, selection, revision)
    page = _cut(matching, limit)
    return Response(status=200, body=_list_body(target, page, revision, is_counted=selection.is_everything))


def selection_of(target: Target, request: Request) -> Selection:
    query = request.query
    return parse_selection(target.served, query.get("labelSelector", ""), query.get("fieldSelector", ""))


def select_entries(context: Context, target: Target, selection: Selection) -> list[Entry]:
    """The objects of a collection that a request means, by namespace and name."""
    table = context.store.table(target.served)
    scope = target.scope
    if selection.is_everything:
        return list(table.entries(scope))
    name = selection.single_name
    if name is not None and scope is not None:
        entry = table.find(scope, name)
        return [entry] if entry is not None and selection.matches(entry.obj) else []
    if labels := selection.exact_labels:
        candidates = table.labelled(labels)
        return [e for e in candidates if scope in (None, e.namespace) and selection.matches(e.obj)]
    return [entry for entry in table.entries(scope) if selection.matches(entry.obj)]


def _entries_at(context: Context, target: Target, selection: Selection, revision: int) -> list[Entry]:
    try:
        entries = context.store.table(target.served).entries_at(revision, target.scope)
    except CompactedError:
        raise expired_continue() from None
    return [entry for entry in entries if selection.matches(entry.obj)]


def _entries_exactly_at(context: Context, target: Target, selection: Selection, revision: int) -> list[Entry]:
    try:
        entries = context.store.table(target.served).entries_at(revision, target.scope)
    except CompactedError as gone:
        raise too_old(revision, gone.oldest) from None
    return [entry for entry in entries if selection.matches(entry.obj)]


def _revision_to_list(context: Context, request: Request) -> int:
    wanted = _number(request.query.get("resourceVersion", ""), "resourceVersion")
    current = context.store.revision
    match request.query.get("resourceVersionMatch", ""):
        case "Exact" if wanted:
            if wanted > current:
                raise too_large_version(wanted, current)
            return wanted
        case "" | "NotOlderThan":
            if wanted > current:
                raise too_large_version(wanted, current)
            return current
        case other:
            raise bad_request(f'resourceVersionMatch: Forbidden: "{other}" is not possible with this resourceVersion')


def _number(text: str, field: str) -> int:
    if not text:
        return 0
    if not text.isascii() or not text.isdigit():
        raise bad_request(f'{field}: Invalid value: "{text}": must be a non-negative integer')
    return int(text)


def _cut(entries: list[Entry], limit: int) -> _Page:
    if not limit or len(entries) <= limit:
        return _Page(entries, 0)
    return _Page(entries[:limit], len(entries) - limit)


def _is_after(entry: Entry, start: _Continue) -> bool:
    return (entry.namespace, entry.name) > (start.namespace, start.name)


def _list_body(target: Target, page: _Page, revision: int, *, is_counted: bool) -> bytes:
    served = target.served
    metadata: JsonObject = {"resourceVersion": str(revision)}
    if page.remaining:
        last = page.entries[-1]
        metadata["continue"] = _write_token(_Continue(revision, last.namespace, last.name))
        if is_counted:
            # A real server does not count what a selector would leave out.
            metadata["remainingItemCount"] = page.remaining
    head = msgspec.json.encode({"kind": served.list_kind, "apiVersion": served.api_version, "metadata": metadata})
    return b'%b,"items":[%b]}' % (head[:-1], b",".join(items_of(target, page.entries)))


def items_of(target: Target, entries: list[Entry]) -> list[bytes]:
    """As they stand in a list: built-in kinds leave out what the list already says."""
    if target.served.is_custom:
        return [entry.data for entry in entries]
    start = len(target.served.head)
    return [b"{" + entry.data[start:] for entry in entries]


def _write_token(position: _Continue) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(position)).decode()


def _read_token(token: str) -> _Continue:
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(token), type=_Continue)
    except (ValueError, msgspec.DecodeError):
        raise bad_request("continue key is not valid") from None

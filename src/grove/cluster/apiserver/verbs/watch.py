"""GET with watch=true: streams the changes of a collection since a revision, one line each.

A stream has no queue: it is a cursor into the history of its kind, so a slow client costs nothing. A client that falls
behind the history gets a 410.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from operator import attrgetter

import msgspec

from grove.api.types.meta import JsonObject
from grove.api.validation.field_errors import forbidden
from grove.cluster.apiserver.codec.bool_params import is_on, parse_bool
from grove.cluster.apiserver.codec.content_negotiation import Form, negotiate_form, partial_object
from grove.cluster.apiserver.codec.request_decoding import parse_int64
from grove.cluster.apiserver.codec.selectors import Selection
from grove.cluster.apiserver.codec.version_conversion import convert_line
from grove.cluster.apiserver.context import Context
from grove.cluster.apiserver.printers.table import build_line_encoder, read_included
from grove.cluster.apiserver.registry.events_v1 import line_to_events_v1
from grove.cluster.apiserver.request_info import RequestInfo, names_one_object
from grove.cluster.apiserver.status_errors import StatusError, fell_behind, invalid_options, too_large_version, too_old
from grove.cluster.apiserver.verbs.change_waiter import ChangeWaiter
from grove.cluster.apiserver.verbs.read import read_selection, read_version, select_entries
from grove.cluster.storage.store import Change, ChangeType, CompactedError, Entry, Storage, Table, draft
from grove.kube.transport import Request

LineConverter = Callable[[bytes], bytes]

_BOOKMARK_SECONDS = 60.0
_SHORTEST_DEFAULT, _LONGEST_DEFAULT = 1800, 3600
_BATCH_BYTES = 256 * 1024
_HEADS = {type_: f'{{"type":"{type_.value}","object":'.encode() for type_ in ChangeType}


def is_watch(request: Request) -> bool:
    """Return whether the request is a watch: `watch` is not false, and the path names a collection."""
    return request.method == "GET" and is_on(request.query, "watch") and not names_one_object(request.path)


def open_stream(context: Context, target: RequestInfo, request: Request) -> "WatchStream":
    query = request.query
    _check_options(request)
    seconds = max(parse_int64(query.get("timeoutSeconds", "0")), 0)
    selection = read_selection(target, request)
    convert = _build_converter(context, target, request)
    stream = WatchStream(
        context.store,
        target,
        selection,
        timeout=seconds or context.random.randint(_SHORTEST_DEFAULT, _LONGEST_DEFAULT),
        has_bookmarks=is_on(query, "allowWatchBookmarks"),
        is_whole=bool(request.program),
        convert=convert,
    )
    revision = read_version(query.get("resourceVersion") or "0")
    sends_initial_events = parse_bool(query, "sendInitialEvents")
    if sends_initial_events and revision > context.store.revision:
        stream.send_error(too_large_version(revision, context.store.revision))
    elif sends_initial_events:
        stream.start_with(select_entries(context, target, selection), sends_end_bookmark=True)
    elif sends_initial_events is False and not revision:
        pass
    elif revision:
        stream.start_after(revision)
    else:
        stream.start_with(select_entries(context, target, selection))
    return stream


def _check_options(request: Request) -> None:
    """Raise 422 unless the watch options are consistent."""
    query = request.query
    version_match = query.get("resourceVersionMatch", "")
    errors = []
    if "sendInitialEvents" not in query:
        if version_match:
            error_message = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            errors.append(forbidden("resourceVersionMatch", error_message))
    elif version_match != "NotOlderThan":
        error_message = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        errors.append(forbidden("resourceVersionMatch", error_message))
    if errors:
        raise invalid_options("ListOptions", *errors)


def _build_converter(context: Context, target: RequestInfo, request: Request) -> LineConverter | None:
    """Return the conversion of lines to the requested version and form; None: no conversion."""
    to_form = _build_form_converter(context, target, request)
    custom = target.resource_info.custom
    if custom is None or custom.stored_as is None:
        return to_form
    to_version = partial(convert_line, custom, target.resource_info.api_version)
    return to_version if to_form is None else lambda line: to_form(to_version(line))


def _build_form_converter(context: Context, target: RequestInfo, request: Request) -> LineConverter | None:
    match negotiate_form(request.accept):
        case Form.TABLE:
            return build_line_encoder(target.resource_info, read_included(request), context.clock.now)
        case Form.METADATA | Form.METADATA_LIST:
            return _metadata_line
        case _:
            return line_to_events_v1 if target.is_events_v1 else None


def _metadata_line(line: bytes) -> bytes:
    event = msgspec.json.decode(line)
    return (
        line if event["type"] == "ERROR" else msgspec.json.encode({**event, "object": partial_object(event["object"])})
    )


class WatchStream:
    """An async iterator of watch events as lines. It ends at its timeout, when closed, or after an error line."""

    headers: Mapping[str, str] = {}

    def __init__(
        self,
        store: Storage,
        target: RequestInfo,
        selection: Selection,
        *,
        timeout: float,
        has_bookmarks: bool,
        is_whole: bool = False,
        convert: LineConverter | None = None,
    ) -> None:
        self._store = store
        self._table: Table = store.table(target.resource_info)
        self._retirements = self._table.retirements
        self._scope = target.scope
        self._selection = selection
        # With managedFields, or without.
        self._encode_entry: Callable[[Entry], bytes] = attrgetter("whole" if is_whole else "data")
        self._is_unfiltered = selection.is_everything and self._scope is None
        self._lines: deque[bytes] = deque()
        self._cursor = self._table.end
        # Only newer changes are sent: a watch from a future revision is silent until the server reaches it.
        self._after = 0
        self._convert = convert
        self._has_bookmarks = has_bookmarks
        self._is_bookmark_due = False
        # An expired stream still sends earlier changes; a closed stream sends nothing.
        self._is_expired = False
        self._is_closed = False
        self._waiter = ChangeWaiter(self._table)
        loop = asyncio.get_running_loop()
        self._timers = [loop.call_later(timeout, self._expire)]
        if has_bookmarks:
            self._timers.append(loop.call_later(_BOOKMARK_SECONDS, self._bookmark))

    def start_with(self, entries: list[Entry], *, sends_end_bookmark: bool = False) -> None:
        """Send the current objects as ADDED, then an initial-events-end bookmark if requested, then changes."""
        self._lines.extend(_line(ChangeType.ADDED, self._encode_entry(entry)) for entry in entries)
        if sends_end_bookmark and self._has_bookmarks:
            end = {"annotations": {"k8s.io/initial-events-end": "true"}}
            self._lines.append(self._bookmark_line(self._store.revision, end))

    def start_after(self, revision: int) -> None:
        try:
            self._cursor = self._table.cursor_after(revision)
            self._after = revision
        except CompactedError as error:
            self.send_error(too_old(revision, error.oldest))

    def send_error(self, error: StatusError) -> None:
        """Send the error as the last line."""
        self._lines.append(msgspec.json.encode({"type": "ERROR", "object": error.status()}))
        self._is_closed = True

    def __aiter__(self) -> "WatchStream":
        return self

    async def __anext__(self) -> bytes:
        while True:
            line = self._next_line()
            if line is not None:
                return line
            if self._is_expired or self._is_closed or self._retirements != self._table.retirements:
                self.close()
                raise StopAsyncIteration
            await self._waiter.wait()

    async def batch(self) -> list[bytes]:
        """Return the available lines, at least one and about `_BATCH_BYTES` at most; empty at the end."""
        lines: list[bytes] = []
        try:
            lines.append(await anext(self))
        except StopAsyncIteration:
            return lines
        size = len(lines[0])
        while size < _BATCH_BYTES and (line := self._next_line()) is not None:
            lines.append(line)
            size += len(line)
        return lines

    def close(self) -> None:
        """End the stream and wake a waiting reader."""
        self._is_closed = True
        self._lines.clear()
        for timer in self._timers:
            timer.cancel()
        self._waiter.close()

    def _next_line(self) -> bytes | None:
        line = self._next_object_line()
        return line if line is None or self._convert is None else self._convert(line)

    def _next_object_line(self) -> bytes | None:
        if self._lines:
            return self._lines.popleft()
        if self._is_closed:
            return None
        table = self._table
        while self._cursor < table.visible_end:
            at = self._cursor - table.dropped_count
            if at < 0:
                self.send_error(fell_behind())
                return self._lines.popleft()
            self._cursor += 1
            change = table.log[at]
            line = self._line_of(change) if change.revision > self._after else None
            if line is not None:
                return line
        if self._is_bookmark_due and self._store.visible_revision >= self._after:
            self._is_bookmark_due = False
            return self._bookmark_line(self._store.visible_revision)
        return None

    def _line_of(self, change: Change) -> bytes | None:
        """Return the line of a change. An object that starts or stops matching the selector is ADDED or DELETED."""
        if self._is_unfiltered:
            return _line(change.type, self._encode_entry(change.entry))
        if self._scope is not None and change.entry.namespace != self._scope:
            return None
        if self._selection.is_everything:
            return _line(change.type, self._encode_entry(change.entry))
        was = change.before is not None and self._selection.matches(change.before.obj)
        is_ = change.type is not ChangeType.DELETED and self._selection.matches(change.entry.obj)
        if is_:
            return _line(ChangeType.MODIFIED if was else ChangeType.ADDED, self._encode_entry(change.entry))
        if not was:
            return None
        if change.type is ChangeType.DELETED:
            return _line(ChangeType.DELETED, self._encode_entry(change.entry))
        return _line(ChangeType.DELETED, self._encode_entry(_last_match(change)))

    def _bookmark(self) -> None:
        self._is_bookmark_due = True
        self._timers[-1] = asyncio.get_running_loop().call_later(_BOOKMARK_SECONDS, self._bookmark)
        self._waiter.wake()

    def _expire(self) -> None:
        self._is_expired = True
        self._is_bookmark_due = self._has_bookmarks
        self._waiter.wake()

    def _bookmark_line(self, revision: int, more: JsonObject | None = None) -> bytes:
        resource_info = self._table.resource_info
        metadata = {"resourceVersion": str(revision), **(more or {})}
        obj = {"kind": resource_info.kind, "apiVersion": resource_info.api_version, "metadata": metadata}
        return msgspec.json.encode({"type": "BOOKMARK", "object": obj})


def _line(type_: ChangeType, data: bytes) -> bytes:
    return b"".join((_HEADS[type_], data, b"}"))


def _last_match(change: Change) -> Entry:
    """Return the last version that matched, with the revision at which it stopped matching."""
    before = change.before
    assert before is not None
    metadata = {**before.obj["metadata"], "resourceVersion": str(change.revision)}
    obj = {**before.obj, "metadata": metadata}
    return draft(before.namespace, before.name, obj, change.revision, before.ownership)

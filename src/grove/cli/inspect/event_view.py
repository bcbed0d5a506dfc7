"""Render events as a table. Pure."""

from collections.abc import Sequence
from datetime import datetime

from grove.cli.common.output import Cell, Row, Tone
from grove.cli.inspect.object_events import EventEntry
from grove.cli.status.tree_lines import age

_HEADER = ("LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE")
_WIDE_HEADER = ("LAST SEEN", "FIRST SEEN", "COUNT", "TYPE", "REASON", "OBJECT", "SOURCE", "MESSAGE")


def event_rows(
    events: Sequence[EventEntry], now: datetime, *, is_wide: bool = False, has_namespaces: bool = False
) -> list[Row]:
    """Return a table with one row per event. `is_wide` adds the first time, the count and the source."""
    header = ("NAMESPACE",) * has_namespaces + (_WIDE_HEADER if is_wide else _HEADER)
    rows: list[Row] = [tuple(Cell(word, Tone.FAINT) for word in header)]
    return rows + [event_row(one, now, is_wide=is_wide, has_namespaces=has_namespaces) for one in events]


def event_row(event: EventEntry, now: datetime, *, is_wide: bool = False, has_namespaces: bool = False) -> Row:
    tone = Tone.WAITING if event.type == "Warning" else Tone.PLAIN
    count = f" (x{event.count})" if event.count > 1 and not is_wide else ""
    seen = Cell(f"{age(event.last_seen, now)}{count}")
    message = Cell(" ".join(event.message.split()))
    kind, reason, about = Cell(event.type, tone), Cell(event.reason, tone), Cell(event.object)
    namespace = (Cell(event.namespace),) if has_namespaces else ()
    if not is_wide:
        return (*namespace, seen, kind, reason, about, message)
    first = Cell(age(event.first_seen, now))
    return (*namespace, seen, first, Cell(str(event.count)), kind, reason, about, Cell(event.source), message)

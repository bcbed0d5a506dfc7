"""Render one object with its conditions and events, like `kubectl describe`. Pure."""

from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec

from grove.api.types.meta import Condition, JsonObject
from grove.api.values.yaml_text import expanded_yaml
from grove.cli.common.output import Cell, Row, Tone, plain_lines
from grove.cli.inspect.event_view import event_rows
from grove.cli.inspect.object_events import EventEntry
from grove.cli.status.tree_lines import age

# It repeats the manifest.
_HIDDEN_ANNOTATIONS = ("kubectl.kubernetes.io/last-applied-configuration",)
_NONE = "<none>"


def details_text(body: JsonObject, events: Sequence[EventEntry], now: datetime) -> str:
    """Return the description of an object, with a newline at the end."""
    lines = [
        *plain_lines(list(_head(body["metadata"], body, now))),
        *_section("Spec", body.get("spec")),
        *_section("Status", {k: v for k, v in (body.get("status") or {}).items() if k != "conditions"}),
        *_table("Conditions", _condition_rows((body.get("status") or {}).get("conditions") or (), now)),
        *_table("Events", event_rows(events, now) if events else []),
    ]
    return "".join(f"{line}\n" for line in lines)


def _head(metadata: JsonObject, body: JsonObject, now: datetime) -> Iterator[Row]:
    yield _field("Name", metadata["name"])
    yield _field("Namespace", metadata.get("namespace", ""))
    yield _field("Kind", f"{body.get('kind', '')} ({body.get('apiVersion', '')})")
    yield from _mapping("Labels", metadata.get("labels") or {})
    annotations = metadata.get("annotations") or {}
    yield from _mapping("Annotations", {k: v for k, v in annotations.items() if k not in _HIDDEN_ANNOTATIONS})
    created = msgspec.convert(metadata.get("creationTimestamp"), datetime | None)
    yield _field("Created", f"{metadata.get('creationTimestamp')} ({age(created, now)} ago)")
    if "deletionTimestamp" in metadata:
        yield _field("Deleted", f"{metadata['deletionTimestamp']}, held by {', '.join(metadata.get('finalizers', []))}")
    for owner in metadata.get("ownerReferences") or ():
        if owner.get("controller"):
            yield _field("Controlled By", f"{owner['kind']}/{owner['name']}")


def _field(name: str, value: str) -> Row:
    return (Cell(f"{name}:"), Cell(value))


def _mapping(name: str, values: dict[str, str]) -> Iterator[Row]:
    texts = [f"{key}={value}" for key, value in sorted(values.items())] or [_NONE]
    yield _field(name, texts[0])
    for text in texts[1:]:
        yield (Cell(""), Cell(text))


def _section(name: str, value: JsonObject | None) -> list[str]:
    if not value:
        return [f"{name}:  {_NONE}"]
    return [f"{name}:", *(f"  {line}" for line in expanded_yaml(value).splitlines())]


def _table(name: str, rows: Sequence[Row]) -> list[str]:
    return [f"{name}:", *(f"  {line}" for line in plain_lines(rows))] if rows else [f"{name}:  {_NONE}"]


def _condition_rows(conditions: Sequence[JsonObject], now: datetime) -> list[Row]:
    if not conditions:
        return []
    header = ("TYPE", "STATUS", "REASON", "AGE", "MESSAGE")
    rows: list[Row] = [tuple(Cell(word, Tone.FAINT) for word in header)]
    for one in msgspec.convert(conditions, tuple[Condition, ...]):
        texts = (one.type, one.status, one.reason, age(one.last_transition_time, now), " ".join(one.message.split()))
        rows.append(tuple(Cell(text) for text in texts))
    return rows

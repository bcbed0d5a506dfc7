"""Conversion of core/v1 events to `events.k8s.io/v1`. The new form is read-only."""

import msgspec

from grove.api.types.meta import JsonObject

API_VERSION = "events.k8s.io/v1"


def to_events_v1(body: bytes) -> bytes:
    """Convert an event or a list of events."""
    found: JsonObject = msgspec.json.decode(body)
    if "items" not in found:
        return msgspec.json.encode(event_to_v1(found))
    items = [event_to_v1(item) for item in found["items"]]
    return msgspec.json.encode({**found, "apiVersion": API_VERSION, "items": items})


def line_to_events_v1(line: bytes) -> bytes:
    """Convert one line of a watch."""
    event: JsonObject = msgspec.json.decode(line)
    if event["type"] == "ERROR":
        return line
    return msgspec.json.encode({**event, "object": event_to_v1(event["object"])})


def event_to_v1(event: JsonObject) -> JsonObject:
    newer = {
        "kind": "Event",
        "apiVersion": API_VERSION,
        "metadata": event["metadata"],
        "eventTime": event.get("eventTime"),
        "series": event.get("series"),
        "reportingController": event.get("reportingComponent"),
        "reportingInstance": event.get("reportingInstance"),
        "action": event.get("action"),
        "reason": event.get("reason"),
        "regarding": event.get("involvedObject"),
        "related": event.get("related"),
        "note": event.get("message"),
        "type": event.get("type"),
        "deprecatedSource": event.get("source"),
        "deprecatedFirstTimestamp": event.get("firstTimestamp"),
        "deprecatedLastTimestamp": event.get("lastTimestamp"),
        "deprecatedCount": event.get("count"),
    }
    return {field: value for field, value in newer.items() if value is not None or field == "eventTime"}

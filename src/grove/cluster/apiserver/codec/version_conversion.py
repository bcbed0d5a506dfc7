"""Converts responses of custom kinds from the storage version to the requested version."""

import msgspec

from grove.api.types.meta import JsonObject
from grove.cluster.custom_resource import CustomVersion


def convert_body(custom: CustomVersion, api_version: str, body: bytes) -> bytes:
    """Convert an object or a list; a Status is not changed."""
    found: JsonObject = msgspec.json.decode(body)
    if found.get("kind") == "Status" and found.get("apiVersion") == "v1":
        return body
    if "items" not in found or "metadata" not in found:
        return msgspec.json.encode(custom.from_stored(found, api_version))
    items = [custom.from_stored(item, api_version) for item in found["items"]]
    return msgspec.json.encode({**found, "items": items})


def convert_line(custom: CustomVersion, api_version: str, line: bytes) -> bytes:
    """Convert one line of a watch."""
    event: JsonObject = msgspec.json.decode(line)
    obj = event["object"]
    if event["type"] == "ERROR":
        return line
    shown = {**obj, "apiVersion": api_version} if event["type"] == "BOOKMARK" else custom.from_stored(obj, api_version)
    return msgspec.json.encode({**event, "object": shown})

"""Answers in the version that was asked for: stored objects of a custom kind as another version shows them."""

import msgspec

from grove.api.types.meta import JsonObject
from grove.cluster.custom_resource import CustomVersion


def in_version(custom: CustomVersion, api_version: str, body: bytes) -> bytes:
    """An object, or a list of them; what says how a request went stays as it is."""
    found: JsonObject = msgspec.json.decode(body)
    if found.get("kind") == "Status" and found.get("apiVersion") == "v1":
        return body
    if "items" not in found or "metadata" not in found:
        return msgspec.json.encode(custom.shown(found, api_version))
    items = [custom.shown(item, api_version) for item in found["items"]]
    return msgspec.json.encode({**found, "items": items})


def line_in_version(custom: CustomVersion, api_version: str, line: bytes) -> bytes:
    """One line of a watch."""
    event: JsonObject = msgspec.json.decode(line)
    obj = event["object"]
    if event["type"] == "ERROR":
        return line
    shown = {**obj, "apiVersion": api_version} if event["type"] == "BOOKMARK" else custom.shown(obj, api_version)
    return msgspec.json.encode({**event, "object": shown})

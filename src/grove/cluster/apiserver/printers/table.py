"""Encodes responses as a Table (`meta.k8s.io/v1`), which `kubectl get` requests."""

from collections.abc import Callable
from datetime import datetime
from enum import StrEnum
from typing import assert_never

import msgspec

from grove.api.types.meta import JsonObject
from grove.cluster.apiserver.codec.content_negotiation import partial_object
from grove.cluster.apiserver.printers.printer_columns import get_table_columns
from grove.cluster.apiserver.status_errors import bad_request
from grove.cluster.built_in_resources import ResourceInfo
from grove.kube.transport import Request


class Included(StrEnum):
    """The part of each object that a row contains."""

    NONE = "None"
    METADATA = "Metadata"
    OBJECT = "Object"


def read_included(request: Request) -> Included:
    wanted = request.query.get("includeObject", "") or Included.METADATA
    try:
        return Included(wanted)
    except ValueError:
        error_message = "must be 'Metadata', 'Object', 'None', or empty"
        raise bad_request(
            f'Unable to convert to Table as requested: includeObject: Invalid value: "{wanted}": {error_message}'
        ) from None


def encode_table(resource_info: ResourceInfo, body: bytes, included: Included, now: datetime) -> bytes:
    """Encode an object or a list as a Table."""
    found: JsonObject = msgspec.json.decode(body)
    objects, metadata = [found], {"resourceVersion": found["metadata"].get("resourceVersion", "")}
    if "items" in found:
        # Items of built-in kinds omit kind and apiVersion.
        kind = {"kind": resource_info.kind, "apiVersion": resource_info.api_version}
        objects, metadata = [kind | item for item in found["items"]], found["metadata"]
    return msgspec.json.encode(_build_table(resource_info, objects, metadata, included, now))


def build_line_encoder(
    resource_info: ResourceInfo, included: Included, now: Callable[[], datetime]
) -> Callable[[bytes], bytes]:
    """Return an encoder for the lines of one watch. Only the first table has column definitions."""
    is_first = True

    def translate(line: bytes) -> bytes:
        nonlocal is_first
        event: JsonObject = msgspec.json.decode(line)
        if event["type"] == "ERROR":
            return line
        obj = event["object"]
        metadata = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
        is_bookmark = event["type"] == "BOOKMARK"
        table = _build_table(resource_info, [] if is_bookmark else [obj], metadata, included, now())
        if is_bookmark and "annotations" in obj["metadata"]:
            # The annotations of a bookmark are in a row with empty cells.
            table["rows"] = [
                {"cells": ["", *[None] * (len(table["columnDefinitions"]) - 1)], "object": partial_object(obj)}
            ]
        if not is_first:
            table["columnDefinitions"] = []
        is_first = False
        return msgspec.json.encode({"type": event["type"], "object": table})

    return translate


def _build_table(
    resource_info: ResourceInfo, objects: list[JsonObject], metadata: JsonObject, included: Included, now: datetime
) -> JsonObject:
    layout = get_table_columns(resource_info)
    rows = []
    for obj in objects:
        row: JsonObject = {"cells": layout.row(obj, now)}
        match included:
            case Included.NONE:
                row["object"] = None
            case Included.METADATA:
                row["object"] = partial_object(obj)
            case Included.OBJECT:
                row["object"] = obj
            case _:
                assert_never(included)
        rows.append(row)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": layout.columns,
        "rows": rows,
    }

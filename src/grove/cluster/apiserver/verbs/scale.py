"""The scale subresource: reads and writes the number of replicas of a custom resource."""

import msgspec

from grove.api.types.meta import JsonObject
from grove.cluster.apiserver.codec.request_decoding import decode_object, read_write_options
from grove.cluster.apiserver.context import Context
from grove.cluster.apiserver.registry.field_validation import build_patch_error
from grove.cluster.apiserver.request_info import RequestInfo
from grove.cluster.apiserver.status_errors import UnreadableError, bad_request, stale, undeterminable
from grove.cluster.apiserver.verbs.patch import apply_patch
from grove.cluster.apiserver.verbs.read import find_entry
from grove.cluster.apiserver.verbs.scale_conversion import build_scale, read_replicas, with_replicas
from grove.cluster.apiserver.verbs.update import change_object
from grove.cluster.storage.store import Entry
from grove.kube.transport import Request, Response


def read_scale(context: Context, target: RequestInfo) -> Response:
    return _build_response(target, find_entry(context, target))


def write_scale(context: Context, target: RequestInfo, request: Request) -> Response:
    """Handle PUT and PATCH of the scale subresource."""
    options = read_write_options(request)
    entry = find_entry(context, target)
    current = build_scale(target.resource_info, entry.obj)
    if request.method == "PATCH":
        scale = apply_patch(target.resource_info, request, current)
        try:
            replicas = _read_replicas(target, entry, scale)
        except UnreadableError as error:
            raise build_patch_error(target.resource_info, scale, error.error_message) from None
    else:
        replicas = _read_replicas(target, entry, decode_object("Scale", request))
    candidate = with_replicas(target.resource_info, entry.obj, replicas)
    return _build_response(
        target, change_object(context, target, entry, candidate, options, build_error=build_patch_error)
    )


def _read_replicas(target: RequestInfo, entry: Entry, scale: JsonObject) -> int:
    replicas, metadata = read_replicas(scale), scale.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise UnreadableError("Scale", "v1", "Scale", "json: metadata is an object")
    name = metadata.get("name")
    if not name:
        raise undeterminable(target.name)
    if name != target.name:
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({target.name})")
    if metadata.get("resourceVersion") not in (None, "", entry.obj["metadata"]["resourceVersion"]):
        raise stale(target.resource_info, target.name)
    return replicas


def _build_response(target: RequestInfo, entry: Entry) -> Response:
    return Response(status=200, body=msgspec.json.encode(build_scale(target.resource_info, entry.obj)))

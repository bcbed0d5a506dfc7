"""The scale subresource: reads and writes the number of replicas of a custom resource."""

import msgspec

from grove.api.types.meta import JsonObject
from grove.cluster.apiserver.codec.request_decoding import decode_object, read_write_options
from grove.cluster.apiserver.context import Context
from grove.cluster.apiserver.registry.field_validation import refused_patch
from grove.cluster.apiserver.request_info import RequestInfo
from grove.cluster.apiserver.status_errors import UnreadableError, bad_request, stale, undeterminable
from grove.cluster.apiserver.verbs.patch import patched
from grove.cluster.apiserver.verbs.read import find_entry
from grove.cluster.apiserver.verbs.scale_conversion import replicas_of, scale_of, with_replicas
from grove.cluster.apiserver.verbs.update import change_object
from grove.cluster.storage.store import Entry
from grove.kube.transport import Request, Response


def read_scale(context: Context, target: RequestInfo) -> Response:
    return _response(target, find_entry(context, target))


def write_scale(context: Context, target: RequestInfo, request: Request) -> Response:
    """Handle PUT and PATCH of the scale subresource."""
    options = read_write_options(request)
    entry = find_entry(context, target)
    current = scale_of(target.resource_info, entry.obj)
    if request.method == "PATCH":
        scale = patched(target.resource_info, request, current)
        try:
            replicas = _wanted(target, entry, scale)
        except UnreadableError as unreadable:
            raise refused_patch(target.resource_info, scale, unreadable.problem) from None
    else:
        replicas = _wanted(target, entry, decode_object("Scale", request))
    candidate = with_replicas(target.resource_info, entry.obj, replicas)
    return _response(target, change_object(context, target, entry, candidate, options, refusal=refused_patch))


def _wanted(target: RequestInfo, entry: Entry, scale: JsonObject) -> int:
    replicas, metadata = replicas_of(scale), scale.get("metadata") or {}
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


def _response(target: RequestInfo, entry: Entry) -> Response:
    return Response(status=200, body=msgspec.json.encode(scale_of(target.resource_info, entry.obj)))

"""The scale subresource: how many replicas, without knowing the kind."""

import msgspec

from grove.api.meta import JsonObject
from grove.cluster.server.bodies import decode_object, read_write_options
from grove.cluster.server.conformity import refused_patch
from grove.cluster.server.context import Context
from grove.cluster.server.patch import patched
from grove.cluster.server.read import find_entry
from grove.cluster.server.status_errors import UnreadableError, bad_request, stale, undeterminable
from grove.cluster.server.targets import Target
from grove.cluster.server.update import change_object
from grove.cluster.store import Entry
from grove.kube.transport import Request, Response


def read_scale(context: Context, target: Target) -> Response:
    return _response(target, find_entry(context, target))


def write_scale(context: Context, target: Target, request: Request) -> Response:
    """PUT or PATCH."""
    options = read_write_options(request)
    entry = find_entry(context, target)
    current = _scale_of(target, entry)
    if request.method == "PATCH":
        scale = patched(target.served, request, current)
        try:
            replicas = _wanted(target, entry, scale)
        except UnreadableError as unreadable:
            raise refused_patch(target.served, scale, unreadable.problem) from None
    else:
        replicas = _wanted(target, entry, decode_object("Scale", request))
    spec = {**(entry.obj.get("spec") or {}), "replicas": replicas}
    candidate = {**entry.obj, "spec": spec}
    return _response(target, change_object(context, target, entry, candidate, options, refusal=refused_patch))


def _wanted(target: Target, entry: Entry, scale: JsonObject) -> int:
    metadata = scale.get("metadata") or {}
    spec = scale.get("spec") or {}
    replicas = (spec.get("replicas") or 0) if isinstance(spec, dict) else None
    if not isinstance(replicas, int) or isinstance(replicas, bool) or not isinstance(metadata, dict):
        raise UnreadableError("Scale", "v1", "Scale", "json: spec.replicas is an integer")
    name = metadata.get("name")
    if not name:
        raise undeterminable(target.name)
    if name != target.name:
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({target.name})")
    if metadata.get("resourceVersion") not in (None, "", entry.obj["metadata"]["resourceVersion"]):
        raise stale(target.served, target.name)
    return replicas


def _scale_of(target: Target, entry: Entry) -> JsonObject:
    metadata = entry.obj["metadata"]
    shown = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status = entry.obj.get("status") or {}
    replicas = (entry.obj.get("spec") or {}).get("replicas", 0)
    scale: JsonObject = {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {field: metadata[field] for field in shown if field in metadata},
        # Left out when there are none; a status always says.
        "spec": {"replicas": replicas} if replicas else {},
        "status": {"replicas": status.get("replicas", 0)},
    }
    if selector := status.get(target.served.scale_selector or ""):
        scale["status"]["selector"] = selector
    return scale


def _response(target: Target, entry: Entry) -> Response:
    return Response(status=200, body=msgspec.json.encode(_scale_of(target, entry)))

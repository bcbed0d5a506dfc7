"""PATCH: a change described relative to the object as it is."""

from typing import Any

from grove.api.meta import JsonObject
from grove.cluster.patches import PatchConflictError, PatchInvalidError
from grove.cluster.patches.json_patch import apply_json_patch
from grove.cluster.patches.merge import apply_merge_patch
from grove.cluster.patches.strategic import apply_strategic_patch
from grove.cluster.resources import Served
from grove.cluster.server.bodies import decode_json, is_dry_run
from grove.cluster.server.context import Context
from grove.cluster.server.read import find_entry
from grove.cluster.server.status_errors import bad_request, rejected_patch, unsupported_media_type
from grove.cluster.server.targets import Target
from grove.cluster.server.update import change_object
from grove.kube import transport
from grove.kube.transport import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Request, Response


def patch(context: Context, target: Target, request: Request) -> Response:
    entry = find_entry(context, target)
    candidate = patched(target.served, request, entry.obj)
    changed = change_object(context, target, entry, candidate, is_dry=is_dry_run(request))
    return Response(status=200, body=changed.data)


def patched(served: Served, request: Request, obj: JsonObject) -> JsonObject:
    """The object that the patch in the body makes of `obj`; parts it does not touch are shared."""
    content_type = request.content_type.partition(";")[0]
    accepted = (JSON_PATCH, MERGE_PATCH) if served.is_custom else (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH)
    if content_type not in accepted:
        raise unsupported_media_type(accepted)
    try:
        result = _apply(content_type, obj, decode_json(request))
    except PatchInvalidError as problem:
        raise bad_request(str(problem)) from None
    except PatchConflictError as problem:
        raise rejected_patch(str(problem)) from None
    if not isinstance(result, dict) or not isinstance(result.get("metadata"), dict):
        raise bad_request("the patch leaves no object with metadata")
    return result


def _apply(content_type: str, obj: JsonObject, patch: Any) -> Any:
    match content_type:
        case transport.MERGE_PATCH:
            return apply_merge_patch(obj, patch)
        case transport.JSON_PATCH:
            return apply_json_patch(obj, patch)
        case _:
            return apply_strategic_patch(obj["kind"], obj, patch)

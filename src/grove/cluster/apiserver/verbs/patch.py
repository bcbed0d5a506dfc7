"""PATCH: JSON patch, merge patch and strategic merge patch. Server-side apply: `apply.py`."""

from typing import Any

import msgspec

from grove.api.types.meta import JsonObject, without_nulls
from grove.cluster.apiserver.codec.request_decoding import decode_patch, is_apply, read_write_options
from grove.cluster.apiserver.context import Context
from grove.cluster.apiserver.registry.field_validation import build_patch_error
from grove.cluster.apiserver.request_info import RequestInfo
from grove.cluster.apiserver.status_errors import (
    UnreadableError,
    bad_request,
    rejected_patch,
    too_large,
    undeterminable,
    unsupported_media_type,
    unsupported_patch_type,
)
from grove.cluster.apiserver.verbs.apply import apply
from grove.cluster.apiserver.verbs.read import find_entry
from grove.cluster.apiserver.verbs.update import change_object
from grove.cluster.built_in_resources import ResourceInfo
from grove.cluster.patches import PatchConflictError, PatchInvalidError, PatchTooLongError
from grove.cluster.patches.json_patch import apply_json_patch
from grove.cluster.patches.merge_patch import apply_merge_patch
from grove.cluster.patches.strategic_merge_patch import apply_strategic_patch
from grove.cluster.storage.store import Entry
from grove.kube import transport
from grove.kube.transport import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Request, Response

_ACCEPTED_CUSTOM = (JSON_PATCH, MERGE_PATCH)
_ACCEPTED = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH)


def patch(context: Context, target: RequestInfo, request: Request) -> Response:
    if is_apply(request):
        return apply(context, target, request)
    options = read_write_options(request)
    check_patch_type(target.resource_info, request)
    entry = find_entry(context, target)
    candidate = apply_patch(target.resource_info, request, _object_to_patch(request, entry))
    if not target.resource_info.is_custom and _may_leave_nulls(request):
        candidate = without_nulls(candidate)
    if not candidate["metadata"].get("name"):
        raise undeterminable(target.name)
    try:
        changed = change_object(context, target, entry, candidate, options, build_error=build_patch_error)
    except UnreadableError as error:
        # The object was valid before, so this is an error of the patch.
        raise build_patch_error(target.resource_info, candidate, error.error_message) from None
    return Response(status=200, body=context.encode_entry(changed))


def _object_to_patch(request: Request, entry: Entry) -> JsonObject:
    """Return the object to patch, with managedFields if the patch contains them."""
    obj = entry.obj
    if b"managedFields" not in request.body or not (encoded := entry.ownership.encoded):
        return obj
    return {**obj, "metadata": {**obj["metadata"], "managedFields": msgspec.json.decode(encoded)}}


def _may_leave_nulls(request: Request) -> bool:
    """Return whether the patch may leave nulls in the object, which built-in kinds treat as absent.

    Merge patches remove nulls except inside lists; in a JSON patch, an operation without a value means null.
    """
    body = request.body
    if _patch_type(request) == JSON_PATCH:
        return b"null" in body or body.count(b'"value"') < body.count(b'"op"')
    return b"null" in body and b"[" in body


def check_patch_type(resource_info: ResourceInfo, request: Request) -> None:
    """Raise 415 unless the kind supports the patch type."""
    accepted = _ACCEPTED_CUSTOM if resource_info.is_custom else _ACCEPTED
    if _patch_type(request) not in accepted:
        if not resource_info.is_custom:
            raise unsupported_patch_type()
        # The scale subresource does not support apply, so the error does not list it.
        raise unsupported_media_type(accepted if is_apply(request) else (*accepted, transport.APPLY_PATCH))


def _patch_type(request: Request) -> str:
    return request.content_type.partition(";")[0]


def apply_patch(resource_info: ResourceInfo, request: Request, obj: JsonObject) -> JsonObject:
    """Return `obj` with the patch applied. Unchanged parts are shared."""
    check_patch_type(resource_info, request)
    try:
        result = _apply_by_type(_patch_type(request), obj, decode_patch(request))
    except PatchInvalidError as error:
        raise bad_request(str(error)) from None
    except PatchTooLongError as error:
        raise too_large(str(error)) from None
    except PatchConflictError:
        raise rejected_patch() from None
    if not isinstance(result, dict) or not isinstance(result.get("metadata"), dict):
        raise undeterminable(obj["metadata"]["name"])
    return result


def _apply_by_type(content_type: str, obj: JsonObject, patch: Any) -> Any:
    match content_type:
        case transport.MERGE_PATCH:
            return apply_merge_patch(obj, patch)
        case transport.JSON_PATCH:
            return apply_json_patch(obj, patch)
        case _:
            return apply_strategic_patch(obj["kind"], obj, patch)

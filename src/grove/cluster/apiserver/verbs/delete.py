"""DELETE of one object or a collection: grace periods, finalizers, preconditions and propagation policies.

This module marks or removes the object itself. The garbage collector deletes dependents (`garbage_collector.py`).
"""

from datetime import timedelta

import msgspec

from grove.api.types.meta import JsonObject
from grove.api.validation.field_errors import invalid
from grove.cluster.apiserver.admission.webhook_hooks import admit_delete
from grove.cluster.apiserver.codec.request_decoding import UNSAFE, DeleteOptions, read_delete_options
from grove.cluster.apiserver.context import Context
from grove.cluster.apiserver.registry.crd_strategy import mark_crd_terminating
from grove.cluster.apiserver.registry.metadata import format_time
from grove.cluster.apiserver.request_info import RequestInfo
from grove.cluster.apiserver.status_errors import (
    StatusError,
    conflict,
    conflict_of_kind,
    details_of,
    forbidden,
    invalid_options,
    method_not_allowed,
    still_readable,
)
from grove.cluster.apiserver.verbs.read import find_entry, list_body, select_page
from grove.cluster.built_in_resources import DEFINITIONS, NAMESPACES, PODS, ResourceInfo
from grove.cluster.storage.store import Entry, draft
from grove.kube.transport import Request, Response

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"
# Thirty years: a longer time could overflow the date.
_MAX_GRACE = 10**9
# Kinds that are emptied before they are removed, with the start of their precondition message.
_EMPTIED_FIRST = {NAMESPACES.qualified: "Precondition", DEFINITIONS.qualified: "precondition"}
_UNDELETABLE_NAMESPACES = ("default", "kube-system", "kube-public")


class _DeleteResult(msgspec.Struct, frozen=True):
    entry: Entry
    is_gone: bool


def delete(context: Context, target: RequestInfo, request: Request) -> Response:
    options = read_delete_options(request)
    entry = find_entry(context, target)
    if options.is_unsafe:
        raise still_readable(target.resource_info, entry.obj["metadata"])
    check_preconditions(target.resource_info, entry, options)
    admit_delete(context, target, entry.obj, is_dry=bool(options.dry_run))
    result = delete_entry(context, target.resource_info, entry, options)
    if result.is_gone and not target.resource_info.returns_deleted:
        return _deleted_response(target.resource_info, entry)
    is_cascading = options.orphan_dependents is False
    return Response(status=202 if is_cascading and not result.is_gone else 200, body=context.encode_entry(result.entry))


def delete_collection(context: Context, target: RequestInfo, request: Request) -> Response:
    """Delete the objects one by one, by name. The response lists them as they were before, in pages on request."""
    resource_info = target.resource_info
    if (resource_info.namespaced and not target.namespace) or resource_info is NAMESPACES:
        raise method_not_allowed()
    options = read_delete_options(request)
    if options.is_unsafe:
        error_message = "is not allowed with DELETECOLLECTION, try again after removing the option"
        raise invalid_options("DeleteOptions", invalid(UNSAFE, True, error_message))
    page = select_page(context, target, request)
    table = context.store.table(resource_info)
    # A page may show an older revision, so some objects may already be deleted.
    places = [(entry.namespace, entry.name) for entry in page.entries]
    for entry in [found for place in places if (found := table.find(*place)) is not None]:
        # Admit all before the first delete: webhooks must be called while nothing is written yet.
        admit_delete(context, target, entry.obj, is_dry=bool(options.dry_run))
    for place in places:
        if (present := table.find(*place)) is not None:
            check_preconditions(resource_info, present, options)
            delete_entry(context, resource_info, present, options)
    return Response(status=200, body=list_body(context, target, page))


def delete_entry(context: Context, resource_info: ResourceInfo, entry: Entry, options: DeleteOptions) -> _DeleteResult:
    """Mark the object as terminating or remove it. The caller has checked the preconditions."""
    if resource_info is NAMESPACES:
        return _terminate_namespace(context, entry, options)
    if resource_info is DEFINITIONS:
        return _terminate_crd(context, entry, options)
    grace = _compute_grace_period(resource_info, entry.obj, options)
    if 0 < entry.obj["metadata"].get("deletionGracePeriodSeconds", 0) <= grace:
        # A second delete can only shorten the grace period.
        return _DeleteResult(entry, False)
    metadata = _with_finalizers(entry.obj["metadata"], options)
    terminating_metadata = _mark_terminating(context, metadata, grace)
    is_gone = not terminating_metadata.get("finalizers") and not terminating_metadata["deletionGracePeriodSeconds"]
    # Only pods are marked before an immediate removal.
    marked = entry.obj
    if terminating_metadata != entry.obj["metadata"] and (resource_info is PODS or not is_gone):
        marked = {**entry.obj, "metadata": terminating_metadata}
    if options.dry_run:
        return _DeleteResult(draft(entry.namespace, entry.name, marked, entry.revision, entry.ownership), is_gone)
    if marked is not entry.obj:
        entry = context.store.put(resource_info, entry.namespace, entry.name, marked)
    return _DeleteResult(
        context.store.remove(resource_info, entry.namespace, entry.name) if is_gone else entry, is_gone
    )


def check_preconditions(resource_info: ResourceInfo, entry: Entry, options: DeleteOptions) -> None:
    """Raise 409 unless the preconditions hold."""
    wanted, metadata = options.preconditions, entry.obj["metadata"]
    if wanted is None:
        return
    if wanted.uid is not None and wanted.uid != metadata["uid"]:
        raise _precondition_error(
            resource_info,
            entry,
            "UID",
            wanted.uid,
            metadata["uid"],
            "The object might have been deleted and then recreated",
        )
    version = metadata["resourceVersion"]
    if wanted.resource_version is not None and wanted.resource_version != version:
        raise _precondition_error(
            resource_info,
            entry,
            "ResourceVersion",
            wanted.resource_version,
            version,
            "The object might have been modified",
        )


def _precondition_error(
    resource_info: ResourceInfo, entry: Entry, what: str, wanted: str, found: str, guess: str
) -> StatusError:
    if (beginning := _EMPTIED_FIRST.get(resource_info.qualified)) is not None:
        why = f"{beginning} failed: {what} in precondition: {wanted}, {what} in object meta: {found}"
        return conflict(resource_info, entry.name, why)
    return conflict_of_kind(
        resource_info,
        entry.name,
        f"the {what} in the precondition ({wanted}) does not match the {what} in record ({found}). {guess}",
    )


def _with_finalizers(metadata: JsonObject, options: DeleteOptions) -> JsonObject:
    """Return metadata with the finalizers of the propagation policy. Without a policy they stay."""
    match (options.propagation_policy, options.orphan_dependents):
        case (None, None):
            return metadata
        case ("Orphan", _) | (None, True):
            wanted = [ORPHAN]
        case ("Foreground", _):
            wanted = [FOREGROUND]
        case _:
            wanted = []
    before = metadata.get("finalizers", [])
    finalizers = [kept for kept in before if kept not in (ORPHAN, FOREGROUND)] + wanted
    if finalizers == before:
        return metadata
    changed = {key: value for key, value in metadata.items() if key != "finalizers"}
    return {**changed, "finalizers": finalizers} if finalizers else changed


def _compute_grace_period(resource_info: ResourceInfo, obj: JsonObject, options: DeleteOptions) -> int:
    """Return the grace period in seconds: 0 except for pods that may be running on a node."""
    if resource_info is not PODS:
        return 0
    spec = obj["spec"]
    if not spec.get("nodeName") or (obj.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    if options.grace_period_seconds is not None:
        wanted = options.grace_period_seconds
    elif "deletionTimestamp" in obj["metadata"]:
        wanted = obj["metadata"].get("deletionGracePeriodSeconds", 0)
    else:
        wanted = spec.get("terminationGracePeriodSeconds", 30)
    return 1 if wanted < 0 else min(int(wanted), _MAX_GRACE)


def _mark_terminating(context: Context, metadata: JsonObject, grace: int) -> JsonObject:
    """Return metadata with a deletionTimestamp. For a terminating object the grace period can only get shorter."""
    if "deletionTimestamp" not in metadata:
        marked = {
            **metadata,
            "deletionTimestamp": format_time(context.clock.now() + timedelta(seconds=grace)),
            "deletionGracePeriodSeconds": grace,
        }
        if "generation" in metadata:
            marked["generation"] = metadata["generation"] + 1
        return marked
    if grace >= metadata.get("deletionGracePeriodSeconds", 0):
        return metadata
    return {
        **metadata,
        "deletionTimestamp": format_time(context.clock.now() + timedelta(seconds=grace)),
        "deletionGracePeriodSeconds": grace,
    }


def _terminate_namespace(context: Context, entry: Entry, options: DeleteOptions) -> _DeleteResult:
    """Mark the namespace as terminating. `cluster/controllers/namespace_controller.py` empties and removes it."""
    if entry.name in _UNDELETABLE_NAMESPACES:
        raise forbidden(NAMESPACES, entry.name, "this namespace may not be deleted")
    metadata = _with_finalizers(entry.obj["metadata"], options)
    if "deletionTimestamp" not in metadata:
        metadata = {**metadata, "deletionTimestamp": context.now()}
    terminating = {**entry.obj, "metadata": metadata, "status": {**entry.obj.get("status", {}), "phase": "Terminating"}}
    if options.dry_run or terminating == entry.obj:
        return _DeleteResult(draft(entry.namespace, entry.name, terminating, entry.revision, entry.ownership), False)
    return _DeleteResult(context.store.put(NAMESPACES, "", entry.name, terminating), False)


def _terminate_crd(context: Context, entry: Entry, options: DeleteOptions) -> _DeleteResult:
    """Mark the CRD as terminating. `cluster/controllers/crd_finalizer.py` deletes its objects first."""
    obj = mark_crd_terminating(entry.obj, context.now())
    metadata = _with_finalizers(obj["metadata"], options)
    terminating = {**obj, "metadata": {"deletionTimestamp": context.now(), **metadata}}
    if options.dry_run or terminating == entry.obj:
        return _DeleteResult(draft(entry.namespace, entry.name, terminating, entry.revision, entry.ownership), False)
    return _DeleteResult(context.store.put(DEFINITIONS, "", entry.name, terminating), False)


def _deleted_response(resource_info: ResourceInfo, entry: Entry) -> Response:
    details = {**details_of(resource_info, entry.name), "uid": entry.obj["metadata"]["uid"]}
    body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
    return Response(status=200, body=msgspec.json.encode(body))

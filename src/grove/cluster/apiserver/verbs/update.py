"""PUT, and `change_object`, which every update of an existing object uses."""

from grove.api.types.meta import JsonObject
from grove.api.validation.field_errors import FieldError
from grove.cluster.apiserver.admission.webhook_hooks import mutate, validate
from grove.cluster.apiserver.auth.rbac_escalation import check_escalation
from grove.cluster.apiserver.codec.request_decoding import WriteOptions, as_kind, read_object, read_write_options
from grove.cluster.apiserver.context import Context
from grove.cluster.apiserver.registry.field_validation import (
    ErrorBuilder,
    build_body_error,
    prune_and_default,
    validate_schema,
)
from grove.cluster.apiserver.registry.metadata import (
    MetaShape,
    check_parts,
    read_shape,
    update_metadata,
    validate_metadata,
)
from grove.cluster.apiserver.registry.strategies import check_status, prepare_for_update, validate_update
from grove.cluster.apiserver.request_info import RequestInfo
from grove.cluster.apiserver.status_errors import (
    bad_request,
    immutable,
    invalid,
    other_namespace,
    other_uid,
    stale,
    undeterminable,
    without_version,
)
from grove.cluster.apiserver.verbs.field_manager import ownership_after, ownership_as_sent
from grove.cluster.apiserver.verbs.read import find_entry
from grove.cluster.built_in_resources import ResourceInfo
from grove.cluster.storage.managed_fields import Ownership
from grove.cluster.storage.store import Entry, draft
from grove.kube.transport import Request, Response


def replace(context: Context, target: RequestInfo, request: Request) -> Response:
    options = read_write_options(request)
    candidate = read_object(target.resource_info, request)
    shape = read_shape(target.resource_info, candidate)
    if not shape.name:
        raise undeterminable(target.name)
    _check_names(target, shape)
    entry = find_entry(context, target)
    if shape.resource_version in (None, "", "0") and not target.resource_info.allows_blind_update:
        raise without_version(target.resource_info, target.name)
    if shape.uid and shape.uid != entry.obj["metadata"]["uid"]:
        raise other_uid(target.resource_info, entry.obj["metadata"], shape.uid)
    changed = change_object(context, target, entry, candidate, options, build_error=build_body_error)
    return Response(status=200, body=context.encode_entry(changed))


def change_object(
    context: Context,
    target: RequestInfo,
    entry: Entry,
    candidate: JsonObject,
    options: WriteOptions,
    *,
    build_error: ErrorBuilder,
    ownership: Ownership | None = None,
) -> Entry:
    """Update the object, or only its status for that subresource, and return the new version.

    `build_error` builds the error for unknown fields if the client requested strict validation. `ownership` is set if
    the caller has computed it (server-side apply). An unchanged object is not stored. A terminating object that lost
    its last finalizer is removed.
    """
    resource_info, old = target.resource_info, entry.obj
    candidate = as_kind(resource_info, candidate)
    check_parts(resource_info, candidate)
    sent = None if candidate["metadata"] is old["metadata"] else candidate["metadata"].get("managedFields")
    if candidate["metadata"] is not old["metadata"]:
        _check_identity(target, old, candidate)
    candidate = prune_and_default(context, resource_info, candidate, old, options=options, build_error=build_error)
    if target.subresource == "status":
        wanted = _with_new_status(resource_info, old, candidate)
        new = mutate(context, target, wanted, old)
        check_status(resource_info, new)
        if errors := validate_schema(context, resource_info, new, old):
            raise invalid(resource_info, target.name, errors)
        validate(context, target, new, old)
    else:
        wanted, errors = _prepare(resource_info, old, _with_old_status(resource_info, old, candidate))
        new = _admit(context, target, old, wanted, errors)
    if new == old:
        ownership = ownership or ownership_as_sent(target, entry, sent)
        if ownership is entry.ownership or ownership.managers == entry.ownership.managers:
            return entry
    elif ownership is None:
        ownership = ownership_after(context, target, entry, wanted, options, sent)
    new = _with_generation(resource_info, old, new)
    if options.is_dry:
        return draft(entry.namespace, entry.name, new, entry.revision, ownership)
    if is_released(new):
        return _remove_released(context, resource_info, entry, new)
    return context.store.put(resource_info, entry.namespace, entry.name, new, ownership)


def _remove_released(context: Context, resource_info: ResourceInfo, entry: Entry, new: JsonObject) -> Entry:
    """Remove the object. `new` is not stored: watches see the version before it, and only the client sees `new`."""
    revision = context.store.remove(resource_info, entry.namespace, entry.name).revision
    metadata = {**new["metadata"], "resourceVersion": str(revision)}
    return draft(entry.namespace, entry.name, {**new, "metadata": metadata}, revision, entry.ownership)


def _check_identity(target: RequestInfo, old: JsonObject, candidate: JsonObject) -> None:
    shape = read_shape(target.resource_info, candidate)
    resource_info, metadata = target.resource_info, old["metadata"]
    _check_names(target, shape)
    if shape.resource_version not in (None, "", "0", metadata["resourceVersion"]):
        raise stale(resource_info, target.name)
    if shape.uid and shape.uid != metadata["uid"]:
        raise invalid(resource_info, target.name, [immutable("metadata.uid", shape.uid)])


def _check_names(target: RequestInfo, shape: MetaShape) -> None:
    if (shape.name or target.name) != target.name:
        raise bad_request(f"the name of the object ({shape.name}) does not match the name on the URL ({target.name})")
    if (shape.namespace or target.namespace) != target.namespace:
        raise other_namespace()


def _with_new_status(resource_info: ResourceInfo, old: JsonObject, candidate: JsonObject) -> JsonObject:
    """Return the old object with the candidate's status, and for built-in kinds also its labels and annotations."""
    new = {**old, "status": candidate.get("status", {})}
    if resource_info.is_custom and "status" not in candidate:
        del new["status"]
    if candidate["metadata"] is not old["metadata"] and not resource_info.is_custom:
        metadata, errors = update_metadata(old["metadata"], candidate["metadata"])
        if errors := errors + validate_metadata(resource_info, metadata):
            raise invalid(resource_info, metadata["name"], errors)
        owners = {key: old["metadata"][key] for key in ("ownerReferences",) if key in old["metadata"]}
        new["metadata"] = {**{key: metadata[key] for key in metadata if key != "ownerReferences"}, **owners}
    return new


def _with_old_status(resource_info: ResourceInfo, old: JsonObject, candidate: JsonObject) -> JsonObject:
    new = dict(candidate)
    if resource_info.has_status:
        new.pop("status", None)
        if "status" in old:
            new["status"] = old["status"]
    return new


def _prepare(resource_info: ResourceInfo, old: JsonObject, new: JsonObject) -> tuple[JsonObject, list[FieldError]]:
    """Return the new object before admission, and the errors of its metadata."""
    errors: list[FieldError] = []
    if new["metadata"] is not old["metadata"]:
        metadata, errors = update_metadata(old["metadata"], new["metadata"])
        new["metadata"] = old["metadata"] if metadata == old["metadata"] else metadata
    return prepare_for_update(resource_info, old, new), errors


def _admit(
    context: Context, target: RequestInfo, old: JsonObject, new: JsonObject, errors: list[FieldError]
) -> JsonObject:
    """Return the new object after admission and validation. Raises 422."""
    resource_info = target.resource_info
    changed = mutate(context, target, new, old)
    if changed is not new:
        new, more = _prepare(resource_info, old, changed)
        errors = errors + more
    new = context.admit(target, target.name, new, old)
    if new["metadata"] is not old["metadata"]:
        errors += validate_metadata(resource_info, new["metadata"])
    if errors := errors + validate_update(resource_info, old, new) + validate_schema(context, resource_info, new, old):
        raise invalid(resource_info, target.name, errors)
    check_escalation(context, target, new)
    validate(context, target, new, old)
    return new


def _with_generation(resource_info: ResourceInfo, old: JsonObject, new: JsonObject) -> JsonObject:
    """Increment the generation if the desired state changed, that is anything but metadata and status."""
    if not resource_info.has_generation or _desired_state(resource_info, old) == _desired_state(resource_info, new):
        return new
    metadata = {**new["metadata"], "generation": old["metadata"].get("generation", 0) + 1}
    return {**new, "metadata": metadata}


def _desired_state(resource_info: ResourceInfo, obj: JsonObject) -> JsonObject:
    """Return the desired state. Without a status subresource, the status of a custom kind belongs to it."""
    others = ("metadata", "status") if resource_info.has_status or not resource_info.is_custom else ("metadata",)
    return {key: value for key, value in obj.items() if key not in others}


def is_released(obj: JsonObject) -> bool:
    """Return whether a terminating object has no finalizers and no grace period left."""
    metadata = obj["metadata"]
    return (
        "deletionTimestamp" in metadata
        and not metadata.get("finalizers")
        and not metadata.get("deletionGracePeriodSeconds")
        and not (obj["kind"] == "Namespace" and obj["spec"].get("finalizers"))
    )

"""PUT, and what every other change of an existing object goes through: `change_object`."""

from grove.api.types.meta import JsonObject
from grove.api.validation.field_errors import FieldError
from grove.cluster.apiserver.admission.webhook_hooks import mutated, validate
from grove.cluster.apiserver.auth.rbac_escalation import confirm_grant
from grove.cluster.apiserver.codec.request_decoding import WriteOptions, as_kind, read_object, read_write_options
from grove.cluster.apiserver.context import Context
from grove.cluster.apiserver.registry.field_validation import (
    Refusal,
    refused_body,
    schema_errors,
    without_unknown_fields,
)
from grove.cluster.apiserver.registry.metadata import (
    MetaShape,
    check_parts,
    metadata_errors,
    read_shape,
    updated_metadata,
)
from grove.cluster.apiserver.registry.strategies import check_status, prepared_for_update, update_errors
from grove.cluster.apiserver.request_info import Target
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
from grove.cluster.built_in_resources import Served
from grove.cluster.storage.managed_fields import Ownership
from grove.cluster.storage.store import Entry, draft
from grove.kube.transport import Request, Response


def replace(context: Context, target: Target, request: Request) -> Response:
    options = read_write_options(request)
    candidate = read_object(target.served, request)
    shape = read_shape(target.served, candidate)
    if not shape.name:
        raise undeterminable(target.name)
    _check_place(target, shape)
    entry = find_entry(context, target)
    if shape.resource_version in (None, "", "0") and not target.served.allows_blind_update:
        raise without_version(target.served, target.name)
    if shape.uid and shape.uid != entry.obj["metadata"]["uid"]:
        raise other_uid(target.served, entry.obj["metadata"], shape.uid)
    changed = change_object(context, target, entry, candidate, options, refusal=refused_body)
    return Response(status=200, body=context.shown(changed))


def change_object(
    context: Context,
    target: Target,
    entry: Entry,
    candidate: JsonObject,
    options: WriteOptions,
    *,
    refusal: Refusal,
    ownership: Ownership | None = None,
) -> Entry:
    """Store what `candidate` asks for, as far as its subresource may: the main object or its status.

    `refusal` is how this verb says that it met unknown fields, to a client that is strict about them. `ownership` is
    given by whoever has worked it out already. Nothing is stored when nothing changed. An object that only waited for
    its last finalizer goes.
    """
    served, old = target.served, entry.obj
    candidate = as_kind(served, candidate)
    check_parts(served, candidate)
    sent = None if candidate["metadata"] is old["metadata"] else candidate["metadata"].get("managedFields")
    if candidate["metadata"] is not old["metadata"]:
        _check_identity(target, old, candidate)
    candidate = without_unknown_fields(context, served, candidate, old, options=options, refusal=refusal)
    if target.subresource == "status":
        wanted = _status_only(served, old, candidate)
        new = mutated(context, target, wanted, old)
        check_status(served, new)
        if errors := schema_errors(context, served, new, old):
            raise invalid(served, target.name, errors)
        validate(context, target, new, old)
    else:
        wanted, errors = _prepared(served, old, _all_but_status(served, old, candidate))
        new = _admitted(context, target, old, wanted, errors)
    if new == old:
        ownership = ownership or ownership_as_sent(target, entry, sent)
        if ownership is entry.ownership or ownership.managers == entry.ownership.managers:
            return entry
    elif ownership is None:
        ownership = ownership_after(context, target, entry, wanted, options, sent)
    new = _with_generation(served, old, new)
    if options.is_dry:
        return draft(entry.namespace, entry.name, new, entry.revision, ownership)
    if is_released(new):
        return _let_go(context, served, entry, new)
    return context.store.put(served, entry.namespace, entry.name, new, ownership)


def _let_go(context: Context, served: Served, entry: Entry, new: JsonObject) -> Entry:
    """Nothing is stored of an object that goes: its last version was the one before, and only the writer sees `new`."""
    revision = context.store.remove(served, entry.namespace, entry.name).revision
    metadata = {**new["metadata"], "resourceVersion": str(revision)}
    return draft(entry.namespace, entry.name, {**new, "metadata": metadata}, revision, entry.ownership)


def _check_identity(target: Target, old: JsonObject, candidate: JsonObject) -> None:
    shape = read_shape(target.served, candidate)
    served, metadata = target.served, old["metadata"]
    _check_place(target, shape)
    if shape.resource_version not in (None, "", "0", metadata["resourceVersion"]):
        raise stale(served, target.name)
    if shape.uid and shape.uid != metadata["uid"]:
        raise invalid(served, target.name, [immutable("metadata.uid", shape.uid)])


def _check_place(target: Target, shape: MetaShape) -> None:
    if (shape.name or target.name) != target.name:
        raise bad_request(f"the name of the object ({shape.name}) does not match the name on the URL ({target.name})")
    if (shape.namespace or target.namespace) != target.namespace:
        raise other_namespace()


def _status_only(served: Served, old: JsonObject, candidate: JsonObject) -> JsonObject:
    """The old object with the candidate's status; of built-in kinds, labels and annotations may come along."""
    new = {**old, "status": candidate.get("status", {})}
    if served.is_custom and "status" not in candidate:
        del new["status"]
    if candidate["metadata"] is not old["metadata"] and not served.is_custom:
        metadata, errors = updated_metadata(old["metadata"], candidate["metadata"])
        if errors := errors + metadata_errors(served, metadata):
            raise invalid(served, metadata["name"], errors)
        owners = {key: old["metadata"][key] for key in ("ownerReferences",) if key in old["metadata"]}
        new["metadata"] = {**{key: metadata[key] for key in metadata if key != "ownerReferences"}, **owners}
    return new


def _all_but_status(served: Served, old: JsonObject, candidate: JsonObject) -> JsonObject:
    new = dict(candidate)
    if served.has_status:
        new.pop("status", None)
        if "status" in old:
            new["status"] = old["status"]
    return new


def _prepared(served: Served, old: JsonObject, new: JsonObject) -> tuple[JsonObject, list[FieldError]]:
    """The new main object as its author wants it, and what is wrong with its metadata."""
    errors: list[FieldError] = []
    if new["metadata"] is not old["metadata"]:
        metadata, errors = updated_metadata(old["metadata"], new["metadata"])
        new["metadata"] = old["metadata"] if metadata == old["metadata"] else metadata
    return prepared_for_update(served, old, new), errors


def _admitted(
    context: Context, target: Target, old: JsonObject, new: JsonObject, errors: list[FieldError]
) -> JsonObject:
    """The new main object, admitted and valid; raises 422 otherwise."""
    served = target.served
    changed = mutated(context, target, new, old)
    if changed is not new:
        new, more = _prepared(served, old, changed)
        errors = errors + more
    new = context.admit(target, target.name, new, old)
    if new["metadata"] is not old["metadata"]:
        errors += metadata_errors(served, new["metadata"])
    if errors := errors + update_errors(served, old, new) + schema_errors(context, served, new, old):
        raise invalid(served, target.name, errors)
    confirm_grant(context, target, new)
    validate(context, target, new, old)
    return new


def _with_generation(served: Served, old: JsonObject, new: JsonObject) -> JsonObject:
    """A new wish of the user is a new generation; metadata and status are not wishes."""
    if not served.has_generation or _wishes(served, old) == _wishes(served, new):
        return new
    metadata = {**new["metadata"], "generation": old["metadata"].get("generation", 0) + 1}
    return {**new, "metadata": metadata}


def _wishes(served: Served, obj: JsonObject) -> JsonObject:
    """A status that is not apart is a wish like everything else."""
    others = ("metadata", "status") if served.has_status or not served.is_custom else ("metadata",)
    return {key: value for key, value in obj.items() if key not in others}


def is_released(obj: JsonObject) -> bool:
    """Leaving, and nobody holds it back any more."""
    metadata = obj["metadata"]
    return (
        "deletionTimestamp" in metadata
        and not metadata.get("finalizers")
        and not metadata.get("deletionGracePeriodSeconds")
        and not (obj["kind"] == "Namespace" and obj["spec"].get("finalizers"))
    )

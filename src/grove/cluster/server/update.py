"""PUT, and what every other change of an existing object goes through: `change_object`."""

from grove.api.fielderrors import FieldError
from grove.api.meta import JsonObject
from grove.cluster.resources import Served
from grove.cluster.server.bodies import WriteOptions, as_kind, read_object, read_write_options
from grove.cluster.server.conformity import Refusal, refused_body, schema_errors, without_unknown_fields
from grove.cluster.server.context import Context
from grove.cluster.server.kinds import prepared_for_update, update_errors
from grove.cluster.server.metadata import MetaShape, check_parts, metadata_errors, read_shape, updated_metadata
from grove.cluster.server.read import find_entry
from grove.cluster.server.status_errors import (
    bad_request,
    immutable,
    invalid,
    other_namespace,
    other_uid,
    stale,
    undeterminable,
    without_version,
)
from grove.cluster.server.targets import Target
from grove.cluster.store import Entry, draft
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
    return Response(status=200, body=changed.data)


def change_object(
    context: Context, target: Target, entry: Entry, candidate: JsonObject, options: WriteOptions, *, refusal: Refusal
) -> Entry:
    """Store what `candidate` asks for, as far as its subresource may: the main object or its status.

    `refusal` is how this verb says that it met unknown fields, to a client that is strict about them.
    Nothing is stored when nothing changed. An object that only waited for its last finalizer goes.
    """
    served, old = target.served, entry.obj
    candidate = as_kind(served, candidate)
    check_parts(served, candidate)
    if candidate["metadata"] is not old["metadata"]:
        _check_identity(target, old, candidate)
    candidate = without_unknown_fields(context, served, candidate, old, options=options, refusal=refusal)
    if target.subresource == "status":
        new = _status_only(served, old, candidate)
        if errors := schema_errors(served, new, old):
            raise invalid(served, target.name, errors)
    else:
        new = _admitted(context, target, old, _all_but_status(served, old, candidate))
    if new == old:
        return entry
    new = _with_generation(served, old, new)
    if options.is_dry:
        return draft(entry.namespace, entry.name, new, entry.revision)
    if is_released(new):
        return _let_go(context, served, entry, new)
    return context.store.put(served, entry.namespace, entry.name, new)


def _let_go(context: Context, served: Served, entry: Entry, new: JsonObject) -> Entry:
    """Nothing is stored of an object that goes: its last version was the one before, and only the writer sees `new`."""
    revision = context.store.remove(served, entry.namespace, entry.name).revision
    metadata = {**new["metadata"], "resourceVersion": str(revision)}
    return draft(entry.namespace, entry.name, {**new, "metadata": metadata}, revision)


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


def _admitted(context: Context, target: Target, old: JsonObject, new: JsonObject) -> JsonObject:
    """The new main object, prepared, admitted and valid; raises 422 otherwise."""
    served = target.served
    errors: list[FieldError] = []
    if new["metadata"] is not old["metadata"]:
        metadata, errors = updated_metadata(old["metadata"], new["metadata"])
        new["metadata"] = old["metadata"] if metadata == old["metadata"] else metadata
    new = context.admit(target, target.name, prepared_for_update(served, old, new), old)
    if new["metadata"] is not old["metadata"]:
        errors += metadata_errors(served, new["metadata"])
    if errors := errors + update_errors(served, old, new) + schema_errors(served, new, old):
        raise invalid(served, target.name, errors)
    return new


def _with_generation(served: Served, old: JsonObject, new: JsonObject) -> JsonObject:
    """A new wish of the user is a new generation; metadata and status are not wishes."""
    if not served.has_generation or _wishes(old) == _wishes(new):
        return new
    metadata = {**new["metadata"], "generation": old["metadata"].get("generation", 0) + 1}
    return {**new, "metadata": metadata}


def _wishes(obj: JsonObject) -> JsonObject:
    return {key: value for key, value in obj.items() if key not in ("metadata", "status")}


def is_released(obj: JsonObject) -> bool:
    """Leaving, and nobody holds it back any more."""
    metadata = obj["metadata"]
    return (
        "deletionTimestamp" in metadata
        and not metadata.get("finalizers")
        and not metadata.get("deletionGracePeriodSeconds")
        and not (obj["kind"] == "Namespace" and obj["spec"].get("finalizers"))
    )

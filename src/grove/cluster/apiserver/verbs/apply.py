"""Server-side apply: PATCH with the fields that a manager wants. It creates the object if it does not exist.

The merge rules are in `field_managers.py`. This module adds requests, stored objects, and the migration from
kubectl's client-side apply.
"""

from typing import Any

import msgspec

from grove.api.types.meta import JsonObject
from grove.api.validation.field_errors import required
from grove.cluster.apiserver.codec.request_decoding import FieldValidation, WriteOptions, is_forced, read_write_options
from grove.cluster.apiserver.codec.yaml_decoding import YamlError, read_document
from grove.cluster.apiserver.context import Context
from grove.cluster.apiserver.registry.field_validation import build_patch_error
from grove.cluster.apiserver.request_info import RequestInfo
from grove.cluster.apiserver.status_errors import (
    StatusError,
    UnreadableError,
    bad_request,
    conflict,
    invalid_options,
    undeterminable,
)
from grove.cluster.apiserver.verbs.create import create_object
from grove.cluster.apiserver.verbs.read import find_entry
from grove.cluster.apiserver.verbs.update import change_object
from grove.cluster.patches.field_managers import (
    APPLY,
    FIRST_APPLY,
    UPDATE,
    ApplyConflictError,
    ManagedWrite,
    Manager,
    Managers,
    ServerSideApplyResult,
    after_apply,
    after_update,
)
from grove.cluster.patches.field_sets import difference, intersection, set_of, union
from grove.cluster.patches.merge_types import Type
from grove.cluster.patches.server_side_apply import without_empties
from grove.cluster.patches.typed_compare import compare, field_set, find_type_error
from grove.cluster.storage.managed_fields import Ownership, blank_object, ignored_fields, merge_type
from grove.cluster.storage.store import Entry
from grove.kube.transport import Request, Response

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
# The field manager of kubectl. The annotation has what it applied on the client side before.
_KUBECTL = "kubectl"


def apply(context: Context, target: RequestInfo, request: Request) -> Response:
    options = read_write_options(request)
    if not options.manager:
        raise invalid_options("PatchOptions", required("fieldManager", "is required for apply patch"))
    config = read_config(context, request, options)
    entry = context.store.table(target.resource_info).find(target.namespace, target.name)
    if entry is None and target.subresource:
        entry = find_entry(context, target)
    applied = _merge_config(context, target, entry, config, options, is_forced(request))
    try:
        stored = _store(context, target, entry, applied, options)
    except UnreadableError as error:
        raise build_patch_error(target.resource_info, applied.obj, error.error_message) from None
    return Response(status=201 if entry is None else 200, body=context.encode_entry(stored))


def _merge_config(
    context: Context,
    target: RequestInfo,
    entry: Entry | None,
    config: JsonObject,
    options: WriteOptions,
    is_forced: bool,
) -> ServerSideApplyResult:
    """Merge the configuration into the object. Raises 400 for an invalid configuration, 409 with all conflicts."""
    resource_info = target.resource_info
    type_ = merge_type(resource_info)
    _check_config(target, type_, config)
    write = ManagedWrite(
        manager=Manager(APPLY, options.manager, target.subresource),
        api_version=resource_info.api_version,
        time=context.now(),
        ignored=ignored_fields(resource_info, target.subresource),
    )
    live: JsonObject = {"kind": resource_info.kind, "apiVersion": resource_info.api_version, "metadata": {}}
    managers: Managers = {}
    if entry is not None:
        live = entry.obj
        managers = entry.ownership.managers or _before_first_apply(target, type_, live, write)
    try:
        applied = after_apply(managers, type_, live, config, write, is_forced=is_forced)
    except ApplyConflictError as error:
        conflicts = error if options.manager != _KUBECTL else _drop_own_conflicts(type_, live, error)
        if conflicts is not None:
            raise StatusError(409, "Conflict", conflicts.message(), {"causes": conflicts.causes()}) from None
        applied = after_apply(managers, type_, live, config, write, is_forced=True)
    if options.manager == _KUBECTL:
        applied = _with_last_applied(applied, config)
    return (
        applied
        if resource_info.is_custom
        else ServerSideApplyResult(without_empties(type_, applied.obj), applied.managers)
    )


def _before_first_apply(target: RequestInfo, type_: Type, live: JsonObject, write: ManagedWrite) -> Managers:
    """Return the managers of an object without managedFields: `before-first-apply` owns all its fields."""
    resource_info = target.resource_info
    manager = Manager(UPDATE, FIRST_APPLY, target.subresource, resource_info.api_version)
    first = msgspec.structs.replace(write, manager=manager)
    return after_update({}, type_, blank_object(resource_info), live, first)


def _store(
    context: Context, target: RequestInfo, entry: Entry | None, applied: ServerSideApplyResult, options: WriteOptions
) -> Entry:
    obj, ownership = applied.obj, Ownership(applied.managers)
    metadata = obj.get("metadata") or {}
    name = metadata.get("name")
    if not name:
        # An existing object can lose its name, too: if its only manager applies no metadata.
        raise undeterminable(target.name)
    if entry is not None:
        return change_object(context, target, entry, obj, options, build_error=build_patch_error, ownership=ownership)
    if name != target.name:
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({target.name})")
    if uid := metadata.get("uid"):
        why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        raise conflict(target.resource_info, target.name, why)
    # A new object has no resourceVersion.
    new = {**obj, "metadata": {key: value for key, value in metadata.items() if key != "resourceVersion"}}
    return create_object(context, target, new, options, build_error=build_patch_error, ownership=ownership)


# The applied configuration


def read_config(context: Context, request: Request, options: WriteOptions) -> JsonObject:
    """Decode the configuration from JSON or YAML. Raises 400; duplicate keys are rejected or cause a warning."""
    try:
        document = read_document(request.body)
    except YamlError as error:
        stage = "decoding patch: error converting YAML to JSON" if request.body[:1] == b"{" else "encoding patch"
        raise bad_request(f"error {stage}: yaml: {error}") from None
    config = document.value
    if config is not None and not isinstance(config, dict):
        raise bad_request("error decoding patch: error unmarshaling JSON: while decoding JSON: json: not an object")
    if document.duplicates and options.validation is FieldValidation.STRICT:
        lines = "\n".join(f"  {line}" for line in document.duplicates)
        stage = "error strict decoding patch: error converting YAML to JSON"
        raise bad_request(f"{stage}: yaml: unmarshal errors:\n{lines}")
    if options.validation is FieldValidation.WARN:
        context.warnings += document.duplicates
    return config or {}


def _check_config(target: RequestInfo, type_: Type, config: JsonObject) -> None:
    """Raise 400 unless the configuration is a valid partial object of the path's kind."""
    resource_info = target.resource_info
    kind, api_version = config.get("kind") or "", config.get("apiVersion") or ""
    if (kind, api_version) != (resource_info.kind, resource_info.api_version):
        shown = (
            "/, Kind=" + str(kind) if not kind or not api_version else f"{_format_version(api_version)}, Kind={kind}"
        )
        raise bad_request(f"invalid object type: {shown}")
    metadata = config.get("metadata")
    if isinstance(metadata, dict) and metadata.get("managedFields") is not None:
        raise bad_request("metadata.managedFields must be nil")
    if error_message := find_type_error(type_, config):
        names = metadata if isinstance(metadata, dict) else {}
        place = f"{names.get('namespace') or ''}/{names.get('name') or ''}; {_format_version(api_version)}, Kind={kind}"
        raise bad_request(f"failed to create typed patch object ({place}): {error_message}")


def _format_version(api_version: Any) -> str:
    """Return the apiVersion with a leading slash for the core group."""
    return str(api_version) if "/" in str(api_version) else f"/{api_version}"


# Migration from client-side apply


def _drop_own_conflicts(type_: Type, live: JsonObject, error: ApplyConflictError) -> ApplyConflictError | None:
    """Drop conflicts about fields that kubectl applied before, by its annotation; None if no conflict is left."""
    annotations = live["metadata"].get("annotations") or {}
    try:
        last = msgspec.json.decode(annotations.get(LAST_APPLIED, ""))
    except msgspec.DecodeError:
        return error
    # Fields that changed since then are no longer those that kubectl applied.
    change = compare(type_, last, live)
    own = difference(field_set(type_, last), union(change.written, change.removed))
    others = []
    for each in error.conflicts:
        if not intersection(set_of(each.path), own):
            others.append(each)
    return ApplyConflictError(tuple(others)) if others else None


def _with_last_applied(applied: ServerSideApplyResult, config: JsonObject) -> ServerSideApplyResult:
    """Update the last-applied annotation if it exists, because an older kubectl may apply next."""
    metadata = applied.obj.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    if LAST_APPLIED not in annotations:
        return applied
    text = msgspec.json.encode(config, order="sorted").decode() + "\n"
    changed = {**metadata, "annotations": {**annotations, LAST_APPLIED: text}}
    return ServerSideApplyResult({**applied.obj, "metadata": changed}, applied.managers)

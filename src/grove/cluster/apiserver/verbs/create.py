"""POST: creates an object."""

from grove.api.types.meta import JsonObject
from grove.cluster.apiserver.admission.webhook_hooks import mutated, validate
from grove.cluster.apiserver.auth.rbac_escalation import confirm_grant
from grove.cluster.apiserver.codec.request_decoding import (
    FieldValidation,
    WriteOptions,
    read_object,
    read_write_options,
)
from grove.cluster.apiserver.context import Context
from grove.cluster.apiserver.registry.field_validation import (
    Refusal,
    refused_body,
    schema_errors,
    without_unknown_fields,
)
from grove.cluster.apiserver.registry.metadata import MetaShape, born_metadata, metadata_errors, read_shape
from grove.cluster.apiserver.registry.strategies import creation_errors, prepared_for_creation
from grove.cluster.apiserver.request_info import RequestInfo
from grove.cluster.apiserver.status_errors import (
    already_exists,
    bad_request,
    being_deleted,
    forbidden,
    invalid,
    method_not_allowed,
    not_found,
    other_namespace,
)
from grove.cluster.apiserver.verbs.field_manager import ownership_of_new
from grove.cluster.built_in_resources import NAMESPACES, ResourceInfo
from grove.cluster.storage.managed_fields import Ownership
from grove.cluster.storage.store import Entry, draft
from grove.kube.transport import Request, Response


def create(context: Context, target: RequestInfo, request: Request) -> Response:
    resource_info = target.resource_info
    if resource_info.namespaced and not target.namespace:
        raise method_not_allowed()
    options = read_write_options(request)
    given = read_object(resource_info, request)
    return Response(
        status=201, body=context.shown(create_object(context, target, given, options, refusal=refused_body))
    )


def create_object(
    context: Context,
    target: RequestInfo,
    given: JsonObject,
    options: WriteOptions,
    *,
    refusal: Refusal,
    ownership: Ownership | None = None,
) -> Entry:
    """Store `given` as a new object. `ownership` is given if the caller has computed it (server-side apply)."""
    resource_info = target.resource_info
    shape = read_shape(resource_info, given)
    _check_place(target, shape)
    given = without_unknown_fields(context, resource_info, given, options=options, refusal=refusal)
    obj = _born(context, target, given, shape)
    name = obj["metadata"]["name"]
    if resource_info.namespaced:
        _check_namespace(context, resource_info, target.namespace, name)
    if resource_info.custom is not None and resource_info.custom.is_terminating:
        raise forbidden(resource_info, name, "create not allowed while custom resource definition is terminating")
    wanted = obj = prepared_for_creation(context, resource_info, obj)
    changed = mutated(context, target, obj, None)
    if changed is not obj:
        obj = prepared_for_creation(context, resource_info, _conformed(context, resource_info, changed))
    obj = context.admit(target, name, obj, None)
    errors = metadata_errors(resource_info, obj["metadata"]) + creation_errors(resource_info, obj)
    if errors := errors + schema_errors(context, resource_info, obj):
        raise invalid(resource_info, name, errors)
    confirm_grant(context, target, obj)
    validate(context, target, obj, None)
    context.quotas.check(resource_info, target.namespace, obj)
    _check_name_is_free(context, resource_info, target.namespace, name)
    if ownership is None:
        ownership = ownership_of_new(context, resource_info, given, wanted, options)
    if options.is_dry:
        obj["metadata"].pop("resourceVersion", None)
        return draft(target.namespace, name, obj, 0, ownership)
    return context.store.put(resource_info, target.namespace, name, obj, ownership)


def _conformed(context: Context, resource_info: ResourceInfo, obj: JsonObject) -> JsonObject:
    """Prune and default an object that a webhook changed."""
    options = WriteOptions(validation=FieldValidation.IGNORE)
    return without_unknown_fields(context, resource_info, obj, options=options, refusal=refused_body)


def _check_place(target: RequestInfo, shape: MetaShape) -> None:
    if target.resource_info.namespaced and shape.namespace not in (None, "", target.namespace):
        raise other_namespace()
    if shape.resource_version:
        raise bad_request("resourceVersion should not be set on objects to be created")


def _born(context: Context, target: RequestInfo, given: JsonObject, shape: MetaShape) -> JsonObject:
    metadata = born_metadata(target.resource_info, target.namespace, shape, given.get("metadata") or {}, context.random)
    metadata["creationTimestamp"] = context.now()
    return {**given, "metadata": metadata}


def _check_namespace(context: Context, resource_info: ResourceInfo, namespace: str, name: str) -> None:
    entry = context.store.table(NAMESPACES).find("", namespace)
    if entry is None:
        raise not_found(NAMESPACES, namespace)
    if "deletionTimestamp" in entry.obj["metadata"]:
        raise forbidden(
            resource_info,
            name,
            f"unable to create new content in namespace {namespace} because it is being terminated",
            [
                {
                    "reason": "NamespaceTerminating",
                    "message": f"namespace {namespace} is being terminated",
                    "field": "metadata.namespace",
                }
            ],
        )


def _check_name_is_free(context: Context, resource_info: ResourceInfo, namespace: str, name: str) -> None:
    holder = context.store.table(resource_info).find(namespace, name)
    if holder is None:
        return
    if "deletionTimestamp" in holder.obj["metadata"]:
        raise being_deleted(resource_info, name)
    raise already_exists(resource_info, name)

"""POST: creates an object."""

from grove.api.types.meta import JsonObject
from grove.cluster.apiserver.admission.webhook_hooks import mutate, validate
from grove.cluster.apiserver.auth.rbac_escalation import check_escalation
from grove.cluster.apiserver.codec.request_decoding import (
    FieldValidation,
    WriteOptions,
    read_object,
    read_write_options,
)
from grove.cluster.apiserver.context import Context
from grove.cluster.apiserver.registry.field_validation import (
    ErrorBuilder,
    build_body_error,
    prune_and_default,
    validate_schema,
)
from grove.cluster.apiserver.registry.metadata import MetaShape, build_metadata, read_shape, validate_metadata
from grove.cluster.apiserver.registry.strategies import prepare_for_create, validate_create
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
        status=201,
        body=context.encode_entry(create_object(context, target, given, options, build_error=build_body_error)),
    )


def create_object(
    context: Context,
    target: RequestInfo,
    given: JsonObject,
    options: WriteOptions,
    *,
    build_error: ErrorBuilder,
    ownership: Ownership | None = None,
) -> Entry:
    """Store `given` as a new object. `ownership` is given if the caller has computed it (server-side apply)."""
    resource_info = target.resource_info
    shape = read_shape(resource_info, given)
    _check_metadata(target, shape)
    given = prune_and_default(context, resource_info, given, options=options, build_error=build_error)
    obj = _build_new_object(context, target, given, shape)
    name = obj["metadata"]["name"]
    if resource_info.namespaced:
        _check_namespace(context, resource_info, target.namespace, name)
    if resource_info.custom is not None and resource_info.custom.is_terminating:
        raise forbidden(resource_info, name, "create not allowed while custom resource definition is terminating")
    wanted = obj = prepare_for_create(context, resource_info, obj)
    changed = mutate(context, target, obj, None)
    if changed is not obj:
        obj = prepare_for_create(context, resource_info, _prune_changed(context, resource_info, changed))
    obj = context.admit(target, name, obj, None)
    errors = validate_metadata(resource_info, obj["metadata"]) + validate_create(resource_info, obj)
    if errors := errors + validate_schema(context, resource_info, obj):
        raise invalid(resource_info, name, errors)
    check_escalation(context, target, obj)
    validate(context, target, obj, None)
    context.quotas.check(resource_info, target.namespace, obj)
    _check_name_is_free(context, resource_info, target.namespace, name)
    if ownership is None:
        ownership = ownership_of_new(context, resource_info, given, wanted, options)
    if options.is_dry:
        obj["metadata"].pop("resourceVersion", None)
        return draft(target.namespace, name, obj, 0, ownership)
    return context.store.put(resource_info, target.namespace, name, obj, ownership)


def _prune_changed(context: Context, resource_info: ResourceInfo, obj: JsonObject) -> JsonObject:
    """Prune and default an object that a webhook changed."""
    options = WriteOptions(validation=FieldValidation.IGNORE)
    return prune_and_default(context, resource_info, obj, options=options, build_error=build_body_error)


def _check_metadata(target: RequestInfo, shape: MetaShape) -> None:
    if target.resource_info.namespaced and shape.namespace not in (None, "", target.namespace):
        raise other_namespace()
    if shape.resource_version:
        raise bad_request("resourceVersion should not be set on objects to be created")


def _build_new_object(context: Context, target: RequestInfo, given: JsonObject, shape: MetaShape) -> JsonObject:
    metadata = build_metadata(
        target.resource_info, target.namespace, shape, given.get("metadata") or {}, context.random
    )
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
    existing = context.store.table(resource_info).find(namespace, name)
    if existing is None:
        return
    if "deletionTimestamp" in existing.obj["metadata"]:
        raise being_deleted(resource_info, name)
    raise already_exists(resource_info, name)

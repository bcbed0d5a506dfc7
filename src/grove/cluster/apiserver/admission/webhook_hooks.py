"""Webhook hooks of verbs: build the admission request of each write and apply the changes of mutating webhooks.

`webhook_dispatcher.py` selects and calls the webhooks.
"""

from grove.api.types.admission import Operation
from grove.api.types.meta import JsonObject
from grove.cluster.apiserver.admission.webhook_dispatcher import AdmissionWrite
from grove.cluster.apiserver.context import Context
from grove.cluster.apiserver.registry.metadata import read_shape
from grove.cluster.apiserver.request_info import RequestInfo
from grove.cluster.apiserver.verbs.scale_conversion import build_scale, read_replicas, with_replicas
from grove.cluster.built_in_resources import PODS, ResourceInfo

# Fields that the server sets after mutating webhooks have seen a new object.
_SERVER_FIELDS = ("uid", "resourceVersion", "generation", "creationTimestamp")
_CLIENT_FIELDS = ("labels", "annotations", "ownerReferences", "finalizers", "generateName")
_SUFFIX_LENGTH = 5
_OPTIONS = {Operation.CREATE: "CreateOptions", Operation.UPDATE: "UpdateOptions", Operation.DELETE: "DeleteOptions"}
_META = "meta.k8s.io/v1"


def mutate(context: Context, target: RequestInfo, new: JsonObject, old: JsonObject | None) -> JsonObject:
    """Return the object after mutating webhooks: the same object if none changed it."""
    webhooks = context.webhooks
    if webhooks is None or not webhooks.has_mutating:
        return new
    if target.subresource == "scale" and old is not None:
        write = _build_scale_write(context, target, new, old)
        changed = webhooks.mutate(write, context.webhook_session, context.warnings) or {}
        return new if changed == write.object else with_replicas(target.resource_info, new, read_replicas(changed))
    shown = new if old is not None else {**new, "metadata": _without_server_fields(new["metadata"])}
    write = _build_write(context, target, _name_of(target, shown), shown, old)
    changed = webhooks.mutate(write, context.webhook_session, context.warnings) or {}
    if changed == shown:
        return new
    # The changed object must still be valid for its kind.
    read_shape(target.resource_info, changed)
    metadata = {key: value for key, value in new["metadata"].items() if key not in _CLIENT_FIELDS}
    metadata |= {key: changed["metadata"][key] for key in _CLIENT_FIELDS if changed["metadata"].get(key)}
    return {**changed, "metadata": metadata}


def validate(context: Context, target: RequestInfo, new: JsonObject, old: JsonObject | None) -> None:
    """Raise the error of a validating webhook that denies the write."""
    webhooks = context.webhooks
    if webhooks is None or not webhooks.has_validating:
        return
    if target.subresource == "scale" and old is not None:
        write = _build_scale_write(context, target, new, old)
    else:
        write = _build_write(context, target, new["metadata"]["name"], new, old)
    webhooks.validate(write, context.webhook_session, context.warnings)


def admit_delete(context: Context, target: RequestInfo, old: JsonObject, *, is_dry: bool) -> None:
    """Raise the error of a webhook that denies the delete. For a collection each object is admitted separately."""
    webhooks = context.webhooks
    if webhooks is None or not (webhooks.has_mutating or webhooks.has_validating):
        return
    write = AdmissionWrite(
        operation=Operation.DELETE,
        resource_info=target.resource_info,
        api_version=target.resource_info.api_version,
        kind=target.resource_info.kind,
        namespace=_namespace_of(target, old["metadata"]["name"]),
        name=target.name,
        user=context.user,
        old=old,
        is_dry=is_dry,
        options={"kind": "DeleteOptions", "apiVersion": _META, **({"dryRun": ["All"]} if is_dry else {})},
    )
    webhooks.mutate(write, context.webhook_session, context.warnings)
    webhooks.validate(write, context.webhook_session, context.warnings)


def admit_binding(context: Context, target: RequestInfo, binding: JsonObject, *, is_dry: bool) -> None:
    _admit_pod_subresource(context, target, "v1", {"kind": "Binding", "apiVersion": "v1", **binding}, is_dry=is_dry)


def admit_eviction(context: Context, target: RequestInfo, eviction: JsonObject, *, is_dry: bool) -> None:
    _admit_pod_subresource(context, target, "policy/v1", eviction, is_dry=is_dry)


def _admit_pod_subresource(
    context: Context, target: RequestInfo, api_version: str, body: JsonObject, *, is_dry: bool
) -> None:
    """Admit a subresource that is created under a pod. Changes of mutating webhooks are ignored."""
    webhooks = context.webhooks
    if webhooks is None or not (webhooks.has_mutating or webhooks.has_validating):
        return
    write = AdmissionWrite(
        operation=Operation.CREATE,
        resource_info=PODS,
        api_version=api_version,
        kind=body["kind"],
        namespace=target.namespace,
        name=target.name,
        subresource=target.subresource,
        user=context.user,
        object=body,
        is_dry=is_dry,
        options=_build_options(context, Operation.CREATE),
    )
    webhooks.mutate(write, context.webhook_session, context.warnings)
    webhooks.validate(write, context.webhook_session, context.warnings)


def _build_write(
    context: Context, target: RequestInfo, name: str, new: JsonObject, old: JsonObject | None
) -> AdmissionWrite:
    resource_info = target.resource_info
    operation = Operation.CREATE if old is None else Operation.UPDATE
    return AdmissionWrite(
        operation=operation,
        resource_info=resource_info,
        api_version=resource_info.api_version,
        kind=resource_info.kind,
        namespace=_namespace_of(target, name),
        name=name,
        subresource=target.subresource,
        user=context.user,
        object=new,
        old=old,
        is_dry=context.query.get("dryRun") == "All",
        options=_build_options(context, operation),
    )


def _build_scale_write(context: Context, target: RequestInfo, new: JsonObject, old: JsonObject) -> AdmissionWrite:
    return AdmissionWrite(
        operation=Operation.UPDATE,
        resource_info=target.resource_info,
        api_version="autoscaling/v1",
        kind="Scale",
        namespace=target.namespace,
        name=target.name,
        subresource="scale",
        user=context.user,
        object=build_scale(target.resource_info, new),
        old=build_scale(target.resource_info, old),
        is_dry=context.query.get("dryRun") == "All",
        options=_build_options(context, Operation.UPDATE),
    )


def _namespace_of(target: RequestInfo, name: str) -> str:
    """Return the namespace of the write; a namespace object is in itself."""
    return name if _is_namespace(target.resource_info) else target.namespace


def _is_namespace(resource_info: ResourceInfo) -> bool:
    return resource_info.qualified == "namespaces"


def _name_of(target: RequestInfo, shown: JsonObject) -> str:
    return target.name or shown["metadata"].get("name", "")


def _without_server_fields(metadata: JsonObject) -> JsonObject:
    """Return the metadata as the client sent it, without a name that is generated from `generateName`."""
    found = {key: value for key, value in metadata.items() if key not in _SERVER_FIELDS}
    beginning, name = metadata.get("generateName"), metadata["name"]
    if beginning and name.startswith(beginning) and len(name) == len(beginning) + _SUFFIX_LENGTH:
        del found["name"]
    return found


def _build_options(context: Context, operation: Operation) -> JsonObject:
    found: JsonObject = {"kind": _OPTIONS[operation], "apiVersion": _META}
    if context.query.get("dryRun"):
        found["dryRun"] = [context.query["dryRun"]]
    for option in ("fieldManager", "fieldValidation"):
        if value := context.query.get(option):
            found[option] = value
    return found

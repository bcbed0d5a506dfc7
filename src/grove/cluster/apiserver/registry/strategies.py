"""Strategies per kind: preparation and validation of creates and updates, beyond the rules of `metadata.py`.

Larger kinds have their own modules. Grove's kinds are defaulted and validated by the admission plugin that the API
server is given.
"""

from grove.api.types.meta import JsonObject
from grove.api.validation.field_errors import FieldError, invalid
from grove.api.values.quantities import QuantityError, parse_milli
from grove.cluster.apiserver.admission.webhook_config_validation import prepare_webhooks, validate_webhooks
from grove.cluster.apiserver.context import Context
from grove.cluster.apiserver.registry.configmaps_secrets import prepare_config, validate_config, validate_config_update
from grove.cluster.apiserver.registry.controller_revisions import (
    prepare_revision,
    validate_revision,
    validate_revision_update,
)
from grove.cluster.apiserver.registry.crd_strategy import prepare_crd, prepare_crd_update
from grove.cluster.apiserver.registry.crd_validation import (
    check_crd_spec,
    check_crd_status,
    find_crd_warnings,
    validate_crd,
    validate_crd_update,
)
from grove.cluster.apiserver.registry.hpa import prepare_autoscaler
from grove.cluster.apiserver.registry.hpa_validation import check_autoscaler, validate_autoscaler
from grove.cluster.apiserver.registry.leases import check_lease_times, validate_lease
from grove.cluster.apiserver.registry.pdb_validation import (
    check_budget_status,
    prepare_budget,
    prepare_budget_update,
    validate_budget,
)
from grove.cluster.apiserver.registry.pods.pod_strategy import (
    prepare_pod,
    prepare_pod_update,
    validate_pod,
    validate_pod_update,
)
from grove.cluster.apiserver.registry.priority_classes import (
    prepare_priority_class,
    validate_priority_class,
    validate_priority_class_update,
)
from grove.cluster.apiserver.registry.rbac_objects import (
    prepare_binding,
    prepare_role,
    validate_binding,
    validate_binding_update,
    validate_role,
)
from grove.cluster.apiserver.registry.services import (
    prepare_service,
    prepare_service_update,
    validate_service,
    validate_service_update,
)
from grove.cluster.apiserver.status_errors import unsupported_field
from grove.cluster.built_in_resources import BUDGETS, DEFINITIONS, ResourceInfo


def prepare_for_create(context: Context, resource_info: ResourceInfo, obj: JsonObject) -> JsonObject:
    """Return the new object with defaults, as it will be stored if it is valid."""
    match resource_info.qualified:
        case "pods":
            return prepare_pod(context, obj)
        case "namespaces":
            return _prepare_namespace(obj)
        case "services":
            return prepare_service(obj)
        case "leases.coordination.k8s.io":
            check_lease_times(obj)
            return obj
        case "priorityclasses.scheduling.k8s.io":
            return prepare_priority_class(obj)
        case "configmaps" | "secrets":
            return prepare_config(resource_info, obj)
        case "horizontalpodautoscalers.autoscaling":
            check_autoscaler(obj)
            return prepare_autoscaler({key: value for key, value in obj.items() if key != "status"})
        case "controllerrevisions.apps":
            return prepare_revision(obj)
        case "poddisruptionbudgets.policy":
            return prepare_budget(obj)
        case "roles.rbac.authorization.k8s.io" | "clusterroles.rbac.authorization.k8s.io":
            return prepare_role(resource_info, obj)
        case "rolebindings.rbac.authorization.k8s.io" | "clusterrolebindings.rbac.authorization.k8s.io":
            return prepare_binding(resource_info, obj)
        case _ if resource_info.group == "admissionregistration.k8s.io":
            return prepare_webhooks(resource_info, obj)
        case "customresourcedefinitions.apiextensions.k8s.io":
            check_crd_spec(obj)
            context.warnings += find_crd_warnings(obj)
            return prepare_crd(obj)
        case "nodes":
            # A kubelet registers its node with a status.
            return obj
        case _ if resource_info.has_status and "status" in obj:
            return {key: value for key, value in obj.items() if key != "status"}
        case _:
            return obj


def validate_create(resource_info: ResourceInfo, obj: JsonObject) -> list[FieldError]:
    match resource_info.qualified:
        case "pods":
            return validate_pod(obj)
        case "configmaps" | "secrets":
            return validate_config(obj)
        case "horizontalpodautoscalers.autoscaling":
            return validate_autoscaler(obj)
        case "resourcequotas":
            return _validate_quota(obj)
        case "services":
            return validate_service(obj)
        case "leases.coordination.k8s.io":
            return validate_lease(obj)
        case "events":
            return _validate_event(obj)
        case "priorityclasses.scheduling.k8s.io":
            return validate_priority_class(obj)
        case "customresourcedefinitions.apiextensions.k8s.io":
            return validate_crd(obj)
        case "controllerrevisions.apps":
            return validate_revision(obj)
        case "poddisruptionbudgets.policy":
            return validate_budget(obj)
        case "roles.rbac.authorization.k8s.io" | "clusterroles.rbac.authorization.k8s.io":
            return validate_role(obj)
        case "rolebindings.rbac.authorization.k8s.io" | "clusterrolebindings.rbac.authorization.k8s.io":
            return validate_binding(obj)
        case _ if resource_info.group == "admissionregistration.k8s.io":
            return validate_webhooks(obj)
        case _:
            return []


def prepare_for_update(resource_info: ResourceInfo, old: JsonObject, new: JsonObject) -> JsonObject:
    match resource_info.qualified:
        case "pods":
            return prepare_pod_update(old, new)
        case "configmaps" | "secrets":
            return prepare_config(resource_info, new)
        case "horizontalpodautoscalers.autoscaling":
            check_autoscaler(new)
            return prepare_autoscaler(new)
        case "services":
            return prepare_service_update(old, new)
        case "leases.coordination.k8s.io":
            check_lease_times(new)
            return new
        case "namespaces":
            labels = {**(new["metadata"].get("labels") or {}), **_name_label(old)}
            return {**new, "metadata": {**new["metadata"], "labels": labels}, "spec": old["spec"]}
        case "controllerrevisions.apps":
            return prepare_revision(new)
        case "poddisruptionbudgets.policy":
            return prepare_budget_update(new)
        case "roles.rbac.authorization.k8s.io" | "clusterroles.rbac.authorization.k8s.io":
            return prepare_role(resource_info, new)
        case "rolebindings.rbac.authorization.k8s.io" | "clusterrolebindings.rbac.authorization.k8s.io":
            return prepare_binding(resource_info, new)
        case _ if resource_info.group == "admissionregistration.k8s.io":
            return prepare_webhooks(resource_info, new)
        case "customresourcedefinitions.apiextensions.k8s.io":
            check_crd_spec(new)
            return prepare_crd_update(old, new)
        case _:
            return new


def check_status(resource_info: ResourceInfo, new: JsonObject) -> None:
    """Raise 400 for wrong types in a status, 422 for invalid values."""
    if resource_info is DEFINITIONS:
        check_crd_status(new)
    elif resource_info is BUDGETS:
        check_budget_status(new)


def validate_update(resource_info: ResourceInfo, old: JsonObject, new: JsonObject) -> list[FieldError]:
    match resource_info.qualified:
        case "pods":
            return validate_pod_update(old, new)
        case "configmaps" | "secrets":
            return validate_config_update(old, new)
        case "horizontalpodautoscalers.autoscaling":
            return validate_autoscaler(new, old)
        case "resourcequotas":
            return _validate_quota(new)
        case "services":
            return validate_service_update(old, new) + validate_service(new)
        case "leases.coordination.k8s.io":
            return validate_lease(new)
        case "priorityclasses.scheduling.k8s.io":
            return validate_priority_class_update(old, new)
        case "customresourcedefinitions.apiextensions.k8s.io":
            return validate_crd_update(old, new)
        case "controllerrevisions.apps":
            return validate_revision_update(old, new)
        case "poddisruptionbudgets.policy":
            return validate_budget(new)
        case "roles.rbac.authorization.k8s.io" | "clusterroles.rbac.authorization.k8s.io":
            return validate_role(new)
        case "rolebindings.rbac.authorization.k8s.io" | "clusterrolebindings.rbac.authorization.k8s.io":
            return validate_binding(new) + validate_binding_update(old, new)
        case _ if resource_info.group == "admissionregistration.k8s.io":
            return validate_webhooks(new)
        case _:
            return []


def _prepare_namespace(obj: JsonObject) -> JsonObject:
    metadata = obj["metadata"]
    labels = {**(metadata.get("labels") or {}), **_name_label(obj)}
    return {
        **obj,
        "metadata": {**metadata, "labels": labels},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }


def _name_label(obj: JsonObject) -> dict[str, str]:
    return {"kubernetes.io/metadata.name": obj["metadata"]["name"]}


def _validate_event(obj: JsonObject) -> list[FieldError]:
    """Return an error unless the event is in the namespace of its object; cluster-scoped objects use `default`."""
    about = obj.get("involvedObject") or {}
    namespace = about.get("namespace", "") if isinstance(about, dict) else ""
    event_namespace = obj["metadata"]["namespace"]
    if namespace == event_namespace or (not namespace and event_namespace == "default"):
        return []
    return [invalid("involvedObject.namespace", namespace, "does not match event.namespace")]


def _validate_quota(obj: JsonObject) -> list[FieldError]:
    spec = obj.get("spec") or {}
    errors = [unsupported_field(f"spec.{field}") for field in ("scopes", "scopeSelector") if spec.get(field)]
    hard = spec.get("hard", {})
    if not isinstance(hard, dict):
        return [*errors, invalid("spec.hard", hard, "must be an object")]
    for name, quantity in hard.items():
        try:
            is_legal = isinstance(quantity, str | int | float) and parse_milli(quantity) >= 0
        except QuantityError:
            is_legal = False
        if not is_legal:
            errors.append(invalid(f"spec.hard[{name}]", quantity, "must be greater than or equal to 0"))
    return errors

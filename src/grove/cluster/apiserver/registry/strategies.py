"""Strategies per kind: preparation and validation of creates and updates, beyond the rules of `metadata.py`.

Larger kinds have their own modules. Grove's kinds are defaulted and validated by the admission plugin that the API
server is given.
"""

from grove.api.types.meta import JsonObject
from grove.api.validation.field_errors import FieldError, invalid
from grove.api.values.quantities import QuantityError, parse_milli
from grove.cluster.apiserver.admission.webhook_config_validation import prepared_webhooks, webhook_errors
from grove.cluster.apiserver.context import Context
from grove.cluster.apiserver.registry.configmaps_secrets import config_change_errors, config_errors, prepared_config
from grove.cluster.apiserver.registry.controller_revisions import (
    prepared_revision,
    revision_change_errors,
    revision_errors,
)
from grove.cluster.apiserver.registry.crd_strategy import prepared_definition, prepared_definition_update
from grove.cluster.apiserver.registry.crd_validation import (
    check_definition_shape,
    check_definition_status,
    definition_change_errors,
    definition_errors,
    definition_warnings,
)
from grove.cluster.apiserver.registry.hpa import prepared_autoscaler
from grove.cluster.apiserver.registry.leases import check_lease_times, lease_errors
from grove.cluster.apiserver.registry.pdb_validation import (
    budget_errors,
    check_budget_status,
    prepared_budget,
    prepared_budget_update,
)
from grove.cluster.apiserver.registry.pods.pod_strategy import (
    new_pod_errors,
    pod_update_errors,
    prepared_pod,
    prepared_pod_update,
)
from grove.cluster.apiserver.registry.priority_classes import prepared_class, priority_change_errors, priority_errors
from grove.cluster.apiserver.registry.rbac_objects import (
    binding_change_errors,
    binding_errors,
    prepared_binding,
    prepared_role,
    role_errors,
)
from grove.cluster.apiserver.registry.services import (
    prepared_service,
    prepared_service_update,
    service_change_errors,
    service_errors,
)
from grove.cluster.apiserver.status_errors import unsupported_field
from grove.cluster.built_in_resources import BUDGETS, DEFINITIONS, ResourceInfo


def prepared_for_creation(context: Context, resource_info: ResourceInfo, obj: JsonObject) -> JsonObject:
    """Return the new object with defaults, as it will be stored if it is valid."""
    match resource_info.qualified:
        case "pods":
            return prepared_pod(context, obj)
        case "namespaces":
            return _prepared_namespace(obj)
        case "services":
            return prepared_service(obj)
        case "leases.coordination.k8s.io":
            check_lease_times(obj)
            return obj
        case "priorityclasses.scheduling.k8s.io":
            return prepared_class(obj)
        case "configmaps" | "secrets":
            return prepared_config(resource_info, obj)
        case "horizontalpodautoscalers.autoscaling":
            return prepared_autoscaler({key: value for key, value in obj.items() if key != "status"})
        case "controllerrevisions.apps":
            return prepared_revision(obj)
        case "poddisruptionbudgets.policy":
            return prepared_budget(obj)
        case "roles.rbac.authorization.k8s.io" | "clusterroles.rbac.authorization.k8s.io":
            return prepared_role(resource_info, obj)
        case "rolebindings.rbac.authorization.k8s.io" | "clusterrolebindings.rbac.authorization.k8s.io":
            return prepared_binding(resource_info, obj)
        case _ if resource_info.group == "admissionregistration.k8s.io":
            return prepared_webhooks(resource_info, obj)
        case "customresourcedefinitions.apiextensions.k8s.io":
            check_definition_shape(obj)
            context.warnings += definition_warnings(obj)
            return prepared_definition(obj)
        case "nodes":
            # A kubelet registers its node with a status.
            return obj
        case _ if resource_info.has_status and "status" in obj:
            return {key: value for key, value in obj.items() if key != "status"}
        case _:
            return obj


def creation_errors(resource_info: ResourceInfo, obj: JsonObject) -> list[FieldError]:
    match resource_info.qualified:
        case "pods":
            return new_pod_errors(obj)
        case "configmaps" | "secrets":
            return config_errors(obj)
        case "resourcequotas":
            return _quota_errors(obj)
        case "services":
            return service_errors(obj)
        case "leases.coordination.k8s.io":
            return lease_errors(obj)
        case "events":
            return _event_errors(obj)
        case "priorityclasses.scheduling.k8s.io":
            return priority_errors(obj)
        case "customresourcedefinitions.apiextensions.k8s.io":
            return definition_errors(obj)
        case "controllerrevisions.apps":
            return revision_errors(obj)
        case "poddisruptionbudgets.policy":
            return budget_errors(obj)
        case "roles.rbac.authorization.k8s.io" | "clusterroles.rbac.authorization.k8s.io":
            return role_errors(obj)
        case "rolebindings.rbac.authorization.k8s.io" | "clusterrolebindings.rbac.authorization.k8s.io":
            return binding_errors(obj)
        case _ if resource_info.group == "admissionregistration.k8s.io":
            return webhook_errors(obj)
        case _:
            return []


def prepared_for_update(resource_info: ResourceInfo, old: JsonObject, new: JsonObject) -> JsonObject:
    match resource_info.qualified:
        case "pods":
            return prepared_pod_update(old, new)
        case "configmaps" | "secrets":
            return prepared_config(resource_info, new)
        case "horizontalpodautoscalers.autoscaling":
            return prepared_autoscaler(new)
        case "services":
            return prepared_service_update(old, new)
        case "leases.coordination.k8s.io":
            check_lease_times(new)
            return new
        case "namespaces":
            labels = {**(new["metadata"].get("labels") or {}), **_name_label(old)}
            return {**new, "metadata": {**new["metadata"], "labels": labels}, "spec": old["spec"]}
        case "controllerrevisions.apps":
            return prepared_revision(new)
        case "poddisruptionbudgets.policy":
            return prepared_budget_update(new)
        case "roles.rbac.authorization.k8s.io" | "clusterroles.rbac.authorization.k8s.io":
            return prepared_role(resource_info, new)
        case "rolebindings.rbac.authorization.k8s.io" | "clusterrolebindings.rbac.authorization.k8s.io":
            return prepared_binding(resource_info, new)
        case _ if resource_info.group == "admissionregistration.k8s.io":
            return prepared_webhooks(resource_info, new)
        case "customresourcedefinitions.apiextensions.k8s.io":
            check_definition_shape(new)
            return prepared_definition_update(old, new)
        case _:
            return new


def check_status(resource_info: ResourceInfo, new: JsonObject) -> None:
    """Raise 400 for wrong types in a status, 422 for invalid values."""
    if resource_info is DEFINITIONS:
        check_definition_status(new)
    elif resource_info is BUDGETS:
        check_budget_status(new)


def update_errors(resource_info: ResourceInfo, old: JsonObject, new: JsonObject) -> list[FieldError]:
    match resource_info.qualified:
        case "pods":
            return pod_update_errors(old, new)
        case "configmaps" | "secrets":
            return config_change_errors(old, new)
        case "resourcequotas":
            return _quota_errors(new)
        case "services":
            return service_change_errors(old, new) + service_errors(new)
        case "leases.coordination.k8s.io":
            return lease_errors(new)
        case "priorityclasses.scheduling.k8s.io":
            return priority_change_errors(old, new)
        case "customresourcedefinitions.apiextensions.k8s.io":
            return definition_change_errors(old, new)
        case "controllerrevisions.apps":
            return revision_change_errors(old, new)
        case "poddisruptionbudgets.policy":
            return budget_errors(new)
        case "roles.rbac.authorization.k8s.io" | "clusterroles.rbac.authorization.k8s.io":
            return role_errors(new)
        case "rolebindings.rbac.authorization.k8s.io" | "clusterrolebindings.rbac.authorization.k8s.io":
            return binding_errors(new) + binding_change_errors(old, new)
        case _ if resource_info.group == "admissionregistration.k8s.io":
            return webhook_errors(new)
        case _:
            return []


def _prepared_namespace(obj: JsonObject) -> JsonObject:
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


def _event_errors(obj: JsonObject) -> list[FieldError]:
    """Return an error unless the event is in the namespace of its object; cluster-scoped objects use `default`."""
    about = obj.get("involvedObject") or {}
    namespace = about.get("namespace", "") if isinstance(about, dict) else ""
    home = obj["metadata"]["namespace"]
    if namespace == home or (not namespace and home == "default"):
        return []
    return [invalid("involvedObject.namespace", namespace, "does not match event.namespace")]


def _quota_errors(obj: JsonObject) -> list[FieldError]:
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

"""Which rules each kind adds to those of `metadata.py`: preparation and validation, at creation and at an update.

Pods have a file of their own. Our kinds are defaulted and validated by admission, which the server is given.
"""

from grove.api.fielderrors import FieldError, invalid, required
from grove.api.meta import JsonObject
from grove.api.quantities import QuantityError, parse_milli
from grove.cluster.resources import Served
from grove.cluster.server.context import Context
from grove.cluster.server.pods import new_pod_errors, pod_update_errors, prepared_pod, prepared_pod_update
from grove.cluster.server.status_errors import immutable, unsupported_field


def prepared_for_creation(context: Context, served: Served, obj: JsonObject) -> JsonObject:
    """The new object as it will be stored, if it is valid."""
    match served.qualified:
        case "pods":
            return prepared_pod(context, obj)
        case "namespaces":
            return _prepared_namespace(obj)
        case "services":
            return _prepared_service(obj)
        case "customresourcedefinitions.apiextensions.k8s.io":
            return _prepared_crd(context, obj)
        case "nodes":
            # A kubelet registers its node with a status.
            return obj
        case _ if served.has_status and "status" in obj:
            return {key: value for key, value in obj.items() if key != "status"}
        case _:
            return obj


def creation_errors(served: Served, obj: JsonObject) -> list[FieldError]:
    match served.qualified:
        case "pods":
            return new_pod_errors(obj)
        case "resourcequotas":
            return _quota_errors(obj)
        case "priorityclasses.scheduling.k8s.io":
            is_number = isinstance(obj.get("value", 0), int)
            return [] if is_number else [invalid("value", obj["value"], "must be an integer")]
        case "controllerrevisions.apps":
            return [] if isinstance(obj.get("revision"), int) else [required("revision", "must be an integer")]
        case _:
            return []


def prepared_for_update(served: Served, old: JsonObject, new: JsonObject) -> JsonObject:
    match served.qualified:
        case "pods":
            return prepared_pod_update(old, new)
        case "namespaces":
            labels = {**(new["metadata"].get("labels") or {}), **_name_label(old)}
            return {**new, "metadata": {**new["metadata"], "labels": labels}, "spec": old["spec"]}
        case _:
            return new


def update_errors(served: Served, old: JsonObject, new: JsonObject) -> list[FieldError]:
    match served.qualified:
        case "pods":
            return pod_update_errors(old, new)
        case "resourcequotas":
            return _quota_errors(new)
        case "priorityclasses.scheduling.k8s.io":
            return _changed(old, new, "value", "preemptionPolicy")
        case "controllerrevisions.apps":
            return _changed(old, new, "data")
        case _:
            return []


def _changed(old: JsonObject, new: JsonObject, *fields: str) -> list[FieldError]:
    return [immutable(field, new.get(field)) for field in fields if old.get(field) != new.get(field)]


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


def _prepared_service(obj: JsonObject) -> JsonObject:
    defaults = {"type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster"}
    spec = obj.get("spec") or {}
    return {**obj, "spec": {**defaults, **spec}, "status": {"loadBalancer": {}}}


def _prepared_crd(context: Context, obj: JsonObject) -> JsonObject:
    conditions = [
        {"type": type_, "status": "True", "lastTransitionTime": context.now(), "reason": reason, "message": message}
        for type_, reason, message in (
            ("NamesAccepted", "NoConflicts", "no conflicts found"),
            ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        )
    ]
    spec = obj.get("spec") or {}
    return {**obj, "status": {"conditions": conditions, "acceptedNames": spec.get("names", {})}}


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
            errors.append(invalid(f"spec.hard[{name}]", quantity, "must be a quantity of at least 0"))
    return errors

"""Strategy of roles and role bindings: defaults and validation."""

import msgspec

from grove.api.types.meta import JsonObject
from grove.api.validation.field_errors import FieldError, invalid, not_supported, required
from grove.cluster.apiserver.registry.metadata import build_unreadable_error, find_dns_subdomain_error
from grove.cluster.apiserver.status_errors import immutable
from grove.cluster.built_in_resources import ResourceInfo

_RBAC = "rbac.authorization.k8s.io"
_ROLE_KINDS = ("Role", "ClusterRole")


_Texts = list[str] | None


class _Rule(msgspec.Struct):
    verbs: _Texts = None
    groups: _Texts = msgspec.field(name="apiGroups", default=None)
    resources: _Texts = None
    names: _Texts = msgspec.field(name="resourceNames", default=None)
    paths: _Texts = msgspec.field(name="nonResourceURLs", default=None)


class _Reference(msgspec.Struct, rename="camel"):
    """A reference to a role or to a subject."""

    api_group: str = ""
    kind: str = ""
    name: str = ""
    namespace: str = ""


class _Role(msgspec.Struct):
    rules: list[_Rule] | None = None


class _Binding(msgspec.Struct, rename="camel"):
    role_ref: _Reference | None = None
    subjects: list[_Reference] | None = None


def prepare_binding(resource_info: ResourceInfo, obj: JsonObject) -> JsonObject:
    """Return the binding with the API group of each reference. Raises 400 for wrong types."""
    _check_shape(resource_info, obj, _Binding)
    found = dict(obj)
    reference = obj.get("roleRef")
    if reference and not reference.get("apiGroup"):
        found["roleRef"] = {**reference, "apiGroup": _RBAC}
    if subjects := obj.get("subjects"):
        found["subjects"] = [_prepare_subject(subject) for subject in subjects]
    return found


def _prepare_subject(subject: JsonObject) -> JsonObject:
    if subject.get("kind") in ("User", "Group") and not subject.get("apiGroup"):
        return {**subject, "apiGroup": _RBAC}
    return subject


def prepare_role(resource_info: ResourceInfo, obj: JsonObject) -> JsonObject:
    """Return the role with its rules, null if there are none. Raises 400 for wrong types."""
    _check_shape(resource_info, obj, _Role)
    return obj if "rules" in obj else {**obj, "rules": None}


def _check_shape(resource_info: ResourceInfo, obj: JsonObject, shape: type[msgspec.Struct]) -> None:
    try:
        msgspec.convert(obj, shape)
    except msgspec.ValidationError as error:
        raise build_unreadable_error(resource_info, f"json: {error}") from None


def validate_role(obj: JsonObject) -> list[FieldError]:
    rules = obj.get("rules") or []
    is_cluster_wide = obj["kind"] == "ClusterRole"
    return [error for index, rule in enumerate(rules) for error in _validate_rule(rule, index, is_cluster_wide)]


def _validate_rule(rule: JsonObject, index: int, is_cluster_wide: bool) -> list[FieldError]:
    where = f"rules[{index}]"
    errors = []
    if not rule.get("verbs"):
        errors.append(required(f"{where}.verbs", ""))
    if paths := rule.get("nonResourceURLs"):
        if not is_cluster_wide:
            error_message = "namespaced rules cannot apply to non-resource URLs"
            errors.append(invalid(f"{where}.nonResourceURLs", paths, error_message))
        if any(rule.get(field) for field in ("apiGroups", "resources", "resourceNames")):
            error_message = "rules cannot apply to both regular resources and non-resource URLs"
            errors.append(invalid(f"{where}.nonResourceURLs", paths, error_message))
        return errors
    if not rule.get("apiGroups"):
        errors.append(required(f"{where}.apiGroups", "resource rules must supply at least one api group"))
    if not rule.get("resources"):
        errors.append(required(f"{where}.resources", "resource rules must supply at least one resource"))
    return errors


def validate_binding(obj: JsonObject) -> list[FieldError]:
    reference = obj.get("roleRef") or {}
    errors = []
    if (group := reference.get("apiGroup", "")) != _RBAC:
        errors.append(not_supported("roleRef.apiGroup", group, (_RBAC,)))
    kinds = ("ClusterRole",) if obj["kind"] == "ClusterRoleBinding" else _ROLE_KINDS
    if (kind := reference.get("kind", "")) not in kinds:
        errors.append(not_supported("roleRef.kind", kind, kinds))
    if not reference.get("name"):
        errors.append(required("roleRef.name", ""))
    subjects = obj.get("subjects") or []
    is_cluster_wide = obj["kind"] == "ClusterRoleBinding"
    for index, subject in enumerate(subjects):
        errors += _validate_subject(subject, f"subjects[{index}]", is_cluster_wide)
    return errors


def _validate_subject(subject: JsonObject, where: str, is_cluster_wide: bool) -> list[FieldError]:
    errors = []
    name, group = subject.get("name", ""), subject.get("apiGroup", "")
    if not name:
        errors.append(required(f"{where}.name", ""))
    match subject.get("kind", ""):
        case "ServiceAccount":
            if name and (error_message := find_dns_subdomain_error(name)):
                errors.append(invalid(f"{where}.name", name, error_message))
            if group:
                errors.append(not_supported(f"{where}.apiGroup", group, ("",)))
            if is_cluster_wide and not subject.get("namespace"):
                errors.append(required(f"{where}.namespace", ""))
        case "User" | "Group":
            if group != _RBAC:
                errors.append(not_supported(f"{where}.apiGroup", group, (_RBAC,)))
        case kind:
            errors.append(not_supported(f"{where}.kind", kind, ("ServiceAccount", "User", "Group")))
    return errors


def validate_binding_update(old: JsonObject, new: JsonObject) -> list[FieldError]:
    """Return an error if the role reference changed. Subjects may change."""
    if old.get("roleRef") == new.get("roleRef"):
        return []
    shown = new.get("roleRef") or {}
    fields = {"APIGroup": "apiGroup", "Kind": "kind", "Name": "name"}
    return [immutable("roleRef", {name: shown.get(field, "") for name, field in fields.items()})]

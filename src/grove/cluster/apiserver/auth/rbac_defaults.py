"""Default roles and bindings: `cluster-admin`, `admin`, `edit`, `view`, discovery and self reviews.

They are stored on the first request for RBAC objects or by a restricted user, because most embedded clusters need none.
A store that is kept on disk may be of an older version: its defaults are reconciled at startup.
"""

from collections.abc import Iterator
from hashlib import sha256

import msgspec

from grove.api.types.meta import JsonObject
from grove.cluster.apiserver.auth.rbac_authorizer import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, RBAC
from grove.cluster.apiserver.auth.rbac_escalation import is_covered
from grove.cluster.apiserver.context import Context
from grove.cluster.apiserver.registry.metadata import format_time, generate_uid
from grove.cluster.built_in_resources import ResourceInfo
from grove.installation.user_roles import EDIT_RULES, VIEW_RULES

_LABELS = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_AUTOUPDATE = "rbac.authorization.kubernetes.io/autoupdate"
# The hash of what the server stored: another content was changed by a client.
_HASH = "grove.io/rbac-defaults-hash"
_READ = ["get", "list", "watch"]
_WRITE = ["create", "delete", "deletecollection", "patch", "update"]
_VIEWED = ["configmaps", "events", "namespaces", "namespaces/status", "pods", "pods/log", "pods/status",
           "resourcequotas", "resourcequotas/status", "serviceaccounts", "services", "services/status"]  # fmt: skip
_PROBES = ["/healthz", "/livez", "/readyz", "/readyz/*", "/version", "/version/"]
_DISCOVERY = ["/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi", "/openapi/*", "/readyz",
              "/version", "/version/"]  # fmt: skip


def store_rbac_defaults(context: Context) -> None:
    """Store the defaults, unless there are cluster roles already."""
    if context.store.table(CLUSTER_ROLES).count(""):
        return
    for resource_info, name, content in _defaults():
        _store(context, resource_info, name, content)


def update_rbac_defaults(context: Context) -> None:
    """Reconcile the defaults of a persisted store with those of this version. Called at startup.

    As in kube-apiserver, missing defaults are created, missing permissions and subjects are added, and an object whose
    annotation `rbac.authorization.kubernetes.io/autoupdate` is "false" stays. A default that no client has changed
    becomes that of this version, so that it also loses permissions. So does one without annotations: older versions
    wrote none.
    """
    for resource_info, name, content in _defaults():
        entry = context.store.table(resource_info).find("", name)
        if entry is None:
            _store(context, resource_info, name, content)
        elif (updated := _update(entry.obj, content)) != entry.obj:
            context.store.put(resource_info, "", name, updated)


def _update(obj: JsonObject, content: JsonObject) -> JsonObject:
    annotations = obj["metadata"].get("annotations") or {}
    if annotations.get(_AUTOUPDATE) == "false":
        return obj
    if annotations.get(_HASH) not in (None, _hash({field: obj.get(field) for field in content})):
        return {**obj, **_merge(obj, content)}
    metadata = {**obj["metadata"], "annotations": {**annotations, **_annotations(content)}}
    return {**obj, "metadata": metadata, **content}


def _defaults() -> Iterator[tuple[ResourceInfo, str, JsonObject]]:
    for name, rules in _roles().items():
        yield CLUSTER_ROLES, name, {"rules": rules}
    for name, groups in _BINDINGS.items():
        subjects = [{"kind": "Group", "apiGroup": RBAC, "name": group} for group in groups]
        reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": name}
        yield CLUSTER_ROLE_BINDINGS, name, {"roleRef": reference, "subjects": subjects}


def _merge(obj: JsonObject, content: JsonObject) -> JsonObject:
    """Return the rules or subjects of an object, and those of the default that it lacks."""
    if "rules" in content:
        own = obj.get("rules") or []
        return {"rules": [*own, *(rule for rule in content["rules"] if not is_covered(rule, own))]}
    bound = obj.get("subjects") or []
    return {"subjects": [*bound, *(one for one in content["subjects"] if one not in bound)]}


_BINDINGS = {
    "cluster-admin": ("system:masters",),
    "system:basic-user": ("system:authenticated",),
    "system:discovery": ("system:authenticated",),
    "system:public-info-viewer": ("system:authenticated", "system:unauthenticated"),
}


def _roles() -> dict[str, list[JsonObject]]:
    return {
        "admin": [
            *_edit_rules(),
            _rule(RBAC, ["roles", "rolebindings"], [*_READ, *_WRITE]),
            _rule("authorization.k8s.io", ["localsubjectaccessreviews"], ["create"]),
        ],
        "cluster-admin": [_rule("*", ["*"], ["*"]), {"nonResourceURLs": ["*"], "verbs": ["*"]}],
        "edit": _edit_rules(),
        "system:basic-user": [
            _rule("authorization.k8s.io", ["selfsubjectaccessreviews", "selfsubjectrulesreviews"], ["create"]),
            _rule("authentication.k8s.io", ["selfsubjectreviews"], ["create"]),
        ],
        "system:discovery": [{"nonResourceURLs": _DISCOVERY, "verbs": ["get"]}],
        "system:public-info-viewer": [{"nonResourceURLs": _PROBES, "verbs": ["get"]}],
        "view": _view_rules(),
    }


def _view_rules() -> list[JsonObject]:
    """Return the rules of `view`: what a real API server grants, of the kinds served here, and the kinds of Grove."""
    return [
        _rule("", _VIEWED, _READ),
        _rule("events.k8s.io", ["events"], _READ),
        _rule("apps", ["controllerrevisions"], _READ),
        _rule("autoscaling", ["horizontalpodautoscalers", "horizontalpodautoscalers/status"], _READ),
        _rule("policy", ["poddisruptionbudgets", "poddisruptionbudgets/status"], _READ),
        *(rule.wire() for rule in VIEW_RULES),
    ]


def _edit_rules() -> list[JsonObject]:
    return [
        *_view_rules(),
        _rule("", ["secrets"], _READ),
        _rule("", ["configmaps", "events", "pods", "secrets", "serviceaccounts", "services"], _WRITE),
        _rule("", ["pods/eviction", "serviceaccounts/token"], ["create"]),
        _rule("events.k8s.io", ["events"], _WRITE),
        _rule("autoscaling", ["horizontalpodautoscalers"], _WRITE),
        _rule("policy", ["poddisruptionbudgets"], _WRITE),
        _rule("coordination.k8s.io", ["leases"], [*_READ, *_WRITE]),
        *(rule.wire() for rule in EDIT_RULES),
    ]


def _rule(group: str, resources: list[str], verbs: list[str]) -> JsonObject:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}


def _store(context: Context, resource_info: ResourceInfo, name: str, content: JsonObject) -> None:
    metadata = {
        "name": name,
        "uid": generate_uid(context.random),
        "creationTimestamp": format_time(context.started_at),
        "labels": _LABELS,
        "annotations": _annotations(content),
    }
    obj = {"kind": resource_info.kind, "apiVersion": resource_info.api_version, "metadata": metadata, **content}
    context.store.put(resource_info, "", name, obj)


def _annotations(content: JsonObject) -> dict[str, str]:
    return {_AUTOUPDATE: "true", _HASH: _hash(content)}


def _hash(content: JsonObject) -> str:
    return sha256(msgspec.json.encode(content, order="sorted")).hexdigest()[:16]

"""Default roles and bindings: `cluster-admin`, `admin`, `edit`, `view`, discovery and self reviews.

They are stored on the first request for RBAC objects or by a restricted user, because most embedded clusters need none.
"""

from grove.api.types.meta import JsonObject
from grove.cluster.apiserver.auth.rbac_authorizer import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, RBAC
from grove.cluster.apiserver.context import Context
from grove.cluster.apiserver.registry.metadata import format_time, generate_uid
from grove.cluster.built_in_resources import ResourceInfo
from grove.installation.user_roles import EDIT_RULES, VIEW_RULES

_LABELS = {"kubernetes.io/bootstrapping": "rbac-defaults"}
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
    for name, rules in _roles().items():
        _store(context, CLUSTER_ROLES, name, {"rules": rules})
    for name, groups in _BINDINGS.items():
        subjects = [{"kind": "Group", "apiGroup": RBAC, "name": group} for group in groups]
        reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": name}
        _store(context, CLUSTER_ROLE_BINDINGS, name, {"roleRef": reference, "subjects": subjects})


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
    }
    obj = {"kind": resource_info.kind, "apiVersion": resource_info.api_version, "metadata": metadata, **content}
    context.store.put(resource_info, "", name, obj)

"""Default roles and bindings: `cluster-admin`, `admin`, `edit`, `view`, discovery and self reviews.

They are stored on the first request for RBAC objects or by a restricted user, because most embedded clusters need none.
"""

from grove.api.types.meta import JsonObject
from grove.cluster.apiserver.auth.rbac_authorizer import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, RBAC
from grove.cluster.apiserver.context import Context
from grove.cluster.apiserver.registry.metadata import draw_uid, wire_time
from grove.cluster.built_in_resources import SERVED, ResourceInfo

_LABELS = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_READ = ["get", "list", "watch"]
_WRITE = ["create", "delete", "deletecollection", "patch", "update"]
_NOT_OF_USERS = ("events", "resourcequotas")
_PROBES = ["/healthz", "/livez", "/readyz", "/readyz/*", "/version", "/version/"]
_DISCOVERY = ["/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi", "/openapi/*", "/readyz",
              "/version", "/version/"]  # fmt: skip


def store_rbac_defaults(context: Context) -> None:
    """Store the defaults, unless there are cluster roles already."""
    if context.store.table(CLUSTER_ROLES).count(""):
        return
    for name, rules in _roles().items():
        _store(context, CLUSTER_ROLES, name, {"rules": rules})
    for name, groups in _BOUND.items():
        subjects = [{"kind": "Group", "apiGroup": RBAC, "name": group} for group in groups]
        reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": name}
        _store(context, CLUSTER_ROLE_BINDINGS, name, {"roleRef": reference, "subjects": subjects})


_BOUND = {
    "cluster-admin": ("system:masters",),
    "system:basic-user": ("system:authenticated",),
    "system:discovery": ("system:authenticated",),
    "system:public-info-viewer": ("system:authenticated", "system:unauthenticated"),
}


def _roles() -> dict[str, list[JsonObject]]:
    return {
        "admin": [*_editing(), _rule(RBAC, ["roles", "rolebindings"], [*_READ, *_WRITE])],
        "cluster-admin": [_rule("*", ["*"], ["*"]), {"nonResourceURLs": ["*"], "verbs": ["*"]}],
        "edit": _editing(),
        "system:basic-user": [
            _rule("authorization.k8s.io", ["selfsubjectaccessreviews", "selfsubjectrulesreviews"], ["create"]),
            _rule("authentication.k8s.io", ["selfsubjectreviews"], ["create"]),
        ],
        "system:discovery": [{"nonResourceURLs": _DISCOVERY, "verbs": ["get"]}],
        "system:public-info-viewer": [{"nonResourceURLs": _PROBES, "verbs": ["get"]}],
        "view": _viewing(),
    }


def _viewing() -> list[JsonObject]:
    """Return the rules of `view`: everything in a namespace except secrets and RBAC objects."""
    found = []
    for group, plurals in _workloads().items():
        shown = [plural for plural in plurals if plural != "secrets"]
        if group == "":
            shown += ["pods/log", "pods/status", "namespaces"]
        found.append(_rule(group, sorted(shown), _READ))
    return found


def _editing() -> list[JsonObject]:
    written = [_rule(group, sorted(plurals), _WRITE) for group, plurals in _workloads().items()]
    secrets = _rule("", ["secrets"], _READ)
    tokens = _rule("", ["serviceaccounts/token"], ["create"])
    evictions = _rule("", ["pods/eviction"], ["create"])
    return [*_viewing(), secrets, tokens, evictions, *written]


def _workloads() -> dict[str, list[str]]:
    """Return the namespaced resources by API group."""
    found: dict[str, list[str]] = {}
    for resource_info in SERVED:
        if resource_info.namespaced and resource_info.group != RBAC and resource_info.plural not in _NOT_OF_USERS:
            found.setdefault(resource_info.group, []).append(resource_info.plural)
    return found


def _rule(group: str, resources: list[str], verbs: list[str]) -> JsonObject:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}


def _store(context: Context, resource_info: ResourceInfo, name: str, content: JsonObject) -> None:
    metadata = {
        "name": name,
        "uid": draw_uid(context.random),
        "creationTimestamp": wire_time(context.started_at),
        "labels": _LABELS,
    }
    obj = {"kind": resource_info.kind, "apiVersion": resource_info.api_version, "metadata": metadata, **content}
    context.store.put(resource_info, "", name, obj)

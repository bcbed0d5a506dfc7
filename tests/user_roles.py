"""What users with the roles view, edit and admin may do in a namespace: asked of an API server, and as it should be.

Expected from Kubernetes' own roles and from `docs/how-to/install.md`. `tests/cluster/apiserver/test_user_roles.py` asks
the embedded server, `tests/e2e/test_user_roles_on_clusters.py` both.
"""

import msgspec

from grove.cluster.built_in_resources import SERVED
from grove.kube.response_decoding import check
from grove.kube.transport import Request, Transport

Granted = dict[str, tuple[str, ...]]

RBAC = "rbac.authorization.k8s.io"
USER_ROLES = ("view", "edit", "admin")
VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
READ = ("get", "list", "watch")
WRITE = ("create", "delete", "deletecollection", "patch", "update")
SUBRESOURCES = {
    "pods": ("status", "log", "eviction", "binding"),
    "serviceaccounts": ("token",),
    "podcliquesets": ("status", "scale", "finalizers"),
    "podcliques": ("status", "scale", "finalizers"),
    "podcliquescalinggroups": ("status", "scale", "finalizers"),
    "podgangs": ("status", "finalizers"),
}
_GROVE_PARTS = ("podcliques", "podcliquescalinggroups", "podgangs")
_SCALABLE = ("podcliquesets", "podcliques", "podcliquescalinggroups")


def expected(role: str) -> Granted:
    """The verbs by resource; resources that are not named are not granted."""
    seen: dict[str, tuple[str, ...]] = dict.fromkeys(
        ("pods", "services", "configmaps", "serviceaccounts", "events", "resourcequotas"), READ
    )
    seen |= dict.fromkeys(("controllerrevisions", "horizontalpodautoscalers", "poddisruptionbudgets"), READ)
    seen |= dict.fromkeys(("podcliquesets", *_GROVE_PARTS, "pods/status", "pods/log"), READ)
    seen |= {f"{name}/status": READ for name in ("podcliquesets", *_GROVE_PARTS)}
    seen |= {f"{name}/scale": READ for name in _SCALABLE}
    if role == "view":
        return seen
    written: tuple[str, ...] = ("pods", "services", "configmaps", "secrets", "serviceaccounts", "events", "leases")
    written += ("horizontalpodautoscalers", "poddisruptionbudgets", "podcliquesets")
    seen |= dict.fromkeys(written, VERBS)
    seen |= {f"{name}/scale": ("get", "list", "patch", "update", "watch") for name in _SCALABLE}
    seen |= {"pods/eviction": ("create",), "serviceaccounts/token": ("create",)}
    return seen if role == "edit" else seen | {"roles": VERBS, "rolebindings": VERBS}


async def bind(transport: Transport, namespace: str, role: str) -> None:
    """A user of the name of the role has it in the namespace."""
    body: dict[str, object] = {
        "metadata": {"name": role},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": role}],
    }
    await _post(transport, f"/apis/{RBAC}/v1/namespaces/{namespace}/rolebindings", body)


async def granted(transport: Transport, namespace: str, user: str) -> Granted:
    """What the server says that the user may do there with each kind that the embedded server serves."""
    found: Granted = {}
    for info in SERVED:
        if not info.namespaced:
            continue
        for name in (info.plural, *(f"{info.plural}/{one}" for one in SUBRESOURCES.get(info.plural, ()))):
            verbs = [verb for verb in VERBS if await _may(transport, namespace, user, info.group, name, verb)]
            if verbs:
                found[name] = tuple(verbs)
    return found


async def _may(transport: Transport, namespace: str, user: str, group: str, name: str, verb: str) -> bool:
    resource, _, subresource = name.partition("/")
    asked = {"namespace": namespace, "verb": verb, "group": group, "resource": resource, "subresource": subresource}
    answer = await _post(
        transport,
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        {"spec": {"user": user, "resourceAttributes": asked}},
    )
    allowed: bool = answer["status"]["allowed"]
    return allowed


async def _post(transport: Transport, path: str, body: dict[str, object]) -> dict[str, dict[str, bool]]:
    request = Request(method="POST", path=path, body=msgspec.json.encode(body))
    response = await transport.send(request)
    check(request, response)
    decoded: dict[str, dict[str, bool]] = msgspec.json.decode(response.body)
    return decoded

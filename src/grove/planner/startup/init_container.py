"""Add the init container that holds a pod until the cliques it starts after have their minimum of ready pods.

It is added to the pod, never to the PodClique: it is not part of the template hash, so neither a new operator nor
another image of the init container restarts a pod. Its token is a projected volume that only this container mounts.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from grove.api import labels
from grove.api.types.meta import JsonObject
from grove.api.values.clique_counts import (
    INIT_CONTAINER,
    POD_INFO_VOLUME,
    PODCLIQUES_FLAG,
    TOKEN_VOLUME,
    CliqueCount,
)
from grove.planner.desired_state import DesiredClique
from grove.planner.views import CliqueView

# Kubernetes renews the token before it expires.
TOKEN_SECONDS = 3600
# Small, but enough to start quickly; equal, so that a pod of the class Guaranteed stays one.
_RESOURCES: JsonObject = {
    "requests": {"cpu": "100m", "memory": "64Mi"},
    "limits": {"cpu": "100m", "memory": "64Mi"},
}


def awaited_cliques(
    clique: CliqueView, cliques: Mapping[str, CliqueView], desired: Iterable[DesiredClique]
) -> tuple[CliqueCount, ...]:
    """Return the cliques that the pods of a clique wait for, with the number of ready pods that each needs.

    A clique whose group is scaled to zero is not wanted, so nothing waits for it.
    """
    wanted = {one.name: one for one in desired} if clique.clique.spec.starts_after else {}
    return tuple(
        CliqueCount(name=name, count=_minimum(wanted[name], cliques.get(name)))
        for name in clique.clique.spec.starts_after
        if name in wanted
    )


def _minimum(desired: DesiredClique, observed: CliqueView | None) -> int:
    if observed is not None:
        return max(1, observed.clique.min_available)
    spec = desired.template.spec
    return max(1, spec.replicas if spec.min_available is None else spec.min_available)


def add_init_container(pod_spec: JsonObject, awaited: tuple[CliqueCount, ...], image: str) -> None:
    """Append the init container and its volumes to a pod. The user's init containers run before it."""
    pod_spec["initContainers"] = [*(pod_spec.get("initContainers") or ()), _container(pod_spec, awaited, image)]
    pod_spec["volumes"] = [*(pod_spec.get("volumes") or ()), *_volumes()]


def _container(pod_spec: JsonObject, awaited: tuple[CliqueCount, ...], image: str) -> JsonObject:
    container: JsonObject = {
        "name": INIT_CONTAINER,
        "image": image,
        "command": ["grove", "wait"],
        "args": [f"{PODCLIQUES_FLAG}={one}" for one in awaited],
        "volumeMounts": [
            {"name": POD_INFO_VOLUME, "mountPath": "/var/grove/pod-info", "readOnly": True},
            {"name": TOKEN_VOLUME, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": True},
        ],
        # What the restricted Pod Security Standard demands, so that no namespace rejects the pod because of it.
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    if _has_resources(pod_spec):
        # A quota on cpu or memory demands a value of every container.
        container["resources"] = _RESOURCES
    return container


def _has_resources(pod_spec: JsonObject) -> bool:
    containers: list[dict[str, Any]] = pod_spec.get("containers") or []
    return any((one.get("resources") or {}).get(key) for one in containers for key in ("requests", "limits"))


def _volumes() -> list[JsonObject]:
    namespace = {"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}
    gang = {"path": "podgangname", "fieldRef": {"fieldPath": f"metadata.labels['{labels.PODGANG}']"}}
    token = {"serviceAccountToken": {"path": "token", "expirationSeconds": TOKEN_SECONDS}}
    ca = {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}}
    return [
        {"name": POD_INFO_VOLUME, "downwardAPI": {"items": [namespace, gang]}},
        {"name": TOKEN_VOLUME, "projected": {"sources": [token, ca, {"downwardAPI": {"items": [namespace]}}]}},
    ]

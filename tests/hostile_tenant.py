"""What a hostile tenant makes: copies of the parts of a set that is not theirs, with whatever could make them count.

Only the API is used, so the same attacks run in the simulation and on every server.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Any

import msgspec

from grove.api import labels
from grove.api.resources import (
    CONTROLLER_REVISIONS,
    GROUPS,
    LEASES,
    PODCLIQUES,
    PODCLIQUESETS,
    PODGANGS,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SERVICES,
    Resource,
)
from grove.api.types.meta import JsonObject, ObjectMeta, WireStruct, to_wire
from grove.kube.api_errors import ApiError
from grove.kube.client import Client

HOLD = "hostile.example/hold"
EVIL_IMAGE = "registry.example/evil:1"
# The highest number that an API server can store.
LAST_NUMBER = 2**63 - 1
PARTS: tuple[Resource[Any], ...] = (GROUPS, PODCLIQUES, PODGANGS, PODS, SERVICES, CONTROLLER_REVISIONS)
# A copy of the set comes last: it makes parts of its own, under the same names.
KINDS: tuple[Resource[Any], ...] = (*PARTS, PODCLIQUESETS)
_LONG_AGO = "2020-01-01T00:00:00Z"
_BREACH: JsonObject = {
    "type": "MinAvailableBreached",
    "status": "True",
    "reason": "Forged",
    "message": "",
    "lastTransitionTime": _LONG_AGO,
}
_STATUS: dict[str, JsonObject] = {
    PODCLIQUES.plural: {"wasAvailable": True, "conditions": [_BREACH], "succeededIndices": [0, 1, 2, 3]},
    GROUPS.plural: {"conditions": [_BREACH]},
    PODGANGS.plural: {"phase": "Failed"},
    PODS.plural: {"phase": "Succeeded"},
}
# What differs between two runs of the same story, and where pods found room beside those of others.
_UNSTEADY = frozenset(
    {"resourceVersion", "managedFields", "creationTimestamp", "deletionTimestamp", "lastTransitionTime",
     "lastProbeTime", "startTime", "startedAt", "finishedAt", "observedAt", "updateStartedAt", "updateEndedAt",
     "nodeName", "hostIP", "hostIPs", "podIP", "podIPs", "containerID"}
)  # fmt: skip


class Claim(StrEnum):
    """What an object says of its owner."""

    CONTROLLER = "the right uid, kind and controller"
    WRONG_KIND = "the right uid, of another kind"
    WRONG_NAME = "the right uid, under another name"
    BYSTANDER = "the right owner, not as controller"
    LABELS_ONLY = "no owner, only the labels"


class Attack(msgspec.Struct, frozen=True, kw_only=True):
    """Copies of every object of one kind of a set."""

    resource: Resource[Any]
    claim: Claim
    # It carries a finalizer, and its deletion has begun: no garbage collector removes it.
    is_held: bool = False

    def __str__(self) -> str:
        return f"{self.resource.plural}, {self.claim}{', being deleted and held' if self.is_held else ''}"


ATTACKS = tuple(
    Attack(resource=resource, claim=claim, is_held=is_held)
    for resource in KINDS
    for claim in Claim
    for is_held in (False, True)
)


class Raw(WireStruct):
    """An object as it was written."""

    metadata: ObjectMeta
    spec: JsonObject = {}
    status: JsonObject = {}
    data: JsonObject | None = None
    revision: int = 0


def _clique(name: str, pods: int, **annotations: str) -> JsonObject:
    container = {"name": "main", "image": "good", "env": [{"name": "KEY", "value": "secret"}]}
    spec = {"roleName": name, "replicas": pods, "minAvailable": 1, "podSpec": {"containers": [container]}}
    return {"name": name, "annotations": annotations, "spec": spec}


def serving() -> JsonObject:
    """A front, and a group of two replicas: the second is a scaled gang."""
    group = {"name": "g", "cliqueNames": ["m"], "replicas": 2, "minAvailable": 1}
    cliques = [_clique("front", 1), _clique("m", 2)]
    template = {"cliques": cliques, "podCliqueScalingGroups": [group], "terminationDelay": "10s"}
    return _manifest("web", {"replicas": 1, "template": template})


def training() -> JsonObject:
    """Two pods that run for ten hours."""
    worker = _clique("worker", 2, **{labels.SIM_EXIT_AFTER: "10h", labels.SIM_EXIT_CODE: "0"})
    worker["spec"] |= {"minAvailable": 2}
    worker["spec"]["podSpec"]["restartPolicy"] = "Never"
    return _manifest("job", {"replicas": 1, "workloadType": "Training", "template": {"cliques": [worker]}})


def _manifest(name: str, spec: JsonObject) -> JsonObject:
    return {"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "metadata": {"name": name}, "spec": spec}


async def forge_all(client: Client, attack: Attack, *, victim: str, namespace: str) -> list[str]:
    """Copy every object of the kind from the namespace of the victim into another, or the same; return the names."""
    found = await client.list(attack.resource.viewed_as(Raw), namespace=victim)
    return [await forge(client, attack, one, namespace) for one in found.items]


async def forge(client: Client, attack: Attack, original: Raw, namespace: str) -> str:
    resource, metadata = attack.resource, original.metadata
    # In the namespace of the victim its name is taken.
    name = metadata.name if namespace != metadata.namespace else f"hostile-{metadata.name}"
    body = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": metadata.labels,
            "annotations": {**metadata.annotations, **_annotations(resource)},
            "ownerReferences": _owners(attack, metadata),
            "finalizers": [HOLD] if attack.is_held else [],
        },
        **_content(resource, original),
    }
    await client.create(resource, namespace, body)
    if resource.plural in _STATUS:
        patch = {"status": _STATUS[resource.plural]}
        # The garbage collector may have been faster.
        with suppress_not_found():
            await client.patch(resource, namespace, name, patch, subresource="status")
    if attack.is_held:
        await client.delete(resource, namespace, name, grace_period_seconds=0 if resource is PODS else None)
    return name


async def retarget(client: Client, attack: Attack, name: str, original: Raw, namespace: str) -> None:
    """Let an object that exists claim to be another one: its labels, and its owner as the attack says."""
    metadata = {"labels": original.metadata.labels, "ownerReferences": _owners(attack, original.metadata)}
    await client.patch(attack.resource, namespace, name, {"metadata": metadata})


@contextmanager
def suppress_not_found() -> Iterator[None]:
    try:
        yield
    except ApiError as error:
        if not error.is_not_found:
            raise


async def take_lease(client: Client, name: str, namespace: str) -> None:
    """A lease of the operator's name, held for ever."""
    spec = {"holderIdentity": "hostile", "leaseDurationSeconds": 10**6, "renewTime": "2090-01-01T00:00:00.000000Z"}
    body = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": {"name": name}, "spec": spec}
    await client.create(LEASES, namespace, body)


async def release(client: Client, resource: Resource[Any], namespace: str) -> None:
    """Let go of what is held, so that a namespace can be cleaned up."""
    for one in (await client.list(resource.viewed_as(Raw), namespace=namespace)).items:
        if HOLD in one.metadata.finalizers:
            await client.patch(resource, namespace, one.metadata.name, {"metadata": {"finalizers": None}})


async def seen_of(client: Client, namespace: str, born_before: frozenset[str]) -> dict[str, Any]:
    """Every object of a set's kinds in a namespace; of those that were there before also the uid."""
    return {
        f"{resource.plural}/{one.metadata.name}": _steady(to_wire(one), born_before)
        for resource in KINDS
        for one in (await client.list(resource.viewed_as(Raw), namespace=namespace)).items
    }


async def uids_in(client: Client, namespace: str) -> frozenset[str]:
    found = [await client.list(resource.viewed_as(Raw), namespace=namespace) for resource in KINDS]
    return frozenset(one.metadata.uid for listing in found for one in listing.items)


def _steady(value: Any, born_before: frozenset[str]) -> Any:
    if isinstance(value, dict):
        return {
            key: _steady(inner, born_before)
            for key, inner in value.items()
            if key not in _UNSTEADY and (key != "uid" or inner in born_before)
        }
    return [_steady(inner, born_before) for inner in value] if isinstance(value, list) else value


def _owners(attack: Attack, metadata: ObjectMeta) -> list[JsonObject]:
    """Those of the original; a set, which has none, is claimed for itself."""
    if attack.claim is Claim.LABELS_ONLY:
        return []
    references = [to_wire(one) for one in metadata.owner_references] or [
        {
            "apiVersion": PODCLIQUESETS.api_version,
            "kind": PODCLIQUESETS.kind,
            "name": metadata.name,
            "uid": metadata.uid,
            "controller": True,
        }
    ]
    if attack.claim is Claim.WRONG_KIND:
        return [{**one, "apiVersion": "v1", "kind": "ConfigMap"} for one in references]
    if attack.claim is Claim.WRONG_NAME:
        return [{**one, "name": f"not-{one['name']}", "blockOwnerDeletion": False} for one in references]
    is_controller = attack.claim is Claim.CONTROLLER
    return [{**one, "controller": is_controller, "blockOwnerDeletion": False} for one in references]


def _annotations(resource: Resource[Any]) -> dict[str, str]:
    """What the operator itself writes when it has begun to tear a gang down, for good and to come back."""
    if resource is not PODGANGS:
        return {}
    return {labels.TEARDOWN: "1", labels.RECREATION: '{"count":7,"open":[{"incarnation":"1.7","reason":"forged"}]}'}


def _content(resource: Resource[Any], original: Raw) -> JsonObject:
    if resource is CONTROLLER_REVISIONS:
        return {"data": _with_evil_images(original.data), "revision": LAST_NUMBER}
    if resource is PODS:
        # It finds no node: what counts is what its status says.
        containers = [{"name": "main", "image": EVIL_IMAGE}]
        return {"spec": {"containers": containers, "nodeSelector": {"hostile.example/nowhere": "x"}}}
    if resource is SERVICES:
        return {"spec": {"clusterIP": "None", "selector": {"hostile.example/app": "evil"}}}
    if resource in (GROUPS, PODCLIQUES):
        replicas = original.spec["replicas"] + 3
        return {"spec": {**_with_evil_images(original.spec), "replicas": replicas}}
    if resource is ROLES:
        return {"rules": []}
    if resource is ROLE_BINDINGS:
        return {"roleRef": {"apiGroup": ROLES.group, "kind": "ClusterRole", "name": "cluster-admin"}, "subjects": []}
    return {"spec": _with_evil_images(original.spec)}


def _with_evil_images(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: EVIL_IMAGE if key == "image" else _with_evil_images(inner) for key, inner in value.items()}
    return [_with_evil_images(inner) for inner in value] if isinstance(value, list) else value

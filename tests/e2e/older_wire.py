"""Objects as Grove in Go leaves them behind: its labels, finalizers, names and statuses, and nothing of ours.

grove-facts.md, sections 2.1 to 2.6: pods have drawn names, gangs carry no index, nobody has an incarnation or a
revision, hashes are of a kind that we do not compute.
"""

from typing import Any, TypeVar

from grove.api import labels
from grove.api.resources import GROUPS, PODCLIQUES, PODCLIQUESETS, PODGANGS, PODS, SERVICES, Object, Resource
from grove.api.types.meta import HasMetadata, JsonObject
from grove.api.types.podclique import PodClique
from tests.e2e.harness import Stage

T = TypeVar("T", bound=HasMetadata)

CONTAINERS: list[JsonObject] = [{"name": "main", "image": "registry.example/server:1"}]
_OURS = {labels.MANAGED_BY: labels.MANAGED_BY_VALUE, labels.PART_OF: "p"}
HASHES = {"a": "7c9d8b6f54", "b": "5f4d7c8b99", "c": "6b8f9d7c44"}
GENERATION_HASH = "84cf6d9b7"
# The resources that only Grove in Go makes for every set.
_ACCOUNTS = Resource(group="", version="v1", plural="serviceaccounts", kind="ServiceAccount", view=Object)
_SECRETS = Resource(group="", version="v1", plural="secrets", kind="Secret", view=Object)


class OlderSet:
    """Set `p` of Appendix A: clique a of two pods, group g of b and c with two replicas, one of them scaled."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.pod_names: dict[str, list[str]] = {}

    def manifest(self, *, image_of_a: str = "") -> JsonObject:
        """The set as its user has it, with another image for clique a."""
        spec = _set_spec()
        if image_of_a:
            containers = [{**CONTAINERS[0], "image": image_of_a}]
            spec["template"]["cliques"][0]["spec"]["podSpec"] = {"containers": containers}
        return {
            "apiVersion": PODCLIQUESETS.api_version,
            "kind": PODCLIQUESETS.kind,
            "metadata": {"name": "p"},
            "spec": spec,
        }

    async def write(self) -> None:
        """Everything that its operator had made, pods without their gates."""
        pcs = await self._create(PODCLIQUESETS, "p", {}, _set_spec(), finalizer=labels.SET_FINALIZER)
        owner = _owner(PODCLIQUESETS, pcs)
        await self._create(_ACCOUNTS, "p", {**_OURS, labels.COMPONENT: "pod-service-account"}, owner=owner)
        secret_labels = {**_OURS, labels.COMPONENT: "pod-sa-token-secret"}
        await self._create(_SECRETS, "p-ic-sat", secret_labels, owner=owner)
        replica = {labels.SET_REPLICA_INDEX: "0"}
        service_labels = {**_OURS, labels.NAME: "p-0", labels.COMPONENT: labels.COMPONENT_SERVICE, **replica}
        await self._create(SERVICES, "p-0", service_labels, _service_spec(), owner=owner)
        group_labels = {**_OURS, labels.NAME: "p-0-g", labels.COMPONENT: labels.COMPONENT_GROUP, **replica}
        group_spec = {"replicas": 2, "minAvailable": 1, "cliqueNames": ["b", "c"]}
        group = await self._create(
            GROUPS, "p-0-g", group_labels, group_spec, owner=owner, finalizer=labels.GROUP_FINALIZER
        )
        await self._clique("a", "p-0-a", owner, {labels.PODGANG: "p-0"}, replicas=2)
        for j in (0, 1):
            await self._group_replica(j, _owner(GROUPS, group))
        await self._gang("p-0", owner, ("p-0-a", "p-0-g-0-b", "p-0-g-0-c"))
        await self._gang("p-0-g-0", owner, ("p-0-g-1-b", "p-0-g-1-c"))
        await self._status(PODCLIQUESETS, "p", {"replicas": 1, "currentGenerationHash": GENERATION_HASH})

    async def _group_replica(self, j: int, owner: JsonObject) -> None:
        belongs = {labels.GROUP: "p-0-g", labels.GROUP_REPLICA_INDEX: str(j), labels.PODGANG: "p-0"}
        if j > 0:
            belongs |= {labels.PODGANG: f"p-0-g-{j - 1}", labels.BASE_PODGANG: "p-0"}
        for clique in ("b", "c"):
            await self._clique(clique, f"p-0-g-{j}-{clique}", owner, belongs, replicas=1)

    async def _clique(
        self, template: str, name: str, owner: JsonObject, belongs: dict[str, str], *, replicas: int
    ) -> None:
        component = labels.COMPONENT_MEMBER_CLIQUE if labels.GROUP in belongs else labels.COMPONENT_STANDALONE_CLIQUE
        clique_labels = {
            **_OURS,
            labels.NAME: name,
            labels.COMPONENT: component,
            labels.SET_REPLICA_INDEX: "0",
            labels.TEMPLATE_HASH: HASHES[template],
            **belongs,
        }
        spec = {**_clique_spec(template, replicas), "minAvailable": replicas}
        clique = await self._create(
            PODCLIQUES, name, clique_labels, spec, owner=owner, finalizer=labels.CLIQUE_FINALIZER
        )
        self.pod_names[name] = [await self._pod(clique, index) for index in range(replicas)]
        # It knew no `wasAvailable`.
        counts = ("replicas", "readyReplicas", "updatedReplicas", "scheduledReplicas")
        await self._status(PODCLIQUES, name, {**dict.fromkeys(counts, replicas), "scheduleGatedReplicas": 0})

    async def _pod(self, clique: PodClique, index: int) -> str:
        name = clique.metadata.name
        body = {
            "metadata": {
                "generateName": f"{name}-",
                "labels": {**clique.metadata.labels, labels.PODCLIQUE: name, labels.POD_INDEX: str(index)},
                "ownerReferences": [_owner(PODCLIQUES, clique)],
            },
            "spec": {
                "containers": CONTAINERS,
                "schedulerName": "default-scheduler",
                "hostname": f"{name}-{index}",
                "subdomain": "p-0",
            },
        }
        return (await self._stage.client.create(PODS, self._stage.namespace, body)).metadata.name

    async def _gang(self, name: str, owner: JsonObject, cliques: tuple[str, ...]) -> None:
        # No index of the replica, none of the group: its operator found gangs by their names.
        gang_labels = {**_OURS, labels.COMPONENT: "podgang", labels.SCHEDULER_NAME: "default-scheduler"}
        groups = [
            {
                "name": clique,
                "minReplicas": len(self.pod_names[clique]),
                "podReferences": [
                    {"namespace": self._stage.namespace, "name": pod} for pod in sorted(self.pod_names[clique])
                ],
            }
            for clique in cliques
        ]
        await self._create(PODGANGS, name, gang_labels, {"podgroups": groups}, owner=owner)
        await self._status(PODGANGS, name, {"phase": "Pending"})

    async def _create(
        self,
        resource: Resource[T],
        name: str,
        given: dict[str, str],
        spec: JsonObject | None = None,
        *,
        owner: JsonObject | None = None,
        finalizer: str = "",
    ) -> T:
        metadata: JsonObject = {"name": name, "labels": given, "finalizers": [finalizer] if finalizer else []}
        if owner is not None:
            metadata["ownerReferences"] = [owner]
        body: JsonObject = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
        if spec is not None:
            body["spec"] = spec
        return await self._stage.client.create(resource, self._stage.namespace, body)

    async def _status(self, resource: Resource[Any], name: str, status: JsonObject) -> None:
        patch = {"status": status}
        await self._stage.client.patch(resource, self._stage.namespace, name, patch, subresource="status")


def _set_spec() -> JsonObject:
    return {
        "replicas": 1,
        "template": {
            "cliqueStartupType": "CliqueStartupTypeAnyOrder",
            "headlessServiceConfig": {"publishNotReadyAddresses": True},
            # What its admission filled in.
            "terminationDelay": "4h0m0s",
            "cliques": [
                {"name": name, "spec": {**_clique_spec(name, count), "minAvailable": count}}
                for name, count in (("a", 2), ("b", 1), ("c", 1))
            ],
            "podCliqueScalingGroups": [{"name": "g", "cliqueNames": ["b", "c"], "replicas": 2, "minAvailable": 1}],
        },
    }


def _clique_spec(name: str, replicas: int) -> JsonObject:
    return {"roleName": f"role-{name}", "replicas": replicas, "podSpec": {"containers": CONTAINERS}}


def _service_spec() -> JsonObject:
    return {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {**_OURS, labels.SET_REPLICA_INDEX: "0"},
    }


def _owner(resource: Resource[Any], obj: HasMetadata) -> JsonObject:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": obj.metadata.name,
        "uid": obj.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }

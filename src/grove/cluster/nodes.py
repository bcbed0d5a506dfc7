"""Operations on the nodes of an embedded cluster: create, cordon, drain, fail, recover, remove.

Taints and evictions of failed nodes are in `node_lifecycle.py`; kubelets are in `kubelet/`.
"""

import asyncio
from collections.abc import Mapping
from itertools import count

import msgspec

from grove.api.resources import NODES, PODS
from grove.api.types.meta import JsonObject
from grove.api.values.times import wire_time
from grove.clock import Clock
from grove.cluster.apiserver.discovery import GIT_VERSION
from grove.cluster.node_pod_cache import NODE_VIEW
from grove.kube.api_errors import ApiError
from grove.kube.client import Client
from grove.kube.transport import STRATEGIC_PATCH

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
BLOCK = "topology.kubernetes.io/block"
RACK = "topology.kubernetes.io/rack"

# More nodes than one process can simulate.
_MAX_NODES = 20_000


class NodeTopology(msgspec.Struct, frozen=True, kw_only=True):
    """The topology labels of node n. Racks are filled one after the other, and so are blocks and zones."""

    nodes_per_rack: int = 4
    racks_per_block: int = 2
    blocks_per_zone: int = 2

    def labels(self, node_index: int) -> dict[str, str]:
        rack_index = node_index // self.nodes_per_rack
        block_index = rack_index // self.racks_per_block
        zone_index = block_index // self.blocks_per_zone
        return {ZONE: f"zone-{zone_index}", BLOCK: f"block-{block_index}", RACK: f"rack-{rack_index}"}


class NodeChanges(msgspec.Struct, frozen=True, kw_only=True):
    """The names of the nodes that a reconcile added, removed and resized."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    resized: tuple[str, ...] = ()


class Nodes:
    """A client for node operations: those of an administrator, and failures."""

    def __init__(self, client: Client, clock: Clock, layout: NodeTopology | None = None) -> None:
        self._client = client
        self._clock = clock
        self._layout = layout or NodeTopology()

    async def create(
        self, number: int, resources: Mapping[str, str], labels: Mapping[str, str] | None = None
    ) -> tuple[str, ...]:
        """Create `number` ready nodes with the lowest free names `node-0`, `node-1`, ...; return their names."""
        used_names = {node.metadata.name for node in (await self._client.list(NODES)).items}
        free = (index for index in count() if f"node-{index}" not in used_names)
        indices = [next(free) for _ in range(number)]
        for index in indices:
            await self._client.create(NODES, "", self._manifest(index, resources, labels or {}))
        return tuple(f"node-{index}" for index in indices)

    async def reconcile(
        self, number: int | None, resources: Mapping[str, str] | None, *, default_resources: Mapping[str, str]
    ) -> NodeChanges:
        """Bring the nodes of `create` to this number and size (None: unchanged). Other nodes stay.

        Without a size, new nodes are like the first existing one, or else have the default resources.
        """
        nodes = (await self._client.list(NODE_VIEW)).items
        sizes = {node.metadata.name: node.status.allocatable for node in nodes}
        existing = [name for name in (f"node-{index}" for index in range(_MAX_NODES)) if name in sizes]
        desired = existing if number is None else [f"node-{index}" for index in range(number)]
        added = {name: index for index, name in enumerate(desired) if name not in sizes}
        removed = tuple(name for name in existing if name not in desired)
        resized = tuple(
            name for name in existing if name in desired and resources is not None and sizes[name] != resources
        )
        size = resources or (sizes[existing[0]] if existing else default_resources)
        for index in added.values():
            await self._client.create(NODES, "", self._manifest(index, size, {}))
        for name in removed:
            await self.remove(name)
        for name in resized:
            await self._resize(name, sizes[name], resources or {})
        return NodeChanges(added=tuple(added), removed=removed, resized=resized)

    async def cordon(self, name: str) -> None:
        await self._client.patch(NODES, "", name, {"spec": {"unschedulable": True}})

    async def uncordon(self, name: str) -> None:
        await self._client.patch(NODES, "", name, {"spec": {"unschedulable": None}})

    async def drain(self, name: str) -> None:
        """Cordon the node and delete its pods, each with its own grace period."""
        await self.cordon(name)
        pods = await self._client.list(PODS, field_selector=f"spec.nodeName={name}")
        async with asyncio.TaskGroup() as group:
            for pod in pods.items:
                if not pod.metadata.is_terminating:
                    group.create_task(self._evict(pod.metadata.namespace, pod.metadata.name, pod.metadata.uid))

    async def fail(self, name: str) -> None:
        """Set the node's Ready condition to Unknown, as after a power failure."""
        message = "Kubelet stopped posting node status."
        await self._write_ready(name, status="Unknown", reason="NodeStatusUnknown", message=message)

    async def recover(self, name: str) -> None:
        await self._write_ready(name, status="True", reason="KubeletReady", message="kubelet is posting ready status")

    async def remove(self, name: str) -> None:
        """Delete the node. The pod garbage collector then deletes its pods."""
        await self._client.delete(NODES, "", name)

    async def _resize(self, name: str, before: Mapping[str, str], resources: Mapping[str, str]) -> None:
        amounts = {**dict.fromkeys(before), **resources}
        patch = {"status": {"capacity": amounts, "allocatable": amounts}}
        await self._client.patch(NODES, "", name, patch, subresource="status")

    async def _evict(self, namespace: str, name: str, uid: str) -> None:
        try:
            await self._client.delete(PODS, namespace, name, uid=uid)
        except ApiError as error:
            if not (error.is_not_found or error.is_conflict):  # Gone, or replaced by another pod: both are fine.
                raise

    async def _write_ready(self, name: str, *, status: str, reason: str, message: str) -> None:
        condition = self._ready_condition(status, reason, message)
        await self._client.patch(
            NODES, "", name, {"status": {"conditions": [condition]}},
            content_type=STRATEGIC_PATCH, subresource="status",
        )  # fmt: skip

    def _manifest(self, index: int, resources: Mapping[str, str], labels: Mapping[str, str]) -> JsonObject:
        name = f"node-{index}"
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {HOSTNAME: name} | self._layout.labels(index) | dict(labels)},
            "spec": {},
            "status": {
                "capacity": dict(resources),
                "allocatable": dict(resources),
                "addresses": [
                    {"type": "InternalIP", "address": f"192.168.{index // 250 % 256}.{index % 250 + 1}"},
                    {"type": "Hostname", "address": name},
                ],
                "nodeInfo": {
                    "kubeletVersion": GIT_VERSION,
                    "osImage": "Grove embedded cluster",
                    "operatingSystem": "linux",
                },
                "conditions": [self._ready_condition("True", "KubeletReady", "kubelet is posting ready status")],
            },
        }

    def _ready_condition(self, status: str, reason: str, message: str) -> JsonObject:
        return {
            "type": "Ready",
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": wire_time(self._clock.now()),
        }

"""A shared cache of nodes and the pods bound to them, for kubelets and the node lifecycle controller.

Not here: pods without a node, which the scheduler watches (`cluster/scheduler/scheduler.py`).
"""

import asyncio
from datetime import datetime
from random import Random
from typing import Any

from grove.api.resources import NODES, PODS
from grove.api.types.meta import Condition, JsonObject, ObjectMeta, Uid, WireStruct, find_condition, is_condition_true
from grove.api.types.pod import ContainerStatus
from grove.clock import Clock
from grove.kube.client import Client
from grove.kube.reflector import Reflector
from grove.kube.store import Store
from grove.kube.transport import STRATEGIC_PATCH


class BoundContainer(WireStruct):
    name: str = ""
    image: str = ""
    args: tuple[str, ...] = ()


class PodToleration(WireStruct):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class BoundPodSpec(WireStruct):
    node_name: str = ""
    restart_policy: str = "Always"
    containers: tuple[BoundContainer, ...] = ()
    init_containers: tuple[BoundContainer, ...] = ()
    tolerations: tuple[PodToleration, ...] = ()


class BoundPodStatus(WireStruct):
    phase: str = "Pending"
    conditions: tuple[Condition, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


class BoundPod(WireStruct):
    """A bound pod, with the fields that a kubelet needs."""

    metadata: ObjectMeta
    spec: BoundPodSpec = BoundPodSpec()
    status: BoundPodStatus = BoundPodStatus()

    @property
    def is_finished(self) -> bool:
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def reports_ready(self) -> bool:
        return is_condition_true(self.status.conditions, "Ready")


class NodeTaint(WireStruct):
    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: datetime | None = None


class BoundNodeSpec(WireStruct):
    unschedulable: bool = False
    taints: tuple[NodeTaint, ...] = ()


class NodeAddress(WireStruct):
    type: str = ""
    address: str = ""


class BoundNodeStatus(WireStruct):
    conditions: tuple[Condition, ...] = ()
    addresses: tuple[NodeAddress, ...] = ()
    # Quantities, not parsed.
    allocatable: dict[str, Any] = {}


class BoundNode(WireStruct):
    metadata: ObjectMeta
    spec: BoundNodeSpec = BoundNodeSpec()
    status: BoundNodeStatus = BoundNodeStatus()

    @property
    def readiness(self) -> str:
        """Return the status of the Ready condition: "True", "False", or "Unknown" (the kubelet does not report)."""
        condition = find_condition(self.status.conditions, "Ready")
        return condition.status if condition else "Unknown"

    @property
    def is_ready(self) -> bool:
        return self.readiness == "True"

    @property
    def address(self) -> str:
        return next((a.address for a in self.status.addresses if a.type == "InternalIP"), "")


NODE_VIEW = NODES.viewed_as(BoundNode)
BOUND_POD_VIEW = PODS.viewed_as(BoundPod)


class BoundPods:
    """A cache filled by one watch of nodes and one of bound pods. Pods of a node are in the order of their arrival."""

    def __init__(self, client: Client, clock: Clock, random: Random) -> None:
        self.nodes: Store[BoundNode] = Store()
        self.pods: Store[BoundPod] = Store()
        self._uids_on: dict[str, dict[Uid, None]] = {}
        self._reflectors = (
            Reflector(client, NODE_VIEW, self.nodes, clock, random),
            Reflector(client, BOUND_POD_VIEW, self.pods, clock, random, field_selector="spec.nodeName!="),
        )
        self.pods.subscribe(self._index)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for reflector in self._reflectors:
                group.create_task(reflector.run())

    def node(self, name: str) -> BoundNode | None:
        return self.nodes.by_name("", name)

    def uids_on(self, node_name: str) -> tuple[Uid, ...]:
        return tuple(self._uids_on.get(node_name, ()))

    def on(self, node_name: str) -> tuple[BoundPod, ...]:
        pods = (self.pods.get(uid) for uid in self.uids_on(node_name))
        return tuple(pod for pod in pods if pod is not None)

    async def patch_status(self, client: Client, pod: BoundPod, status: JsonObject) -> BoundPod:
        """Patch the status of a pod, update the cache and return the pod. Raises `ApiError`."""
        meta = pod.metadata
        # The uid is a precondition: a new pod of the same name must not get this status.
        patch: JsonObject = {"metadata": {"uid": meta.uid}, "status": status}
        patched = await client.patch(
            BOUND_POD_VIEW, meta.namespace, meta.name, patch, content_type=STRATEGIC_PATCH, subresource="status"
        )
        self.pods.observe(patched)
        return patched

    async def delete(self, client: Client, pod: BoundPod, *, grace_period_seconds: int | None = None) -> None:
        """Delete a pod and update the cache. Raises `ApiError`."""
        meta = pod.metadata
        remaining = await client.delete(
            BOUND_POD_VIEW, meta.namespace, meta.name, uid=meta.uid, grace_period_seconds=grace_period_seconds
        )
        if remaining is None:
            self.pods.forget(meta.uid)
        else:
            self.pods.observe(remaining)

    def _index(self, old: BoundPod | None, new: BoundPod | None) -> None:
        # A pod never moves to another node.
        if new is None and old is not None:
            uids = self._uids_on.get(old.spec.node_name, {})
            uids.pop(old.metadata.uid, None)
            if not uids:
                self._uids_on.pop(old.spec.node_name, None)
        elif old is None and new is not None:
            self._uids_on.setdefault(new.spec.node_name, {})[new.metadata.uid] = None

"""Node lifecycle controller: taints nodes that are not Ready, marks their pods not ready, and evicts pods in time.

It does what the node controller of Kubernetes does. Evicted pods stay terminating until their node recovers or is
removed.
"""

from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from random import Random

import msgspec

from grove.api.types.meta import JsonObject, to_wire
from grove.api.values.times import ceil_second, wire_time
from grove.clock import Clock
from grove.cluster.controllers.workqueue import DelayingQueue
from grove.cluster.node_pod_cache import (
    NODE_VIEW,
    BoundNode,
    BoundPod,
    BoundPods,
    NodeTaint,
    PodToleration,
)
from grove.kube.api_errors import ApiError
from grove.kube.client import Client

UNREACHABLE = "node.kubernetes.io/unreachable"
NOT_READY = "node.kubernetes.io/not-ready"
# How long a pod tolerates a node that is not ready, unless its tolerations set another time.
DEFAULT_TOLERATION = timedelta(seconds=300)

WORKERS = 4
RETRY_SECONDS = (0.5, 1.5)


class NodeActions(msgspec.Struct, frozen=True, kw_only=True):
    """The writes that a node needs now, and when to reconcile it again. All fields empty: the node needs nothing."""

    taints: tuple[NodeTaint, ...] | None = None
    no_longer_ready: tuple[BoundPod, ...] = ()
    evicted: tuple[BoundPod, ...] = ()
    requeue_at: datetime | None = None


def plan_node(node: BoundNode, pods: tuple[BoundPod, ...], now: datetime) -> NodeActions:
    """Return the writes for one node and its pods."""
    taints = _desired_taints(node, now)
    staying = tuple(pod for pod in pods if not pod.metadata.is_terminating and not pod.is_finished)
    evict_at = [(pod, _evict_at(pod, taints)) for pod in staying]
    return NodeActions(
        taints=taints if taints != node.spec.taints else None,
        no_longer_ready=() if node.is_ready else tuple(pod for pod in pods if pod.reports_ready),
        evicted=tuple(pod for pod, at in evict_at if at is not None and at <= now),
        requeue_at=min((at for _, at in evict_at if at is not None and at > now), default=None),
    )


class NodeLifecycle:
    """A controller that reconciles every node on watch events and at eviction times. The caller must run `bound`."""

    def __init__(self, client: Client, clock: Clock, random: Random, bound: BoundPods) -> None:
        self._client = client
        self._clock = clock
        self._random = random
        self._bound = bound
        self._queue: DelayingQueue[str] = DelayingQueue(clock)
        bound.pods.subscribe(self._pod_changed)
        bound.nodes.subscribe(self._node_changed)

    async def run(self) -> None:
        await self._queue.run(self._reconcile, workers=WORKERS)

    def _node_changed(self, old: BoundNode | None, new: BoundNode | None) -> None:
        if new is not None and (old is None or old.spec != new.spec or old.readiness != new.readiness):
            self._queue.add(new.metadata.name)

    def _pod_changed(self, _old: BoundPod | None, new: BoundPod | None) -> None:
        if new is None:
            return
        node = self._bound.node(new.spec.node_name)
        if node is not None and (not node.is_ready or node.spec.taints):
            self._queue.add(node.metadata.name)

    async def _reconcile(self, name: str) -> datetime | None:
        node = self._bound.node(name)
        if node is None:
            return None
        actions = plan_node(node, self._bound.on(name), self._clock.now())
        if await self._execute(node, actions):
            return actions.requeue_at
        return self._clock.now() + timedelta(seconds=self._random.uniform(*RETRY_SECONDS))

    async def _execute(self, node: BoundNode, actions: NodeActions) -> bool:
        """Return whether all writes succeeded. A failed write does not stop the others."""
        writes = [] if actions.taints is None else [self._write_taints(node, actions.taints)]
        writes += [self._mark_not_ready(pod) for pod in actions.no_longer_ready]
        writes += [self._bound.delete(self._client, pod) for pod in actions.evicted]
        return all([await _succeeds(write) for write in writes])

    async def _write_taints(self, node: BoundNode, taints: tuple[NodeTaint, ...]) -> None:
        patch: JsonObject = {
            "metadata": {"resourceVersion": node.metadata.resource_version},
            "spec": {"taints": [to_wire(taint) for taint in taints]},
        }
        self._bound.nodes.observe(await self._client.patch(NODE_VIEW, "", node.metadata.name, patch))

    async def _mark_not_ready(self, pod: BoundPod) -> None:
        condition = {
            "type": "Ready",
            "status": "False",
            "reason": "NodeNotReady",
            "message": f"node {pod.spec.node_name} is not ready",
            "lastTransitionTime": wire_time(self._clock.now()),
        }
        await self._bound.patch_status(self._client, pod, {"conditions": [condition]})


async def _succeeds(write: Coroutine[object, object, None]) -> bool:
    try:
        await write
    except ApiError:
        return False
    return True


def _desired_taints(node: BoundNode, now: datetime) -> tuple[NodeTaint, ...]:
    """Return the taints of the node, with those of this controller set by readiness. Existing taints keep their time.

    The taints of other writers are not changed.
    """
    key = {"True": None, "False": NOT_READY}.get(node.readiness, UNREACHABLE)
    kept = tuple(taint for taint in node.spec.taints if taint.key == key or taint.key not in (UNREACHABLE, NOT_READY))
    effects = [] if key is None else ["NoSchedule", "NoExecute"]
    missing = [effect for effect in effects if not any((t.key, t.effect) == (key, effect) for t in kept)]
    return kept + tuple(NodeTaint(key=key or "", effect=effect, time_added=ceil_second(now)) for effect in missing)


def _evict_at(pod: BoundPod, taints: tuple[NodeTaint, ...]) -> datetime | None:
    """Return when the pod is evicted by the first taint that it no longer tolerates, or None."""
    instants = (_expires_at(pod, taint) for taint in taints if taint.effect == "NoExecute")
    return min((instant for instant in instants if instant is not None), default=None)


def _expires_at(pod: BoundPod, taint: NodeTaint) -> datetime | None:
    added_at = taint.time_added or datetime.min.replace(tzinfo=UTC)
    tolerations = [toleration for toleration in pod.spec.tolerations if _tolerates(toleration, taint)]
    if tolerations:
        limits = [t.toleration_seconds for t in tolerations if t.toleration_seconds is not None]
        return added_at + timedelta(seconds=max(min(limits), 0)) if limits else None
    return added_at + DEFAULT_TOLERATION if taint.key in (UNREACHABLE, NOT_READY) else added_at


def _tolerates(toleration: PodToleration, taint: NodeTaint) -> bool:
    if toleration.effect not in ("", taint.effect):
        return False
    if toleration.operator == "Exists":
        return toleration.key in ("", taint.key)
    return (toleration.key, toleration.value) == (taint.key, taint.value)

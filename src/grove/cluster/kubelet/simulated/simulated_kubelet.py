"""A kubelet for all nodes at once that starts no process: bound pods become Running, Ready, and end as annotated.

Carries out the steps of `pod_state_machine.py`. A node that is not Ready has no working kubelet: its pods keep their
last status, and leaving ones stay, until the node recovers.
"""

from datetime import datetime, timedelta
from random import Random
from typing import assert_never

from grove.api.types.meta import JsonObject, Uid
from grove.clock import Clock
from grove.cluster.controllers.workqueue import DelayingQueue
from grove.cluster.kubelet.simulated.pod_state_machine import (
    Remove,
    Rest,
    Step,
    WaitUntil,
    WriteStatus,
    behaviour_of,
    next_step,
    refuse,
)
from grove.cluster.node_pod_cache import BOUND_POD_VIEW, BoundNode, BoundPod, BoundPods
from grove.kube.api_errors import ApiError
from grove.kube.client import Client
from grove.kube.transport import STRATEGIC_PATCH

WORKERS = 32
RETRY_SECONDS = (0.5, 1.5)


class SimulatedKubelet:
    """Works through the API only, and from watches only: idle costs nothing. `bound` is run by whoever made it.

    Pods that it `keeps` stay as they are, ready or not, until they are deleted.
    """

    def __init__(
        self,
        client: Client,
        clock: Clock,
        random: Random,
        bound: BoundPods,
        *,
        ready_after: timedelta = timedelta(0),
        stops_after: timedelta = timedelta(0),
        keeps: frozenset[Uid] = frozenset(),
    ) -> None:
        self._client = client
        self._clock = clock
        self._random = random
        self._bound = bound
        self._ready_after = ready_after
        self._stops_after = stops_after
        self._keeps = keeps
        self._agenda: DelayingQueue[Uid] = DelayingQueue(clock)
        # Exact starts; the wire has whole seconds only, which is what a restarted kubelet goes by.
        self._started_at: dict[Uid, datetime] = {}
        bound.pods.subscribe(self._pod_changed)
        bound.nodes.subscribe(self._node_changed)

    async def run(self) -> None:
        await self._agenda.run(self._reconcile, workers=WORKERS)

    def _pod_changed(self, old: BoundPod | None, new: BoundPod | None) -> None:
        if new is not None:
            self._agenda.add(new.metadata.uid)
        elif old is not None:
            self._started_at.pop(old.metadata.uid, None)

    def _node_changed(self, old: BoundNode | None, new: BoundNode | None) -> None:
        if new is not None and new.is_ready and not (old is not None and old.is_ready):
            for uid in self._bound.uids_on(new.metadata.name):
                self._agenda.add(uid)

    async def _reconcile(self, uid: Uid) -> datetime | None:
        pod = self._bound.pods.get(uid)
        node = self._bound.node(pod.spec.node_name) if pod is not None else None
        if pod is None or node is None or not node.is_ready:
            return None
        try:
            return await self._carry_out(pod, self._decide(pod, node))
        except ApiError:
            # Also after "not found" and "conflict": by then the watch has told what is true, or nothing has changed.
            return self._clock.now() + timedelta(seconds=self._random.uniform(*RETRY_SECONDS))

    def _decide(self, pod: BoundPod, node: BoundNode) -> Step:
        if pod.metadata.uid in self._keeps and not pod.metadata.is_terminating:
            return Rest()
        now = self._clock.now()
        try:
            behaviour = behaviour_of(pod, ready_after=self._ready_after, stops_after=self._stops_after)
        except ValueError as error:
            return refuse(pod, str(error), now)
        return next_step(
            pod, behaviour, now, started_at=self._started_at.get(pod.metadata.uid), host_ip=node.address
        )  # fmt: skip

    async def _carry_out(self, pod: BoundPod, step: Step) -> datetime | None:
        match step:
            case WriteStatus(status=status):
                await self._write(pod, status)
            case Remove():
                await self._remove(pod)
            case WaitUntil(until=until):
                return until
            case Rest():
                pass
            case _:
                assert_never(step)
        return None

    async def _write(self, pod: BoundPod, status: JsonObject) -> None:
        began_at = self._clock.now()
        meta = pod.metadata
        # The uid is a precondition: a new pod of the same name must not get this one's status.
        patch: JsonObject = {"metadata": {"uid": meta.uid}, "status": status}
        answer = await self._client.patch(
            BOUND_POD_VIEW, meta.namespace, meta.name, patch, content_type=STRATEGIC_PATCH, subresource="status"
        )
        if _run_number(answer) != _run_number(pod):
            self._started_at[meta.uid] = began_at
        self._bound.pods.observe(answer)

    async def _remove(self, pod: BoundPod) -> None:
        meta = pod.metadata
        left = await self._client.delete(
            BOUND_POD_VIEW, meta.namespace, meta.name, uid=meta.uid, grace_period_seconds=0
        )
        if left is None:
            self._bound.pods.forget(meta.uid)
        else:
            self._bound.pods.observe(left)


def _run_number(pod: BoundPod) -> int | None:
    """Which run of its containers this is; None: not running."""
    statuses = pod.status.container_statuses
    return statuses[0].restart_count if statuses and statuses[0].state.running else None

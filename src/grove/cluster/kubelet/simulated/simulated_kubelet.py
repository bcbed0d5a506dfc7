"""A kubelet for all nodes that starts no process: bound pods become Ready, and end as their annotations say.

It executes the steps of `pod_state_machine.py`. A node that is not ready has no working kubelet: its pods keep their
status, and terminating pods stay, until the node recovers.
"""

import asyncio
from datetime import datetime, timedelta
from random import Random
from typing import assert_never

from grove.api.types.meta import JsonObject, Uid
from grove.clock import Clock
from grove.cluster.controllers.workqueue import DelayingQueue
from grove.cluster.kubelet.simulated.pod_state_machine import (
    Idle,
    Remove,
    Step,
    WaitUntil,
    WriteStatus,
    awaited_by,
    next_step,
    read_behavior,
    reject_pod,
)
from grove.cluster.kubelet.started_cliques import StartedCliques
from grove.cluster.node_pod_cache import BoundNode, BoundPod, BoundPods
from grove.kube.api_errors import ApiError
from grove.kube.client import Client

WORKERS = 32
RETRY_SECONDS = (0.5, 1.5)


class SimulatedKubelet:
    """A kubelet that uses only the API and watches. The caller must run `bound`.

    The status of `unmanaged` pods does not change until they are deleted.
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
        unmanaged: frozenset[Uid] = frozenset(),
    ) -> None:
        self._client = client
        self._clock = clock
        self._random = random
        self._bound = bound
        self._ready_after = ready_after
        self._stops_after = stops_after
        self._unmanaged = unmanaged
        self._queue: DelayingQueue[Uid] = DelayingQueue(clock)
        # Exact start times. The wire has whole seconds only; a restarted kubelet uses those.
        self._started_at: dict[Uid, datetime] = {}
        self._cliques = StartedCliques(client, clock, random, self._queue.add)
        bound.pods.subscribe(self._pod_changed)
        bound.nodes.subscribe(self._node_changed)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._cliques.run())
            tasks.create_task(self._queue.run(self._reconcile, workers=WORKERS))

    def _pod_changed(self, old: BoundPod | None, new: BoundPod | None) -> None:
        if new is not None:
            self._queue.add(new.metadata.uid)
        elif old is not None:
            self._started_at.pop(old.metadata.uid, None)

    def _node_changed(self, old: BoundNode | None, new: BoundNode | None) -> None:
        if new is not None and new.is_ready and not (old is not None and old.is_ready):
            for uid in self._bound.uids_on(new.metadata.name):
                self._queue.add(uid)

    async def _reconcile(self, uid: Uid) -> datetime | None:
        pod = self._bound.pods.get(uid)
        node = self._bound.node(pod.spec.node_name) if pod is not None else None
        if pod is None or node is None or not node.is_ready:
            return None
        try:
            return await self._execute(pod, self._decide(pod, node))
        except ApiError:
            # Also after "not found" and "conflict": by then the watch has delivered the change.
            return self._clock.now() + timedelta(seconds=self._random.uniform(*RETRY_SECONDS))

    def _decide(self, pod: BoundPod, node: BoundNode) -> Step:
        if pod.metadata.uid in self._unmanaged and not pod.metadata.is_terminating:
            return Idle()
        now = self._clock.now()
        try:
            behavior = read_behavior(pod, ready_after=self._ready_after, stops_after=self._stops_after)
            awaited = awaited_by(pod) if pod.status.phase == "Pending" else ()
        except ValueError as error:
            return reject_pod(pod, str(error), now)
        metadata = pod.metadata
        return next_step(
            pod,
            behavior,
            now,
            started_at=self._started_at.get(metadata.uid),
            host_ip=node.address,
            is_waiting=not self._cliques.have_started(metadata.uid, metadata.namespace, awaited),
        )

    async def _execute(self, pod: BoundPod, step: Step) -> datetime | None:
        match step:
            case WriteStatus(status=status):
                await self._write(pod, status)
            case Remove():
                await self._bound.delete(self._client, pod, grace_period_seconds=0)
            case WaitUntil(until=until):
                return until
            case Idle():
                pass
            case _:
                assert_never(step)
        return None

    async def _write(self, pod: BoundPod, status: JsonObject) -> None:
        started_at = self._clock.now()
        patched = await self._bound.patch_status(self._client, pod, status)
        if _running_restart_count(patched) != _running_restart_count(pod):
            self._started_at[pod.metadata.uid] = started_at


def _running_restart_count(pod: BoundPod) -> int | None:
    """Return the restart count of running containers; None: not running."""
    statuses = pod.status.container_statuses
    return statuses[0].restart_count if statuses and statuses[0].state.running else None

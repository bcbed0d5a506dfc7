"""Embedded gang scheduler: watches nodes, pods and gangs, runs scheduling cycles and binds pods.

`placement/` makes the decisions. The scheduler keeps pending pods in `scheduling_queue.py` and free capacity in
`Cluster`, and updates both one change at a time. It runs one cycle per burst of changes and none without changes. It
assumes its bindings until the watch confirms them or the API server rejects them.
"""

import asyncio
from collections.abc import Collection
from random import Random

from grove.api.resources import PODGANGS
from grove.api.types.meta import Uid
from grove.api.types.podgang import PodGang
from grove.clock import Clock
from grove.cluster.scheduler.scheduling_queue import QueuedPod, SchedulingQueue, State, scheduling_state
from grove.cluster.scheduler.scheduling_status import SchedulingStatusWriter
from grove.cluster.scheduler.types import (
    PRIORITIES,
    SCHEDULABLE_NODES,
    SCHEDULABLE_PODS,
    PriorityClass,
    SchedulableNode,
    SchedulablePod,
    node_view,
    scheduling_class_of,
)
from grove.kube.api_errors import ApiError
from grove.kube.client import Client
from grove.kube.reflector import Reflector
from grove.kube.store import Store
from grove.placement.capacity import Cluster
from grove.placement.cycle import schedule
from grove.placement.types import Binding, PodDemand

DEFAULT_NAMES = ("", "default-scheduler")
BINDERS = 32
FIRST_RETRY_SECONDS = 0.5
LONGEST_RETRY_SECONDS = 30.0
MAX_FAILURES = 10


class Scheduler:
    """A scheduler that places gangs together and other pods one by one."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        random: Random,
        *,
        batch_seconds: float = 0.05,
        served_names: Collection[str] = DEFAULT_NAMES,
    ) -> None:
        self._client = client
        self._clock = clock
        self._random = random
        self._batch_seconds = batch_seconds
        self._served_names = served_names
        self._nodes: Store[SchedulableNode] = Store()
        self._pods: Store[SchedulablePod] = Store()
        self._gangs: Store[PodGang] = Store()
        self._priorities: Store[PriorityClass] = Store()
        self._cluster = Cluster()
        self._queue = SchedulingQueue()
        self._status_writer = SchedulingStatusWriter(client, clock, random, self._pods, self._gangs)
        # Pods that the scheduler has bound and whose binding the watch has not confirmed yet, with their nodes.
        self._assumed: dict[Uid, str] = {}
        self._demands: dict[Uid, PodDemand] = {}
        self._to_bind: asyncio.Queue[Binding] = asyncio.Queue()
        self._wake = asyncio.Event()
        self._failure_counts: dict[Uid, int] = {}
        self.cycle_count = 0
        self._nodes.subscribe(self._node_changed)
        self._pods.subscribe(self._pod_changed)
        self._gangs.subscribe(self._gang_changed)
        self._priorities.subscribe(self._priority_changed)

    async def run(self) -> None:
        """Schedule until cancelled."""
        client, clock, random = self._client, self._clock, self._random
        nodes = Reflector(client, SCHEDULABLE_NODES, self._nodes, clock, random)
        pods = Reflector(client, SCHEDULABLE_PODS, self._pods, clock, random)
        gangs = Reflector(client, PODGANGS, self._gangs, clock, random)
        priorities = Reflector(client, PRIORITIES, self._priorities, clock, random)
        async with asyncio.TaskGroup() as group:
            for reflector in (nodes, pods, gangs, priorities):
                group.create_task(reflector.run())
            for reflector in (nodes, pods, gangs, priorities):
                await reflector.listed.wait()
            group.create_task(self._status_writer.run())
            for _ in range(BINDERS):
                group.create_task(self._run_binder(group))
            await self._run_cycles()

    # One cycle

    async def _run_cycles(self) -> None:
        while True:
            await self._wake.wait()
            # A burst of changes becomes one cycle, so that all pods of a gang are in the same cycle.
            await self._clock.sleep(self._batch_seconds)
            self._wake.clear()
            self._cycle()

    def _cycle(self) -> None:
        self.cycle_count += 1
        decisions = schedule(self._cluster, self._queue.gangs(), self._queue.ungrouped_pods())
        for binding in decisions.bindings:
            self._assume(binding)
        self._status_writer.update((*decisions.unplaced, *self._queue.pods_without_gang()))

    def _assume(self, binding: Binding) -> None:
        uid = binding.pod.uid
        self._assumed[uid] = binding.node
        self._cluster.place(binding.pod, binding.node)
        self._queue.set_pod(QueuedPod(demand=binding.pod, state=State.SCHEDULED, node=binding.node))
        self._to_bind.put_nowait(binding)

    # Binding

    async def _run_binder(self, group: asyncio.TaskGroup) -> None:
        while True:
            binding = await self._to_bind.get()
            pod = binding.pod
            try:
                await self._client.bind(pod.namespace, pod.name, binding.node, uid=pod.uid)
                self._failure_counts.pop(pod.uid, None)
            except ApiError:
                await self._refresh_pod(pod)
                if pod.uid in self._assumed:
                    group.create_task(self._retry_later(pod))

    async def _refresh_pod(self, pod: PodDemand) -> None:
        """Read the pod from the API server: its binding failed, or the response was lost."""
        try:
            self._pods.observe(await self._client.get(SCHEDULABLE_PODS, pod.namespace, pod.name))
        except ApiError as error:
            if error.is_not_found:
                self._pods.forget(pod.uid)

    async def _retry_later(self, pod: PodDemand) -> None:
        """Keep the capacity of a pod whose binding failed, then return the pod to the queue. The delay doubles.

        The other pods of its gang stay bound: a binding cannot be undone.
        """
        failures = self._failure_counts.get(pod.uid, 0)
        self._failure_counts[pod.uid] = min(failures + 1, MAX_FAILURES)
        delay = min(LONGEST_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2.0**failures)
        await self._clock.sleep(delay * self._random.uniform(0.8, 1.2))
        cached = self._pods.get(pod.uid)
        if self._assumed.pop(pod.uid, None) is not None and cached is not None:
            self._update_pod(cached)

    # Watch events

    def _node_changed(self, old: SchedulableNode | None, new: SchedulableNode | None) -> None:
        if new is not None:
            is_changed = self._cluster.set_node(node_view(new))
        else:
            is_changed = old is not None and self._cluster.remove_node(old.metadata.name)
        if is_changed:
            self._wake.set()

    def _gang_changed(self, old: PodGang | None, new: PodGang | None) -> None:
        if new is None or new.metadata.is_terminating:
            gone = new or old
            if gone is not None:
                self._queue.remove_gang(gone.metadata.namespace, gone.metadata.name)
        elif old is not None and old.metadata.generation == new.metadata.generation and old.spec == new.spec:
            return
        else:
            self._queue.set_gang(new, self._gang_priority(new))
        self._wake.set()

    def _priority_changed(self, _old: PriorityClass | None, _new: PriorityClass | None) -> None:
        self._demands.clear()
        for gang in self._gangs.values():
            if not gang.metadata.is_terminating:
                self._queue.set_gang(gang, self._gang_priority(gang))
        for pod in self._pods.values():
            self._update_pod(pod)
        self._wake.set()

    def _pod_changed(self, old: SchedulablePod | None, new: SchedulablePod | None) -> None:
        if new is not None:
            if new.spec.node_name:
                self._assumed.pop(new.metadata.uid, None)
            if old is None or _is_relevant(old, new):
                self._update_pod(new)
        elif old is not None:
            uid = old.metadata.uid
            self._assumed.pop(uid, None)
            self._demands.pop(uid, None)
            self._failure_counts.pop(uid, None)
            self._cluster.remove(uid)
            self._queue.remove_pod(old.metadata.namespace, old.metadata.name, uid)
            self._wake.set()

    def _update_pod(self, pod: SchedulablePod) -> None:
        """Account for the pod on its node, put it into the queue, or remove it from both."""
        metadata = pod.metadata
        uid = metadata.uid
        demand = self._demand(pod)
        node = self._assumed.get(uid) or pod.spec.node_name
        is_over = pod.status.phase in ("Succeeded", "Failed")
        is_on_node = bool(node) and not is_over
        is_changed = self._account_on_node(demand, node if is_on_node else "")
        state = self._state(pod, node)
        if state is None:
            is_changed |= self._queue.remove_pod(metadata.namespace, metadata.name, uid)
        else:
            is_changed |= self._queue.set_pod(QueuedPod(demand=demand, state=state, node=node if is_on_node else ""))
        if is_changed:
            self._wake.set()

    def _account_on_node(self, demand: PodDemand, node: str) -> bool:
        """Account for the pod on this node, or on none if it is empty. Return false if nothing changed."""
        current_node = self._cluster.node_of(demand.uid) or ""
        if current_node == node and (not node or self._cluster.demand_of(demand.uid) is demand):
            return False
        self._cluster.remove(demand.uid)
        if node:
            self._cluster.place(demand, node)
        return True

    def _state(self, pod: SchedulablePod, node: str) -> State | None:
        state = scheduling_state(pod, node)
        is_served = state is State.SCHEDULED or pod.spec.scheduler_name in self._served_names
        return state if is_served else None

    def _demand(self, pod: SchedulablePod) -> PodDemand:
        """Return the pod's demand. The same object is returned until requests, priority or labels change."""
        metadata = pod.metadata
        shape = scheduling_class_of(pod)
        priority = self._pod_priority(pod)
        known = self._demands.get(metadata.uid)
        if known and known.shape == shape and known.priority == priority and known.labels == metadata.labels:
            return known
        demand = self._demands[metadata.uid] = PodDemand(
            uid=metadata.uid,
            namespace=metadata.namespace,
            name=metadata.name,
            shape=shape,
            created=metadata.creation_timestamp or self._clock.now(),
            labels=metadata.labels,
            priority=priority,
        )
        return demand

    def _pod_priority(self, pod: SchedulablePod) -> int:
        if pod.spec.priority is not None:
            return pod.spec.priority
        named = self._priorities.by_name("", pod.spec.priority_class_name)
        if named is not None:
            return named.value
        return next((known.value for known in self._priorities.values() if known.global_default), 0)

    def _gang_priority(self, gang: PodGang) -> int | None:
        """Return the priority of the gang's class, or None if the class is unknown: then the pods decide."""
        named = self._priorities.by_name("", gang.spec.priority_class_name or "")
        return None if named is None else named.value


def _is_relevant(old: SchedulablePod, new: SchedulablePod) -> bool:
    """Return whether the update can change the queue or free capacity. Most status updates of kubelets cannot."""
    return (
        old.status.phase != new.status.phase
        or old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
        or old.metadata.labels != new.metadata.labels
        or old.spec != new.spec
    )

"""A stand-in for kube-scheduler 1.37: it binds by PodGroup and CompositePodGroup alone, and knows nothing of PodGangs.

It has the habits that were seen on the real one, the inconvenient ones above all: every pending pod of a leaf is tried,
leaf after leaf by age, with no thought for minima; one gated pod holds its whole root; what did not fit is tried again
by a timer only; pods on their way out count as placed. Beside it stands the controller that keeps a PodGroup as long
as an unfinished pod names it.
"""

import asyncio
from collections.abc import Iterable, Iterator
from math import sqrt
from random import Random

import msgspec

from grove.api.resources import NATIVE_COMPOSITES, NATIVE_PODGROUPS, PODS
from grove.api.types.meta import JsonObject, NamespacedName, ObjectMeta, Uid, WireStruct
from grove.api.types.pod import SchedulingGroup
from grove.api.types.scheduler_object import SchedulerObject
from grove.clock import Clock
from grove.cluster.scheduler.scheduling_status import SchedulingStatusWriter
from grove.cluster.scheduler.types import (
    SCHEDULABLE_NODES,
    SchedulableNode,
    SchedulablePod,
    SchedulableSpec,
    SchedulableStatus,
    node_view,
    scheduling_class_of,
)
from grove.kube.api_errors import ApiError
from grove.kube.client import Client
from grove.kube.reflector import Reflector
from grove.kube.store import Store
from grove.placement.capacity import ALL_NODES, Cluster, CycleSnapshot, Domain
from grove.placement.types import PodDemand, Unplaced, WaitReason

NAME = "default-scheduler"
PROTECTION = "scheduling.k8s.io/podgroup-protection"
BATCH_SECONDS = 0.05
LONGEST_BACKOFF_SECONDS = 10.0
_ENDED = ("Succeeded", "Failed")


class GroupedSpec(SchedulableSpec):
    scheduling_group: SchedulingGroup | None = None


class GroupedPod(WireStruct):
    metadata: ObjectMeta
    spec: GroupedSpec = GroupedSpec()
    status: SchedulableStatus = SchedulableStatus()

    @property
    def group(self) -> str:
        return self.spec.scheduling_group.pod_group_name if self.spec.scheduling_group else ""

    @property
    def waits(self) -> bool:
        return not self.spec.node_name and not self.metadata.is_terminating and self.status.phase not in _ENDED

    @property
    def is_placed(self) -> bool:
        """Also on its way out: the real one counts those too."""
        return bool(self.spec.node_name) and self.status.phase not in _ENDED


GROUPED_PODS = PODS.viewed_as(GroupedPod)


class Failed(Exception):
    """A root, or a leaf, cannot be placed now; the message is what it would say."""


class Silent(Exception):
    """Something is missing, or behind a gate: nothing is tried, and nothing is said."""


class Attempt(msgspec.Struct, frozen=True):
    """A root that did not fit is tried again by the clock."""

    again_at: float
    seconds: float
    # What its groups asked for: a change of that wakes it.
    asked: tuple[str, ...]


class NativeScheduler:
    """`run` until cancelled. `is_binding` is true between the first and the last binding of a decision."""

    def __init__(self, client: Client, clock: Clock, random: Random) -> None:
        self._client = client
        self._clock = clock
        self._random = random
        self._nodes: Store[SchedulableNode] = Store()
        self._pods: Store[GroupedPod] = Store()
        self._slim: Store[SchedulablePod] = Store()
        self._groups: Store[SchedulerObject] = Store()
        self._composites: Store[SchedulerObject] = Store()
        self._reports = SchedulingStatusWriter(client, clock, random, self._slim, Store())
        self._assumed: dict[Uid, str] = {}
        self._attempts: dict[NamespacedName, Attempt] = {}
        self._words: dict[str, str] = {}
        self._wake = asyncio.Event()
        self.is_binding = False
        # Switched off: groups are passed over, pods are bound one by one.
        self.knows_groups = True
        for store in (self._nodes, self._pods, self._groups, self._composites):
            store.subscribe(lambda *_: self._wake.set())

    async def run(self) -> None:
        client, clock, random = self._client, self._clock, self._random
        reflectors: list[Reflector[SchedulerObject] | Reflector[GroupedPod] | Reflector[SchedulableNode]] = [
            Reflector(client, SCHEDULABLE_NODES, self._nodes, clock, random),
            Reflector(client, GROUPED_PODS, self._pods, clock, random),
            Reflector(client, NATIVE_PODGROUPS, self._groups, clock, random, is_optional=True),
            Reflector(client, NATIVE_COMPOSITES, self._composites, clock, random, is_optional=True),
        ]
        slim = Reflector(client, PODS.viewed_as(SchedulablePod), self._slim, clock, random)
        async with asyncio.TaskGroup() as tasks:
            for reflector in reflectors:
                tasks.create_task(reflector.run())
            tasks.create_task(slim.run())
            for reflector in reflectors:
                await reflector.answered.wait()
            tasks.create_task(self._reports.run())
            while True:
                await self._sleep()
                self._wake.clear()
                await self._cycle()

    async def _sleep(self) -> None:
        now = self._clock.monotonic()
        times = [one.again_at for one in self._attempts.values()]
        try:
            async with asyncio.timeout(max(0.0, min(times) - now) if times else None):
                await self._wake.wait()
        except TimeoutError:
            pass
        await self._clock.sleep(BATCH_SECONDS)

    # One round over everything that waits

    async def _cycle(self) -> None:
        for pod in self._pods.values():
            if pod.spec.node_name:
                self._assumed.pop(pod.metadata.uid, None)
        cycle_snapshot = CycleSnapshot(self._cluster())
        unplaced: list[Unplaced] = []
        told: dict[NamespacedName, tuple[str, str]] = {}
        roots = self._roots()
        self._attempts = {name: one for name, one in self._attempts.items() if name in map(_name, roots)}
        for root in roots:
            mark = cycle_snapshot.mark()
            tree = Tree(root, self._groups.values(), self._composites.values(), self._own_pods())
            if self._is_backing_off(root, tree):
                unplaced += self._unplaced(tree)
                continue
            try:
                told.update(tree.place(cycle_snapshot, self._nodes))
                self._words.pop(_key(root), None)
            except Silent:
                cycle_snapshot.rollback(mark)
                self._attempts.pop(_name(root), None)
                continue
            except Failed as failure:
                cycle_snapshot.rollback(mark)
                told.update({_name(leaf): ("False", str(failure)) for leaf in tree.leaves})
            self._note_attempt(root, tree, told, cycle_snapshot)
            unplaced += self._unplaced(tree)
        self._place_alone(cycle_snapshot, unplaced)
        for leaf, (status, words) in told.items():
            await self._tell(leaf, status, words)
        await self._bind_all(cycle_snapshot)
        self._reports.update(unplaced)

    def _place_alone(self, cycle_snapshot: CycleSnapshot, unplaced: list[Unplaced]) -> None:
        for pod in self._own_pods():
            if pod.waits and not pod.spec.scheduling_gates and (not pod.group or not self.knows_groups):
                demand = demand_of(pod, self._clock)
                node = cycle_snapshot.find(demand)
                if node is not None:
                    cycle_snapshot.place(demand, node)
                else:
                    words = "0 nodes are available: insufficient memory."
                    unplaced.append(Unplaced(pods=(demand,), reason=WaitReason.DOES_NOT_FIT, message=words))

    async def _bind_all(self, cycle_snapshot: CycleSnapshot) -> None:
        self.is_binding = bool(cycle_snapshot.bindings)
        for binding in cycle_snapshot.bindings:
            self._assumed[binding.pod.uid] = binding.node
            try:
                await self._client.bind(binding.pod.namespace, binding.pod.name, binding.node, uid=binding.pod.uid)
            except ApiError:
                self._assumed.pop(binding.pod.uid, None)
                self._wake.set()
        self.is_binding = False

    def _cluster(self) -> Cluster:
        cluster = Cluster(node_view(node) for node in self._nodes.values())
        for pod in self._pods.values():
            node = self._assumed.get(pod.metadata.uid) or pod.spec.node_name
            if node and pod.status.phase not in _ENDED:
                cluster.place(demand_of(pod, self._clock), node)
        return cluster

    def _own_pods(self) -> Iterator[GroupedPod]:
        for pod in self._pods.values():
            if pod.spec.scheduler_name == NAME:
                node = self._assumed.get(pod.metadata.uid, "")
                yield (
                    pod
                    if not node
                    else msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node))
                )

    def _roots(self) -> list[SchedulerObject]:
        """Composites without a parent, and groups that are their own root; oldest first."""
        if not self.knows_groups:
            return []
        every = (*self._composites.values(), *self._groups.values())
        return sorted((one for one in every if not parent_of(one)), key=_age)

    def _is_backing_off(self, root: SchedulerObject, tree: "Tree") -> bool:
        attempt = self._attempts.get(_name(root))
        return (
            attempt is not None
            and attempt.again_at > self._clock.monotonic()
            and attempt.asked == tree.asked
            and bool(tree.waiting)
        )

    def _note_attempt(
        self,
        root: SchedulerObject,
        tree: "Tree",
        told: dict[NamespacedName, tuple[str, str]],
        cycle_snapshot: CycleSnapshot,
    ) -> None:
        left = [pod for pod in tree.waiting if pod.metadata.uid not in cycle_snapshot.node_of]
        before = self._attempts.pop(_name(root), None)
        if left:
            words = next((words for status, words in told.values() if status == "False"), "does not fit")
            self._words[_key(root)] = words
            longest = LONGEST_BACKOFF_SECONDS * sqrt(len(left))
            seconds = 1.0 if before is None else min(before.seconds * 2, longest)
            self._attempts[_name(root)] = Attempt(self._clock.monotonic() + seconds, seconds, tree.asked)

    def _unplaced(self, tree: "Tree") -> list[Unplaced]:
        words = self._words.get(_key(tree.root), "")
        demands = tuple(demand_of(pod, self._clock) for pod in tree.waiting)
        return [Unplaced(pods=demands, reason=WaitReason.DOES_NOT_FIT, message=words)] if words and demands else []

    async def _tell(self, leaf: NamespacedName, status: str, words: str) -> None:
        group = self._groups.by_name(leaf.namespace, leaf.name)
        said = _condition(group) if group is not None else {}
        if (
            group is None
            or said.get("status") == "True"
            or (said.get("status"), said.get("message")) == (status, words)
        ):
            return
        condition = {
            "type": "PodGroupInitiallyScheduled",
            "status": status,
            "reason": "Scheduled" if status == "True" else "Unschedulable",
            "message": words,
        }
        patch: JsonObject = {"metadata": {"uid": group.metadata.uid}, "status": {"conditions": [condition]}}
        try:
            await self._client.patch(NATIVE_PODGROUPS, leaf.namespace, leaf.name, patch, subresource="status")
        except ApiError:
            self._wake.set()


class Tree:
    """A root and all below it, and the pods that name its leaves."""

    def __init__(
        self,
        root: SchedulerObject,
        groups: Iterable[SchedulerObject],
        composites: Iterable[SchedulerObject],
        pods: Iterable[GroupedPod],
    ) -> None:
        namespace = root.metadata.namespace
        self.root = root
        self._groups = [one for one in groups if one.metadata.namespace == namespace]
        self._composites = [one for one in composites if one.metadata.namespace == namespace]
        self.leaves = sorted(self._leaves_below(root), key=_age)
        names = {leaf.metadata.name for leaf in self.leaves}
        self._pods = [pod for pod in pods if pod.group in names and pod.metadata.namespace == namespace]

    @property
    def waiting(self) -> list[GroupedPod]:
        return [pod for pod in self._pods if pod.waits]

    @property
    def asked(self) -> tuple[str, ...]:
        return tuple(f"{one.metadata.uid}{one.spec['schedulingPolicy']}" for one in (self.root, *self.leaves))

    def place(
        self, cycle_snapshot: CycleSnapshot, nodes: Store[SchedulableNode]
    ) -> dict[NamespacedName, tuple[str, str]]:
        """Put all that may be placed onto the scratch; what to say of each leaf. Raises `Failed` or `Silent`."""
        if not self.waiting or any(pod.spec.scheduling_gates for pod in self.waiting):
            raise Silent
        classes = {pod.spec.priority_class_name for pod in self._pods} | {self.root.spec.get("priorityClassName", "")}
        if len(classes) > 1:
            raise Failed("all pods in a single pod group should have the same priority as the pod group's priority")
        told: dict[NamespacedName, tuple[str, str]] = {}
        self._place(self.root, cycle_snapshot, nodes, ALL_NODES, told)
        return told

    def _place(
        self,
        one: SchedulerObject,
        cycle_snapshot: CycleSnapshot,
        nodes: Store[SchedulableNode],
        domain: Domain,
        told: dict[NamespacedName, tuple[str, str]],
    ) -> None:
        """In the one domain of its topology key that takes most pods."""
        key = key_of(one)
        if not key:
            self._place_in(one, cycle_snapshot, nodes, domain, told)
            return
        homes = self._homes(one, key, nodes)
        best: tuple[int, str] | None = None
        for value in homes or cycle_snapshot.layout.values(key, domain):
            mark, said = cycle_snapshot.mark(), dict(told)
            try:
                self._place_in(one, cycle_snapshot, nodes, domain.narrow(key, value), said)
                count = len(cycle_snapshot.bindings) - mark[1]
                best = max(best, (count, value), key=lambda found: found[0]) if best else (count, value)
            except Failed:
                pass
            cycle_snapshot.rollback(mark)
        if best is None:
            raise Failed("no feasible placements found")
        self._place_in(one, cycle_snapshot, nodes, domain.narrow(key, best[1]), told)

    def _homes(self, one: SchedulerObject, key: str, nodes: Store[SchedulableNode]) -> list[str]:
        names = {leaf.metadata.name for leaf in self._leaves_below(one)}
        found: dict[str, None] = {}
        for pod in self._pods:
            if pod.group in names and pod.is_placed:
                node = nodes.by_name("", pod.spec.node_name)
                if node is None:
                    raise Failed("nodeinfo not found")
                found[node.metadata.labels.get(key, "")] = None
        return list(found)

    def _place_in(
        self,
        one: SchedulerObject,
        cycle_snapshot: CycleSnapshot,
        nodes: Store[SchedulableNode],
        domain: Domain,
        told: dict[NamespacedName, tuple[str, str]],
    ) -> None:
        if one in self.leaves:
            self._place_leaf(one, cycle_snapshot, domain)
            if any(pod.group == one.metadata.name for pod in self._pods):
                told[_name(one)] = ("True", "")
            return
        policy = one.spec["schedulingPolicy"]
        children = sorted(self._children(one), key=_age)
        needed = policy["gang"]["minGroupCount"] if "gang" in policy else 1
        if "gang" in policy and len(children) < needed:
            raise Silent
        fitted = 0
        failure: Failed | Silent = Silent()
        for child in children:
            mark, said = cycle_snapshot.mark(), dict(told)
            try:
                self._place(child, cycle_snapshot, nodes, domain, said)
                told.update(said)
                fitted += 1
            except Silent:
                if "gang" in policy:
                    raise
                cycle_snapshot.rollback(mark)
            except Failed as failed:
                failure = failed
                cycle_snapshot.rollback(mark)
                told.update({_name(leaf): ("False", str(failed)) for leaf in self._leaves_below(child)})
        if fitted < needed:
            raise failure

    def _place_leaf(self, leaf: SchedulerObject, cycle_snapshot: CycleSnapshot, domain: Domain) -> None:
        """Every pending pod is tried; those that do not fit stay behind."""
        mine = [pod for pod in self._pods if pod.group == leaf.metadata.name]
        waiting = sorted((pod for pod in mine if pod.waits), key=_age)
        placed = sum(pod.is_placed for pod in mine)
        policy = leaf.spec["schedulingPolicy"]
        minimum = policy["gang"]["minCount"] if "gang" in policy else 1
        if placed + len(waiting) < minimum:
            raise Silent
        new = 0
        for pod in waiting:
            demand = demand_of(pod, None)
            node = cycle_snapshot.find(demand, domain)
            if node is not None:
                cycle_snapshot.place(demand, node)
                new += 1
        if placed + new < minimum:
            raise Failed(f"minCount ({minimum}) cannot be satisfied: {placed + new} scheduled, 0 remaining")

    def _children(self, one: SchedulerObject) -> list[SchedulerObject]:
        return [child for child in (*self._composites, *self._groups) if parent_of(child) == one.metadata.name]

    def _leaves_below(self, one: SchedulerObject) -> list[SchedulerObject]:
        if one in self._groups:
            return [one]
        return [leaf for child in self._children(one) for leaf in self._leaves_below(child)]


class Protection:
    """The controller that holds a PodGroup as long as an unfinished pod names it."""

    def __init__(self, client: Client, clock: Clock, random: Random) -> None:
        self._client = client
        self._clock = clock
        self._random = random
        self._pods: Store[GroupedPod] = Store()
        self._groups: Store[SchedulerObject] = Store()
        self._wake = asyncio.Event()
        self._pods.subscribe(lambda *_: self._wake.set())
        self._groups.subscribe(lambda *_: self._wake.set())

    async def run(self) -> None:
        client, clock, random = self._client, self._clock, self._random
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(Reflector(client, GROUPED_PODS, self._pods, clock, random).run())
            groups = Reflector(client, NATIVE_PODGROUPS, self._groups, clock, random, is_optional=True)
            tasks.create_task(groups.run())
            while True:
                await self._wake.wait()
                self._wake.clear()
                for group in tuple(self._groups.values()):
                    await self._keep(group)

    async def _keep(self, group: SchedulerObject) -> None:
        metadata = group.metadata
        is_named = any(
            pod.group == metadata.name
            and pod.metadata.namespace == metadata.namespace
            and pod.status.phase not in _ENDED
            for pod in self._pods.values()
        )
        wanted = [PROTECTION] if is_named or not metadata.is_terminating else []
        if list(metadata.finalizers) == wanted or (wanted and metadata.is_terminating):
            return
        patch: JsonObject = {"metadata": {"uid": metadata.uid, "finalizers": wanted or None}}
        try:
            await self._client.patch(NATIVE_PODGROUPS, metadata.namespace, metadata.name, patch)
        except ApiError:
            await self._clock.sleep(BATCH_SECONDS)
            self._wake.set()


def demand_of(pod: GroupedPod, clock: Clock | None) -> PodDemand:
    metadata = pod.metadata
    created = metadata.creation_timestamp or (clock.now() if clock else None)
    assert created is not None
    slim = SchedulablePod(metadata=metadata, spec=pod.spec, status=pod.status)
    return PodDemand(
        uid=metadata.uid,
        namespace=metadata.namespace,
        name=metadata.name,
        shape=scheduling_class_of(slim),
        created=created,
        labels=metadata.labels,
    )


def parent_of(one: SchedulerObject) -> str:
    return str(one.spec.get("parentCompositePodGroupName") or "")


def key_of(one: SchedulerObject) -> str:
    keys = (one.spec.get("schedulingConstraints") or {}).get("topology") or []
    return str(keys[0]["key"]) if keys else ""


def _condition(group: SchedulerObject) -> JsonObject:
    found: list[JsonObject] = group.status.get("conditions") or []
    return found[0] if found else {}


def _age(one: SchedulerObject | GroupedPod) -> tuple[str, str]:
    return (str(one.metadata.creation_timestamp), one.metadata.name)


def _name(one: SchedulerObject) -> NamespacedName:
    return NamespacedName(namespace=one.metadata.namespace, name=one.metadata.name)


def _key(one: SchedulerObject) -> str:
    return f"{one.metadata.namespace}/{one.metadata.name}"

"""Stand-ins for KAI and Volcano: they bind by those schedulers' own objects alone, and know nothing of PodGangs.

Each reads its PodGroups and queues, the pods that name them, and nodes; where pods fit is asked of `placement`. What a
PodGroup, a queue or a topology does not allow is not done, and is said in the PodGroup's status, as the real ones do.
"""

import asyncio
from collections.abc import Iterator, Sequence
from random import Random
from typing import Protocol

from grove.api.resources import (
    KAI_PODGROUPS,
    KAI_QUEUES,
    KAI_TOPOLOGIES,
    VOLCANO_PODGROUPS,
    VOLCANO_QUEUES,
    Resource,
)
from grove.api.types.meta import JsonObject, NamespacedName, Uid
from grove.api.types.scheduler_object import SchedulerObject
from grove.api.values.quantities import parse_milli
from grove.clock import Clock
from grove.cluster.scheduler.scheduling_status import SchedulingStatusWriter
from grove.cluster.scheduler.types import (
    SCHEDULABLE_NODES,
    SCHEDULABLE_PODS,
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
from grove.placement.types import GangDemand, GroupDemand, Pack, PackGroup, PodDemand, Unplaced, WaitReason

BATCH_SECONDS = 0.05


class NotAllowed(Exception):
    """The scheduler's own objects do not let it place this PodGroup; the message is what it would say."""


class NotLetIn(NotAllowed):
    """The queue does not admit the PodGroup: no node is looked for."""


class Pods:
    """Every pod of a PodGroup, and where it stands."""

    def __init__(self, pods: Sequence[SchedulablePod], assumed: dict[Uid, str], clock: Clock) -> None:
        self._pods = pods
        self._assumed = assumed
        self._clock = clock

    def group(self, name: str, minimum: int, labels: dict[str, str], pack: Pack | None = None) -> GroupDemand:
        """Those of them that carry these labels."""
        mine = [pod for pod in self._pods if labels.items() <= pod.metadata.labels.items()]
        placed = [pod for pod in mine if self._assumed.get(pod.metadata.uid) or pod.spec.node_name]
        waiting = [pod for pod in mine if pod not in placed and pod.status.phase != "Succeeded"]
        return GroupDemand(
            name=name,
            min_replicas=minimum,
            scheduled_count=len(mine) - len(waiting),
            nodes=tuple(self._assumed.get(pod.metadata.uid) or pod.spec.node_name for pod in placed),
            pending=tuple(demand_of(pod, self._clock) for pod in waiting if not pod.spec.scheduling_gates),
            behind_other_gates_count=sum(bool(pod.spec.scheduling_gates) for pod in waiting),
            pack=pack,
        )


class Dialect(Protocol):
    """What differs between the two."""

    name: str
    kinds: tuple[Resource[SchedulerObject], ...]

    def group_name(self, pod: SchedulablePod) -> str:
        """The PodGroup that a pod names; "": none."""

    def demand(self, group: SchedulerObject, pods: Pods, others: Sequence[Store[SchedulerObject]]) -> GangDemand:
        """Raises `NotAllowed`. `others` are the stores of the further `kinds`."""

    def is_gone(self, pod: SchedulablePod) -> bool:
        """A pod that is not counted any more."""

    def is_said_of_group(self, unplaced: Unplaced) -> bool:
        """Does it speak of these pods on their PodGroup, or on the pods alone?"""

    def status(self, group: SchedulerObject, message: str, *, is_let_in: bool) -> JsonObject:
        """What to write onto a PodGroup that waits; without a message: that does not."""


class FakeScheduler:
    """`run` until cancelled."""

    def __init__(self, client: Client, clock: Clock, random: Random, dialect: Dialect) -> None:
        self._client = client
        self._clock = clock
        self._random = random
        self._dialect = dialect
        self._nodes: Store[SchedulableNode] = Store()
        self._pods: Store[SchedulablePod] = Store()
        self._stores: tuple[Store[SchedulerObject], ...] = tuple(Store() for _ in dialect.kinds)
        self._reports = SchedulingStatusWriter(client, clock, random, self._pods, Store())
        # Bound by us, not yet confirmed by the watch.
        self._assumed: dict[Uid, str] = {}
        self._wake = asyncio.Event()
        self._nodes.subscribe(lambda *_: self._wake.set())
        self._pods.subscribe(lambda *_: self._wake.set())
        for store in self._stores:
            store.subscribe(lambda *_: self._wake.set())

    async def run(self) -> None:
        client, clock, random = self._client, self._clock, self._random
        nodes = Reflector(client, SCHEDULABLE_NODES, self._nodes, clock, random)
        pods = Reflector(client, SCHEDULABLE_PODS, self._pods, clock, random)
        own = [
            Reflector(client, kind, store, clock, random, is_optional=True)
            for kind, store in zip(self._dialect.kinds, self._stores, strict=True)
        ]
        async with asyncio.TaskGroup() as tasks:
            for reflector in (nodes, pods):
                tasks.create_task(reflector.run())
            for optional in own:
                tasks.create_task(optional.run())
            await nodes.listed.wait()
            await pods.listed.wait()
            tasks.create_task(self._reports.run())
            while True:
                await self._wake.wait()
                await self._clock.sleep(BATCH_SECONDS)
                self._wake.clear()
                await self._cycle()

    async def _cycle(self) -> None:
        groups, *others = self._stores
        refused: list[Unplaced] = []
        gangs: list[GangDemand] = []
        outside: set[NamespacedName] = set()
        for group in groups.values():
            pods = [pod for pod in self._own_pods() if _key(pod, self._dialect) == _name(group)]
            try:
                gangs.append(self._dialect.demand(group, Pods(pods, self._assumed, self._clock), others))
            except NotAllowed as error:
                refused.append(self._refusal(group, pods, str(error)))
                if isinstance(error, NotLetIn):
                    outside.add(_name(group))
        decisions = schedule(self._cluster(), gangs)
        for binding in decisions.bindings:
            await self._bind(binding.pod, binding.node)
        self._reports.update((*decisions.unplaced, *refused))
        said = [one for one in (*decisions.unplaced, *refused) if self._dialect.is_said_of_group(one)]
        words = {one.gang: one.message for one in said}
        # Others come and go meanwhile.
        for group in tuple(groups.values()):
            name = _name(group)
            await self._tell(group, self._dialect.status(group, words.get(name, ""), is_let_in=name not in outside))

    def _cluster(self) -> Cluster:
        cluster = Cluster(node_view(node) for node in self._nodes.values())
        for pod in self._pods.values():
            node = self._assumed.get(pod.metadata.uid) or pod.spec.node_name
            if node and pod.status.phase not in ("Succeeded", "Failed"):
                cluster.place(demand_of(pod, self._clock), node)
        return cluster

    def _own_pods(self) -> Iterator[SchedulablePod]:
        for pod in self._pods.values():
            if pod.spec.node_name:
                self._assumed.pop(pod.metadata.uid, None)
            if pod.spec.scheduler_name == self._dialect.name and not self._dialect.is_gone(pod):
                yield pod

    def _refusal(self, group: SchedulerObject, pods: Sequence[SchedulablePod], message: str) -> Unplaced:
        waiting = [pod for pod in pods if not pod.spec.node_name and not pod.spec.scheduling_gates]
        demands = tuple(demand_of(pod, self._clock) for pod in waiting)
        return Unplaced(pods=demands, reason=WaitReason.GANG_DOES_NOT_FIT, message=message, gang=_name(group))

    async def _bind(self, pod: PodDemand, node: str) -> None:
        self._assumed[pod.uid] = node
        try:
            await self._client.bind(pod.namespace, pod.name, node, uid=pod.uid)
        except ApiError:
            self._assumed.pop(pod.uid, None)
            self._wake.set()

    async def _tell(self, group: SchedulerObject, status: JsonObject) -> None:
        kind, metadata = self._dialect.kinds[0], group.metadata
        if any(group.status.get(field) != value for field, value in status.items()):
            subresource = "status" if kind is KAI_PODGROUPS else ""
            patch = {"metadata": {"uid": metadata.uid}, "status": status}
            try:
                await self._client.patch(kind, metadata.namespace, metadata.name, patch, subresource=subresource)
            except ApiError:
                self._wake.set()


def demand_of(pod: SchedulablePod, clock: Clock) -> PodDemand:
    metadata = pod.metadata
    return PodDemand(
        uid=metadata.uid,
        namespace=metadata.namespace,
        name=metadata.name,
        shape=scheduling_class_of(pod),
        created=metadata.creation_timestamp or clock.now(),
        labels=metadata.labels,
    )


def _name(group: SchedulerObject) -> NamespacedName:
    return NamespacedName(namespace=group.metadata.namespace, name=group.metadata.name)


def _key(pod: SchedulablePod, dialect: Dialect) -> NamespacedName:
    return NamespacedName(namespace=pod.metadata.namespace, name=dialect.group_name(pod))


def _gang(group: SchedulerObject, groups: tuple[GroupDemand, ...], **topology: object) -> GangDemand:
    created = group.metadata.creation_timestamp
    assert created is not None
    return GangDemand(name=_name(group), created=created, groups=groups, **topology)  # type: ignore[arg-type]


class KaiDialect:
    name = "kai-scheduler"
    kinds: tuple[Resource[SchedulerObject], ...] = (KAI_PODGROUPS, KAI_QUEUES, KAI_TOPOLOGIES)

    def group_name(self, pod: SchedulablePod) -> str:
        annotations = pod.metadata.annotations
        # Without the second, KAI's pod grouper would make a PodGroup of its own.
        if annotations.get("kai.scheduler/skip-podgrouper") != "true":
            return ""
        return annotations.get("pod-group-name", "")

    def demand(self, group: SchedulerObject, pods: Pods, others: Sequence[Store[SchedulerObject]]) -> GangDemand:
        queues, topologies = others
        spec = group.spec
        if queues.by_name("", spec.get("queue", "")) is None:
            raise NotAllowed(f"queue {spec.get('queue')!r} does not exist")
        subgroups: list[JsonObject] = spec.get("subGroups", [])
        parents = {one["parent"] for one in subgroups if "parent" in one}
        leaves = [one for one in subgroups if one["name"] not in parents]
        if spec["minMember"] != max(1, sum(one.get("minMember", 0) for one in leaves)):
            raise NotAllowed("minMember is not what the subgroups need together")
        return _gang(
            group,
            tuple(
                pods.group(
                    one["name"],
                    one.get("minMember", 0),
                    {"kai.scheduler/subgroup-name": one["name"]},
                    self._pack(one, topologies),
                )
                for one in leaves
            ),
            pack=self._pack(spec, topologies),
            pack_groups=tuple(self._around(one, leaves, topologies) for one in subgroups if one["name"] in parents),
        )

    def is_gone(self, pod: SchedulablePod) -> bool:
        return pod.metadata.is_terminating or pod.status.phase == "Failed"

    def is_said_of_group(self, unplaced: Unplaced) -> bool:
        return True

    def status(self, group: SchedulerObject, message: str, *, is_let_in: bool) -> JsonObject:
        if not message:
            return {"schedulingConditions": []} if group.status.get("schedulingConditions") else {}
        return {
            "schedulingConditions": [
                {
                    "type": "UnschedulableOnNodePool",
                    "status": "True",
                    "reasons": [{"reason": "Unschedulable", "message": message}],
                }
            ]
        }

    def _around(self, one: JsonObject, leaves: Sequence[JsonObject], topologies: Store[SchedulerObject]) -> PackGroup:
        members = tuple(leaf["name"] for leaf in leaves if leaf.get("parent") == one["name"])
        if one.get("minSubGroup") != len(members):
            raise NotAllowed(f"subgroup {one['name']} does not need all of its members")
        return PackGroup(name=one["name"], group_names=members, pack=self._pack(one, topologies))

    def _pack(self, part: JsonObject, topologies: Store[SchedulerObject]) -> Pack | None:
        constraint = part.get("topologyConstraint") or {}
        keys = [constraint.get("requiredTopologyLevel", ""), constraint.get("preferredTopologyLevel", "")]
        if not any(keys):
            return None
        topology = topologies.by_name("", constraint.get("topology", ""))
        if topology is None:
            raise NotAllowed(f"topology {constraint.get('topology')!r} does not exist")
        known = [level["nodeLabel"] for level in topology.spec["levels"]]
        for key in keys:
            if key and key not in known:
                raise NotAllowed(f"topology {topology.metadata.name} has no level {key}")
        return Pack(required=keys[0], preferred=keys[1])


class VolcanoDialect:
    """As Volcano 1.15 does it.

    * A pod that succeeded is ready for ever, also while it is being deleted.
    * A group is ready as a whole or not at all, also long after its first placement: nothing is relaxed by itself.
    * Once its minima are placed the group is `Running`, whatever waits. `Unschedulable` is never taken back.
    * A group that names no `minResources` is let into every queue.
    """

    name = "volcano"
    kinds: tuple[Resource[SchedulerObject], ...] = (VOLCANO_PODGROUPS, VOLCANO_QUEUES)

    def group_name(self, pod: SchedulablePod) -> str:
        return pod.metadata.annotations.get("scheduling.k8s.io/group-name", "")

    def is_gone(self, pod: SchedulablePod) -> bool:
        has_ended_well = pod.status.phase == "Succeeded"
        return (pod.metadata.is_terminating and not has_ended_well) or pod.status.phase == "Failed"

    def is_said_of_group(self, unplaced: Unplaced) -> bool:
        return unplaced.reason is not WaitReason.DOES_NOT_FIT

    def demand(self, group: SchedulerObject, pods: Pods, others: Sequence[Store[SchedulerObject]]) -> GangDemand:
        (queues,) = others
        spec = group.spec
        queue = queues.by_name("", spec.get("queue", ""))
        if queue is None or queue.status.get("state") != "Open":
            raise NotAllowed(f"queue {spec.get('queue')!r} is not open")
        self._check_room(spec, queue)
        policies: list[JsonObject] = spec.get("subGroupPolicy", [])
        if spec["minMember"] != max(1, sum(one["subGroupSize"] * one["minSubGroups"] for one in policies)):
            raise NotAllowed("minMember is not what the subgroups need together")
        return _gang(
            group,
            tuple(
                pods.group(one["name"], one["subGroupSize"] * one["minSubGroups"], one["labelSelector"]["matchLabels"])
                for one in policies
            ),
        )

    def status(self, group: SchedulerObject, message: str, *, is_let_in: bool) -> JsonObject:
        if not message:
            return {"phase": "Running"}
        return {
            "phase": "Inqueue" if is_let_in else "Pending",
            "conditions": [
                {"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "message": message}
            ],
        }

    def _check_room(self, spec: JsonObject, queue: SchedulerObject) -> None:
        """Only what a group says that it needs is compared when it asks for the queue; the rest shows at its pods."""
        asked = spec.get("minResources") or {}
        for name, amount in (queue.spec.get("capability") or {}).items():
            if name not in asked:
                raise NotAllowed(f"10/10 tasks in gang unschedulable: queue has no {name} left")
            if parse_milli(asked[name]) > parse_milli(amount):
                raise NotLetIn("10/10 tasks in gang unschedulable: pod group is not ready")

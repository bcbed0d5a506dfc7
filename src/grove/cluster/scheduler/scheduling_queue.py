"""Scheduling queue: the pods that the scheduler knows, by gang and pod group.

The queue is updated one change at a time, so the cost of a pod event does not depend on the number of pods.
`placement/` decides where pods go; `scheduler.py` binds them.
"""

from collections.abc import Iterator
from enum import Enum, auto

import msgspec

from grove.api.labels import BASE_PODGANG, GATE, PODGANG
from grove.api.types.meta import NamespacedName, Uid
from grove.api.types.podgang import PodGang
from grove.cluster.scheduler.types import SchedulablePod, pack_of
from grove.placement.types import GangDemand, GroupDemand, PackGroup, PodDemand, Unplaced, WaitReason


class State(Enum):
    """The scheduling state of a pod. Pods in none of these states are not in the queue."""

    PENDING = auto()
    BEHIND_OUR_GATE = auto()
    BEHIND_OTHER_GATES = auto()
    # Bound to a node, or succeeded: in both cases the pod counts for its gang.
    SCHEDULED = auto()


def scheduling_state(pod: SchedulablePod, node: str) -> State | None:
    """Return the state of a pod on this node; "" is none. None if the pod does not count for its gang."""
    if pod.metadata.is_terminating or pod.status.phase == "Failed":
        return None
    if node or pod.status.phase == "Succeeded":
        return State.SCHEDULED
    gates = pod.spec.scheduling_gates
    if not gates:
        return State.PENDING
    return State.BEHIND_OUR_GATE if all(gate.name == GATE for gate in gates) else State.BEHIND_OTHER_GATES


class QueuedPod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod in the queue."""

    demand: PodDemand
    state: State
    # The node of a scheduled pod that has not finished.
    node: str = ""


class SchedulingQueue:
    """A queue of the pods and gangs that the scheduler knows."""

    def __init__(self) -> None:
        self._pods: dict[tuple[str, str], QueuedPod] = {}
        self._gangs: dict[tuple[str, str], _Gang] = {}
        # The groups that reference a pod, by pod name and gang, newest last. Gangs reference pods before they exist.
        self._claims: dict[tuple[str, str], dict[tuple[str, str], tuple[_Gang, _Group]]] = {}
        self._active: dict[tuple[str, str], None] = {}
        self._unassigned: dict[Uid, PodDemand] = {}

    def set_gang(self, gang: PodGang, priority: int | None) -> None:
        """Add or replace the gang, and assign its pods to its groups."""
        key = (gang.metadata.namespace, gang.metadata.name)
        self.remove_gang(*key)
        entry = self._gangs[key] = _Gang(gang, priority)
        for group in entry.groups:
            for name in group.positions:
                pod = self._remove(name)
                self._claims.setdefault(name, {})[key] = (entry, group)
                if pod is not None:
                    self._insert(name, pod)
        self._update_active(entry)

    def remove_gang(self, namespace: str, name: str) -> None:
        entry = self._gangs.pop((namespace, name), None)
        if entry is None:
            return
        for group in entry.groups:
            for pod_name in group.positions:
                claims = self._claims.get(pod_name, {})
                if entry.key in claims:
                    pod = self._remove(pod_name)
                    del claims[entry.key]
                    if not claims:
                        del self._claims[pod_name]
                    if pod is not None:
                        self._insert(pod_name, pod)
        self._active.pop(entry.key, None)

    def set_pod(self, pod: QueuedPod) -> bool:
        """Add or replace the pod. Return false if nothing changed."""
        name = (pod.demand.namespace, pod.demand.name)
        if self._pods.get(name) == pod:
            return False
        self._remove(name)
        self._insert(name, pod)
        return True

    def remove_pod(self, namespace: str, name: str, uid: Uid) -> bool:
        pod = self._pods.get((namespace, name))
        # A late delete event must not remove the next pod with this name.
        if pod is None or pod.demand.uid != uid:
            return False
        self._remove((namespace, name))
        return True

    def gangs(self) -> Iterator[GangDemand]:
        """Yield the gangs with a pod that could be placed, or for which capacity could be reserved."""
        for key in self._active:
            entry = self._gangs[key]
            base = self._gangs.get((entry.key[0], entry.base)) if entry.base else None
            yield entry.demand(base_is_scheduled=base is not None and base.is_scheduled)

    def ungrouped_pods(self) -> Iterator[PodDemand]:
        """Return the pending pods without a gang label."""
        return (pod for pod in self._unassigned.values() if PODGANG not in pod.labels)

    def pods_without_gang(self) -> Iterator[Unplaced]:
        """Yield the pending pods whose gang does not exist or does not reference them."""
        for pod in self._unassigned.values():
            if PODGANG in pod.labels:
                gang = NamespacedName(namespace=pod.namespace, name=pod.labels[PODGANG])
                verb = "name it" if (gang.namespace, gang.name) in self._gangs else "exist"
                message = f"waits for its gang: PodGang {gang.name} does not {verb} yet"
                yield Unplaced(pods=(pod,), reason=WaitReason.NOT_IN_ITS_GANG, message=message)

    def _insert(self, name: tuple[str, str], pod: QueuedPod) -> None:
        self._pods[name] = pod
        assigned = self._find_group(name, pod)
        if assigned is not None:
            entry, group = assigned
            group.add(pod)
            entry.base = pod.demand.labels.get(BASE_PODGANG, entry.base)
            self._update_active(entry)
        elif pod.state is State.PENDING:
            self._unassigned[pod.demand.uid] = pod.demand

    def _remove(self, name: tuple[str, str]) -> QueuedPod | None:
        pod = self._pods.pop(name, None)
        if pod is None:
            return None
        self._unassigned.pop(pod.demand.uid, None)
        assigned = self._find_group(name, pod)
        if assigned is not None:
            assigned[1].remove(pod)
            self._update_active(assigned[0])
        return pod

    def _find_group(self, name: tuple[str, str], pod: QueuedPod) -> "tuple[_Gang, _Group] | None":
        """Return the group that the pod belongs to: of the gang in its label, if that gang references it.

        Any user of the namespace can create a gang that references the pods of others. A pod without the label belongs
        to the gang that changed last.
        """
        claims = self._claims.get(name)
        if not claims:
            return None
        label = pod.demand.labels.get(PODGANG)
        return next(reversed(claims.values())) if label is None else claims.get((name[0], label))

    def _update_active(self, entry: "_Gang") -> None:
        if entry.is_active:
            self._active[entry.key] = None
        else:
            self._active.pop(entry.key, None)


class _Gang:
    """One PodGang and the buckets of its groups."""

    def __init__(self, gang: PodGang, priority: int | None) -> None:
        metadata = gang.metadata
        self.key = (metadata.namespace, metadata.name)
        self.base = ""
        self.groups = tuple(_Group(gang, index) for index in range(len(gang.spec.podgroups)))
        self._priority = priority
        self._created = metadata.creation_timestamp
        self._pack = pack_of(gang.spec.topology_constraint)
        self._pack_groups = tuple(
            PackGroup(name=wide.name, group_names=wide.pod_group_names, pack=pack_of(wide.topology_constraint))
            for wide in gang.spec.topology_constraint_group_configs
        )
        packs = (self._pack, *(wide.pack for wide in self._pack_groups), *(group.pack for group in self.groups))
        self._is_packed = any(packs)

    @property
    def is_active(self) -> bool:
        return any(group.pending or (self.base and group.behind_our_gate) for group in self.groups)

    @property
    def is_scheduled(self) -> bool:
        return all(len(group.scheduled) >= group.min_replicas for group in self.groups)

    def demand(self, *, base_is_scheduled: bool) -> GangDemand:
        groups = tuple(group.demand(with_nodes=self._is_packed) for group in self.groups)
        pods = [pod for group in groups for pod in (*group.pending, *group.behind_our_gate)]
        priority = max(pod.priority for pod in pods) if self._priority is None else self._priority
        return GangDemand(
            name=NamespacedName(namespace=self.key[0], name=self.key[1]),
            created=self._created or min(pod.created for pod in pods),
            priority=priority,
            groups=groups,
            pack=self._pack,
            pack_groups=tuple(wide for wide in self._pack_groups if wide.pack is not None),
            base=self.base,
            base_is_scheduled=base_is_scheduled,
        )


class _Group:
    """One pod group and its existing pods, by state."""

    def __init__(self, gang: PodGang, index: int) -> None:
        group = gang.spec.podgroups[index]
        own = gang.metadata.namespace
        self.name = group.name
        self.min_replicas = group.min_replicas
        # References to pods of other namespaces are ignored: a tenant must not affect the pods of others.
        self.positions = {
            (own, ref.name): i for i, ref in enumerate(group.pod_references) if ref.namespace in ("", own)
        }
        self.pending: dict[Uid, PodDemand] = {}
        self.behind_our_gate: dict[Uid, PodDemand] = {}
        self.behind_other_gates: dict[Uid, None] = {}
        self.scheduled: dict[Uid, str] = {}
        self.pack = pack_of(group.topology_constraint)

    def add(self, pod: QueuedPod) -> None:
        uid = pod.demand.uid
        match pod.state:
            case State.PENDING:
                self.pending[uid] = pod.demand
            case State.BEHIND_OUR_GATE:
                self.behind_our_gate[uid] = pod.demand
            case State.BEHIND_OTHER_GATES:
                self.behind_other_gates[uid] = None
            case State.SCHEDULED:
                self.scheduled[uid] = pod.node

    def remove(self, pod: QueuedPod) -> None:
        for bucket in (self.pending, self.behind_our_gate, self.behind_other_gates, self.scheduled):
            bucket.pop(pod.demand.uid, None)

    def demand(self, *, with_nodes: bool) -> GroupDemand:
        return GroupDemand(
            name=self.name,
            min_replicas=self.min_replicas,
            scheduled_count=len(self.scheduled),
            nodes=tuple(node for node in self.scheduled.values() if node) if with_nodes else (),
            pending=self._in_order(self.pending),
            behind_our_gate=self._in_order(self.behind_our_gate),
            behind_other_gates_count=len(self.behind_other_gates),
            pack=self.pack,
        )

    def _in_order(self, pods: dict[Uid, PodDemand]) -> tuple[PodDemand, ...]:
        """Return the pods in the order of the gang's references: lower indices first."""
        return tuple(sorted(pods.values(), key=lambda pod: self.positions[pod.namespace, pod.name]))

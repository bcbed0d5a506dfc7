"""Scheduling queue: the pods that the scheduler knows, by gang and pod group.

The queue is updated one change at a time, so the cost of a pod event does not depend on the number of pods.
`placement/` decides where pods go; `scheduler.py` binds them.
"""

from collections.abc import Iterator
from enum import Enum, auto

import msgspec

from grove.api.labels import BASE_PODGANG, PODGANG
from grove.api.types.meta import NamespacedName, Uid
from grove.api.types.podgang import PodGang
from grove.cluster.scheduler.types import pack_of
from grove.placement.types import GangDemand, GroupDemand, PackGroup, PodDemand, Unplaced, WaitReason


class State(Enum):
    """The scheduling state of a pod. Pods in none of these states are not in the queue."""

    PENDING = auto()
    BEHIND_OUR_GATE = auto()
    BEHIND_OTHER_GATES = auto()
    # Bound to a node, or succeeded: in both cases the pod counts for its gang.
    SCHEDULED = auto()


class Guest(msgspec.Struct, frozen=True, kw_only=True):
    """A pod in the queue."""

    demand: PodDemand
    state: State
    # The node of a scheduled pod that has not finished.
    node: str = ""


class WaitingRoom:
    def __init__(self) -> None:
        self._guests: dict[tuple[str, str], Guest] = {}
        self._gangs: dict[tuple[str, str], _Gang] = {}
        # The group of each pod that a gang references, by pod name. Gangs reference pods before they exist.
        self._seats: dict[tuple[str, str], tuple[_Gang, _Group]] = {}
        self._active: dict[tuple[str, str], None] = {}
        self._alone: dict[Uid, PodDemand] = {}

    def set_gang(self, gang: PodGang, priority: int | None) -> None:
        """Add or replace the gang, and assign its pods to its groups."""
        key = (gang.metadata.namespace, gang.metadata.name)
        self.remove_gang(*key)
        entry = self._gangs[key] = _Gang(gang, priority)
        for group in entry.groups:
            for name in group.positions:
                # A pod that two gangs reference belongs to the one that changed last: it may be moving.
                pending_pod = self._take_out(name)
                self._seats[name] = (entry, group)
                if pending_pod is not None:
                    self._seat(name, pending_pod)
        self._note(entry)

    def remove_gang(self, namespace: str, name: str) -> None:
        entry = self._gangs.pop((namespace, name), None)
        if entry is None:
            return
        for group in entry.groups:
            for pod_name in group.positions:
                if self._seats.get(pod_name, (None, None))[1] is group:
                    pending_pod = self._take_out(pod_name)
                    del self._seats[pod_name]
                    if pending_pod is not None:
                        self._seat(pod_name, pending_pod)
        self._active.pop(entry.key, None)

    def set_pod(self, pending_pod: Guest) -> bool:
        """Add or replace the pod. Return false if nothing changed."""
        name = (pending_pod.demand.namespace, pending_pod.demand.name)
        if self._guests.get(name) == pending_pod:
            return False
        self._take_out(name)
        self._seat(name, pending_pod)
        return True

    def remove_pod(self, namespace: str, name: str, uid: Uid) -> bool:
        pending_pod = self._guests.get((namespace, name))
        # A late delete event must not remove the next pod with this name.
        if pending_pod is None or pending_pod.demand.uid != uid:
            return False
        self._take_out((namespace, name))
        return True

    def gangs(self) -> Iterator[GangDemand]:
        """Yield the gangs with a pod that could be placed, or for which capacity could be reserved."""
        for key in self._active:
            entry = self._gangs[key]
            base = self._gangs.get((entry.key[0], entry.base)) if entry.base else None
            yield entry.demand(base_is_scheduled=base is not None and base.is_scheduled)

    def ungrouped_pods(self) -> Iterator[PodDemand]:
        """Return the pending pods without a gang label."""
        return (pod for pod in self._alone.values() if PODGANG not in pod.labels)

    def strays(self) -> Iterator[Unplaced]:
        """Yield the pending pods whose gang does not exist or does not reference them."""
        for pod in self._alone.values():
            if PODGANG in pod.labels:
                gang = NamespacedName(namespace=pod.namespace, name=pod.labels[PODGANG])
                verb = "name it" if (gang.namespace, gang.name) in self._gangs else "exist"
                message = f"waits for its gang: PodGang {gang.name} does not {verb} yet"
                yield Unplaced(pods=(pod,), reason=WaitReason.NOT_IN_ITS_GANG, message=message)

    def _seat(self, name: tuple[str, str], pending_pod: Guest) -> None:
        self._guests[name] = pending_pod
        seat = self._seats.get(name)
        if seat is not None:
            entry, group = seat
            group.put(pending_pod)
            entry.base = pending_pod.demand.labels.get(BASE_PODGANG, entry.base)
            self._note(entry)
        elif pending_pod.state is State.PENDING:
            self._alone[pending_pod.demand.uid] = pending_pod.demand

    def _take_out(self, name: tuple[str, str]) -> Guest | None:
        pending_pod = self._guests.pop(name, None)
        if pending_pod is None:
            return None
        self._alone.pop(pending_pod.demand.uid, None)
        seat = self._seats.get(name)
        if seat is not None:
            seat[1].take(pending_pod)
            self._note(seat[0])
        return pending_pod

    def _note(self, entry: "_Gang") -> None:
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

    def put(self, pending_pod: Guest) -> None:
        uid = pending_pod.demand.uid
        match pending_pod.state:
            case State.PENDING:
                self.pending[uid] = pending_pod.demand
            case State.BEHIND_OUR_GATE:
                self.behind_our_gate[uid] = pending_pod.demand
            case State.BEHIND_OTHER_GATES:
                self.behind_other_gates[uid] = None
            case State.SCHEDULED:
                self.scheduled[uid] = pending_pod.node

    def take(self, pending_pod: Guest) -> None:
        for bucket in (self.pending, self.behind_our_gate, self.behind_other_gates, self.scheduled):
            bucket.pop(pending_pod.demand.uid, None)

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

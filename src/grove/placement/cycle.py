"""One scheduling cycle: place all pending gangs and pods, in order, on the free capacity.

1. The minima of gangs, each all or nothing; a gang that does not fit does not block the next.
2. Capacity is reserved for the minima of scaled gangs whose base gang is scheduled and whose gates are about to be
   removed.
3. Surplus pods of gangs (those above the minimum) and pods without a gang, one by one.

The order within each step: higher priority, then base before scaled gangs (in step 3), then older, then by name.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import assert_never

from grove.api.types.meta import NamespacedName
from grove.placement.capacity import Cluster, CycleSnapshot
from grove.placement.gang import (
    above_minimum,
    is_complete,
    minimum_scope,
    place_above_minimum,
    place_gang,
    reserved_scope,
    surplus_domains,
    surplus_scope,
)
from grove.placement.inter_pod_affinity import has_pod_affinity, terms_of
from grove.placement.topology_packing import Scope, find_node
from grove.placement.types import (
    Decisions,
    GangDemand,
    GroupDemand,
    PodDemand,
    PodTerm,
    SchedulingClass,
    Unplaced,
    WaitReason,
)
from grove.placement.unschedulable_reasons import explain_gang, explain_incomplete, explain_packing, explain_pod


def schedule(cluster: Cluster, gangs: Iterable[GangDemand], ungrouped_pods: Iterable[PodDemand] = ()) -> Decisions:
    """Return the bindings, and why the other pods wait.

    The cluster does not change: the caller adds the pods after it bound them.
    """
    waiting = sorted(gangs, key=_gang_order)
    single = tuple(ungrouped_pods)
    cluster.watch_terms(_terms(waiting, single))
    cycle = _Cycle(CycleSnapshot(cluster))
    for gang in waiting:
        cycle.place_minimum(gang)
    bound_count = len(cycle.cycle_snapshot.bindings)
    for gang in waiting:
        cycle.reserve(gang)
    reserved_count = len(cycle.cycle_snapshot.bindings)
    both: list[GangDemand | PodDemand] = [*waiting, *single]
    for item in sorted(both, key=_surplus_order):
        match item:
            case GangDemand():
                cycle.place_above_minimum(item)
            case PodDemand():
                cycle.place_ungrouped_pod(item)
            case _:
                assert_never(item)
    bindings = cycle.cycle_snapshot.bindings
    return Decisions(
        bindings=(*bindings[:bound_count], *bindings[reserved_count:]),
        unplaced=tuple(cycle.unplaced),
    )


class _Cycle:
    """The state of one scheduling cycle."""

    def __init__(self, cycle_snapshot: CycleSnapshot) -> None:
        self.cycle_snapshot = cycle_snapshot
        self.unplaced: list[Unplaced] = []
        # Gangs with their minima in place, by this cycle or before it.
        self._placed_gangs: dict[NamespacedName, None] = {}
        self._reserved_for: list[str] = []
        # Free capacity only shrinks within a cycle: what did not fit once need not be tried or explained again.
        self._unplaceable_gangs: dict[tuple[SchedulingClass, ...], str] = {}
        self._unplaceable_pods: dict[SchedulingClass, str] = {}

    def place_minimum(self, gang: GangDemand) -> None:
        if not is_complete(gang):
            # When every pod of the gang is gated, there is no pod to report on.
            if any(group.pending for group in gang.groups):
                self._wait(gang, WaitReason.GANG_IS_INCOMPLETE, explain_incomplete(gang))
            return
        if gang.needed_count:
            scope = minimum_scope(gang)
            message = self._find_unplaceable(scope) or self._try_gang(scope)
            if message:
                self._wait(gang, WaitReason.GANG_DOES_NOT_FIT, message)
                return
        self._placed_gangs[gang.name] = None

    def reserve(self, gang: GangDemand) -> None:
        """Reserve capacity for a scaled gang. Nothing is bound: surplus pods of this cycle cannot use it."""
        if gang.name in self._placed_gangs or not gang.is_scaled:
            return
        base = NamespacedName(namespace=gang.name.namespace, name=gang.base)
        if not gang.base_is_scheduled and base not in self._placed_gangs:
            return
        scope = reserved_scope(gang)
        if scope is not None and place_gang(self.cycle_snapshot, scope):
            self._reserved_for.append(gang.name.name)

    def place_above_minimum(self, gang: GangDemand) -> None:
        if gang.name not in self._placed_gangs:
            return
        left: dict[str, list[PodDemand]] = {}
        for group in gang.groups:
            for pod in place_above_minimum(self.cycle_snapshot, gang, group) if above_minimum(group) else ():
                left.setdefault(self._explain_surplus(gang, group, pod), []).append(pod)
        self.unplaced += [
            Unplaced(pods=tuple(pods), reason=WaitReason.DOES_NOT_FIT, message=message, gang=gang.name)
            for message, pods in left.items()
        ]

    def place_ungrouped_pod(self, pod: PodDemand) -> None:
        node = self.cycle_snapshot.find(pod)
        if node is not None:
            self.cycle_snapshot.place(pod, node)
        else:
            message = self._explain_once(pod)
            self.unplaced.append(Unplaced(pods=(pod,), reason=WaitReason.DOES_NOT_FIT, message=message))

    def _try_gang(self, scope: Scope) -> str:
        """Place the gang. Return an empty string if it was placed, else why not."""
        if place_gang(self.cycle_snapshot, scope):
            return ""
        message = explain_gang(self.cycle_snapshot, scope)
        if self._is_plain(scope):
            self._unplaceable_gangs[_shapes(scope)] = message
        return message

    def _find_unplaceable(self, scope: Scope) -> str:
        return (
            self._unplaceable_gangs.get(_shapes(scope), "") if self._unplaceable_gangs and self._is_plain(scope) else ""
        )

    def _is_plain(self, scope: Scope) -> bool:
        """Return whether the result for this gang holds for every gang of the same shapes."""
        return (
            scope.pack is None
            and not scope.children
            and not self.cycle_snapshot.affinity_index.has_anti_affinity
            and not any(has_pod_affinity(pod.shape) for pod in scope.pods)
        )

    def _explain_surplus(self, gang: GangDemand, group: GroupDemand, pod: PodDemand) -> str:
        within, _ = surplus_domains(self.cycle_snapshot, gang, group)
        if find_node(self.cycle_snapshot, pod, within, ()) is not None:
            # Nodes have capacity for the pod: only the pack constraints keep it from them.
            return explain_packing(self.cycle_snapshot, surplus_scope(self.cycle_snapshot, gang, group, pod))
        return (
            explain_pod(self.cycle_snapshot, pod, within, self._reserved_for)
            if within.labels
            else self._explain_once(pod)
        )

    def _explain_once(self, pod: PodDemand) -> str:
        """Explain each shape once; only pods with pod (anti-)affinity are explained one by one."""
        if has_pod_affinity(pod.shape) or self.cycle_snapshot.affinity_index.has_anti_affinity:
            return explain_pod(self.cycle_snapshot, pod, reserved_for=self._reserved_for)
        if pod.shape not in self._unplaceable_pods:
            self._unplaceable_pods[pod.shape] = explain_pod(self.cycle_snapshot, pod, reserved_for=self._reserved_for)
        return self._unplaceable_pods[pod.shape]

    def _wait(self, gang: GangDemand, reason: WaitReason, message: str) -> None:
        pods = tuple(pod for group in gang.groups for pod in group.pending)
        self.unplaced.append(Unplaced(pods=pods, reason=reason, message=message, gang=gang.name))


def _gang_order(gang: GangDemand) -> tuple[int, datetime, str, str]:
    return -gang.priority, gang.created, gang.name.name, gang.name.namespace


def _surplus_order(item: GangDemand | PodDemand) -> tuple[int, bool, datetime, str, str]:
    match item:
        case GangDemand():
            return -item.priority, item.is_scaled, item.created, item.name.name, item.name.namespace
        case PodDemand():
            return -item.priority, False, item.created, item.name, item.namespace
        case _:
            assert_never(item)


def _shapes(scope: Scope) -> tuple[SchedulingClass, ...]:
    return tuple(pod.shape for pod in scope.pods)


def _terms(gangs: list[GangDemand], ungrouped_pods: tuple[PodDemand, ...]) -> Iterator[PodTerm]:
    pods = [pod for gang in gangs for group in gang.groups for pod in (*group.pending, *group.behind_our_gate)]
    for pod in (*pods, *ungrouped_pods):
        if has_pod_affinity(pod.shape):
            yield from terms_of(pod.shape)

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
from grove.placement.capacity import Cluster, Scratch
from grove.placement.gang import (
    extra_domains,
    extras,
    is_complete,
    minimum_scope,
    place_extras,
    place_gang,
    reserved_scope,
)
from grove.placement.inter_pod_affinity import is_social, terms_of
from grove.placement.topology_packing import Scope
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
from grove.placement.unschedulable_reasons import explain_gang, explain_incomplete, explain_pod


def schedule(cluster: Cluster, gangs: Iterable[GangDemand], ungrouped_pods: Iterable[PodDemand] = ()) -> Decisions:
    """Return the bindings, and why the other pods wait.

    The cluster does not change: the caller adds the pods after it bound them.
    """
    waiting = sorted(gangs, key=_gang_order)
    single = tuple(ungrouped_pods)
    cluster.watch_terms(_terms(waiting, single))
    cycle = _Cycle(Scratch(cluster))
    for gang in waiting:
        cycle.place_minimum(gang)
    bound_count = len(cycle.cycle_snapshot.bindings)
    for gang in waiting:
        cycle.reserve(gang)
    reserved_count = len(cycle.cycle_snapshot.bindings)
    both: list[GangDemand | PodDemand] = [*waiting, *single]
    for item in sorted(both, key=_extra_order):
        match item:
            case GangDemand():
                cycle.place_extras(item)
            case PodDemand():
                cycle.place_loner(item)
            case _:
                assert_never(item)
    bindings = cycle.cycle_snapshot.bindings
    return Decisions(
        bindings=(*bindings[:bound_count], *bindings[reserved_count:]),
        unplaced=tuple(cycle.unplaced),
    )


class _Cycle:
    """The state of one scheduling cycle."""

    def __init__(self, cycle_snapshot: Scratch) -> None:
        self.cycle_snapshot = cycle_snapshot
        self.unplaced: list[Unplaced] = []
        # Gangs with their minima in place, by this cycle or before it.
        self._standing: dict[NamespacedName, None] = {}
        self._kept_for: list[str] = []
        # Free capacity only shrinks within a cycle: what did not fit once need not be tried or explained again.
        self._hopeless_gangs: dict[tuple[SchedulingClass, ...], str] = {}
        self._hopeless_pods: dict[SchedulingClass, str] = {}

    def place_minimum(self, gang: GangDemand) -> None:
        if not is_complete(gang):
            # When every pod of the gang is gated, there is no pod to report on.
            if any(group.pending for group in gang.groups):
                self._wait(gang, WaitReason.GANG_IS_INCOMPLETE, explain_incomplete(gang))
            return
        if gang.needed_count:
            scope = minimum_scope(gang)
            message = self._known_hopeless(scope) or self._try_gang(scope)
            if message:
                self._wait(gang, WaitReason.GANG_DOES_NOT_FIT, message)
                return
        self._standing[gang.name] = None

    def reserve(self, gang: GangDemand) -> None:
        """Reserve capacity for a scaled gang. Nothing is bound: surplus pods of this cycle cannot use it."""
        if gang.name in self._standing or not gang.is_scaled:
            return
        base = NamespacedName(namespace=gang.name.namespace, name=gang.base)
        if not gang.base_is_scheduled and base not in self._standing:
            return
        scope = reserved_scope(gang)
        if scope is not None and place_gang(self.cycle_snapshot, scope):
            self._kept_for.append(gang.name.name)

    def place_extras(self, gang: GangDemand) -> None:
        if gang.name not in self._standing:
            return
        left: dict[str, list[PodDemand]] = {}
        for group in gang.groups:
            for pod in place_extras(self.cycle_snapshot, gang, group) if extras(group) else ():
                left.setdefault(self._explain_extra(gang, group, pod), []).append(pod)
        self.unplaced += [
            Unplaced(pods=tuple(pods), reason=WaitReason.DOES_NOT_FIT, message=message, gang=gang.name)
            for message, pods in left.items()
        ]

    def place_loner(self, pod: PodDemand) -> None:
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
            self._hopeless_gangs[_shapes(scope)] = message
        return message

    def _known_hopeless(self, scope: Scope) -> str:
        return self._hopeless_gangs.get(_shapes(scope), "") if self._hopeless_gangs and self._is_plain(scope) else ""

    def _is_plain(self, scope: Scope) -> bool:
        """Return whether the result for this gang holds for every gang of the same shapes."""
        return (
            scope.pack is None
            and not scope.children
            and not self.cycle_snapshot.neighbours.anyone_repels
            and not any(is_social(pod.shape) for pod in scope.pods)
        )

    def _explain_extra(self, gang: GangDemand, group: GroupDemand, pod: PodDemand) -> str:
        within, _ = extra_domains(self.cycle_snapshot, gang, group)
        return (
            explain_pod(self.cycle_snapshot, pod, within, self._kept_for) if within.labels else self._explain_once(pod)
        )

    def _explain_once(self, pod: PodDemand) -> str:
        """Explain each shape once; only pods with pod (anti-)affinity are explained one by one."""
        if is_social(pod.shape) or self.cycle_snapshot.neighbours.anyone_repels:
            return explain_pod(self.cycle_snapshot, pod, kept_for=self._kept_for)
        if pod.shape not in self._hopeless_pods:
            self._hopeless_pods[pod.shape] = explain_pod(self.cycle_snapshot, pod, kept_for=self._kept_for)
        return self._hopeless_pods[pod.shape]

    def _wait(self, gang: GangDemand, reason: WaitReason, message: str) -> None:
        pods = tuple(pod for group in gang.groups for pod in group.pending)
        self.unplaced.append(Unplaced(pods=pods, reason=reason, message=message, gang=gang.name))


def _gang_order(gang: GangDemand) -> tuple[int, datetime, str, str]:
    return -gang.priority, gang.created, gang.name.name, gang.name.namespace


def _extra_order(item: GangDemand | PodDemand) -> tuple[int, bool, datetime, str, str]:
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
        if is_social(pod.shape):
            yield from terms_of(pod.shape)

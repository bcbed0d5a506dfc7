"""Gang placement: the minima of a gang are placed together, or none of them is.

This module also selects the pods that form the minimum, and the domains where surplus pods may go.
"""

from collections.abc import Mapping

from grove.placement.capacity import ALL_NODES, CycleSnapshot, Domain
from grove.placement.inter_pod_affinity import matches
from grove.placement.topology_packing import Scope, find_current_domain, find_node, place_pods, place_scope
from grove.placement.types import GangDemand, GroupDemand, Pack, PodDemand

# A pack constraint, and the pod groups that it applies to.
_Around = tuple[Pack, tuple[str, ...]]


def minimum(group: GroupDemand) -> tuple[PodDemand, ...]:
    """Return the pending pods that bring the group to its minimum: the first in the order of the gang."""
    return group.pending[: group.needed_count]


def reservable_minimum(group: GroupDemand) -> tuple[PodDemand, ...]:
    """Return the same as `minimum`, including pods whose gate is about to be removed."""
    return (*group.pending, *group.behind_our_gate)[: group.needed_count]


def above_minimum(group: GroupDemand) -> tuple[PodDemand, ...]:
    return group.pending[group.needed_count :]


def is_complete(gang: GangDemand) -> bool:
    """Return whether every minimum can be placed; a gang with a missing or gated one is not tried."""
    return all(group.needed_count <= len(group.pending) for group in gang.groups)


def minimum_scope(gang: GangDemand) -> Scope:
    return _scope(gang, {group.name: minimum(group) for group in gang.groups})


def reserved_scope(gang: GangDemand) -> Scope | None:
    """Return the capacity to reserve for a gang whose gates are about to be removed; None if its minimum is missing."""
    chosen = {group.name: reservable_minimum(group) for group in gang.groups}
    if any(len(chosen[group.name]) < group.needed_count for group in gang.groups):
        return None
    return _scope(gang, chosen)


def place_gang(cycle_snapshot: CycleSnapshot, scope: Scope) -> bool:
    """Place all pods of the scope, or none."""
    return place_scope(cycle_snapshot, scope) or _place_around_anchor(cycle_snapshot, scope)


def _place_around_anchor(cycle_snapshot: CycleSnapshot, scope: Scope) -> bool:
    """Place pods with affinity to each other: they follow the first one, so try that one in every domain.

    Only for gangs without pack constraints, which are the better way to express this.
    """
    anchors = [(pod, term) for pod in scope.pods for term in pod.shape.affinity if matches(term, pod)]
    if not anchors or scope.children:
        return False
    anchor, term = anchors[0]
    rest = tuple(pod for pod in scope.pods if pod is not anchor)
    for value in cycle_snapshot.layout.values(term.topology_key, ALL_NODES):
        mark = cycle_snapshot.mark()
        domain = ALL_NODES.narrow(term.topology_key, value)
        if _place_one(cycle_snapshot, anchor, domain, ()) and place_pods(cycle_snapshot, rest):
            return True
        cycle_snapshot.rollback(mark)
    return False


def place_above_minimum(cycle_snapshot: CycleSnapshot, gang: GangDemand, group: GroupDemand) -> tuple[PodDemand, ...]:
    """Place the pods above the minimum one by one; return those that do not fit."""
    # In a scope that has no pods yet, the first one decides where the others go.
    domains: tuple[Domain, tuple[Domain, ...]] | None = None if _packs_around(gang, group) else (ALL_NODES, ())
    left: list[PodDemand] = []
    for pod in above_minimum(group):
        if domains is not None:
            is_placed = _place_one(cycle_snapshot, pod, *domains)
        elif left and left[-1].shape == pod.shape:
            is_placed = False
        else:
            is_placed = place_scope(cycle_snapshot, surplus_scope(cycle_snapshot, gang, group, pod))
            domains = surplus_domains(cycle_snapshot, gang, group) if is_placed else None
        if not is_placed:
            left.append(pod)
    return tuple(left)


def _place_one(cycle_snapshot: CycleSnapshot, pod: PodDemand, within: Domain, order: tuple[Domain, ...]) -> bool:
    node = find_node(cycle_snapshot, pod, within, order)
    if node is not None:
        cycle_snapshot.place(pod, node)
    return node is not None


def surplus_scope(cycle_snapshot: CycleSnapshot, gang: GangDemand, group: GroupDemand, pod: PodDemand) -> Scope:
    """Return a scope for one pod, nested in all scopes that apply to its group."""
    placed = _nodes_by_group(cycle_snapshot, gang)
    scope = Scope(name=pod.name, pods=(pod,))
    for pack, names in reversed(_packs_around(gang, group)):
        nodes = tuple(node for name in names for node in placed.get(name, ()))
        scope = Scope(name=pod.name, pack=pack, nodes=nodes, children=(scope,))
    return scope


def surplus_domains(
    cycle_snapshot: CycleSnapshot, gang: GangDemand, group: GroupDemand
) -> tuple[Domain, tuple[Domain, ...]]:
    """Return the domain required for a surplus pod of this group, and the preferred ones.

    The placed pods of the gang determine both.
    """
    packs = _packs_around(gang, group)
    if not packs:
        return ALL_NODES, ()
    placed = _nodes_by_group(cycle_snapshot, gang)
    within = ALL_NODES
    order: list[Domain] = []
    for pack, names in packs:
        nodes = [node for name in names for node in placed.get(name, ())]
        if pack.required:
            within = find_current_domain(cycle_snapshot, pack.required, nodes, within) or within
        if pack.preferred:
            current_domain = find_current_domain(cycle_snapshot, pack.preferred, nodes, within)
            order[:0] = [current_domain] if current_domain else []
    # A preference of a wide scope must not lead out of the domain that a narrower scope requires.
    return within, tuple(_narrow_to(current_domain, within) for current_domain in order)


def _packs_around(gang: GangDemand, group: GroupDemand) -> list[_Around]:
    """Return the pack constraints that apply to a group, widest first, each with its groups."""
    around = [(gang.pack, tuple(member.name for member in gang.groups))]
    around += [(wide.pack, wide.group_names) for wide in gang.pack_groups if group.name in wide.group_names]
    around.append((group.pack, (group.name,)))
    return [(pack, names) for pack, names in around if pack is not None]


def _nodes_by_group(cycle_snapshot: CycleSnapshot, gang: GangDemand) -> Mapping[str, tuple[str, ...]]:
    """Return the nodes of each group's pods, including pods placed in this cycle."""
    fresh = cycle_snapshot.node_of
    return {
        group.name: (*group.nodes, *(fresh[pod.uid] for pod in group.pending if pod.uid in fresh))
        for group in gang.groups
    }


def _narrow_to(domain: Domain, within: Domain) -> Domain:
    for key, value in within.labels:
        domain = domain.narrow(key, value)
    return domain


def _scope(gang: GangDemand, chosen: Mapping[str, tuple[PodDemand, ...]]) -> Scope:
    """Return the scopes of a gang: its pack groups with their pod groups, and the other pod groups."""
    if gang.pack is None and not gang.pack_groups and all(group.pack is None for group in gang.groups):
        return Scope(name="", pods=tuple(pod for group in gang.groups for pod in chosen[group.name]))
    children = []
    inside: dict[str, None] = {}
    by_name = {group.name: group for group in gang.groups}
    for wide in gang.pack_groups:
        # A group named twice belongs to the first.
        members = [name for name in wide.group_names if name in by_name and name not in inside]
        inside.update(dict.fromkeys(members))
        parts = tuple(_group_scope(by_name[name], chosen[name]) for name in members)
        children.append(Scope(name=wide.name, pack=wide.pack, children=parts))
    children += [_group_scope(group, chosen[group.name]) for group in gang.groups if group.name not in inside]
    return Scope(name=gang.name.name, pack=gang.pack, children=tuple(children))


def _group_scope(group: GroupDemand, pods: tuple[PodDemand, ...]) -> Scope:
    return Scope(name=group.name, pack=group.pack, nodes=group.nodes, pods=pods)

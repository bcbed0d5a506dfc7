"""Topology packing: place the pods of a scope in one topology domain, or in as few as possible.

A scope is a gang, a pack group or a pod group; scopes nest. A domain is the nodes that share a value of a node label.
Required: all pods of the scope go to one domain. It is the domain of its placed pods, else the fullest that still has
enough capacity, so that emptier domains stay free for larger gangs. Preferred: one domain if any fits, else one domain
after the other, the one with the most capacity first.

The search is greedy: the hardest part first, without backtracking. A gang of unlike pods that fits only in one special
arrangement may wait although it could be placed.
"""

from collections.abc import Iterable
from itertools import chain

from grove.placement.capacity import ALL_NODES, CycleSnapshot, Domain
from grove.placement.node_fit import count_fitting
from grove.placement.types import Model, Pack, PodDemand, SchedulingClass

ANY_NUMBER = 1 << 30


class Scope(Model):
    """Pods to place together. `pods` are those without a narrower scope; `nodes` are those of pods placed earlier."""

    name: str
    pack: Pack | None = None
    nodes: tuple[str, ...] = ()
    pods: tuple[PodDemand, ...] = ()
    children: tuple["Scope", ...] = ()

    @property
    def required(self) -> str:
        return self.pack.required if self.pack else ""

    @property
    def preferred(self) -> str:
        return self.pack.preferred if self.pack else ""

    @property
    def all_pods(self) -> tuple[PodDemand, ...]:
        return (*self.pods, *chain.from_iterable(child.all_pods for child in self.children))

    @property
    def all_nodes(self) -> tuple[str, ...]:
        return (*self.nodes, *chain.from_iterable(child.all_nodes for child in self.children))


def place_scope(
    cycle_snapshot: CycleSnapshot, scope: Scope, within: Domain = ALL_NODES, order: tuple[Domain, ...] = ()
) -> bool:
    """Place every pod of the scope, or none. `order`: domains that an enclosing scope prefers, best first."""
    if not scope.all_pods:
        return True
    domains = required_domains(cycle_snapshot, scope, within) if scope.required else (within,)
    if scope.preferred:
        return any(_place_in_one(cycle_snapshot, scope, domain) for domain in domains) or any(
            _place_parts(cycle_snapshot, scope, domain, _fewest_first(cycle_snapshot, scope, domain))
            for domain in domains
        )
    return any(_place_parts(cycle_snapshot, scope, domain, order) for domain in domains)


def required_domains(cycle_snapshot: CycleSnapshot, scope: Scope, within: Domain) -> tuple[Domain, ...]:
    """Return the domains to try for a required pack: that of its placed pods, else all that fit, fullest first."""
    current_domain = find_current_domain(cycle_snapshot, scope.required, scope.all_nodes, within)
    return (current_domain,) if current_domain else _by_capacity(cycle_snapshot, scope, scope.required, within)


def find_current_domain(cycle_snapshot: CycleSnapshot, key: str, nodes: Iterable[str], within: Domain) -> Domain | None:
    """Return the domain of most of these nodes; of equals, the first by value. None if none of them is in a domain."""
    values = _values_of(cycle_snapshot, key, nodes)
    return within.narrow(key, values[0]) if values else None


def _place_in_one(cycle_snapshot: CycleSnapshot, scope: Scope, within: Domain) -> bool:
    """Place all pods in one preferred domain: that of most placed pods, else the fullest that fits."""
    current_domain = find_current_domain(cycle_snapshot, scope.preferred, scope.all_nodes, within)
    domains = (current_domain,) if current_domain else _by_capacity(cycle_snapshot, scope, scope.preferred, within)
    return any(_place_parts(cycle_snapshot, scope, domain, ()) for domain in domains)


def _fewest_first(cycle_snapshot: CycleSnapshot, scope: Scope, within: Domain) -> tuple[Domain, ...]:
    """Return the preferred domains in an order that uses few: those in use, then those with the most capacity."""
    key = scope.preferred
    shape = scope.all_pods[0].shape
    in_use = [within.narrow(key, value) for value in _values_of(cycle_snapshot, key, scope.all_nodes)]
    others = [within.narrow(key, value) for value in cycle_snapshot.layout.values(key, within)]
    others.sort(key=lambda domain: -_count_capacity(cycle_snapshot, shape, domain))
    return tuple(dict.fromkeys([*in_use, *others]))


def _place_parts(cycle_snapshot: CycleSnapshot, scope: Scope, within: Domain, order: tuple[Domain, ...]) -> bool:
    """Place all or none: the narrower scopes first, largest first; then the pods without one."""
    mark = cycle_snapshot.mark()
    children = sorted(scope.children, key=lambda child: -len(child.all_pods))
    is_placed = all(place_scope(cycle_snapshot, child, within, order) for child in children) and place_pods(
        cycle_snapshot, scope.pods, within, order
    )
    if not is_placed:
        cycle_snapshot.rollback(mark)
    return is_placed


def place_pods(
    cycle_snapshot: CycleSnapshot,
    pods: tuple[PodDemand, ...],
    within: Domain = ALL_NODES,
    order: tuple[Domain, ...] = (),
) -> bool:
    """Place all of these pods; stop at the first that does not fit. The caller rolls back what was placed."""
    for pod in hardest_first(cycle_snapshot, pods):
        node = find_node(cycle_snapshot, pod, within, order)
        if node is None:
            return False
        cycle_snapshot.place(pod, node)
    return True


def find_node(cycle_snapshot: CycleSnapshot, pod: PodDemand, within: Domain, order: tuple[Domain, ...]) -> str | None:
    """Return a node for this pod: in the preferred domains, one after the other, else anywhere within."""
    for domain in order:
        node = cycle_snapshot.find(pod, domain)
        if node is not None:
            return node
    return cycle_snapshot.find(pod, within)


def hardest_first(cycle_snapshot: CycleSnapshot, pods: tuple[PodDemand, ...]) -> tuple[PodDemand, ...]:
    """Sort the pods: few suitable nodes first, then large ones; those with pod affinity last."""
    if len(pods) < 2 or all(pod.shape is pods[0].shape for pod in pods):
        return pods
    difficulty: dict[SchedulingClass, tuple[bool, int, float]] = {}
    for pod in pods:
        if pod.shape not in difficulty:
            difficulty[pod.shape] = _difficulty(cycle_snapshot, pod.shape)
    return tuple(sorted(pods, key=lambda pod: difficulty[pod.shape]))


def _difficulty(cycle_snapshot: CycleSnapshot, shape: SchedulingClass) -> tuple[bool, int, float]:
    largest = cycle_snapshot.layout.largest
    share = max((amount / largest.get(name, amount) for name, amount in shape.requests if amount > 0), default=0.0)
    return bool(shape.affinity), len(cycle_snapshot.layout.candidates(shape, ALL_NODES)), -share


def _by_capacity(cycle_snapshot: CycleSnapshot, scope: Scope, key: str, within: Domain) -> tuple[Domain, ...]:
    """Return the domains with capacity for each shape of the scope taken alone, least capacity first."""
    counts: dict[SchedulingClass, int] = {}
    for pod in scope.all_pods:
        counts[pod.shape] = counts.get(pod.shape, 0) + 1
    main = max(counts, key=lambda shape: counts[shape])
    found = []
    for value in cycle_snapshot.layout.values(key, within):
        domain = within.narrow(key, value)
        capacities = {shape: _count_capacity(cycle_snapshot, shape, domain) for shape in counts}
        if all(capacities[shape] >= count for shape, count in counts.items()):
            found.append((capacities[main], value, domain))
    return tuple(domain for _, _, domain in sorted(found, key=lambda entry: entry[:2]))


def _count_capacity(cycle_snapshot: CycleSnapshot, shape: SchedulingClass, domain: Domain) -> int:
    """Return how many pods of this shape fit, pod affinity not considered."""
    names = cycle_snapshot.layout.candidates(shape, domain)
    return sum(count_fitting(shape, cycle_snapshot.free[name], ANY_NUMBER) for name in names)


def _values_of(cycle_snapshot: CycleSnapshot, key: str, nodes: Iterable[str]) -> list[str]:
    """Return the values of a label on these nodes, the most frequent first."""
    counts: dict[str, int] = {}
    for name in nodes:
        node = cycle_snapshot.nodes.get(name)
        if node is not None and key in node.labels:
            counts[node.labels[key]] = counts.get(node.labels[key], 0) + 1
    return sorted(counts, key=lambda value: (-counts[value], value))

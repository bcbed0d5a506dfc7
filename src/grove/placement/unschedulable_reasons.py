"""Messages that explain to the user why a gang or a pod was not placed: the limiting constraint, with numbers.

These functions decide nothing: they read the snapshot of the cycle right after the decision and do not change it.
"""

from collections.abc import Iterable, Mapping

from grove.api.values.quantities import format_resource
from grove.placement.capacity import ALL_NODES, CycleSnapshot, Domain
from grove.placement.node_fit import missing_resources, static_misfit
from grove.placement.topology_packing import Scope, find_current_domain, find_node, hardest_first, place_scope
from grove.placement.types import PODS, GangDemand, GroupDemand, NodeView, PodDemand, SchedulingClass

MOST_NAMES = 3
_SINGULAR = {"have": "has", "are": "is", "carry": "carries", "lack": "lacks", "do": "does", "fit": "fits"}


def explain_gang(cycle_snapshot: CycleSnapshot, scope: Scope) -> str:
    """Explain why the minimum of a gang was not placed: too little capacity in the cluster, or in one domain."""
    mark = cycle_snapshot.mark()
    pods = scope.all_pods
    rest = place_some(cycle_snapshot, pods, ALL_NODES)
    too_large = explain_size(rest[0].shape, cycle_snapshot.layout.largest) if rest else ""
    if too_large:
        sentence = f"never fits: {too_large}"
    elif rest:
        nodes = _reasons_of_nodes(cycle_snapshot, rest[0], ALL_NODES)
        fit = f"{len(pods) - len(rest)} fit: {nodes}{_describe_unlike_pod(pods, rest[0])}"
        sentence = f"needs {describe(pods)} together, {fit}"
    else:
        cycle_snapshot.rollback(mark)
        sentence = explain_packing(cycle_snapshot, scope)
    cycle_snapshot.rollback(mark)
    return sentence


def explain_incomplete(gang: GangDemand) -> str:
    """Explain which pods a gang lacks before its minimum can be placed."""
    return "waits for its gang: " + "; ".join(
        _explain_missing(group) for group in gang.groups if group.needed_count > len(group.pending)
    )


def explain_pod(
    cycle_snapshot: CycleSnapshot, pod: PodDemand, within: Domain = ALL_NODES, reserved_for: Iterable[str] = ()
) -> str:
    """Explain why no node fits one pod, and for which gangs capacity is reserved."""
    if too_large := explain_size(pod.shape, cycle_snapshot.layout.largest):
        return f"never fits: {too_large}"
    total = len(cycle_snapshot.layout.nodes)
    place = f" in {_name(within)}" if within != ALL_NODES else ""
    kept = list_names(list(reserved_for))
    suffix = f"; capacity is reserved for the minimum of {kept}" if kept else ""
    return f"0/{total} nodes are available{place}: {_describe_reasons(cycle_snapshot, pod, within)}{suffix}"


def explain_size(shape: SchedulingClass, largest: Mapping[str, int], noun: str = "node") -> str:
    """Return which resources of one pod exceed the largest node; empty if none does, or if there are no nodes."""
    excess = [(name, amount) for name, amount in shape.requests if largest and amount > largest.get(name, 0)]
    return ", ".join(_describe_excess(name, amount, largest.get(name, 0), noun) for name, amount in excess)


def _describe_excess(name: str, amount: int, largest: int, noun: str) -> str:
    asks = f"the pod asks for {format_resource(name, amount)}"
    has = f"the largest {noun} has {format_resource(name, largest)} {name}" if largest else f"no {noun} has {name}"
    return f"{has}, {asks}"


def describe(pods: tuple[PodDemand, ...]) -> str:
    """Format pods by their requests, in order of appearance: `2 pods of cpu=1 and 8 pods of memory=80Mi`."""
    counts: dict[str, int] = {}
    for pod in pods:
        text = describe_requests(pod.shape)
        counts[text] = counts.get(text, 0) + 1
    parts = [f"{_pods(count)}{f' of {text}' if text else ''}" for text, count in counts.items()]
    return _join_words(parts)


def describe_requests(shape: SchedulingClass) -> str:
    return ", ".join(
        f"{name}={format_resource(name, milli)}" for name, milli in shape.requests if milli and name != PODS
    )


def _explain_missing(group: GroupDemand) -> str:
    gated = len(group.behind_our_gate) + group.behind_other_gates_count
    here = len(group.pending) + group.scheduled_count
    text = f"{group.name} needs {_pods(group.min_replicas)}, {here} can be placed"
    return f"{text}, {gated} still gated" if gated else text


def explain_packing(cycle_snapshot: CycleSnapshot, scope: Scope, within: Domain = ALL_NODES) -> str:
    """Explain the widest scope that cannot be packed; the pods themselves fit on the free nodes."""
    if scope.required and not _fits(cycle_snapshot, scope, within):
        return _explain_required(cycle_snapshot, scope, within)
    for child in scope.children:
        if not _fits(cycle_snapshot, child, within):
            return explain_packing(cycle_snapshot, child, within)
    return f"needs {describe(scope.all_pods)} together: each part fits alone, but not all under their pack constraints"


def _explain_required(cycle_snapshot: CycleSnapshot, scope: Scope, within: Domain) -> str:
    key = scope.required
    word = key.rsplit("/", 1)[-1]
    pods = scope.all_pods
    needs = f"{scope.name} needs {describe(pods)} together on one {word} ({key})"
    current_domain = find_current_domain(cycle_snapshot, key, scope.all_nodes, within)
    if current_domain is not None:
        fitting_count = _count_fitting(cycle_snapshot, pods, current_domain)
        return f"{needs}, where its placed pods are: {_name(current_domain)} has capacity for {fitting_count}"
    domains = [within.narrow(key, value) for value in cycle_snapshot.layout.values(key, within)]
    if not domains:
        return f"{needs}, but no node has that label"
    best = max(domains, key=lambda domain: _count_fitting(cycle_snapshot, pods, domain))
    fitting_count = _count_fitting(cycle_snapshot, pods, best)
    if fitting_count == len(pods):
        return f"{needs}: each part fits alone, but not all under their pack constraints"
    return f"{needs}, the best {word} has capacity for {fitting_count} ({_name(best)})"


def _fits(cycle_snapshot: CycleSnapshot, scope: Scope, within: Domain) -> bool:
    mark = cycle_snapshot.mark()
    fits = place_scope(cycle_snapshot, scope, within)
    cycle_snapshot.rollback(mark)
    return fits


def _count_fitting(cycle_snapshot: CycleSnapshot, pods: tuple[PodDemand, ...], domain: Domain) -> int:
    mark = cycle_snapshot.mark()
    rest = place_some(cycle_snapshot, pods, domain)
    cycle_snapshot.rollback(mark)
    return len(pods) - len(rest)


def place_some(
    cycle_snapshot: CycleSnapshot, pods: tuple[PodDemand, ...], domain: Domain = ALL_NODES
) -> list[PodDemand]:
    """Place the pods that fit; return the others."""
    rest = []
    for pod in hardest_first(cycle_snapshot, pods):
        node = find_node(cycle_snapshot, pod, domain, ())
        if node is None:
            rest.append(pod)
        else:
            cycle_snapshot.place(pod, node)
    return rest


def _describe_unlike_pod(pods: tuple[PodDemand, ...], pod: PodDemand) -> str:
    """Describe the pod that did not fit, if the pods differ."""
    if all(other.shape == pod.shape for other in pods):
        return ""
    return f", for {describe((pod,))}"


def _reasons_of_nodes(cycle_snapshot: CycleSnapshot, pod: PodDemand, within: Domain) -> str:
    """Format the reasons for a gang: `9 of 10 nodes do not have enough free memory, 1 is not ready`."""
    reasons = _count_reasons(cycle_snapshot, pod, within)
    if not reasons:
        return "there are no nodes"
    (reason, count), *others = reasons.items()
    first = count_nodes(reason, count, len(cycle_snapshot.layout.nodes))
    return ", ".join([first, *(_phrase(*other) for other in others)])


def count_nodes(reason: str, count: int, total: int) -> str:
    """Return how many nodes a reason of `static_misfit` excludes: `1 of 4 nodes lacks the label disk=ssd`."""
    number, rest = _phrase(reason, count).split(" ", 1)
    return f"{number} of {total} {'node' if total == 1 else 'nodes'} {rest}"


def _describe_reasons(cycle_snapshot: CycleSnapshot, pod: PodDemand, within: Domain) -> str:
    reasons = _count_reasons(cycle_snapshot, pod, within)
    return ", ".join(_phrase(reason, count) for reason, count in reasons.items()) or "there are none"


def _phrase(reason: str, count: int) -> str:
    verb, rest = reason.split(" ", 1)
    return f"{count} {_SINGULAR[verb] if count == 1 else verb} {rest}"


def _count_reasons(cycle_snapshot: CycleSnapshot, pod: PodDemand, within: Domain) -> dict[str, int]:
    """Count the nodes by the reason why the pod does not fit; the most frequent first, then by text."""
    counts: dict[str, int] = {}
    for node in cycle_snapshot.layout.nodes:
        reason = "are in another domain" if node not in within else _find_reason(cycle_snapshot, pod, node)
        counts[reason] = counts.get(reason, 0) + 1
    return dict(sorted(counts.items(), key=lambda entry: (-entry[1], entry[0])))


def _find_reason(cycle_snapshot: CycleSnapshot, pod: PodDemand, node: NodeView) -> str:
    shape = pod.shape
    if misfit := static_misfit(shape, node):
        return misfit
    if small := missing_resources(shape, node.allocatable):
        return f"are too small even when empty ({', '.join(small)})"
    if full := missing_resources(shape, cycle_snapshot.free[node.name]):
        return f"do not have enough free {', '.join(full)}"
    return cycle_snapshot.affinity_index.affinity_filter(pod).reason(node.labels) or "fit only without the others"


def _name(domain: Domain) -> str:
    return ", ".join(f"{key.rsplit('/', 1)[-1]}={value}" for key, value in domain.labels)


def list_names(names: list[str]) -> str:
    """Return the first names, and how many more there are: `a, b, c and 5 more`."""
    rest = len(names) - MOST_NAMES
    return _join_words([*names[:MOST_NAMES], f"{rest} more"] if rest > 0 else names)


def _pods(count: int) -> str:
    return f"{count} {'pod' if count == 1 else 'pods'}"


def _join_words(parts: list[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else "".join(parts)

"""Messages that explain to the user why a gang or a pod was not placed: the limiting constraint, with numbers.

These functions decide nothing: they read the snapshot of the cycle right after the decision and do not change it.
"""

from collections.abc import Iterable

from grove.api.values.quantities import format_resource
from grove.placement.capacity import EVERYWHERE, Domain, Scratch
from grove.placement.node_fit import missing_resources, static_misfit
from grove.placement.topology_packing import Scope, find_node, hardest_first, home_domain, place_scope
from grove.placement.types import PODS, GangDemand, GroupDemand, NodeView, PodDemand, SchedulingClass

MOST_NAMES = 3
_SINGULAR = {"have": "has", "are": "is", "carry": "carries", "lack": "lacks", "do": "does"}


def explain_gang(cycle_snapshot: Scratch, scope: Scope) -> str:
    """Explain why the minimum of a gang was not placed: too little capacity in the cluster, or in one domain."""
    mark = cycle_snapshot.mark()
    pods = scope.all_pods
    rest = _place_some(cycle_snapshot, pods, EVERYWHERE)
    if rest:
        nodes = _reasons_of_nodes(cycle_snapshot, rest[0], EVERYWHERE)
        sentence = f"needs {describe(pods)} together, {len(pods) - len(rest)} fit: {nodes}{_which(pods, rest[0])}"
    else:
        cycle_snapshot.rollback(mark)
        sentence = _explain_packing(cycle_snapshot, scope)
    cycle_snapshot.rollback(mark)
    return sentence


def explain_incomplete(gang: GangDemand) -> str:
    """Explain which pods a gang lacks before its minimum can be placed."""
    return "waits for its gang: " + "; ".join(
        _explain_missing(group) for group in gang.groups if group.needed_count > len(group.pending)
    )


def explain_pod(
    cycle_snapshot: Scratch, pod: PodDemand, within: Domain = EVERYWHERE, kept_for: Iterable[str] = ()
) -> str:
    """Explain why no node fits one pod, and for which gangs capacity is reserved."""
    total = len(cycle_snapshot.layout.nodes)
    place = f" in {_name(within)}" if within != EVERYWHERE else ""
    kept = _listed(_at_most(MOST_NAMES, list(kept_for)))
    suffix = f"; room is kept for the minimum of {kept}" if kept else ""
    return f"0/{total} nodes are available{place}: {_counted(cycle_snapshot, pod, within)}{suffix}"


def describe(pods: tuple[PodDemand, ...]) -> str:
    """Format pods by their requests, in order of appearance: `2 pods of cpu=1 and 8 pods of memory=80Mi`."""
    counts: dict[str, int] = {}
    for pod in pods:
        text = describe_requests(pod.shape)
        counts[text] = counts.get(text, 0) + 1
    parts = [f"{_pods(count)}{f' of {text}' if text else ''}" for text, count in counts.items()]
    return _listed(parts)


def describe_requests(shape: SchedulingClass) -> str:
    return ", ".join(
        f"{name}={format_resource(name, milli)}" for name, milli in shape.requests if milli and name != PODS
    )


def _explain_missing(group: GroupDemand) -> str:
    gated = len(group.behind_our_gate) + group.behind_other_gates_count
    here = len(group.pending) + group.scheduled_count
    text = f"{group.name} needs {_pods(group.min_replicas)}, {here} can be placed"
    return f"{text}, {gated} still gated" if gated else text


def _explain_packing(cycle_snapshot: Scratch, scope: Scope, within: Domain = EVERYWHERE) -> str:
    """Explain the widest scope that cannot be packed; the pods themselves fit on the free nodes."""
    if scope.required and not _fits(cycle_snapshot, scope, within):
        return _explain_required(cycle_snapshot, scope, within)
    for child in scope.children:
        if not _fits(cycle_snapshot, child, within):
            return _explain_packing(cycle_snapshot, child, within)
    return f"needs {describe(scope.all_pods)} together: each part fits alone, but not all under their pack constraints"


def _explain_required(cycle_snapshot: Scratch, scope: Scope, within: Domain) -> str:
    key = scope.required
    word = key.rsplit("/", 1)[-1]
    pods = scope.all_pods
    needs = f"{scope.name} needs {describe(pods)} together on one {word} ({key})"
    home = home_domain(cycle_snapshot, key, scope.all_nodes, within)
    if home is not None:
        return f"{needs}, where its placed pods are: {_name(home)} has room for {_fitting(cycle_snapshot, pods, home)}"
    domains = [within.narrowed(key, value) for value in cycle_snapshot.layout.values(key, within)]
    if not domains:
        return f"{needs}, but no node has that label"
    best = max(domains, key=lambda domain: _fitting(cycle_snapshot, pods, domain))
    room = _fitting(cycle_snapshot, pods, best)
    if room == len(pods):
        return f"{needs}: each part fits alone, but not all under their pack constraints"
    return f"{needs}, the best {word} has room for {room} ({_name(best)})"


def _fits(cycle_snapshot: Scratch, scope: Scope, within: Domain) -> bool:
    mark = cycle_snapshot.mark()
    fits = place_scope(cycle_snapshot, scope, within)
    cycle_snapshot.rollback(mark)
    return fits


def _fitting(cycle_snapshot: Scratch, pods: tuple[PodDemand, ...], domain: Domain) -> int:
    mark = cycle_snapshot.mark()
    rest = _place_some(cycle_snapshot, pods, domain)
    cycle_snapshot.rollback(mark)
    return len(pods) - len(rest)


def _place_some(cycle_snapshot: Scratch, pods: tuple[PodDemand, ...], domain: Domain) -> list[PodDemand]:
    """Place the pods that fit; return the others."""
    rest = []
    for pod in hardest_first(cycle_snapshot, pods):
        node = find_node(cycle_snapshot, pod, domain, ())
        if node is None:
            rest.append(pod)
        else:
            cycle_snapshot.place(pod, node)
    return rest


def _which(pods: tuple[PodDemand, ...], pod: PodDemand) -> str:
    """Which of unlike pods it was that did not fit."""
    if all(other.shape == pod.shape for other in pods):
        return ""
    return f", for {describe((pod,))}"


def _reasons_of_nodes(cycle_snapshot: Scratch, pod: PodDemand, within: Domain) -> str:
    """Format the reasons for a gang: `9 of 10 nodes do not have enough free memory, 1 is not ready`."""
    reasons = _count_reasons(cycle_snapshot, pod, within)
    if not reasons:
        return "there are no nodes"
    total = len(cycle_snapshot.layout.nodes)
    first, *others = (_phrase(reason, count) for reason, count in reasons.items())
    count, rest = first.split(" ", 1)
    noun = "node" if total == 1 else "nodes"
    return ", ".join([f"{count} of {total} {noun} {rest}", *others])


def _counted(cycle_snapshot: Scratch, pod: PodDemand, within: Domain) -> str:
    reasons = _count_reasons(cycle_snapshot, pod, within)
    return ", ".join(_phrase(reason, count) for reason, count in reasons.items()) or "there are none"


def _phrase(reason: str, count: int) -> str:
    verb, rest = reason.split(" ", 1)
    return f"{count} {_SINGULAR[verb] if count == 1 else verb} {rest}"


def _count_reasons(cycle_snapshot: Scratch, pod: PodDemand, within: Domain) -> dict[str, int]:
    """Count the nodes by the reason why the pod does not fit; the most frequent first, then by text."""
    counts: dict[str, int] = {}
    for node in cycle_snapshot.layout.nodes:
        reason = "are in another domain" if node not in within else _reason(cycle_snapshot, pod, node)
        counts[reason] = counts.get(reason, 0) + 1
    return dict(sorted(counts.items(), key=lambda entry: (-entry[1], entry[0])))


def _reason(cycle_snapshot: Scratch, pod: PodDemand, node: NodeView) -> str:
    shape = pod.shape
    if misfit := static_misfit(shape, node):
        return misfit
    if small := missing_resources(shape, node.allocatable):
        return f"are too small even when empty ({', '.join(small)})"
    if full := missing_resources(shape, cycle_snapshot.free[node.name]):
        return f"have no room for one more ({', '.join(full)})"
    return cycle_snapshot.neighbours.veto(pod).reason(node.labels) or "have room only without the others"


def _name(domain: Domain) -> str:
    return ", ".join(f"{key.rsplit('/', 1)[-1]}={value}" for key, value in domain.labels)


def _at_most(count: int, names: list[str]) -> list[str]:
    return names if len(names) <= count else [*names[:count], f"{len(names) - count} more"]


def _pods(count: int) -> str:
    return f"{count} {'pod' if count == 1 else 'pods'}"


def _listed(parts: list[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else "".join(parts)

"""Diagnosis of pods that have no node: the one cause that a user can act on.

The scheduler reports which constraint failed on how many nodes. This module asks a further question: what would have to
change? It tries the same placement on empty nodes, on uncordoned nodes and on ready nodes. Pure; `grove why` reads the
nodes and the pods.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum

import msgspec

from grove.api import labels
from grove.api.values.quantities import format_resource
from grove.placement.capacity import Cluster, CycleSnapshot, largest_amounts
from grove.placement.gang import place_gang
from grove.placement.inter_pod_affinity import has_pod_affinity, terms_of
from grove.placement.node_fit import NOT_READY, UNREACHABLE, UNSCHEDULABLE, missing_resources, static_misfit
from grove.placement.topology_packing import Scope
from grove.placement.types import Model, NodeView, PodDemand, SchedulingClass
from grove.placement.unschedulable_reasons import count_nodes, explain_gang, explain_size, list_names, place_some

LISTED_HOLDERS = 4
OTHER_PODS = "pods outside of Grove"


class MisfitKind(StrEnum):
    """The kinds of causes that keep pods without a node."""

    NO_NODES = "NoNodes"
    # Not even on empty nodes.
    NEVER_FITS = "NeverFits"
    NO_MATCHING_NODE = "NoMatchingNode"
    NODES_UNAVAILABLE = "NodesUnavailable"
    IN_USE = "InUse"


class PlacedPod(Model):
    pod: PodDemand
    node: str
    # It is being deleted: on a node that returns, it makes room.
    is_terminating: bool = False


class Diagnosis(Model):
    """`cause` completes `N pods wait for nodes: ...`, `advice` is a sentence without a period."""

    kind: MisfitKind
    cause: str
    advice: str
    # The pods that it is about; None: all of them together.
    shape: SchedulingClass | None = None


def diagnose(nodes: Sequence[NodeView], placed: Sequence[PlacedPod], scope: Scope) -> Diagnosis | None:
    """Return why the pods of the scope cannot be placed together. None if they can, or for another reason."""
    if not nodes:
        return Diagnosis(kind=MisfitKind.NO_NODES, cause="the cluster has no nodes", advice="add a node")
    usable = [_as_ready(_as_uncordoned(node)) for node in nodes]
    shapes = tuple(dict.fromkeys(pod.shape for pod in scope.all_pods))
    return (
        _first(_diagnose_labels(shape, usable) or _diagnose_size(shape, usable, scope) for shape in shapes)
        or _name_restriction(_diagnose_total(usable, scope), usable, (), scope)
        or (None if _fits(nodes, placed, scope) else _diagnose_load(nodes, usable, placed, scope))
    )


def _first(found: Iterable[Diagnosis | None]) -> Diagnosis | None:
    return next((one for one in found if one is not None), None)


# What no other load can change


def _diagnose_labels(shape: SchedulingClass, usable: Sequence[NodeView]) -> Diagnosis | None:
    """Return why no node is suitable by its labels and taints."""
    misfits = [static_misfit(shape, node) for node in usable]
    if not all(misfits):
        return None
    for key, value in shape.node_selector:
        if not any(node.labels.get(key) == value for node in usable):
            return Diagnosis(
                kind=MisfitKind.NO_MATCHING_NODE,
                cause=f"no node has the label {key}={value} of their node selector{_other_values(key, usable)}",
                advice=f"correct nodeSelector in the template, or label a node: kubectl label node NODE {key}={value}",
                shape=shape,
            )
    reasons = sorted(dict.fromkeys(misfits), key=lambda reason: -misfits.count(reason))
    counts = ", ".join(count_nodes(reason, misfits.count(reason), len(misfits)) for reason in reasons)
    return Diagnosis(kind=MisfitKind.NO_MATCHING_NODE, cause=counts, advice=_CORRECT_RESTRICTION, shape=shape)


_CORRECT_RESTRICTION = (
    "correct nodeSelector, affinity or tolerations in the template, or the labels and taints of the nodes"
)


def _other_values(key: str, nodes: Sequence[NodeView]) -> str:
    values = sorted({node.labels[key]: None for node in nodes if key in node.labels})
    return f"; it is {list_names(values)} there" if values else ""


def _diagnose_size(shape: SchedulingClass, usable: Sequence[NodeView], scope: Scope) -> Diagnosis | None:
    """Return which resource of one pod no suitable node has, even when it is empty."""
    suitable = [node for node in usable if not static_misfit(shape, node)]
    noun = "suitable node" if len(suitable) < len(usable) else "node"
    too_large = explain_size(shape, largest_amounts(suitable), noun)
    if not too_large:
        return None
    diagnosis = Diagnosis(
        kind=MisfitKind.NEVER_FITS,
        cause=too_large,
        advice="lower the request in the template, or add a larger node",
        shape=shape,
    )
    one_pod = Scope(name=scope.name, pods=tuple(pod for pod in scope.all_pods if pod.shape == shape)[:1])
    return _name_restriction(diagnosis, usable, (), one_pod)


def _diagnose_total(usable: Sequence[NodeView], scope: Scope) -> Diagnosis | None:
    """Return why the pods do not fit together even if nothing else runs."""
    if _fits(usable, (), scope):
        return None
    pods = scope.all_pods
    suitable = _suitable_nodes(usable, pods)
    total = _sum_allocatable(suitable)
    requested = _sum_requests(pods)
    which = _count_suitable(suitable)
    which = which if len(suitable) < len(usable) else which.replace("suitable ", "")
    nodes = f"{which} {'has' if len(suitable) == 1 else 'have'}"
    short = [name for name, amount in requested.items() if amount > total.get(name, 0)]
    if short:
        name = min(short, key=_importance)
        cause = (
            f"the minimum asks for {format_resource(name, requested[name])} {name} at once, "
            f"the {nodes} {format_resource(name, total.get(name, 0))}"
        )
    elif scope.pack or scope.children:
        cause = f"even on empty nodes, {explain_gang(_snapshot(usable, (), scope), scope)}"
    else:
        fitting = len(pods) - len(place_some(_snapshot(usable, (), scope), pods))
        cause = f"the {nodes} room for {fitting} of these {len(pods)} pods together, even when empty"
    return Diagnosis(
        kind=MisfitKind.NEVER_FITS,
        cause=cause,
        advice="lower minAvailable or the requests in the template, or add nodes",
    )


def _suitable_nodes(nodes: Sequence[NodeView], pods: Sequence[PodDemand]) -> list[NodeView]:
    """Return the nodes that some of the pods could run on if they were empty."""
    shapes = dict.fromkeys(pod.shape for pod in pods)
    return [node for node in nodes if any(not static_misfit(shape, node) for shape in shapes)]


def _count_suitable(nodes: Sequence[NodeView]) -> str:
    return "only suitable node" if len(nodes) == 1 else f"{len(nodes)} suitable nodes"


def _name_restriction(
    diagnosis: Diagnosis | None, nodes: Sequence[NodeView], placed: Sequence[PlacedPod], scope: Scope
) -> Diagnosis | None:
    """Put the labels or taints that exclude nodes first, if the pods would fit without them."""
    if diagnosis is None:
        return None
    for shape in dict.fromkeys(pod.shape for pod in scope.all_pods):
        misfits = [static_misfit(shape, _as_ready(_as_uncordoned(node))) for node in nodes]
        reasons = [reason for reason in misfits if reason]
        if reasons and _fits([_without_taints(node) for node in nodes], placed, _without_restrictions(scope)):
            reason = max(dict.fromkeys(reasons), key=reasons.count)
            return msgspec.structs.replace(
                diagnosis,
                cause=f"{count_nodes(reason, misfits.count(reason), len(misfits))}; {diagnosis.cause}",
                advice=f"{diagnosis.advice}; or {_CORRECT_RESTRICTION}",
            )
    return diagnosis


# What load, cordons and failures cause


def _diagnose_load(
    nodes: Sequence[NodeView], usable: Sequence[NodeView], placed: Sequence[PlacedPod], scope: Scope
) -> Diagnosis | None:
    uncordoned, ready = [_as_uncordoned(node) for node in nodes], [_as_ready(node) for node in nodes]
    cordoned, lost = [n.name for n in nodes if n.is_cordoned], [n.name for n in nodes if not n.is_ready]
    of = f"of {len(nodes)} nodes"
    cordon_text = f"{len(cordoned)} {of} {_be(cordoned)} cordoned ({list_names(cordoned)})"
    lost_text = f"{len(lost)} {of} {_be(lost)} not ready ({list_names(lost)})"
    uncordon = f"allow new pods there again: kubectl uncordon {' '.join(cordoned)}"
    repair = "repair or replace the nodes that are not ready"
    choices = (
        (cordoned, uncordoned, cordon_text, uncordon),
        (lost, ready, lost_text, repair),
        (cordoned and lost, usable, f"{cordon_text}, {lost_text}", f"{repair}, and {uncordon}"),
    )
    staying = [one for one in placed if not (one.is_terminating and one.node in lost)]
    for names, changed, cause, advice in choices:
        if names and _fits(changed, staying, scope):
            return Diagnosis(kind=MisfitKind.NODES_UNAVAILABLE, cause=cause, advice=advice)
    return _name_restriction(_diagnose_use(nodes, placed, scope), nodes, placed, scope)


def _be(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _diagnose_use(nodes: Sequence[NodeView], placed: Sequence[PlacedPod], scope: Scope) -> Diagnosis | None:
    """Return which sets hold the resource that is missing. None if no resource is missing."""
    pods = scope.all_pods
    suitable = _suitable_nodes(nodes, pods)
    name = _missing_resource(suitable, placed, scope)
    if not name:
        return None
    total, requested = _sum_allocatable(suitable).get(name, 0), _sum_requests(pods)[name]
    holders = _holders(name, suitable, placed, own=pods[0].namespace)
    used = sum(holders.values())
    each = max(amount for pod in pods for resource, amount in pod.shape.requests if resource == name)
    whose = "" if len(suitable) == len(nodes) else f" of the {_count_suitable(suitable)}"
    cause = f"{format_resource(name, used)} of {format_resource(name, total)} {name}{whose} in use"
    cause += f": {_describe_holders(name, holders)}" if holders else ""
    cause += f"; {format_resource(name, requested)} more needed"
    cause += " at once" if len(pods) > 1 else ""
    if total - used >= requested:
        cause += ", and no node has that much left" if len(pods) == 1 else ""
        cause += f", {format_resource(name, each)} on each node" if len(pods) > 1 else ""
    return Diagnosis(
        kind=MisfitKind.IN_USE,
        cause=cause,
        advice="add nodes, or scale down or delete one of the sets that hold the resource",
    )


def _missing_resource(nodes: Sequence[NodeView], placed: Sequence[PlacedPod], scope: Scope) -> str:
    """Return the resource that most nodes lack for the first pod that does not fit beside the others."""
    snapshot = _snapshot(nodes, placed, scope)
    for pod in scope.all_pods:
        node = snapshot.find(pod)
        if node is not None:
            snapshot.place(pod, node)
            continue
        missing = [name for one in nodes for name in missing_resources(pod.shape, snapshot.free[one.name])]
        return min(dict.fromkeys(missing), key=lambda name: (-missing.count(name), *_importance(name)), default="")
    return ""


def _holders(
    name: str, nodes: Sequence[NodeView], placed: Sequence[PlacedPod], *, own: str
) -> dict[str, int]:  # fmt: skip
    """Return the amounts in use by set, largest first. Sets of other namespaces have the namespace before the name."""
    names = frozenset(node.name for node in nodes)
    held: dict[str, int] = {}
    for one in placed:
        amount = dict(one.pod.shape.requests).get(name, 0)
        if one.node in names and amount:
            holder = _holder(one.pod, own)
            held[holder] = held.get(holder, 0) + amount
    return dict(sorted(held.items(), key=lambda entry: (-entry[1], entry[0])))


def _holder(pod: PodDemand, own: str) -> str:
    name = pod.labels.get(labels.PART_OF, "")
    if pod.labels.get(labels.MANAGED_BY) != labels.MANAGED_BY_VALUE or not name:
        return OTHER_PODS
    return name if pod.namespace == own else f"{pod.namespace}/{name}"


def _describe_holders(name: str, holders: dict[str, int]) -> str:
    shown = [f"{holder} {format_resource(name, amount)}" for holder, amount in list(holders.items())[:LISTED_HOLDERS]]
    rest = sum(list(holders.values())[LISTED_HOLDERS:])
    return ", ".join([*shown, f"others {format_resource(name, rest)}"] if rest else shown)


def _importance(name: str) -> tuple[bool, str]:
    """Order resources: devices first, because they are what gangs compete for."""
    return "/" not in name, name


def _sum_allocatable(nodes: Sequence[NodeView]) -> dict[str, int]:
    total: dict[str, int] = {}
    for node in nodes:
        for name, amount in node.allocatable.items():
            total[name] = total.get(name, 0) + amount
    return total


def _sum_requests(pods: Sequence[PodDemand]) -> dict[str, int]:
    total: dict[str, int] = {}
    for pod in pods:
        for name, amount in pod.shape.requests:
            total[name] = total.get(name, 0) + amount
    return total


# Trials


def _as_uncordoned(node: NodeView) -> NodeView:
    taints = tuple(taint for taint in node.taints if taint.key != UNSCHEDULABLE.key)
    return msgspec.structs.replace(node, is_cordoned=False, taints=taints)


def _as_ready(node: NodeView) -> NodeView:
    taints = tuple(taint for taint in node.taints if taint.key not in (NOT_READY.key, UNREACHABLE.key))
    return msgspec.structs.replace(node, is_ready=True, taints=taints)


def _without_taints(node: NodeView) -> NodeView:
    """Return the node without taints, except those of cordoned and unready nodes."""
    kept = (UNSCHEDULABLE.key, NOT_READY.key, UNREACHABLE.key)
    return msgspec.structs.replace(node, taints=tuple(taint for taint in node.taints if taint.key in kept))


def _without_restrictions(scope: Scope) -> Scope:
    """Return the scope with pods that may run on a node with any labels."""
    pods = tuple(
        msgspec.structs.replace(pod, shape=msgspec.structs.replace(pod.shape, node_selector=(), node_terms=None))
        for pod in scope.pods
    )
    return msgspec.structs.replace(
        scope, pods=pods, children=tuple(_without_restrictions(child) for child in scope.children)
    )


def _fits(nodes: Iterable[NodeView], placed: Iterable[PlacedPod], scope: Scope) -> bool:
    return place_gang(_snapshot(nodes, placed, scope), scope)


def _snapshot(nodes: Iterable[NodeView], placed: Iterable[PlacedPod], scope: Scope) -> CycleSnapshot:
    cluster = Cluster(nodes)
    cluster.watch_terms(term for pod in scope.all_pods if has_pod_affinity(pod.shape) for term in terms_of(pod.shape))
    for one in placed:
        cluster.place(one.pod, one.node)
    return CycleSnapshot(cluster)

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
from grove.placement.unschedulable_reasons import explain_gang, explain_size, list_names, place_some

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
        _first(_diagnose_labels(shape, usable) or _diagnose_size(shape, usable) for shape in shapes)
        or _diagnose_total(usable, scope)
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
    counts = ", ".join(f"{misfits.count(reason)} of {len(usable)} nodes {reason}" for reason in reasons)
    return Diagnosis(
        kind=MisfitKind.NO_MATCHING_NODE,
        cause=counts,
        advice="correct nodeSelector, affinity or tolerations in the template, or the labels and taints of the nodes",
        shape=shape,
    )


def _other_values(key: str, nodes: Sequence[NodeView]) -> str:
    values = sorted({node.labels[key]: None for node in nodes if key in node.labels})
    return f"; it is {list_names(values)} there" if values else ""


def _diagnose_size(shape: SchedulingClass, usable: Sequence[NodeView]) -> Diagnosis | None:
    """Return which resource of one pod no suitable node has, even when it is empty."""
    suitable = [node for node in usable if not static_misfit(shape, node)]
    too_large = explain_size(shape, largest_amounts(suitable))
    if not too_large:
        return None
    return Diagnosis(
        kind=MisfitKind.NEVER_FITS,
        cause=too_large,
        advice="lower the request in the template, or add a larger node",
        shape=shape,
    )


def _diagnose_total(usable: Sequence[NodeView], scope: Scope) -> Diagnosis | None:
    """Return why the pods do not fit together even if nothing else runs."""
    if _fits(usable, (), scope):
        return None
    pods = scope.all_pods
    total = _sum_allocatable(usable)
    asked = _sum_requests(pods)
    nodes = f"{len(usable)} nodes have" if len(usable) > 1 else "only node has"
    short = [name for name, amount in asked.items() if amount > total.get(name, 0)]
    if short:
        name = min(short, key=_importance)
        cause = (
            f"the minimum asks for {format_resource(name, asked[name])} {name} at once, "
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
    return _diagnose_use(nodes, placed, scope)


def _be(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _diagnose_use(nodes: Sequence[NodeView], placed: Sequence[PlacedPod], scope: Scope) -> Diagnosis | None:
    """Return which sets hold the resource that is missing. None if no resource is missing."""
    pods = scope.all_pods
    suitable = [node for node in nodes if any(not static_misfit(pod.shape, node) for pod in pods)]
    name = _missing_resource(suitable, placed, scope)
    if not name:
        return None
    total, asked = _sum_allocatable(suitable).get(name, 0), _sum_requests(pods)[name]
    holders = _holders(name, suitable, placed, own=pods[0].namespace)
    used = sum(holders.values())
    each = max(amount for pod in pods for resource, amount in pod.shape.requests if resource == name)
    cause = f"{format_resource(name, used)} of {format_resource(name, total)} {name} are in use"
    cause += f": {_describe_holders(name, holders)}" if holders else ""
    cause += f"; {format_resource(name, asked)} more {'is' if asked == 1000 else 'are'} needed"
    cause += " at once" if len(pods) > 1 else ""
    if total - used >= asked:
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


def _fits(nodes: Iterable[NodeView], placed: Iterable[PlacedPod], scope: Scope) -> bool:
    return place_gang(_snapshot(nodes, placed, scope), scope)


def _snapshot(nodes: Iterable[NodeView], placed: Iterable[PlacedPod], scope: Scope) -> CycleSnapshot:
    cluster = Cluster(nodes)
    cluster.watch_terms(term for pod in scope.all_pods if has_pod_affinity(pod.shape) for term in terms_of(pod.shape))
    for one in placed:
        cluster.place(one.pod, one.node)
    return CycleSnapshot(cluster)

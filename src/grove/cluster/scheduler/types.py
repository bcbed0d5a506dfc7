"""Types of the scheduler: the fields of nodes and pods that it reads, and their conversion to placement types."""

from collections.abc import Iterable
from functools import lru_cache

import msgspec

from grove.api.resources import NODES, PODS, PRIORITY_CLASSES
from grove.api.types.meta import ObjectMeta, WireStruct
from grove.api.types.pod import SchedulingGate
from grove.api.types.podgang import GangTopologyConstraint
from grove.api.values.pod_requests import Amounts, Quantity, add_amounts, peak_requests, read_milli
from grove.placement import types


class PodResources(WireStruct):
    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}


class SchedulableContainer(WireStruct):
    resources: PodResources = PodResources()
    restart_policy: str = ""


class Expression(WireStruct):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class NodeSelectorTerm(WireStruct):
    match_expressions: tuple[Expression, ...] = ()
    match_fields: tuple[Expression, ...] = ()


class NodeSelector(WireStruct):
    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredNode(WireStruct):
    weight: int = 1
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(WireStruct):
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredNode, ...] = ()


class LabelSelectorSpec(WireStruct):
    match_labels: dict[str, str] = {}
    match_expressions: tuple[Expression, ...] = ()


class PodAffinityTerm(WireStruct):
    topology_key: str = ""
    label_selector: LabelSelectorSpec | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelectorSpec | None = None


class PreferredPods(WireStruct):
    weight: int = 1
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(WireStruct):
    """Also the shape of `podAntiAffinity`."""

    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredPods, ...] = ()


class AffinitySpec(WireStruct):
    node_affinity: NodeAffinity = NodeAffinity()
    pod_affinity: PodAffinity = PodAffinity()
    pod_anti_affinity: PodAffinity = PodAffinity()


class TolerationSpec(WireStruct):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class SchedulableSpec(WireStruct):
    node_name: str = ""
    scheduler_name: str = ""
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    containers: tuple[SchedulableContainer, ...] = ()
    init_containers: tuple[SchedulableContainer, ...] = ()
    overhead: dict[str, Quantity] = {}
    node_selector: dict[str, str] = {}
    affinity: AffinitySpec | None = None
    tolerations: tuple[TolerationSpec, ...] = ()
    priority: int | None = None
    priority_class_name: str = ""


class PodScheduled(WireStruct):
    """A pod condition without its times."""

    type: str
    status: str = ""
    reason: str = ""
    message: str = ""


class SchedulableStatus(WireStruct):
    phase: str = "Pending"
    conditions: tuple[PodScheduled, ...] = ()


class SchedulablePod(WireStruct):
    metadata: ObjectMeta
    spec: SchedulableSpec = SchedulableSpec()
    status: SchedulableStatus = SchedulableStatus()

    @property
    def scheduled_condition(self) -> PodScheduled | None:
        return next((condition for condition in self.status.conditions if condition.type == "PodScheduled"), None)


class SchedulerTaint(WireStruct):
    key: str = ""
    value: str = ""
    effect: str = ""


class SchedulerNodeSpec(WireStruct):
    unschedulable: bool = False
    taints: tuple[SchedulerTaint, ...] = ()


class SchedulerNodeStatus(WireStruct):
    allocatable: dict[str, Quantity] = {}
    conditions: tuple[PodScheduled, ...] = ()


class SchedulableNode(WireStruct):
    metadata: ObjectMeta
    spec: SchedulerNodeSpec = SchedulerNodeSpec()
    status: SchedulerNodeStatus = SchedulerNodeStatus()


class PriorityClass(WireStruct):
    metadata: ObjectMeta
    value: int = 0
    global_default: bool = False


SCHEDULABLE_PODS = PODS.viewed_as(SchedulablePod)
SCHEDULABLE_NODES = NODES.viewed_as(SchedulableNode)
PRIORITIES = PRIORITY_CLASSES.viewed_as(PriorityClass)


def node_view(node: SchedulableNode) -> types.NodeView:
    ready = next((condition.status for condition in node.status.conditions if condition.type == "Ready"), "Unknown")
    return types.NodeView(
        name=node.metadata.name,
        labels=node.metadata.labels,
        taints=tuple(types.Taint(key=t.key, value=t.value, effect=t.effect) for t in node.spec.taints),
        is_cordoned=node.spec.unschedulable,
        is_ready=ready == "True" and not node.metadata.is_terminating,
        allocatable={name: read_milli(amount) for name, amount in node.status.allocatable.items()},
    )


def scheduling_class_of(pod: SchedulablePod) -> types.SchedulingClass:
    """Return the scheduling class of the pod. Pods with equal requirements share one cached object."""
    spec = pod.spec
    affinity = b"" if spec.affinity is None else msgspec.json.encode(spec.affinity)
    return _scheduling_class(
        tuple(_requests_of(container) for container in spec.containers),
        tuple((container.restart_policy == "Always", _requests_of(container)) for container in spec.init_containers),
        tuple(spec.overhead.items()),
        tuple(spec.node_selector.items()),
        spec.tolerations,
        (affinity, pod.metadata.namespace) if affinity else None,
    )


def pack_of(constraint: GangTopologyConstraint | None) -> types.Pack | None:
    """Return the pack constraint, or None if it names no topology level."""
    pack = constraint.pack_constraint if constraint else None
    if pack is None or not (pack.required or pack.preferred):
        return None
    return types.Pack(required=pack.required or "", preferred=pack.preferred or "")


def _requests_of(container: SchedulableContainer) -> Amounts:
    """Return the requests of a container. A limit without a request counts as the request."""
    resources = container.resources
    return tuple((resources.limits | resources.requests if resources.limits else resources.requests).items())


@lru_cache(maxsize=4096)
def _scheduling_class(
    containers: tuple[Amounts, ...],
    inits: tuple[tuple[bool, Amounts], ...],
    overhead: Amounts,
    node_selector: tuple[tuple[str, str], ...],
    tolerations: tuple[TolerationSpec, ...],
    affinity_in_namespace: tuple[bytes, str] | None,
) -> types.SchedulingClass:
    requests = add_amounts(peak_requests(containers, inits), overhead) | {types.PODS: types.ONE}
    without_affinity = types.SchedulingClass(
        requests=tuple(sorted(requests.items())),
        node_selector=tuple(sorted(node_selector)),
        tolerations=tuple(
            types.Toleration(key=t.key, operator=t.operator or "Equal", value=t.value, effect=t.effect)
            for t in tolerations
        ),
    )
    if affinity_in_namespace is None:
        return without_affinity
    encoded, namespace = affinity_in_namespace
    return _with_affinity(without_affinity, msgspec.json.decode(encoded, type=AffinitySpec), namespace)


def _with_affinity(
    without_affinity: types.SchedulingClass, affinity: AffinitySpec, namespace: str
) -> types.SchedulingClass:
    nodes = affinity.node_affinity
    required = nodes.required_during_scheduling_ignored_during_execution
    attract, repel = affinity.pod_affinity, affinity.pod_anti_affinity
    return msgspec.structs.replace(
        without_affinity,
        node_terms=None if required is None else tuple(_node_term(term) for term in required.node_selector_terms),
        preferred_nodes=tuple(
            types.WeightedNodeTerm(weight=preferred.weight, term=_node_term(preferred.preference))
            for preferred in nodes.preferred_during_scheduling_ignored_during_execution
        ),
        affinity=_pod_terms(attract.required_during_scheduling_ignored_during_execution, namespace),
        anti_affinity=_pod_terms(repel.required_during_scheduling_ignored_during_execution, namespace),
        preferred_pods=(*_weighted_pod_terms(attract, namespace, 1), *_weighted_pod_terms(repel, namespace, -1)),
    )


def _node_term(term: NodeSelectorTerm) -> types.NodeTerm:
    return types.NodeTerm(expressions=_requirements(term.match_expressions), fields=_requirements(term.match_fields))


def _requirements(expressions: Iterable[Expression]) -> tuple[types.NodeRequirement, ...]:
    return tuple(types.NodeRequirement(key=e.key, operator=e.operator, values=e.values) for e in expressions)


def _weighted_pod_terms(affinity: PodAffinity, namespace: str, sign: int) -> Iterable[types.WeightedPodTerm]:
    for preferred in affinity.preferred_during_scheduling_ignored_during_execution:
        yield types.WeightedPodTerm(
            weight=sign * preferred.weight, term=_pod_term(preferred.pod_affinity_term, namespace)
        )


def _pod_terms(terms: tuple[PodAffinityTerm, ...], namespace: str) -> tuple[types.PodTerm, ...]:
    return tuple(_pod_term(term, namespace) for term in terms)


def _pod_term(term: PodAffinityTerm, namespace: str) -> types.PodTerm:
    selector = term.label_selector or LabelSelectorSpec()
    equal = tuple(
        types.NodeRequirement(key=key, operator=types.SelectorOperator.IN, values=(value,))
        for key, value in sorted(selector.match_labels.items())
    )
    return types.PodTerm(
        topology_key=term.topology_key,
        requirements=(*equal, *_requirements(selector.match_expressions)),
        namespaces=_namespaces(term, namespace),
        has_selector=term.label_selector is not None,
    )


def _namespaces(term: PodAffinityTerm, own: str) -> tuple[str, ...] | None:
    """Return the namespaces of a term; None means all.

    The scheduler does not read labels of namespaces: a non-empty namespace selector adds no namespace.
    """
    chosen = term.namespace_selector
    if chosen is not None and not chosen.match_labels and not chosen.match_expressions:
        return None
    return tuple(sorted(term.namespaces)) if term.namespaces or chosen is not None else (own,)

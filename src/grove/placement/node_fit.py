"""Node fit of one pod: labels, taints, cordon, readiness and free resources.

Affinity between pods is in `inter_pod_affinity.py`.
"""

from collections.abc import Mapping

from grove.placement.types import (
    NodeRequirement,
    NodeTerm,
    NodeView,
    SchedulingClass,
    SelectorOperator,
    Taint,
    Toleration,
)

UNSCHEDULABLE = Taint(key="node.kubernetes.io/unschedulable")
NOT_READY = Taint(key="node.kubernetes.io/not-ready")
UNREACHABLE = Taint(key="node.kubernetes.io/unreachable")
# Subtracted from the score of a node for each PreferNoSchedule taint that the pod does not tolerate.
SOFT_TAINT_PENALTY = 10


def static_misfit(shape: SchedulingClass, node: NodeView) -> str:
    """Return why pods of this shape cannot run on this node whatever its load; empty if they can.

    The text is phrased for several nodes. Checks are in the order of what a user should look at first.
    """
    tolerations = shape.tolerations
    if node.is_cordoned and not tolerates(tolerations, UNSCHEDULABLE):
        return "are cordoned"
    if not node.is_ready and not tolerates(tolerations, NOT_READY):
        return "are not ready"
    for taint in node.taints:
        if taint.effect in ("NoSchedule", "NoExecute") and not tolerates(tolerations, taint):
            return f"carry the untolerated taint {taint}"
    labels = node.labels
    for key, value in shape.node_selector:
        if labels.get(key) != value:
            return f"lack the label {key}={value} of the node selector"
    if shape.node_terms is not None and not any(matches_node(term, node) for term in shape.node_terms):
        return "do not match the required node affinity"
    return ""


def missing_resources(shape: SchedulingClass, free: Mapping[str, int]) -> tuple[str, ...]:
    """Return the names of the resources of which this node has too little left."""
    return tuple(name for name, amount in shape.requests if amount > 0 and free.get(name, 0) < amount)


def has_capacity(shape: SchedulingClass, free: Mapping[str, int]) -> bool:
    # The hottest line of placement: a plain loop is twice as fast as `not missing_resources(...)`.
    for name, amount in shape.requests:  # noqa: SIM110
        if amount > 0 and free.get(name, 0) < amount:
            return False
    return True


def count_fitting(shape: SchedulingClass, free: Mapping[str, int], at_most: int) -> int:
    """Return how many pods of this shape fit, at most `at_most`."""
    count = at_most
    for name, amount in shape.requests:
        if amount > 0:
            count = min(count, free.get(name, 0) // amount)
    return max(0, count)


def static_score(shape: SchedulingClass, node: NodeView) -> int:
    """Return the preferred node affinity score, less a penalty for each untolerated PreferNoSchedule taint."""
    preferred_score = sum(preferred.weight for preferred in shape.preferred_nodes if matches_node(preferred.term, node))
    soft = sum(taint.effect == "PreferNoSchedule" and not tolerates(shape.tolerations, taint) for taint in node.taints)
    return preferred_score - SOFT_TAINT_PENALTY * soft


def tolerates(tolerations: tuple[Toleration, ...], taint: Taint) -> bool:
    return any(_tolerates_one(toleration, taint) for toleration in tolerations)


def _tolerates_one(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    # An empty key stands for every key only together with Exists.
    return bool(toleration.key) and toleration.value == taint.value


def matches_node(term: NodeTerm, node: NodeView) -> bool:
    """Return whether all expressions and fields of the term match. As in Kubernetes, an empty term matches nothing."""
    if not term.expressions and not term.fields:
        return False
    names = {"metadata.name": node.name}
    return all(meets(requirement, node.labels) for requirement in term.expressions) and all(
        meets(requirement, names) for requirement in term.fields
    )


def meets(requirement: NodeRequirement, labels: Mapping[str, str]) -> bool:
    """Return whether the labels match one requirement. `NotIn` also matches when the label is absent."""
    value = labels.get(requirement.key)
    match requirement.operator:
        case SelectorOperator.IN:
            return value is not None and value in requirement.values
        case SelectorOperator.NOT_IN:
            return value is None or value not in requirement.values
        case SelectorOperator.EXISTS:
            return value is not None
        case SelectorOperator.DOES_NOT_EXIST:
            return value is None
        case SelectorOperator.GREATER | SelectorOperator.LESS:
            return _compare_numbers(requirement, value)
        case _:
            return False


def _compare_numbers(requirement: NodeRequirement, value: str | None) -> bool:
    """Compare integers with `Gt` or `Lt`; anything else on either side matches nothing."""
    if value is None or len(requirement.values) != 1:
        return False
    try:
        left, right = int(value), int(requirement.values[0])
    except ValueError:
        return False
    return left > right if requirement.operator == SelectorOperator.GREATER else left < right

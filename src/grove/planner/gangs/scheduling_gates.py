"""Scheduling gates: decide whether the gate of a pod may be removed. Only Grove's own gate is ever removed.

spec/gang-scheduling.md, "Gang Scheduling Behavior": a base gang's pods wait until the gang is complete,
a scaled gang's pods until the base gang is scheduled. Both guard the first placement of an incarnation only.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

import msgspec

from grove.api.labels import GATE
from grove.api.reasons import FindingReason
from grove.api.resources import PODS
from grove.api.types.pod import Pod
from grove.api.types.podgang import PodGang
from grove.planner.actions import Finding, Patch, earliest
from grove.planner.gangs.podgang import referenced_names
from grove.planner.gangs.rejected_gangs import is_below_minima
from grove.planner.topology.domain_pinning import NO_PINS, DomainPins
from grove.planner.views import CliqueView, pod_index

PATIENCE = timedelta(seconds=10)


class GateDecision(msgspec.Struct, frozen=True, kw_only=True):
    """The decision whether the gates of a gang's pods may be removed, with its reason."""

    may_go: bool
    reason: FindingReason
    message: str


def gang_gate(
    cliques: tuple[CliqueView, ...], *, clique_count: int, is_rejected: bool, base: GateDecision | None
) -> GateDecision:
    """Decide about the gates of a gang. `base`: the decision about its base gang, if the gang was not placed before."""
    if base is not None and not base.may_go:
        return base
    if any(clique.has_begun for clique in cliques):
        return GateDecision(may_go=True, reason=FindingReason.GANG_STARTED, message="the gang was placed before")
    if len(cliques) < clique_count:
        return closed_gate(FindingReason.GANG_INCOMPLETE, f"{len(cliques)} of {clique_count} cliques exist")
    missing = [clique for clique in cliques if clique.existing_count < clique.replicas]
    if not missing:
        return GateDecision(may_go=True, reason=FindingReason.GANG_COMPLETE, message="every pod of the gang exists")
    if is_rejected and not is_below_minima(cliques):
        return GateDecision(
            may_go=True, reason=FindingReason.GANG_AT_MINIMUM, message="the minima exist and the rest is rejected"
        )
    first = missing[0]
    return closed_gate(
        FindingReason.GANG_INCOMPLETE, f"{first.existing_count} of {first.replicas} pods of {first.name} exist"
    )


def base_placement(cliques: tuple[CliqueView, ...], *, base_name: str, clique_count: int) -> GateDecision:
    """Decide whether the base gang is scheduled: every podgroup has its minimum of pods on nodes.

    Scheduled, not ready: waiting for ready would deadlock where devices start only with the whole group.
    """
    if len(cliques) < clique_count:
        return closed_gate(FindingReason.BASE_NOT_SCHEDULED, f"base gang {base_name} is not complete yet")
    for clique in cliques:
        if clique.placed_count < clique.min_available:
            return closed_gate(
                FindingReason.BASE_NOT_SCHEDULED,
                f"base gang {base_name} is not scheduled: {clique.name} has {clique.placed_count} "
                f"of {clique.min_available} pods on nodes",
            )
    return GateDecision(may_go=True, reason=FindingReason.BASE_SCHEDULED, message=f"base gang {base_name} is scheduled")


def plan_gates(
    gang: PodGang | None,
    cliques: tuple[CliqueView, ...],
    decision: GateDecision,
    *,
    surplus: GateDecision | None = None,
    pins: DomainPins = NO_PINS,
) -> tuple[Patch, ...]:
    """Remove the gates of pods that the stored gang references. `surplus`: the decision on pods above the minimum."""
    if gang is None:
        return ()
    above = decision if surplus is None else surplus
    found: list[Patch] = []
    for clique in cliques:
        for pod in _behind_gate(clique, frozenset(referenced_names(gang, clique.name))):
            decided = decision if pod_index(pod) < clique.min_available else above
            if decided.may_go:
                found.append(_remove_gate(pod, decided, pins.selector(clique.name)))
    return tuple(found)


def gate_patience(cliques: Iterable[CliqueView]) -> datetime | None:
    """Return until when gates may wait for creates of the same set; None: no pod is gated."""
    since = (pod.metadata.creation_timestamp for c in cliques for pod in c.active if pod.is_gated)
    oldest = earliest(*since)
    return None if oldest is None else oldest + PATIENCE


def gate_finding(gang_name: str, cliques: tuple[CliqueView, ...], decision: GateDecision) -> tuple[Finding, ...]:
    gated = sum(pod.is_gated for clique in cliques for pod in clique.active)
    # A gang that lacks a dependency has no pods, but its finding is reported.
    if decision.may_go or not (gated or decision.reason is FindingReason.MISSING_DEPENDENCY):
        return ()
    if not gated:
        return (Finding(about=f"podgang/{gang_name}", reason=decision.reason, message=decision.message),)
    message = f"{gated} pods wait behind the gate: {decision.message}"
    return (Finding(about=f"podgang/{gang_name}", reason=decision.reason, message=message),)


def _behind_gate(clique: CliqueView, referenced: frozenset[str]) -> tuple[Pod, ...]:
    return tuple(pod for pod in clique.active if pod.is_gated and pod.metadata.name in referenced)


def _remove_gate(pod: Pod, decision: GateDecision, pinned_domain: Mapping[str, str]) -> Patch:
    others = [{"name": gate.name} for gate in pod.spec.scheduling_gates if gate.name != GATE]
    # Keys of the user stay: a node selector can only be extended.
    selector = {key: value for key, value in pinned_domain.items() if key not in pod.spec.node_selector}
    return Patch(
        resource=PODS,
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        uid=pod.metadata.uid,
        # A merge patch replaces the list. Without the version it could remove a gate that was added meanwhile.
        resource_version=pod.metadata.resource_version,
        patch={"spec": {"schedulingGates": others, **({"nodeSelector": selector} if selector else {})}},
        reason=decision.message,
    )


def closed_gate(reason: FindingReason, message: str) -> GateDecision:
    return GateDecision(may_go=False, reason=reason, message=message)

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
from grove.planner.pods.create_backoff import is_below_minima
from grove.planner.topology.domain_pinning import NO_HOMES, DomainPins
from grove.planner.views import CliqueView, pod_index

PATIENCE = timedelta(seconds=10)


class GateVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """May the gates of a gang's pods go, and if not, why."""

    may_go: bool
    reason: FindingReason
    message: str


def gang_gate(
    cliques: tuple[CliqueView, ...], *, clique_count: int, is_refused: bool, base: GateVerdict | None
) -> GateVerdict:
    """`base` is the verdict on the base gang's placement, for a scaled gang that was not placed before."""
    if base is not None and not base.may_go:
        return base
    if any(clique.has_begun for clique in cliques):
        return GateVerdict(may_go=True, reason=FindingReason.GANG_STARTED, message="the gang was placed before")
    if len(cliques) < clique_count:
        return closed(FindingReason.GANG_INCOMPLETE, f"{len(cliques)} of {clique_count} cliques exist")
    missing = [clique for clique in cliques if clique.existing_count < clique.replicas]
    if not missing:
        return GateVerdict(may_go=True, reason=FindingReason.GANG_COMPLETE, message="every pod of the gang exists")
    if is_refused and not is_below_minima(cliques):
        return GateVerdict(
            may_go=True, reason=FindingReason.GANG_AT_MINIMUM, message="the minima exist and the rest is refused"
        )
    first = missing[0]
    return closed(
        FindingReason.GANG_INCOMPLETE, f"{first.existing_count} of {first.replicas} pods of {first.name} exist"
    )


def base_placement(cliques: tuple[CliqueView, ...], *, base_name: str, clique_count: int) -> GateVerdict:
    """Is the base gang scheduled: has every podgroup its minimum of pods on nodes?

    Scheduled, not ready: waiting for ready dead-locks where devices come up only with the whole group.
    """
    if len(cliques) < clique_count:
        return closed(FindingReason.BASE_NOT_SCHEDULED, f"base gang {base_name} is not complete yet")
    for clique in cliques:
        if clique.placed_count < clique.min_available:
            return closed(
                FindingReason.BASE_NOT_SCHEDULED,
                f"base gang {base_name} is not scheduled: {clique.name} has {clique.placed_count} "
                f"of {clique.min_available} pods on nodes",
            )
    return GateVerdict(may_go=True, reason=FindingReason.BASE_SCHEDULED, message=f"base gang {base_name} is scheduled")


def plan_gates(
    gang: PodGang | None,
    cliques: tuple[CliqueView, ...],
    verdict: GateVerdict,
    *,
    extras: GateVerdict | None = None,
    homes: DomainPins = NO_HOMES,
) -> tuple[Patch, ...]:
    """Open the gates of pods that the stored gang references. `extras`: the verdict on those above the minimum."""
    if gang is None:
        return ()
    above = verdict if extras is None else extras
    found: list[Patch] = []
    for clique in cliques:
        for pod in _behind_gate(clique, frozenset(referenced_names(gang, clique.name))):
            decided = verdict if pod_index(pod) < clique.min_available else above
            if decided.may_go:
                found.append(_open(pod, decided, homes.selector(clique.name)))
    return tuple(found)


def gate_patience(cliques: Iterable[CliqueView]) -> datetime | None:
    """Until when open gates may stand back behind creates of the same set; None: nobody waits."""
    since = (pod.metadata.creation_timestamp for c in cliques for pod in c.active if pod.is_behind_our_gate)
    oldest = earliest(*since)
    return None if oldest is None else oldest + PATIENCE


def gate_finding(gang_name: str, cliques: tuple[CliqueView, ...], verdict: GateVerdict) -> tuple[Finding, ...]:
    gated = sum(pod.is_behind_our_gate for clique in cliques for pod in clique.active)
    # What is not offered to the scheduler has no pods, and says so all the same.
    if verdict.may_go or not (gated or verdict.reason is FindingReason.MISSING_DEPENDENCY):
        return ()
    if not gated:
        return (Finding(about=f"podgang/{gang_name}", reason=verdict.reason, message=verdict.message),)
    message = f"{gated} pods wait behind the gate: {verdict.message}"
    return (Finding(about=f"podgang/{gang_name}", reason=verdict.reason, message=message),)


def _behind_gate(clique: CliqueView, referenced: frozenset[str]) -> tuple[Pod, ...]:
    return tuple(pod for pod in clique.active if pod.is_behind_our_gate and pod.metadata.name in referenced)


def _open(pod: Pod, verdict: GateVerdict, home: Mapping[str, str]) -> Patch:
    others = [{"name": gate.name} for gate in pod.spec.scheduling_gates if gate.name != GATE]
    # What the user wrote stays: a selector may only be added to.
    selector = {key: value for key, value in home.items() if key not in pod.spec.node_selector}
    return Patch(
        resource=PODS,
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        uid=pod.metadata.uid,
        # A merge patch replaces the list: it must be the list that was read, or another's gate could vanish.
        resource_version=pod.metadata.resource_version,
        patch={"spec": {"schedulingGates": others, **({"nodeSelector": selector} if selector else {})}},
        reason=verdict.message,
    )


def closed(reason: FindingReason, message: str) -> GateVerdict:
    return GateVerdict(may_go=False, reason=reason, message=message)

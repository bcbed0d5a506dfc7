"""Removal of scheduling gates of a replica: gang by gang, the base gang first.

`scheduling_gates.py` decides about a gang, `surplus_gates.py` about its pods above the minimum.
"""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from grove.api.reasons import FindingReason
from grove.api.types.podgang import PodGang
from grove.planner.actions import Chain, ChainPriority, Finding, Stage, chain, earliest
from grove.planner.child_sync import Retries
from grove.planner.gangs.gang_state import GangState
from grove.planner.gangs.podgang import was_placed
from grove.planner.gangs.rejected_gangs import has_started
from grove.planner.gangs.scheduling_gates import (
    GateDecision,
    base_placement,
    closed_gate,
    gang_gate,
    gate_finding,
    gate_patience,
    plan_gates,
)
from grove.planner.gangs.surplus_gates import surplus_gate, surplus_wait_ends_at
from grove.planner.headless_service import plan_service
from grove.planner.replica_facts import ReplicaFacts
from grove.planner.snapshot import SetContext
from grove.planner.topology.domain_pinning import DomainPins
from grove.planner.views import CliqueView


class Gate(msgspec.Struct, frozen=True, kw_only=True):
    """Pods that wait behind one gate: those of a gang, or of a part of it that was recreated on its own."""

    gang_name: str
    gang: PodGang | None
    cliques: tuple[CliqueView, ...]
    decision: GateDecision
    # On the pods above the minimum.
    surplus: GateDecision


class GateRemoval(msgspec.Struct, frozen=True, kw_only=True):
    """The gates of a replica that are removed now, and why the others stay."""

    chains: tuple[Chain, ...]
    findings: tuple[Finding, ...]
    requeue_at: datetime | None


def plan_gate_removal(
    facts: ReplicaFacts, states: tuple[GangState, ...], retries: Retries, pins: DomainPins
) -> GateRemoval:
    """Remove gates. Before that, create the Service by which the pods behind them find each other."""
    context, replica, name, now = facts.context, facts.replica, facts.desired.name, facts.now
    gates = gates_of(context, states, now)
    patches: Stage = tuple(
        patch
        for gate in gates
        for patch in plan_gates(gate.gang, gate.cliques, gate.decision, surplus=gate.surplus, pins=pins)
    )
    views = tuple(view for state in states for view in state.views)
    service = retries.without_waiting(tuple(plan_service(context, replica)))
    # Only the first start waits for the Service: a replica that ran before is repaired without it, too.
    has_run = has_started(views) or any(view.clique.status.was_available for view in views)
    needs_service = not has_run and name not in replica.services
    findings = (*gate_findings(gates), *((_missing_service(name),) if needs_service and patches else ()))
    if needs_service and not service:
        # The API server rejected the Service. It is created later.
        patches = ()
    patience_ends_at = gate_patience(views) if patches or service else None
    is_late = patience_ends_at is not None and patience_ends_at <= now
    rank = ChainPriority.FIRST if is_late else ChainPriority.GATES
    if needs_service:
        chains = chain(f"{name}/gates", replica.index, service, patches, rank=rank)
    else:
        chains = (
            *chain(f"{name}/service", replica.index, service),
            *chain(f"{name}/gates", replica.index, patches, rank=rank),
        )
    requeue_at = surplus_requeue_time(context, states, gates, now)
    return GateRemoval(
        chains=chains, findings=findings, requeue_at=earliest(None if is_late else patience_ends_at, requeue_at)
    )


def _missing_service(name: str) -> Finding:
    message = f"service {name}, by which its pods find each other, does not exist yet"
    return Finding(about=f"podgang/{name}", reason=FindingReason.NO_SERVICE, message=message)


def gates_of(context: SetContext, states: tuple[GangState, ...], now: datetime) -> tuple[Gate, ...]:
    gates: list[Gate] = []
    base: GateDecision | None = None
    for state in states:
        is_rejected = state.backoff is not None
        # A scaled gang waits for its base once. After that it is repaired even while the base is broken.
        awaited = None if was_placed(state.gang, state.views) else base
        decision = gang_gate(state.views, clique_count=state.clique_count, is_rejected=is_rejected, base=awaited)
        parts = _parts_of(state) if decision.reason is FindingReason.GANG_STARTED else []
        decided = [(state.views, decision)]
        if len(parts) > 1:
            # Each part must be complete for its first placement: a recreated part waits only for itself.
            decided = [
                (views, gang_gate(views, clique_count=count, is_rejected=is_rejected, base=None))
                for views, count in parts
            ]
        gates += [_gate(context, state, states, views, found, now) for views, found in decided]
        if state.desired.is_base:
            base = base_placement(state.views, base_name=state.desired.name, clique_count=state.clique_count)
    return tuple(gates)


def _gate(
    context: SetContext,
    state: GangState,
    states: tuple[GangState, ...],
    cliques: tuple[CliqueView, ...],
    decision: GateDecision,
    now: datetime,
) -> Gate:
    decision = _check_scheduler(context, state, decision)
    surplus = surplus_gate(state, states, decision, now) if context.backend.capabilities.mixes_surplus else decision
    return Gate(gang_name=state.desired.name, gang=state.gang, cliques=cliques, decision=decision, surplus=surplus)


def _check_scheduler(context: SetContext, state: GangState, decision: GateDecision) -> GateDecision:
    """Keep the gate closed until the scheduler objects of the gang exist."""
    if context.hold and not has_started(state.views):
        return closed_gate(FindingReason.MISSING_DEPENDENCY, context.hold)
    if decision.may_go and state.scheduler_plan.waits:
        return closed_gate(FindingReason.SCHEDULER_OBJECT_PENDING, state.scheduler_plan.waits)
    return decision


def gate_findings(gates: Iterable[Gate]) -> Iterable[Finding]:
    for gate in gates:
        decision = gate.surplus if gate.decision.may_go else gate.decision
        yield from gate_finding(gate.gang_name, gate.cliques, decision)


def surplus_requeue_time(
    context: SetContext, states: tuple[GangState, ...], gates: Iterable[Gate], now: datetime
) -> datetime | None:
    """Return when pods above a minimum stop waiting for other gangs."""
    if not context.backend.capabilities.mixes_surplus:
        return None
    waits = any(gate.surplus.reason is FindingReason.ABOVE_MINIMUM_WAITS for gate in gates)
    ends_at = surplus_wait_ends_at(states) if waits else None
    # Pods that wait longer wait for their own gang, without a time limit.
    return ends_at if ends_at is not None and ends_at > now else None


def _has_run(clique: CliqueView) -> bool:
    return clique.has_served or clique.has_begun


def _parts_of(state: GangState) -> list[tuple[tuple[CliqueView, ...], int]]:
    """Return the parts of a gang (standalone cliques, group replicas): existing cliques, and how many there should be.

    A standalone clique that starts while others run, because it was scaled up from zero, is a part of its own.
    """
    parts: dict[tuple[str, int], list[str]] = {}
    for clique in state.desired.cliques:
        view = state.cliques.get(clique.name)
        starts_alone = not clique.group and view is not None and not (view.is_at_zero or _has_run(view))
        place = clique.name if starts_alone else clique.group
        parts.setdefault((place, clique.group_replica_index), []).append(clique.name)
    return [
        (tuple(state.cliques[name] for name in names if name in state.cliques), len(names)) for names in parts.values()
    ]

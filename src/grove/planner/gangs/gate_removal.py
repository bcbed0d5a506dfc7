"""Removal of scheduling gates of a replica: gang by gang, the base gang first.

When a gang may go is in `scheduling_gates.py`, when its pods above the minimum may in `surplus_gates.py`.
"""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from grove.api.reasons import FindingReason
from grove.api.types.podgang import PodGang
from grove.planner.actions import Chain, ChainPriority, Finding, Stage, chain, earliest
from grove.planner.child_sync import Retries, plan_service
from grove.planner.gangs.gang_state import GangState
from grove.planner.gangs.podgang import was_placed
from grove.planner.gangs.scheduling_gates import (
    GateVerdict,
    base_placement,
    closed,
    gang_gate,
    gate_finding,
    gate_patience,
    plan_gates,
)
from grove.planner.gangs.surplus_gates import chance_ends_at, extras_gate
from grove.planner.pods.create_backoff import has_started
from grove.planner.replica_facts import ReplicaFacts
from grove.planner.snapshot import SetContext
from grove.planner.topology.domain_pinning import DomainPins
from grove.planner.views import CliqueView


class Gate(msgspec.Struct, frozen=True, kw_only=True):
    """Pods that wait behind one gate: those of a gang, or of a part of it that came back on its own."""

    gang_name: str
    gang: PodGang | None
    cliques: tuple[CliqueView, ...]
    verdict: GateVerdict
    # On the pods above the minimum.
    extras: GateVerdict


class GateRemoval(msgspec.Struct, frozen=True, kw_only=True):
    """The gates of a replica that open now, and why the others stay closed."""

    chains: tuple[Chain, ...]
    findings: tuple[Finding, ...]
    requeue_at: datetime | None


def plan_gate_removal(
    facts: ReplicaFacts, states: tuple[GangState, ...], retries: Retries, pins: DomainPins
) -> GateRemoval:
    """Open gates, and before that create the Service by which the pods behind them find each other."""
    context, replica, name, now = facts.context, facts.replica, facts.desired.name, facts.now
    gates = gates_of(context, states, now)
    patches: Stage = tuple(
        patch
        for gate in gates
        for patch in plan_gates(gate.gang, gate.cliques, gate.verdict, extras=gate.extras, homes=pins)
    )
    views = tuple(view for state in states for view in state.views)
    service = plan_service(context, replica, retries)
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
    requeue_at = extras_wake(context, states, gates, now)
    return GateRemoval(
        chains=chains, findings=findings, requeue_at=earliest(None if is_late else patience_ends_at, requeue_at)
    )


def _missing_service(name: str) -> Finding:
    message = f"service {name}, by which its pods find each other, does not exist yet"
    return Finding(about=f"podgang/{name}", reason=FindingReason.NO_SERVICE, message=message)


def gates_of(context: SetContext, states: tuple[GangState, ...], now: datetime) -> tuple[Gate, ...]:
    gates: list[Gate] = []
    base: GateVerdict | None = None
    for state in states:
        is_refused = state.refusal is not None
        # A scaled gang waits for its base once: what serves heals on its own, also while the base is broken.
        awaited = None if was_placed(state.gang, state.views) else base
        verdict = gang_gate(state.views, clique_count=state.clique_count, is_refused=is_refused, base=awaited)
        parts = _parts_of(state) if verdict.reason is FindingReason.GANG_STARTED else []
        judged = [(state.views, verdict)]
        if len(parts) > 1:
            # Completeness guards the first placement of every part: one that was recreated waits for itself.
            judged = [
                (views, gang_gate(views, clique_count=count, is_refused=is_refused, base=None))
                for views, count in parts
            ]
        gates += [_gate(context, state, states, views, found, now) for views, found in judged]
        if state.blueprint.is_base:
            base = base_placement(state.views, base_name=state.blueprint.name, clique_count=state.clique_count)
    return tuple(gates)


def _gate(
    context: SetContext,
    state: GangState,
    states: tuple[GangState, ...],
    cliques: tuple[CliqueView, ...],
    verdict: GateVerdict,
    now: datetime,
) -> Gate:
    verdict = _told(context, state, verdict)
    extras = extras_gate(state, states, verdict, now) if context.backend.can.mixes_extras else verdict
    return Gate(gang_name=state.blueprint.name, gang=state.gang, cliques=cliques, verdict=verdict, extras=extras)


def _told(context: SetContext, state: GangState, verdict: GateVerdict) -> GateVerdict:
    """A gate opens when the scheduler can read what it is about to see."""
    if context.hold and not has_started(state.views):
        return closed(FindingReason.MISSING_DEPENDENCY, context.hold)
    if verdict.may_go and state.mirror.waits:
        return closed(FindingReason.SCHEDULER_NOT_TOLD, state.mirror.waits)
    return verdict


def gate_findings(gates: Iterable[Gate]) -> Iterable[Finding]:
    for gate in gates:
        verdict = gate.extras if gate.verdict.may_go else gate.verdict
        yield from gate_finding(gate.gang_name, gate.cliques, verdict)


def extras_wake(
    context: SetContext, states: tuple[GangState, ...], gates: Iterable[Gate], now: datetime
) -> datetime | None:
    """When pods above a minimum that wait for other gangs wait no longer."""
    if not context.backend.can.mixes_extras:
        return None
    waits = any(gate.extras.reason is FindingReason.EXTRAS_WAIT for gate in gates)
    ends_at = chance_ends_at(states) if waits else None
    # Those that still wait after it wait for their own gang: no time ends that.
    return ends_at if ends_at is not None and ends_at > now else None


def _has_run(clique: CliqueView) -> bool:
    return clique.has_served or clique.has_begun


def _parts_of(state: GangState) -> list[tuple[tuple[CliqueView, ...], int]]:
    """The standalone cliques, and every group replica: what exists of each, and of how many cliques.

    A standalone clique that starts while others run, because it was scaled up from zero, is a part of its own.
    """
    parts: dict[tuple[str, int], list[str]] = {}
    for clique in state.blueprint.cliques:
        view = state.cliques.get(clique.name)
        starts_alone = not clique.group and view is not None and not (view.is_at_zero or _has_run(view))
        place = clique.name if starts_alone else clique.group
        parts.setdefault((place, clique.group_replica_index), []).append(clique.name)
    return [
        (tuple(state.cliques[name] for name in names if name in state.cliques), len(names)) for names in parts.values()
    ]

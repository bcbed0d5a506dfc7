"""What was decided about each gang of a replica: its pods, its refusal, its gate. Read by whoever builds or reports."""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from grove.api.podgang import PodGang
from grove.api.reasons import FindingReason
from grove.planner.actions import (
    Failure,
    Finding,
    FreshLook,
    earliest,
)
from grove.planner.blueprint import GangBlueprint, ReplicaBlueprint
from grove.planner.gangs import referenced_names
from grove.planner.gates import GateVerdict, base_placement, gang_gate
from grove.planner.looks import look_at
from grove.planner.pods import CliquePods, plan_pods
from grove.planner.recreation import Recreations
from grove.planner.refusals import Refusal, gang_refusal, pods_failure_key
from grove.planner.views import CliqueView, ReplicaView


class GangState(msgspec.Struct, frozen=True, kw_only=True):
    """One gang that should exist, and all that was decided about it."""

    blueprint: GangBlueprint
    gang: PodGang | None
    cliques: dict[str, CliqueView]
    pods: dict[str, CliquePods]
    refusal: Refusal | None

    @property
    def views(self) -> tuple[CliqueView, ...]:
        return tuple(self.cliques.values())

    @property
    def clique_count(self) -> int:
        return len(self.blueprint.cliques)

    @property
    def is_whole(self) -> bool:
        """Every clique exists: only then can the gang name its pods."""
        return len(self.cliques) == self.clique_count


def gang_states(
    replica: ReplicaView,
    blueprint: ReplicaBlueprint,
    recreations: Recreations,
    busy_gangs: frozenset[str],
    now: datetime,
    gangs_ahead_count: int,
) -> tuple[GangState, ...]:
    """Gangs in the order in which refused ones try again: the base first."""
    states: list[GangState] = []
    ahead = gangs_ahead_count
    for gang in blueprint.gangs:
        if gang.name in busy_gangs:
            continue
        current = replica.gangs.get(gang.name)
        cliques = {c.name: replica.cliques[c.name] for c in gang.cliques if recreations.is_present(replica, c)}
        pods = {name: plan_pods(view, referenced_names(current, name), now) for name, view in cliques.items()}
        refusal = gang_refusal(tuple(cliques.values()), _still_refused(replica, pods), gangs_ahead_count=ahead)
        ahead += refusal is not None
        states.append(GangState(blueprint=gang, gang=current, cliques=cliques, pods=pods, refusal=refusal))
    return tuple(states)


def _still_refused(replica: ReplicaView, pods: dict[str, CliquePods]) -> tuple[Failure, ...]:
    """Refusals of pods that are still missing; one that nobody wants any more refuses nothing."""
    wanted = {pods_failure_key(name) for name, clique in pods.items() if clique.create}
    return tuple(failure for failure in replica.failures if failure.key in wanted)


def open_failures(
    replica: ReplicaView, blueprint: ReplicaBlueprint, states: tuple[GangState, ...]
) -> tuple[Failure, ...]:
    """The refusals of everything that is still missing."""
    if not replica.failures:
        return ()
    wanted = {
        *(f"services/{name}" for name in (blueprint.name,) if name not in replica.services),
        *(f"podcliquescalinggroups/{g.name}" for g in blueprint.groups if g.name not in replica.groups),
        *(f"podcliques/{c.name}" for c in blueprint.cliques if c.name not in replica.cliques),
        *(f"podgangs/{g.name}" for g in blueprint.gangs if g.name not in replica.gangs),
        *(pods_failure_key(name) for state in states for name, pods in state.pods.items() if pods.create),
    }
    return tuple(failure for failure in replica.failures if failure.key in wanted)


class Gate(msgspec.Struct, frozen=True, kw_only=True):
    """Pods that wait behind one gate: those of a gang, or of a part of it that came back on its own."""

    gang_name: str
    gang: PodGang | None
    cliques: tuple[CliqueView, ...]
    verdict: GateVerdict


def gates_of(states: tuple[GangState, ...]) -> tuple[Gate, ...]:
    gates: list[Gate] = []
    base: GateVerdict | None = None
    for state in states:
        is_refused = state.refusal is not None
        verdict = gang_gate(state.views, clique_count=state.clique_count, is_refused=is_refused, base=base)
        parts = _parts_of(state) if verdict.reason is FindingReason.GANG_STARTED else []
        if len(parts) < 2:
            gates.append(_gate(state, state.views, verdict))
        else:
            # Completeness guards the first placement of every part: one that was recreated waits for itself.
            gates += [
                _gate(state, views, gang_gate(views, clique_count=count, is_refused=is_refused, base=None))
                for views, count in parts
            ]
        if state.blueprint.is_base:
            base = base_placement(state.views, base_name=state.blueprint.name, clique_count=state.clique_count)
    return tuple(gates)


def _gate(state: GangState, cliques: tuple[CliqueView, ...], verdict: GateVerdict) -> Gate:
    return Gate(gang_name=state.blueprint.name, gang=state.gang, cliques=cliques, verdict=verdict)


def _parts_of(state: GangState) -> list[tuple[tuple[CliqueView, ...], int]]:
    """The standalone cliques, and every group replica: what exists of each, and of how many cliques."""
    parts: dict[tuple[str, int], list[str]] = {}
    for clique in state.blueprint.cliques:
        parts.setdefault((clique.group, clique.group_replica_index), []).append(clique.name)
    return [
        (tuple(state.cliques[name] for name in names if name in state.cliques), len(names)) for names in parts.values()
    ]


def fresh_looks(state: GangState) -> Iterable[FreshLook]:
    return (look_at(state.cliques[name]) for name, pods in state.pods.items() if pods.needs_look)


def wake_of(state: GangState, now: datetime) -> datetime | None:
    waits = [pods.wake_at for pods in state.pods.values()]
    if state.refusal:
        waits += [at for at in (state.refusal.retry_at, state.refusal.give_back_at) if at and at > now]
    return earliest(*waits)


def refusal_findings(state: GangState) -> Iterable[Finding]:
    if state.refusal:
        yield Finding(
            about=f"podgang/{state.blueprint.name}",
            reason=FindingReason.PODS_REFUSED,
            message=state.refusal.message,
            until=state.refusal.retry_at,
        )

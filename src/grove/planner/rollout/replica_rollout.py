"""The update of one set replica: what it deletes and recreates, what it waits for, and how far it is."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from grove.api.reasons import Reason
from grove.planner.actions import Action, Chain, ChainPriority, CreateRejection, Finding, Patch, chain, earliest
from grove.planner.gangs.gang_state import GangState
from grove.planner.replica_facts import ReplicaFacts
from grove.planner.rollout.completion import NO_TURN, Completion, judge_completion
from grove.planner.rollout.replica_update import (
    Freshness,
    ReplicaRoll,
    UpdatePriority,
    freshness,
    held,
    roll_replica,
    standing,
)
from grove.planner.rollout.rollout_actions import plan_update_deletes, plan_update_intents, update_findings
from grove.planner.rollout.stall import StallReason
from grove.planner.status.replica_status import is_set_replica_available


class UpdateSummary(msgspec.Struct, frozen=True, kw_only=True):
    """How far a replica is with the newest templates."""

    # All of it exists and runs the newest templates.
    is_updated: bool = False
    # Some part of it runs an older template, or its base gang carries the hash of an older revision.
    is_outdated: bool = False
    standing: UpdatePriority = UpdatePriority.AVAILABLE
    # It is this replica's turn, all of it runs the newest templates, and no minimum is waited for.
    is_turn_done: bool = False
    wait: StallReason | None = None
    updated_cliques: tuple[str, ...] = ()
    updated_groups: tuple[str, ...] = ()
    clique_count: int = 0
    group_count: int = 0


class ReplicaRollout(msgspec.Struct, frozen=True, kw_only=True):
    """What the update adds to the plan of a replica."""

    roll: ReplicaRoll
    # Group replicas that are recreated.
    intents: tuple[Patch, ...]
    # Pods of standalone cliques that are replaced.
    deletes: tuple[Action, ...]
    findings: tuple[Finding, ...]
    requeue_at: datetime | None
    summary: UpdateSummary


def plan_rollout(
    facts: ReplicaFacts, gangs: Sequence[GangState], rejections: tuple[CreateRejection, ...]
) -> ReplicaRollout:
    context, replica, desired, now = facts.context, facts.replica, facts.desired, facts.now
    roll = _roll(facts)
    fresh = freshness(context, replica, desired, facts.groups, now)
    completion = _complete(facts, gangs, roll)
    is_turn_done = completion.is_done and not fresh.is_outdated
    is_waiting = facts.role.is_turn and not is_turn_done
    wait = (_rejected_wait(gangs, rejections) or roll.wait or completion.wait) if is_waiting else None
    return ReplicaRollout(
        roll=roll,
        intents=plan_update_intents(context, replica, desired, roll),
        deletes=plan_update_deletes(replica, roll),
        findings=tuple(update_findings(context, replica, wait, now)) if is_waiting else (),
        requeue_at=earliest(roll.requeue_at, completion.requeue_at, fresh.requeue_at),
        summary=_summarize(facts, fresh, is_turn_done=is_turn_done, wait=wait),
    )


def rollout_chains(facts: ReplicaFacts, rollout: ReplicaRollout) -> tuple[Chain, ...]:
    return chain(f"{facts.desired.name}/update", facts.replica.index, rollout.deletes, rank=ChainPriority.FIRST)


def _roll(facts: ReplicaFacts) -> ReplicaRoll:
    roll = roll_replica(facts.context, facts.replica, facts.desired, facts.recreations, facts.role, facts.now)
    hold_until = facts.environment.hold_until
    if hold_until is not None and facts.environment.is_held(facts.now):
        # While most nodes are out, a pod that is not ready is more likely unreachable than useless.
        return held(roll, hold_until)
    return roll


def _complete(facts: ReplicaFacts, gangs: Sequence[GangState], roll: ReplicaRoll) -> Completion:
    if not facts.role.is_turn:
        return NO_TURN
    rejections = {name: state.refusal for state in gangs for name in state.cliques}
    return judge_completion(
        facts.replica, facts.desired, facts.recreations, facts.groups, rejections, roll, facts.role.turn, facts.now
    )


def _rejected_wait(gangs: Sequence[GangState], rejections: tuple[CreateRejection, ...]) -> StallReason | None:
    for state in gangs:
        if state.refusal is not None:
            message = f"pods of {state.blueprint.name} are refused: {state.refusal.message}"
            return _hopeless(message, state.refusal.since)
    if not rejections:
        return None
    first = min(rejections, key=lambda rejection: (rejection.first_at, rejection.key))
    return _hopeless(f"{first.key} is refused: {first.message}", first.first_at)


def _hopeless(message: str, since: datetime) -> StallReason:
    return StallReason(reason=Reason.PODS_REJECTED, message=message, since=since, is_hopeless=True)


def _summarize(facts: ReplicaFacts, fresh: Freshness, *, is_turn_done: bool, wait: StallReason | None) -> UpdateSummary:
    replica, desired = facts.replica, facts.desired
    return UpdateSummary(
        is_updated=not fresh.is_outdated and all(clique.name in replica.cliques for clique in desired.cliques),
        is_outdated=fresh.is_outdated,
        standing=standing(replica, is_available=is_set_replica_available(facts))
        if fresh.is_outdated
        else UpdatePriority.AVAILABLE,
        is_turn_done=is_turn_done,
        wait=wait,
        updated_cliques=fresh.updated_cliques,
        updated_groups=fresh.updated_groups,
        clique_count=len(facts.context.standalone),
        group_count=len(desired.groups),
    )

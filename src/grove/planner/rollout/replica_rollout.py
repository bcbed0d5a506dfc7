"""The update of one set replica: what it deletes and recreates, what it waits for, and how far it is."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from grove.api.reasons import Reason
from grove.planner.actions import Action, Chain, ChainPriority, CreateRejection, Finding, Patch, chain, earliest
from grove.planner.gangs.gang_state import GangState
from grove.planner.replica_facts import ReplicaFacts
from grove.planner.rollout.completion import NOT_CURRENT, Completion, check_completion
from grove.planner.rollout.replica_update import (
    Freshness,
    ReplicaRoll,
    UpdatePriority,
    compute_freshness,
    hold_rollout,
    roll_replica,
    update_priority,
)
from grove.planner.rollout.rollout_actions import plan_update_deletes, plan_update_intents, update_findings
from grove.planner.rollout.stall import StallReason
from grove.planner.status.replica_status import is_set_replica_available


class UpdateSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a replica towards the newest templates."""

    # All of it exists and runs the newest templates.
    is_updated: bool = False
    # Some part of it runs an older template, or its base gang carries the hash of an older revision.
    is_outdated: bool = False
    update_priority: UpdatePriority = UpdatePriority.AVAILABLE
    # It is the current replica, all of it runs the newest templates, and no minimum is waited for.
    is_current_done: bool = False
    wait: StallReason | None = None
    updated_cliques: tuple[str, ...] = ()
    updated_groups: tuple[str, ...] = ()
    clique_count: int = 0
    group_count: int = 0


class ReplicaRollout(msgspec.Struct, frozen=True, kw_only=True):
    """The part of the update in the plan of a replica."""

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
    roll = _roll_or_hold(facts)
    fresh = compute_freshness(context, replica, desired, facts.groups, now)
    completion = _check_completion(facts, gangs, roll)
    is_current_done = completion.is_done and not fresh.is_outdated
    is_waiting = facts.role.is_current and not is_current_done
    wait = (_find_rejection(gangs, rejections) or roll.wait or completion.wait) if is_waiting else None
    return ReplicaRollout(
        roll=roll,
        intents=plan_update_intents(context, replica, desired, roll),
        deletes=plan_update_deletes(replica, roll),
        findings=tuple(update_findings(context, replica, wait, now)) if is_waiting else (),
        requeue_at=earliest(roll.requeue_at, completion.requeue_at, fresh.requeue_at),
        summary=_summarize(facts, fresh, is_current_done=is_current_done, wait=wait),
    )


def rollout_chains(facts: ReplicaFacts, rollout: ReplicaRollout) -> tuple[Chain, ...]:
    return chain(f"{facts.desired.name}/update", facts.replica.index, rollout.deletes, rank=ChainPriority.FIRST)


def _roll_or_hold(facts: ReplicaFacts) -> ReplicaRoll:
    roll = roll_replica(facts.context, facts.replica, facts.desired, facts.recreations, facts.role, facts.now)
    hold_until = facts.environment.hold_until
    if hold_until is not None and facts.environment.is_held(facts.now):
        # While most nodes are not ready, a pod that is not ready is more likely unreachable than broken.
        return hold_rollout(roll, hold_until)
    return roll


def _check_completion(facts: ReplicaFacts, gangs: Sequence[GangState], roll: ReplicaRoll) -> Completion:
    if not facts.role.is_current:
        return NOT_CURRENT
    backoffs = {name: state.backoff for state in gangs for name in state.cliques}
    return check_completion(facts, backoffs, roll)


def _find_rejection(gangs: Sequence[GangState], rejections: tuple[CreateRejection, ...]) -> StallReason | None:
    for state in gangs:
        if state.backoff is not None:
            message = f"pods of {state.desired.name} are rejected: {state.backoff.message}"
            return _hopeless_stall(message, state.backoff.since)
    if not rejections:
        return None
    first = min(rejections, key=lambda rejection: (rejection.first_at, rejection.key))
    return _hopeless_stall(f"{first.key} is rejected: {first.message}", first.first_at)


def _hopeless_stall(message: str, since: datetime) -> StallReason:
    return StallReason(reason=Reason.PODS_REJECTED, message=message, since=since, is_hopeless=True)


def _summarize(
    facts: ReplicaFacts, fresh: Freshness, *, is_current_done: bool, wait: StallReason | None
) -> UpdateSummary:
    replica, desired = facts.replica, facts.desired
    return UpdateSummary(
        is_updated=not fresh.is_outdated and all(clique.name in replica.cliques for clique in desired.cliques),
        is_outdated=fresh.is_outdated,
        update_priority=update_priority(replica, is_available=is_set_replica_available(facts))
        if fresh.is_outdated
        else UpdatePriority.AVAILABLE,
        is_current_done=is_current_done,
        wait=wait,
        updated_cliques=fresh.updated_cliques,
        updated_groups=fresh.updated_groups,
        clique_count=len(facts.context.standalone),
        group_count=len(desired.groups),
    )

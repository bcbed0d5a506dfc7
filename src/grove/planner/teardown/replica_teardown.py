"""Teardown of parts of one set replica: gang termination, scale-in of groups, and open recreations."""

from datetime import datetime

import msgspec

from grove.api.resources import PODGANGS
from grove.planner.actions import Chain, ChainPriority, Finding, Patch, Stage, chain, earliest
from grove.planner.replica_facts import ReplicaFacts
from grove.planner.teardown.gang_termination import Terminations, plan_terminations
from grove.planner.teardown.group_scale_in import Removals, plan_group_replica_removals, plan_zero_intents
from grove.planner.teardown.recreation import (
    plan_close,
    plan_recreation_deletes,
    plan_scale_amendments,
    recreation_findings,
)
from grove.planner.training.restarts import plan_restart_deletes


class ReplicaTeardown(msgspec.Struct, frozen=True, kw_only=True):
    """The deletes of a replica, and the intents that are recorded before them."""

    terminations: Terminations
    removals: Removals
    # Group replicas of the base gang whose group was scaled to zero.
    zero_intents: tuple[Patch, ...]
    # Counts that a user changed after a recreation was recorded.
    scale_intents: tuple[Patch, ...]
    # What is left of old incarnations.
    deletes: tuple[Stage, ...]
    findings: tuple[Finding, ...]
    requeue_at: datetime | None


def plan_teardown(facts: ReplicaFacts) -> ReplicaTeardown:
    context, replica, desired, recreations = facts.context, facts.replica, facts.desired, facts.recreations
    removals = plan_group_replica_removals(context, replica, desired)
    terminations = plan_terminations(facts)
    deletes, gone_at = _plan_deletes(facts)
    return ReplicaTeardown(
        terminations=terminations,
        removals=removals,
        zero_intents=plan_zero_intents(context, replica, desired, recreations),
        scale_intents=tuple(plan_scale_amendments(context, replica, desired, recreations)),
        deletes=deletes,
        findings=(*recreation_findings(desired, recreations), *removals.findings),
        requeue_at=earliest(terminations.requeue_at, gone_at),
    )


def _plan_deletes(facts: ReplicaFacts) -> tuple[tuple[Stage, ...], datetime | None]:
    """Return the deletes of open recreations, and when a training replica must be planned again."""
    if facts.context.is_training:
        return plan_restart_deletes(facts.context, facts.replica, facts.desired, facts.recreations, facts.now)
    return plan_recreation_deletes(facts.context, facts.replica, facts.desired, facts.recreations), None


def recreation_chains(facts: ReplicaFacts, teardown: ReplicaTeardown) -> tuple[Chain, ...]:
    key = f"{facts.desired.name}/recreation"
    return chain(key, facts.replica.index, *teardown.deletes, rank=ChainPriority.FIRST)


def close_chains(facts: ReplicaFacts, builds: tuple[Stage, ...]) -> tuple[Chain, ...]:
    """Drop the intents of recreations that are complete.

    An intent stays while `builds` patch its gang: two patches of one object in one plan would conflict.
    """
    patched = {a.name for stage in builds for a in stage if isinstance(a, Patch) and a.resource is PODGANGS}
    closes = plan_close(facts.context, facts.replica, facts.desired, facts.recreations)
    stage = tuple(patch for patch in closes if patch.name not in patched)
    return chain(f"{facts.desired.name}/done", facts.replica.index, stage)

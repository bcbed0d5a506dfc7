"""Plan one set replica: a table of contents. Each capability has its own package; here is only their order."""

from datetime import datetime
from enum import IntEnum

import msgspec

from grove.api import names
from grove.api.reasons import FindingReason
from grove.api.resources import PODS
from grove.planner.actions import Chain, ChainPriority, Finding, LiveRead, Stage, StatusWrite, chain, earliest
from grove.planner.autoscaling import plan_autoscalers
from grove.planner.child_sync import Retries, plan_builds
from grove.planner.gangs.gang_state import (
    GangState,
    find_open_rejections,
    gang_states,
    plan_live_reads,
    rejection_findings,
    requeue_time,
    scheduler_findings,
)
from grove.planner.gangs.gate_removal import GateRemoval, plan_gate_removal
from grove.planner.replica_facts import DEFAULT_ENVIRONMENT, ReplicaEnvironment, ReplicaFacts, gather_facts
from grove.planner.rollout.replica_rollout import ReplicaRollout, UpdateSummary, plan_rollout, rollout_chains
from grove.planner.rollout.replica_update import NO_ROLE, UpdatePriority, UpdateRole, is_labelled_older
from grove.planner.snapshot import SetContext
from grove.planner.status.replica_status import (
    ReplicaSummary,
    has_stale_counts,
    is_replica_running,
    plan_child_statuses,
    summarize_replica,
)
from grove.planner.teardown.replica_teardown import ReplicaTeardown, close_chains, plan_teardown, recreation_chains
from grove.planner.teardown.set_deletion import plan_old_finalizers
from grove.planner.teardown.unit_removal import is_marked, plan_replica_removal
from grove.planner.topology.domain_pinning import pin_domains
from grove.planner.training.lifecycle import ReplicaRun
from grove.planner.training.replica_training import ReplicaTraining, plan_training
from grove.planner.views import ReplicaView


class ReplicaStep(IntEnum):
    """The steps of a replica, in the order of precedence: only the first one that applies is taken.

    An intent is recorded alone: what is about to be deleted is not repaired any more. The steps that are not taken are
    decided again in the next plan, from what was observed then.
    """

    # The replica is not wanted any more.
    SCALE_IN = 0
    # A removal that was begun is finished, also if the replica is wanted again.
    FINISH_REMOVAL = 1
    # Training: record the restart that the set's status counts.
    RECORD_RESTART = 2
    # Gang termination: record the units whose termination delay has passed.
    RECORD_TERMINATION = 3
    # Update: record the group replicas that are recreated with a newer template.
    RECORD_UPDATE = 4
    # Record the group replicas of the base gang whose group was scaled to zero.
    RECORD_SCALE_TO_ZERO = 5
    # Add counts that a user changed meanwhile to a recreation that is recorded.
    RECORD_SCALE = 6
    # Training: a restart is due. Nothing is repaired until the set's status counts it, or while it is held.
    AWAIT_RESTART = 7
    # Update pods, finish recreations, open gates, remove surplus group replicas and create what is missing.
    SYNC = 8


class ReplicaPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The part of one replica in the plan and the status of its set. Valid until its view changes, or `requeue_at`."""

    step: ReplicaStep = ReplicaStep.SYNC
    chains: tuple[Chain, ...] = ()
    statuses: tuple[StatusWrite, ...] = ()
    live_reads: tuple[LiveRead, ...] = ()
    findings: tuple[Finding, ...] = ()
    requeue_at: datetime | None = None
    summary: ReplicaSummary = ReplicaSummary()
    update: UpdateSummary = UpdateSummary()
    # Only of a training set.
    run: ReplicaRun | None = None

    @property
    def is_at_rest(self) -> bool:
        """Return whether there is nothing to do, to report or to wait for."""
        return not (
            self.chains
            or self.statuses
            or self.live_reads
            or self.findings
            or self.summary.waiting_gangs
            or self.summary.failures
            or self.summary.gangless
            or self.summary.unmet
            or self.requeue_at is not None
        )


class _Parts(msgspec.Struct, frozen=True, kw_only=True):
    """The results of all capabilities."""

    gangs: tuple[GangState, ...]
    retries: Retries
    teardown: ReplicaTeardown
    training: ReplicaTraining
    rollout: ReplicaRollout
    gates: GateRemoval
    builds: tuple[Stage, ...]
    autoscalers: tuple[Chain, ...]


def plan_replica(
    context: SetContext,
    replica: ReplicaView,
    now: datetime,
    *,
    role: UpdateRole = NO_ROLE,
    environment: ReplicaEnvironment = DEFAULT_ENVIRONMENT,
) -> ReplicaPlan:
    base_gang = replica.gangs.get(names.replica_name(context.name, replica.index))
    if replica.index >= context.spec.replicas:
        return _plan_removal(context, replica, ReplicaStep.SCALE_IN)
    if is_marked(base_gang):
        return _plan_removal(context, replica, ReplicaStep.FINISH_REMOVAL)
    facts = gather_facts(context, replica, now, role, environment)
    teardown = plan_teardown(facts)
    training = plan_training(facts, teardown.terminations)
    pins = pin_domains(context, replica, facts.desired, environment.node_labels)
    gangs = gang_states(facts, teardown.removals.busy_gangs, pins)
    failures = find_open_rejections(replica, facts.desired, gangs)
    rollout = plan_rollout(facts, gangs, failures)
    retries = Retries(failures, now)
    parts = _Parts(
        gangs=gangs,
        retries=retries,
        teardown=teardown,
        training=training,
        rollout=rollout,
        gates=plan_gate_removal(facts, gangs, retries, pins),
        builds=plan_builds(facts, gangs, retries, rollout.roll),
        autoscalers=plan_autoscalers(facts, retries),
    )
    statuses = plan_child_statuses(facts, gangs, rollout.roll)
    summary = summarize_replica(
        facts,
        gangs,
        statuses,
        failures,
        held_count=teardown.terminations.held_count,
        is_update_held=rollout.roll.is_held,
    )
    return _merge(facts, parts, statuses, summary)


def _merge(
    facts: ReplicaFacts, parts: _Parts, statuses: tuple[StatusWrite, ...], summary: ReplicaSummary
) -> ReplicaPlan:
    teardown, gates, gangs = parts.teardown, parts.gates, parts.gangs
    step, chains = _choose_step(facts, parts)
    return ReplicaPlan(
        step=step,
        chains=chains,
        statuses=statuses,
        live_reads=(
            *teardown.terminations.live_reads,
            *parts.rollout.roll.live_reads,
            *(live_read for state in gangs for live_read in plan_live_reads(state)),
        ),
        findings=(
            *teardown.terminations.findings,
            *parts.rollout.findings,
            *teardown.findings,
            *gates.findings,
            *(finding for state in gangs for finding in scheduler_findings(facts.context, state)),
            *(finding for state in gangs for finding in rejection_findings(state)),
            *parts.retries.findings,
        ),
        requeue_at=earliest(
            teardown.requeue_at,
            parts.rollout.requeue_at,
            gates.requeue_at,
            parts.retries.requeue_at,
            *(requeue_time(state, facts.now) for state in gangs),
        ),
        summary=summary,
        update=parts.rollout.summary,
        run=parts.training.run,
    )


def _choose_step(facts: ReplicaFacts, parts: _Parts) -> tuple[ReplicaStep, tuple[Chain, ...]]:
    """Return the first step that applies, and what it does."""
    intents: dict[ReplicaStep, Stage] = {
        ReplicaStep.RECORD_RESTART: parts.training.restart_intents,
        ReplicaStep.RECORD_TERMINATION: parts.teardown.terminations.intents,
        ReplicaStep.RECORD_UPDATE: parts.rollout.intents,
        ReplicaStep.RECORD_SCALE_TO_ZERO: parts.teardown.zero_intents,
        ReplicaStep.RECORD_SCALE: parts.teardown.scale_intents,
    }
    applicable = [step for step, stage in intents.items() if stage]
    if parts.training.is_restart_awaited:
        applicable.append(ReplicaStep.AWAIT_RESTART)
    step = min(applicable, default=ReplicaStep.SYNC)
    if step is ReplicaStep.SYNC:
        return step, _sync_chains(facts, parts)
    key = f"{facts.desired.name}/intent"
    return step, chain(key, facts.replica.index, intents.get(step, ()), rank=ChainPriority.FIRST)


def _sync_chains(facts: ReplicaFacts, parts: _Parts) -> tuple[Chain, ...]:
    """Return the chains of a replica that has nothing to record. They run side by side."""
    return (
        *rollout_chains(facts, parts.rollout),
        *recreation_chains(facts, parts.teardown),
        *parts.gates.chains,
        *parts.teardown.removals.chains,
        *chain(facts.desired.name, facts.replica.index, *_select_builds(facts, parts)),
        *close_chains(facts, parts.builds),
        *parts.autoscalers,
    )


def _select_builds(facts: ReplicaFacts, parts: _Parts) -> tuple[Stage, ...]:
    if facts.is_build_held:
        return ()
    if parts.training.are_pods_held:
        return tuple(tuple(action for action in stage if action.resource is not PODS) for stage in parts.builds)
    return parts.builds


_REMOVALS = {
    ReplicaStep.SCALE_IN: (FindingReason.BEING_REMOVED, "the set was scaled in"),
    ReplicaStep.FINISH_REMOVAL: (FindingReason.TEARDOWN_UNFINISHED, "its deletion had begun and is finished first"),
}


def _plan_removal(context: SetContext, replica: ReplicaView, step: ReplicaStep) -> ReplicaPlan:
    if not replica.has_anything:
        return ReplicaPlan(step=step)
    is_wanted = replica.index < context.spec.replicas
    reason, why = _REMOVALS[step]
    base_name = names.replica_name(context.name, replica.index)
    stages = plan_replica_removal(context, replica, base_name, why)
    finding = Finding(about=f"podgang/{base_name}", reason=reason, message=f"replica {replica.index} is deleted: {why}")
    return ReplicaPlan(
        step=step,
        chains=chain(base_name, replica.index, plan_old_finalizers(replica), *stages, rank=ChainPriority.FIRST),
        findings=(finding,),
        summary=ReplicaSummary(
            is_running=is_replica_running(replica),
            is_overstated=has_stale_counts(context, replica)
            or any(one.status.updated_replicas and not one.metadata.is_terminating for one in replica.groups.values()),
        ),
        update=UpdateSummary(
            # A replica that is wanted comes back with the newest templates. Until then the set is not updated.
            is_updated=not is_wanted,
            is_outdated=is_wanted and is_labelled_older(context, replica, base_name),
            update_priority=UpdatePriority.NOTHING_SCHEDULED,
        ),
    )

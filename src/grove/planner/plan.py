"""Plan one PodCliqueSet: a table of contents, without logic of its own. Each capability has its own file."""

from datetime import datetime
from itertools import islice

import msgspec

from grove.api.reasons import FindingReason
from grove.planner.actions import Chain, ChainPriority, Finding, Plan, StatusWrite, earliest
from grove.planner.child_sync import Retries
from grove.planner.gangs.orphaned_gangs import plan_orphaned_gangs
from grove.planner.object_budget import describe_excess
from grove.planner.plan_cache import PlanCache
from grove.planner.replica import ReplicaPlan
from grove.planner.rollout.revision_history import find_open_revision_rejections, plan_revisions
from grove.planner.snapshot import Snapshot
from grove.planner.startup.access import find_open_access_rejections, plan_access
from grove.planner.status.reconcile_failed import report_failed_writes, requeue_for_failed_writes
from grove.planner.status.set_status import LISTED_GANGS, SetFacts, set_status
from grove.planner.teardown.set_deletion import plan_deletion, plan_finalizer
from grove.planner.training.failure import plan_failing
from grove.planner.training.lifecycle import TrainingOutcome, compute_training_outcome, is_finished

# Up to so many chains that create objects run beside everything else. Normally each is one replica.
FEW_BUILDS = 8


def plan(snapshot: Snapshot, now: datetime, cache: PlanCache | None = None) -> Plan:
    """Decide everything about one set. The same snapshot and time give the same plan, byte for byte."""
    return requeue_for_failed_writes(_plan(snapshot, now, cache or PlanCache()), snapshot, now)


def _plan(snapshot: Snapshot, now: datetime, cache: PlanCache) -> Plan:
    """Take the first of these that applies, in the order of precedence."""
    if snapshot.pcs.metadata.is_terminating:
        return report_failed_writes(Plan(chains=plan_deletion(snapshot), rejections=None), snapshot, now)
    if snapshot.context.errors:
        return _plan_invalid(snapshot, now)
    finalizer = plan_finalizer(snapshot.pcs)
    if finalizer:
        return report_failed_writes(Plan(chains=finalizer), snapshot, now)
    failing = plan_failing(snapshot, now) if snapshot.context.is_training else None
    targets = cache.targets(snapshot)
    if snapshot.failures:
        needed = (*find_open_revision_rejections(snapshot, targets), *find_open_access_rejections(snapshot))
        snapshot = msgspec.structs.replace(snapshot, failures=needed)
    retries = Retries(snapshot.failures, now)
    revisions = plan_revisions(snapshot, targets, retries)
    if targets.newest is None and (failing is not None or is_finished(snapshot.pcs)):
        return report_failed_writes(failing or Plan(), snapshot, now)
    if targets.newest is None or (targets.wanted is None and revisions):
        return _plan_unrecorded(snapshot, revisions, retries, now)
    cache.update(snapshot, now)
    if failing is not None:
        return report_failed_writes(_with_child_statuses(failing, cache.active_plans()), snapshot, now)
    if is_finished(snapshot.pcs):
        return _plan_finished(snapshot, cache, now)
    return _plan_replicas(snapshot, cache, revisions, retries, now)


def _plan_invalid(snapshot: Snapshot, now: datetime) -> Plan:
    """Report a set that was stored past admission, and act on nothing of it until its spec changes."""
    # Its pods keep running. They are not observed, so the counts stay the last known ones.
    last = snapshot.pcs.status
    facts = SetFacts(
        available_replicas=last.available_replicas,
        updated_replicas=last.updated_replicas,
        waiting_gangs=last.pod_gang_statuses,
        failures=(),
    )
    finding = Finding(
        about=f"podcliqueset/{snapshot.context.name}",
        reason=FindingReason.INVALID_SET,
        message="; ".join(str(error) for error in snapshot.context.errors),
    )
    return Plan(statuses=_as_tuple(set_status(snapshot, facts, now)), findings=(finding,))


def _plan_unrecorded(snapshot: Snapshot, chains: tuple[Chain, ...], retries: Retries, now: datetime) -> Plan:
    """Store the templates of a set. Nothing is created from templates that are not stored."""
    facts = SetFacts(
        available_replicas=snapshot.pcs.status.available_replicas,
        updated_replicas=snapshot.pcs.status.updated_replicas,
        waiting_gangs=snapshot.pcs.status.pod_gang_statuses,
        failures=snapshot.failures,
        is_stored=False,
    )
    has_failures = snapshot.failures or snapshot.failed_writes
    status = set_status(snapshot, facts, now) if has_failures else None
    return Plan(
        chains=chains,
        statuses=_as_tuple(status),
        findings=retries.findings,
        requeue_at=retries.requeue_at,
        rejections=snapshot.failures,
    )


def _with_child_statuses(failing: Plan, replicas: list[ReplicaPlan]) -> Plan:
    """Keep the statuses of children up to date while a set fails: a pod may hang on a node that does not answer."""
    statuses = tuple(map(_without_events, _child_statuses(replicas)))
    return msgspec.structs.replace(failing, statuses=(*statuses, *failing.statuses))


def _plan_finished(snapshot: Snapshot, cache: PlanCache, now: datetime) -> Plan:
    """Keep only statuses up to date, without events.

    Completed pods stay for their logs, and what a user deletes stays deleted. Nothing is created any more, so nothing
    can be rejected or held.
    """
    replicas = cache.active_plans()
    facts = _add_up(snapshot, cache, replicas, _compute_training(snapshot, cache, now))
    facts = msgspec.structs.replace(facts, failures=(), held_count=0)
    statuses = (*_child_statuses(replicas), *_as_tuple(set_status(snapshot, facts, now)))
    return Plan(statuses=tuple(map(_without_events, statuses)))


def _plan_replicas(
    snapshot: Snapshot, cache: PlanCache, revisions: tuple[Chain, ...], retries: Retries, now: datetime
) -> Plan:
    replicas = cache.active_plans()
    training = _compute_training(snapshot, cache, now)
    facts = _add_up(snapshot, cache, replicas, training)
    chains = (
        *revisions,
        *plan_access(snapshot, retries),
        *(c for replica in replicas for c in replica.chains),
        *plan_orphaned_gangs(snapshot),
    )
    return Plan(
        chains=_in_order(chains),
        statuses=(*_child_statuses(replicas), *_as_tuple(set_status(snapshot, facts, now))),
        live_reads=tuple(live_read for replica in replicas for live_read in replica.live_reads),
        findings=(
            *_excess_findings(snapshot, facts.excess),
            *_startup_findings(snapshot),
            *(finding for replica in replicas for finding in replica.findings),
            *retries.findings,
        ),
        requeue_at=earliest(
            retries.requeue_at,
            training.requeue_at if training else None,
            *(replica.requeue_at for replica in replicas),
        ),
        rejections=facts.failures,
    )


def _compute_training(snapshot: Snapshot, cache: PlanCache, now: datetime) -> TrainingOutcome | None:
    if not snapshot.context.is_training:
        return None
    return compute_training_outcome(snapshot.pcs, cache.runs(), now, is_running=cache.running_count > 0)


def _add_up(
    snapshot: Snapshot, cache: PlanCache, active_plans: list[ReplicaPlan], training_status: TrainingOutcome | None
) -> SetFacts:
    targets = cache.targets(snapshot)
    summaries = [replica.summary for replica in active_plans]
    return SetFacts(
        available_replicas=cache.available_count,
        is_running=cache.running_count > 0,
        updated_replicas=cache.updated_count,
        waiting_gangs=tuple(islice((gang for summary in summaries for gang in summary.waiting_gangs), LISTED_GANGS)),
        failures=(*snapshot.failures, *(failure for summary in summaries for failure in summary.failures)),
        roll=cache.roll_facts(snapshot) if targets.wanted else None,
        is_stored=targets.wanted is not None,
        is_overstated=any(summary.is_overstated for summary in summaries),
        training_status=training_status,
        newest_hash=targets.newest.generation_hash if targets.newest and targets.wanted else "",
        is_on_delete=targets.is_on_delete,
        held_count=sum(summary.held_count for summary in summaries),
        is_update_held=any(summary.is_update_held for summary in summaries),
        gangless=tuple(dict.fromkeys(words for summary in summaries for words in summary.gangless)),
        unmet=tuple(dict.fromkeys(words for summary in summaries for words in summary.unmet)),
        excess=_describe_excess(snapshot, cache),
    )


def _describe_excess(snapshot: Snapshot, cache: PlanCache) -> str:
    budget = snapshot.context.cluster.objects_per_set
    return describe_excess(cache.object_count, budget) if cache.object_count > budget else ""


def _excess_findings(snapshot: Snapshot, excess: str) -> tuple[Finding, ...]:
    if not excess:
        return ()
    about = f"podcliqueset/{snapshot.context.name}"
    return (Finding(about=about, reason=FindingReason.OBJECT_BUDGET_EXCEEDED, message=excess),)


def _startup_findings(snapshot: Snapshot) -> tuple[Finding, ...]:
    if not snapshot.context.startup_hold:
        return ()
    about = f"podcliqueset/{snapshot.context.name}"
    return (Finding(about=about, reason=FindingReason.MISSING_DEPENDENCY, message=snapshot.context.startup_hold),)


def _in_order(chains: tuple[Chain, ...]) -> tuple[Chain, ...]:
    """Sort chains by rank. While there is much to create, leave the gates to the next plan, which comes soon."""
    is_building = sum(chain.rank is ChainPriority.BUILD for chain in chains) > FEW_BUILDS
    kept = [chain for chain in chains if chain.rank <= ChainPriority.BUILD] if is_building else chains
    return tuple(sorted(kept, key=lambda chain: chain.rank))


def _child_statuses(replicas: list[ReplicaPlan]) -> tuple[StatusWrite, ...]:
    return tuple(status for replica in replicas for status in replica.statuses)


def _without_events(status: StatusWrite) -> StatusWrite:
    return msgspec.structs.replace(status, on_success=())


def _as_tuple(status: StatusWrite | None) -> tuple[StatusWrite, ...]:
    return (status,) if status else ()

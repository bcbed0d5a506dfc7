"""Plan one PodCliqueSet: a table of contents, without logic of its own. Each capability has its own file."""

from datetime import datetime
from itertools import islice

import msgspec

from grove.api.reasons import FindingReason
from grove.planner.actions import Chain, ChainPriority, Finding, Plan, StatusWrite, earliest
from grove.planner.child_sync import Retries
from grove.planner.gangs.orphaned_gangs import plan_strays
from grove.planner.object_budget import describe_excess
from grove.planner.plan_cache import Memo
from grove.planner.replica import ReplicaPlan
from grove.planner.rollout.revision_history import plan_revisions
from grove.planner.snapshot import Snapshot
from grove.planner.status.reconcile_failed import report_failed_writes, wake_for_failed_writes
from grove.planner.status.set_status import LISTED_GANGS, SetFacts, set_status
from grove.planner.teardown.set_deletion import plan_deletion, plan_finalizer
from grove.planner.training.failure import plan_failing
from grove.planner.training.lifecycle import TrainingOutcome, is_finished, judge

# Up to so many chains that create objects run beside everything else. Normally each is one replica.
FEW_BUILDS = 8


def plan(snapshot: Snapshot, now: datetime, memo: Memo | None = None) -> Plan:
    """Decide everything about one set. The same snapshot and time give the same plan, byte for byte."""
    return wake_for_failed_writes(_plan(snapshot, now, memo or Memo()), snapshot, now)


def _plan(snapshot: Snapshot, now: datetime, memo: Memo) -> Plan:
    """Take the first of these that applies, in the order of precedence."""
    if snapshot.pcs.metadata.is_terminating:
        return report_failed_writes(Plan(chains=plan_deletion(snapshot)), snapshot, now)
    if snapshot.context.errors:
        return _plan_invalid(snapshot, now)
    finalizer = plan_finalizer(snapshot.pcs)
    if finalizer:
        return report_failed_writes(Plan(chains=finalizer), snapshot, now)
    failing = plan_failing(snapshot, now) if snapshot.context.is_training else None
    targets = memo.targets(snapshot)
    retries = Retries(snapshot.failures, now)
    revisions = plan_revisions(snapshot, targets, retries)
    if targets.newest is None and (failing is not None or is_finished(snapshot.pcs)):
        return report_failed_writes(failing or Plan(), snapshot, now)
    if targets.newest is None or (targets.wanted is None and revisions):
        return _plan_unrecorded(snapshot, revisions, retries, now)
    memo.update(snapshot, now)
    if failing is not None:
        return report_failed_writes(_with_child_statuses(failing, memo.busy()), snapshot, now)
    if is_finished(snapshot.pcs):
        return _plan_finished(snapshot, memo, now)
    return _plan_replicas(snapshot, memo, revisions, retries, now)


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
    return Plan(chains=chains, statuses=_as_tuple(status), findings=retries.findings, requeue_at=retries.requeue_at)


def _with_child_statuses(failing: Plan, replicas: list[ReplicaPlan]) -> Plan:
    """Keep the statuses of children up to date while a set fails: a pod may hang on a node that does not answer."""
    statuses = tuple(map(_without_events, _child_statuses(replicas)))
    return msgspec.structs.replace(failing, statuses=(*statuses, *failing.statuses))


def _plan_finished(snapshot: Snapshot, memo: Memo, now: datetime) -> Plan:
    """Only keep statuses up to date, without events.

    Completed pods stay for their logs, and what a user deletes stays deleted. Nothing is wanted any more, so nothing is
    rejected or held.
    """
    replicas = memo.busy()
    facts = _add_up(snapshot, memo, replicas, _judge_training(snapshot, memo, now))
    facts = msgspec.structs.replace(facts, failures=(), held_count=0)
    statuses = (*_child_statuses(replicas), *_as_tuple(set_status(snapshot, facts, now)))
    return Plan(statuses=tuple(map(_without_events, statuses)))


def _plan_replicas(
    snapshot: Snapshot, memo: Memo, revisions: tuple[Chain, ...], retries: Retries, now: datetime
) -> Plan:
    replicas = memo.busy()
    training = _judge_training(snapshot, memo, now)
    facts = _add_up(snapshot, memo, replicas, training)
    chains = (*revisions, *(c for replica in replicas for c in replica.chains), *plan_strays(snapshot))
    return Plan(
        chains=_in_order(chains),
        statuses=(*_child_statuses(replicas), *_as_tuple(set_status(snapshot, facts, now))),
        looks=tuple(look for replica in replicas for look in replica.looks),
        findings=(
            *_excess_findings(snapshot, facts.excess),
            *(finding for replica in replicas for finding in replica.findings),
            *retries.findings,
        ),
        requeue_at=earliest(
            retries.requeue_at,
            training.requeue_at if training else None,
            *(replica.requeue_at for replica in replicas),
        ),
    )


def _judge_training(snapshot: Snapshot, memo: Memo, now: datetime) -> TrainingOutcome | None:
    if not snapshot.context.is_training:
        return None
    return judge(snapshot.pcs, memo.runs(), now, is_running=memo.running_count > 0)


def _add_up(
    snapshot: Snapshot, memo: Memo, busy: list[ReplicaPlan], training_status: TrainingOutcome | None
) -> SetFacts:
    targets = memo.targets(snapshot)
    summaries = [replica.summary for replica in busy]
    return SetFacts(
        available_replicas=memo.available_count,
        is_running=memo.running_count > 0,
        updated_replicas=memo.updated_count,
        waiting_gangs=tuple(islice((gang for summary in summaries for gang in summary.waiting_gangs), LISTED_GANGS)),
        failures=(*snapshot.failures, *(failure for summary in summaries for failure in summary.failures)),
        roll=memo.roll_facts(snapshot) if targets.wanted else None,
        is_stored=targets.wanted is not None,
        is_overstated=any(summary.is_overstated for summary in summaries),
        training_status=training_status,
        newest_hash=targets.newest.generation_hash if targets.newest and targets.wanted else "",
        is_on_delete=targets.is_on_delete,
        held_count=sum(summary.held_count for summary in summaries),
        gangless=tuple(dict.fromkeys(words for summary in summaries for words in summary.gangless)),
        unmet=tuple(dict.fromkeys(words for summary in summaries for words in summary.unmet)),
        excess=_describe_excess(snapshot, memo),
    )


def _describe_excess(snapshot: Snapshot, memo: Memo) -> str:
    budget = snapshot.context.surroundings.objects_per_set
    return describe_excess(memo.object_count, budget) if memo.object_count > budget else ""


def _excess_findings(snapshot: Snapshot, excess: str) -> tuple[Finding, ...]:
    if not excess:
        return ()
    about = f"podcliqueset/{snapshot.context.name}"
    return (Finding(about=about, reason=FindingReason.OBJECT_BUDGET_EXCEEDED, message=excess),)


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

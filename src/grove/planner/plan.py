"""The table of contents: one set's snapshot in, one plan out. No logic of its own; each capability has its file."""

from datetime import datetime
from itertools import islice

from grove.api.reasons import FindingReason
from grove.planner.actions import Finding, Plan, earliest
from grove.planner.deletion import plan_deletion, plan_finalizer
from grove.planner.memo import Memo
from grove.planner.replica import ReplicaPlan
from grove.planner.snapshot import Snapshot
from grove.planner.status import LISTED_GANGS, SetFacts, set_status
from grove.planner.strays import plan_strays


def plan(snapshot: Snapshot, now: datetime, memo: Memo | None = None) -> Plan:
    """Decide everything about one set. The same snapshot and time give the same plan, byte for byte."""
    if snapshot.pcs.metadata.is_leaving:
        return Plan(chains=plan_deletion(snapshot))
    if snapshot.context.errors:
        return _plan_invalid(snapshot, now)
    guard = plan_finalizer(snapshot.pcs)
    if guard:
        return Plan(chains=guard)
    memo = memo or Memo()
    memo.update(snapshot, now)
    replicas = memo.busy()
    status = set_status(snapshot, _add_up(memo, replicas), now)
    chains = (*(c for replica in replicas for c in replica.chains), *plan_strays(snapshot))
    return Plan(
        chains=tuple(sorted(chains, key=lambda chain: chain.rank)),
        statuses=(*(s for replica in replicas for s in replica.statuses), *((status,) if status else ())),
        looks=tuple(look for replica in replicas for look in replica.looks),
        findings=tuple(finding for replica in replicas for finding in replica.findings),
        wake_at=earliest(*(replica.wake_at for replica in replicas)),
    )


def _add_up(memo: Memo, busy: list[ReplicaPlan]) -> SetFacts:
    return SetFacts(
        available_replicas=memo.available_count,
        updated_replicas=memo.updated_count,
        waiting_gangs=tuple(islice((gang for replica in busy for gang in replica.waiting_gangs), LISTED_GANGS)),
        failures=tuple(failure for replica in busy for failure in replica.failures),
        held_count=sum(replica.held_count for replica in busy),
    )


def _plan_invalid(snapshot: Snapshot, now: datetime) -> Plan:
    """A set that slipped past admission: said once, nothing touched, healed by the next change of its spec."""
    # What runs goes on running; it is not looked at, so the counts stay those that were known last.
    last = snapshot.pcs.status
    facts = SetFacts(
        available_replicas=last.available_replicas,
        updated_replicas=last.updated_replicas,
        waiting_gangs=last.pod_gang_statuses,
        failures=(),
    )
    status = set_status(snapshot, facts, now)
    finding = Finding(
        about=f"podcliqueset/{snapshot.context.name}",
        reason=FindingReason.INVALID_SET,
        message="; ".join(str(error) for error in snapshot.context.errors),
    )
    return Plan(statuses=(status,) if status else (), findings=(finding,))

"""The table of contents: one set's snapshot in, one plan out. No logic of its own; each capability has its file."""

from datetime import datetime

import msgspec

from grove.api.podcliqueset import GangStatus
from grove.api.reasons import FindingReason
from grove.planner.actions import Chain, Finding, Plan, earliest
from grove.planner.deletion import plan_deletion, plan_finalizer
from grove.planner.replica import ReplicaPlan, plan_replica
from grove.planner.snapshot import SetContext, Snapshot
from grove.planner.status import LISTED_GANGS, SetFacts, set_status
from grove.planner.views import ReplicaView


class _Remembered(msgspec.Struct, frozen=True):
    replica: ReplicaView
    context: SetContext
    gangs_ahead_count: int
    plan: ReplicaPlan


class Memo:
    """Plans of replicas that did not change since. It saves time and changes no answer."""

    def __init__(self) -> None:
        self._plans: dict[int, _Remembered] = {}
        self.planned_count = 0

    def plan(self, context: SetContext, replica: ReplicaView, now: datetime, gangs_ahead_count: int) -> ReplicaPlan:
        known = self._plans.get(replica.index)
        if (
            known is not None
            and known.replica is replica
            and known.context is context
            and known.gangs_ahead_count == gangs_ahead_count
            and (known.plan.wake_at is None or now < known.plan.wake_at)
        ):
            return known.plan
        plan = plan_replica(context, replica, now, gangs_ahead_count=gangs_ahead_count)
        self._plans[replica.index] = _Remembered(replica, context, gangs_ahead_count, plan)
        self.planned_count += 1
        return plan


def plan(snapshot: Snapshot, now: datetime, memo: Memo | None = None) -> Plan:
    """Decide everything about one set. The same snapshot and time give the same plan, byte for byte."""
    if snapshot.pcs.metadata.is_leaving:
        return Plan(chains=plan_deletion(snapshot))
    if snapshot.context.errors:
        return _plan_invalid(snapshot, now)
    guard = plan_finalizer(snapshot.pcs)
    if guard:
        return Plan(chains=guard)
    replicas = _plan_replicas(snapshot, now, memo or Memo())
    status = set_status(snapshot, _add_up(replicas), now)
    return Plan(
        chains=_removals_first(snapshot, replicas),
        statuses=(*(s for replica in replicas for s in replica.statuses), *((status,) if status else ())),
        looks=tuple(look for replica in replicas for look in replica.looks),
        findings=tuple(finding for replica in replicas for finding in replica.findings),
        wake_at=earliest(*(replica.wake_at for replica in replicas)),
    )


def _plan_replicas(snapshot: Snapshot, now: datetime, memo: Memo) -> list[ReplicaPlan]:
    plans: list[ReplicaPlan] = []
    ahead = snapshot.refused_ahead_count
    for replica in snapshot.replicas:
        # Only who was refused has to know who is ahead.
        replica_plan = memo.plan(snapshot.context, replica, now, ahead if replica.failures else 0)
        ahead += replica_plan.refused_gang_count
        plans.append(replica_plan)
    return plans


def _removals_first(snapshot: Snapshot, replicas: list[ReplicaPlan]) -> tuple[Chain, ...]:
    """What goes makes room for what comes."""
    wanted = sum(replica.index < snapshot.context.spec.replicas for replica in snapshot.replicas)
    ordered = (*replicas[wanted:], *replicas[:wanted])
    return tuple(chain for replica in ordered for chain in replica.chains)


def _add_up(replicas: list[ReplicaPlan]) -> SetFacts:
    waiting: list[GangStatus] = []
    available = updated = 0
    for replica in replicas:
        available += replica.is_available
        updated += replica.is_available and replica.is_updated
        if len(waiting) < LISTED_GANGS:
            waiting += replica.waiting_gangs
    return SetFacts(
        available_replicas=available,
        updated_replicas=updated,
        waiting_gangs=tuple(waiting),
        failures=tuple(failure for replica in replicas for failure in replica.failures),
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

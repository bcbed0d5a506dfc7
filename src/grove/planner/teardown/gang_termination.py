"""Gang termination: find the breaches that outlived their delay, and recreate the unit around each.

spec/gang-termination.md: the unit is the replica of the clique's group. It is the whole set replica if the group itself
is below its minimum, or if the clique is standalone. `planner/status/availability.py` decides what a breach is,
`recreation.py` deletes and recreates the unit.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from grove.api import labels, names
from grove.api.reasons import ConditionType, EventReason, FindingReason
from grove.api.types.meta import Condition, ConditionStatus, ObjectMeta, find_condition
from grove.api.types.podclique import PodFailure
from grove.api.types.podgang import GangPhase
from grove.api.values.durations import parse_duration
from grove.api.values.numbers_in_text import is_number
from grove.api.values.times import wire_time
from grove.planner.actions import EventRecord, Finding, LiveRead, Patch, Severity, earliest
from grove.planner.desired_state import DesiredGroup, DesiredReplica
from grove.planner.live_reads import read_live
from grove.planner.replica_facts import ReplicaFacts
from grove.planner.snapshot import UNTIL_RELEASED, SetContext
from grove.planner.status.availability import GroupReplica, clique_breach, group_verdict, is_group_updating
from grove.planner.status.group_replicas import group_replicas
from grove.planner.teardown.recreation import (
    REPLICA,
    Recreations,
    RecreationUnit,
    is_recorded_on,
    live_scale,
    plan_intent,
    read_scale_live,
)
from grove.planner.training.failure_evidence import describe_failure, find_first_failure, first_of
from grove.planner.views import CliqueView, ReplicaView

ROUNDING = timedelta(seconds=1)
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class PendingTermination(msgspec.Struct, frozen=True, kw_only=True):
    """One active breach: the unit it would terminate, when, and the cliques whose pods prove it."""

    unit: RecreationUnit
    about: str
    at: datetime
    why: str
    evidence: tuple[CliqueView, ...]
    # In a training set: the pod failure that caused it, if a pod shows one.
    failure: PodFailure | None = None


class Terminations(msgspec.Struct, frozen=True, kw_only=True):
    """The part of gang termination in the plan of a replica."""

    intents: tuple[Patch, ...] = ()
    live_reads: tuple[LiveRead, ...] = ()
    findings: tuple[Finding, ...] = ()
    requeue_at: datetime | None = None
    # In a training set: why the replica must be restarted. "": it need not.
    restart: str = ""
    # In a training set: the restart is due and on hold. Until it is counted, nothing of the replica is repaired.
    is_restart_held: bool = False
    # A teardown is due and on hold, see `SetContext` and docs/explanation/gang-termination.md, "Mass outage".
    held_count: int = 0


NONE = Terminations()


def plan_terminations(facts: ReplicaFacts) -> Terminations:
    """Plan the teardowns that are due. During a mass outage they are held."""
    context, replica, desired, recreations = facts.context, facts.replica, facts.desired, facts.recreations
    delay = set_delay(context)
    if delay is None:
        return NONE
    now, hold_until, outage_until = facts.now, facts.environment.hold_until, facts.environment.outage_until
    running = (
        _training_breaches(context, replica, desired, recreations, delay)
        if context.is_training
        else _breaches(replica, desired, recreations, delay)
    )
    due = _most_important([breach for breach in running if breach.at <= now])
    if hold_until is not None and now < hold_until:
        return Terminations(
            findings=tuple(_build_finding(breach, now, is_held=True) for breach in running),
            requeue_at=earliest(
                *(breach.at for breach in running if breach.at > now),
                hold_until if due and hold_until < UNTIL_RELEASED else None,
            ),
            held_count=len(due),
            is_restart_held=context.is_training and bool(due),
        )
    if hold_until is not None and outage_until is not None and now < outage_until:
        due = [_mention_hold(breach, hold_until) for breach in due]
    return Terminations(
        intents=() if context.is_training else tuple(_intents(context, replica, desired, due)),
        restart=_restart_reason(due[0], replica) if context.is_training and due else "",
        # One watch can be stale while others work, so the executor lists the pods again before it deletes them.
        live_reads=(
            *(read_live(view) for breach in due for view in breach.evidence),
            *(read_scale_live(context, replica, breach.unit) for breach in due if not context.is_training),
        ),
        findings=tuple(_build_finding(breach, now, is_held=False) for breach in running),
        requeue_at=earliest(*(breach.at for breach in running if breach.at > now)),
    )


def _mention_hold(breach: PendingTermination, hold_until: datetime) -> PendingTermination:
    """Return the breach with a reason that mentions the hold, which ended before the outage did."""
    words = f"most nodes are still not ready, and the hold of teardowns ended at {wire_time(hold_until)} (maxHold)"
    return msgspec.structs.replace(breach, why=f"{breach.why}; {words}")


def set_delay(context: SetContext) -> timedelta | None:
    """Return the termination delay of the set. None: gang termination is off."""
    text = context.spec.template.termination_delay
    return None if text is None else parse_duration(text)


def group_delay(group: DesiredGroup, delay: timedelta) -> timedelta:
    return delay if group.config.termination_delay is None else parse_duration(group.config.termination_delay)


def effective_delay(context: SetContext, metadata: ObjectMeta) -> timedelta | None:
    """Return the delay that applies to a clique or a group: its group's own, or the set's."""
    delay = set_delay(context)
    if delay is None:
        return None
    group_name = metadata.labels.get(labels.GROUP) or metadata.name
    index = metadata.labels.get(labels.SET_REPLICA_INDEX, "")
    for config in context.groups if is_number(index) else ():
        if config.termination_delay is not None and names.group(context.name, int(index), config.name) == group_name:
            return parse_duration(config.termination_delay)
    return delay


def _breaches(
    replica: ReplicaView, desired: DesiredReplica, recreations: Recreations, delay: timedelta
) -> list[PendingTermination]:
    """Return every active breach, in the order of the manifest. A unit that is being deleted has none."""
    present = {
        clique.name: replica.cliques[clique.name]
        for clique in desired.cliques
        if recreations.is_present(replica, clique)
    }
    found = [
        _pending_clique_breach(present[clique.name], REPLICA, delay)
        for clique in desired.base.cliques
        if not clique.group and clique.name in present
    ]
    for group in desired.groups:
        replicas = group_replicas(replica, desired, group, recreations)
        found += _group_breaches(replica, group, replicas, group_delay(group, delay))
    return [breach for breach in found if breach is not None]


def _training_breaches(
    context: SetContext,
    replica: ReplicaView,
    desired: DesiredReplica,
    recreations: Recreations,
    delay: timedelta,
) -> list[PendingTermination]:
    """Return every active breach of a training replica. Each restarts the whole replica, which is only useful whole."""
    present = [replica.cliques[c.name] for c in desired.cliques if recreations.is_present(replica, c)]
    own = [effective_delay(context, view.clique.metadata) for view in present]
    found = (_pending_clique_breach(v, REPLICA, delay if d is None else d) for v, d in zip(present, own, strict=True))
    breaches = [breach for breach in found if breach is not None]
    return [*breaches, *_find_deleted_cliques(replica, desired, recreations, delay)]


def _find_deleted_cliques(
    replica: ReplicaView, desired: DesiredReplica, recreations: Recreations, delay: timedelta
) -> Iterator[PendingTermination]:
    """Find cliques that a user deleted.

    Cliques are created before their gang, so a clique that is missing while its gang exists was deleted. With a delay
    the operator recreates it in time, like lost pods. A replica that never ran has lost nothing.
    """
    has_run = any(view.clique.status.was_available for view in replica.cliques.values())
    delays = {group.name: group_delay(group, delay) for group in desired.groups}
    for clique in desired.cliques:
        if delays.get(clique.group, delay):
            continue
        gang = replica.gangs.get(clique.gang)
        if gang is None or not (has_run or gang.status.phase == GangPhase.RUNNING):
            continue
        if clique.name not in replica.cliques and recreations.of(clique) is None:
            yield PendingTermination(
                unit=REPLICA,
                about=f"podclique/{clique.name}",
                at=gang.metadata.creation_timestamp or _LONG_AGO,
                why=f"{clique.name} was deleted with all its pods",
                evidence=(),
            )


def _pending_clique_breach(view: CliqueView, unit: RecreationUnit, delay: timedelta) -> PendingTermination | None:
    """Return the breach of a clique. Its time is that of the stored condition, which survives an operator restart."""
    breach = clique_breach(view)
    stored = _true_since(view.clique.status.conditions)
    if not breach.is_true or stored is None:
        return None
    return PendingTermination(
        unit=unit,
        about=f"podclique/{view.name}",
        # Times on the wire are rounded up. Without a delay, do not wait for the rest of the second.
        at=stored + delay if delay else stored - ROUNDING,
        why=f"{view.name}: {breach.message}",
        evidence=(view,),
        failure=find_first_failure(view) if view.is_finite else None,
    )


def _group_breaches(
    replica: ReplicaView, group: DesiredGroup, replicas: Sequence[GroupReplica], delay: timedelta
) -> Iterator[PendingTermination | None]:
    """Find breaches in a group: of single replicas while the group has its minimum, else of the set replica."""
    current = replica.groups.get(group.name)
    if current is None or current.metadata.is_terminating or is_group_updating(current):
        return
    breached = {
        j: [view for view in one.cliques if view is not None and clique_breach(view).is_true]
        for j, one in enumerate(replicas)
    }
    breach = group_verdict(current, replicas)
    if breach.is_true:
        stored = _true_since(current.status.conditions)
        if stored is not None:
            yield PendingTermination(
                unit=REPLICA,
                about=f"podcliquescalinggroup/{group.name}",
                at=stored + delay,
                why=f"{group.name}: {breach.message}",
                evidence=tuple(views[0] for views in breached.values() if views),
            )
    if breach.status != ConditionStatus.FALSE:
        return
    for j, views in breached.items():
        unit = RecreationUnit(group=group.name, index=j)
        # The earliest of its breaches terminates it.
        yield min(
            filter(None, (_pending_clique_breach(v, unit, delay) for v in views)), key=lambda d: d.at, default=None
        )


def _true_since(conditions: tuple[Condition, ...]) -> datetime | None:
    condition = find_condition(conditions, ConditionType.MIN_AVAILABLE_BREACHED)
    if condition is None or condition.status != ConditionStatus.TRUE:
        return None
    return condition.last_transition_time


def _most_important(due: list[PendingTermination]) -> list[PendingTermination]:
    """Return the breaches to act on. If the whole replica is terminated, its parts need no termination of their own."""
    whole = [breach for breach in due if breach.unit == REPLICA]
    return [min(whole, key=_order_of_importance)] if whole else due


def _order_of_importance(breach: PendingTermination) -> tuple[bool, datetime, datetime]:
    """Return a sort key that puts the root cause first: a launcher fails because its worker failed a moment before."""
    failure = breach.failure
    started_at = failure.finished_at if failure is not None and failure.finished_at is not None else breach.at
    return failure is None or failure.exit_code is None, started_at, breach.at


def _restart_reason(breach: PendingTermination, replica: ReplicaView) -> str:
    """Return why a replica is restarted. A pod above a minimum may have failed before the one that broke it."""
    views = (view for view in replica.cliques.values() if view.is_finite and view.failed)
    failures = [failure for view in views if (failure := find_first_failure(view)) is not None]
    first = first_of((*failures, *((breach.failure,) if breach.failure else ())))
    if first is None or first == breach.failure:
        return breach.why
    return f"{breach.why}; before that: {describe_failure(first)}"


def _intents(
    context: SetContext, replica: ReplicaView, desired: DesiredReplica, due: list[PendingTermination]
) -> Iterator[Patch]:
    """Yield one write per gang that has units to terminate."""
    for gang in desired.gangs:
        current = replica.gangs.get(gang.name)
        ours = [breach for breach in due if is_recorded_on(gang.name, desired, breach.unit)]
        if current is None or current.metadata.is_terminating or not ours:
            continue
        reason = "; ".join(breach.why for breach in ours)
        yield plan_intent(
            context,
            current,
            [breach.unit for breach in ours],
            scale=live_scale(replica, desired, [breach.unit for breach in ours]),
            seen=[view.incarnation for view in replica.cliques.values()],
            reason=f"below the minimum for longer than the termination delay ({reason})",
            event=_termination_event(context, replica, ours),
        )


def _termination_event(context: SetContext, replica: ReplicaView, due: list[PendingTermination]) -> EventRecord:
    unit = due[0].unit
    if unit.group:
        which = ", ".join(f"{breach.unit.group} replica {breach.unit.index}" for breach in due)
        reason = EventReason.GROUP_REPLICA_DELETED
    else:
        which = f"replica {replica.index}"
        reason = EventReason.REPLICA_DELETED
    why = "; ".join(breach.why for breach in due)
    return EventRecord(
        subject=context.subject,
        reason=reason,
        message=f"{which} is deleted and recreated: {why}, for longer than the termination delay",
        severity=Severity.WARNING,
    )


def _build_finding(breach: PendingTermination, now: datetime, *, is_held: bool) -> Finding:
    unit = f"{breach.unit.group} replica {breach.unit.index}" if breach.unit.group else "the whole set replica"
    if is_held and breach.at <= now:
        return Finding(
            about=breach.about,
            reason=FindingReason.TEARDOWN_HELD,
            message=f"{breach.why}; {unit} is due to be deleted and recreated, but held while most nodes are not ready",
        )
    return Finding(
        about=breach.about,
        reason=FindingReason.TERMINATION_DELAY,
        message=f"{breach.why}; unless it recovers, {unit} is deleted and recreated",
        until=breach.at,
    )

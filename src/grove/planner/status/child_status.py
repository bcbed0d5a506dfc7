"""The statuses of cliques, groups and gangs, from the same facts. That of the set is in `set_status.py`."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from grove.api import labels
from grove.api.reasons import ConditionType, EventReason, Reason
from grove.api.resources import GROUPS, PODCLIQUES, PODGANGS
from grove.api.types.meta import (
    Condition,
    ConditionStatus,
    ObjectMeta,
    find_condition,
    is_condition_true,
)
from grove.api.types.podclique import CliqueRollingUpdateProgress
from grove.api.types.podcliquescalinggroup import GroupRollingUpdateProgress, PodCliqueScalingGroup, ScalingGroupStatus
from grove.api.types.podcliqueset import (
    GroupConfig,
)
from grove.api.types.podgang import GangPhase, PodGang, PodGangStatus
from grove.backends.base import SchedulerMessage
from grove.planner.actions import EventRecord, Severity, StatusPriority, StatusWrite, subject_of
from grove.planner.gangs.podgang import incarnation_of
from grove.planner.pods.create_backoff import CreateBackoff
from grove.planner.rollout.clique_update import CliqueRoll
from grove.planner.rollout.group_update import GroupRoll
from grove.planner.rollout.update_progress import clique_update_progress, group_update_progress
from grove.planner.snapshot import SetContext
from grove.planner.status.availability import (
    ConditionResult,
    GroupReplica,
    clique_breach,
    clique_scheduled,
    group_verdict,
    has_minimum,
    is_replica_available,
    is_scheduled,
    was_available,
)
from grove.planner.status.status_patch import (
    breach_moved,
    no,
    urgency_of,
    with_condition,
    without_condition,
    without_former_types,
    write_status,
    yes,
)
from grove.planner.teardown.gang_termination import effective_delay
from grove.planner.training.failure_evidence import describe_failure, find_first_failure, find_index_failure
from grove.planner.views import MOST_FAILURES, CliqueView, is_starting_again


def clique_status(
    context: SetContext,
    template_name: str,
    clique: CliqueView,
    refusal: CreateBackoff | None,
    roll: CliqueRoll | None,
    now: datetime,
) -> StatusWrite | None:
    """`roll` is the update of a standalone clique; a member is updated by its group."""
    old = clique.clique.status
    metadata = clique.clique.metadata
    conditions = without_former_types(old.conditions)
    breach = clique_breach(clique)
    for type_, verdict in (
        (ConditionType.POD_CLIQUE_SCHEDULED, clique_scheduled(clique)),
        (ConditionType.MIN_AVAILABLE_BREACHED, breach),
    ):
        conditions = with_condition(conditions, type_, verdict, now)
    conditions = _with_refusal(conditions, refusal, now)
    if clique.is_done:
        verdict = yes(Reason.ALL_PODS_SUCCEEDED, f"all {clique.replicas} pods ended with exit code 0")
        conditions = with_condition(conditions, ConditionType.SUCCEEDED, verdict, now)
    progress = old.rolling_update_progress if roll is None else roll.progress
    is_settled = _is_settled(clique, context.template_hashes[template_name]) and not _is_open(progress)
    status = msgspec.structs.replace(
        old,
        observed_generation=metadata.generation,
        replicas=len(clique.active) + len(clique.failed) + len(clique.succeeded),
        ready_replicas=clique.ready_count,
        scheduled_replicas=clique.placed_count,
        schedule_gated_replicas=clique.gated_count,
        updated_replicas=clique.active_hashes.get(context.newest_hashes[template_name], 0),
        was_available=was_available(clique),
        succeeded_indices=tuple(sorted(clique.done_indices)),
        failed_indices=tuple(sorted(clique.given_up)),
        first_failure=find_first_failure(clique) if clique.is_finite and breach.is_true else None,
        hpa_pod_selector=_clique_selector(context, metadata),
        conditions=conditions,
        current_pod_template_hash=clique.template_hash if is_settled else old.current_pod_template_hash,
        current_pod_clique_set_generation_hash=context.generation_hash
        if is_settled
        else old.current_pod_clique_set_generation_hash,
        rolling_update_progress=progress,
        update_progress=clique_update_progress(
            old.update_progress, progress, context, context.template_hashes[template_name]
        ),
    )
    # Facts that later decisions rest on: the sticky flag, and the instant at which a breach began or ended.
    is_fact = (
        status.was_available != old.was_available
        or breach_moved(old.conditions, conditions)
        # At zero its pods go: that it starts again later is known before that.
        or (old.was_available and is_starting_again(old.conditions) != is_starting_again(conditions))
        or progress != old.rolling_update_progress
        # What ended well is remembered before anybody can take the pod away.
        or status.succeeded_indices != old.succeeded_indices
        or status.failed_indices != old.failed_indices
        or status.first_failure != old.first_failure
    )
    is_news = clique.ready_count == clique.replicas
    urgency = urgency_of(is_fact=is_fact, is_news=is_news)
    delay = effective_delay(context, metadata)
    write = write_status(PODCLIQUES, metadata, old, status, urgency, delay=delay, is_training=context.is_training)
    if status.updated_replicas < old.updated_replicas:
        write = _take_back(write)
    news = sorted(clique.given_up.difference(old.failed_indices))
    if write is None or not news:
        return write
    return msgspec.structs.replace(write, on_success=(*write.on_success, *(_given_up(clique, i) for i in news)))


def _take_back(write: StatusWrite | None) -> StatusWrite | None:
    """A status that counted units as updated which are not any more is corrected without delay."""
    if write is None:
        return None
    urgency = StatusPriority.NEWS if write.urgency is StatusPriority.COUNT else write.urgency
    return msgspec.structs.replace(write, takes_back=True, urgency=urgency)


def _given_up(clique: CliqueView, index: int) -> EventRecord:
    failure = find_index_failure(clique, index)
    evidence = f"; last: {describe_failure(failure)}" if failure is not None else ""
    return EventRecord(
        subject=subject_of(PODCLIQUES, clique.clique.metadata),
        reason=EventReason.INDEX_GIVEN_UP,
        message=f"index {index} failed {MOST_FAILURES} times and is not tried any more{evidence}",
        severity=Severity.WARNING,
    )


def _is_settled(clique: CliqueView, target: str) -> bool:
    """Its object and all its pods are those of the template that its replica runs."""
    return clique.template_hash == target and all(hash_ == target for hash_ in clique.active_hashes)


def _is_open(progress: CliqueRollingUpdateProgress | GroupRollingUpdateProgress | None) -> bool:
    return progress is not None and progress.update_ended_at is None


def _clique_selector(context: SetContext, metadata: ObjectMeta) -> str | None:
    if labels.GROUP in metadata.labels:
        return None
    return labels.selector({**labels.default_labels(context.name), labels.PODCLIQUE: metadata.name})


def _with_refusal(
    conditions: tuple[Condition, ...], refusal: CreateBackoff | None, now: datetime
) -> tuple[Condition, ...]:
    if refusal is None:
        return without_condition(conditions, ConditionType.PODS_REJECTED)
    verdict = ConditionResult(status=ConditionStatus.TRUE, reason=Reason.CREATE_REJECTED, message=refusal.message)
    return with_condition(conditions, ConditionType.PODS_REJECTED, verdict, now)


def group_status(
    context: SetContext,
    config: GroupConfig,
    group: PodCliqueScalingGroup,
    replicas: Sequence[Sequence[CliqueView | None]],
    judged: Sequence[GroupReplica],
    roll: GroupRoll | None,
    now: datetime,
) -> StatusWrite | None:
    """`replicas` holds, per group replica, its cliques; None for one that does not exist."""
    old = group.status
    verdict = group_verdict(group, judged)
    conditions = with_condition(old.conditions, ConditionType.MIN_AVAILABLE_BREACHED, verdict, now)
    members = [member.name for member in context.members[config.name]]
    updated = [[_is_newest(context, name, c) for name, c in zip(members, cliques, strict=True)] for cliques in replicas]
    progress = old.rolling_update_progress if roll is None else roll.progress
    is_settled = not _is_open(progress) and all(
        c is not None and _is_settled(c, context.template_hashes[name])
        for cliques in replicas
        for name, c in zip(members, cliques, strict=True)
    )
    status = msgspec.structs.replace(
        old,
        replicas=group.spec.replicas,
        scheduled_replicas=sum(all(c is not None and is_scheduled(c) for c in cliques) for cliques in replicas),
        available_replicas=sum(is_replica_available(cliques) for cliques in replicas),
        updated_replicas=sum(
            is_replica_available(cliques) and all(found) for cliques, found in zip(replicas, updated, strict=True)
        ),
        selector=labels.selector({**labels.default_labels(context.name), labels.GROUP: group.metadata.name}),
        observed_generation=group.metadata.generation,
        conditions=conditions,
        current_pod_clique_set_generation_hash=context.generation_hash
        if is_settled or old.current_pod_clique_set_generation_hash is None
        else old.current_pod_clique_set_generation_hash,
        rolling_update_progress=progress,
        update_progress=group_update_progress(
            old.update_progress,
            progress,
            context,
            updated_count=sum(
                is_new and c is not None and has_minimum(c)
                for found, cliques in zip(updated, replicas, strict=True)
                for is_new, c in zip(found, cliques, strict=True)
            ),
            total_count=sum(len(found) for found in updated),
        ),
    )
    # Whether the group or the set decides about a broken replica is known before one of them acts.
    known = find_condition(old.conditions, ConditionType.MIN_AVAILABLE_BREACHED)
    is_other = verdict.status != (ConditionStatus.FALSE if known is None else known.status)
    is_fact = is_other or progress != old.rolling_update_progress
    is_news = status.available_replicas == status.replicas
    urgency = urgency_of(is_fact=is_fact, is_news=is_news)
    write = write_status(GROUPS, group.metadata, old, status, urgency, delay=effective_delay(context, group.metadata))
    is_less = status.updated_replicas < old.updated_replicas or _updated_cliques(status) < _updated_cliques(old)
    return _take_back(write) if is_less else write


def _updated_cliques(status: ScalingGroupStatus) -> int:
    return status.update_progress.updated_pod_cliques_count if status.update_progress is not None else 0


def _is_newest(context: SetContext, template_name: str, clique: CliqueView | None) -> bool:
    """Does the clique, and every pod of it, run the newest template?"""
    return clique is not None and _is_settled(clique, context.newest_hashes[template_name])


class GangHealth(msgspec.Struct, frozen=True, kw_only=True):
    """A gang's phase and conditions, before their times."""

    phase: GangPhase
    verdicts: tuple[tuple[ConditionType, ConditionResult], ...]


_AT_ZERO = tuple(
    (
        type_,
        ConditionResult(
            status=status, reason=Reason.SCALED_TO_ZERO, message="every clique of the gang is scaled to zero"
        ),
    )
    for type_, status in (
        (ConditionType.INITIALIZED, ConditionStatus.TRUE),
        (ConditionType.SCHEDULED, ConditionStatus.TRUE),
        (ConditionType.READY, ConditionStatus.TRUE),
        (ConditionType.UNHEALTHY, ConditionStatus.FALSE),
    )
)


def gang_health(
    gang: PodGang, cliques: Sequence[CliqueView], clique_count: int, said: Sequence[SchedulerMessage] = ()
) -> GangHealth:
    """`said` is what the scheduler says of it."""
    created = len(cliques) == clique_count and all(c.existing_count >= c.replicas for c in cliques)
    is_initialized = created or is_condition_true(gang.status.conditions, ConditionType.INITIALIZED)
    unscheduled = _first_below(cliques, clique_count, lambda c: c.placed_count, "scheduled")
    unready = _first_below(
        cliques, clique_count, lambda c: c.available_count if c.is_finite else c.ready_count + len(c.succeeded), "ready"
    )
    lost = [c for c in cliques if clique_breach(c).is_true]
    if len(cliques) == clique_count and all(c.is_at_zero for c in cliques):
        return GangHealth(phase=GangPhase.RUNNING, verdicts=_AT_ZERO)
    phase = GangPhase.PENDING if unscheduled else GangPhase.STARTING if unready else GangPhase.RUNNING
    return GangHealth(
        phase=phase,
        verdicts=(
            (
                ConditionType.INITIALIZED,
                yes(Reason.PODS_CREATED, "every pod exists")
                if is_initialized
                else no(Reason.PODS_CREATION_PENDING, "some pods do not exist yet"),
            ),
            (
                ConditionType.SCHEDULED,
                no(Reason.MINIMUM_NOT_SCHEDULED, _with_words(unscheduled, said))
                if unscheduled
                else yes(Reason.MINIMUM_SCHEDULED, "every podgroup has its minimum on nodes"),
            ),
            (
                ConditionType.READY,
                no(Reason.MINIMUM_NOT_READY, unready)
                if unready
                else yes(Reason.MINIMUM_READY, "every podgroup has its minimum ready"),
            ),
            (
                ConditionType.UNHEALTHY,
                yes(Reason.MINIMUM_LOST, f"{lost[0].name} had its minimum of {lost[0].min_available} ready and lost it")
                if lost
                else no(Reason.MINIMUM_KEPT, "no podgroup lost its minimum"),
            ),
        ),
    )


def _with_words(message: str, said: Sequence[SchedulerMessage]) -> str:
    return f"{message}; the scheduler: {said[0].message}" if said else message


def _first_below(cliques: Sequence[CliqueView], clique_count: int, count: Any, word: str) -> str:
    if len(cliques) < clique_count:
        return f"{len(cliques)} of {clique_count} podgroups exist"
    for clique in cliques:
        if count(clique) < clique.min_available:
            return f"{clique.name} has {count(clique)} of {clique.min_available} pods {word}"
    return ""


def gang_status(
    gang: PodGang, health: GangHealth, now: datetime, said: Sequence[SchedulerMessage] = ()
) -> StatusWrite | None:
    old = gang.status
    conditions = old.conditions
    for type_, verdict in health.verdicts:
        conditions = with_condition(conditions, type_, verdict, now)
    is_scheduled = is_condition_true(conditions, ConditionType.SCHEDULED)
    status = PodGangStatus(
        phase=health.phase,
        conditions=conditions,
        placement_score=old.placement_score,
        # Of a gang without podgroups nothing was placed.
        placed_incarnation=incarnation_of(gang) if is_scheduled and gang.spec.podgroups else old.placed_incarnation,
    )
    write = write_status(PODGANGS, gang.metadata, old, status, urgency_of(is_news=health.phase == GangPhase.RUNNING))
    if write is None or not said or health.phase != GangPhase.PENDING:
        return write
    known = find_condition(old.conditions, ConditionType.SCHEDULED)
    if known is not None and said[0].message in known.message:
        return write
    failed = EventRecord(
        subject=subject_of(PODGANGS, gang.metadata),
        reason=EventReason.FAILED_SCHEDULING,
        message=said[0].message,
        severity=Severity.WARNING,
    )
    return msgspec.structs.replace(write, on_success=(*write.on_success, failed))

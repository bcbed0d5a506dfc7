"""Statuses of cliques, groups and gangs. That of the set is in `set_status.py`."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from grove.api.reasons import ConditionType, EventReason, Reason
from grove.api.resources import GROUPS, PODCLIQUES, PODGANGS
from grove.api.types.meta import (
    Condition,
    ConditionStatus,
    find_condition,
    is_condition_true,
)
from grove.api.types.podclique import CliqueRollingUpdateProgress, PodCliqueStatus
from grove.api.types.podcliquescalinggroup import GroupRollingUpdateProgress, PodCliqueScalingGroup, ScalingGroupStatus
from grove.api.types.podcliqueset import GroupConfig
from grove.api.types.podgang import GangPhase, PodGang, PodGangStatus
from grove.backends.base import SchedulerMessage
from grove.planner.actions import EventRecord, Severity, StatusPriority, StatusWrite, subject_of
from grove.planner.gangs.podgang import incarnation_of
from grove.planner.gangs.rejected_gangs import CreateBackoff
from grove.planner.rollout.clique_update import CliqueRoll
from grove.planner.rollout.group_update import GroupRoll
from grove.planner.rollout.update_progress import clique_update_progress, group_update_progress
from grove.planner.snapshot import SetContext
from grove.planner.startup.stored_minimum import loses_minimum
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
from grove.planner.status.scale_selectors import clique_selector, group_selector
from grove.planner.status.status_patch import (
    breach_moved,
    condition_false,
    condition_true,
    status_priority,
    with_condition,
    without_condition,
    without_former_types,
    write_status,
)
from grove.planner.teardown.gang_termination import effective_delay
from grove.planner.training.failure_evidence import describe_failure, find_first_failure, find_index_failure
from grove.planner.views import MOST_FAILURES, CliqueView, is_starting_again, pod_index

# The cliques of each replica of a group; None: the clique does not exist.
GroupCliques = Sequence[Sequence[CliqueView | None]]


def clique_status(
    context: SetContext,
    template_name: str,
    clique: CliqueView,
    backoff: CreateBackoff | None,
    roll: CliqueRoll | None,
    now: datetime,
) -> StatusWrite | None:
    """Return the write of a clique's status, or None if nothing changed.

    `roll` is the update of a standalone clique. A member is updated by its group.
    """
    old = clique.clique.status
    metadata = clique.clique.metadata
    progress = old.rolling_update_progress if roll is None else roll.progress
    conditions = _clique_conditions(clique, backoff, now)
    status = _build_clique_status(context, template_name, clique, conditions, progress)
    is_durable = _is_durable_change(old, status) or loses_minimum(context, clique, status)
    priority = status_priority(is_durable=is_durable, is_transition=clique.ready_count == clique.replicas)
    delay = effective_delay(context, metadata)
    write = write_status(PODCLIQUES, metadata, old, status, priority, delay=delay, is_training=context.is_training)
    if status.updated_replicas < old.updated_replicas:
        write = _mark_lowered_count(write)
    newly_failed = sorted(clique.failed_indices.difference(old.failed_indices))
    if write is None or not newly_failed:
        return write
    return msgspec.structs.replace(
        write, on_success=(*write.on_success, *(_failed_index_event(clique, i) for i in newly_failed))
    )


def _clique_conditions(clique: CliqueView, backoff: CreateBackoff | None, now: datetime) -> tuple[Condition, ...]:
    conditions = without_former_types(clique.clique.status.conditions)
    for type_, verdict in (
        (ConditionType.POD_CLIQUE_SCHEDULED, clique_scheduled(clique)),
        (ConditionType.MIN_AVAILABLE_BREACHED, clique_breach(clique)),
    ):
        conditions = with_condition(conditions, type_, verdict, now)
    conditions = _with_pods_rejected(conditions, backoff, now)
    if clique.is_done:
        verdict = condition_true(Reason.ALL_PODS_SUCCEEDED, f"all {clique.replicas} pods ended with exit code 0")
        conditions = with_condition(conditions, ConditionType.SUCCEEDED, verdict, now)
    return conditions


def _build_clique_status(
    context: SetContext,
    template_name: str,
    clique: CliqueView,
    conditions: tuple[Condition, ...],
    progress: CliqueRollingUpdateProgress | None,
) -> PodCliqueStatus:
    old = clique.clique.status
    metadata = clique.clique.metadata
    target = context.template_hashes[template_name]
    is_settled = _is_settled(clique, target) and not _is_open(progress)
    is_failing = clique.is_finite and is_condition_true(conditions, ConditionType.MIN_AVAILABLE_BREACHED)
    return msgspec.structs.replace(
        old,
        observed_generation=metadata.generation,
        replicas=_count_existing(clique),
        ready_replicas=clique.ready_count,
        scheduled_replicas=clique.placed_count,
        schedule_gated_replicas=clique.gated_count,
        updated_replicas=clique.active_hashes.get(context.newest_hashes[template_name], 0),
        was_available=was_available(clique),
        succeeded_indices=tuple(sorted(clique.done_indices)),
        failed_indices=tuple(sorted(clique.failed_indices)),
        first_failure=find_first_failure(clique) if is_failing else None,
        hpa_pod_selector=clique_selector(context, metadata),
        conditions=conditions,
        current_pod_template_hash=clique.template_hash if is_settled else old.current_pod_template_hash,
        current_pod_clique_set_generation_hash=context.generation_hash
        if is_settled
        else old.current_pod_clique_set_generation_hash,
        rolling_update_progress=progress,
        update_progress=clique_update_progress(old.update_progress, progress, context, target),
    )


def _count_existing(clique: CliqueView) -> int:
    """Count the pods that are not terminating. One that ended counts only until its replacement exists.

    Autoscalers read this count as the number of replicas, so it must never exceed that number, not even briefly.
    """
    ended = {pod_index(pod) for pod in (*clique.failed, *clique.succeeded)}
    return len(clique.active) + len(ended.difference(map(pod_index, clique.active)))


def _is_durable_change(old: PodCliqueStatus, new: PodCliqueStatus) -> bool:
    """Return whether later decisions depend on what changes, so that it must be written before anything is done."""
    return (
        new.was_available != old.was_available
        or breach_moved(old.conditions, new.conditions)
        # The pods of a clique at zero are deleted. That it will start again must be stored before that.
        or (old.was_available and is_starting_again(old.conditions) != is_starting_again(new.conditions))
        or new.rolling_update_progress != old.rolling_update_progress
        # A success must be stored before its pod can be deleted.
        or new.succeeded_indices != old.succeeded_indices
        or new.failed_indices != old.failed_indices
        or new.first_failure != old.first_failure
    )


def _mark_lowered_count(write: StatusWrite | None) -> StatusWrite | None:
    """Mark a write that lowers a count of updated units: it is not delayed."""
    if write is None:
        return None
    priority = StatusPriority.TRANSITION if write.priority is StatusPriority.COUNTS else write.priority
    return msgspec.structs.replace(write, lowers_updated_count=True, priority=priority)


def _failed_index_event(clique: CliqueView, index: int) -> EventRecord:
    failure = find_index_failure(clique, index)
    evidence = f"; last: {describe_failure(failure)}" if failure is not None else ""
    return EventRecord(
        subject=subject_of(PODCLIQUES, clique.clique.metadata),
        reason=EventReason.INDEX_GIVEN_UP,
        message=f"index {index} failed {MOST_FAILURES} times and is not retried{evidence}",
        severity=Severity.WARNING,
    )


def _is_settled(clique: CliqueView, target: str) -> bool:
    """Return whether the clique and all its pods have the template of their replica."""
    return clique.template_hash == target and all(hash_ == target for hash_ in clique.active_hashes)


def _is_open(progress: CliqueRollingUpdateProgress | GroupRollingUpdateProgress | None) -> bool:
    return progress is not None and progress.update_ended_at is None


def _with_pods_rejected(
    conditions: tuple[Condition, ...], backoff: CreateBackoff | None, now: datetime
) -> tuple[Condition, ...]:
    if backoff is None:
        return without_condition(conditions, ConditionType.PODS_REJECTED)
    verdict = ConditionResult(status=ConditionStatus.TRUE, reason=Reason.CREATE_REJECTED, message=backoff.message)
    return with_condition(conditions, ConditionType.PODS_REJECTED, verdict, now)


def group_status(
    context: SetContext,
    config: GroupConfig,
    group: PodCliqueScalingGroup,
    replicas: Sequence[GroupReplica],
    cliques: GroupCliques,
    roll: GroupRoll | None,
    now: datetime,
) -> StatusWrite | None:
    """Return the write of a group's status, or None if nothing changed."""
    old = group.status
    verdict = group_verdict(group, replicas)
    conditions = with_condition(old.conditions, ConditionType.MIN_AVAILABLE_BREACHED, verdict, now)
    progress = old.rolling_update_progress if roll is None else roll.progress
    status = _build_group_status(context, config, group, cliques, conditions, progress)
    # Whether the group or the set decides about a broken replica must be stored before one of them acts.
    stored = find_condition(old.conditions, ConditionType.MIN_AVAILABLE_BREACHED)
    is_other = verdict.status != (ConditionStatus.FALSE if stored is None else stored.status)
    priority = status_priority(
        is_durable=is_other or progress != old.rolling_update_progress,
        is_transition=status.available_replicas == status.replicas,
    )
    write = write_status(GROUPS, group.metadata, old, status, priority, delay=effective_delay(context, group.metadata))
    is_less = status.updated_replicas < old.updated_replicas or _updated_cliques(status) < _updated_cliques(old)
    return _mark_lowered_count(write) if is_less else write


def _build_group_status(
    context: SetContext,
    config: GroupConfig,
    group: PodCliqueScalingGroup,
    replicas: GroupCliques,
    conditions: tuple[Condition, ...],
    progress: GroupRollingUpdateProgress | None,
) -> ScalingGroupStatus:
    old = group.status
    members = [member.name for member in context.members[config.name]]
    updated = [[_is_newest(context, name, c) for name, c in zip(members, cliques, strict=True)] for cliques in replicas]
    is_settled = not _is_open(progress) and all(
        c is not None and _is_settled(c, context.template_hashes[name])
        for cliques in replicas
        for name, c in zip(members, cliques, strict=True)
    )
    return msgspec.structs.replace(
        old,
        replicas=group.spec.replicas,
        scheduled_replicas=sum(all(c is not None and is_scheduled(c) for c in cliques) for cliques in replicas),
        available_replicas=sum(is_replica_available(cliques) for cliques in replicas),
        updated_replicas=sum(
            is_replica_available(cliques) and all(found) for cliques, found in zip(replicas, updated, strict=True)
        ),
        selector=group_selector(context, config, group.metadata.name, len(replicas)),
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


def _updated_cliques(status: ScalingGroupStatus) -> int:
    return status.update_progress.updated_pod_cliques_count if status.update_progress is not None else 0


def _is_newest(context: SetContext, template_name: str, clique: CliqueView | None) -> bool:
    """Return whether the clique and all its pods have the newest template."""
    return clique is not None and _is_settled(clique, context.newest_hashes[template_name])


class GangHealth(msgspec.Struct, frozen=True, kw_only=True):
    """The phase and conditions of a gang, without times."""

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
    gang: PodGang, cliques: Sequence[CliqueView], clique_count: int, scheduler_messages: Sequence[SchedulerMessage] = ()
) -> GangHealth:
    """Compute the phase and conditions of a gang. `scheduler_messages` come from its scheduler object."""
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
                condition_true(Reason.PODS_CREATED, "every pod exists")
                if is_initialized
                else condition_false(Reason.PODS_CREATION_PENDING, "some pods do not exist yet"),
            ),
            (
                ConditionType.SCHEDULED,
                condition_false(Reason.MINIMUM_NOT_SCHEDULED, _with_scheduler_message(unscheduled, scheduler_messages))
                if unscheduled
                else condition_true(Reason.MINIMUM_SCHEDULED, "every podgroup has its minimum on nodes"),
            ),
            (
                ConditionType.READY,
                condition_false(Reason.MINIMUM_NOT_READY, unready)
                if unready
                else condition_true(Reason.MINIMUM_READY, "every podgroup has its minimum ready"),
            ),
            (
                ConditionType.UNHEALTHY,
                condition_true(
                    Reason.MINIMUM_LOST, f"{lost[0].name} had its minimum of {lost[0].min_available} ready and lost it"
                )
                if lost
                else condition_false(Reason.MINIMUM_KEPT, "no podgroup lost its minimum"),
            ),
        ),
    )


def _with_scheduler_message(message: str, scheduler_messages: Sequence[SchedulerMessage]) -> str:
    return f"{message}; the scheduler: {scheduler_messages[0].message}" if scheduler_messages else message


def _first_below(cliques: Sequence[CliqueView], clique_count: int, count: Any, word: str) -> str:
    if len(cliques) < clique_count:
        return f"{len(cliques)} of {clique_count} podgroups exist"
    for clique in cliques:
        if count(clique) < clique.min_available:
            return f"{clique.name} has {count(clique)} of {clique.min_available} pods {word}"
    return ""


def gang_status(
    gang: PodGang, health: GangHealth, now: datetime, scheduler_messages: Sequence[SchedulerMessage] = ()
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
        # A gang without podgroups was not placed.
        placed_incarnation=incarnation_of(gang) if is_scheduled and gang.spec.podgroups else old.placed_incarnation,
    )
    write = write_status(
        PODGANGS, gang.metadata, old, status, status_priority(is_transition=health.phase == GangPhase.RUNNING)
    )
    if write is None or not scheduler_messages or health.phase != GangPhase.PENDING:
        return write
    known = find_condition(old.conditions, ConditionType.SCHEDULED)
    if known is not None and scheduler_messages[0].message in known.message:
        return write
    failed = EventRecord(
        subject=subject_of(PODGANGS, gang.metadata),
        reason=EventReason.FAILED_SCHEDULING,
        message=scheduler_messages[0].message,
        severity=Severity.WARNING,
    )
    return msgspec.structs.replace(write, on_success=(*write.on_success, failed))

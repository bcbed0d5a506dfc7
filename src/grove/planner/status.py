"""The statuses of cliques, groups and gangs, from the same facts. That of the set is in `set_status.py`."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from grove.api import labels
from grove.api.meta import (
    Condition,
    ConditionStatus,
    ObjectMeta,
    find_condition,
    is_condition_true,
)
from grove.api.podclique import CliqueRollingUpdateProgress
from grove.api.podcliqueset import (
    GroupConfig,
)
from grove.api.podgang import GangPhase, PodGang, PodGangStatus
from grove.api.reasons import ConditionType, EventReason, Reason
from grove.api.resources import GROUPS, PODCLIQUES, PODGANGS
from grove.api.scalinggroup import GroupRollingUpdateProgress, PodCliqueScalingGroup
from grove.backends.base import Said
from grove.planner.actions import Emit, Severity, StatusWrite, subject_of
from grove.planner.availability import (
    Verdict,
    clique_breach,
    clique_scheduled,
    group_verdict,
    is_available,
    is_scheduled,
    was_available,
)
from grove.planner.refusals import Refusal
from grove.planner.rollout.clique_level import CliqueRoll
from grove.planner.rollout.group_level import GroupRoll
from grove.planner.rollout.progress import clique_update_progress, group_update_progress
from grove.planner.snapshot import SetContext
from grove.planner.status_writes import (
    breach_moved,
    no,
    urgency_of,
    with_condition,
    without_condition,
    write_status,
    yes,
)
from grove.planner.termination import effective_delay
from grove.planner.views import CliqueView


def clique_status(
    context: SetContext,
    template_name: str,
    clique: CliqueView,
    refusal: Refusal | None,
    roll: CliqueRoll | None,
    now: datetime,
) -> StatusWrite | None:
    """`roll` is the update of a standalone clique; a member is updated by its group."""
    old = clique.clique.status
    metadata = clique.clique.metadata
    conditions = old.conditions
    for type_, verdict in (
        (ConditionType.POD_CLIQUE_SCHEDULED, clique_scheduled(clique)),
        (ConditionType.MIN_AVAILABLE_BREACHED, clique_breach(clique)),
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
        or progress != old.rolling_update_progress
        # What ended well is remembered before anybody can take the pod away.
        or status.succeeded_indices != old.succeeded_indices
    )
    is_news = clique.ready_count == clique.replicas
    urgency = urgency_of(is_fact=is_fact, is_news=is_news)
    delay = effective_delay(context, metadata)
    return write_status(PODCLIQUES, metadata, old, status, urgency, delay=delay, is_training=context.is_training)


def _is_settled(clique: CliqueView, target: str) -> bool:
    """Its object and all its pods are those of the template that its replica runs."""
    return clique.template_hash == target and all(hash_ == target for hash_ in clique.active_hashes)


def _is_open(progress: CliqueRollingUpdateProgress | GroupRollingUpdateProgress | None) -> bool:
    return progress is not None and progress.update_ended_at is None


def _clique_selector(context: SetContext, metadata: ObjectMeta) -> str | None:
    if labels.GROUP in metadata.labels:
        return None
    return labels.selector({**labels.default_labels(context.name), labels.PODCLIQUE: metadata.name})


def _with_refusal(conditions: tuple[Condition, ...], refusal: Refusal | None, now: datetime) -> tuple[Condition, ...]:
    if refusal is None:
        return without_condition(conditions, ConditionType.PODS_REFUSED)
    verdict = Verdict(status=ConditionStatus.TRUE, reason=Reason.CREATE_REFUSED, message=refusal.message)
    return with_condition(conditions, ConditionType.PODS_REFUSED, verdict, now)


def group_status(
    context: SetContext,
    config: GroupConfig,
    group: PodCliqueScalingGroup,
    replicas: Sequence[Sequence[CliqueView | None]],
    roll: GroupRoll | None,
    now: datetime,
) -> StatusWrite | None:
    """`replicas` holds, per group replica, its cliques; None for one that does not exist."""
    old = group.status
    conditions = with_condition(
        old.conditions,
        ConditionType.MIN_AVAILABLE_BREACHED,
        group_verdict(group, replicas),
        now,
    )
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
            updated_count=sum(sum(found) for found in updated),
            total_count=sum(len(found) for found in updated),
        ),
    )
    is_fact = breach_moved(old.conditions, conditions) or progress != old.rolling_update_progress
    is_news = status.available_replicas == status.replicas
    urgency = urgency_of(is_fact=is_fact, is_news=is_news)
    return write_status(GROUPS, group.metadata, old, status, urgency, delay=effective_delay(context, group.metadata))


def is_replica_available(cliques: Sequence[CliqueView | None]) -> bool:
    return all(clique is not None and is_available(clique) and is_scheduled(clique) for clique in cliques)


def _is_newest(context: SetContext, template_name: str, clique: CliqueView | None) -> bool:
    """Does the clique, and every pod of it, run the newest template?"""
    return clique is not None and _is_settled(clique, context.newest_hashes[template_name])


class GangHealth(msgspec.Struct, frozen=True, kw_only=True):
    """A gang's phase and conditions, before their times."""

    phase: GangPhase
    verdicts: tuple[tuple[ConditionType, Verdict], ...]


def gang_health(
    gang: PodGang, cliques: Sequence[CliqueView], clique_count: int, said: Sequence[Said] = ()
) -> GangHealth:
    """`said` is what the scheduler says of it."""
    created = len(cliques) == clique_count and all(c.existing_count >= c.replicas for c in cliques)
    is_initialized = created or is_condition_true(gang.status.conditions, ConditionType.INITIALIZED)
    unscheduled = _first_below(cliques, clique_count, lambda c: c.placed_count, "scheduled")
    unready = _first_below(
        cliques, clique_count, lambda c: c.available_count if c.is_finite else c.ready_count + len(c.succeeded), "ready"
    )
    lost = [c for c in cliques if clique_breach(c).is_true]
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


def _with_words(message: str, said: Sequence[Said]) -> str:
    return f"{message}; the scheduler: {said[0].message}" if said else message


def _first_below(cliques: Sequence[CliqueView], clique_count: int, count: Any, word: str) -> str:
    if len(cliques) < clique_count:
        return f"{len(cliques)} of {clique_count} podgroups exist"
    for clique in cliques:
        if count(clique) < clique.min_available:
            return f"{clique.name} has {count(clique)} of {clique.min_available} pods {word}"
    return ""


def gang_status(gang: PodGang, health: GangHealth, now: datetime, said: Sequence[Said] = ()) -> StatusWrite | None:
    old = gang.status
    conditions = old.conditions
    for type_, verdict in health.verdicts:
        conditions = with_condition(conditions, type_, verdict, now)
    status = PodGangStatus(phase=health.phase, conditions=conditions, placement_score=old.placement_score)
    write = write_status(PODGANGS, gang.metadata, old, status, urgency_of(is_news=health.phase == GangPhase.RUNNING))
    if write is None or not said or health.phase != GangPhase.PENDING:
        return write
    known = find_condition(old.conditions, ConditionType.SCHEDULED)
    if known is not None and said[0].message in known.message:
        return write
    failed = Emit(
        subject=subject_of(PODGANGS, gang.metadata),
        reason=EventReason.FAILED_SCHEDULING,
        message=said[0].message,
        severity=Severity.WARNING,
    )
    return msgspec.structs.replace(write, on_success=(*write.on_success, failed))

"""All statuses, from the same facts: cliques, groups, gangs and the set. Each becomes the smallest patch, or none."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any

import msgspec

from grove.api import labels
from grove.api.meta import (
    Condition,
    ConditionStatus,
    JsonObject,
    LastError,
    ObjectMeta,
    find_condition,
    is_condition_true,
    without_nulls,
)
from grove.api.patches import merge_patch
from grove.api.podclique import CliqueRollingUpdateProgress, PodCliqueStatus
from grove.api.podcliqueset import (
    GangStatus,
    GroupConfig,
    PodCliqueSet,
    PodCliqueSetStatus,
    SetPhase,
    SetRollingUpdateProgress,
)
from grove.api.podgang import GangPhase, PodGang, PodGangStatus
from grove.api.reasons import ConditionType, EventReason, Reason
from grove.api.resources import GROUPS, PODCLIQUES, PODCLIQUESETS, PODGANGS, Resource
from grove.api.scalinggroup import GroupRollingUpdateProgress, PodCliqueScalingGroup, ScalingGroupStatus
from grove.api.times import ceil_second, wire_time
from grove.planner.actions import Emit, Failure, Severity, StatusWrite, Subject, Urgency, subject_of
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
from grove.planner.rollout.set_level import RollFacts, roll_set, set_update_progress
from grove.planner.snapshot import SetContext, Snapshot
from grove.planner.termination import effective_delay
from grove.planner.training import Course, announcements
from grove.planner.views import CliqueView

AnyStatus = PodCliqueSetStatus | PodCliqueStatus | ScalingGroupStatus | PodGangStatus

LISTED_GANGS = 100
LISTED_ERRORS = 20


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
        verdict = _yes(Reason.ALL_PODS_SUCCEEDED, f"all {clique.replicas} pods ended with exit code 0")
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
        or _breach_moved(old.conditions, conditions)
        or progress != old.rolling_update_progress
        # What ended well is remembered before anybody can take the pod away.
        or status.succeeded_indices != old.succeeded_indices
    )
    is_news = clique.ready_count == clique.replicas
    urgency = _urgency(is_fact=is_fact, is_news=is_news)
    delay = effective_delay(context, metadata)
    return _write(PODCLIQUES, metadata, old, status, urgency, delay=delay, is_training=context.is_training)


def _is_settled(clique: CliqueView, target: str) -> bool:
    """Its object and all its pods are those of the template that its replica runs."""
    return clique.template_hash == target and all(hash_ == target for hash_ in clique.active_hashes)


def _is_open(progress: CliqueRollingUpdateProgress | GroupRollingUpdateProgress | None) -> bool:
    return progress is not None and progress.update_ended_at is None


def _urgency(*, is_fact: bool = False, is_news: bool) -> Urgency:
    if is_fact:
        return Urgency.FACT
    return Urgency.NEWS if is_news else Urgency.COUNT


def _breach_moved(old: tuple[Condition, ...], new: tuple[Condition, ...]) -> bool:
    type_ = ConditionType.MIN_AVAILABLE_BREACHED
    return is_condition_true(old, type_) != is_condition_true(new, type_)


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
    is_fact = _breach_moved(old.conditions, conditions) or progress != old.rolling_update_progress
    is_news = status.available_replicas == status.replicas
    urgency = _urgency(is_fact=is_fact, is_news=is_news)
    return _write(GROUPS, group.metadata, old, status, urgency, delay=effective_delay(context, group.metadata))


def is_replica_available(cliques: Sequence[CliqueView | None]) -> bool:
    return all(clique is not None and is_available(clique) and is_scheduled(clique) for clique in cliques)


def _is_newest(context: SetContext, template_name: str, clique: CliqueView | None) -> bool:
    """Does the clique, and every pod of it, run the newest template?"""
    return clique is not None and _is_settled(clique, context.newest_hashes[template_name])


class GangHealth(msgspec.Struct, frozen=True, kw_only=True):
    """A gang's phase and conditions, before their times."""

    phase: GangPhase
    verdicts: tuple[tuple[ConditionType, Verdict], ...]


def gang_health(gang: PodGang, cliques: Sequence[CliqueView], clique_count: int) -> GangHealth:
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
                _yes(Reason.PODS_CREATED, "every pod exists")
                if is_initialized
                else _no(Reason.PODS_CREATION_PENDING, "some pods do not exist yet"),
            ),
            (
                ConditionType.SCHEDULED,
                _no(Reason.MINIMUM_NOT_SCHEDULED, unscheduled)
                if unscheduled
                else _yes(Reason.MINIMUM_SCHEDULED, "every podgroup has its minimum on nodes"),
            ),
            (
                ConditionType.READY,
                _no(Reason.MINIMUM_NOT_READY, unready)
                if unready
                else _yes(Reason.MINIMUM_READY, "every podgroup has its minimum ready"),
            ),
            (
                ConditionType.UNHEALTHY,
                _yes(
                    Reason.MINIMUM_LOST, f"{lost[0].name} had its minimum of {lost[0].min_available} ready and lost it"
                )
                if lost
                else _no(Reason.MINIMUM_KEPT, "no podgroup lost its minimum"),
            ),
        ),
    )


def _first_below(cliques: Sequence[CliqueView], clique_count: int, count: Any, word: str) -> str:
    if len(cliques) < clique_count:
        return f"{len(cliques)} of {clique_count} podgroups exist"
    for clique in cliques:
        if count(clique) < clique.min_available:
            return f"{clique.name} has {count(clique)} of {clique.min_available} pods {word}"
    return ""


def _yes(reason: Reason, message: str) -> Verdict:
    return Verdict(status=ConditionStatus.TRUE, reason=reason, message=message)


def _no(reason: Reason, message: str) -> Verdict:
    return Verdict(status=ConditionStatus.FALSE, reason=reason, message=message)


def gang_status(gang: PodGang, health: GangHealth, now: datetime) -> StatusWrite | None:
    old = gang.status
    conditions = old.conditions
    for type_, verdict in health.verdicts:
        conditions = with_condition(conditions, type_, verdict, now)
    status = PodGangStatus(phase=health.phase, conditions=conditions, placement_score=old.placement_score)
    return _write(PODGANGS, gang.metadata, old, status, _urgency(is_news=health.phase == GangPhase.RUNNING))


class SetFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the replicas of a set add up to."""

    available_replicas: int
    updated_replicas: int
    waiting_gangs: tuple[GangStatus, ...]
    failures: tuple[Failure, ...]
    # Teardowns that are due and held.
    held_count: int = 0
    # How its update stands; None: nobody looked, so what was known last stays.
    roll: RollFacts | None = None
    # How the run of a training set stands.
    course: Course | None = None
    # The templates that it asks for now are stored: only then was its spec taken in.
    is_stored: bool = True
    newest_hash: str = ""
    is_on_delete: bool = False


def set_status(snapshot: Snapshot, facts: SetFacts, now: datetime) -> StatusWrite | None:
    pcs, context = snapshot.pcs, snapshot.context
    old = pcs.status
    conditions = _with_unbuilt(context, old.conditions, now)
    conditions = _with_failures(context, conditions, facts.failures, now)
    conditions = _with_held(conditions, facts.held_count, now)
    progress, counts = old.rolling_update_progress, old.update_progress
    if facts.roll is not None:
        progress = roll_set(pcs, facts.newest_hash, facts.roll, is_on_delete=facts.is_on_delete, now=now)
        counts = set_update_progress(progress, facts.roll)
        conditions = _with_stall(conditions, progress, facts.roll, now)
    status = msgspec.structs.replace(
        old,
        rolling_update_progress=progress,
        update_progress=counts,
        observed_generation=pcs.metadata.generation if facts.is_stored else old.observed_generation,
        conditions=conditions,
        last_errors=_last_errors(context, facts.failures, old.last_errors, now),
        replicas=pcs.spec.replicas,
        updated_replicas=facts.updated_replicas,
        available_replicas=facts.available_replicas,
        hpa_pod_selector=labels.selector(labels.default_labels(context.name)),
        pod_gang_statuses=facts.waiting_gangs[:LISTED_GANGS],
        current_generation_hash=facts.newest_hash or old.current_generation_hash,
        phase=_phase(snapshot, facts),
    )
    if facts.course is not None:
        status = _with_course(status, facts.course, now)
    is_news = status.available_replicas == status.replicas
    # Whose turn it is, and what the turn aims at, is known before anything is done about it.
    is_fact = _turn(old) != _turn(status) or _course(old) != _course(status)
    write = _write(PODCLIQUESETS, pcs.metadata, old, status, _urgency(is_fact=is_fact, is_news=is_news))
    if write is None or facts.course is None:
        return write
    told = announcements(pcs, context, facts.course)
    return msgspec.structs.replace(write, on_success=(*write.on_success, *told))


def _phase(snapshot: Snapshot, facts: SetFacts) -> str:
    known = snapshot.pcs.status.phase
    if snapshot.context.is_training and known is not None:
        # Where nobody judged its run, what was said of it stays said: a set that ended must not begin again.
        return known
    return SetPhase.RUNNING if facts.available_replicas else SetPhase.PENDING


def course_write(pcs: PodCliqueSet, status: PodCliqueSetStatus) -> tuple[StatusWrite, ...]:
    """The status of a set that is over, if it is not written yet."""
    write = _write(PODCLIQUESETS, pcs.metadata, pcs.status, status, Urgency.FACT)
    return (write,) if write else ()


def _with_course(status: PodCliqueSetStatus, course: Course, now: datetime) -> PodCliqueSetStatus:
    conditions = status.conditions
    if course.failed is not None:
        conditions = with_condition(conditions, ConditionType.FAILED, _yes(course.failed, course.message), now)
    return msgspec.structs.replace(
        status,
        conditions=conditions,
        phase=course.phase,
        start_time=course.start_time,
        restart_count=course.restart_count,
        replica_restarts=course.replica_restarts or status.replica_restarts,
    )


def _course(status: PodCliqueSetStatus) -> object:
    """What the course of a training set rests on."""
    is_failed = find_condition(status.conditions, ConditionType.FAILED) is not None
    is_finished = status.phase in (SetPhase.SUCCEEDED, SetPhase.FAILED)
    return status.start_time, status.restart_count, is_failed, is_finished and status.phase


def _turn(status: PodCliqueSetStatus) -> object:
    progress = status.rolling_update_progress
    if progress is None:
        return None
    return progress.update_started_at, progress.update_ended_at, progress.currently_updating


def _with_stall(
    conditions: tuple[Condition, ...], progress: SetRollingUpdateProgress | None, facts: RollFacts, now: datetime
) -> tuple[Condition, ...]:
    wait = facts.wait
    if progress is None or progress.update_ended_at is not None or wait is None or not wait.is_stalled(now):
        return without_condition(conditions, ConditionType.UPDATE_STALLED)
    turn = progress.currently_updating
    where = f"replica {turn.replica_index}: " if turn is not None else ""
    return with_condition(conditions, ConditionType.UPDATE_STALLED, _yes(wait.reason, f"{where}{wait.message}"), now)


def _with_held(conditions: tuple[Condition, ...], held_count: int, now: datetime) -> tuple[Condition, ...]:
    if not held_count:
        return without_condition(conditions, ConditionType.TEARDOWN_HELD)
    subject = "1 teardown is" if held_count == 1 else f"{held_count} teardowns are"
    message = f"{subject} due, and held until most nodes are ready again"
    return with_condition(conditions, ConditionType.TEARDOWN_HELD, _yes(Reason.MASS_OUTAGE, message), now)


def _with_unbuilt(context: SetContext, conditions: tuple[Condition, ...], now: datetime) -> tuple[Condition, ...]:
    if not context.unbuilt:
        return without_condition(conditions, ConditionType.FIELDS_NOT_CARRIED_OUT)
    message = "; ".join(f"{field.path}: {field.detail}" for field in context.unbuilt)
    verdict = _yes(Reason.NOT_CARRIED_OUT_YET, message)
    return with_condition(conditions, ConditionType.FIELDS_NOT_CARRIED_OUT, verdict, now)


def _with_failures(
    context: SetContext, conditions: tuple[Condition, ...], failures: tuple[Failure, ...], now: datetime
) -> tuple[Condition, ...]:
    if context.errors:
        verdict = _yes(Reason.INVALID_SPEC, "; ".join(str(error) for error in context.errors))
    elif failures:
        oldest = min(failures, key=lambda failure: (failure.first_at, failure.key))
        reason = Reason.NAME_TAKEN if oldest.code == Reason.NAME_TAKEN else Reason.CREATE_REFUSED
        more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
        verdict = _yes(reason, f"{oldest.key}: {oldest.message}{more}")
    else:
        return without_condition(conditions, ConditionType.CANNOT_BE_CARRIED_OUT)
    return with_condition(conditions, ConditionType.CANNOT_BE_CARRIED_OUT, verdict, now)


ERROR_CODES = {
    "pods": "ERR_CREATE_POD",
    "podcliques": "ERR_CREATE_OR_UPDATE_PODCLIQUE",
    "podcliquescalinggroups": "ERR_CREATE_PODCLIQUESCALINGGROUP",
    "podgangs": "ERR_CREATE_PODGANG",
    "services": "ERR_SYNC_PODCLIQUESET_SERVICE",
    "controllerrevisions": "ERR_CREATE_CONTROLLERREVISION",
}


def _last_errors(
    context: SetContext, failures: tuple[Failure, ...], old: tuple[LastError, ...], now: datetime
) -> tuple[LastError, ...]:
    known = {(error.code, error.description): error for error in old}
    found = [("ERR_INVALID_SPEC", str(error)) for error in context.errors]
    found += [(ERROR_CODES[failure.key.partition("/")[0]], f"{failure.key}: {failure.message}") for failure in failures]
    return tuple(
        known.get(error) or LastError(code=error[0], description=error[1], observed_at=ceil_second(now))
        for error in found[:LISTED_ERRORS]
    )


def with_condition(
    conditions: tuple[Condition, ...], type_: str, verdict: Verdict, now: datetime
) -> tuple[Condition, ...]:
    """Set one condition; its time moves only when its status does."""
    old = find_condition(conditions, type_)
    if old and (old.status, old.reason, old.message) == (verdict.status, verdict.reason, verdict.message):
        return conditions
    since = old.last_transition_time if old and old.status == verdict.status else ceil_second(now)
    new = Condition(
        type=type_, status=verdict.status, reason=verdict.reason, message=verdict.message, last_transition_time=since
    )
    if old is None:
        return (*conditions, new)
    return tuple(new if condition is old else condition for condition in conditions)


def without_condition(conditions: tuple[Condition, ...], type_: str) -> tuple[Condition, ...]:
    if find_condition(conditions, type_) is None:
        return conditions
    return tuple(condition for condition in conditions if condition.type != type_)


def _write(
    resource: Resource[Any],
    metadata: ObjectMeta,
    old: AnyStatus,
    new: AnyStatus,
    urgency: Urgency,
    *,
    delay: timedelta | None = None,
    is_training: bool = False,
) -> StatusWrite | None:
    if old == new:
        return None
    return StatusWrite(
        resource=resource,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        patch=_status_patch(old, new),
        urgency=urgency,
        part=_part_of(metadata),
        on_success=_announcements(subject_of(resource, metadata), old, new, delay, is_training=is_training),
    )


def _part_of(metadata: ObjectMeta) -> int:
    index = metadata.labels.get(labels.SET_REPLICA_INDEX, "")
    return int(index) if index.isdecimal() else -1


# Conditions that a user should hear of when they appear or change their words.
_ANNOUNCED = {
    ConditionType.PODS_REFUSED: EventReason.PODS_REFUSED,
    ConditionType.CANNOT_BE_CARRIED_OUT: EventReason.CANNOT_BE_CARRIED_OUT,
    ConditionType.FIELDS_NOT_CARRIED_OUT: EventReason.FIELDS_NOT_CARRIED_OUT,
    ConditionType.TEARDOWN_HELD: EventReason.TEARDOWN_HELD,
    ConditionType.UPDATE_STALLED: EventReason.UPDATE_STALLED,
}


def _announcements(
    subject: Subject, old: AnyStatus, new: AnyStatus, delay: timedelta | None, *, is_training: bool
) -> tuple[Emit, ...]:
    found = [
        Emit(subject=subject, reason=reason, message=condition.message, severity=Severity.WARNING)
        for type_, reason in _ANNOUNCED.items()
        if (condition := find_condition(new.conditions, type_)) is not None
        and condition != find_condition(old.conditions, type_)
    ]
    if _breach_moved(old.conditions, new.conditions):
        told = _breach_announcement(subject, new, delay, is_training=is_training)
        found += (told,) if told else ()
    if isinstance(old, PodCliqueSetStatus) and isinstance(new, PodCliqueSetStatus):
        found += _update_announcements(subject, old, new)
    if _scheduled(old) and not _scheduled(new):
        found.append(
            Emit(
                subject=subject,
                reason=EventReason.ALL_SCHEDULED_REPLICAS_LOST,
                message=f"{_scheduled(old)} were scheduled, none is any more",
                severity=Severity.WARNING,
            )
        )
    return tuple(found)


def _update_announcements(subject: Subject, old: PodCliqueSetStatus, new: PodCliqueSetStatus) -> Iterator[Emit]:
    before, after = old.rolling_update_progress, new.rolling_update_progress
    if after is None or after == before:
        return
    if before is None or before.update_started_at != after.update_started_at:
        message = f"the templates changed (revision {new.current_generation_hash})"
        yield Emit(subject=subject, reason=EventReason.UPDATE_STARTED, message=message)
    turn = after.currently_updating
    if turn is not None and (before is None or before.currently_updating != turn):
        yield Emit(
            subject=subject, reason=EventReason.UPDATE_TURN, message=f"replica {turn.replica_index} is updated next"
        )
    if after.update_ended_at is not None and (before is None or before.update_ended_at is None):
        message = f"everything runs revision {new.current_generation_hash}"
        if new.updated_replicas == new.replicas:
            yield Emit(subject=subject, reason=EventReason.UPDATE_COMPLETED, message=message)


def _breach_announcement(
    subject: Subject, new: AnyStatus, delay: timedelta | None, *, is_training: bool
) -> Emit | None:
    condition = find_condition(new.conditions, ConditionType.MIN_AVAILABLE_BREACHED)
    if condition is None or condition.status == ConditionStatus.UNKNOWN:
        # On its way out, or updated: whether it is good again, nobody can tell yet.
        return None
    if condition.status == ConditionStatus.FALSE:
        return Emit(subject=subject, reason=EventReason.MIN_AVAILABLE_RESTORED, message=condition.message)
    since = condition.last_transition_time
    if is_training:
        # Whether it is restarted or the set fails, its own events tell.
        ends = f"; it fails at {wire_time(since + delay)} unless it recovers" if since and delay else ""
        return Emit(
            subject=subject,
            reason=EventReason.POD_CLIQUE_FAILED,
            message=f"{condition.message}{ends}",
            severity=Severity.WARNING,
        )
    deadline = "" if delay is None or since is None else f"; its gang is torn down at {wire_time(since + delay)}"
    return Emit(
        subject=subject,
        reason=EventReason.MIN_AVAILABLE_BREACHED,
        message=f"{condition.message}{deadline}" + (" unless it recovers" if deadline else ""),
        severity=Severity.WARNING,
    )


def _scheduled(status: AnyStatus) -> int:
    return status.scheduled_replicas if isinstance(status, PodCliqueStatus | ScalingGroupStatus) else 0


@cache
def _fields_of(status: type[AnyStatus]) -> tuple[msgspec.structs.FieldInfo, ...]:
    return msgspec.structs.fields(status)


def _status_patch(old: AnyStatus, new: AnyStatus) -> JsonObject:
    """The top-level fields that differ; lists are replaced whole, as merge patches do. The first patch has them all."""
    is_first = old == type(old)()
    patch: JsonObject = {}
    for field in _fields_of(type(new)):
        before, after = getattr(old, field.name), getattr(new, field.name)
        if before != after or (is_first and after is not None):
            patch[field.encode_name] = _field_patch(without_nulls(msgspec.to_builtins(before)), after)
    return patch


def _field_patch(before: Any, new: Any) -> Any:
    after = without_nulls(msgspec.to_builtins(new))
    # What is not said any more of an object inside must be taken out by name.
    return merge_patch(before, after) if isinstance(before, dict) and isinstance(after, dict) else after

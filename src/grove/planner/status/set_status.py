"""The status of a set, from what its replicas add up to."""

from datetime import datetime

import msgspec

from grove.api import labels
from grove.api.reasons import ConditionType, EventReason, Reason
from grove.api.resources import PODCLIQUESETS
from grove.api.types.meta import (
    Condition,
    LastError,
    find_condition,
)
from grove.api.types.podcliqueset import (
    GangStatus,
    PodCliqueSet,
    PodCliqueSetStatus,
    SetPhase,
    SetRollingUpdateProgress,
)
from grove.api.values.message_text import cut
from grove.api.values.times import ceil_second, wire_time
from grove.planner.actions import CreateRejection, EventRecord, Severity, StatusPriority, StatusWrite
from grove.planner.rollout.replica_order import RollFacts, roll_set, set_update_progress
from grove.planner.rollout.stall import remedy
from grove.planner.snapshot import UNTIL_TOLD, SetContext, Snapshot
from grove.planner.status.availability import ConditionResult
from grove.planner.status.reconcile_failed import with_reconcile_failed
from grove.planner.status.status_patch import (
    urgency_of,
    with_condition,
    without_condition,
    without_former_types,
    write_status,
    yes,
)
from grove.planner.training.lifecycle import TrainingOutcome, announcements, phase_of

LISTED_GANGS = 100
LISTED_ERRORS = 20


class SetFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the replicas of a set add up to."""

    available_replicas: int
    updated_replicas: int
    waiting_gangs: tuple[GangStatus, ...]
    failures: tuple[CreateRejection, ...]
    # A pod that stays has phase Running; None: not looked at, so the phase stays.
    is_running: bool | None = None
    # Teardowns that are due and held.
    held_count: int = 0
    # Why its gangs are not placed all or nothing, and what else its scheduler does not do, in words.
    gangless: tuple[str, ...] = ()
    unmet: tuple[str, ...] = ()
    # How its update stands; None: nobody looked, so what was known last stays.
    roll: RollFacts | None = None
    # How the run of a training set stands.
    training_status: TrainingOutcome | None = None
    # The templates that it asks for now are stored: only then was its spec taken in.
    is_stored: bool = True
    # Some of its children count units as updated that are not: their statuses are written first.
    is_overstated: bool = False
    newest_hash: str = ""
    is_on_delete: bool = False
    # It is scaled beyond its object budget, in words; "": it is not.
    excess: str = ""


def set_status(snapshot: Snapshot, facts: SetFacts, now: datetime) -> StatusWrite | None:
    pcs, context = snapshot.pcs, snapshot.context
    old = pcs.status
    conditions = _with_topology(context, without_former_types(old.conditions), now)
    conditions = _with_unbuilt(context, conditions, now)
    conditions = with_reconcile_failed(snapshot, conditions, facts.failures, now, excess=facts.excess)
    conditions = _with_held(conditions, facts.held_count, snapshot.hold_until, now)
    scheduling = _scheduling(context, facts)
    for type_, verdict in scheduling.items():
        conditions = (
            with_condition(conditions, type_, verdict, now)
            if verdict is not None
            else without_condition(conditions, type_)
        )
    progress, counts = old.rolling_update_progress, old.update_progress
    if facts.roll is not None:
        progress = roll_set(pcs, facts.newest_hash, facts.roll, is_on_delete=facts.is_on_delete, now=now)
        counts = set_update_progress(progress, facts.roll)
        conditions = _with_stall(conditions, progress, facts.roll, now)
    # Who reads the set first and its children second never finds an old success under a new generation.
    is_taken_in = facts.is_stored and not facts.is_overstated
    status = msgspec.structs.replace(
        old,
        rolling_update_progress=progress,
        update_progress=counts,
        observed_generation=pcs.metadata.generation if is_taken_in else old.observed_generation,
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
    if facts.training_status is not None:
        status = _with_course(status, facts.training_status, now)
    is_seen_now = old.observed_generation not in (None, status.observed_generation)
    is_news = status.available_replicas == status.replicas or is_seen_now
    # Whose turn it is, and what the turn aims at, is known before anything is done about it.
    is_fact = _turn(old) != _turn(status) or _course(old) != _course(status)
    write = write_status(PODCLIQUESETS, pcs.metadata, old, status, urgency_of(is_fact=is_fact, is_news=is_news))
    if write is None:
        return None
    told = announcements(pcs, context, facts.training_status) if facts.training_status is not None else ()
    return msgspec.structs.replace(
        write, on_success=(*write.on_success, *_warnings(context, old.conditions, scheduling), *told)
    )


def _scheduling(context: SetContext, facts: SetFacts) -> dict[ConditionType, ConditionResult | None]:
    """What the scheduler does not do for the set: said in conditions, and once in an event each."""
    no_gangs = None
    if context.scheduler_hold:
        no_gangs = yes(Reason.MISSING_DEPENDENCY, context.scheduler_hold)
    elif facts.gangless:
        no_gangs = yes(Reason.NO_GANG_SCHEDULING, "; ".join(facts.gangless))
    return {
        ConditionType.GANG_SCHEDULING_UNAVAILABLE: no_gangs,
        ConditionType.SCHEDULER_LIMITED: yes(Reason.PARTIALLY_SUPPORTED, "; ".join(facts.unmet))
        if facts.unmet
        else None,
    }


_SCHEDULING_EVENTS: dict[str, EventReason] = {
    Reason.MISSING_DEPENDENCY: EventReason.MISSING_DEPENDENCY,
    Reason.NO_GANG_SCHEDULING: EventReason.NO_GANG_SCHEDULING,
    Reason.PARTIALLY_SUPPORTED: EventReason.PARTIALLY_SUPPORTED,
}


def _warnings(
    context: SetContext, before: tuple[Condition, ...], scheduling: dict[ConditionType, ConditionResult | None]
) -> tuple[EventRecord, ...]:
    """Warn of what is said for the first time, or in other words."""
    return tuple(
        EventRecord(
            subject=context.subject,
            reason=_SCHEDULING_EVENTS[verdict.reason],
            message=verdict.message,
            severity=Severity.WARNING,
        )
        for type_, verdict in scheduling.items()
        if verdict is not None
        and ((known := find_condition(before, type_)) is None or (known.reason, known.message) != _words(verdict))
    )


def _words(verdict: ConditionResult) -> tuple[str, str]:
    return verdict.reason, cut(verdict.message)


def _phase(snapshot: Snapshot, facts: SetFacts) -> str:
    known = snapshot.pcs.status.phase
    # Of a training set `_with_course` decides; where its run was not judged, a set that ended must not begin again.
    if known is not None and (snapshot.context.is_training or facts.is_running is None):
        return known
    return phase_of(is_running=bool(facts.is_running))


def course_write(pcs: PodCliqueSet, status: PodCliqueSetStatus) -> tuple[StatusWrite, ...]:
    """The status of a set that is over, if it is not written yet."""
    write = write_status(PODCLIQUESETS, pcs.metadata, pcs.status, status, StatusPriority.FACT)
    return (write,) if write else ()


def _with_course(status: PodCliqueSetStatus, training_status: TrainingOutcome, now: datetime) -> PodCliqueSetStatus:
    conditions = status.conditions
    if training_status.failed is not None:
        conditions = with_condition(
            conditions, ConditionType.FAILED, yes(training_status.failed, training_status.message), now
        )
    return msgspec.structs.replace(
        status,
        conditions=conditions,
        phase=training_status.phase,
        start_time=training_status.start_time,
        restart_count=training_status.restart_count,
        replica_restarts=training_status.replica_restarts or status.replica_restarts,
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
    message = f"{where}{wait.message}; {remedy(wait.reason)}"
    return with_condition(conditions, ConditionType.UPDATE_STALLED, yes(wait.reason, message), now)


def _with_held(
    conditions: tuple[Condition, ...], held_count: int, hold_until: datetime | None, now: datetime
) -> tuple[Condition, ...]:
    if not held_count:
        return without_condition(conditions, ConditionType.TEARDOWN_HELD)
    subject = "1 teardown is" if held_count == 1 else f"{held_count} teardowns are"
    latest = f", at most until {wire_time(hold_until)}" if hold_until is not None and hold_until < UNTIL_TOLD else ""
    message = f"{subject} due, and held until most nodes are ready again{latest}"
    return with_condition(conditions, ConditionType.TEARDOWN_HELD, yes(Reason.MASS_OUTAGE, message), now)


def _with_topology(context: SetContext, conditions: tuple[Condition, ...], now: datetime) -> tuple[Condition, ...]:
    type_, verdict = ConditionType.TOPOLOGY_LEVELS_UNAVAILABLE, context.topology.verdict
    if verdict is None:
        return without_condition(conditions, type_)
    return with_condition(conditions, type_, verdict, now, generation=context.generation)


def _with_unbuilt(context: SetContext, conditions: tuple[Condition, ...], now: datetime) -> tuple[Condition, ...]:
    if not context.unbuilt:
        return without_condition(conditions, ConditionType.UNSUPPORTED_FIELDS)
    message = "; ".join(f"{field.path}: {field.detail}" for field in context.unbuilt)
    verdict = yes(Reason.NOT_SUPPORTED_YET, message)
    return with_condition(conditions, ConditionType.UNSUPPORTED_FIELDS, verdict, now)


ERROR_CODES = {
    "pods": "ERR_CREATE_POD",
    "podcliques": "ERR_CREATE_OR_UPDATE_PODCLIQUE",
    "podcliquescalinggroups": "ERR_CREATE_PODCLIQUESCALINGGROUP",
    "podgangs": "ERR_CREATE_PODGANG",
    "services": "ERR_SYNC_PODCLIQUESET_SERVICE",
    "controllerrevisions": "ERR_CREATE_CONTROLLERREVISION",
}
# What a scheduler keeps of a gang, whatever its kind.
MIRROR_ERROR_CODE = "ERR_SYNC_PODGANG_WITH_SCHEDULER"


def _last_errors(
    context: SetContext, failures: tuple[CreateRejection, ...], old: tuple[LastError, ...], now: datetime
) -> tuple[LastError, ...]:
    known = {(error.code, error.description): error for error in old}
    found = [("ERR_INVALID_SPEC", cut(str(error))) for error in context.errors]
    found += [(_code_of(failure), cut(f"{failure.key}: {failure.message}")) for failure in failures]
    return tuple(
        known.get(error) or LastError(code=error[0], description=error[1], observed_at=ceil_second(now))
        for error in found[:LISTED_ERRORS]
    )


def _code_of(failure: CreateRejection) -> str:
    return ERROR_CODES.get(failure.key.partition("/")[0], MIRROR_ERROR_CODE)

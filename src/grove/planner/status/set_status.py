"""Status of a set, from the totals of its replicas."""

from datetime import datetime

import msgspec

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
from grove.api.values.message_text import truncate
from grove.api.values.times import ceil_second, wire_time
from grove.planner.actions import CreateRejection, EventRecord, Severity, StatusPriority, StatusWrite
from grove.planner.rollout.replica_order import RollFacts, read_current_replica, roll_set, set_update_progress
from grove.planner.rollout.stall import remedy
from grove.planner.snapshot import UNTIL_RELEASED, SetContext, Snapshot
from grove.planner.status.availability import ConditionResult
from grove.planner.status.reconcile_failed import with_reconcile_failed
from grove.planner.status.scale_selectors import set_selector
from grove.planner.status.set_conditions import (
    SetState,
    with_inference_conditions,
    with_invalid_conditions,
    with_training_conditions,
)
from grove.planner.status.status_patch import (
    condition_true,
    status_priority,
    with_condition,
    without_condition,
    without_former_types,
    write_status,
)
from grove.planner.training.lifecycle import TrainingOutcome, set_phase, training_events

LISTED_GANGS = 100
LISTED_ERRORS = 20


class SetFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The totals of the replicas of a set."""

    available_replicas: int
    updated_replicas: int
    waiting_gangs: tuple[GangStatus, ...]
    failures: tuple[CreateRejection, ...]
    # A pod that is not terminating has phase Running; None: not observed, so the phase stays.
    is_running: bool | None = None
    # Teardowns that are due and held.
    held_count: int = 0
    # Deletions of its update are due and held.
    is_update_held: bool = False
    # Why its gangs are not placed all or nothing, and what else its scheduler does not support.
    gangless: tuple[str, ...] = ()
    unmet: tuple[str, ...] = ()
    # The state of its update; None: not computed, so the stored progress stays.
    roll: RollFacts | None = None
    # The outcome of a training set so far.
    training_status: TrainingOutcome | None = None
    # Its current templates are stored. Only then observedGeneration is updated.
    is_stored: bool = True
    # A child status counts too many units as updated: it is written first.
    is_overstated: bool = False
    newest_hash: str = ""
    is_on_delete: bool = False
    # Why it exceeds its object budget; "": it does not.
    excess: str = ""


def set_status(snapshot: Snapshot, facts: SetFacts, now: datetime) -> StatusWrite | None:
    pcs, context = snapshot.pcs, snapshot.context
    old = pcs.status
    conditions = _with_topology(context, without_former_types(old.conditions), now)
    conditions = _with_unsupported_fields(context, conditions, now)
    conditions = with_reconcile_failed(snapshot, conditions, facts.failures, now, excess=facts.excess)
    conditions = _with_held(conditions, facts, snapshot.hold_until, now)
    scheduling = _scheduling_conditions(context, facts)
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
    # A client that reads the set and then its children must not find old counts under a new generation.
    is_observed = facts.is_stored and not facts.is_overstated
    status = msgspec.structs.replace(
        old,
        rolling_update_progress=progress,
        update_progress=counts,
        observed_generation=pcs.metadata.generation if is_observed else old.observed_generation,
        conditions=conditions,
        last_errors=_last_errors(context, facts.failures, old.last_errors, now),
        # With the other counts: until the templates are stored they are the last known ones.
        replicas=pcs.spec.replicas if facts.is_stored else old.replicas,
        updated_replicas=facts.updated_replicas,
        available_replicas=facts.available_replicas,
        hpa_pod_selector=set_selector(context),
        pod_gang_statuses=facts.waiting_gangs[:LISTED_GANGS],
        current_generation_hash=facts.newest_hash or old.current_generation_hash,
        phase=_phase(snapshot, facts),
    )
    if facts.training_status is not None:
        status = _with_training(status, facts.training_status, now)
    elif not context.is_training:
        status = msgspec.structs.replace(status, conditions=_with_state(snapshot, facts, status, now))
    is_seen_now = old.observed_generation not in (None, status.observed_generation)
    is_transition = status.available_replicas == status.replicas or is_seen_now
    # The replica that is updated, and its target, are stored before anything is done about it.
    is_durable = _update_state(old) != _update_state(status) or _training_state(old) != _training_state(status)
    write = write_status(
        PODCLIQUESETS, pcs.metadata, old, status, status_priority(is_durable=is_durable, is_transition=is_transition)
    )
    if write is None:
        return None
    reported = training_events(pcs, context, facts.training_status) if facts.training_status is not None else ()
    return msgspec.structs.replace(
        write, on_success=(*write.on_success, *_scheduling_events(context, old.conditions, scheduling), *reported)
    )


def _with_state(
    snapshot: Snapshot, facts: SetFacts, status: PodCliqueSetStatus, now: datetime
) -> tuple[Condition, ...]:
    """Return the conditions with `Available` and `Progressing`. They stay as they are while nothing was observed."""
    if snapshot.context.errors:
        return with_invalid_conditions(status.conditions, status.observed_generation, now)
    if facts.roll is None:
        return status.conditions
    progress = status.rolling_update_progress
    update = progress if progress is not None and progress.update_ended_at is None else None
    current = update.currently_updating if update is not None else None
    is_same = current is not None and current == read_current_replica(snapshot.pcs)
    stall = find_condition(status.conditions, ConditionType.UPDATE_STALLED)
    state = SetState(
        replicas=status.replicas,
        available_replicas=status.available_replicas,
        updated_replicas=status.updated_replicas,
        update=update,
        is_current_available=facts.roll.is_current_available
        if is_same
        else current is None or bool(current.was_available),
        has_surplus=bool(snapshot.replicas) and snapshot.replicas[-1].index >= status.replicas,
        waiting_gangs=status.pod_gang_statuses,
        stall=stall.message if stall is not None else "",
    )
    return with_inference_conditions(status.conditions, state, status.observed_generation, now)


def _scheduling_conditions(context: SetContext, facts: SetFacts) -> dict[ConditionType, ConditionResult | None]:
    """Return the conditions about what the cluster does not support for the set. Each has an event."""
    no_gangs = None
    if context.scheduler_hold:
        no_gangs = condition_true(Reason.MISSING_DEPENDENCY, context.scheduler_hold)
    elif facts.gangless:
        no_gangs = condition_true(Reason.NO_GANG_SCHEDULING, "; ".join(facts.gangless))
    return {
        ConditionType.GANG_SCHEDULING_UNAVAILABLE: no_gangs,
        ConditionType.SCHEDULER_LIMITED: condition_true(Reason.PARTIALLY_SUPPORTED, "; ".join(facts.unmet))
        if facts.unmet
        else None,
        ConditionType.STARTUP_ORDER_UNAVAILABLE: condition_true(Reason.MISSING_DEPENDENCY, context.startup_hold)
        if context.startup_hold
        else None,
    }


_SCHEDULING_EVENTS: dict[str, EventReason] = {
    Reason.MISSING_DEPENDENCY: EventReason.MISSING_DEPENDENCY,
    Reason.NO_GANG_SCHEDULING: EventReason.NO_GANG_SCHEDULING,
    Reason.PARTIALLY_SUPPORTED: EventReason.PARTIALLY_SUPPORTED,
}


def _scheduling_events(
    context: SetContext, before: tuple[Condition, ...], scheduling: dict[ConditionType, ConditionResult | None]
) -> tuple[EventRecord, ...]:
    """Return a warning event for each scheduling condition that is new, or has another reason or message."""
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
    return verdict.reason, truncate(verdict.message)


def _phase(snapshot: Snapshot, facts: SetFacts) -> str:
    known = snapshot.pcs.status.phase
    # `_with_training` sets the phase of a training set. Where it is not called, a finished set stays finished.
    if known is not None and (snapshot.context.is_training or facts.is_running is None):
        return known
    return set_phase(is_running=bool(facts.is_running))


def plan_final_status(pcs: PodCliqueSet, status: PodCliqueSetStatus) -> tuple[StatusWrite, ...]:
    """Return the write of the final status of a training set, if it is not written yet."""
    write = write_status(PODCLIQUESETS, pcs.metadata, pcs.status, status, StatusPriority.DURABLE)
    return (write,) if write else ()


def _with_training(status: PodCliqueSetStatus, training_status: TrainingOutcome, now: datetime) -> PodCliqueSetStatus:
    return msgspec.structs.replace(
        status,
        conditions=with_training_conditions(status, training_status, now),
        phase=training_status.phase,
        start_time=training_status.start_time,
        restart_count=training_status.restart_count,
        replica_restarts=training_status.replica_restarts or status.replica_restarts,
    )


def _training_state(status: PodCliqueSetStatus) -> object:
    """Return the fields of a training set that later decisions depend on."""
    is_failed = find_condition(status.conditions, ConditionType.FAILED) is not None
    is_finished = status.phase in (SetPhase.SUCCEEDED, SetPhase.FAILED)
    return status.start_time, status.restart_count, is_failed, is_finished and status.phase


def _update_state(status: PodCliqueSetStatus) -> object:
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
    current_replica = progress.currently_updating
    where = f"replica {current_replica.replica_index}: " if current_replica is not None else ""
    message = f"{where}{wait.message}; {remedy(wait.reason)}"
    return with_condition(conditions, ConditionType.UPDATE_STALLED, condition_true(wait.reason, message), now)


def _with_held(
    conditions: tuple[Condition, ...], facts: SetFacts, hold_until: datetime | None, now: datetime
) -> tuple[Condition, ...]:
    if not facts.held_count and not facts.is_update_held:
        return without_condition(conditions, ConditionType.TEARDOWN_HELD)
    teardowns = "1 teardown" if facts.held_count == 1 else f"{facts.held_count} teardowns" if facts.held_count else ""
    deletions = "the next deletions of the update" if facts.is_update_held else ""
    subject = " and ".join(filter(None, (teardowns, deletions)))
    verb = "is" if subject == "1 teardown" else "are"
    latest = (
        f", at most until {wire_time(hold_until)}" if hold_until is not None and hold_until < UNTIL_RELEASED else ""
    )
    message = f"{subject} {verb} due but held until most nodes are ready again{latest}"
    return with_condition(conditions, ConditionType.TEARDOWN_HELD, condition_true(Reason.MASS_OUTAGE, message), now)


def _with_topology(context: SetContext, conditions: tuple[Condition, ...], now: datetime) -> tuple[Condition, ...]:
    type_, verdict = ConditionType.TOPOLOGY_LEVELS_UNAVAILABLE, context.topology.verdict
    if verdict is None:
        return without_condition(conditions, type_)
    return with_condition(conditions, type_, verdict, now, generation=context.generation)


def _with_unsupported_fields(
    context: SetContext, conditions: tuple[Condition, ...], now: datetime
) -> tuple[Condition, ...]:
    if not context.unsupported_fields:
        return without_condition(conditions, ConditionType.UNSUPPORTED_FIELDS)
    message = "; ".join(f"{field.path}: {field.detail}" for field in context.unsupported_fields)
    verdict = condition_true(Reason.NOT_SUPPORTED_YET, message)
    return with_condition(conditions, ConditionType.UNSUPPORTED_FIELDS, verdict, now)


ERROR_CODES = {
    "pods": "ERR_CREATE_POD",
    "podcliques": "ERR_CREATE_OR_UPDATE_PODCLIQUE",
    "podcliquescalinggroups": "ERR_CREATE_PODCLIQUESCALINGGROUP",
    "podgangs": "ERR_CREATE_PODGANG",
    "services": "ERR_SYNC_PODCLIQUESET_SERVICE",
    "horizontalpodautoscalers": "ERR_SYNC_HPA",
    "controllerrevisions": "ERR_CREATE_CONTROLLERREVISION",
}
# The error code of all kinds of scheduler objects.
SCHEDULER_ERROR_CODE = "ERR_SYNC_PODGANG_WITH_SCHEDULER"


def _last_errors(
    context: SetContext, failures: tuple[CreateRejection, ...], old: tuple[LastError, ...], now: datetime
) -> tuple[LastError, ...]:
    known = {(error.code, error.description): error for error in old}
    found = [("ERR_INVALID_SPEC", truncate(str(error))) for error in context.errors]
    found += [(_code_of(failure), truncate(f"{failure.key}: {failure.message}")) for failure in failures]
    return tuple(
        known.get(error) or LastError(code=error[0], description=error[1], observed_at=ceil_second(now))
        for error in found[:LISTED_ERRORS]
    )


def _code_of(failure: CreateRejection) -> str:
    return ERROR_CODES.get(failure.key.partition("/")[0], SCHEDULER_ERROR_CODE)

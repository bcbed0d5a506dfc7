"""Conditions that report the state of a set to kubectl, Argo CD and scripts.

`Available` and `Progressing` of an inference set, `Complete` and `Failed` of a training set. Each carries the
generation of the status that it was computed with.
"""

from datetime import datetime

import msgspec

from grove.api.reasons import ConditionType, Reason
from grove.api.types.meta import Condition, ConditionStatus, find_condition
from grove.api.types.podcliqueset import (
    CurrentlyUpdating,
    GangStatus,
    PodCliqueSetStatus,
    SetPhase,
    SetRollingUpdateProgress,
)
from grove.planner.status.availability import ConditionResult
from grove.planner.status.status_patch import condition_false, condition_true, with_condition
from grove.planner.training.lifecycle import TrainingOutcome

LISTED_NAMES = 3


class SetState(msgspec.Struct, frozen=True, kw_only=True):
    """The facts that the conditions of an inference set depend on."""

    replicas: int
    available_replicas: int
    updated_replicas: int
    # The update that is open; None: none is.
    update: SetRollingUpdateProgress | None = None
    # The replica that is updated now is available.
    is_current_available: bool = True
    # Replicas with an index of `replicas` or more still have objects.
    has_surplus: bool = False
    waiting_gangs: tuple[GangStatus, ...] = ()
    # The message of `UpdateStalled`; "": no update is stalled.
    stall: str = ""


def with_inference_conditions(
    conditions: tuple[Condition, ...], state: SetState, generation: int | None, now: datetime
) -> tuple[Condition, ...]:
    conditions = with_condition(
        conditions, ConditionType.AVAILABLE, decide_available(state), now, generation=generation
    )
    return with_condition(conditions, ConditionType.PROGRESSING, decide_progressing(state), now, generation=generation)


def with_invalid_conditions(
    conditions: tuple[Condition, ...], generation: int | None, now: datetime
) -> tuple[Condition, ...]:
    """Return the conditions of an inference set whose spec is invalid. Its pods may run; they are not observed."""
    reason = Reason.INVALID_SPEC
    unknown = ConditionResult(
        status=ConditionStatus.UNKNOWN, reason=reason, message="the set is invalid, so its replicas are not observed"
    )
    stopped = condition_false(reason, "the set is invalid; the operator changes nothing until it is corrected")
    conditions = with_condition(conditions, ConditionType.AVAILABLE, unknown, now, generation=generation)
    return with_condition(conditions, ConditionType.PROGRESSING, stopped, now, generation=generation)


def decide_available(state: SetState) -> ConditionResult:
    if not state.replicas:
        return condition_true(Reason.SCALED_TO_ZERO, "the set has 0 replicas")
    found = _describe_available(state)
    if state.available_replicas >= state.replicas:
        return condition_true(Reason.ALL_REPLICAS_AVAILABLE, found)
    current = _current_replica(state)
    # Only the replica that the update took may be missing, and another one must serve.
    is_only_missing = state.available_replicas == state.replicas - 1 and not state.is_current_available
    if current is not None and is_only_missing and state.available_replicas:
        return condition_true(Reason.UPDATING, f"{found}; replica {current.replica_index} is being updated")
    return condition_false(Reason.REPLICAS_UNAVAILABLE, found)


def decide_progressing(state: SetState) -> ConditionResult:
    if state.stall:
        return condition_false(Reason.UPDATE_STALLED, state.stall)
    if state.update is not None:
        current = _current_replica(state)
        where = f"replica {current.replica_index} is being updated; " if current is not None else ""
        updated = f"{state.updated_replicas} of {_replicas(state.replicas)} run the newest templates"
        return condition_true(Reason.UPDATING, f"{where}{updated}")
    if state.available_replicas < state.replicas:
        return condition_true(Reason.STARTING, _describe_available(state))
    if state.has_surplus:
        return condition_true(Reason.SCALING, f"replicas from index {state.replicas} on are being removed")
    if state.waiting_gangs:
        return condition_true(Reason.SCALING, f"PodGangs that do not run: {_list_names(state.waiting_gangs)}")
    return condition_true(Reason.COMPLETE, _describe_available(state))


def with_training_conditions(
    status: PodCliqueSetStatus, outcome: TrainingOutcome, now: datetime
) -> tuple[Condition, ...]:
    """Return the conditions of a training set: `Failed` or `Complete` once it has ended, none before."""
    generation = status.observed_generation
    if outcome.failed is not None:
        verdict = condition_true(outcome.failed, outcome.message)
        return with_condition(status.conditions, ConditionType.FAILED, verdict, now, generation=generation)
    if outcome.phase == SetPhase.SUCCEEDED:
        verdict = condition_true(Reason.ALL_REPLICAS_SUCCEEDED, "every replica succeeded")
        return with_condition(status.conditions, ConditionType.COMPLETE, verdict, now, generation=generation)
    failed = find_condition(status.conditions, ConditionType.FAILED)
    if failed is None or outcome.phase != SetPhase.FAILED:
        return status.conditions
    renewed = msgspec.structs.replace(failed, observed_generation=generation)
    return tuple(renewed if condition is failed else condition for condition in status.conditions)


def _current_replica(state: SetState) -> CurrentlyUpdating | None:
    return state.update.currently_updating if state.update is not None else None


def _describe_available(state: SetState) -> str:
    verb = "is" if state.replicas == 1 else "are"
    return f"{state.available_replicas} of {_replicas(state.replicas)} {verb} available"


def _replicas(count: int) -> str:
    return "1 replica" if count == 1 else f"{count} replicas"


def _list_names(gangs: tuple[GangStatus, ...]) -> str:
    names = ", ".join(gang.name for gang in gangs[:LISTED_NAMES])
    return names if len(gangs) <= LISTED_NAMES else f"{names} and others"

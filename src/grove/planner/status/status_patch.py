"""Status patches: conditions with correct transition times, the smallest patch, and its priority."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import cache
from typing import Any

import msgspec

from grove.api import labels
from grove.api.merge_patch import merge_patch
from grove.api.reasons import ConditionType, EventReason, Reason
from grove.api.resources import Resource
from grove.api.types.clustertopologybinding import TopologyBindingStatus
from grove.api.types.meta import (
    Condition,
    ConditionStatus,
    JsonObject,
    ObjectMeta,
    find_condition,
    is_condition_true,
)
from grove.api.types.podclique import PodCliqueStatus
from grove.api.types.podcliquescalinggroup import ScalingGroupStatus
from grove.api.types.podcliqueset import (
    PodCliqueSetStatus,
)
from grove.api.types.podgang import PodGangStatus
from grove.api.values.message_text import truncate
from grove.api.values.numbers_in_text import parse_number
from grove.api.values.times import ceil_second, wire_time
from grove.planner.actions import (
    WHOLE_SET,
    EventRecord,
    EventSubject,
    Severity,
    StatusPriority,
    StatusWrite,
    subject_of,
)
from grove.planner.status.availability import (
    ConditionResult,
)

# Condition types of earlier versions: ReconcileFailed, UnsupportedFields, PodsRejected.
FORMER_TYPES = ("CannotBeCarriedOut", "FieldsNotCarriedOut", "PodsRefused")

AnyStatus = PodCliqueSetStatus | PodCliqueStatus | ScalingGroupStatus | PodGangStatus | TopologyBindingStatus


def status_priority(*, is_durable: bool = False, is_transition: bool) -> StatusPriority:
    if is_durable:
        return StatusPriority.DURABLE
    return StatusPriority.TRANSITION if is_transition else StatusPriority.COUNTS


def breach_moved(old: tuple[Condition, ...], new: tuple[Condition, ...]) -> bool:
    type_ = ConditionType.MIN_AVAILABLE_BREACHED
    return is_condition_true(old, type_) != is_condition_true(new, type_)


def condition_true(reason: Reason, message: str) -> ConditionResult:
    return ConditionResult(status=ConditionStatus.TRUE, reason=reason, message=message)


def condition_false(reason: Reason, message: str) -> ConditionResult:
    return ConditionResult(status=ConditionStatus.FALSE, reason=reason, message=message)


def with_condition(
    conditions: tuple[Condition, ...],
    type_: str,
    verdict: ConditionResult,
    now: datetime,
    *,
    generation: int | None = None,
) -> tuple[Condition, ...]:
    """Set one condition. Its time changes only with its status. `generation`: of the spec that it is about."""
    old = find_condition(conditions, type_)
    message = truncate(verdict.message)
    content = (verdict.status, verdict.reason, message, generation)
    if old and (old.status, old.reason, old.message, old.observed_generation) == content:
        return conditions
    since = old.last_transition_time if old and old.status == verdict.status else ceil_second(now)
    new = Condition(
        type=type_,
        status=verdict.status,
        reason=verdict.reason,
        message=message,
        last_transition_time=since,
        observed_generation=generation,
    )
    if old is None:
        return (*conditions, new)
    return tuple(new if condition is old else condition for condition in conditions)


def without_condition(conditions: tuple[Condition, ...], type_: str) -> tuple[Condition, ...]:
    if find_condition(conditions, type_) is None:
        return conditions
    return tuple(condition for condition in conditions if condition.type != type_)


def without_former_types(conditions: tuple[Condition, ...]) -> tuple[Condition, ...]:
    """Return the conditions without those that an earlier version wrote under another name."""
    for type_ in FORMER_TYPES:
        conditions = without_condition(conditions, type_)
    return conditions


def write_status(
    resource: Resource[Any],
    metadata: ObjectMeta,
    old: AnyStatus,
    new: AnyStatus,
    priority: StatusPriority,
    *,
    delay: timedelta | None = None,
    is_training: bool = False,
) -> StatusWrite | None:
    patch = {} if old == new else _status_patch(old, new)
    if not patch:
        return None
    return StatusWrite(
        resource=resource,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        patch=patch,
        priority=priority,
        replica_index=_replica_index_of(metadata),
        on_success=_condition_events(subject_of(resource, metadata), old, new, delay, is_training=is_training),
    )


def _replica_index_of(metadata: ObjectMeta) -> int:
    return parse_number(metadata.labels.get(labels.SET_REPLICA_INDEX, ""), WHOLE_SET)


# Conditions that get an event when they appear or their message changes.
_CONDITION_EVENTS = {
    ConditionType.PODS_REJECTED: EventReason.PODS_REJECTED,
    ConditionType.RECONCILE_FAILED: EventReason.RECONCILE_FAILED,
    ConditionType.UNSUPPORTED_FIELDS: EventReason.UNSUPPORTED_FIELDS,
    ConditionType.TEARDOWN_HELD: EventReason.TEARDOWN_HELD,
    ConditionType.UPDATE_STALLED: EventReason.UPDATE_STALLED,
}


def _condition_events(
    subject: EventSubject, old: AnyStatus, new: AnyStatus, delay: timedelta | None, *, is_training: bool
) -> tuple[EventRecord, ...]:
    found = [
        EventRecord(subject=subject, reason=reason, message=condition.message, severity=Severity.WARNING)
        for type_, reason in _CONDITION_EVENTS.items()
        if (condition := find_condition(new.conditions, type_)) is not None
        and condition != find_condition(old.conditions, type_)
    ]
    if breach_moved(old.conditions, new.conditions):
        reported = _breach_event(subject, new, delay, is_training=is_training)
        found += (reported,) if reported else ()
    if isinstance(old, PodCliqueSetStatus) and isinstance(new, PodCliqueSetStatus):
        found += _update_events(subject, old, new)
    if _scheduled_count(old) and not _scheduled_count(new) and not _is_at_zero(new):
        found.append(
            EventRecord(
                subject=subject,
                reason=EventReason.ALL_SCHEDULED_REPLICAS_LOST,
                message=f"{_scheduled_count(old)} were scheduled before, none is now",
                severity=Severity.WARNING,
            )
        )
    return tuple(found)


def _update_events(subject: EventSubject, old: PodCliqueSetStatus, new: PodCliqueSetStatus) -> Iterator[EventRecord]:
    before, after = old.rolling_update_progress, new.rolling_update_progress
    if after is None or after == before:
        return
    if before is None or before.update_started_at != after.update_started_at:
        message = f"the templates changed (revision {new.current_generation_hash})"
        yield EventRecord(subject=subject, reason=EventReason.UPDATE_STARTED, message=message)
    current_replica = after.currently_updating
    if current_replica is not None and (before is None or before.currently_updating != current_replica):
        yield EventRecord(
            subject=subject,
            reason=EventReason.UPDATE_TURN,
            message=f"replica {current_replica.replica_index} is updated next",
        )
    if after.update_ended_at is not None and (before is None or before.update_ended_at is None):
        message = f"everything runs revision {new.current_generation_hash}"
        if new.updated_replicas == new.replicas:
            yield EventRecord(subject=subject, reason=EventReason.UPDATE_COMPLETED, message=message)


def _breach_event(
    subject: EventSubject, new: AnyStatus, delay: timedelta | None, *, is_training: bool
) -> EventRecord | None:
    condition = find_condition(new.conditions, ConditionType.MIN_AVAILABLE_BREACHED)
    if condition is None or condition.status == ConditionStatus.UNKNOWN:
        # It is terminating or being updated: whether it recovered is not known yet.
        return None
    if condition.status == ConditionStatus.FALSE:
        return EventRecord(subject=subject, reason=EventReason.MIN_AVAILABLE_RESTORED, message=condition.message)
    since = condition.last_transition_time
    if is_training:
        # The restart or the failure of the set has its own event.
        ends = f"; it fails at {wire_time(since + delay)} unless it recovers" if since and delay else ""
        return EventRecord(
            subject=subject,
            reason=EventReason.POD_CLIQUE_FAILED,
            message=f"{condition.message}{ends}",
            severity=Severity.WARNING,
        )
    deadline = "" if delay is None or since is None else f"; its gang is torn down at {wire_time(since + delay)}"
    return EventRecord(
        subject=subject,
        reason=EventReason.MIN_AVAILABLE_BREACHED,
        message=f"{condition.message}{deadline}" + (" unless it recovers" if deadline else ""),
        severity=Severity.WARNING,
    )


def _is_at_zero(status: AnyStatus) -> bool:
    reported = find_condition(status.conditions, ConditionType.MIN_AVAILABLE_BREACHED)
    return reported is not None and reported.reason == Reason.SCALED_TO_ZERO


def _scheduled_count(status: AnyStatus) -> int:
    return status.scheduled_replicas if isinstance(status, PodCliqueStatus | ScalingGroupStatus) else 0


@cache
def _fields_of(status: type[AnyStatus]) -> tuple[msgspec.structs.FieldInfo, ...]:
    return msgspec.structs.fields(status)


def _status_patch(old: AnyStatus, new: AnyStatus) -> JsonObject:
    """Return the top-level fields that differ; lists are replaced whole, as in merge patches. The first has all fields.

    Empty lists and objects are omitted: clients in Go check whether a field is nil.
    """
    is_first = old == type(old)()
    patch: JsonObject = {}
    for field in _fields_of(type(new)):
        was, now = getattr(old, field.name), getattr(new, field.name)
        if was == now and not is_first:
            continue
        before, after = _without_empty(msgspec.to_builtins(was)), _without_empty(msgspec.to_builtins(now))
        if before != after or (is_first and after is not None):
            # A merge patch removes a field only by name, also inside nested objects.
            is_nested = isinstance(before, dict) and isinstance(after, dict)
            patch[field.encode_name] = merge_patch(before, after) if is_nested else after
    return patch


def _without_empty(value: Any) -> Any:
    """Return the JSON without null fields and without empty lists and objects; None if nothing is left."""
    if isinstance(value, dict):
        kept = {key: inner for key, one in value.items() if (inner := _without_empty(one)) is not None}
        return kept or None
    if isinstance(value, list | tuple):
        return [_without_empty(one) for one in value] or None
    return value

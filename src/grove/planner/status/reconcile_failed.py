"""The condition `ReconcileFailed` of a set: it is invalid, a create is rejected, or a write has failed for a minute."""

from collections.abc import Iterator
from datetime import datetime

import msgspec

from grove.api.reasons import ConditionType, Reason
from grove.api.resources import PODCLIQUESETS
from grove.api.types.meta import Condition, ConditionStatus, find_condition
from grove.api.values.times import ceil_second
from grove.planner.actions import CreateRejection, Plan, PlanStruct, StatusPriority, earliest
from grove.planner.snapshot import Snapshot
from grove.planner.status.availability import ConditionResult
from grove.planner.status.status_patch import condition_true, with_condition, without_condition, write_status
from grove.planner.status.write_failures import advise, describe, heading, lasting_at, reason_of


class _Failure(PlanStruct):
    """One write that keeps failing."""

    since: datetime
    key: str
    reason: Reason
    target: str
    verb: str
    code: int
    message: str


def with_reconcile_failed(
    snapshot: Snapshot,
    conditions: tuple[Condition, ...],
    failures: tuple[CreateRejection, ...],
    now: datetime,
    *,
    excess: str = "",
) -> tuple[Condition, ...]:
    """Return the conditions with what fails now, or without the condition if nothing does.

    `lastTransitionTime` is that of the first failure. The condition stays as it is while it is not known whether its
    cause is over: after a restart, until everything was retried. `excess`: the set exceeds its object budget.
    """
    if snapshot.context.errors:
        return with_condition(conditions, ConditionType.RECONCILE_FAILED, _describe_invalid(snapshot), now)
    if excess:
        verdict = condition_true(Reason.OBJECT_BUDGET_EXCEEDED, excess)
        return with_condition(conditions, ConditionType.RECONCILE_FAILED, verdict, now)
    return _with_failures(snapshot, conditions, failures, now)


def _with_failures(
    snapshot: Snapshot, conditions: tuple[Condition, ...], failures: tuple[CreateRejection, ...], now: datetime
) -> tuple[Condition, ...]:
    type_ = ConditionType.RECONCILE_FAILED
    reported = find_condition(conditions, type_)
    found_failures = sorted(
        (*map(_read_rejection, failures), *_find_lasting(snapshot, now)), key=lambda one: (one.since, one.key)
    )
    if not found_failures:
        return conditions if reported and _may_stay(snapshot, reported) else without_condition(conditions, type_)
    first = found_failures[0]
    since = _since(first, reported)
    # The message about a taken name contains its own advice.
    advice = "" if first.reason is Reason.NAME_TAKEN else advise(first.code, first.message)
    more_count = len(found_failures) - 1
    message = describe(
        first.target, first.verb, first.code, first.message, since, advice=advice, more_count=more_count
    )  # fmt: skip
    return with_condition(conditions, type_, condition_true(first.reason, message), since)


def report_failed_writes(plan: Plan, snapshot: Snapshot, now: datetime) -> Plan:
    """Add the failing writes to a plan that does not write the status of the set, such as that of its deletion."""
    pcs = snapshot.pcs
    if any(status.uid == pcs.metadata.uid for status in plan.statuses):
        return plan
    conditions = _with_failures(snapshot, pcs.status.conditions, snapshot.failures, now)
    status = msgspec.structs.replace(pcs.status, conditions=conditions)
    write = write_status(PODCLIQUESETS, pcs.metadata, pcs.status, status, StatusPriority.TRANSITION)
    return msgspec.structs.replace(plan, statuses=(*plan.statuses, write)) if write else plan


def requeue_for_failed_writes(plan: Plan, snapshot: Snapshot, now: datetime) -> Plan:
    """Return the plan with a reconcile at the time when the next failed write must be reported."""
    if not snapshot.failed_writes:
        return plan
    requeue_at = earliest(plan.requeue_at, lasting_at(snapshot.failed_writes, now))
    return msgspec.structs.replace(plan, requeue_at=requeue_at)


def _describe_invalid(snapshot: Snapshot) -> ConditionResult:
    reason = Reason.OBJECT_BUDGET_EXCEEDED if snapshot.context.is_over_budget else Reason.INVALID_SPEC
    return condition_true(reason, "; ".join(str(error) for error in snapshot.context.errors))


def _may_stay(snapshot: Snapshot, reported: Condition) -> bool:
    if reported.reason in (Reason.INVALID_SPEC, Reason.OBJECT_BUDGET_EXCEEDED):
        return bool(snapshot.context.errors)
    return bool(snapshot.failed_writes) or not snapshot.is_tried


def _read_rejection(failure: CreateRejection) -> _Failure:
    return _Failure(
        since=failure.first_at,
        key=failure.key,
        reason=Reason.NAME_TAKEN if failure.code == Reason.NAME_TAKEN else Reason.CREATE_REJECTED,
        target=failure.target or failure.key,
        verb="create",
        code=failure.status_code,
        message=failure.message,
    )


def _find_lasting(snapshot: Snapshot, now: datetime) -> Iterator[_Failure]:
    for failed in snapshot.failed_writes:
        if failed.is_lasting(now):
            write = failed.write
            yield _Failure(
                since=failed.first_at,
                key=f"{write.resource}/{write.name}",
                reason=reason_of(failed.code, failed.message),
                target=write.target,
                verb=write.verb,
                code=failed.code,
                message=failed.message,
            )


def _since(failure: _Failure, reported: Condition | None) -> datetime:
    """Return when it began; an operator that was restarted knows the time that it reported before."""
    since = ceil_second(failure.since)
    if reported is None or reported.status != ConditionStatus.TRUE or reported.last_transition_time is None:
        return since
    is_same = reported.message.startswith(heading(failure.target, failure.verb))
    return min(since, reported.last_transition_time) if is_same else since

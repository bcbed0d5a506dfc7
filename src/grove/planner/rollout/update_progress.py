"""`updateProgress` of cliques and groups, which existing tools read: the same facts as `rollingUpdateProgress`.

It also holds the target revision of the stored progress.
"""

from datetime import datetime, timedelta
from enum import Enum, auto
from typing import TypeVar

import msgspec

from grove.api.types.podclique import CliqueRollingUpdateProgress, CliqueUpdateProgress
from grove.api.types.podcliquescalinggroup import GroupRollingUpdateProgress, GroupUpdateProgress
from grove.api.values.times import ceil_second
from grove.planner.snapshot import SetContext

P = TypeVar("P", CliqueRollingUpdateProgress, GroupRollingUpdateProgress)


class UpdateStep(Enum):
    """The next step of the update of a clique or group."""

    # Nothing to do, or not updated now: the stored progress stays.
    IDLE = auto()
    # OnDelete: report the change as an update that already ended.
    REPORT = auto()
    # OnDelete was set during an update: end it.
    STOP = auto()
    START = auto()
    # The target changed.
    RETARGET = auto()
    STEP = auto()


class UpdateInput(msgspec.Struct, frozen=True, kw_only=True):
    """The facts that decide about the update of a clique or group, besides its own state."""

    # The stored progress has the newest target.
    has_same_target: bool
    # Its replica is updated now.
    may_start: bool
    # The update strategy is OnDelete.
    must_stop: bool
    now: datetime


def choose_update_step(
    stored: CliqueRollingUpdateProgress | GroupRollingUpdateProgress | None, inputs: UpdateInput, *, is_outdated: bool
) -> UpdateStep:
    if stored is None or stored.update_ended_at is not None:
        if not is_outdated or not (inputs.must_stop or inputs.may_start):
            return UpdateStep.IDLE
        if inputs.must_stop:
            return UpdateStep.IDLE if inputs.has_same_target else UpdateStep.REPORT
        return UpdateStep.START
    if inputs.must_stop:
        return UpdateStep.STOP
    return UpdateStep.STEP if inputs.has_same_target else UpdateStep.RETARGET


def start_progress(kind: type[P], stored: P | None, step: UpdateStep, now: datetime) -> P | None:
    """Return the progress after a step that starts or reports an update, else the stored one."""
    if step is UpdateStep.START:
        return kind(update_started_at=ceil_second(now))
    if step is UpdateStep.REPORT:
        instant = end_at_once(stored.update_ended_at if stored else None, now)
        return kind(update_started_at=instant, update_ended_at=instant)
    return stored


def end_at_once(before: datetime | None, now: datetime) -> datetime:
    """Return the end of an update that is only reported: later than the end of the one `before`."""
    instant = ceil_second(now)
    return instant if before is None else max(instant, before + timedelta(seconds=1))


def clique_update_progress(
    old: CliqueUpdateProgress | None,
    progress: CliqueRollingUpdateProgress | None,
    context: SetContext,
    target: str,
) -> CliqueUpdateProgress | None:
    if progress is None:
        return None
    # An update that ended keeps its target.
    is_over = old is not None and old.update_ended_at is not None and old.update_ended_at == progress.update_ended_at
    return CliqueUpdateProgress(
        pod_clique_set_generation_hash=old.pod_clique_set_generation_hash
        if old is not None and is_over
        else context.generation_hash,
        pod_template_hash=old.pod_template_hash if old is not None and is_over else target,
        update_started_at=progress.update_started_at,
        update_ended_at=progress.update_ended_at,
        ready_pods_selected_to_update=progress.ready_pods_selected_to_update,
    )


def group_update_progress(
    old: GroupUpdateProgress | None,
    progress: GroupRollingUpdateProgress | None,
    context: SetContext,
    *,
    updated_count: int,
    total_count: int,
) -> GroupUpdateProgress | None:
    if progress is None or progress.update_started_at is None:
        return None
    is_over = old is not None and old.update_ended_at is not None and old.update_ended_at == progress.update_ended_at
    return GroupUpdateProgress(
        update_started_at=progress.update_started_at,
        update_ended_at=progress.update_ended_at,
        pod_clique_set_generation_hash=old.pod_clique_set_generation_hash
        if old is not None and is_over
        else context.generation_hash,
        updated_pod_cliques_count=updated_count,
        total_pod_cliques_count=total_count,
        ready_replica_indices_selected_to_update=progress.ready_replica_indices_selected_to_update,
    )

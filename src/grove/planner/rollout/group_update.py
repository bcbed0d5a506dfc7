"""Update of one group: select the replica to recreate next, as a whole.

spec/rolling-update.md, "PodCliqueScalingGroup (PCSG) Replica Selection": replicas of an older template that are pending
or unavailable are recreated at once; then one ready replica at a time, the oldest first, only while the minimum is
available. `planner/teardown/recreation.py` recreates them.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from grove.api.reasons import Reason
from grove.api.schema.limits import LISTED_AS_UPDATED
from grove.api.types.pod import Pod
from grove.api.types.podcliquescalinggroup import (
    GroupRollingUpdateProgress,
    PodCliqueScalingGroup,
    ReplicasSelectedToUpdate,
)
from grove.api.values.times import ceil_second
from grove.planner.actions import earliest
from grove.planner.rollout.clique_update import gone_at, has_old_pods, lingering_pods
from grove.planner.rollout.stall import StallReason, wait_for_new_pods
from grove.planner.rollout.update_progress import (
    UpdateInput,
    UpdateStep,
    choose_update_step,
    start_progress,
)
from grove.planner.status.availability import is_available, is_scheduled
from grove.planner.views import CliqueView

_EPOCH = datetime.fromtimestamp(0, UTC)


class UnitView(msgspec.Struct, frozen=True, kw_only=True):
    """One replica of a group in an update; cliques with their desired template hashes."""

    index: int
    # None for a clique that does not exist in the incarnation that it should have.
    cliques: tuple[tuple[CliqueView | None, str], ...]
    # Cliques of the old incarnation that are being deleted.
    leftovers: tuple[tuple[CliqueView, str], ...] = ()
    # Its recreation is recorded and not finished.
    is_recreating: bool = False
    # It is a scaled gang whose base gang is not scheduled since then: deleted now, it would not be placed again.
    base_unscheduled_since: datetime | None = None
    # It runs the target of the stored progress; and that target is still the desired one.
    was_updated: bool = False
    has_same_target: bool = False

    @property
    def present(self) -> tuple[tuple[CliqueView, str], ...]:
        return tuple((view, target) for view, target in self.cliques if view is not None)

    @property
    def is_outdated(self) -> bool:
        return any(is_old(view, target) for view, target in self.present)

    @property
    def has_old_leftovers(self) -> bool:
        return any(is_old(view, target) for view, target in self.leftovers)

    @property
    def is_ready(self) -> bool:
        return all(view is not None and is_available(view) and is_scheduled(view) for view, _ in self.cliques)

    @property
    def is_serving(self) -> bool:
        return self.is_ready and not self.is_recreating

    @property
    def born_at(self) -> datetime:
        """Return the creation time of the oldest pod. A clique may be older than its pods."""
        pods = (pod.metadata.creation_timestamp for view, _ in self.present for pod in view.active)
        return earliest(*pods) or _EPOCH


def is_old(view: CliqueView, target: str | None) -> bool:
    return view.template_hash != target or has_old_pods(view, target)


class GroupRoll(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the update of a group, and its next step."""

    progress: GroupRollingUpdateProgress | None = None
    # Replicas to recreate now: those that are not ready, and the ready one whose choice is stored.
    recreate: tuple[int, ...] = ()
    needs_live_read: bool = False
    is_done: bool = True
    wait: StallReason | None = None
    requeue_at: datetime | None = None


def roll_group(group: PodCliqueScalingGroup, units: Sequence[UnitView], inputs: UpdateInput) -> GroupRoll:
    """Return the next step."""
    stored, now = group.status.rolling_update_progress, inputs.now
    lingering = [pod for unit in units for pod in _find_lingering(unit, now)]
    # Only what `_next_step` waits for: an update that ends although this holds would start again at once.
    is_outdated = bool(lingering) or any(
        unit.is_outdated or (unit.is_recreating and unit.has_old_leftovers) for unit in units
    )
    step = choose_update_step(stored, inputs, is_outdated=is_outdated)
    if stored is None or step in (UpdateStep.IDLE, UpdateStep.REPORT, UpdateStep.START):
        progress = start_progress(GroupRollingUpdateProgress, stored, step, now)
        return GroupRoll(progress=progress, is_done=not is_outdated)
    if step is UpdateStep.STOP:
        return GroupRoll(progress=_end_progress(stored, now), is_done=not is_outdated)
    if step is UpdateStep.RETARGET:
        again = GroupRollingUpdateProgress(
            update_started_at=ceil_second(now),
            ready_replica_indices_selected_to_update=_keep_selection(
                units, stored.ready_replica_indices_selected_to_update
            ),
        )
        return GroupRoll(progress=again, is_done=False)
    roll = _next_step(group, {unit.index: unit for unit in units}, stored, bool(lingering), now)
    if not inputs.may_start and not roll.is_done:
        # Another replica became the current one before it was done: it waits until it is current again.
        roll = GroupRoll(progress=stored, is_done=False)
    return msgspec.structs.replace(roll, requeue_at=earliest(*map(gone_at, lingering)))


def _next_step(
    group: PodCliqueScalingGroup,
    units: Mapping[int, UnitView],
    progress: GroupRollingUpdateProgress,
    is_lingering: bool,
    now: datetime,
) -> GroupRoll:
    old = [unit for unit in units.values() if unit.is_outdated and not unit.is_recreating]
    useless = tuple(unit.index for unit in old if not unit.is_ready)
    ready = sorted((unit for unit in old if unit.is_ready), key=lambda unit: (unit.born_at, unit.index))
    available = sum(unit.is_serving for unit in units.values())
    may_replace = available >= group.spec.min_available
    selected = progress.ready_replica_indices_selected_to_update
    chosen = next((unit for unit in ready if selected is not None and unit.index == selected.current), None)
    if chosen is not None:
        may_go = may_replace and chosen.base_unscheduled_since is None
        return GroupRoll(
            progress=progress,
            recreate=(*useless, chosen.index) if may_go else useless,
            needs_live_read=True,
            is_done=False,
            wait=None if may_go else _wait_to_take(group, units, available, progress),
        )
    rolling = GroupRoll(progress=progress, recreate=useless, needs_live_read=bool(useless), is_done=False)
    done = tuple(unit.index for unit in units.values() if unit.is_serving and not unit.is_outdated)
    # Old replicas that are not ready are recreated at once.
    if not _is_caught_up(selected, done, len(units) - len(ready)):
        return msgspec.structs.replace(rolling, wait=_wait_for_units(units))
    if ready:
        oldest = next((unit for unit in ready if unit.base_unscheduled_since is None), None)
        if oldest is None or not may_replace:
            return msgspec.structs.replace(rolling, wait=_wait_to_take(group, units, available, progress))
        choice = ReplicasSelectedToUpdate(
            current=oldest.index,
            completed=(*selected.completed, selected.current)[-LISTED_AS_UPDATED:] if selected is not None else (),
            ready_before=len(done),
        )
        choosing = msgspec.structs.replace(progress, ready_replica_indices_selected_to_update=choice)
        return msgspec.structs.replace(rolling, progress=choosing, needs_live_read=True)
    if old or is_lingering or any(unit.is_recreating for unit in units.values()):
        return rolling
    return msgspec.structs.replace(rolling, progress=_end_progress(progress, now), is_done=True)


def _find_lingering(unit: UnitView, now: datetime) -> list[Pod]:
    return [pod for view, target in (*unit.present, *unit.leftovers) for pod in lingering_pods(view, target, now)]


def _is_caught_up(selected: ReplicasSelectedToUpdate | None, done: Sequence[int], most: int) -> bool:
    """Return whether the last recreated replica is ready again, or one more than before; `most` can be ready."""
    return selected is None or selected.current in done or len(done) >= min(selected.ready_before + 1, most)


def _keep_selection(
    units: Sequence[UnitView], selected: ReplicasSelectedToUpdate | None
) -> ReplicasSelectedToUpdate | None:
    """Return the selection to keep after the template changed again: that of a replica without a ready successor."""
    if selected is None or all(unit.has_same_target for unit in units):
        return selected
    before = [unit.index for unit in units if unit.is_serving and unit.was_updated]
    old_count = sum(unit.is_serving and not unit.was_updated for unit in units)
    if _is_caught_up(selected, before, len(units) - old_count):
        return None
    done = sum(unit.is_serving and not unit.is_outdated for unit in units)
    return msgspec.structs.replace(selected, ready_before=done)


def _wait_for_units(units: Mapping[int, UnitView]) -> StallReason:
    """Return why the new replicas are not ready."""
    new = [unit for unit in units.values() if not unit.is_outdated and not unit.is_ready]
    views = [view for unit in new for view, _ in unit.present if view.ready_count < view.min_available]
    return wait_for_new_pods(views, None)


def _wait_to_take(
    group: PodCliqueScalingGroup,
    units: Mapping[int, UnitView],
    available: int,
    progress: GroupRollingUpdateProgress,
) -> StallReason:
    if available >= group.spec.min_available:
        return StallReason(
            reason=Reason.MINIMUM_NOT_MET,
            message=f"no further ready replica of {group.metadata.name} is recreated, because the base gang of its set "
            "replica is not scheduled",
            since=max(
                *(unit.base_unscheduled_since or _EPOCH for unit in units.values()),
                progress.update_started_at or _EPOCH,
            ),
        )
    cause = _wait_for_units(units)
    found = f"{available} of at least {group.spec.min_available} replicas of {group.metadata.name} are available"
    return msgspec.structs.replace(
        cause,
        reason=Reason.MINIMUM_NOT_MET,
        message=f"no further ready replica is recreated, because {found}: {cause.message}",
        since=None if cause.since is None else max(cause.since, progress.update_started_at or _EPOCH),
    )


def _end_progress(progress: GroupRollingUpdateProgress, now: datetime) -> GroupRollingUpdateProgress:
    return GroupRollingUpdateProgress(update_started_at=progress.update_started_at, update_ended_at=ceil_second(now))

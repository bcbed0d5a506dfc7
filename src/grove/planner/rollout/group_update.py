"""One group in an update: which of its replicas is recreated next, as a whole.

spec/rolling-update.md, "PodCliqueScalingGroup (PCSG) Replica Selection": replicas of an older template that are pending
or unavailable go at once; then one ready replica at a time, the oldest first, only while the minimum is available.
How a replica goes and comes back is in `planner/teardown/recreation.py`.
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
from grove.planner.rollout.update_progress import Phase, end_at_once, phase_of
from grove.planner.status.availability import is_available, is_scheduled
from grove.planner.views import CliqueView

_EPOCH = datetime.fromtimestamp(0, UTC)


class UnitView(msgspec.Struct, frozen=True, kw_only=True):
    """One replica of a group as its update sees it; cliques with the template hash that each is to run."""

    index: int
    # None for a clique that does not exist in the incarnation that it should have.
    cliques: tuple[tuple[CliqueView | None, str], ...]
    # What is on its way out for this unit to come back.
    leftovers: tuple[tuple[CliqueView, str], ...] = ()
    # Its recreation is recorded and not finished.
    is_going: bool = False
    # It is a scaled gang, and its base gang is not scheduled since then: taken now, it would not come back.
    baseless_since: datetime | None = None
    # Of what the stored progress aims at: it runs all of that; and that is what it should aim at.
    was_updated: bool = False
    is_same_aim: bool = False

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
        return self.is_ready and not self.is_going

    @property
    def born_at(self) -> datetime:
        """The oldest pod: cliques may live longer than what runs in them."""
        pods = (pod.metadata.creation_timestamp for view, _ in self.present for pod in view.active)
        return earliest(*pods) or _EPOCH


def is_old(view: CliqueView, target: str | None) -> bool:
    return view.template_hash != target or has_old_pods(view, target)


class GroupRoll(msgspec.Struct, frozen=True, kw_only=True):
    """How the update of a group stands and what it does next."""

    progress: GroupRollingUpdateProgress | None = None
    # Replicas to recreate now: those that are of no use, and the ready one whose choice is stored.
    takes: tuple[int, ...] = ()
    needs_look: bool = False
    is_done: bool = True
    wait: StallReason | None = None
    requeue_at: datetime | None = None


def roll_group(
    group: PodCliqueScalingGroup,
    units: Sequence[UnitView],
    *,
    is_aimed: bool,
    may_start: bool,
    must_stop: bool,
    now: datetime,
) -> GroupRoll:
    stored = group.status.rolling_update_progress
    lingering = [pod for unit in units for pod in _lingering(unit, now)]
    is_outdated = any(unit.is_outdated or unit.has_old_leftovers for unit in units) or bool(lingering)
    phase = phase_of(stored, is_outdated=is_outdated, is_aimed=is_aimed, may_start=may_start, must_stop=must_stop)
    if stored is None or phase in (Phase.REST, Phase.TELL, Phase.START):
        return GroupRoll(progress=_begun(stored, phase, now), is_done=not is_outdated)
    if phase is Phase.STOP:
        return GroupRoll(progress=_ended(stored, now), is_done=not is_outdated)
    if phase is Phase.AIM:
        again = GroupRollingUpdateProgress(
            update_started_at=ceil_second(now),
            ready_replica_indices_selected_to_update=_still_owed(
                units, stored.ready_replica_indices_selected_to_update
            ),
        )
        return GroupRoll(progress=again, is_done=False)
    roll = _next_step(group, {unit.index: unit for unit in units}, stored, bool(lingering), now)
    if not may_start and not roll.is_done:
        # Its turn went to another replica before it was done: it waits for the next one.
        roll = GroupRoll(progress=stored, is_done=False)
    return msgspec.structs.replace(roll, requeue_at=earliest(*map(gone_at, lingering)))


def _begun(stored: GroupRollingUpdateProgress | None, phase: Phase, now: datetime) -> GroupRollingUpdateProgress | None:
    if phase is Phase.START:
        return GroupRollingUpdateProgress(update_started_at=ceil_second(now))
    if phase is Phase.TELL:
        instant = end_at_once(stored.update_ended_at if stored else None, now)
        return GroupRollingUpdateProgress(update_started_at=instant, update_ended_at=instant)
    return stored


def _next_step(
    group: PodCliqueScalingGroup,
    units: Mapping[int, UnitView],
    progress: GroupRollingUpdateProgress,
    is_lingering: bool,
    now: datetime,
) -> GroupRoll:
    old = [unit for unit in units.values() if unit.is_outdated and not unit.is_going]
    useless = tuple(unit.index for unit in old if not unit.is_ready)
    ready = sorted((unit for unit in old if unit.is_ready), key=lambda unit: (unit.born_at, unit.index))
    available = sum(unit.is_serving for unit in units.values())
    may_take = available >= group.spec.min_available
    selected = progress.ready_replica_indices_selected_to_update
    chosen = next((unit for unit in ready if selected is not None and unit.index == selected.current), None)
    if chosen is not None:
        may_go = may_take and chosen.baseless_since is None
        return GroupRoll(
            progress=progress,
            takes=(*useless, chosen.index) if may_go else useless,
            needs_look=True,
            is_done=False,
            wait=None if may_go else _wait_to_take(group, units, available, progress),
        )
    rolling = GroupRoll(progress=progress, takes=useless, needs_look=bool(useless), is_done=False)
    done = tuple(unit.index for unit in units.values() if unit.is_serving and not unit.is_outdated)
    # Old replicas that are of no use make room for new ones at once.
    if not _is_caught_up(selected, done, len(units) - len(ready)):
        return msgspec.structs.replace(rolling, wait=_wait_for_units(units))
    if ready:
        oldest = next((unit for unit in ready if unit.baseless_since is None), None)
        if oldest is None or not may_take:
            return msgspec.structs.replace(rolling, wait=_wait_to_take(group, units, available, progress))
        choice = ReplicasSelectedToUpdate(
            current=oldest.index,
            completed=(*selected.completed, selected.current)[-LISTED_AS_UPDATED:] if selected is not None else (),
            ready_before=len(done),
        )
        choosing = msgspec.structs.replace(progress, ready_replica_indices_selected_to_update=choice)
        return msgspec.structs.replace(rolling, progress=choosing, needs_look=True)
    if old or is_lingering or any(unit.is_going for unit in units.values()):
        return rolling
    return msgspec.structs.replace(rolling, progress=_ended(progress, now), is_done=True)


def _lingering(unit: UnitView, now: datetime) -> list[Pod]:
    return [pod for view, target in (*unit.present, *unit.leftovers) for pod in lingering_pods(view, target, now)]


def _is_caught_up(selected: ReplicasSelectedToUpdate | None, done: Sequence[int], most: int) -> bool:
    """The last replica that was taken is ready again, or one more than before; `most` is how many there can be."""
    return selected is None or selected.current in done or len(done) >= min(selected.ready_before + 1, most)


def _still_owed(
    units: Sequence[UnitView], selected: ReplicasSelectedToUpdate | None
) -> ReplicasSelectedToUpdate | None:
    """What a further change of the template leaves of the last choice: all of it, if nothing ready made up for it."""
    if selected is None or all(unit.is_same_aim for unit in units):
        return selected
    before = [unit.index for unit in units if unit.is_serving and unit.was_updated]
    old_count = sum(unit.is_serving and not unit.was_updated for unit in units)
    if _is_caught_up(selected, before, len(units) - old_count):
        return None
    done = sum(unit.is_serving and not unit.is_outdated for unit in units)
    return msgspec.structs.replace(selected, ready_before=done)


def _wait_for_units(units: Mapping[int, UnitView]) -> StallReason:
    """What keeps the new replicas from being ready."""
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
            message=f"no further ready replica of {group.metadata.name} is taken, because the base gang of its set "
            "replica is not scheduled",
            since=max(
                *(unit.baseless_since or _EPOCH for unit in units.values()), progress.update_started_at or _EPOCH
            ),
        )
    cause = _wait_for_units(units)
    found = f"{available} of at least {group.spec.min_available} replicas of {group.metadata.name} are available"
    return msgspec.structs.replace(
        cause,
        reason=Reason.MINIMUM_NOT_MET,
        message=f"no further ready replica is taken, because {found}: {cause.message}",
        since=None if cause.since is None else max(cause.since, progress.update_started_at or _EPOCH),
    )


def _ended(progress: GroupRollingUpdateProgress, now: datetime) -> GroupRollingUpdateProgress:
    return GroupRollingUpdateProgress(update_started_at=progress.update_started_at, update_ended_at=ceil_second(now))

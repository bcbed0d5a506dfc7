"""`updateProgress` of cliques and groups, which existing tools read: the same facts as `rollingUpdateProgress`.

It also says which revision the stored progress aims at.
"""

from datetime import datetime, timedelta
from enum import Enum, auto

from grove.api.types.podclique import CliqueRollingUpdateProgress, CliqueUpdateProgress
from grove.api.types.podcliquescalinggroup import GroupRollingUpdateProgress, GroupUpdateProgress
from grove.api.values.times import ceil_second
from grove.planner.snapshot import SetContext


class Phase(Enum):
    """What the update of a clique or group is about to do, before any unit is looked at."""

    # Not its turn, or nothing to do: what is stored stays.
    REST = auto()
    # OnDelete: what changed is told, and that nothing follows from it.
    TELL = auto()
    # OnDelete in the middle of an update: it ends where it is.
    STOP = auto()
    START = auto()
    # What it aims at is not what is asked for any more.
    AIM = auto()
    STEP = auto()


def phase_of(
    stored: CliqueRollingUpdateProgress | GroupRollingUpdateProgress | None,
    *,
    is_outdated: bool,
    is_aimed: bool,
    may_start: bool,
    must_stop: bool,
) -> Phase:
    if stored is None or stored.update_ended_at is not None:
        if not is_outdated or not (must_stop or may_start):
            return Phase.REST
        if must_stop:
            return Phase.REST if is_aimed else Phase.TELL
        return Phase.START
    if must_stop:
        return Phase.STOP
    return Phase.STEP if is_aimed else Phase.AIM


def end_at_once(before: datetime | None, now: datetime) -> datetime:
    """When an update that only has to be told ends: never at the end of the one `before`, which aimed elsewhere."""
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
    # What ended aimed at what it aimed at.
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

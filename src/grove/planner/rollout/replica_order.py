"""Order of an update: select the set replica that is updated next, one at a time.

spec/rolling-update.md, "PodGangSet (PGS) Replica Selection": replicas with nothing scheduled first, then those that are
not available, then the others from the highest index down. The choice is stored before the replica is changed, and with
it whether the replica was available: if it was, its update is complete only when it is available again.
"""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from grove.api.types.podcliqueset import (
    CurrentlyUpdating,
    PodCliqueSet,
    ReplicaUpdateProgress,
    SetRollingUpdateProgress,
    SetUpdateProgress,
)
from grove.api.values.times import ceil_second
from grove.planner.rollout.replica_update import UpdatePriority
from grove.planner.rollout.stall import StallReason

# The most names in a set's status; the counts are always complete.
LISTED_NAMES = 100


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A replica that does not run the newest templates yet."""

    index: int
    update_priority: UpdatePriority
    is_available: bool = False


class RollFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The update totals of the replicas of a set."""

    outdated: tuple[Candidate, ...] = ()
    # All of the current replica runs the newest templates, and no minimum is waited for.
    is_current_done: bool = False
    is_current_available: bool = False
    wait: StallReason | None = None
    updated_cliques: tuple[str, ...] = ()
    updated_groups: tuple[str, ...] = ()
    updated_clique_count: int = 0
    clique_count: int = 0
    updated_group_count: int = 0
    group_count: int = 0


def current_replica_index(pcs: PodCliqueSet) -> int | None:
    """Return the stored index of the replica that is updated now."""
    current_replica = read_current_replica(pcs)
    return None if current_replica is None else current_replica.replica_index


def read_current_replica(pcs: PodCliqueSet) -> CurrentlyUpdating | None:
    progress = pcs.status.rolling_update_progress
    if progress is None or progress.update_ended_at is not None or progress.currently_updating is None:
        return None
    current_replica = progress.currently_updating
    return current_replica if current_replica.replica_index < pcs.spec.replicas else None


def roll_set(
    pcs: PodCliqueSet, newest_hash: str, facts: RollFacts, *, is_on_delete: bool, now: datetime
) -> SetRollingUpdateProgress | None:
    """Return the update progress for the set's status."""
    stored = pcs.status.rolling_update_progress
    before = pcs.status.current_generation_hash
    is_other = before is not None and before != newest_hash
    is_open = stored is not None and stored.update_ended_at is None
    instant = ceil_second(now)
    if is_on_delete:
        if is_other:
            return SetRollingUpdateProgress(update_started_at=instant, update_ended_at=instant)
        return (
            msgspec.structs.replace(stored, update_ended_at=instant, currently_updating=None)
            if (stored is not None and is_open)
            else stored
        )
    if stored is None or not is_open:
        if facts.outdated:
            return _with_names(
                SetRollingUpdateProgress(update_started_at=instant, currently_updating=_next(facts, instant)), facts
            )
        if is_other:
            return SetRollingUpdateProgress(update_started_at=instant, update_ended_at=instant)
        return stored
    progress = msgspec.structs.replace(stored, update_started_at=instant) if is_other else stored
    if read_current_replica(pcs) is None or facts.is_current_done:
        progress = msgspec.structs.replace(progress, currently_updating=_next(facts, instant))
        if progress.currently_updating is None:
            progress = msgspec.structs.replace(progress, update_ended_at=instant)
    return _with_names(progress, facts)


def _next(facts: RollFacts, instant: datetime) -> CurrentlyUpdating | None:
    chosen = min(facts.outdated, key=lambda candidate: (candidate.update_priority, -candidate.index), default=None)
    if chosen is None:
        return None
    return CurrentlyUpdating(
        replica_index=chosen.index,
        update_started_at=instant,
        was_available=chosen.is_available,
    )


def _with_names(progress: SetRollingUpdateProgress, facts: RollFacts) -> SetRollingUpdateProgress:
    return msgspec.structs.replace(
        progress,
        updated_pod_cliques=facts.updated_cliques[:LISTED_NAMES],
        updated_pod_clique_scaling_groups=facts.updated_groups[:LISTED_NAMES],
    )


def set_update_progress(progress: SetRollingUpdateProgress | None, facts: RollFacts) -> SetUpdateProgress | None:
    """Return the progress in `status.updateProgress`, which tools written for NVIDIA's Grove read."""
    if progress is None:
        return None
    current = progress.currently_updating
    turns: Sequence[ReplicaUpdateProgress] = (
        (ReplicaUpdateProgress(replica_index=current.replica_index, update_started_at=current.update_started_at),)
        if current is not None
        else ()
    )
    return SetUpdateProgress(
        update_started_at=progress.update_started_at,
        update_ended_at=progress.update_ended_at,
        updated_pod_cliques_count=facts.updated_clique_count,
        total_pod_cliques_count=facts.clique_count,
        updated_pod_clique_scaling_groups_count=facts.updated_group_count,
        total_pod_clique_scaling_groups_count=facts.group_count,
        currently_updating=tuple(turns),
    )

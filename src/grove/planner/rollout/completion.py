"""Completion of an update: decide when a set replica is updated, so that the next one may start.

No live pod of an older template is left, and every standalone clique and every group has its minimum ready. In a
replica that was not available when its update began, the update does not wait for a minimum that cannot recover: it
does not fit, or it was broken before in a part that the update does not change. The update always waits for pods that
start or crash (docs/how-to/update.md, "What the update waits for").
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import Enum, auto

import msgspec

from grove.api.reasons import ConditionType, Reason
from grove.api.types.meta import find_condition
from grove.api.types.pod import Pod
from grove.api.types.podclique import CliqueRollingUpdateProgress
from grove.api.types.podcliquescalinggroup import GroupRollingUpdateProgress, PodCliqueScalingGroup
from grove.planner.actions import earliest
from grove.planner.explain.pods import is_unschedulable
from grove.planner.gangs.rejected_gangs import CreateBackoff
from grove.planner.replica_facts import ReplicaFacts
from grove.planner.rollout.replica_update import ReplicaRoll
from grove.planner.rollout.stall import StallReason, longest, wait_for_new_pods
from grove.planner.status.availability import (
    GroupReplica,
    clique_breach,
    group_verdict,
    has_minimum,
    is_replica_available,
)
from grove.planner.views import CliqueView

# The update of a replica that was not available does not wait longer for a pod that does not fit.
NO_ROOM_AFTER = timedelta(seconds=60)
# Times on the wire are whole seconds.
ROUNDING = timedelta(seconds=1)
_LONG_AGO = datetime.min.replace(tzinfo=UTC)

Backoffs = Mapping[str, CreateBackoff | None]


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """The result of the check: the update of a replica is complete, or what is missing and when to check again."""

    is_done: bool
    wait: StallReason | None = None
    requeue_at: datetime | None = None


NOT_CURRENT = Completion(is_done=False)


class _Part(msgspec.Struct, frozen=True, kw_only=True):
    """One standalone clique or group, and its minimum."""

    is_updated: bool
    is_ready: bool
    # From then on the update does not wait for its minimum; None: it always waits.
    excused_at: datetime | None = None
    wait: StallReason | None = None


def check_completion(facts: ReplicaFacts, backoffs: Backoffs, roll: ReplicaRoll) -> Completion:
    """Check the current replica, apart from remaining old pods. `backoffs`: by clique, those of its gang."""
    current_replica, now = facts.role.current_replica, facts.now
    # Older versions did not store `was_available`: then the update waits for every minimum.
    is_excusable = current_replica is not None and current_replica.was_available is False
    began_at = current_replica.update_started_at if current_replica is not None else _LONG_AGO
    parts = (
        *_standalone_parts(facts, backoffs, roll, began_at),
        *_group_parts(facts, backoffs, roll, began_at),
    )
    missing = [part for part in parts if not (part.is_ready and part.is_updated)]
    excused = [part.excused_at for part in missing if is_excusable and not part.is_ready and part.excused_at]
    later = [at for at in excused if at > now]
    if len(excused) == len(missing) and not later:
        return Completion(is_done=True)
    wait = longest(part.wait for part in missing)
    stalls_at = wait.stalled_at if wait is not None and not wait.is_stalled(now) else None
    return Completion(is_done=False, wait=wait, requeue_at=earliest(stalls_at, *later))


def _standalone_parts(
    facts: ReplicaFacts, backoffs: Backoffs, roll: ReplicaRoll, began_at: datetime
) -> Iterator[_Part]:
    replica, recreations = facts.replica, facts.recreations
    for clique in facts.desired.base.cliques:
        if clique.group:
            continue
        if not recreations.is_present(replica, clique):
            yield _Part(is_updated=False, is_ready=False, wait=_wait_for_object(clique.name))
            continue
        view = replica.cliques[clique.name]
        was_broken = clique_breach(view).is_true and _is_unchanged(
            view.clique.status.rolling_update_progress, (view,), began_at
        )
        is_ready = has_minimum(view)
        yield _Part(
            is_updated=roll.cliques[clique.name].is_done,
            is_ready=is_ready,
            excused_at=_LONG_AGO if was_broken else _clique_outlook(view, backoffs.get(clique.name)).excused_at,
            wait=None if is_ready else wait_for_new_pods((view,), None),
        )


def _group_parts(facts: ReplicaFacts, backoffs: Backoffs, roll: ReplicaRoll, began_at: datetime) -> Iterator[_Part]:
    for group in facts.desired.groups:
        current, rolled = facts.replica.groups.get(group.name), roll.groups.get(group.name)
        units = facts.groups[group.name]
        if current is None or rolled is None:
            yield _Part(is_updated=False, is_ready=False, wait=_wait_for_object(group.name))
            continue
        needed = min(current.spec.min_available, len(units))
        is_ready = sum(is_replica_available(unit.cliques) for unit in units) >= needed
        outlook = _join((_unit_outlook(unit, backoffs) for unit in units), needed)
        yield _Part(
            is_updated=rolled.is_done,
            is_ready=is_ready,
            excused_at=_LONG_AGO if _was_broken(current, units, began_at) else outlook.excused_at,
            wait=None if is_ready else _wait_for_group(units),
        )


def _was_broken(group: PodCliqueScalingGroup, units: Sequence[GroupReplica], began_at: datetime) -> bool:
    views = tuple(view for unit in units for view in unit.cliques if view is not None)
    is_unchanged = _is_unchanged(group.status.rolling_update_progress, views, began_at)
    return is_unchanged and group_verdict(group, units).is_true


def _is_unchanged(
    progress: CliqueRollingUpdateProgress | GroupRollingUpdateProgress | None,
    views: Sequence[CliqueView],
    began_at: datetime,
) -> bool:
    """Return whether nothing of it was replaced or created since the update of the replica began."""
    rolled_at = progress.update_started_at if progress is not None else None
    if rolled_at is not None and rolled_at >= began_at:
        return False
    return all((v.clique.metadata.creation_timestamp or _LONG_AGO) + ROUNDING < began_at for v in views)


class _Prospect(Enum):
    """The prospect of a minimum to become ready."""

    READY = auto()
    # A pod of it is being created, placed or started: the update waits.
    COMING = auto()
    # The missing pods do not fit.
    NO_ROOM = auto()
    # The missing pods wait behind the gate for others.
    HELD_BACK = auto()


class _Outlook(msgspec.Struct, frozen=True):
    """Whether the minimum of a part will become ready, and since when its pods do not fit."""

    prospect: _Prospect
    # Since when the missing pods do not fit.
    since: datetime = _LONG_AGO

    @property
    def excused_at(self) -> datetime | None:
        return self.since + NO_ROOM_AFTER if self.prospect is _Prospect.NO_ROOM else None


def _clique_outlook(view: CliqueView, backoff: CreateBackoff | None) -> _Outlook:
    needed = min(view.min_available, view.replicas)
    if has_minimum(view):
        return _Outlook(_Prospect.READY)
    waiting = [pod for pod in view.active if not pod.is_ready]
    full = [pod for pod in waiting if is_unschedulable(pod)]
    gated = [pod for pod in waiting if pod.is_gated]
    missing_count = max(0, view.replicas - view.existing_count)
    if view.failed or len(full) + len(gated) < len(waiting) or (missing_count and backoff is None):
        return _Outlook(_Prospect.COMING)
    # Of a gang that is rejected, those that exist wait for the others.
    rejected_count = missing_count + len(gated) if backoff is not None else 0
    if view.available_count + len(full) + rejected_count < needed:
        return _Outlook(_Prospect.HELD_BACK)
    since = [*map(_full_since, full), *((backoff.since,) if backoff is not None and rejected_count else ())]
    return _Outlook(_Prospect.NO_ROOM, max(since, default=_LONG_AGO))


def _full_since(pod: Pod) -> datetime:
    reported = find_condition(pod.status.conditions, ConditionType.POD_SCHEDULED)
    born_at = pod.metadata.creation_timestamp or _LONG_AGO
    return max(born_at, (reported.last_transition_time if reported is not None else None) or _LONG_AGO)


def _unit_outlook(unit: GroupReplica, backoffs: Backoffs) -> _Outlook:
    members = (_clique_outlook(v, backoffs.get(v.name)) if v else _Outlook(_Prospect.COMING) for v in unit.cliques)
    return _join(members, len(unit.cliques))


def _join(outlooks: Iterable[_Outlook], needed: int) -> _Outlook:
    """Combine the outlooks of several parts, of which `needed` must be ready."""
    seen = tuple(outlooks)
    by = {prospect: [one for one in seen if one.prospect is prospect] for prospect in _Prospect}
    if len(by[_Prospect.READY]) >= needed:
        return _Outlook(_Prospect.READY)
    if by[_Prospect.COMING]:
        return _Outlook(_Prospect.COMING)
    full = by[_Prospect.NO_ROOM]
    if len(by[_Prospect.READY]) + len(full) < needed:
        return _Outlook(_Prospect.HELD_BACK)
    return _Outlook(_Prospect.NO_ROOM, max(one.since for one in full))


def _wait_for_group(units: Sequence[GroupReplica]) -> StallReason:
    views = [v for unit in units for v in unit.cliques if v is not None and not has_minimum(v)]
    return wait_for_new_pods(views, None)


def _wait_for_object(name: str) -> StallReason:
    return StallReason(reason=Reason.PODS_NOT_READY, message=f"{name} does not exist yet", since=None)

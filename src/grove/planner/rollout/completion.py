"""Completion of an update: decide when a set replica is updated, so that the next one may start.

No live pod of an older template is left, and every standalone clique and every group has its minimum ready. Of a
replica that was not available when its turn came, a minimum is not waited for that no waiting brings back: there is no
room for it, or it was broken before in a part that the update does not change. Pods that load or crash are always
waited for (docs/how-to/update.md, "What is waited for").
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
from grove.api.types.podcliqueset import CurrentlyUpdating
from grove.planner.actions import earliest
from grove.planner.desired_state import ReplicaBlueprint
from grove.planner.explain.pods import is_told_full
from grove.planner.pods.create_backoff import CreateBackoff
from grove.planner.rollout.replica_update import ReplicaRoll
from grove.planner.rollout.stall import StallReason, longest, wait_for_new_pods
from grove.planner.status.availability import (
    GroupReplica,
    clique_breach,
    group_verdict,
    has_minimum,
    is_replica_available,
)
from grove.planner.teardown.recreation import Recreations
from grove.planner.views import CliqueView, ReplicaView

# A pod without room for so long is not waited for in a replica that was not available anyway.
NO_ROOM_AFTER = timedelta(seconds=60)
# Times on the wire are whole seconds.
ROUNDING = timedelta(seconds=1)
_LONG_AGO = datetime.min.replace(tzinfo=UTC)

Refusals = Mapping[str, CreateBackoff | None]


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a replica has what its turn waits for, and if not, what is missing and when that is looked at again."""

    is_done: bool
    wait: StallReason | None = None
    requeue_at: datetime | None = None


NO_TURN = Completion(is_done=False)


class _Part(msgspec.Struct, frozen=True, kw_only=True):
    """One standalone clique or group, and its minimum."""

    is_updated: bool
    is_ready: bool
    # From then on its minimum is not waited for; None: it is.
    excused_at: datetime | None = None
    wait: StallReason | None = None


def judge_completion(
    replica: ReplicaView,
    blueprint: ReplicaBlueprint,
    recreations: Recreations,
    groups: Mapping[str, Sequence[GroupReplica]],
    refusals: Refusals,
    roll: ReplicaRoll,
    turn: CurrentlyUpdating | None,
    now: datetime,
) -> Completion:
    """Of a replica in its turn, apart from old pods that are left. `refusals` are those of its gangs, by clique."""
    # A turn that does not say so was begun by an older version: then every minimum is waited for.
    is_excusable = turn is not None and turn.was_available is False
    began_at = turn.update_started_at if turn is not None else _LONG_AGO
    parts = (
        *_standalone_parts(replica, blueprint, recreations, refusals, roll, began_at),
        *_group_parts(replica, blueprint, groups, refusals, roll, began_at),
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
    replica: ReplicaView,
    blueprint: ReplicaBlueprint,
    recreations: Recreations,
    refusals: Refusals,
    roll: ReplicaRoll,
    began_at: datetime,
) -> Iterator[_Part]:
    for clique in blueprint.base.cliques:
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
            excused_at=_LONG_AGO if was_broken else _clique_outlook(view, refusals.get(clique.name)).excused_at,
            wait=None if is_ready else wait_for_new_pods((view,), None),
        )


def _group_parts(
    replica: ReplicaView,
    blueprint: ReplicaBlueprint,
    groups: Mapping[str, Sequence[GroupReplica]],
    refusals: Refusals,
    roll: ReplicaRoll,
    began_at: datetime,
) -> Iterator[_Part]:
    for group in blueprint.groups:
        current, rolled, units = replica.groups.get(group.name), roll.groups.get(group.name), groups[group.name]
        if current is None or rolled is None:
            yield _Part(is_updated=False, is_ready=False, wait=_wait_for_object(group.name))
            continue
        needed = min(current.spec.min_available, len(units))
        is_ready = sum(is_replica_available(unit.cliques) for unit in units) >= needed
        outlook = _join((_unit_outlook(unit, refusals) for unit in units), needed)
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
    """Nothing of it was replaced or made since the turn began."""
    rolled_at = progress.update_started_at if progress is not None else None
    if rolled_at is not None and rolled_at >= began_at:
        return False
    return all((v.clique.metadata.creation_timestamp or _LONG_AGO) < began_at - ROUNDING for v in views)


class _Prospect(Enum):
    """What can be expected of a minimum."""

    READY = auto()
    # Some pod of it is made, placed or started: that is waited for.
    COMING = auto()
    # What is missing has no room.
    NO_ROOM = auto()
    # What is missing waits behind the gate for others.
    HELD_BACK = auto()


class _Outlook(msgspec.Struct, frozen=True):
    prospect: _Prospect
    # Since when there is no room for all that is missing.
    since: datetime = _LONG_AGO

    @property
    def excused_at(self) -> datetime | None:
        return self.since + NO_ROOM_AFTER if self.prospect is _Prospect.NO_ROOM else None


def _clique_outlook(view: CliqueView, refusal: CreateBackoff | None) -> _Outlook:
    needed = min(view.min_available, view.replicas)
    if has_minimum(view):
        return _Outlook(_Prospect.READY)
    waiting = [pod for pod in view.active if not pod.is_ready]
    full = [pod for pod in waiting if is_told_full(pod)]
    gated = [pod for pod in waiting if pod.is_behind_our_gate]
    missing_count = max(0, view.replicas - view.existing_count)
    if view.failed or len(full) + len(gated) < len(waiting) or (missing_count and refusal is None):
        return _Outlook(_Prospect.COMING)
    # Of a gang that is rejected, those that exist wait for the others.
    refused_count = missing_count + len(gated) if refusal is not None else 0
    if view.available_count + len(full) + refused_count < needed:
        return _Outlook(_Prospect.HELD_BACK)
    since = [*map(_full_since, full), *((refusal.since,) if refusal is not None and refused_count else ())]
    return _Outlook(_Prospect.NO_ROOM, max(since, default=_LONG_AGO))


def _full_since(pod: Pod) -> datetime:
    told = find_condition(pod.status.conditions, ConditionType.POD_SCHEDULED)
    born_at = pod.metadata.creation_timestamp or _LONG_AGO
    return max(born_at, (told.last_transition_time if told is not None else None) or _LONG_AGO)


def _unit_outlook(unit: GroupReplica, refusals: Refusals) -> _Outlook:
    members = (_clique_outlook(v, refusals.get(v.name)) if v else _Outlook(_Prospect.COMING) for v in unit.cliques)
    return _join(members, len(unit.cliques))


def _join(outlooks: Iterable[_Outlook], needed: int) -> _Outlook:
    """Of parts of which so many are needed."""
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

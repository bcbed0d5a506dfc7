"""Update of one set replica: its standalone cliques and its groups, in parallel."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from enum import IntEnum

import msgspec

from grove.api import labels
from grove.api.reasons import Reason
from grove.api.types.podclique import CliqueUpdateProgress
from grove.api.types.podcliquescalinggroup import GroupUpdateProgress
from grove.api.types.podcliqueset import CurrentlyUpdating
from grove.planner.actions import LiveRead, earliest
from grove.planner.desired_state import DesiredClique, DesiredGroup, DesiredReplica
from grove.planner.gangs.scheduling_gates import base_placement
from grove.planner.live_reads import read_live
from grove.planner.rollout.clique_update import CliqueRoll, gone_at, has_old_pods, lingering_pods, roll_clique
from grove.planner.rollout.group_update import GroupRoll, UnitView, is_old, roll_group
from grove.planner.rollout.stall import StallReason, longest
from grove.planner.rollout.update_progress import UpdateInput
from grove.planner.snapshot import UNTIL_RELEASED, SetContext
from grove.planner.status.availability import GroupReplica, has_minimum, is_replica_available
from grove.planner.teardown.recreation import Recreations, RecreationUnit, read_scale_live
from grove.planner.views import CliqueView, ReplicaView

_EPOCH = datetime.fromtimestamp(0, UTC)
_HELD = StallReason(
    reason=Reason.MASS_OUTAGE, message="its next deletions are held while most nodes are not ready", since=None
)


class UpdatePriority(IntEnum):
    """The order of replicas: first those with nothing on nodes, then those not available, then the others."""

    NOTHING_SCHEDULED = 0
    UNAVAILABLE = 1
    AVAILABLE = 2


class UpdateRole(msgspec.Struct, frozen=True, kw_only=True):
    """The role of a replica in an update: what it may do about a newer template."""

    # It is updated now: from here on all of it is created from the newest templates.
    is_current: bool = False
    # The stored record of it.
    current_replica: CurrentlyUpdating | None = None
    # OnDelete: all cliques get new templates at once, and no pod is deleted for them.
    is_on_delete: bool = False
    # The template hashes of every stored revision, to find the target of an earlier update.
    stored_hashes: Mapping[str, Mapping[str, str]] = {}
    # Training: the counted restarts of this replica.
    restarts: int = 0


NO_ROLE = UpdateRole()


class ReplicaRoll(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the update of one replica, and its next step."""

    cliques: dict[str, CliqueRoll] = {}
    groups: dict[str, GroupRoll] = {}
    recreate: tuple[RecreationUnit, ...] = ()
    live_reads: tuple[LiveRead, ...] = ()
    wait: StallReason | None = None
    requeue_at: datetime | None = None
    # A mass outage holds its next deletions.
    is_held: bool = False

    def may_patch(self, clique: DesiredClique, role: UpdateRole) -> bool:
        """Return whether this clique may get the template of its replica. Members only with OnDelete."""
        if clique.group:
            return role.is_on_delete
        roll = self.cliques.get(clique.name)
        return roll is not None and roll.may_patch


def roll_replica(
    context: SetContext,
    replica: ReplicaView,
    desired: DesiredReplica,
    recreations: Recreations,
    role: UpdateRole,
    now: datetime,
) -> ReplicaRoll:
    cliques = {
        clique.name: _roll_clique(context, replica.cliques[clique.name], clique, role, now)
        for clique in desired.base.cliques
        if not clique.group and recreations.is_present(replica, clique)
    }
    groups: dict[str, GroupRoll] = {}
    recreate: list[RecreationUnit] = []
    live_reads = [read_live(replica.cliques[n]) for n, roll in cliques.items() if roll.needs_live_read]
    for group in desired.groups:
        roll = _roll_group(context, replica, desired, group, recreations, role, now)
        if roll is None:
            continue
        groups[group.name] = roll
        recreate += [RecreationUnit(group=group.name, index=j) for j in roll.recreate]
        if roll.needs_live_read:
            live_reads += _read_group_live(context, replica, group)
    live_reads += [read_scale_live(context, replica, unit) for unit in recreate]
    rolls: tuple[CliqueRoll | GroupRoll, ...] = (*cliques.values(), *groups.values())
    wait = longest(roll.wait for roll in rolls)
    return ReplicaRoll(
        cliques=cliques,
        groups=groups,
        recreate=tuple(recreate),
        live_reads=tuple(live_reads),
        wait=wait,
        requeue_at=earliest(
            *(roll.requeue_at for roll in rolls), wait.stalled_at if wait and not wait.is_stalled(now) else None
        ),
    )


def hold_rollout(roll: ReplicaRoll, hold_until: datetime) -> ReplicaRoll:
    """Return the same update without its actions, until then."""
    is_held = bool(roll.recreate) or any(one.deletes for one in roll.cliques.values())
    idle = {n: msgspec.structs.replace(one, deletes=(), needs_live_read=False) for n, one in roll.cliques.items()}
    is_waiting = bool(roll.recreate or roll.live_reads) and hold_until < UNTIL_RELEASED
    requeue_at = earliest(roll.requeue_at, hold_until if is_waiting else None)
    return msgspec.structs.replace(
        roll,
        cliques=idle,
        recreate=(),
        live_reads=(),
        wait=_HELD if is_held else roll.wait,
        requeue_at=requeue_at,
        is_held=is_held,
    )


def _roll_clique(
    context: SetContext, view: CliqueView, clique: DesiredClique, role: UpdateRole, now: datetime
) -> CliqueRoll:
    inputs = _build_input(context, view.clique.status.update_progress, role, now)
    return roll_clique(view, context.template_hashes[clique.template.name], inputs)


def _build_input(
    context: SetContext, reported: CliqueUpdateProgress | GroupUpdateProgress | None, role: UpdateRole, now: datetime
) -> UpdateInput:
    return UpdateInput(
        has_same_target=reported is not None and reported.pod_clique_set_generation_hash == context.generation_hash,
        may_start=role.is_current,
        must_stop=role.is_on_delete,
        now=now,
    )


def _roll_group(
    context: SetContext,
    replica: ReplicaView,
    desired: DesiredReplica,
    group: DesiredGroup,
    recreations: Recreations,
    role: UpdateRole,
    now: datetime,
) -> GroupRoll | None:
    current = replica.groups.get(group.name)
    if current is None or current.metadata.is_terminating:
        return None
    reported = current.status.update_progress
    stored_hashes = role.stored_hashes.get(reported.pod_clique_set_generation_hash, {}) if reported else {}
    units = _units(context, replica, desired, group, recreations, stored_hashes_of_target=stored_hashes)
    return roll_group(current, tuple(units), _build_input(context, reported, role, now))


def _units(
    context: SetContext,
    replica: ReplicaView,
    desired: DesiredReplica,
    group: DesiredGroup,
    recreations: Recreations,
    *,
    stored_hashes_of_target: Mapping[str, str],
) -> Iterable[UnitView]:
    members: dict[int, list[DesiredClique]] = {}
    for clique in desired.cliques:
        if clique.group == group.name:
            members.setdefault(clique.group_replica_index, []).append(clique)
    base_unscheduled_since = _base_unscheduled_since(replica, desired, recreations)
    for j, cliques in members.items():
        views = [(replica.cliques.get(c.name), context.template_hashes[c.template.name], c) for c in cliques]
        yield UnitView(
            index=j,
            cliques=tuple(
                (view if recreations.is_present(replica, clique) else None, target) for view, target, clique in views
            ),
            leftovers=tuple(
                (view, target)
                for view, target, clique in views
                if view is not None and not recreations.is_present(replica, clique)
            ),
            is_recreating=any(recreations.of(clique) is not None for clique in cliques),
            base_unscheduled_since=base_unscheduled_since if cliques[0].base_gang else None,
            was_updated=all(
                view is not None and not is_old(view, stored_hashes_of_target.get(c.template.name))
                for view, _, c in views
            ),
            has_same_target=all(stored_hashes_of_target.get(c.template.name) == target for _, target, c in views),
        )


def _base_unscheduled_since(replica: ReplicaView, desired: DesiredReplica, recreations: Recreations) -> datetime | None:
    """Return since when the base gang is not scheduled, by its pods; None: it is scheduled."""
    views = [replica.cliques[c.name] for c in desired.base.cliques if recreations.is_present(replica, c)]
    if base_placement(tuple(views), base_name=desired.name, clique_count=len(desired.base.cliques)).may_go:
        return None
    waiting = (pod for view in views for pod in view.active if not pod.is_scheduled)
    return max((pod.metadata.creation_timestamp or _EPOCH for pod in waiting), default=_EPOCH)


def _read_group_live(context: SetContext, replica: ReplicaView, group: DesiredGroup) -> Iterable[LiveRead]:
    """Yield a live read of all pods of the group, because every group replica counts for its minimum."""
    views = [v for v in replica.cliques.values() if v.clique.metadata.labels.get(labels.GROUP) == group.name]
    if views:
        selector = labels.selector({**labels.default_labels(context.name), labels.GROUP: group.name})
        owners = tuple(view.owner_key for view in sorted(views, key=lambda view: view.uid))
        yield LiveRead(namespace=context.namespace, selector=selector, owners=owners)


class Freshness(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a replica that run the newest templates."""

    is_outdated: bool
    # Those that also have their minimum ready.
    updated_cliques: tuple[str, ...] = ()
    updated_groups: tuple[str, ...] = ()
    # When the update stops waiting for the last terminating pod of an older template.
    requeue_at: datetime | None = None


def compute_freshness(
    context: SetContext,
    replica: ReplicaView,
    desired: DesiredReplica,
    groups: Mapping[str, Sequence[GroupReplica]],
    now: datetime,
) -> Freshness:
    """Find the standalone cliques and groups that are updated; a group is as old as its oldest member."""
    stale_groups: set[str] = set()
    updated: list[str] = []
    gone: list[datetime] = []
    is_any_older = is_labelled_older(context, replica, desired.base.name)
    for clique in desired.cliques:
        view = replica.cliques.get(clique.name)
        target = context.newest_hashes[clique.template.name]
        lingering = lingering_pods(view, target, now) if view else ()
        gone += map(gone_at, lingering)
        is_older = view is not None and (view.template_hash != target or bool(lingering) or has_old_pods(view, target))
        is_any_older = is_any_older or is_older
        if (view is None or is_older) and clique.group:
            stale_groups.add(clique.group)
        elif view is not None and not is_older and not clique.group and has_minimum(view):
            updated.append(clique.name)
    return Freshness(
        is_outdated=is_any_older,
        updated_cliques=tuple(updated),
        updated_groups=tuple(
            group.name
            for group in desired.groups
            if group.name not in stale_groups and _has_minimum(group, groups[group.name])
        ),
        requeue_at=earliest(*gone),
    )


def _has_minimum(group: DesiredGroup, units: Sequence[GroupReplica]) -> bool:
    needed = min(group.config.min_available, len(units))
    return sum(is_replica_available(unit.cliques) for unit in units) >= needed


def is_labelled_older(context: SetContext, replica: ReplicaView, base_name: str) -> bool:
    base = replica.gangs.get(base_name)
    reported = base.metadata.labels.get(labels.GENERATION_HASH) if base else None
    return reported is not None and reported != context.newest_generation_hash


def update_priority(replica: ReplicaView, *, is_available: bool) -> UpdatePriority:
    """Return the priority of a replica (spec/rolling-update.md, "PodGangSet (PGS) Replica Selection").

    A replica is not available while a standalone clique or a group is below its minimum, also if it never reached its
    minimum. A broken group replica above the minimum of its group does not count.
    """
    if not any(view.scheduled_count for view in replica.cliques.values()):
        return UpdatePriority.NOTHING_SCHEDULED
    return UpdatePriority.AVAILABLE if is_available else UpdatePriority.UNAVAILABLE

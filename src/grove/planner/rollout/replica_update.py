"""One set replica in an update: its standalone cliques and its groups, side by side."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from enum import IntEnum

import msgspec

from grove.api import labels
from grove.api.types.podcliqueset import CurrentlyUpdating
from grove.planner.actions import LiveRead, earliest
from grove.planner.desired_state import CliqueBlueprint, GroupBlueprint, ReplicaBlueprint
from grove.planner.gangs.scheduling_gates import base_placement
from grove.planner.live_reads import read_live
from grove.planner.rollout.clique_update import CliqueRoll, gone_at, has_old_pods, lingering_pods, roll_clique
from grove.planner.rollout.group_update import GroupRoll, UnitView, is_old, roll_group
from grove.planner.rollout.stall import StallReason, longest
from grove.planner.snapshot import UNTIL_TOLD, SetContext
from grove.planner.status.availability import GroupReplica, has_minimum, is_replica_available
from grove.planner.teardown.recreation import Recreations, RecreationUnit, look_at_scale
from grove.planner.views import CliqueView, ReplicaView

_EPOCH = datetime.fromtimestamp(0, UTC)


class UpdatePriority(IntEnum):
    """Whose turn comes first: a replica with nothing on nodes, then one that is not available, then the others."""

    NOTHING_SCHEDULED = 0
    UNAVAILABLE = 1
    AVAILABLE = 2


class UpdateRole(msgspec.Struct, frozen=True, kw_only=True):
    """What a replica may do about a newer template."""

    # Its turn: from here on everything of it is made anew from the newest templates.
    is_turn: bool = False
    # That turn as it is stored.
    turn: CurrentlyUpdating | None = None
    # OnDelete: templates are taken over at once and everywhere, and nothing is deleted for them.
    is_on_delete: bool = False
    # The template hashes of every stored revision: what an update before this one aimed at.
    stored_hashes: Mapping[str, Mapping[str, str]] = {}
    # Of a training set: how often this replica was to be restarted so far.
    restarts: int = 0


NO_ROLE = UpdateRole()


class ReplicaRoll(msgspec.Struct, frozen=True, kw_only=True):
    """How the update of one replica stands and what it does next."""

    cliques: dict[str, CliqueRoll] = {}
    groups: dict[str, GroupRoll] = {}
    takes: tuple[RecreationUnit, ...] = ()
    looks: tuple[LiveRead, ...] = ()
    wait: StallReason | None = None
    requeue_at: datetime | None = None

    def may_patch(self, clique: CliqueBlueprint, role: UpdateRole) -> bool:
        """May this clique's object take the template of its replica over? Members only where nothing is recreated."""
        if clique.group:
            return role.is_on_delete
        roll = self.cliques.get(clique.name)
        return roll is not None and roll.may_patch


def roll_replica(
    context: SetContext,
    replica: ReplicaView,
    blueprint: ReplicaBlueprint,
    recreations: Recreations,
    role: UpdateRole,
    now: datetime,
) -> ReplicaRoll:
    cliques = {
        clique.name: _roll_clique(context, replica.cliques[clique.name], clique, role, now)
        for clique in blueprint.base.cliques
        if not clique.group and recreations.is_present(replica, clique)
    }
    groups: dict[str, GroupRoll] = {}
    takes: list[RecreationUnit] = []
    looks = [read_live(replica.cliques[n]) for n, roll in cliques.items() if roll.needs_look]
    for group in blueprint.groups:
        roll = _roll_group(context, replica, blueprint, group, recreations, role, now)
        if roll is None:
            continue
        groups[group.name] = roll
        takes += [RecreationUnit(group=group.name, index=j) for j in roll.takes]
        if roll.needs_look:
            looks += _look_at_group(context, replica, group)
    looks += [look_at_scale(context, replica, unit) for unit in takes]
    rolls: tuple[CliqueRoll | GroupRoll, ...] = (*cliques.values(), *groups.values())
    wait = longest(roll.wait for roll in rolls)
    return ReplicaRoll(
        cliques=cliques,
        groups=groups,
        takes=tuple(takes),
        looks=tuple(looks),
        wait=wait,
        requeue_at=earliest(
            *(roll.requeue_at for roll in rolls), wait.stalled_at if wait and not wait.is_stalled(now) else None
        ),
    )


def held(roll: ReplicaRoll, hold_until: datetime) -> ReplicaRoll:
    """The same update without its acts, until then."""
    idle = {n: msgspec.structs.replace(one, deletes=(), needs_look=False) for n, one in roll.cliques.items()}
    is_waiting = bool(roll.takes or roll.looks) and hold_until < UNTIL_TOLD
    requeue_at = earliest(roll.requeue_at, hold_until if is_waiting else None)
    return msgspec.structs.replace(roll, cliques=idle, takes=(), looks=(), requeue_at=requeue_at)


def _roll_clique(
    context: SetContext, view: CliqueView, clique: CliqueBlueprint, role: UpdateRole, now: datetime
) -> CliqueRoll:
    told = view.clique.status.update_progress
    return roll_clique(
        view,
        context.template_hashes[clique.template.name],
        is_aimed=told is not None and told.pod_clique_set_generation_hash == context.generation_hash,
        may_start=role.is_turn,
        must_stop=role.is_on_delete,
        now=now,
    )


def _roll_group(
    context: SetContext,
    replica: ReplicaView,
    blueprint: ReplicaBlueprint,
    group: GroupBlueprint,
    recreations: Recreations,
    role: UpdateRole,
    now: datetime,
) -> GroupRoll | None:
    current = replica.groups.get(group.name)
    if current is None or current.metadata.is_terminating:
        return None
    told = current.status.update_progress
    return roll_group(
        current,
        tuple(
            _units(
                context,
                replica,
                blueprint,
                group,
                recreations,
                aimed_at=role.stored_hashes.get(told.pod_clique_set_generation_hash, {}) if told else {},
            )
        ),
        is_aimed=told is not None and told.pod_clique_set_generation_hash == context.generation_hash,
        may_start=role.is_turn,
        must_stop=role.is_on_delete,
        now=now,
    )


def _units(
    context: SetContext,
    replica: ReplicaView,
    blueprint: ReplicaBlueprint,
    group: GroupBlueprint,
    recreations: Recreations,
    *,
    aimed_at: Mapping[str, str],
) -> Iterable[UnitView]:
    members: dict[int, list[CliqueBlueprint]] = {}
    for clique in blueprint.cliques:
        if clique.group == group.name:
            members.setdefault(clique.group_replica_index, []).append(clique)
    baseless_since = _unplaced_since(replica, blueprint, recreations)
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
            is_going=any(recreations.of(clique) is not None for clique in cliques),
            baseless_since=baseless_since if cliques[0].base_gang else None,
            was_updated=all(
                view is not None and not is_old(view, aimed_at.get(c.template.name)) for view, _, c in views
            ),
            is_same_aim=all(aimed_at.get(c.template.name) == target for _, target, c in views),
        )


def _unplaced_since(replica: ReplicaView, blueprint: ReplicaBlueprint, recreations: Recreations) -> datetime | None:
    """Since when the base gang is not scheduled, as far as its pods tell; None: it is."""
    views = [replica.cliques[c.name] for c in blueprint.base.cliques if recreations.is_present(replica, c)]
    if base_placement(tuple(views), base_name=blueprint.name, clique_count=len(blueprint.base.cliques)).may_go:
        return None
    waiting = (pod for view in views for pod in view.active if not pod.is_scheduled)
    return max((pod.metadata.creation_timestamp or _EPOCH for pod in waiting), default=_EPOCH)


def _look_at_group(context: SetContext, replica: ReplicaView, group: GroupBlueprint) -> Iterable[LiveRead]:
    """All of it: whether the minimum is available is a question about every replica."""
    views = [v for v in replica.cliques.values() if v.clique.metadata.labels.get(labels.GROUP) == group.name]
    if views:
        selector = labels.selector({**labels.default_labels(context.name), labels.GROUP: group.name})
        owners = tuple(view.owner_key for view in sorted(views, key=lambda view: view.uid))
        yield LiveRead(namespace=context.namespace, selector=selector, owners=owners)


class Freshness(msgspec.Struct, frozen=True, kw_only=True):
    """What of a replica runs the newest templates, whatever its own revision is."""

    is_outdated: bool
    # Those that also have their minimum ready.
    updated_cliques: tuple[str, ...] = ()
    updated_groups: tuple[str, ...] = ()
    # When the last pod of an older template is given up, if it does not leave before.
    requeue_at: datetime | None = None


def freshness(
    context: SetContext,
    replica: ReplicaView,
    blueprint: ReplicaBlueprint,
    groups: Mapping[str, Sequence[GroupReplica]],
    now: datetime,
) -> Freshness:
    """Of standalone cliques and groups; a group is as old as its oldest member."""
    stale_groups: set[str] = set()
    updated: list[str] = []
    gone: list[datetime] = []
    is_any_older = is_labelled_older(context, replica, blueprint.base.name)
    for clique in blueprint.cliques:
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
            for group in blueprint.groups
            if group.name not in stale_groups and _has_minimum(group, groups[group.name])
        ),
        requeue_at=earliest(*gone),
    )


def _has_minimum(group: GroupBlueprint, units: Sequence[GroupReplica]) -> bool:
    needed = min(group.config.min_available, len(units))
    return sum(is_replica_available(unit.cliques) for unit in units) >= needed


def is_labelled_older(context: SetContext, replica: ReplicaView, base_name: str) -> bool:
    base = replica.gangs.get(base_name)
    told = base.metadata.labels.get(labels.GENERATION_HASH) if base else None
    return told is not None and told != context.newest_generation_hash


def standing(replica: ReplicaView, *, is_available: bool) -> UpdatePriority:
    """spec/rolling-update.md, "PodGangSet (PGS) Replica Selection".

    Not available is a replica with a standalone clique or a group below its minimum, whether it lost it or never had
    it. A broken replica above the minimum of its group changes nothing.
    """
    if not any(view.scheduled_count for view in replica.cliques.values()):
        return UpdatePriority.NOTHING_SCHEDULED
    return UpdatePriority.AVAILABLE if is_available else UpdatePriority.UNAVAILABLE

"""Status of one set replica: the statuses of its children, and what it adds to the status of its set."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from grove.api import names
from grove.api.types.podcliqueset import GangStatus
from grove.api.types.podgang import GangPhase
from grove.planner.actions import CreateRejection, StatusPriority, StatusWrite
from grove.planner.gangs.gang_state import GangState
from grove.planner.replica_facts import ReplicaFacts
from grove.planner.rollout.replica_update import ReplicaRoll
from grove.planner.rollout.revision_history import clique_template_name
from grove.planner.snapshot import SetContext
from grove.planner.status.availability import is_available, is_replica_available
from grove.planner.status.child_status import clique_status, gang_health, gang_status, group_status
from grove.planner.views import CliqueView, ReplicaView


class ReplicaSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The part of one replica in the status of its set."""

    is_available: bool = False
    # Some pod that is not terminating has phase Running.
    is_running: bool = False
    # Some child status counts units as updated that are not, or not any more.
    is_overstated: bool = False
    waiting_gangs: tuple[GangStatus, ...] = ()
    rejected_gang_count: int = 0
    # Rejections of objects that are still missing.
    failures: tuple[CreateRejection, ...] = ()
    # Teardowns that are due, and held by a mass outage.
    held_count: int = 0
    # Deletions of its update are due, and held by a mass outage.
    is_update_held: bool = False
    # Why its gangs are not placed all or nothing, and which requests its scheduler does not support, in words.
    gangless: tuple[str, ...] = ()
    unmet: tuple[str, ...] = ()


def is_set_replica_available(facts: ReplicaFacts) -> bool:
    """Return whether every standalone clique and every group has its minimum."""
    context, replica = facts.context, facts.replica
    for template in context.standalone:
        clique = replica.cliques.get(names.standalone_clique(context.name, replica.index, template.name))
        if clique is None or not is_available(clique):
            return False
    return all(
        sum(is_replica_available(cliques) for cliques in facts.group_cliques(group))
        >= min(group.config.min_available, group.replicas)
        for group in facts.desired.groups
    )


def is_replica_running(replica: ReplicaView) -> bool:
    return any(view.running_count for view in replica.cliques.values())


def summarize_replica(
    facts: ReplicaFacts,
    gangs: Sequence[GangState],
    statuses: Iterable[StatusWrite],
    failures: tuple[CreateRejection, ...],
    *,
    held_count: int,
    is_update_held: bool,
) -> ReplicaSummary:
    """Return what a replica adds to the status of its set; `statuses` are the writes for its children."""
    reported = (name for state in gangs for name in state.cliques)
    return ReplicaSummary(
        is_available=is_set_replica_available(facts),
        is_running=is_replica_running(facts.replica),
        is_overstated=any(status.lowers_updated_count for status in statuses)
        or has_stale_counts(facts.context, facts.replica, reported),
        waiting_gangs=tuple(status for state in gangs for status in _waiting_gang(state)),
        rejected_gang_count=sum(state.backoff is not None for state in gangs),
        failures=failures,
        held_count=held_count,
        is_update_held=is_update_held,
        gangless=tuple(dict.fromkeys(words for state in gangs for words in state.scheduler_plan.gangless)),
        unmet=tuple(dict.fromkeys(words for state in gangs for words in state.scheduler_plan.unmet)),
    )


def plan_child_statuses(facts: ReplicaFacts, gangs: Sequence[GangState], roll: ReplicaRoll) -> tuple[StatusWrite, ...]:
    """Return the statuses of cliques, gangs and groups that change."""
    found = [status for state in gangs for status in _plan_gang_statuses(facts, state, roll)]
    found += _plan_group_statuses(facts, roll)
    index = facts.replica.index
    # A user may change the label that holds the index. The statuses of a replica are written before it is acted on,
    # so they need the index of the replica that they are about.
    return tuple(
        status if status.replica_index == index else msgspec.structs.replace(status, replica_index=index)
        for status in found
        if status is not None
    )


def _plan_gang_statuses(facts: ReplicaFacts, state: GangState, roll: ReplicaRoll) -> Iterator[StatusWrite | None]:
    context, now = facts.context, facts.now
    for clique in state.desired.cliques:
        if clique.name in state.cliques:
            view, rolled = state.cliques[clique.name], roll.cliques.get(clique.name)
            yield clique_status(context, clique.template.name, view, state.backoff, rolled, now)
    yield from _plan_old_statuses(facts, state)
    if state.gang is not None and not state.gang.metadata.is_terminating:
        health = gang_health(state.gang, state.views, state.clique_count, state.scheduler_plan.messages)
        write = gang_status(state.gang, health, now, state.scheduler_plan.messages)
        if write is not None and context.is_training and write.priority is StatusPriority.TRANSITION:
            # When a user deletes the only clique of the gang, the status of the gang alone records that it ran.
            write = msgspec.structs.replace(write, priority=StatusPriority.DURABLE)
        yield write


def _plan_group_statuses(facts: ReplicaFacts, roll: ReplicaRoll) -> Iterator[StatusWrite | None]:
    for group in facts.desired.groups:
        current = facts.replica.groups.get(group.name)
        if current is not None and not current.metadata.is_terminating:
            cliques, units = facts.group_cliques(group), facts.groups[group.name]
            rolled = roll.groups.get(group.name)
            yield group_status(facts.context, group.config, current, units, cliques, rolled, facts.now)


def _plan_old_statuses(facts: ReplicaFacts, state: GangState) -> Iterator[StatusWrite]:
    """Return the statuses of cliques of a training attempt that is torn down.

    They stay until their pods are gone, and count them. No decision depends on these counts.
    """
    for clique in state.desired.cliques if facts.context.is_training else ():
        view = facts.replica.cliques.get(clique.name)
        if view is not None and not view.is_terminating and clique.name not in state.cliques:
            write = clique_status(facts.context, clique.template.name, view, None, None, facts.now)
            if write is not None:
                yield msgspec.structs.replace(write, priority=StatusPriority.COUNTS, on_success=())


def has_stale_counts(context: SetContext, replica: ReplicaView, reported: Iterable[str] = ()) -> bool:
    """Return whether the stored status of a clique counts more updated pods than there are.

    Cliques that are recreated or removed keep their last status until they are gone. `reported` are the cliques whose
    status is kept up to date.
    """
    current = frozenset(reported)
    return any(
        view.clique.status.updated_replicas > _count_newest(context, view)
        for name, view in replica.cliques.items()
        if name not in current and not view.is_terminating
    )


def _count_newest(context: SetContext, view: CliqueView) -> int:
    """Count the pods of the newest template of this clique. Another clique may have the hash of an older one of it."""
    newest = context.newest_hashes.get(clique_template_name(context, view), "")
    return view.active_hashes.get(newest, 0)


def _waiting_gang(state: GangState) -> Iterator[GangStatus]:
    if state.gang is None:
        yield GangStatus(name=state.desired.name, phase=GangPhase.PENDING)
        return
    health = gang_health(state.gang, state.views, state.clique_count)
    if health.phase != GangPhase.RUNNING:
        yield GangStatus(name=state.desired.name, phase=health.phase)

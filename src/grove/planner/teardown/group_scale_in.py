"""Delete group replicas above the count, and finish removals that have begun. `unit_removal.py` deletes one unit."""

import msgspec

from grove.api import labels, names
from grove.api.reasons import EventReason, FindingReason
from grove.api.types.meta import ObjectMeta
from grove.api.values.numbers_in_text import parse_number
from grove.planner.actions import Chain, ChainPriority, EventRecord, Finding, Patch, chain
from grove.planner.desired_state import DesiredGroup, DesiredReplica
from grove.planner.snapshot import SetContext
from grove.planner.teardown.recreation import Recreations, RecreationUnit, plan_intent
from grove.planner.teardown.unit_removal import is_marked, plan_group_replica_removal
from grove.planner.views import CliqueView, ReplicaView


class Removals(msgspec.Struct, frozen=True, kw_only=True):
    chains: tuple[Chain, ...] = ()
    findings: tuple[Finding, ...] = ()
    # Gangs whose unit must be gone before anything of it is created again.
    busy_gangs: frozenset[str] = frozenset()


def plan_group_replica_removals(context: SetContext, replica: ReplicaView, desired: DesiredReplica) -> Removals:
    """Delete group replicas above the count, and those whose removal has begun."""
    chains: list[Chain] = []
    findings: list[Finding] = []
    busy: list[str] = []
    wanted = {gang.name for gang in desired.gangs}
    for group in desired.groups:
        for j, members in sorted(_observed_group_replicas(replica, group).items()):
            if j < group.config.min_available:
                continue
            gang_name = names.scaled_gang(group.name, j - group.config.min_available)
            gang = replica.gangs.get(gang_name)
            if gang_name in wanted and not is_marked(gang):
                continue
            why = (
                "the group was scaled in" if gang_name not in wanted else "its deletion had begun and is finished first"
            )
            reason = FindingReason.BEING_REMOVED if gang_name not in wanted else FindingReason.TEARDOWN_UNFINISHED
            selector = {labels.GROUP: group.name, labels.GROUP_REPLICA_INDEX: str(j)}
            stages = plan_group_replica_removal(context, gang, members, selector, why)
            chains += chain(gang_name, replica.index, *stages, rank=ChainPriority.FIRST)
            findings.append(
                Finding(
                    about=f"podgang/{gang_name}", reason=reason, message=f"{group.name} replica {j} is deleted: {why}"
                )
            )
            busy.append(gang_name)
    return Removals(chains=tuple(chains), findings=tuple(findings), busy_gangs=frozenset(busy))


def plan_zero_intents(
    context: SetContext, replica: ReplicaView, desired: DesiredReplica, recreations: Recreations
) -> tuple[Patch, ...]:
    """Record the deletion of group replicas of the base gang whose group was scaled to zero.

    They have no gang of their own to mark. So they are deleted like a unit that is recreated, but nothing is created
    for it. If the group is scaled up meanwhile, the rest of the old incarnation is deleted before the new one starts.
    """
    base = replica.gangs.get(desired.base.name)
    if base is None or base.metadata.is_terminating:
        return ()
    found = {
        RecreationUnit(group=clique.group, index=clique.group_replica_index): None
        for clique in desired.parked
        if clique.name in replica.cliques and recreations.of(clique) is None
    }
    if not found:
        return ()
    which = ", ".join(f"{unit.group} replica {unit.index}" for unit in found)
    reason = "the group was scaled to zero"
    return (
        plan_intent(
            context,
            base,
            tuple(found),
            scale={},
            seen=[view.incarnation for view in replica.cliques.values()],
            reason=reason,
            event=EventRecord(
                subject=context.subject,
                reason=EventReason.GROUP_REPLICA_DELETED,
                message=f"{which} is deleted: {reason}",
            ),
        ),
    )


def _observed_group_replicas(replica: ReplicaView, group: DesiredGroup) -> dict[int, tuple[CliqueView, ...]]:
    """Return the existing replicas of a group, by the labels of their cliques and gangs."""
    found: dict[int, list[CliqueView]] = {}
    for clique in replica.cliques.values():
        if clique.clique.metadata.labels.get(labels.GROUP) == group.name:
            found.setdefault(_group_replica_index(clique.clique.metadata), []).append(clique)
    for gang in replica.gangs.values():
        if gang.metadata.labels.get(labels.GROUP) == group.name:
            found.setdefault(_group_replica_index(gang.metadata), [])
    return {j: tuple(members) for j, members in found.items()}


def _group_replica_index(metadata: ObjectMeta) -> int:
    return parse_number(metadata.labels.get(labels.GROUP_REPLICA_INDEX, ""))

"""The replicas of a group as the group judges them: what exists of each, and whether what is missing was ever there."""

from grove.planner.desired_state import CliqueBlueprint, GroupBlueprint, ReplicaBlueprint
from grove.planner.gangs.podgang import referenced_names
from grove.planner.status.availability import GroupReplica
from grove.planner.teardown.recreation import Recreations
from grove.planner.views import ReplicaView


def group_replicas(
    replica: ReplicaView, blueprint: ReplicaBlueprint, group: GroupBlueprint, recreations: Recreations
) -> tuple[GroupReplica, ...]:
    """In the order of their indices. A clique of an older incarnation counts as missing."""
    members: dict[int, list[CliqueBlueprint]] = {j: [] for j in range(group.replicas)}
    for clique in blueprint.cliques:
        if clique.group == group.name:
            members[clique.group_replica_index].append(clique)
    return tuple(_group_replica(replica, cliques, recreations) for cliques in members.values())


def _group_replica(replica: ReplicaView, cliques: list[CliqueBlueprint], recreations: Recreations) -> GroupReplica:
    return GroupReplica(
        cliques=tuple(
            replica.cliques[clique.name] if recreations.is_present(replica, clique) else None for clique in cliques
        ),
        is_coming_back=any(recreations.of(clique) is not None for clique in cliques),
        is_unmade=any(
            clique.name not in replica.cliques and not referenced_names(replica.gangs.get(clique.gang), clique.name)
            for clique in cliques
        ),
    )

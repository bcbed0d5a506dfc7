"""Find the replicas of a group: the existing cliques of each, and whether missing ones ever existed."""

from grove.planner.desired_state import DesiredClique, DesiredGroup, DesiredReplica
from grove.planner.gangs.podgang import referenced_names
from grove.planner.status.availability import GroupReplica
from grove.planner.teardown.recreation import Recreations
from grove.planner.teardown.unit_removal import is_marked
from grove.planner.views import ReplicaView


def group_replicas(
    replica: ReplicaView, desired: DesiredReplica, group: DesiredGroup, recreations: Recreations
) -> tuple[GroupReplica, ...]:
    """Return the replicas of a group by index. A clique of an older incarnation counts as missing."""
    members: dict[int, list[DesiredClique]] = {j: [] for j in range(group.replicas)}
    for clique in desired.cliques:
        if clique.group == group.name:
            members[clique.group_replica_index].append(clique)
    return tuple(_group_replica(replica, cliques, recreations) for cliques in members.values())


def _group_replica(replica: ReplicaView, cliques: list[DesiredClique], recreations: Recreations) -> GroupReplica:
    return GroupReplica(
        cliques=tuple(
            replica.cliques[clique.name] if recreations.is_present(replica, clique) else None for clique in cliques
        ),
        is_coming_back=any(recreations.of(clique) is not None for clique in cliques),
        is_unmade=any(_is_unmade(replica, clique) for clique in cliques),
    )


def _is_unmade(replica: ReplicaView, clique: DesiredClique) -> bool:
    """Return whether the clique was not created yet. One that a scale-in deletes first is wanted as a new one."""
    gang = replica.gangs.get(clique.gang)
    return is_marked(gang) or (clique.name not in replica.cliques and not referenced_names(gang, clique.name))

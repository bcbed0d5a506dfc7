"""Object budget of a set: count the objects at the current scale, and hold creates above the limit.

Admission rejects such a scale, but webhooks may be off. A set above its budget keeps its objects. Replicas that are
scaled out beyond the template get nothing new until they are scaled in; the others are not affected.
"""

from collections.abc import Mapping

from grove.api import labels, names
from grove.api.validation.object_budget import RAISE_BUDGET, objects_of_replica
from grove.api.values.numbers_in_text import is_number
from grove.planner.snapshot import SetContext
from grove.planner.views import ReplicaView


def count_objects(context: SetContext, replica: ReplicaView) -> int:
    """Return how many objects one set replica needs or has, whichever is more."""
    if replica.index >= context.spec.replicas:
        return 0
    group_replicas = {
        config.name: group.spec.replicas
        for config in context.groups
        if (group := replica.groups.get(names.group(context.name, replica.index, config.name))) is not None
    }
    clique_pods = {
        clique.name: view.replicas
        for clique in context.standalone
        if (view := replica.cliques.get(names.standalone_clique(context.name, replica.index, clique.name))) is not None
    }
    needed = objects_of_replica(context.spec.template, group_replicas, clique_pods).total
    pods = sum(view.replicas for view in replica.cliques.values())
    parts = (replica.cliques, replica.groups, replica.gangs, replica.services, replica.autoscalers)
    return max(needed, pods + sum(map(len, parts)))


def is_scaled_out(context: SetContext, replica: ReplicaView) -> bool:
    """Return whether this replica needs more objects than the template gives it."""
    return count_objects(context, replica) > objects_of_replica(context.spec.template, {}, {}).total


def limit_scale(replica: ReplicaView, live_scale: Mapping[str, int]) -> dict[str, int]:
    """Return the scale of the groups of a set above its budget: at most what exists."""
    existing: dict[str, int] = {}
    for view in replica.cliques.values():
        own = view.clique.metadata.labels
        group, index = own.get(labels.GROUP, ""), own.get(labels.GROUP_REPLICA_INDEX, "")
        if is_number(index):
            existing[group] = max(existing.get(group, 0), int(index) + 1)
    # A group without cliques is not scaled to zero.
    return {name: min(replicas, existing.get(name, 1)) for name, replicas in live_scale.items()}


def describe_excess(objects: int, budget: int) -> str:
    return (
        f"at the current scale of its groups and cliques the set needs {objects} objects, and may have {budget}: "
        f"nothing more is created for replicas that are scaled out; scale them in, or {RAISE_BUDGET}"
    )

"""Topology scopes: the constraints of each gang, and the pods that must share a domain across gangs.

The constraints themselves are resolved in `node_label_keys.py`. Where pods go is the scheduler's decision.
"""

from collections.abc import Iterable, Mapping

import msgspec

from grove.api import labels, names
from grove.api.types.podgang import GangTopologyConstraint, PodGang, PodGangSpec, TopologyGroupConfig
from grove.planner.desired_state import DesiredClique, DesiredGang, DesiredReplica
from grove.planner.topology.node_label_keys import Topology


class TopologyParts(msgspec.Struct, frozen=True, kw_only=True):
    """The topology of one PodGang."""

    constraint: GangTopologyConstraint | None = None
    group_configs: tuple[TopologyGroupConfig, ...] = ()
    # By the name of the clique.
    cliques: dict[str, GangTopologyConstraint] = {}


class RequiredScope(msgspec.Struct, frozen=True, kw_only=True):
    """Cliques whose pods must share one value of a node label; scopes nest, and the broadest come first."""

    # The set replica, the group replica or the clique itself.
    name: str
    key: str
    cliques: tuple[str, ...]


def topology_parts(topology: Topology, gang: DesiredGang) -> TopologyParts:
    """Return the topology of a gang.

    A base gang has the constraint of the whole gang, and an entry for each of its group replicas with a constraint. A
    scaled gang has one group replica only: the gang itself has that constraint.
    """
    packed = {c.name: topology.cliques[c.template.name] for c in gang.cliques if c.template.name in topology.cliques}
    if gang.is_base:
        return TopologyParts(
            constraint=topology.whole, group_configs=tuple(_group_configs(topology, gang)), cliques=packed
        )
    around = next((topology.around[c.template.name] for c in gang.cliques if c.template.name in topology.around), None)
    return TopologyParts(constraint=around or topology.whole, cliques=packed)


def _group_configs(topology: Topology, gang: DesiredGang) -> Iterable[TopologyGroupConfig]:
    for name, cliques in _group_replicas(gang.cliques).items():
        constraint = topology.around.get(cliques[0].template.name)
        if constraint is not None:
            yield TopologyGroupConfig(
                name=name, pod_group_names=tuple(clique.name for clique in cliques), topology_constraint=constraint
            )


def _group_replicas(cliques: Iterable[DesiredClique]) -> dict[str, list[DesiredClique]]:
    found: dict[str, list[DesiredClique]] = {}
    for clique in cliques:
        if clique.group:
            found.setdefault(names.group_replica(clique.group, clique.group_replica_index), []).append(clique)
    return found


def stored_parts(spec: PodGangSpec) -> TopologyParts:
    """Return the stored topology of a gang: it stays while its binding cannot be resolved."""
    return TopologyParts(
        constraint=spec.topology_constraint,
        group_configs=spec.topology_constraint_group_configs,
        cliques={g.name: g.topology_constraint for g in spec.podgroups if g.topology_constraint is not None},
    )


def required_scopes(topology: Topology, replica: DesiredReplica) -> tuple[RequiredScope, ...]:
    """Yield every scope of a replica with a required constraint, including its scaled gangs."""
    cliques = tuple(replica.cliques)
    scopes = [_scope(replica.name, topology.whole, cliques)]
    scopes += [
        _scope(name, topology.around.get(members[0].template.name), members)
        for name, members in _group_replicas(cliques).items()
    ]
    scopes += [_scope(clique.name, topology.cliques.get(clique.template.name), (clique,)) for clique in cliques]
    return tuple(scope for scope in scopes if scope is not None)


def stored_scopes(gangs: Mapping[str, PodGang], replica: DesiredReplica) -> tuple[RequiredScope, ...]:
    """Return the required scopes of stored gangs: while their topology is not defined, replacements keep their domain.

    A gang that was created meanwhile has no constraints. Its pods are free, so it is not part of a wider scope either.
    """
    found = [(gang, gangs[gang.name]) for gang in replica.gangs if gang.name in gangs]
    pinned = [(gang, stored) for gang, stored in found if labels.TOPOLOGY_NAME in stored.metadata.annotations]
    scopes: list[RequiredScope | None] = []
    for gang, stored in pinned:
        around = [clique for other, _ in pinned for clique in other.cliques] if gang.is_base else gang.cliques
        scopes.append(_scope(gang.name, stored.spec.topology_constraint, around))
    for gang, stored in pinned:
        by_name = {clique.name: clique for clique in gang.cliques}
        for config in stored.spec.topology_constraint_group_configs:
            members = [by_name[name] for name in config.pod_group_names if name in by_name]
            scopes.append(_scope(config.name, config.topology_constraint, members))
        for group in stored.spec.podgroups:
            if group.name in by_name:
                scopes.append(_scope(group.name, group.topology_constraint, (by_name[group.name],)))
    return tuple(scope for scope in scopes if scope is not None)


def _scope(
    name: str, constraint: GangTopologyConstraint | None, cliques: Iterable[DesiredClique]
) -> RequiredScope | None:
    pack = constraint.pack_constraint if constraint else None
    if pack is None or not pack.required:
        return None
    return RequiredScope(name=name, key=pack.required, cliques=tuple(clique.name for clique in cliques))

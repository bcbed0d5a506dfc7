"""The topology constraints of a set in the words of its cluster: node label keys in place of domains.

Resolved once per change of the set or of its ClusterTopologyBinding, and asked by whoever draws a gang (`packing.py`).
What is wrong with a constraint that somebody writes is told by admission (`api/validation/topology.py`); here it may
come true after all: a binding that is missing is waited for.
"""

from collections.abc import Iterator, Mapping

import msgspec

from grove.api.meta import ConditionStatus
from grove.api.podcliqueset import SetTemplate, TopologyConstraint
from grove.api.podgang import GangPackConstraint, GangTopologyConstraint
from grove.api.reasons import Reason
from grove.api.topologybinding import ClusterTopologyBinding
from grove.planner.availability import Verdict

Bindings = Mapping[str, ClusterTopologyBinding]


class Topology(msgspec.Struct, frozen=True, kw_only=True):
    """How close together a set wants its parts; keys of node labels, no domains."""

    # The ClusterTopologyBinding that defines the domains; "": nothing is to be packed.
    name: str = ""
    # Of every replica as a whole.
    whole: GangTopologyConstraint | None = None
    # Of the group around a clique, by the name of the clique.
    around: Mapping[str, GangTopologyConstraint] = {}
    # By the name of the clique.
    cliques: Mapping[str, GangTopologyConstraint] = {}
    # What nobody defines yet, in words. While it lasts, what a stored gang says stays, and no new gang is offered.
    missing: str = ""
    # The set's condition TopologyLevelsUnavailable; None: it has none.
    verdict: Verdict | None = None


NO_TOPOLOGY = Topology()


def resolve_topology(template: SetTemplate, bindings: Bindings, *, is_enabled: bool) -> Topology:
    """The order of the questions is that of the condition's reasons. `bindings` by their names."""
    constraints = tuple(_constraints(template))
    if not is_enabled:
        return _switched_off() if any(map(_domains, constraints)) else NO_TOPOLOGY
    if not constraints:
        return Topology(verdict=_available("the set has no topology constraints"))
    name = next((constraint.topology_name for constraint in constraints if constraint.topology_name), "")
    if not name:
        message = "no constraint of the set says which ClusterTopologyBinding defines its domains: add topologyName"
        return _waiting(ConditionStatus.UNKNOWN, Reason.TOPOLOGY_NAME_MISSING, message)
    binding = bindings.get(name)
    if binding is None:
        message = f'there is no ClusterTopologyBinding "{name}": create it'
        return _waiting(ConditionStatus.UNKNOWN, Reason.CLUSTER_TOPOLOGY_NOT_FOUND, message)
    keys = {level.domain: level.key for level in binding.spec.levels}
    unknown = list(dict.fromkeys(d for constraint in constraints for d in _domains(constraint) if d not in keys))
    if unknown:
        message = f'ClusterTopologyBinding "{name}" has no level {", ".join(unknown)}: add it'
        return _waiting(ConditionStatus.TRUE, Reason.TOPOLOGY_LEVELS_UNAVAILABLE, message)
    return _resolved(template, name, keys)


def _resolved(template: SetTemplate, name: str, keys: Mapping[str, str]) -> Topology:
    return Topology(
        name=name,
        whole=_translated(template.topology_constraint, keys),
        around={
            clique: found
            for group in template.pod_clique_scaling_groups
            if (found := _translated(group.topology_constraint, keys)) is not None
            for clique in group.clique_names
        },
        cliques={
            clique.name: found
            for clique in template.cliques
            if (found := _translated(clique.topology_constraint, keys)) is not None
        },
        verdict=_available(f'ClusterTopologyBinding "{name}" has every level that the set names'),
    )


def _constraints(template: SetTemplate) -> Iterator[TopologyConstraint]:
    """From the set inwards."""
    around = (template.topology_constraint, *(g.topology_constraint for g in template.pod_clique_scaling_groups))
    found = (*around, *(clique.topology_constraint for clique in template.cliques))
    return (constraint for constraint in found if constraint is not None)


def _domains(constraint: TopologyConstraint) -> tuple[str, ...]:
    return tuple(domain for domain in (constraint.required_domain, constraint.preferred_domain) if domain)


def _translated(constraint: TopologyConstraint | None, keys: Mapping[str, str]) -> GangTopologyConstraint | None:
    if constraint is None or not _domains(constraint):
        return None
    return GangTopologyConstraint(
        pack_constraint=GangPackConstraint(
            required=keys.get(constraint.required_domain), preferred=keys.get(constraint.preferred_domain)
        )
    )


def _switched_off() -> Topology:
    message = "topology-aware scheduling is switched off: the constraints of the set are not carried out"
    return Topology(
        verdict=Verdict(
            status=ConditionStatus.UNKNOWN, reason=Reason.TOPOLOGY_AWARE_SCHEDULING_DISABLED, message=message
        )
    )


def _available(message: str) -> Verdict:
    return Verdict(status=ConditionStatus.FALSE, reason=Reason.ALL_TOPOLOGY_LEVELS_AVAILABLE, message=message)


def _waiting(status: ConditionStatus, reason: Reason, message: str) -> Topology:
    return Topology(missing=message, verdict=Verdict(status=status, reason=reason, message=message))

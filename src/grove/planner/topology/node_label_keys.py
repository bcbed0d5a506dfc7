"""The topology constraints of a set in the words of its cluster: node label keys in place of domains.

Resolved once per change of the set or of its ClusterTopologyBinding; `topology_scopes.py` asks for it to draw a
gang. Admission
rejects constraints that are wrong (`topology_constraints.py`). What was there then may vanish later: a constraint
that cannot be translated is left out of new gangs until it can be, or no new gang gets pods until then.
"""

from collections.abc import Iterator, Mapping

import msgspec

from grove.api.reasons import ConditionType, Reason
from grove.api.types.clustertopologybinding import ClusterTopologyBinding
from grove.api.types.meta import Condition, ConditionStatus, find_condition
from grove.api.types.podcliqueset import SetTemplate, TopologyConstraint
from grove.api.types.podgang import GangPackConstraint, GangTopologyConstraint
from grove.planner.status.availability import ConditionResult

Bindings = Mapping[str, ClusterTopologyBinding]
# What follows from something that is missing.
PLACED_WITHOUT = "until then new gangs are placed without it"
WAITING = "until then no pod of a new gang is created"


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
    # What is not defined now, in words. While it lasts, what a stored gang says stays; a new one says what can be said.
    missing: str = ""
    # No pod of a new gang is made while something is missing.
    is_waiting: bool = False
    # The set's condition TopologyLevelsUnavailable; None: it has none.
    verdict: ConditionResult | None = None


NO_TOPOLOGY = Topology()


def resolve_topology(template: SetTemplate, bindings: Bindings, *, is_enabled: bool, waits: bool = False) -> Topology:
    """Ask in the order of the condition's reasons. `bindings` by name; `waits`: what is missing is waited for."""
    constraints = tuple(_constraints(template))
    if not is_enabled:
        return _switched_off() if any(map(_domains, constraints)) else NO_TOPOLOGY
    if not constraints:
        return Topology(verdict=_available("the set has no topology constraints"))
    name = next((constraint.topology_name for constraint in constraints if constraint.topology_name), "")
    if not name:
        message = "no constraint of the set says which ClusterTopologyBinding defines its domains: add topologyName"
        return _missing(ConditionStatus.UNKNOWN, Reason.TOPOLOGY_NAME_MISSING, message, waits=waits)
    binding = bindings.get(name)
    if binding is None:
        message = f'there is no ClusterTopologyBinding "{name}": create it'
        return _missing(ConditionStatus.UNKNOWN, Reason.CLUSTER_TOPOLOGY_NOT_FOUND, message, waits=waits)
    keys = {level.domain: level.key for level in binding.spec.levels}
    resolved = _resolved(template, name, keys)
    unknown = list(dict.fromkeys(d for constraint in constraints for d in _domains(constraint) if d not in keys))
    if unknown:
        message = f'ClusterTopologyBinding "{name}" has no level {", ".join(unknown)}: add it'
        missing = _missing(ConditionStatus.TRUE, Reason.TOPOLOGY_LEVELS_UNAVAILABLE, message, waits=waits)
        return msgspec.structs.replace(
            resolved, missing=missing.missing, is_waiting=missing.is_waiting, verdict=missing.verdict
        )
    return resolved


def is_told_to_wait(conditions: tuple[Condition, ...]) -> bool:
    """Return whether the operator was set up to wait for what is missing, as far as the set says so."""
    told = find_condition(conditions, ConditionType.TOPOLOGY_LEVELS_UNAVAILABLE)
    return told is not None and told.message.endswith(WAITING)


def _resolved(template: SetTemplate, name: str, keys: Mapping[str, str]) -> Topology:
    """Translate what has a key; the name of the binding stands for something only if anything has."""
    whole = _translated(template.topology_constraint, keys)
    around = {
        clique: found
        for group in template.pod_clique_scaling_groups
        if (found := _translated(group.topology_constraint, keys)) is not None
        for clique in group.clique_names
    }
    cliques = {
        clique.name: found
        for clique in template.cliques
        if (found := _translated(clique.topology_constraint, keys)) is not None
    }
    return Topology(
        name=name if whole or around or cliques else "",
        whole=whole,
        around=around,
        cliques=cliques,
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
    """Return the constraint in keys; None if there is none, or none of its domains is defined."""
    if constraint is None:
        return None
    required, preferred = keys.get(constraint.required_domain), keys.get(constraint.preferred_domain)
    if required is None and preferred is None:
        return None
    return GangTopologyConstraint(pack_constraint=GangPackConstraint(required=required, preferred=preferred))


def _switched_off() -> Topology:
    message = "topology-aware scheduling is switched off: the constraints of the set are not carried out"
    return Topology(
        verdict=ConditionResult(
            status=ConditionStatus.UNKNOWN, reason=Reason.TOPOLOGY_AWARE_SCHEDULING_DISABLED, message=message
        )
    )


def _available(message: str) -> ConditionResult:
    return ConditionResult(status=ConditionStatus.FALSE, reason=Reason.ALL_TOPOLOGY_LEVELS_AVAILABLE, message=message)


def _missing(status: ConditionStatus, reason: Reason, message: str, *, waits: bool) -> Topology:
    verdict = ConditionResult(
        status=status, reason=reason, message=f"{message}; {WAITING if waits else PLACED_WITHOUT}"
    )
    return Topology(missing=message, is_waiting=waits, verdict=verdict)

"""Resolve the topology constraints of a set: node label keys instead of domain names.

They are resolved once per change of the set or of its ClusterTopologyBinding; `topology_scopes.py` writes them into
gangs. Admission rejects invalid constraints (`topology_constraints.py`), but a binding or a level may be deleted later.
A constraint that cannot be resolved is left out of new gangs, or new gangs get no pods, until it can be resolved.
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
# The behavior for missing bindings and levels.
PLACED_WITHOUT = "until then new gangs are placed without it"
WAITING = "until then no pod of a new gang is created"


class Topology(msgspec.Struct, frozen=True, kw_only=True):
    """The resolved topology constraints of a set, as node label keys."""

    # The ClusterTopologyBinding that defines the domains; "": nothing is to be packed.
    name: str = ""
    # The constraint of each replica as a whole.
    whole: GangTopologyConstraint | None = None
    # The constraint of the group of a clique, by the name of the clique.
    around: Mapping[str, GangTopologyConstraint] = {}
    # The constraint of each clique, by its name.
    cliques: Mapping[str, GangTopologyConstraint] = {}
    # A message about what is not defined. Meanwhile stored gangs keep their constraints; new ones get those with a key.
    missing: str = ""
    # New gangs get no pods while something is missing.
    is_waiting: bool = False
    # The set's condition TopologyLevelsUnavailable; None: it has none.
    verdict: ConditionResult | None = None


NO_TOPOLOGY = Topology()


def resolve_topology(template: SetTemplate, bindings: Bindings, *, is_enabled: bool, waits: bool = False) -> Topology:
    """Resolve the constraints. Checks are in the order of the reasons of the condition.

    `bindings`: the bindings by name. `waits`: new gangs wait for what is missing.
    """
    constraints = tuple(_constraints(template))
    if not is_enabled:
        return _report_disabled() if any(map(_domains, constraints)) else NO_TOPOLOGY
    if not constraints:
        return Topology(verdict=_report_available("the set has no topology constraints"))
    name = next((constraint.topology_name for constraint in constraints if constraint.topology_name), "")
    if not name:
        message = "no constraint of the set names the ClusterTopologyBinding that defines its domains: add topologyName"
        return _report_missing(ConditionStatus.UNKNOWN, Reason.TOPOLOGY_NAME_MISSING, message, waits=waits)
    binding = bindings.get(name)
    if binding is None:
        message = f'there is no ClusterTopologyBinding "{name}": create it'
        return _report_missing(ConditionStatus.UNKNOWN, Reason.CLUSTER_TOPOLOGY_NOT_FOUND, message, waits=waits)
    keys = {level.domain: level.key for level in binding.spec.levels}
    resolved = _resolve(template, name, keys)
    unknown = list(dict.fromkeys(d for constraint in constraints for d in _domains(constraint) if d not in keys))
    if unknown:
        message = f'ClusterTopologyBinding "{name}" has no level {", ".join(unknown)}: add it'
        missing = _report_missing(ConditionStatus.TRUE, Reason.TOPOLOGY_LEVELS_UNAVAILABLE, message, waits=waits)
        return msgspec.structs.replace(
            resolved, missing=missing.missing, is_waiting=missing.is_waiting, verdict=missing.verdict
        )
    return resolved


def is_reported_waiting(conditions: tuple[Condition, ...]) -> bool:
    """Return whether the operator is configured to wait for missing bindings, by the condition of the set."""
    reported = find_condition(conditions, ConditionType.TOPOLOGY_LEVELS_UNAVAILABLE)
    return reported is not None and reported.message.endswith(WAITING)


def _resolve(template: SetTemplate, name: str, keys: Mapping[str, str]) -> Topology:
    """Translate all constraints that have a key. The name of the binding is kept only if there are any."""
    whole = _translate(template.topology_constraint, keys)
    around = {
        clique: found
        for group in template.pod_clique_scaling_groups
        if (found := _translate(group.topology_constraint, keys)) is not None
        for clique in group.clique_names
    }
    cliques = {
        clique.name: found
        for clique in template.cliques
        if (found := _translate(clique.topology_constraint, keys)) is not None
    }
    return Topology(
        name=name if whole or around or cliques else "",
        whole=whole,
        around=around,
        cliques=cliques,
        verdict=_report_available(f'ClusterTopologyBinding "{name}" has every level that the set names'),
    )


def _constraints(template: SetTemplate) -> Iterator[TopologyConstraint]:
    """Yield the constraints, from the set inwards."""
    around = (template.topology_constraint, *(g.topology_constraint for g in template.pod_clique_scaling_groups))
    found = (*around, *(clique.topology_constraint for clique in template.cliques))
    return (constraint for constraint in found if constraint is not None)


def _domains(constraint: TopologyConstraint) -> tuple[str, ...]:
    return tuple(domain for domain in (constraint.required_domain, constraint.preferred_domain) if domain)


def _translate(constraint: TopologyConstraint | None, keys: Mapping[str, str]) -> GangTopologyConstraint | None:
    """Return the constraint in keys; None if there is none, or none of its domains is defined."""
    if constraint is None:
        return None
    required, preferred = keys.get(constraint.required_domain), keys.get(constraint.preferred_domain)
    if required is None and preferred is None:
        return None
    return GangTopologyConstraint(pack_constraint=GangPackConstraint(required=required, preferred=preferred))


def _report_disabled() -> Topology:
    message = "topology-aware scheduling is disabled: the constraints of the set have no effect"
    return Topology(
        verdict=ConditionResult(
            status=ConditionStatus.UNKNOWN, reason=Reason.TOPOLOGY_AWARE_SCHEDULING_DISABLED, message=message
        )
    )


def _report_available(message: str) -> ConditionResult:
    return ConditionResult(status=ConditionStatus.FALSE, reason=Reason.ALL_TOPOLOGY_LEVELS_AVAILABLE, message=message)


def _report_missing(status: ConditionStatus, reason: Reason, message: str, *, waits: bool) -> Topology:
    verdict = ConditionResult(
        status=status, reason=reason, message=f"{message}; {WAITING if waits else PLACED_WITHOUT}"
    )
    return Topology(missing=message, is_waiting=waits, verdict=verdict)

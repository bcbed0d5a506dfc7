"""Pin new pods to the topology domain of the placed pods of their scope.

A scheduler packs one gang at a time. A required scope is wider than that: a set replica has several gangs, a group
replica may be recreated on its own, and pods above the minimum are placed later. So a pod whose scope has placed pods
gets their domain as a node selector. This is only allowed in the write that removes its gate.
"""

from collections import Counter
from collections.abc import Mapping

from grove.api.types.pod import Pod
from grove.planner.desired_state import DesiredReplica
from grove.planner.snapshot import NodeLabels, SetContext
from grove.planner.topology.topology_scopes import RequiredScope, required_scopes, stored_scopes
from grove.planner.views import CliqueView, ReplicaView


class DomainPins:
    """The domains of the scopes of one replica that have placed pods."""

    def __init__(
        self, scopes: tuple[RequiredScope, ...], cliques: Mapping[str, CliqueView], node_labels: NodeLabels
    ) -> None:
        self._selectors: dict[str, dict[str, str]] = {}
        self._keys: dict[str, list[str]] = {}
        for scope in scopes:
            for name in scope.cliques:
                self._keys.setdefault(name, []).append(scope.key)
            value = _find_domain(scope, cliques, node_labels)
            for name in scope.cliques if value else ():
                self._selectors.setdefault(name, {})[scope.key] = value

    def selector(self, clique_name: str) -> dict[str, str]:
        """Return the node labels that pods of this clique require; empty if they are free."""
        return self._selectors.get(clique_name, {})

    def find_wrongly_pinned(self, clique: CliqueView) -> tuple[Pod, ...]:
        """Return pods that wait for a domain that their scope no longer uses."""
        keys = self._keys.get(clique.name, ())
        return tuple(
            pod
            for pod in clique.active
            if not pod.is_scheduled
            and any(_is_wrongly_pinned(pod, clique, key, self.selector(clique.name)) for key in keys)
        )


NO_PINS = DomainPins((), {}, {})


def pin_domains(
    context: SetContext, replica: ReplicaView, desired: DesiredReplica, node_labels: NodeLabels
) -> DomainPins:
    """Return the domains of a replica. While its topology binding is missing, the stored constraints count."""
    is_known = not context.topology.missing
    scopes = required_scopes(context.topology, desired) if is_known else stored_scopes(replica.gangs, desired)
    return DomainPins(scopes, replica.cliques, node_labels)


def _is_wrongly_pinned(pod: Pod, clique: CliqueView, key: str, pinned_domain: Mapping[str, str]) -> bool:
    requested = pod.spec.node_selector.get(key)
    # A selector of the user is not changed.
    written = clique.clique.spec.pod_spec.get("nodeSelector") or {}
    return requested is not None and key not in written and requested != pinned_domain.get(key)


def _find_domain(scope: RequiredScope, cliques: Mapping[str, CliqueView], node_labels: NodeLabels) -> str:
    """Return the domain of most of its pods; "" while it has none."""
    nodes = (
        pod.spec.node_name
        for name in scope.cliques
        if name in cliques
        for pod in cliques[name].active
        if pod.spec.node_name
    )
    found = Counter(value for node in nodes if (value := node_labels.get(node, {}).get(scope.key)))
    return min(found, key=lambda value: (-found[value], value), default="")

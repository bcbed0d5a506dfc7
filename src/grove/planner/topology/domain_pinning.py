"""Pods follow the domain where their scope landed.

A scheduler packs one gang at a time. A required scope is wider than that: a set replica has several gangs, a group
replica may come back on its own, and pods above the minimum are placed later. So a pod whose scope has a home gets
that domain as a node selector, in the same write that opens its gate: then, and only then, may it be added.
"""

from collections import Counter
from collections.abc import Mapping

from grove.api.types.pod import Pod
from grove.planner.desired_state import ReplicaBlueprint
from grove.planner.snapshot import NodeLabels, SetContext
from grove.planner.topology.topology_scopes import RequiredScope, required_scopes, stored_scopes
from grove.planner.views import CliqueView, ReplicaView


class DomainPins:
    """Where the scopes of one replica are at home, as far as something of them is placed."""

    def __init__(
        self, scopes: tuple[RequiredScope, ...], cliques: Mapping[str, CliqueView], node_labels: NodeLabels
    ) -> None:
        self._selectors: dict[str, dict[str, str]] = {}
        self._keys: dict[str, list[str]] = {}
        for scope in scopes:
            for name in scope.cliques:
                self._keys.setdefault(name, []).append(scope.key)
            value = _home(scope, cliques, node_labels)
            for name in scope.cliques if value else ():
                self._selectors.setdefault(name, {})[scope.key] = value

    def selector(self, clique_name: str) -> dict[str, str]:
        """Node labels that a pod of this clique must find; none where it is free to go."""
        return self._selectors.get(clique_name, {})

    def strayed(self, clique: CliqueView) -> tuple[Pod, ...]:
        """Pods that wait for a home that is not theirs: all that was there is gone, or went elsewhere."""
        keys = self._keys.get(clique.name, ())
        return tuple(
            pod
            for pod in clique.active
            if not pod.is_scheduled
            and any(_waits_elsewhere(pod, clique, key, self.selector(clique.name)) for key in keys)
        )


NO_HOMES = DomainPins((), {}, {})


def pin_domains(
    context: SetContext, replica: ReplicaView, desired: ReplicaBlueprint, node_labels: NodeLabels
) -> DomainPins:
    """Return the domains of a replica. While its topology binding is missing, the stored constraints count."""
    is_known = not context.topology.missing
    scopes = required_scopes(context.topology, desired) if is_known else stored_scopes(replica.gangs, desired)
    return DomainPins(scopes, replica.cliques, node_labels)


def _waits_elsewhere(pod: Pod, clique: CliqueView, key: str, home: Mapping[str, str]) -> bool:
    asked = pod.spec.node_selector.get(key)
    # What the user wrote is not ours to take back.
    written = clique.clique.spec.pod_spec.get("nodeSelector") or {}
    return asked is not None and key not in written and asked != home.get(key)


def _home(scope: RequiredScope, cliques: Mapping[str, CliqueView], node_labels: NodeLabels) -> str:
    """The domain that holds most of its pods; "" while it has none."""
    nodes = (
        pod.spec.node_name
        for name in scope.cliques
        if name in cliques
        for pod in cliques[name].active
        if pod.spec.node_name
    )
    found = Counter(value for node in nodes if (value := node_labels.get(node, {}).get(scope.key)))
    return min(found, key=lambda value: (-found[value], value), default="")

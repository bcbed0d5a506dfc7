"""Resolve the start-up order of a set to the PodCliques that a clique starts after (`PodClique.spec.startsAfter`).

Only cliques of one gang depend on each other, so a gang can start by itself. The order does not affect scheduling: the
whole gang is placed first.
"""

from collections.abc import Iterator

from grove.api import names
from grove.api.startup_order import dependencies_by_clique
from grove.api.types.podcliqueset import GroupConfig
from grove.planner.snapshot import SetContext


class StartupOrder:
    """The start-up order of the cliques of one set replica, as names of PodCliques."""

    def __init__(self, context: SetContext, replica_index: int) -> None:
        self.context = context
        self._replica_index = replica_index
        self._after = dependencies_by_clique(context.spec.template)
        self._groups = {name: config for config in context.groups for name in config.clique_names}
        # The base replicas of a group share the tuples: each may have a thousand names.
        self._in_base_gang: dict[str, tuple[str, ...]] = {}

    def in_base_gang(self, clique: str) -> tuple[str, ...]:
        """Return what a clique of the base gang starts after. Of a member: that clique in every group replica of it."""
        if clique not in self._in_base_gang:
            names_before = (name for before in self._after.get(clique, ()) for name in self._base_names(before))
            self._in_base_gang[clique] = tuple(names_before)
        return self._in_base_gang[clique]

    def in_scaled_gang(self, clique: str, group: GroupConfig, group_replica_index: int) -> tuple[str, ...]:
        """Return what a clique of a scaled gang starts after: only members of its own group replica."""
        group_name = names.group(self.context.name, self._replica_index, group.name)
        return tuple(
            names.member_clique(group_name, group_replica_index, before)
            for before in self._after.get(clique, ())
            if before in group.clique_names
        )

    def _base_names(self, clique: str) -> Iterator[str]:
        group = self._groups.get(clique)
        if group is None:
            yield names.standalone_clique(self.context.name, self._replica_index, clique)
            return
        group_name = names.group(self.context.name, self._replica_index, group.name)
        for j in range(group.min_available):
            yield names.member_clique(group_name, j, clique)

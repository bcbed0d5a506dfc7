"""Downtime during a change: how many pods, group replicas and set replicas are down at the same time. Pure.

Only what was up before and is desired afterwards counts. What starts for the first time is not down, and what is
removed for good is no loss.
"""

from collections.abc import Iterator

import msgspec

from grove.api import labels
from grove.api.types.meta import WireStruct
from grove.sim.rehearsal.pod_recorder import Recorded, Structure


class Down(WireStruct):
    """The largest number that is down at the same time, of those that were up. Kind `pods`: all pods of the set."""

    kind: str
    name: str
    at_most: int
    of: int
    # The group of a member clique.
    group: str = ""


def downtime(recorded: Recorded) -> tuple[Down, ...]:
    """Return the downtime of the set, its groups and its cliques; without those that are never down."""
    tree = _Tree(recorded.before, recorded.after)
    for pod in recorded.pods:
        if pod.was_ready:
            tree.shift(pod.clique, 1)
    tree.begin()
    for change in recorded.readiness:
        tree.shift(change.clique, 1 if change.is_ready else -1)
    return tuple(tree.find_down(recorded.place.name))


class _Node:
    """A unit that is up while at least `needs` of its parts are. `wanted`: the number of its parts in the end."""

    def __init__(self, parent: "_Node | None", *, needs: int, wanted: int) -> None:
        self._parent = parent
        self.needs = needs
        self._wanted = wanted
        self._up = 0
        self.of = 0
        self.most_down = 0

    def begin(self) -> None:
        """Record which desired parts are up now: only these can be down later."""
        self.of = min(self._up, self._wanted)
        self.most_down = 0

    @property
    def serving(self) -> int:
        """Return how many parts are up, at most the number that was recorded."""
        return min(self._up, self.of)

    def shift(self, delta: int) -> None:
        was_up = self._up >= self.needs
        self._up += delta
        self.most_down = max(self.most_down, self.of - self._up)
        is_up = self._up >= self.needs
        if self._parent is not None and is_up != was_up:
            self._parent.shift(1 if is_up else -1)


class _Tree:
    """The units of a set.

    Pods form cliques; cliques form group replicas and groups; these and standalone cliques form set replicas.
    """

    def __init__(self, before: Structure, after: Structure) -> None:
        self._before, self._after = before, after
        wanted = 0 if after.pcs is None else after.pcs.spec.replicas
        self._set = _Node(None, needs=0, wanted=wanted)
        self._replicas: dict[str, _Node] = {}
        self._groups: dict[str, _Node] = {}
        self._group_replicas: dict[tuple[str, str], _Node] = {}
        self._cliques: dict[str, _Node] = {}
        for name, group in before.groups.items():
            if not group.spec.replicas:
                # A clique or group at zero is not needed by its replica.
                continue
            replica = self._replica(group.metadata.labels, wanted)
            self._groups[name] = _Node(replica, needs=group.spec.min_available, wanted=self._group_size(name))
            replica.needs += 1
        for name, clique in before.cliques.items():
            if not clique.spec.replicas:
                continue
            parent = self._parent_of(clique.metadata.labels, wanted)
            size = after.cliques[name].spec.replicas if name in after.cliques else 0
            self._cliques[name] = _Node(parent, needs=clique.min_available, wanted=size)
            parent.needs += 1
        self._of_pods = 0
        self._serving_pods = 0
        self._most_pods_down = 0

    def begin(self) -> None:
        nodes = (self._set, *self._replicas.values(), *self._groups.values(), *self._group_replicas.values())
        for node in (*nodes, *self._cliques.values()):
            node.begin()
        self._of_pods = self._serving_pods = sum(clique.of for clique in self._cliques.values())

    def shift(self, clique: str, delta: int) -> None:
        """Add a number of ready pods (or subtract it). Pods of new cliques do not count."""
        node = self._cliques.get(clique)
        if node is None:
            return
        serving_before = node.serving
        node.shift(delta)
        self._serving_pods += node.serving - serving_before
        self._most_pods_down = max(self._most_pods_down, self._of_pods - self._serving_pods)

    def find_down(self, name: str) -> Iterator[Down]:
        if self._most_pods_down:
            yield Down(kind="pods", name=name, at_most=self._most_pods_down, of=self._of_pods)
        yield from _nodes_down("podcliqueset", {name: self._set})
        yield from _nodes_down("podcliquescalinggroup", self._groups)
        for down in _nodes_down("podclique", self._cliques):
            group = self._before.cliques[down.name].metadata.labels.get(labels.GROUP, "")
            yield msgspec.structs.replace(down, group=group)

    def _replica(self, found_labels: dict[str, str], wanted: int) -> _Node:
        index = found_labels.get(labels.SET_REPLICA_INDEX, "0")
        if index not in self._replicas:
            # Units that are removed for good do not count as down.
            parent = self._set if int(index) < wanted else None
            self._replicas[index] = _Node(parent, needs=0, wanted=0)
        return self._replicas[index]

    def _parent_of(self, found_labels: dict[str, str], wanted: int) -> _Node:
        """Return the node of the group replica or set replica that the clique belongs to."""
        group = found_labels.get(labels.GROUP, "")
        if group not in self._groups:
            return self._replica(found_labels, wanted)
        key = (group, found_labels.get(labels.GROUP_REPLICA_INDEX, "0"))
        if key not in self._group_replicas:
            parent = self._groups[group] if int(key[1]) < self._group_size(group) else None
            self._group_replicas[key] = _Node(parent, needs=0, wanted=0)
        return self._group_replicas[key]

    def _group_size(self, group: str) -> int:
        return self._after.groups[group].spec.replicas if group in self._after.groups else 0


def _nodes_down(kind: str, nodes: dict[str, _Node]) -> Iterator[Down]:
    for name, node in nodes.items():
        if node.most_down:
            yield Down(kind=kind, name=name, at_most=node.most_down, of=node.of)

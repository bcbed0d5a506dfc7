"""Downtime during a change: how many pods, group replicas and set replicas are down at the same time.

Only what was up before and is wanted after counts: what starts for the first time is not down, what goes for good is
no loss. Pure.
"""

from collections.abc import Iterator

import msgspec

from grove.api import labels
from grove.api.types.meta import WireStruct
from grove.sim.rehearsal.pod_recorder import Recorded, Structure


class Down(WireStruct):
    """Of so many that were up, this many are down at the same time, at most. Kind `pods`: all pods of the set."""

    kind: str
    name: str
    at_most: int
    of: int
    # Of a clique: the group that it is a member of.
    group: str = ""


def downtime(recorded: Recorded) -> tuple[Down, ...]:
    """The set, its groups and its cliques: those of which anything is down at any time."""
    tree = _Tree(recorded.before, recorded.after)
    for pod in recorded.pods:
        if pod.was_ready:
            tree.shift(pod.clique, 1)
    tree.begin()
    for change in recorded.readiness:
        tree.shift(change.clique, 1 if change.is_ready else -1)
    return tuple(tree.told(recorded.place.name))


class _Node:
    """Something that is up while at least `needs` of its parts are. `wanted`: how many parts it has in the end."""

    def __init__(self, parent: "_Node | None", *, needs: int, wanted: int) -> None:
        self._parent = parent
        self.needs = needs
        self._wanted = wanted
        self._up = 0
        self.of = 0
        self.most_down = 0

    def begin(self) -> None:
        """What is up now, and wanted, is what can be missed."""
        self.of = min(self._up, self._wanted)
        self.most_down = 0

    @property
    def serving(self) -> int:
        """Of those that can be missed."""
        return min(self._up, self.of)

    def shift(self, delta: int) -> None:
        was_up = self._up >= self.needs
        self._up += delta
        self.most_down = max(self.most_down, self.of - self._up)
        is_up = self._up >= self.needs
        if self._parent is not None and is_up != was_up:
            self._parent.shift(1 if is_up else -1)


class _Tree:
    """Pods make cliques; cliques make group replicas, these groups; groups and standalone cliques make set replicas."""

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
                # What is scaled to zero serves nothing, and its replica does not need it.
                continue
            replica = self._replica(group.metadata.labels, wanted)
            self._groups[name] = _Node(replica, needs=group.spec.min_available, wanted=self._group_size(name))
            replica.needs += 1
        for name, clique in before.cliques.items():
            if not clique.spec.replicas:
                continue
            home = self._home(clique.metadata.labels, wanted)
            size = after.cliques[name].spec.replicas if name in after.cliques else 0
            self._cliques[name] = _Node(home, needs=clique.min_available, wanted=size)
            home.needs += 1
        self._of_pods = 0
        self._serving_pods = 0
        self._most_pods_down = 0

    def begin(self) -> None:
        nodes = (self._set, *self._replicas.values(), *self._groups.values(), *self._group_replicas.values())
        for node in (*nodes, *self._cliques.values()):
            node.begin()
        self._of_pods = self._serving_pods = sum(clique.of for clique in self._cliques.values())

    def shift(self, clique: str, delta: int) -> None:
        """So many pods more are ready; pods of cliques that were not there before are nobody's loss."""
        node = self._cliques.get(clique)
        if node is None:
            return
        resource_info = node.serving
        node.shift(delta)
        self._serving_pods += node.serving - resource_info
        self._most_pods_down = max(self._most_pods_down, self._of_pods - self._serving_pods)

    def told(self, name: str) -> Iterator[Down]:
        if self._most_pods_down:
            yield Down(kind="pods", name=name, at_most=self._most_pods_down, of=self._of_pods)
        yield from _told("podcliqueset", {name: self._set})
        yield from _told("podcliquescalinggroup", self._groups)
        for down in _told("podclique", self._cliques):
            group = self._before.cliques[down.name].metadata.labels.get(labels.GROUP, "")
            yield msgspec.structs.replace(down, group=group)

    def _replica(self, marks: dict[str, str], wanted: int) -> _Node:
        index = marks.get(labels.SET_REPLICA_INDEX, "0")
        if index not in self._replicas:
            # What is not wanted in the end is not missed by the set.
            parent = self._set if int(index) < wanted else None
            self._replicas[index] = _Node(parent, needs=0, wanted=0)
        return self._replicas[index]

    def _home(self, marks: dict[str, str], wanted: int) -> _Node:
        """What the clique is a part of."""
        group = marks.get(labels.GROUP, "")
        if group not in self._groups:
            return self._replica(marks, wanted)
        key = (group, marks.get(labels.GROUP_REPLICA_INDEX, "0"))
        if key not in self._group_replicas:
            parent = self._groups[group] if int(key[1]) < self._group_size(group) else None
            self._group_replicas[key] = _Node(parent, needs=0, wanted=0)
        return self._group_replicas[key]

    def _group_size(self, group: str) -> int:
        return self._after.groups[group].spec.replicas if group in self._after.groups else 0


def _told(kind: str, nodes: dict[str, _Node]) -> Iterator[Down]:
    for name, node in nodes.items():
        if node.most_down:
            yield Down(kind=kind, name=name, at_most=node.most_down, of=node.of)

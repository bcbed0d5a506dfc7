"""Free capacity of the cluster, and a copy of it for one scheduling cycle.

`Cluster` follows nodes and placed pods one change at a time, so that a quiet cluster costs nothing. `CycleSnapshot` is
a copy for one cycle, on which placements are tried and rolled back; the `Cluster` does not change.

Packing: nodes are tried in the order of their names (preferred ones first), and the first that fits is used. Filling
one node before the next keeps whole nodes free for gangs with large pods, and the same input gives the same result.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

from grove.api.types.meta import Uid
from grove.errors import require
from grove.placement.inter_pod_affinity import AffinityIndex, has_pod_affinity
from grove.placement.node_fit import has_capacity, static_misfit, static_score
from grove.placement.types import Binding, Model, NodeView, PodDemand, PodTerm, SchedulingClass


class Domain(Model, cache_hash=True):
    """The nodes that carry all of these labels; without labels: every node."""

    labels: tuple[tuple[str, str], ...] = ()

    def narrow(self, key: str, value: str) -> "Domain":
        return self if (key, value) in self.labels else Domain(labels=(*self.labels, (key, value)))

    def __contains__(self, node: NodeView) -> bool:
        return all(node.labels.get(key) == value for key, value in self.labels)


ALL_NODES = Domain()
NO_LABELS: Mapping[str, str] = {}


class Cluster:
    """Nodes and the pods on them, updated incrementally. It has one writer."""

    def __init__(self, nodes: Iterable[NodeView] = ()) -> None:
        self.nodes: dict[str, NodeView] = {}
        self.free: dict[str, Mapping[str, int]] = {}
        self.affinity_index = AffinityIndex()
        self._used: dict[str, dict[str, int]] = {}
        self._placed: dict[Uid, tuple[PodDemand, str]] = {}
        self._layout: _Layout | None = None
        for node in nodes:
            self.set_node(node)

    @property
    def layout(self) -> "_Layout":
        """Return what depends only on the nodes; cached until a node changes."""
        if self._layout is None:
            self._layout = _Layout(self.nodes)
        return self._layout

    def set_node(self, node: NodeView) -> bool:
        """Add or update a node; return whether it changed."""
        before = self.nodes.get(node.name)
        if before == node:
            return False
        self.nodes[node.name] = node
        self._layout = None
        self._refresh_free(node.name)
        if before is None or before.labels != node.labels:
            self._recount()
        return True

    def remove_node(self, name: str) -> bool:
        if self.nodes.pop(name, None) is None:
            return False
        self.free.pop(name)
        self._layout = None
        self._recount()
        return True

    def place(self, pod: PodDemand, node: str) -> None:
        """Reserve capacity for this pod on the node. The node may be unknown (yet)."""
        require(pod.uid not in self._placed, f"pod {pod} is placed once")
        self._placed[pod.uid] = (pod, node)
        self._change_usage(pod.shape, node, 1)
        self.affinity_index.add(pod, self._labels(node))

    def remove(self, uid: Uid) -> bool:
        """Release the capacity of the pod; return whether it had any."""
        pod, node = self._placed.pop(uid, (None, ""))
        if pod is None:
            return False
        self._change_usage(pod.shape, node, -1)
        self.affinity_index.remove(pod, self._labels(node))
        return True

    def node_of(self, uid: Uid) -> str | None:
        return self._placed[uid][1] if uid in self._placed else None

    def demand_of(self, uid: Uid) -> PodDemand | None:
        return self._placed[uid][0] if uid in self._placed else None

    def watch_terms(self, terms: Iterable[PodTerm]) -> None:
        self.affinity_index.watch(terms, self._placed_with_labels())

    def _change_usage(self, shape: SchedulingClass, node: str, step: int) -> None:
        used = self._used.setdefault(node, {})
        for name, amount in shape.requests:
            used[name] = used.get(name, 0) + step * amount
        if node in self.nodes:
            self.free[node] = subtract_requests(self.free[node], shape, step)
        elif not any(used.values()):
            del self._used[node]

    def _refresh_free(self, name: str) -> None:
        used = self._used.get(name, {})
        self.free[name] = {
            resource: amount - used.get(resource, 0) for resource, amount in self.nodes[name].allocatable.items()
        }

    def _recount(self) -> None:
        self.affinity_index.recount(self._placed_with_labels())

    def _placed_with_labels(self) -> Iterator[tuple[PodDemand, Mapping[str, str]]]:
        for pod, node in self._placed.values():
            yield pod, self._labels(node)

    def _labels(self, node: str) -> Mapping[str, str]:
        return self.nodes[node].labels if node in self.nodes else NO_LABELS


class _Layout:
    """The nodes that suit each shape in each domain, whatever their load. Results are cached."""

    def __init__(self, nodes: Mapping[str, NodeView]) -> None:
        self.nodes = tuple(nodes[name] for name in sorted(nodes))
        self._candidates: dict[tuple[SchedulingClass, Domain], tuple[str, ...]] = {}
        self._values: dict[tuple[str, Domain], tuple[str, ...]] = {}

    @cached_property
    def largest(self) -> Mapping[str, int]:
        """Pod sizes are relative to this."""
        return largest_amounts(self.nodes)

    def candidates(self, shape: SchedulingClass, domain: Domain) -> tuple[str, ...]:
        """Return the names of the suitable nodes, highest score first, then by name."""
        key = (shape, domain)
        found = self._candidates.get(key)
        if found is None:
            suitable = [node for node in self.nodes if node in domain and not static_misfit(shape, node)]
            suitable.sort(key=lambda node: -static_score(shape, node))
            found = self._candidates[key] = tuple(node.name for node in suitable)
        return found

    def values(self, key: str, domain: Domain) -> tuple[str, ...]:
        """Return the values that this node label has inside the domain, sorted."""
        found = self._values.get((key, domain))
        if found is None:
            values = {node.labels[key]: None for node in self.nodes if key in node.labels and node in domain}
            found = self._values[key, domain] = tuple(sorted(values))
        return found


class CycleSnapshot:
    """A copy of the free capacity for one cycle, with rollback to a mark."""

    def __init__(self, cluster: Cluster) -> None:
        self.nodes = cluster.nodes
        self.layout = cluster.layout
        self.free = dict(cluster.free)
        self.affinity_index = cluster.affinity_index.fork()
        self.bindings: list[Binding] = []
        self.node_of: dict[Uid, str] = {}
        # For each shape and domain, the candidates before this position are full: only a rollback frees capacity.
        self._cursors: dict[tuple[SchedulingClass, Domain], int] = {}
        # Values to restore on rollback, newest last: container[key] = value.
        self._undo_log: list[tuple[dict[Any, Any], Any, Any]] = []

    def mark(self) -> tuple[int, int]:
        return len(self._undo_log), len(self.bindings)

    def rollback(self, mark: tuple[int, int]) -> None:
        """Undo every placement since the mark."""
        length, binding_count = mark
        while len(self._undo_log) > length:
            container, key, value = self._undo_log.pop()
            container[key] = value
        for binding in self.bindings[binding_count:]:
            del self.node_of[binding.pod.uid]
        del self.bindings[binding_count:]

    def place(self, pod: PodDemand, node: str) -> None:
        before = self.free[node]
        self._undo_log.append((self.free, node, before))
        self.free[node] = subtract_requests(before, pod.shape, 1)
        self.affinity_index.add(pod, self.nodes[node].labels, self._undo_log)
        self.bindings.append(Binding(pod=pod, node=node))
        self.node_of[pod.uid] = node

    def find(self, pod: PodDemand, domain: Domain = ALL_NODES) -> str | None:
        """Return the node that this pod would be placed on now, or None."""
        shape = pod.shape
        names = self.layout.candidates(shape, domain)
        start = self._first_with_capacity(shape, domain, names)
        if start == len(names):
            return None
        if not has_pod_affinity(shape) and not self.affinity_index.has_anti_affinity:
            return names[start]
        return self._find_among(pod, names[start:])

    def _first_with_capacity(self, shape: SchedulingClass, domain: Domain, names: tuple[str, ...]) -> int:
        key = (shape, domain)
        start = position = self._cursors.get(key, 0)
        free = self.free
        while position < len(names) and not has_capacity(shape, free[names[position]]):
            position += 1
        if position != start:
            self._undo_log.append((self._cursors, key, start))
            self._cursors[key] = position
        return position

    def _find_among(self, pod: PodDemand, names: tuple[str, ...]) -> str | None:
        affinity_filter = self.affinity_index.affinity_filter(pod)
        possible = (
            name
            for name in names
            if has_capacity(pod.shape, self.free[name]) and not affinity_filter.reason(self.nodes[name].labels)
        )
        if not pod.shape.preferred_pods:
            return next(possible, None)
        # max() returns the first of equals, so the order of the names decides ties.
        return max(
            possible, key=lambda name: self.affinity_index.score(pod.shape, self.nodes[name].labels), default=None
        )


def largest_amounts(nodes: Iterable[NodeView]) -> dict[str, int]:
    """Return the largest allocatable amount of each resource on one node."""
    largest: dict[str, int] = {}
    for node in nodes:
        for resource, amount in node.allocatable.items():
            largest[resource] = max(amount, largest.get(resource, 0))
    return largest


def subtract_requests(free: Mapping[str, int], shape: SchedulingClass, step: int) -> Mapping[str, int]:
    """Return the free amounts after `step` more pods of this shape, as a new mapping."""
    left = dict(free)
    for name, amount in shape.requests:
        left[name] = left.get(name, 0) - step * amount
    return left

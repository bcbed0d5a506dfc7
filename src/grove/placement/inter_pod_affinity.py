"""Inter-pod affinity and anti-affinity, required and preferred.

For every term in use, the index counts the placed pods that match it; for every required anti-affinity term, it counts
the placed pods that have it. Counts are per value of the term's node label. They are updated with each placement, so a
check never iterates over pods.

Not supported: preferences of pods that are already placed, and namespace selectors that need a namespace's labels.
"""

from collections.abc import Iterable, Iterator, Mapping

from grove.placement.node_fit import meets
from grove.placement.types import PodDemand, PodTerm, SchedulingClass, SelectorOperator

# When there are this many terms, counts of terms that no pending pod uses are dropped.
MOST_TERMS = 4096

Counts = dict[str, int]
# Values to restore on rollback, newest last: counts[key] = value.
UndoLog = list[tuple[dict[str, int], str, int]]
Placed = Iterable[tuple[PodDemand, Mapping[str, str]]]


class AffinityIndex:
    def __init__(self) -> None:
        self._matching = _CountedTerms()
        self._holders = _CountedTerms()

    def fork(self) -> "AffinityIndex":
        """Return an independent copy; usually there is nothing to copy."""
        fork = AffinityIndex()
        fork._matching = self._matching.fork()
        fork._holders = self._holders.fork()
        return fork

    @property
    def has_anti_affinity(self) -> bool:
        return bool(self._holders.counts)

    def watch(self, terms: Iterable[PodTerm], placed: Placed) -> None:
        """Count these terms from now on. `placed` is iterated only if one of them is new."""
        wanted = dict.fromkeys(terms)
        new = [term for term in wanted if term not in self._matching.counts]
        if not new:
            return
        if len(self._matching.counts) + len(new) > MOST_TERMS:
            self._matching = _CountedTerms()
            new = list(wanted)
        fresh = _CountedTerms()
        for term in new:
            fresh.add(term)
        for pod, labels in placed:
            for term, counts in fresh.find_matching(pod):
                _add_count(counts, labels.get(term.topology_key), 1, None)
        for term, counts in fresh.counts.items():
            self._matching.add(term).update(counts)

    def add(self, pod: PodDemand, labels: Mapping[str, str], undo_log: UndoLog | None = None) -> None:
        self._count(pod, labels, 1, undo_log)

    def remove(self, pod: PodDemand, labels: Mapping[str, str]) -> None:
        self._count(pod, labels, -1, None)
        for term in pod.shape.anti_affinity:
            if not any(self._holders.counts.get(term, {}).values()):
                self._holders.discard(term)

    def recount(self, placed: Placed) -> None:
        """Count all placed pods again. Call it when labels of nodes changed."""
        self._matching = _CountedTerms()
        self._holders = _CountedTerms()
        for pod, labels in placed:
            if pod.shape.anti_affinity:
                self._count(pod, labels, 1, None)

    def _count(self, pod: PodDemand, labels: Mapping[str, str], step: int, undo_log: UndoLog | None) -> None:
        for term in pod.shape.anti_affinity:
            _add_count(self._holders.add(term), labels.get(term.topology_key), step, undo_log)
        if self._matching.counts:
            for term, counts in self._matching.find_matching(pod):
                _add_count(counts, labels.get(term.topology_key), step, undo_log)

    def affinity_filter(self, pod: PodDemand) -> "AffinityFilter":
        """Return a filter that checks nodes for this pod against the current counts."""
        shape = pod.shape
        attracted = []
        for term in shape.affinity:
            counts = self._matching.counts.get(term, {})
            # The first pod of a group with affinity to itself may go anywhere.
            is_first = matches(term, pod) and not any(counts.values())
            attracted.append((term.topology_key, counts, is_first))
        repelled = [(term.topology_key, self._matching.counts.get(term, {})) for term in shape.anti_affinity]
        repelled_by = [(term.topology_key, counts) for term, counts in self._holders.find_matching(pod)]
        return AffinityFilter(attracted, repelled, repelled_by)

    def score(self, shape: SchedulingClass, labels: Mapping[str, str]) -> int:
        """Return the preferred pod (anti-)affinity score: weight times matching pods in the domain of the node."""
        return sum(
            preferred.weight
            * self._matching.counts.get(preferred.term, {}).get(labels.get(preferred.term.topology_key, ""), 0)
            for preferred in shape.preferred_pods
        )


class _CountedTerms:
    """Terms with their counts, indexed by a label that a matching pod must have: lookup does not scan all terms."""

    def __init__(self) -> None:
        self.counts: dict[PodTerm, Counts] = {}
        self._by_label: dict[tuple[str, str], dict[PodTerm, None]] = {}
        self._label_of: dict[PodTerm, tuple[str, str] | None] = {}
        self._others: dict[PodTerm, None] = {}

    def fork(self) -> "_CountedTerms":
        fork = _CountedTerms()
        for term, counts in self.counts.items():
            fork.add(term).update(counts)
        return fork

    def add(self, term: PodTerm) -> Counts:
        """Start to count this term, if it is new; return its counts."""
        counts = self.counts.get(term)
        if counts is None:
            counts = self.counts[term] = {}
            label = self._label_of[term] = self._best_label(term)
            bucket = self._others if label is None else self._by_label.setdefault(label, {})
            bucket[term] = None
        return counts

    def discard(self, term: PodTerm) -> None:
        if self.counts.pop(term, None) is None:
            return
        label = self._label_of.pop(term)
        if label is None:
            del self._others[term]
            return
        del self._by_label[label][term]
        if not self._by_label[label]:
            del self._by_label[label]

    def find_matching(self, pod: PodDemand) -> Iterator[tuple[PodTerm, Counts]]:
        """Yield the terms that match this pod."""
        for label in pod.labels.items() if self._by_label else ():
            for term in self._by_label.get(label, ()):
                if matches(term, pod):
                    yield term, self.counts[term]
        for term in self._others:
            if matches(term, pod):
                yield term, self.counts[term]

    def _best_label(self, term: PodTerm) -> tuple[str, str] | None:
        """Return the required label with the fewest terms so far; None if the term requires no label."""
        labels = [
            (requirement.key, requirement.values[0])
            for requirement in term.requirements
            if requirement.operator == SelectorOperator.IN and len(requirement.values) == 1
        ]
        return min(labels, key=lambda label: len(self._by_label.get(label, ())), default=None)


class AffinityFilter:
    """The affinity counts for one pod, looked up once and checked for many nodes."""

    def __init__(
        self,
        attracted: list[tuple[str, Counts, bool]],
        repelled: list[tuple[str, Counts]],
        repelled_by: list[tuple[str, Counts]],
    ) -> None:
        self._attracted = attracted
        self._repelled = repelled
        self._repelled_by = repelled_by

    def reason(self, labels: Mapping[str, str]) -> str:
        """Return why the pod cannot go to a node with these labels, phrased for several nodes; empty if it can."""
        for key, counts, is_first in self._attracted:
            value = labels.get(key)
            if value is None or (not counts.get(value, 0) and not is_first):
                return "do not satisfy the pod affinity"
        for key, counts in self._repelled:
            if counts.get(labels.get(key, ""), 0):
                return "have pods that its pod anti-affinity avoids"
        for key, counts in self._repelled_by:
            if counts.get(labels.get(key, ""), 0):
                return "have pods whose anti-affinity avoids it"
        return ""


def matches(term: PodTerm, pod: PodDemand) -> bool:
    if not term.has_selector or (term.namespaces is not None and pod.namespace not in term.namespaces):
        return False
    return all(meets(requirement, pod.labels) for requirement in term.requirements)


def terms_of(shape: SchedulingClass) -> tuple[PodTerm, ...]:
    """Return every term whose matching pods must be counted to place pods of this shape."""
    return (*shape.affinity, *shape.anti_affinity, *(preferred.term for preferred in shape.preferred_pods))


def has_pod_affinity(shape: SchedulingClass) -> bool:
    """Return whether the shape has pod affinity or anti-affinity, required or preferred."""
    return bool(shape.affinity or shape.anti_affinity or shape.preferred_pods)


def _add_count(counts: Counts, value: str | None, step: int, undo_log: UndoLog | None) -> None:
    if value is None:
        return
    before = counts.get(value, 0)
    if undo_log is not None:
        undo_log.append((counts, value, before))
    counts[value] = before + step

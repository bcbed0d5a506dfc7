"""Pods that attract or repel each other: required and preferred pod (anti-)affinity.

For every term in use this counts the placed pods that match it, and for every required anti-affinity of a placed pod
where it stands - per value of the term's node label. Counts follow each placement, so a check never walks over pods.

Not honoured: the preferences of pods already placed, and namespace selectors that need a namespace's labels.
"""

from collections.abc import Iterable, Mapping

from grove.placement.fit import meets
from grove.placement.model import PodDemand, PodTerm, Shape

# Counts of terms that no waiting pod uses any more are dropped when there are this many.
MOST_TERMS = 512

Counts = dict[str, int]
# What to put back, newest last: counts[key] = value.
Journal = list[tuple[dict[str, int], str, int]]


class Neighbours:
    def __init__(self) -> None:
        self._matching: dict[PodTerm, Counts] = {}
        self._holders: dict[PodTerm, Counts] = {}

    def fork(self) -> "Neighbours":
        """An independent copy; usually there is nothing to copy."""
        fork = Neighbours()
        fork._matching = {term: dict(counts) for term, counts in self._matching.items()}
        fork._holders = {term: dict(counts) for term, counts in self._holders.items()}
        return fork

    @property
    def anyone_repels(self) -> bool:
        return bool(self._holders)

    def watch(self, terms: Iterable[PodTerm], placed: Iterable[tuple[PodDemand, Mapping[str, str]]]) -> None:
        """Count these terms from now on. `placed` is only walked if one of them is new."""
        new = [term for term in terms if term not in self._matching]
        if not new:
            return
        if len(self._matching) + len(new) > MOST_TERMS:
            self._matching.clear()
        fresh: dict[PodTerm, Counts] = {term: {} for term in new}
        for pod, labels in placed:
            for term, counts in fresh.items():
                value = labels.get(term.topology_key)
                if value is not None and matches(term, pod):
                    counts[value] = counts.get(value, 0) + 1
        self._matching.update(fresh)

    def add(self, pod: PodDemand, labels: Mapping[str, str], journal: Journal | None = None) -> None:
        self._count(pod, labels, 1, journal)

    def remove(self, pod: PodDemand, labels: Mapping[str, str]) -> None:
        self._count(pod, labels, -1, None)
        for term in pod.shape.anti_affinity:
            if not any(self._holders.get(term, {}).values()):
                self._holders.pop(term, None)

    def recount(self, placed: Iterable[tuple[PodDemand, Mapping[str, str]]]) -> None:
        """Labels of nodes changed: forget all counts and take those of the placed pods anew."""
        self._matching.clear()
        self._holders.clear()
        for pod, labels in placed:
            if pod.shape.anti_affinity:
                self._count(pod, labels, 1, None)

    def _count(self, pod: PodDemand, labels: Mapping[str, str], step: int, journal: Journal | None) -> None:
        for term in pod.shape.anti_affinity:
            _bump(self._holders.setdefault(term, {}), labels.get(term.topology_key), step, journal)
        for term, counts in self._matching.items():
            if matches(term, pod):
                _bump(counts, labels.get(term.topology_key), step, journal)

    def veto(self, pod: PodDemand) -> "Veto":
        """What speaks against a node, for this pod, as things stand now."""
        shape = pod.shape
        attracted = []
        for term in shape.affinity:
            counts = self._matching.get(term, {})
            # The first of a group that wants to be together may go anywhere.
            is_first = matches(term, pod) and not any(counts.values())
            attracted.append((term.topology_key, counts, is_first))
        repelled = [(term.topology_key, self._matching.get(term, {})) for term in shape.anti_affinity]
        unwelcome = [(term.topology_key, counts) for term, counts in self._holders.items() if matches(term, pod)]
        return Veto(attracted, repelled, unwelcome)

    def score(self, shape: Shape, labels: Mapping[str, str]) -> int:
        """Preferred pod (anti-)affinity: the weight of each term for each matching pod in the node's domain."""
        return sum(
            preferred.weight
            * self._matching.get(preferred.term, {}).get(labels.get(preferred.term.topology_key, ""), 0)
            for preferred in shape.preferred_pods
        )


class Veto:
    """One pod's neighbours, looked up once and asked for many nodes."""

    def __init__(
        self,
        attracted: list[tuple[str, Counts, bool]],
        repelled: list[tuple[str, Counts]],
        unwelcome: list[tuple[str, Counts]],
    ) -> None:
        self._attracted = attracted
        self._repelled = repelled
        self._unwelcome = unwelcome

    def reason(self, labels: Mapping[str, str]) -> str:
        """Why not on a node with these labels, said of nodes in plural; empty if nothing speaks against it."""
        for key, counts, is_first in self._attracted:
            value = labels.get(key)
            if value is None or (not counts.get(value, 0) and not is_first):
                return "do not satisfy the pod affinity"
        for key, counts in self._repelled:
            if counts.get(labels.get(key, ""), 0):
                return "have pods that its pod anti-affinity avoids"
        for key, counts in self._unwelcome:
            if counts.get(labels.get(key, ""), 0):
                return "have pods whose anti-affinity avoids it"
        return ""


def matches(term: PodTerm, pod: PodDemand) -> bool:
    if not term.has_selector or (term.namespaces is not None and pod.namespace not in term.namespaces):
        return False
    return all(meets(requirement, pod.labels) for requirement in term.requirements)


def terms_of(shape: Shape) -> tuple[PodTerm, ...]:
    """Every term whose matching pods must be counted to place pods of this shape."""
    return (*shape.affinity, *shape.anti_affinity, *(preferred.term for preferred in shape.preferred_pods))


def is_social(shape: Shape) -> bool:
    """Does the pod care about other pods?"""
    return bool(shape.affinity or shape.anti_affinity or shape.preferred_pods)


def _bump(counts: Counts, value: str | None, step: int, journal: Journal | None) -> None:
    if value is None:
        return
    before = counts.get(value, 0)
    if journal is not None:
        journal.append((counts, value, before))
    counts[value] = before + step

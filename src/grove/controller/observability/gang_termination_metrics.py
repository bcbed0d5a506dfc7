"""Metrics of gang termination: breaches, their duration, terminations, and sets whose terminations are held.

They are derived from changes of conditions and recorded intents, so that a new leader does not count twice.
"""

from datetime import datetime

from prometheus_client import CollectorRegistry, Counter, Histogram

from grove.api.reasons import ConditionType
from grove.api.types.meta import Condition, find_condition, is_condition_true
from grove.api.types.podclique import PodClique
from grove.api.types.podcliquescalinggroup import PodCliqueScalingGroup
from grove.api.types.podcliqueset import PodCliqueSet
from grove.api.types.podgang import PodGang
from grove.clock import Clock
from grove.controller.informers import Caches
from grove.controller.observability.namespace_labels import NamespaceLabels
from grove.planner.teardown.recreation import read_record

CLIQUE = "clique"
GROUP = "group"
GROUP_REPLICA = "group-replica"
SET_REPLICA = "set-replica"
_BUCKETS = (5.0, 10.0, 30.0, 60.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0, 14400.0, 28800.0)


_Breachable = PodClique | PodCliqueScalingGroup


class BreachMetrics:
    def __init__(self, registry: CollectorRegistry, clock: Clock, labels: NamespaceLabels) -> None:
        self._clock = clock
        self._labels = labels
        self._begun = Counter(
            "grove_breaches", "Cliques and groups that fell below their minimum.", ["namespace", "level"],
            registry=registry,
        )  # fmt: skip
        self._seconds = Histogram(
            "grove_breach_seconds", "From the beginning of a breach to its end.", ["level"],
            buckets=_BUCKETS, registry=registry,
        )  # fmt: skip
        self._terminations = Counter(
            "grove_terminations", "Units that were torn down after a breach.", ["namespace", "level"],
            registry=registry,
        )  # fmt: skip
        for level in (CLIQUE, GROUP):
            self._seconds.labels(level)
        self.held_count = 0
        """Sets whose due teardowns are held."""

    def open_namespace(self, namespace: str) -> None:
        """Export zeros for this label value, so that the first breach is an increase."""
        for level in (CLIQUE, GROUP):
            self._begun.labels(namespace, level)
        for level in (GROUP_REPLICA, SET_REPLICA):
            self._terminations.labels(namespace, level)

    def follow(self, caches: Caches) -> None:
        self.held_count = 0
        caches.sets.subscribe(self._set_changed)
        caches.cliques.subscribe(self._clique_changed)
        caches.groups.subscribe(self._group_changed)
        caches.gangs.subscribe(self._gang_changed)

    def unfollow(self) -> None:
        self.held_count = 0

    def _set_changed(self, old: PodCliqueSet | None, new: PodCliqueSet | None) -> None:
        self.held_count += _is_held(new) - _is_held(old)

    def _clique_changed(self, old: PodClique | None, new: PodClique | None) -> None:
        self._record_transition(CLIQUE, old, new)

    def _group_changed(self, old: PodCliqueScalingGroup | None, new: PodCliqueScalingGroup | None) -> None:
        self._record_transition(GROUP, old, new)

    def _record_transition(self, level: str, old: _Breachable | None, new: _Breachable | None) -> None:
        began = _since(old.status.conditions) if old is not None else None
        begins = _since(new.status.conditions) if new is not None else None
        # A breach that exists at the first list was counted by the previous leader.
        if old is not None and begins is not None and begins != began:
            self._begun.labels(self._labels.label(old.metadata.namespace), level).inc()
        if began is not None and begins != began:
            seconds = (self._clock.now() - began).total_seconds()
            self._seconds.labels(level).observe(max(0.0, seconds))

    def _gang_changed(self, old: PodGang | None, new: PodGang | None) -> None:
        if old is None or new is None:
            return
        before = {(one.key, one.incarnation) for one in read_record(old).open}
        for one in read_record(new).open:
            if (one.key, one.incarnation) not in before:
                namespace = self._labels.label(new.metadata.namespace)
                self._terminations.labels(namespace, GROUP_REPLICA if one.group else SET_REPLICA).inc()


def _is_held(pcs: PodCliqueSet | None) -> bool:
    return pcs is not None and is_condition_true(pcs.status.conditions, ConditionType.TEARDOWN_HELD)


def _since(conditions: tuple[Condition, ...]) -> datetime | None:
    """Return when the current breach started; None: there is none."""
    breach = find_condition(conditions, ConditionType.MIN_AVAILABLE_BREACHED)
    return breach.last_transition_time if breach is not None and breach.status == "True" else None

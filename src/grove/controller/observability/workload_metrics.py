"""Metrics of what waits: gangs without nodes, GPUs of gangs that do not run, updates. Read at each scrape.

Only gangs that do not run and sets that are being updated are kept, so a scrape costs nothing for the others.
"""

from collections import Counter as Tally
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from grove.api.reasons import ConditionType
from grove.api.types.meta import Condition, Uid, find_condition, is_condition_true
from grove.api.types.podclique import PodClique
from grove.api.types.podcliqueset import PodCliqueSet
from grove.api.types.podgang import GangPhase, PodGang
from grove.api.values.quantities import QuantityError, parse_milli
from grove.clock import Clock
from grove.controller.informers import Caches
from grove.controller.observability.namespace_labels import NamespaceLabels

# Sets that have series of their own while they are updated: the oldest updates.
MAX_UPDATING_SETS = 50
NO_REASON = "Unknown"
_ENDED = (GangPhase.RUNNING, GangPhase.SUCCEEDED, GangPhase.FAILED)
_Key = tuple[str, str]


class WorkloadMetrics(Collector):
    """A collector of the present state of gangs and updates. Empty while this process does not lead."""

    def __init__(self, clock: Clock, labels: NamespaceLabels) -> None:
        self._clock = clock
        self._labels = labels
        self._caches: Caches | None = None
        self._waiting: dict[Uid, PodGang] = {}
        self._updating: dict[Uid, PodCliqueSet] = {}

    def follow(self, caches: Caches) -> None:
        self._caches = caches
        caches.gangs.subscribe(self._gang_changed)
        caches.sets.subscribe(self._set_changed)

    def unfollow(self) -> None:
        self._caches = None
        self._waiting.clear()
        self._updating.clear()

    def _gang_changed(self, old: PodGang | None, new: PodGang | None) -> None:
        if new is not None and not new.metadata.is_terminating and new.status.phase not in _ENDED:
            self._waiting[new.metadata.uid] = new
        elif (last := new or old) is not None:
            self._waiting.pop(last.metadata.uid, None)

    def _set_changed(self, old: PodCliqueSet | None, new: PodCliqueSet | None) -> None:
        if new is not None and not new.metadata.is_terminating and _update_start(new) is not None:
            self._updating[new.metadata.uid] = new
        elif (last := new or old) is not None:
            self._updating.pop(last.metadata.uid, None)

    def collect(self) -> Iterator[Metric]:
        pending = [gang for gang in self._waiting.values() if not _is_scheduled(gang)]
        yield self._pending_by_reason(pending)
        yield _family(
            "grove_gang_pending_oldest_seconds", "How long the oldest gang without nodes has waited.", ("namespace",),
            self._oldest((gang.metadata.namespace, _pending_since(gang)) for gang in pending),
        )  # fmt: skip
        yield _family(
            "grove_gpus_idle", "GPUs of pods that have a node while their gang does not run.",
            ("namespace", "resource"), self._idle_gpus(),
        )  # fmt: skip
        yield from self._updates()

    def _pending_by_reason(self, pending: Iterable[PodGang]) -> Metric:
        found: Tally[_Key] = Tally()
        for gang in pending:
            condition = find_condition(gang.status.conditions, ConditionType.SCHEDULED)
            reason = condition.reason if condition is not None else ""
            found[self._labels.label(gang.metadata.namespace), reason or NO_REASON] += 1
        text = "Gangs whose minimum has no nodes yet, by the reason of their condition Scheduled."
        return _family("grove_gangs_pending", text, ("namespace", "reason"), found)

    def _oldest(self, starts: Iterable[tuple[str, datetime | None]]) -> Mapping[tuple[str, ...], float]:
        now = self._clock.now()
        found: dict[tuple[str, ...], float] = {}
        for namespace, start in starts:
            if start is not None:
                key = (self._labels.label(namespace),)
                found[key] = max(found.get(key, 0.0), (now - start).total_seconds())
        return found

    def _idle_gpus(self) -> Mapping[_Key, float]:
        found: dict[_Key, float] = {}
        caches = self._caches
        if caches is None:
            return found
        for gang in self._waiting.values():
            namespace = gang.metadata.namespace
            for group in gang.spec.podgroups:
                clique = caches.cliques.by_name(namespace, group.name)
                gpus = gpus_per_pod(clique) if clique is not None else {}
                if not gpus:
                    continue
                pods = (caches.pods.by_name(namespace, one.name) for one in group.pod_references)
                count = sum(1 for pod in pods if pod is not None and pod.spec.node_name)
                for resource, number in gpus.items():
                    key = (self._labels.label(namespace), resource)
                    found[key] = found.get(key, 0.0) + number * count
        return found

    def _updates(self) -> Iterator[Metric]:
        updating = sorted(self._updating.values(), key=_update_key)
        counts: Tally[tuple[str, ...]] = Tally()
        stalled: Tally[_Key] = Tally()
        for pcs in updating:
            namespace = self._labels.label(pcs.metadata.namespace)
            counts[namespace,] += 1
            condition = find_condition(pcs.status.conditions, ConditionType.UPDATE_STALLED)
            if condition is not None and condition.status == "True":
                stalled[namespace, condition.reason or NO_REASON] += 1
        yield _family("grove_sets_updating", "Sets that are being updated.", ("namespace",), counts)
        yield _family(
            "grove_sets_update_stalled", "Sets whose update makes no progress.", ("namespace", "reason"), stalled
        )
        yield _family(
            "grove_update_oldest_seconds", "How long the oldest update has run.", ("namespace",),
            self._oldest((pcs.metadata.namespace, _update_start(pcs)) for pcs in updating),
        )  # fmt: skip
        yield from self._updates_of_sets(updating[:MAX_UPDATING_SETS])

    def _updates_of_sets(self, updating: Iterable[PodCliqueSet]) -> Iterator[Metric]:
        now = self._clock.now()
        shares: dict[_Key, float] = {}
        ages: dict[_Key, float] = {}
        for pcs in updating:
            key = (pcs.metadata.namespace, pcs.metadata.name)
            start = _update_start(pcs)
            shares[key] = update_share(pcs)
            ages[key] = (now - start).total_seconds() if start is not None else 0.0
        labels = ("namespace", "set")
        yield _family(
            "grove_set_update_progress_ratio", "Share of cliques and groups that are updated.", labels, shares
        )
        yield _family("grove_set_update_seconds", "How long the update of the set has run.", labels, ages)


def gpus_per_pod(clique: PodClique) -> dict[str, float]:
    """Return the GPUs that one pod of the clique requests, by resource: nvidia.com/gpu, amd.com/gpu and the like."""
    found: dict[str, float] = {}
    for container in clique.spec.pod_spec.get("containers") or ():
        resources = container.get("resources") or {}
        for name, value in {**(resources.get("limits") or {}), **(resources.get("requests") or {})}.items():
            if name.partition("/")[2].startswith("gpu"):
                found[name] = found.get(name, 0.0) + _number(value)
    return found


def update_share(pcs: PodCliqueSet) -> float:
    progress = pcs.status.update_progress
    if progress is None:
        return 0.0
    total = progress.total_pod_cliques_count + progress.total_pod_clique_scaling_groups_count
    updated = progress.updated_pod_cliques_count + progress.updated_pod_clique_scaling_groups_count
    return updated / total if total else 0.0


def _number(value: object) -> float:
    try:
        return parse_milli(str(value)) / 1000
    except QuantityError:
        return 0.0


def _update_start(pcs: PodCliqueSet) -> datetime | None:
    """Return when the running update started; None: there is none."""
    progress = pcs.status.update_progress
    return progress.update_started_at if progress is not None and progress.update_ended_at is None else None


def _update_key(pcs: PodCliqueSet) -> tuple[str, str, str]:
    start = _update_start(pcs)
    return (start.isoformat() if start is not None else "", pcs.metadata.namespace, pcs.metadata.name)


def _is_scheduled(gang: PodGang) -> bool:
    return is_condition_true(gang.status.conditions, ConditionType.SCHEDULED)


def _pending_since(gang: PodGang) -> datetime | None:
    """Return since when the gang has no nodes: since it lost them, or since its creation."""
    condition: Condition | None = find_condition(gang.status.conditions, ConditionType.SCHEDULED)
    return (condition.last_transition_time if condition is not None else None) or gang.metadata.creation_timestamp


def _family(
    name: str, text: str, labels: tuple[str, ...], values: Mapping[tuple[str, ...], float] | Mapping[_Key, float]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=labels)
    for key, value in sorted(values.items()):
        family.add_metric(key, value)
    return family

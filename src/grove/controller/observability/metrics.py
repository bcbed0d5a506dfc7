"""Prometheus metrics of the operator, its sets and its gangs. The number of label values is bounded.

Sets and gangs are counted incrementally; values that are cheap to read are collected at each scrape.
"""

from collections import Counter as Tally
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from grove import __version__
from grove.api.reasons import ConditionType, Reason
from grove.api.types.meta import HasMetadata, Uid, is_condition_true
from grove.api.types.pod import Pod
from grove.api.types.podcliqueset import PodCliqueSet
from grove.api.types.podgang import GangPhase, PodGang
from grove.clock import Clock
from grove.controller.manager import Controller
from grove.controller.observability.gang_termination_metrics import BreachMetrics
from grove.controller.observability.instrumentation import RequestAttributes
from grove.controller.observability.namespace_labels import NamespaceLabels
from grove.controller.observability.webhook_metrics import WebhookMetrics
from grove.controller.observability.workload_metrics import WorkloadMetrics
from grove.kube.api_errors import ApiError
from grove.planner.status.write_failures import WRITE_REASONS

CONTENT_TYPE = CONTENT_TYPE_LATEST
TERMINATING = "Terminating"
NO_ANSWER = "none"
# Always exported, so that an alert sees them return to 0.
FAILING_REASONS = (*WRITE_REASONS, Reason.CREATE_REJECTED, Reason.NAME_TAKEN)
_RECONCILE_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_AGE_BUCKETS = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 14400.0)


class Metrics:
    """The metrics of the process. Implements `Instrumentation` and `Listener`.

    They outlive the controllers, of which there is one per leader term.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # Else every counter has a second metric with its creation time. The library has no types for this function.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry(auto_describe=False)
        self._requests = Counter(
            "grove_api_requests", "Requests to the API server.", ["verb", "resource", "code"], registry=self.registry
        )
        self._reconciles = Histogram(
            "grove_reconcile_duration_seconds",
            "Duration of one reconcile of a set.",
            buckets=_RECONCILE_BUCKETS,
            registry=self.registry,
        )
        self._rejections = Counter(
            "grove_create_rejections",
            "Creates that the API server rejected.",
            ["reason"],
            registry=self.registry,
        )
        self._panics = Counter(
            "grove_reconcile_panics", "Reconciles that ended with an unexpected exception.", registry=self.registry
        )
        self._restores = Counter(
            "grove_restores",
            "Times that the API server was restored from a backup.",
            registry=self.registry,
        )
        self._gates = self._build_histogram(
            "grove_pod_gate_seconds", "From a pod's creation until its gate was removed."
        )
        self._scheduled = self._build_histogram(
            "grove_gang_scheduled_seconds",
            "From a gang's creation until its minimum had nodes for the first time.",
            "namespace",
        )
        self._ready = self._build_histogram(
            "grove_gang_ready_seconds",
            "From a gang's creation until its minimum was ready for the first time.",
            "namespace",
        )
        self._restarted = Counter(
            "grove_training_restarts",
            "Restarts of training replicas.",
            ["namespace"],
            registry=self.registry,
        )
        self._labels = NamespaceLabels()
        self.breaches = BreachMetrics(self.registry, clock, self._labels)
        self.webhooks = WebhookMetrics(self.registry)
        self._workloads = WorkloadMetrics(clock, self._labels)
        self.registry.register(self._workloads)
        ProcessCollector(registry=self.registry)
        self.registry.register(_Present(self))
        self.is_leading = False
        self.controller: Controller | None = None
        # By resource that cannot be listed or watched: the verb and the status code.
        self.failing_resources: Callable[[], Mapping[str, tuple[str, int]]] = dict
        self.lag_seconds: Callable[[], float] = lambda: 0.0
        self.events_lost_before = 0
        self.restarts_before: Tally[str] = Tally()
        # By namespace and phase.
        self.sets: Tally[tuple[str, str]] = Tally()
        self.gangs: Tally[tuple[str, str]] = Tally()
        self._known: dict[str, set[Uid]] = {}

    def text(self) -> bytes:
        return generate_latest(self.registry)

    def follow(self, controller: Controller) -> None:
        """Collect from this controller, from the start of a term on."""
        self.controller = controller
        self.is_leading = True
        controller.caches.sets.subscribe(self._set_changed)
        controller.caches.gangs.subscribe(self._gang_changed)
        controller.caches.pods.subscribe(self._pod_changed)
        self.breaches.follow(controller.caches)
        self._workloads.follow(controller.caches)

    def unfollow(self) -> None:
        """Stop collecting at the end of a term: the counts of sets and gangs become unknown."""
        if self.controller is not None:
            self.restarts_before.update(self.controller.watch_restarts())
            self.events_lost_before += self.controller.recorder.dropped_count
        self.controller = None
        self.is_leading = False
        self.sets.clear()
        self.gangs.clear()
        self._known.clear()
        self.breaches.unfollow()
        self._workloads.unfollow()

    # Instrumentation

    def observe_reconcile(self, seconds: float) -> None:
        self._reconciles.observe(seconds)

    def count_rejected_create(self, reason: str) -> None:
        self._rejections.labels(reason).inc()

    def count_panic(self) -> None:
        self._panics.inc()

    def count_restore(self) -> None:
        """Record that the API server was restored from a backup."""
        self._restores.inc()

    # Listener

    def on_response(self, attributes: RequestAttributes, code: int) -> None:
        self._requests.labels(attributes.verb, attributes.resource, str(code) if code else NO_ANSWER).inc()

    def on_list_watch(self, attributes: RequestAttributes, error: ApiError | None) -> None:
        pass

    # Changes of the caches

    def _set_changed(self, old: PodCliqueSet | None, new: PodCliqueSet | None) -> None:
        _move(self.sets, self._key(old, _set_phase(old)), self._key(new, _set_phase(new)))
        if new is None:
            return
        namespace = self._labels.label(new.metadata.namespace)
        # Zeros from the start, so that the first value is an increase.
        self.breaches.open_namespace(namespace)
        self._scheduled.labels(namespace)
        self._ready.labels(namespace)
        # At the first list, restarts were counted by the previous leader.
        count = (new.status.restart_count or 0) - (old.status.restart_count or 0 if old is not None else 0)
        self._restarted.labels(namespace).inc(max(0, count) if old is not None else 0)

    def _gang_changed(self, old: PodGang | None, new: PodGang | None) -> None:
        _move(self.gangs, self._key(old, _gang_phase(old)), self._key(new, _gang_phase(new)))
        self._measure_gang(ConditionType.SCHEDULED, self._scheduled, old, new)
        self._measure_gang(ConditionType.READY, self._ready, old, new)

    def _measure_gang(
        self, condition: ConditionType, times: Histogram, old: PodGang | None, new: PodGang | None
    ) -> None:
        """Record only the first time; a gang that had the condition at the first list is not measured."""
        known = self._known.setdefault(condition, set())
        if new is None:
            if old is not None:
                known.discard(old.metadata.uid)
            return
        if new.metadata.uid in known or not is_condition_true(new.status.conditions, condition):
            return
        known.add(new.metadata.uid)
        if old is not None:
            namespace = self._labels.label(new.metadata.namespace)
            times.labels(namespace).observe(self._age(new.metadata.creation_timestamp))

    def _key(self, obj: HasMetadata | None, phase: str) -> tuple[str, str] | None:
        return None if obj is None else (self._labels.label(obj.metadata.namespace), phase)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is None or new is None or not old.spec.scheduling_gates:
            return
        if old.is_gated and not new.is_gated:
            self._gates.observe(self._age(new.metadata.creation_timestamp))

    def _age(self, created: datetime | None) -> float:
        return max(0.0, (self._clock.now() - created).total_seconds()) if created is not None else 0.0

    def _build_histogram(self, name: str, text: str, *labels: str) -> Histogram:
        return Histogram(name, text, labels, buckets=_AGE_BUCKETS, registry=self.registry)


class _Present(Collector):
    """A collector of values that are read at each scrape."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        metrics = self._metrics
        queue = metrics.controller.queue if metrics.controller is not None else None
        info = GaugeMetricFamily("grove_build_info", "1, with the version of this process.", labels=["version"])
        info.add_metric([__version__], 1)
        yield info
        yield GaugeMetricFamily("grove_leader", "1 if this process leads.", value=float(metrics.is_leading))
        yield _by("grove_sets", "Sets by phase.", metrics.sets)
        yield _by("grove_gangs", "Gangs by phase.", metrics.gangs)
        yield GaugeMetricFamily(
            "grove_sets_held", "Sets whose due teardowns are held.", value=metrics.breaches.held_count
        )
        yield GaugeMetricFamily(
            "grove_queue_depth", "Sets that wait to be reconciled.", value=queue.depth if queue is not None else 0
        )
        yield GaugeMetricFamily(
            "grove_queue_oldest_seconds",
            "How long the oldest queued set has waited.",
            value=queue.oldest_seconds if queue is not None else 0.0,
        )
        restarts = Tally(metrics.restarts_before)
        if metrics.controller is not None:
            restarts.update(metrics.controller.watch_restarts())
        family = CounterMetricFamily(
            "grove_watch_restarts", "Watches that were rejected, broke or became silent.", labels=["resource"]
        )
        for resource, count in sorted(restarts.items()):
            family.add_metric([resource], count)
        yield family
        yield from self._collect_failures()

    def _collect_failures(self) -> Iterator[Metric]:
        metrics, controller = self._metrics, self._metrics.controller
        failing: Tally[str] = Tally({str(reason): 0 for reason in FAILING_REASONS})
        if controller is not None:
            failing.update(controller.failing_by_reason())
        writes = GaugeMetricFamily("grove_writes_failing", "Writes that fail now, by reason.", labels=["reason"])
        for reason, count in sorted(failing.items()):
            writes.add_metric([reason], count)
        yield writes
        lists = GaugeMetricFamily(
            "grove_watch_failing", "1 for a kind that cannot be listed or watched.", labels=["resource", "verb", "code"]
        )
        for resource, (verb, code) in sorted(metrics.failing_resources().items()):
            lists.add_metric([resource, verb, str(code) if code else NO_ANSWER], 1)
        yield lists
        unreadable = GaugeMetricFamily(
            "grove_objects_unreadable", "Objects that the operator cannot decode.", labels=["resource"]
        )
        for resource, found in sorted(controller.unreadable().items() if controller is not None else ()):
            unreadable.add_metric([resource], len(found))
        yield unreadable
        stale = GaugeMetricFamily(
            "grove_cache_stale_seconds", "For how long a cache may be stale.", labels=["resource"]
        )
        for resource, seconds in sorted(controller.stale_seconds().items() if controller is not None else ()):
            stale.add_metric([resource], seconds)
        yield stale
        yield GaugeMetricFamily(
            "grove_event_loop_lag_seconds", "Longest delay of the event loop in the last minute.",
            value=metrics.lag_seconds(),
        )  # fmt: skip
        lost = metrics.events_lost_before + (controller.recorder.dropped_count if controller is not None else 0)
        yield CounterMetricFamily("grove_events_lost", "Events that were not written.", value=lost)


def _by(name: str, text: str, tally: Tally[tuple[str, str]]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=["namespace", "phase"])
    for key, count in sorted(tally.items()):
        family.add_metric(key, count)
    return family


def _move(tally: Tally[tuple[str, str]], before: tuple[str, str] | None, after: tuple[str, str] | None) -> None:
    if before == after:
        return
    if before is not None:
        tally[before] -= 1
    if after is not None:
        tally[after] += 1


def _set_phase(pcs: PodCliqueSet | None) -> str:
    if pcs is None:
        return ""
    return TERMINATING if pcs.metadata.is_terminating else pcs.status.phase or GangPhase.PENDING.value


def _gang_phase(gang: PodGang | None) -> str:
    if gang is None:
        return ""
    return TERMINATING if gang.metadata.is_terminating else gang.status.phase or GangPhase.PENDING.value

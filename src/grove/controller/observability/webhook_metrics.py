"""Metrics of the webhooks. Every replica serves webhooks, so every replica has them."""

from collections.abc import Callable, Iterator
from datetime import datetime

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class WebhookMetrics(Collector):
    """Requests by webhook and result, and the end of the served certificate. Safe to use from other threads."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "grove_webhook_requests", "Reviews of the API server, by result.", ["webhook", "result"], registry=registry
        )
        self._seconds = Histogram(
            "grove_webhook_duration_seconds", "Duration of one review.", ["webhook"], buckets=_BUCKETS,
            registry=registry,
        )  # fmt: skip
        # None: no certificate is served.
        self.certificate_end: Callable[[], datetime | None] = lambda: None
        registry.register(self)

    def observe(self, webhook: str, result: str, seconds: float) -> None:
        """Record a review: `allowed`, `rejected`, or `error` if the webhook did not answer the question."""
        self._requests.labels(webhook, result).inc()
        self._seconds.labels(webhook).observe(seconds)

    def collect(self) -> Iterator[Metric]:
        end = self.certificate_end()
        family = GaugeMetricFamily(
            "grove_webhook_certificate_expiry_timestamp_seconds", "When the served webhook certificate expires."
        )
        if end is not None:
            family.add_metric((), end.timestamp())
        yield family

"""Serve the metrics of the operator of `grove up`, on loopback."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from grove.controller.observability.http_endpoints import Endpoint, Pages, Query
from grove.controller.observability.metrics import CONTENT_TYPE, Metrics

LOOPBACK = "127.0.0.1"


@asynccontextmanager
async def serve_metrics(metrics: Metrics | None, port: int) -> AsyncIterator[str]:
    """Yield the URL of the metrics; "" without an operator. Raises `UserError` if the port cannot be used."""
    if metrics is None:
        yield ""
        return

    async def build_page(_: Query) -> Endpoint:
        return Endpoint(body=metrics.text(), content_type=CONTENT_TYPE)

    async with Pages({"/metrics": build_page}, LOOPBACK, port, "--metrics-port") as pages:
        yield f"{pages.url}/metrics"

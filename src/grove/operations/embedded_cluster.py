"""Start an embedded cluster with the operator, for `grove up`, `grove run` and the SDK.

`cli/up/runner.py` serves it over HTTPS; `cli/run/runner.py` runs sets to completion on it.
"""

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

from grove.api.validation.validation_options import ValidationOptions
from grove.api.values.clique_counts import LOCAL_IMAGE
from grove.backends.native import DEFAULT_SCHEDULER
from grove.clock import Clock
from grove.cluster.embedded_cluster import EmbeddedCluster, KubeletKind
from grove.cluster.storage.store import Storage
from grove.controller.controller_options import ControllerOptions
from grove.controller.manager import Controller, run_through_restores
from grove.controller.observability.instrumentation import InstrumentedTransport
from grove.kube.client import Client
from grove.kube.write_limiter import WriteLimiter
from grove.operations.random_source import fresh_random
from grove.sim.in_process_admission import admission_of

if TYPE_CHECKING:
    # Imported by `grove up` only: the library of Prometheus takes a while to load.
    from grove.controller.observability.metrics import Metrics


def new_cluster(
    clock: Clock,
    kubelet: KubeletKind,
    store: Storage | None = None,
    *,
    has_operator: bool = True,
    ready_after: timedelta = timedelta(0),
) -> EmbeddedCluster:
    # An external operator may support other schedulers. The built-in one supports the embedded scheduler only.
    settings = ValidationOptions(schedulers=(DEFAULT_SCHEDULER,)) if has_operator else ValidationOptions()
    # The server needs its admission at construction, and the admission reads the server's store: hence the lambda.
    admission = admission_of(lambda: cluster.server.store, settings)
    cluster = EmbeddedCluster(
        clock, fresh_random(), admission=admission, kubelet=kubelet, store=store, ready_after=ready_after
    )
    return cluster


def start_cluster(
    tasks: asyncio.TaskGroup,
    cluster: EmbeddedCluster,
    clock: Clock,
    *,
    has_operator: bool,
    metrics: "Metrics | None" = None,
) -> list[asyncio.Task[None]]:
    """Start the cluster, and the operator if wanted, as tasks. They run until cancelled."""
    started = [tasks.create_task(cluster.run())]
    if has_operator:
        started.append(tasks.create_task(_run_operator(cluster, clock, metrics)))
    return started


async def _run_operator(cluster: EmbeddedCluster, clock: Clock, metrics: "Metrics | None") -> None:
    transport = cluster.connect()
    client = Client(
        transport if metrics is None else InstrumentedTransport(transport, metrics), clock, WriteLimiter(clock)
    )
    options = ControllerOptions(init_image=LOCAL_IMAGE)

    def build_controller() -> Controller:
        if metrics is None:
            return Controller(client, clock, fresh_random(), options)
        metrics.unfollow()
        controller = Controller(client, clock, fresh_random(), options, instrumentation=metrics)
        metrics.follow(controller)
        return controller

    await run_through_restores(build_controller)

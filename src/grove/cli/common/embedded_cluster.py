"""Start an embedded cluster with the operator, for `grove up` and `grove run`.

`cli/up/runner.py` serves it over HTTPS; `cli/run/runner.py` runs sets to completion on it.
"""

import asyncio
import gc
import sys

import structlog

from grove.api.validation.validation_options import ValidationOptions
from grove.backends.native import DEFAULT_SCHEDULER
from grove.cli.common.random_source import fresh_random
from grove.clock import Clock
from grove.cluster.embedded_cluster import EmbeddedCluster, KubeletKind
from grove.cluster.storage.store import Storage
from grove.controller.manager import Controller, run_through_restores
from grove.kube.client import Client
from grove.kube.write_limiter import WriteLimiter
from grove.sim.in_process_admission import admission_of


def prepare_process() -> None:
    """Configure logging and garbage collection of a process that will run a cluster."""
    # Looked up for every line, because a live display replaces stderr while it is active.
    structlog.configure(logger_factory=lambda *_: structlog.PrintLogger(sys.stderr))
    # There is almost no cyclic garbage, so frequent collections would only cost time.
    gc.freeze()
    gc.set_threshold(200_000, 50, 1_000)
    gc.enable()


def new_cluster(
    clock: Clock, kubelet: KubeletKind, store: Storage | None = None, *, has_operator: bool = True
) -> EmbeddedCluster:
    # An external operator may support other schedulers. The built-in one supports the embedded scheduler only.
    settings = ValidationOptions(schedulers=(DEFAULT_SCHEDULER,)) if has_operator else ValidationOptions()
    # The server needs its admission at construction, and the admission reads the server's store: hence the lambda.
    admission = admission_of(lambda: cluster.server.store, settings)
    cluster = EmbeddedCluster(clock, fresh_random(), admission=admission, kubelet=kubelet, store=store)
    return cluster


def inhabit(
    tasks: asyncio.TaskGroup, cluster: EmbeddedCluster, clock: Clock, *, has_operator: bool
) -> list[asyncio.Task[None]]:
    """Start the cluster, and the operator if wanted, as tasks. They run until cancelled."""
    started = [tasks.create_task(cluster.run())]
    if has_operator:
        client = Client(cluster.connect(), clock, WriteLimiter(clock))
        operating = run_through_restores(lambda: Controller(client, clock, fresh_random()))
        started.append(tasks.create_task(operating))
    return started

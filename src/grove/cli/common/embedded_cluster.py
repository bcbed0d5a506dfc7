"""An embedded cluster with the operator beside it: what `grove up` and `grove run` have in common.

Serving it to others is `cli/up/runner.py`; running something to its end is `cli/run/runner.py`.
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
    """For a process that is about to become a cluster: its log, and its garbage."""
    # Looked up at every line: a moving picture stands in for it while it is drawn.
    structlog.configure(logger_factory=lambda *_: structlog.PrintLogger(sys.stderr))
    # Almost nothing is cyclic here: looking for cycles often would only cost time.
    gc.freeze()
    gc.set_threshold(200_000, 50, 1_000)
    gc.enable()


def new_cluster(
    clock: Clock, kubelet: KubeletKind, store: Storage | None = None, *, has_operator: bool = True
) -> EmbeddedCluster:
    # An operator beside it may know other schedulers; ours knows the one that runs here.
    settings = ValidationOptions(schedulers=(DEFAULT_SCHEDULER,)) if has_operator else ValidationOptions()
    # The server takes its admission when it is made, and the admission looks into the server's store.
    admission = admission_of(lambda: cluster.server.store, settings)
    cluster = EmbeddedCluster(clock, fresh_random(), admission=admission, kubelet=kubelet, store=store)
    return cluster


def inhabit(
    tasks: asyncio.TaskGroup, cluster: EmbeddedCluster, clock: Clock, *, has_operator: bool
) -> list[asyncio.Task[None]]:
    """Bring the cluster to life, with an operator or without; cancelled, the tasks end."""
    started = [tasks.create_task(cluster.run())]
    if has_operator:
        client = Client(cluster.connect(), clock, WriteLimiter(clock))
        operating = run_through_restores(lambda: Controller(client, clock, fresh_random()))
        started.append(tasks.create_task(operating))
    return started

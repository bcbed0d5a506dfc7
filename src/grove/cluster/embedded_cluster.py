"""The embedded cluster: wires API server, scheduler, kubelet, node lifecycle and other controllers together.

It does not start the operator. `http/` serves it to other processes; the simulator wires its own cluster, with faults.
"""

import asyncio
from datetime import timedelta
from enum import StrEnum
from random import Random
from typing import assert_never

from grove.api.types.admission import AdmissionControl
from grove.clock import Clock
from grove.cluster.apiserver.api_server import ApiServer
from grove.cluster.apiserver.metrics.pod_usage import UsageSource
from grove.cluster.apiserver.verbs.logs import NO_LOGS, LogSource
from grove.cluster.controllers.autoscaling.horizontal_controller import HorizontalController
from grove.cluster.controllers.disruption_controller import DisruptionController
from grove.cluster.controllers.garbage_collector import GarbageCollector
from grove.cluster.controllers.namespace_defaults import NamespaceDefaults
from grove.cluster.controllers.node_lifecycle import NodeLifecycle
from grove.cluster.in_process_transport import InProcessTransport
from grove.cluster.kubelet.process.log_source import ProcessLogs
from grove.cluster.kubelet.process.process_kubelet import ProcessKubelet
from grove.cluster.kubelet.process_usage import ProcessUsage
from grove.cluster.kubelet.simulated.simulated_kubelet import SimulatedKubelet
from grove.cluster.kubelet.simulated.simulated_logs import SimulatedLogs
from grove.cluster.kubelet.simulated.simulated_usage import SimulatedUsage
from grove.cluster.node_pod_cache import BoundPods
from grove.cluster.scheduler.scheduler import Scheduler
from grove.cluster.storage.store import Storage
from grove.kube.client import Client


class KubeletKind(StrEnum):
    """The kubelet that runs bound pods. With `NONE`, the creator of the cluster writes the status of pods."""

    SIMULATED = "simulated"
    PROCESS = "process"
    NONE = "none"


class EmbeddedCluster:
    """An embedded cluster. `run` runs until it is cancelled."""

    def __init__(
        self,
        clock: Clock,
        random: Random,
        *,
        admission: AdmissionControl | None,
        kubelet: KubeletKind = KubeletKind.SIMULATED,
        store: Storage | None = None,
        ready_after: timedelta = timedelta(0),
    ) -> None:
        """Create the cluster. It continues from `store` if that was restored from disk.

        `ready_after`: how long simulated pods take to become ready, if they do not say it themselves.
        """
        self._ready_after = ready_after
        self._clock = clock
        self._random = random
        self._kubelet = kubelet
        # The PEM of the CA that clients of this cluster trust, and the address, once it is served.
        self.root_ca = b""
        self.api_address: tuple[str, int] | None = None
        self._process_logs = ProcessLogs()
        self._process_usage = ProcessUsage()
        self.logs = self._log_source()
        self.server = ApiServer(
            clock, self._new_random(), admission=admission, logs=self.logs, usage=self._usage_source(), store=store
        )

    def connect(self) -> InProcessTransport:
        return InProcessTransport(self.server, self._clock)

    def client(self) -> Client:
        return Client(self.connect(), self._clock)

    async def run(self) -> None:
        clock = self._clock
        bound = BoundPods(self.client(), clock, self._new_random())
        parts = [
            bound.run(),
            NodeLifecycle(self.client(), clock, self._new_random(), bound).run(),
            Scheduler(self.client(), clock, self._new_random()).run(),
            GarbageCollector(self.server).run(),
            NamespaceDefaults(self.server, root_ca=self.root_ca).run(),
            DisruptionController(self.server).run(),
            HorizontalController(self.server).run(),
        ]
        match self._kubelet:
            case KubeletKind.SIMULATED:
                kubelet = SimulatedKubelet(
                    self.client(), clock, self._new_random(), bound, ready_after=self._ready_after
                )
                parts.append(kubelet.run())
            case KubeletKind.PROCESS:
                processes = ProcessKubelet(
                    self.client(), clock, self._new_random(), bound, self._process_logs, api_address=self.api_address
                )
                self._process_usage.follow(processes.find_processes)
                parts.append(processes.run())
            case KubeletKind.NONE:
                pass
            case _:
                assert_never(self._kubelet)
        async with asyncio.TaskGroup() as tasks:
            for part in parts:
                tasks.create_task(part)

    def _log_source(self) -> LogSource:
        match self._kubelet:
            case KubeletKind.SIMULATED:
                return SimulatedLogs()
            case KubeletKind.PROCESS:
                return self._process_logs
            case KubeletKind.NONE:
                return NO_LOGS
            case _:
                assert_never(self._kubelet)

    def _usage_source(self) -> UsageSource | None:
        match self._kubelet:
            case KubeletKind.SIMULATED:
                return SimulatedUsage()
            case KubeletKind.PROCESS:
                return self._process_usage
            case KubeletKind.NONE:
                return None
            case _:
                assert_never(self._kubelet)

    def _new_random(self) -> Random:
        """Return a new random generator, so that each component draws from its own."""
        return Random(self._random.getrandbits(64))

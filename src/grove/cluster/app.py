"""An embedded cluster made of its parts: API server, scheduler, kubelet, node care, garbage collection. Wiring only.

No operator: that is not part of a cluster. Serving it to others is `http/`; the simulator wires its own, with faults.
"""

import asyncio
from random import Random

from grove.api.admission import AdmissionControl
from grove.clock import Clock
from grove.cluster.bound import BoundPods
from grove.cluster.garbage import GarbageCollector
from grove.cluster.inprocess import InProcessTransport
from grove.cluster.kubelet.simulated import SimulatedKubelet
from grove.cluster.kubelet.simulated_logs import SimulatedLogs
from grove.cluster.node_lifecycle import NodeLifecycle
from grove.cluster.scheduler import Scheduler
from grove.cluster.server import ApiServer
from grove.cluster.server.logs import NO_LOGS
from grove.kube.client import Client


class EmbeddedCluster:
    """`run` until cancelled. Without a kubelet nobody runs bound pods: whoever made the cluster writes their status."""

    def __init__(
        self, clock: Clock, random: Random, *, admission: AdmissionControl | None, has_kubelet: bool = True
    ) -> None:
        self._clock = clock
        self._random = random
        self._has_kubelet = has_kubelet
        logs = SimulatedLogs() if has_kubelet else NO_LOGS
        self.server = ApiServer(clock, self._chance(), admission=admission, logs=logs)

    def connect(self) -> InProcessTransport:
        return InProcessTransport(self.server, self._clock)

    def client(self) -> Client:
        return Client(self.connect(), self._clock)

    async def run(self) -> None:
        clock = self._clock
        bound = BoundPods(self.client(), clock, self._chance())
        parts = [
            bound.run(),
            NodeLifecycle(self.client(), clock, self._chance(), bound).run(),
            Scheduler(self.client(), clock, self._chance()).run(),
            GarbageCollector(self.server).run(),
        ]
        if self._has_kubelet:
            parts.append(SimulatedKubelet(self.client(), clock, self._chance(), bound).run())
        async with asyncio.TaskGroup() as tasks:
            for part in parts:
                tasks.create_task(part)

    def _chance(self) -> Random:
        """Chance of its own for every part."""
        return Random(self._random.getrandbits(64))

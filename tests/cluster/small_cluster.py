"""A small cluster for tests of what works on behalf of nodes: server, nodes, kubelet, node lifecycle; no scheduler."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from random import Random
from typing import Any

from grove.api.resources import PODS
from grove.api.types.pod import Pod
from grove.clock import LoopClock
from grove.cluster.apiserver.api_server import ApiServer
from grove.cluster.controllers.node_lifecycle import NodeLifecycle
from grove.cluster.in_process_transport import InProcessTransport
from grove.cluster.kubelet.simulated.simulated_kubelet import SimulatedKubelet
from grove.cluster.node_pod_cache import NODE_VIEW, BoundNode, BoundPods
from grove.cluster.nodes import Nodes
from grove.kube.api_errors import ApiError
from grove.kube.client import Client
from grove.sim.faults import FaultyTransport
from grove.sim.virtual_clock import run_virtual

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
RESOURCES = {"cpu": "8", "memory": "32Gi", "pods": "110"}


class SmallCluster:
    """Two ready nodes and everything that runs for them; the test is the user and the scheduler."""

    def __init__(self) -> None:
        self.clock = LoopClock(EPOCH)
        self.server = ApiServer(self.clock, Random("server"))
        self.client = Client(InProcessTransport(self.server, self.clock), self.clock)
        self.kubelet_writes = self._connect("kubelet")
        self.lifecycle_writes = self._connect("lifecycle")
        self.nodes = Nodes(self.client, self.clock)
        self.bound = BoundPods(self.client, self.clock, Random("bound"))
        self._runs = (
            self.bound,
            SimulatedKubelet(Client(self.kubelet_writes, self.clock), self.clock, Random("kubelet"), self.bound),
            NodeLifecycle(Client(self.lifecycle_writes, self.clock), self.clock, Random("lifecycle"), self.bound),
        )

    def _connect(self, who: str) -> FaultyTransport:
        return FaultyTransport(InProcessTransport(self.server, self.clock), self.clock, Random(who))

    async def start(self) -> list[asyncio.Task[None]]:
        await self.nodes.create(2, RESOURCES)
        return [asyncio.create_task(one.run()) for one in self._runs]

    async def put_pod(self, name: str, *, node: str = "node-0", annotations: Any = None, **spec: Any) -> Pod:
        """A pod that is born on its node."""
        containers = [{"name": "main", "image": "pause"}]
        manifest = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "annotations": annotations or {}},
            "spec": {"nodeName": node, "containers": containers, **spec},
        }
        return await self.client.create(PODS, "default", manifest)

    async def pod(self, name: str) -> Pod | None:
        try:
            return await self.client.get(PODS, "default", name)
        except ApiError as error:
            if error.is_not_found:
                return None
            raise

    async def is_ready(self, name: str) -> bool:
        pod = await self.pod(name)
        return pod is not None and pod.is_ready

    async def node(self, name: str) -> BoundNode:
        return await self.client.get(NODE_VIEW, "", name)

    async def run_for(self, seconds: float) -> None:
        await self.clock.sleep(seconds)


def run_story(story: Callable[[SmallCluster], Awaitable[None]]) -> None:
    async def main() -> None:
        cluster = SmallCluster()
        tasks = await cluster.start()
        await story(cluster)
        failures = [task for task in tasks if task.done()]
        assert failures == []

    run_virtual(main())

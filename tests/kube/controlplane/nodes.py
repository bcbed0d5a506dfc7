"""Nodes for a real API server, and the simulated kubelet on them: the embedded cluster's own code, over HTTP.

`python -m tests.kube.controlplane.nodes KUBECONFIG NUMBER` prints one line once the nodes are there, then runs their
pods until it is ended. A process of its own, so that tests and benchmarks do not share their loop with it.
"""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from grove.clock import LoopClock
from grove.cluster.kubelet.simulated.simulated_kubelet import SimulatedKubelet
from grove.cluster.node_pod_cache import NODE_VIEW, BoundPods
from grove.cluster.nodes import Nodes
from grove.kube.client import Client
from grove.kube.http_transport import HttpTransport
from grove.kube.kubeconfig import find_access

RESOURCES = {"cpu": "64", "memory": "256Gi", "nvidia.com/gpu": "8", "pods": "250"}
GREETING = "nodes are ready"
# A safety net, far above what anything takes.
_OPEN_SECONDS = 240.0


@contextmanager
def running_nodes(kubeconfig: Path, number: int) -> Iterator[subprocess.Popen[str]]:
    """From the moment the nodes are there until the end of the block."""
    command = [sys.executable, "-m", "tests.kube.controlplane.nodes", str(kubeconfig), str(number)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == GREETING, "the simulated nodes did not start; see above"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close() if process.stdout else None


async def _run(kubeconfig: Path, number: int) -> None:
    clock = LoopClock.starting_now()
    chance = Random(number)
    async with HttpTransport(find_access({}, kubeconfig=kubeconfig), clock) as transport:
        client = Client(transport, clock)
        await _await_open(client, clock, await Nodes(client, clock).create(number, RESOURCES))
        bound = BoundPods(client, clock, chance)
        kubelet = SimulatedKubelet(client, clock, chance, bound)
        print(GREETING, flush=True)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(bound.run())
            tasks.create_task(kubelet.run())


async def _await_open(client: Client, clock: LoopClock, names: tuple[str, ...]) -> None:
    """Until pods can be placed on these: a new node is tainted until a controller has seen that it is ready."""
    deadline = clock.monotonic() + _OPEN_SECONDS
    while any(node.spec.taints for node in (await client.list(NODE_VIEW)).items if node.metadata.name in names):
        assert clock.monotonic() < deadline, "the nodes keep their taints"
        await clock.sleep(0.05)


if __name__ == "__main__":
    asyncio.run(_run(Path(sys.argv[1]), int(sys.argv[2])))

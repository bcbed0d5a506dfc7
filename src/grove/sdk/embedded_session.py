"""A cluster with the operator in this process, for tests and notebooks."""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Literal

from grove.clock import LoopClock
from grove.operations.connection import Connection
from grove.sdk.async_client import AsyncClient
from grove.sdk.errors import GroveError
from grove.sdk.loop_thread import LoopThread
from grove.sdk.session import Session
from grove.sdk.sync_client import SyncClient

if TYPE_CHECKING:
    from grove.cluster.embedded_cluster import EmbeddedCluster

NODE_RESOURCES: Mapping[str, str] = {"cpu": "32", "memory": "256Gi", "nvidia.com/gpu": "8", "pods": "110"}
NAMESPACE = "default"
# Modules of the extra `local`.
_EXTRA = ("cel_expr_python", "google", "google.protobuf")


class LocalCluster:
    """An embedded cluster as a context manager: `with` gives a `Client`, `async with` an `AsyncClient`."""

    def __init__(
        self,
        nodes: int,
        node_resources: Mapping[str, str],
        kubelet: Literal["simulated", "process"],
        ready_after: float,
    ) -> None:
        self._nodes = nodes
        self._node_resources = node_resources
        self._kubelet = kubelet
        self._ready_after = timedelta(seconds=ready_after)
        self._thread: LoopThread | None = None
        self._running: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()

    def __enter__(self) -> SyncClient:
        self._thread = LoopThread()
        try:
            return SyncClient._of(self._thread.run(self.__aenter__()), self._thread)
        except BaseException:
            self._thread.stop()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread is not None:
            try:
                self._thread.run(self._end())
            finally:
                self._thread.stop()

    async def __aenter__(self) -> AsyncClient:
        self._stop.clear()
        started: asyncio.Future[AsyncClient] = asyncio.get_running_loop().create_future()
        # In a task of its own: a fixture may enter and leave in different tasks.
        self._running = asyncio.create_task(self._run(started))
        self._running.add_done_callback(lambda task: _fail_start(task, started))
        return await started

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._end()

    async def _end(self) -> None:
        self._stop.set()
        if self._running is not None:
            await self._running

    async def _run(self, started: "asyncio.Future[AsyncClient]") -> None:
        """Run the cluster until it is stopped."""
        try:
            from grove.cluster.default_topology_binding import create_topology
            from grove.cluster.embedded_cluster import KubeletKind
            from grove.cluster.nodes import Nodes
            from grove.operations.embedded_cluster import new_cluster, start_cluster
        except ModuleNotFoundError as error:
            if error.name not in _EXTRA:
                raise
            raise GroveError(
                "the embedded cluster is not installed; `pip install 'grove-operator[local]'` adds it"
            ) from error
        clock = LoopClock.starting_now()
        cluster = new_cluster(clock, KubeletKind(self._kubelet), ready_after=self._ready_after)
        async with AsyncExitStack() as stack:
            if self._kubelet == "process":
                await _serve_api(cluster, stack)
            await Nodes(cluster.client(), clock).create(self._nodes, self._node_resources)
            await create_topology(cluster.client())
            async with asyncio.TaskGroup() as tasks:
                running = start_cluster(tasks, cluster, clock, has_operator=True)
                connection = Connection(
                    client=cluster.client(), transport=cluster.connect(), clock=clock, namespace=NAMESPACE
                )
                started.set_result(AsyncClient._of(Session(connection=connection), NAMESPACE))
                await self._stop.wait()
                for task in running:
                    task.cancel()


def _fail_start(task: "asyncio.Task[None]", started: "asyncio.Future[AsyncClient]") -> None:
    """Report the error of a cluster that ended before it had started."""
    error = None if task.cancelled() else task.exception()
    if error is not None and not started.done():
        started.set_exception(error)


async def _serve_api(cluster: "EmbeddedCluster", stack: AsyncExitStack) -> None:
    """Serve the API on loopback: programs in pods may read it, and those that wait for other cliques do."""
    from grove.cluster.http.https_server import ADDRESS, HttpApi
    from grove.operations.random_source import new_token

    api = HttpApi(cluster.server, token=new_token())
    stack.push_async_callback(api.stop)
    await api.start()
    cluster.root_ca = api.ca
    cluster.api_address = (ADDRESS, api.port)


def local(
    *,
    nodes: int = 8,
    node_resources: Mapping[str, str] = NODE_RESOURCES,
    kubelet: Literal["simulated", "process"] = "simulated",
    ready_after: float = 0.0,
) -> LocalCluster:
    """Start an embedded cluster with the operator in this process. It ends with the `with` block.

    `with` gives a `Client`, `async with` an `AsyncClient`. Nothing listens on the network, and nothing is stored.
    `kubelet`: `"simulated"` runs no program; its pods are ready after `ready_after` seconds. `"process"` runs the
    commands of containers as local processes. Needs the extra `local` of the package.

    Example:
        with local(nodes=2) as client:
            client.submit(chat)
            client.wait("chat", timeout=60)
    """
    return LocalCluster(nodes, node_resources, kubelet, ready_after)

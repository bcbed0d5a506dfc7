"""An embedded cluster whose pods are processes of this machine, in real time or in time that runs faster.

Nobody sleeps for luck: a test waits until the API says what it wants to see, and fails with what it says instead.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from grove.api.resources import PODS, Resource
from grove.api.types.meta import JsonObject, ObjectMeta, WireStruct
from grove.clock import LoopClock
from grove.cluster.apiserver.api_server import ApiServer
from grove.cluster.built_in_resources import PODS as SERVED_PODS
from grove.cluster.controllers.node_lifecycle import NodeLifecycle
from grove.cluster.in_process_transport import InProcessTransport
from grove.cluster.kubelet.process.async_events import Broadcast
from grove.cluster.kubelet.process.config_watcher import CONFIG_MAPS
from grove.cluster.kubelet.process.log_source import ProcessLogs
from grove.cluster.kubelet.process.process_kubelet import ProcessKubelet
from grove.cluster.kubelet.process_usage import ProcessUsage
from grove.cluster.node_pod_cache import BoundPods
from grove.cluster.nodes import Nodes
from grove.cluster.storage.store import Change
from grove.kube.api_errors import ApiError
from grove.kube.client import Client
from grove.kube.transport import Request
from tests.bent_time import BentLoop

RESOURCES = {"cpu": "8", "memory": "32Gi", "pods": "110"}
# A safety net, far above what anything takes.
SECONDS = 60.0


class AnyPod(WireStruct):
    metadata: ObjectMeta
    spec: JsonObject = {}
    status: JsonObject = {}

    @property
    def phase(self) -> str:
        return str(self.status.get("phase"))

    @property
    def container(self) -> JsonObject:
        """The status of its first container."""
        found: JsonObject = (self.status.get("containerStatuses") or [{}])[0]
        return found

    @property
    def state(self) -> JsonObject:
        found: JsonObject = self.container.get("state") or {}
        return found

    @property
    def waits_for(self) -> str:
        return str(self.state.get("waiting", {}).get("reason", ""))

    @property
    def exit_code(self) -> int | None:
        ended: JsonObject = self.state.get("terminated", {})
        return ended.get("exitCode")

    def is_true(self, condition: str) -> bool:
        return any(c["type"] == condition and c["status"] == "True" for c in self.status.get("conditions", ()))


ANY_PODS = PODS.viewed_as(AnyPod)


class ProcessCluster:
    """Two nodes of this machine; the test is the user and the scheduler."""

    def __init__(self) -> None:
        self.clock = LoopClock.starting_now()
        self._logs = ProcessLogs()
        usage = ProcessUsage()
        self.server = ApiServer(self.clock, Random("server"), logs=self._logs, usage=usage)
        self._versions: dict[tuple[str, str], list[AnyPod]] = {}
        self._changes = Broadcast()
        self.server.store.subscribe(self._hear)
        self.transport = InProcessTransport(self.server, self.clock)
        self.client = Client(self.transport, self.clock)
        self.nodes = Nodes(self.client, self.clock)
        self.bound = BoundPods(self.client, self.clock, Random("bound"))
        # Chance of its own: tests run side by side, and must not meet at one address.
        chance = Random(os.urandom(16))
        self.kubelet = ProcessKubelet(self.client, self.clock, chance, self.bound, self._logs)
        usage.follow(self.kubelet.find_processes)
        self.lifecycle = NodeLifecycle(self.client, self.clock, Random("lifecycle"), self.bound)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for part in (self.bound, self.kubelet, self.lifecycle):
                group.create_task(part.run())

    async def put(self, name: str, *command: str, **more: Any) -> AnyPod:
        """A pod of one container that is born on its node; `more` is of its spec, or with `main` of its container."""
        main = {"name": "main", "image": "none", "command": list(command), **more.pop("main", {})}
        metadata = {"name": name, "namespace": "default", **more.pop("metadata", {})}
        spec = {"nodeName": "node-0", "restartPolicy": "Never", "containers": [main], **more}
        manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        return await self.client.create(ANY_PODS, metadata["namespace"], manifest)

    async def pod(self, name: str, namespace: str = "default") -> AnyPod | None:
        try:
            return await self.client.get(ANY_PODS, namespace, name)
        except ApiError as error:
            if error.is_not_found:
                return None
            raise

    async def until(self, name: str, seen: Callable[[AnyPod], object], namespace: str = "default") -> AnyPod:
        """The first version of the pod that is as wanted, from the present one on; none is missed."""
        versions = self._versions.setdefault((namespace, name), [])
        place = max(len(versions) - 1, 0)
        try:
            async with asyncio.timeout(SECONDS * speed_of_time()):
                while True:
                    changed = self._changes.wait()
                    for pod in versions[place:]:
                        if seen(pod):
                            changed.close()
                            return pod
                    place = len(versions)
                    await changed
        except TimeoutError:
            raise AssertionError(f"{name} never came to that: {versions[-1:]}") from None

    def _hear(self, change: Change) -> None:
        if change.resource_info is SERVED_PODS:
            pod = msgspec.convert(change.entry.obj, AnyPod)
            self._versions.setdefault((pod.metadata.namespace, pod.metadata.name), []).append(pod)
            self._changes.notify()

    async def ended(self, name: str, namespace: str = "default") -> AnyPod:
        return await self.until(name, lambda pod: pod.phase in ("Succeeded", "Failed"), namespace)

    async def ready(self, name: str) -> AnyPod:
        return await self.until(name, lambda pod: pod.is_true("Ready"))

    async def gone(self, name: str) -> None:
        async with asyncio.timeout(SECONDS * speed_of_time()):
            while True:
                changed = self._changes.wait()
                if await self.pod(name) is None:
                    changed.close()
                    return
                await changed

    async def delete(self, name: str, grace: int | None = None) -> None:
        await self.client.delete(ANY_PODS, "default", name, grace_period_seconds=grace)

    async def log(self, name: str, **query: str) -> str:
        response = await self.transport.send(
            Request(method="GET", path=PODS.path("default", name, "log"), query=query)
        )  # fmt: skip
        assert response.status == 200, response.body
        return response.body.decode()

    async def lines(self, name: str, count: int = 1, **query: str) -> list[str]:
        """The first lines of its log, once they are written; fails if it ends before."""
        await self.until(name, lambda pod: "running" in pod.state or "terminated" in pod.state)
        found: list[str] = []
        async with asyncio.timeout(SECONDS * speed_of_time()), self.follow(name, **query) as lines:
            async for line in lines:
                found.append(line.decode())
                if len(found) == count:
                    return found
        raise AssertionError(f"{name} wrote only {found}")

    def follow(self, name: str, **query: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        path = PODS.path("default", name, "log")
        return self.transport.stream(Request(method="GET", path=path, query={"follow": "true", **query}))

    async def settled(self) -> None:
        """Until the kubelet looks after no pod whose object is gone."""
        async with asyncio.timeout(SECONDS * speed_of_time()):
            while self.kubelet.pod_count > len(await self._names()):
                await self.clock.sleep(0.01 * speed_of_time())

    async def _names(self) -> list[str]:
        return [pod.metadata.name for pod in (await self.client.list(ANY_PODS)).items]

    async def output(self, name: str, *command: str, **more: Any) -> str:
        """What a pod wrote that ended well."""
        await self.put(name, *command, **more)
        pod = await self.ended(name)
        text = await self.log(name)
        assert pod.phase == "Succeeded", (pod.status, text)
        return text

    async def create(self, resource: Resource[Any], body: JsonObject) -> None:
        await self.client.create(resource, "default", body)

    async def put_config(self, name: str, **data: str) -> None:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
        await self.create(CONFIG_MAPS, body)


def run_processes(story: Callable[[ProcessCluster], Awaitable[None]], *, speed: float = 1.0) -> None:
    """Tell a story; afterwards no process of it is left. At a speed, seconds pass that much faster than they do."""

    async def main() -> None:
        cluster = ProcessCluster()
        await cluster.nodes.create(2, RESOURCES)
        running = asyncio.create_task(cluster.run())
        telling = asyncio.ensure_future(story(cluster))
        await asyncio.wait([running, telling], return_when=asyncio.FIRST_COMPLETED)
        assert telling.done(), running.exception()
        running.cancel()
        await asyncio.wait([running])
        assert running.cancelled(), running.exception()
        await telling

    with asyncio.Runner(loop_factory=lambda: BentLoop(speed=speed)) as runner:
        runner.run(main())


def speed_of_time() -> float:
    loop = asyncio.get_running_loop()
    return loop.speed if isinstance(loop, BentLoop) else 1.0


def leap(seconds: float) -> None:
    """Let this time have passed, of what `run_processes` runs."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, BentLoop)
    loop.leap(seconds)


def is_alive(pid: int) -> bool:
    """A process that runs; one that only waits to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        # The second: it went between opening and reading.
        return False

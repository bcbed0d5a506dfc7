"""A cluster with a gang scheduler, for its tests: the test is the user, the operator and the kubelet."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from random import Random
from typing import Any

from grove.api.labels import BASE_PODGANG, PODGANG
from grove.api.resources import EVENTS, PODGANGS, PODS
from grove.api.types.meta import Condition, JsonObject, ObjectMeta, WireStruct, find_condition
from grove.clock import LoopClock
from grove.cluster.apiserver.api_server import ApiServer
from grove.cluster.in_process_transport import InProcessTransport
from grove.cluster.nodes import Nodes
from grove.cluster.scheduler.scheduler import Scheduler
from grove.kube.client import Client
from grove.kube.transport import JSON_PATCH, Request
from grove.sim.faults import CALM, FaultPlan, FaultyTransport
from grove.sim.virtual_clock import run_virtual

ONE_POD_NODE = {"cpu": "8", "memory": "150Mi", "pods": "110"}


class EventView(WireStruct):
    metadata: ObjectMeta
    involved_object: dict[str, str] = {}
    reason: str = ""
    message: str = ""


class Table:
    """One pod of 80Mi fits a node."""

    def __init__(self, seed: int = 0, plan: FaultPlan = CALM) -> None:
        self.clock = LoopClock(datetime(2026, 1, 1, tzinfo=UTC))
        self.server = ApiServer(self.clock, Random(f"server {seed}"))
        self.client = Client(InProcessTransport(self.server, self.clock), self.clock)
        self.wire = FaultyTransport(InProcessTransport(self.server, self.clock), self.clock, Random(f"w {seed}"), plan)
        self.nodes = Nodes(self.client, self.clock)
        self.scheduler = Scheduler(Client(self.wire, self.clock), self.clock, Random(f"scheduler {seed}"))
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self.scheduler.run())

    async def restart(self) -> None:
        """A new scheduler, with empty memory."""
        assert self._task is not None
        self._task.cancel()
        await asyncio.wait([self._task])
        self.scheduler = Scheduler(Client(self.wire, self.clock), self.clock, Random("again"))
        self.start()

    def is_alive(self) -> bool:
        return self._task is not None and not self._task.done()

    async def settle(self, seconds: float = 5) -> None:
        await self.clock.sleep(seconds)

    async def add_nodes(self, count: int) -> None:
        await self.nodes.create(count, ONE_POD_NODE)

    async def add_gang(self, name: str, **facts: Any) -> None:
        """Pod groups as `a=(3, 2)`: three pods of which two are the minimum. Pods are named a-0, a-1, ..."""
        spec = facts.pop("spec", {})
        groups = [
            {
                "name": group,
                "minReplicas": minimum,
                "podReferences": [{"namespace": "default", "name": f"{group}-{index}"} for index in range(count)],
            }
            for group, (count, minimum) in facts.items()
        ]
        manifest = {
            "apiVersion": PODGANGS.api_version,
            "kind": "PodGang",
            "metadata": {"name": name},
            "spec": {"podgroups": groups, **spec},
        }
        await self.client.create(PODGANGS, "default", manifest)

    async def add_pods(self, gang: str, *names: str, base: str = "", gates: tuple[str, ...] = (), **spec: Any) -> None:
        labels = {key: value for key, value in {PODGANG: gang, BASE_PODGANG: base}.items() if value}
        for name in names:
            await self.client.create(PODS, "default", pod_manifest(name, labels, gates, spec))

    async def ungate(self, *names: str) -> None:
        for name in names:
            patch = [{"op": "remove", "path": "/spec/schedulingGates"}]
            await self.client.patch(PODS, "default", name, patch, content_type=JSON_PATCH)

    async def bound(self) -> dict[str, str]:
        pods = (await self.client.list(PODS)).items
        return {pod.metadata.name: pod.spec.node_name for pod in pods if pod.spec.node_name}

    async def condition(self, pod: str) -> Condition | None:
        return find_condition((await self.client.get(PODS, "default", pod)).status.conditions, "PodScheduled")

    async def reason(self, pod: str) -> tuple[str, str, str]:
        condition = await self.condition(pod)
        return (condition.status, condition.reason, condition.message) if condition else ("", "", "")

    async def events(self) -> list[tuple[str, str, str]]:
        events = (await self.client.list(EVENTS.viewed_as(EventView))).items
        return [(e.involved_object["kind"], e.involved_object["name"], e.message) for e in events]

    def write_count(self) -> int:
        return self.wire.write_counts().total()


def pod_manifest(name: str, labels: dict[str, str], gates: tuple[str, ...], spec: dict[str, Any]) -> JsonObject:
    container = {"name": "main", "image": "pause", "resources": {"requests": {"memory": "80Mi"}}}
    gated = {"schedulingGates": [{"name": gate} for gate in gates]} if gates else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {"containers": [container], **gated, **spec},
    }


def numbered(prefix: str, count: int, first: int = 0) -> list[str]:
    return [f"{prefix}-{index}" for index in range(first, first + count)]


def is_bind(request: Request) -> bool:
    return request.path.endswith("/binding")


def run_story(story: Callable[[Table], Awaitable[None]], seed: int = 0, plan: FaultPlan = CALM) -> None:
    async def main() -> None:
        table = Table(seed, plan)
        table.start()
        await story(table)
        assert table.is_alive()

    run_virtual(main())

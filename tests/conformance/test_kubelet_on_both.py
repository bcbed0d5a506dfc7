"""Nodes and the simulated kubelet, the same code on both servers: pods become ready, end, start again, and leave."""

import asyncio
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from grove.api.labels import SIM_EXIT_AFTER, SIM_EXIT_CODE, SIM_READY_AFTER
from grove.api.types.meta import JsonObject
from grove.clock import LoopClock
from grove.cluster.kubelet.simulated.simulated_kubelet import SimulatedKubelet
from grove.cluster.node_pod_cache import BoundPods
from grove.cluster.nodes import Nodes
from grove.kube.client import Client
from grove.kube.http_transport import HttpTransport
from grove.kube.kubeconfig import Access
from grove.kube.transport import Request
from tests.conformance.talk import Answer, Talk, pod

RESOURCES = {"cpu": "8", "memory": "32Gi", "pods": "20"}


class RunningNode:
    """One node whose pods are run, until it is stopped and taken away."""

    def __init__(self, access: Access) -> None:
        clock = LoopClock.starting_now()
        self._transport = HttpTransport(access, clock)
        self._client = Client(self._transport, clock)
        self._clock = clock
        self._tasks: list[asyncio.Task[None]] = []
        self.name = ""

    async def start(self) -> None:
        (self.name,) = await Nodes(self._client, self._clock).create(1, RESOURCES)
        bound = BoundPods(self._client, self._clock, Random(1))
        kubelet = SimulatedKubelet(self._client, self._clock, Random(2), bound)
        self._tasks = [asyncio.create_task(bound.run()), asyncio.create_task(kubelet.run())]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        await self._transport.send(Request(method="DELETE", path=f"/api/v1/nodes/{self.name}"))
        await self._transport.close()


@pytest.fixture
def node(runner: asyncio.Runner, access: Access) -> Iterator[RunningNode]:
    async def make() -> RunningNode:
        one = RunningNode(access)
        await one.start()
        return one

    running = runner.run(make())
    yield running
    runner.run(running.stop())


def on(node: RunningNode, name: str, *, restart: str = "Always", **annotations: str) -> JsonObject:
    """A pod that is bound from the start, so that no scheduler is needed."""
    return pod(name, spec={"nodeName": node.name, "restartPolicy": restart}, annotations=annotations)


def is_ready(found: Answer) -> bool:
    return has_ready(found.body)


def has_ready(body: JsonObject) -> bool:
    conditions = body.get("status", {}).get("conditions", [])
    return any((each["type"], each["status"]) == ("Ready", "True") for each in conditions)


def phase(found: Answer) -> Any:
    return found.body["status"]["phase"]


async def test_a_bound_pod_becomes_ready(api: Talk, node: RunningNode) -> None:
    await api.create("pods", on(node, "a"))
    found = await api.until(api.at("pods", "a"), is_ready)
    status = found.body["status"]
    (container,) = status["containerStatuses"]
    assert (status["phase"], status["podIP"].count(".")) == ("Running", 3)
    assert (container["name"], container["ready"], container["started"], container["restartCount"]) == (
        "main", True, True, 0
    )  # fmt: skip
    assert sorted(each["type"] for each in status["conditions"] if each["status"] == "True") == [
        "ContainersReady", "Initialized", "PodReadyToStartContainers", "Ready"
    ]  # fmt: skip
    assert found.metadata["generation"] == 1


async def test_a_pod_may_take_its_time(api: Talk, node: RunningNode) -> None:
    made = await api.create("pods", on(node, "a", **{SIM_READY_AFTER: "1s"}))
    seen: list[tuple[str, bool]] = []
    version = made.metadata["resourceVersion"]
    async with api.watch(api.at("pods"), resourceVersion=version, timeoutSeconds="180") as watched:
        while not any(ready for _, ready in seen):
            body = (await watched.event())["object"]
            seen.append((body["status"]["phase"], has_ready(body)))
    assert seen[-2:] == [("Running", False), ("Running", True)]


@pytest.mark.parametrize(("code", "end"), [("0", "Succeeded"), ("3", "Failed")])
async def test_a_pod_ends_as_its_container_did(api: Talk, node: RunningNode, code: str, end: str) -> None:
    annotations = {SIM_EXIT_AFTER: "100ms", SIM_EXIT_CODE: code}
    await api.create("pods", on(node, "a", restart="Never", **annotations))
    found = await api.until(api.at("pods", "a"), lambda found: phase(found) in ("Succeeded", "Failed"))
    (container,) = found.body["status"]["containerStatuses"]
    assert (phase(found), container["state"]["terminated"]["exitCode"]) == (end, int(code))
    assert not is_ready(found)


async def test_a_container_starts_again(api: Talk, node: RunningNode) -> None:
    annotations = {SIM_EXIT_AFTER: "500ms", SIM_EXIT_CODE: "1"}
    await api.create("pods", on(node, "a", **annotations))

    def was_restarted(found: Answer) -> bool:
        statuses = found.body["status"].get("containerStatuses", [])
        return any(each["restartCount"] == 1 for each in statuses)

    found = await api.until(api.at("pods", "a"), was_restarted)
    (container,) = found.body["status"]["containerStatuses"]
    assert container["lastState"]["terminated"]["exitCode"] == 1
    assert phase(found) == "Running"


async def test_a_deleted_pod_is_stopped_and_taken_away(api: Talk, node: RunningNode) -> None:
    await api.create("pods", on(node, "a"))
    await api.until(api.at("pods", "a"), is_ready)
    answer = await api.delete(api.at("pods", "a"))
    assert answer.metadata["deletionGracePeriodSeconds"] == 30
    await api.until_gone(api.at("pods", "a"))


async def test_a_stopped_pod_waits_for_its_finalizer(api: Talk, node: RunningNode) -> None:
    body = on(node, "a")
    body["metadata"]["finalizers"] = ["x.io/a"]
    await api.create("pods", body)
    path = api.at("pods", "a")
    await api.until(path, is_ready)
    await api.delete(path)
    stopped = await api.until(path, lambda found: found.metadata["deletionGracePeriodSeconds"] == 0)
    assert stopped.metadata["finalizers"] == ["x.io/a"]
    await api.merge(path, {"metadata": {"finalizers": None}})
    assert (await api.get(path)).status == 404


async def test_a_node_is_ready_and_described(api: Talk, node: RunningNode) -> None:
    found = await api.get(api.at("nodes", node.name))
    status = found.body["status"]
    assert {each["type"]: each["status"] for each in status["conditions"]}["Ready"] == "True"
    assert status["allocatable"]["cpu"] == "8"

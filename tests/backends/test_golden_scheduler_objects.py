"""What KAI and Volcano get to see, as files to be read: new, scaled, updated, and after gang termination.

`GROVE_UPDATE_GOLDEN=1 pytest tests/backends/test_golden_scheduler_objects.py` rewrites the files.
"""

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from grove.api.resources import GROUPS, KAI_TOPOLOGIES, NODES, PODCLIQUESETS, PODS, Resource
from grove.api.types.meta import JsonObject
from grove.api.values.yaml_text import expanded_yaml
from grove.cluster.nodes import NodeTopology
from grove.kube.transport import Request
from grove.sim.virtual_clock import run_virtual
from tests.backends.scheduler_world import KAI, VOLCANO, SchedulerWorld, without_uids
from tests.simulation.stories import FIXTURES, ONE_POD_NODE, WORKLOAD1, WORKLOAD2, expect_running
from tests.simulation.termination_stories import give_back, lose_pods, pods_of, with_delay
from tests.simulation.updating import change_image

GOLDEN = Path(__file__).parent / "golden"
# Two zones of two blocks, each with room for all, so that no extra is left over where its gang was packed.
LAYOUT = NodeTopology(nodes_per_rack=8)
TOPOLOGY = FIXTURES / "topology.yaml"
_OF_THE_SERVER = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "ownerReferences")


class Pages:
    """What a scheduler sees at each moment of a story."""

    def __init__(self, world: SchedulerWorld) -> None:
        self._world = world
        self._titles: dict[str, str] = {}
        self.text = ""

    def turn(self, title: str) -> None:
        """A page of all PodGroups and of what pods say about them; what was there before is not repeated."""
        found = "---\n".join(map(expanded_yaml, [*self._objects(self._world.podgroups), *self._members()]))
        known = self._titles.setdefault(found, title)
        self.text += f"# {title}\n{found}\n" if known == title else f'# {title}: as in "{known}"\n\n'

    def add(self, title: str, resource: Resource[Any]) -> None:
        self.text += f"# {title}\n" + "---\n".join(map(expanded_yaml, self._objects(resource))) + "\n"

    def _objects(self, resource: Resource[Any]) -> list[JsonObject]:
        answer = self._world.server.handle(Request(method="GET", path=resource.path()))
        items: list[JsonObject] = msgspec.json.decode(answer.body)["items"]
        return [_as_written(resource, item) for item in sorted(items, key=lambda item: item["metadata"]["name"])]

    def _members(self) -> list[JsonObject]:
        """Of every clique: how its pods name their group. All of them must do so alike."""
        words: dict[str, JsonObject] = {}
        for pod in sorted(self._world.pods(), key=lambda pod: pod.metadata.name):
            clique = pod.metadata.labels["grove.io/podclique"]
            said: JsonObject = {
                "pods of": clique,
                "schedulerName": self._scheduler(pod.metadata.name),
                "labels": _foreign(pod.metadata.labels),
                "annotations": _foreign(pod.metadata.annotations),
            }
            assert words.setdefault(clique, said) == said
        return list(words.values())

    def _scheduler(self, pod: str) -> str:
        answer = self._world.server.handle(Request(method="GET", path=PODS.path("default", pod)))
        return str(msgspec.json.decode(answer.body)["spec"]["schedulerName"])


def _as_written(resource: Resource[Any], item: JsonObject) -> JsonObject:
    owners = [owner["kind"] + "/" + owner["name"] for owner in item["metadata"]["ownerReferences"]]
    metadata = {field: value for field, value in item["metadata"].items() if field not in _OF_THE_SERVER}
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {**metadata, "owned by": owners},
        "spec": without_uids(item["spec"]),
    }


def _foreign(words: dict[str, str]) -> JsonObject:
    """What is said to others: not our own labels and annotations, nor where its node is, which the cluster adds."""
    return {
        key: value
        for key, value in sorted(words.items())
        if not key.startswith(("grove.io/", "app.kubernetes.io/", "simulation.grove.io/", "topology.kubernetes.io/"))
    }


async def tell_workload(world: SchedulerWorld, pages: Pages, path: Path, lost: str, count: int) -> None:
    name = path.stem
    await world.apply(with_delay(path))
    await expect_running(world, 10)
    pages.turn("new")
    await world.scale(GROUPS, f"{name}-0-sg-x", 3)
    await expect_running(world, 14)
    pages.turn("the group scaled to 3")
    await world.scale(PODCLIQUESETS, name, 2)
    await expect_running(world, 24)
    pages.turn("the set scaled to 2")
    await world.scale(PODCLIQUESETS, name, 1)
    await world.scale(GROUPS, f"{name}-0-sg-x", 2)
    await expect_running(world, 10)
    pages.turn("scaled back")
    await change_image(world, "registry.k8s.io/pause:3.11", "pc-a", "pc-c", name=name)
    await expect_running(world, 10)
    pages.turn("updated")
    await terminate(world, pages, lost, count)


async def tell_workload1(world: SchedulerWorld, pages: Pages) -> None:
    await tell_workload(world, pages, WORKLOAD1, "workload1-0-pc-a", 1)


async def tell_workload2(world: SchedulerWorld, pages: Pages) -> None:
    await tell_workload(world, pages, WORKLOAD2, "workload2-0-pc-a", 2)


async def tell_topology(world: SchedulerWorld, pages: Pages) -> None:
    await world.apply(TOPOLOGY)
    await expect_running(world, 9)
    pages.add("KAI's topology", KAI_TOPOLOGIES)
    pages.turn("new")
    await world.scale(GROUPS, "packed-0-model", 3)
    await expect_running(world, 13)
    pages.turn("the group scaled to 3")
    await change_image(world, "registry.k8s.io/pause:3.11", "router", "decode", name="packed")
    await expect_running(world, 13)
    pages.turn("updated")
    await terminate(world, pages, "packed-0-router", 1)


async def terminate(world: SchedulerWorld, pages: Pages, lost: str, count: int) -> None:
    """Take pods and their room away for longer than the delay, then give the room back."""
    running = len(world.running_pods())
    before = pods_of(world)
    taken = {pod.spec.node_name for pod in world.pods()}
    spare = [node.metadata.name for node in world.objects(NODES) if node.metadata.name not in taken]
    for node in spare:
        await world.nodes.cordon(node)
    lost_nodes = await lose_pods(world, lost, count)
    await world.settle()
    assert not pods_of(world).keys() & before.keys()
    await give_back(world, [*lost_nodes, *spare])
    await expect_running(world, running)
    pages.turn("terminated and made anew")


Tell = Callable[[SchedulerWorld, Pages], Awaitable[None]]


@pytest.mark.parametrize(
    ("scheduler", "name", "tell"),
    [
        (KAI, "workload1", tell_workload1),
        (KAI, "workload2", tell_workload2),
        (KAI, "topology", tell_topology),
        (VOLCANO, "workload1", tell_workload1),
        (VOLCANO, "workload2", tell_workload2),
    ],
)
def test_the_scheduler_sees_what_was_reviewed(scheduler: str, name: str, tell: Tell) -> None:
    async def story() -> str:
        async with SchedulerWorld(scheduler, seed=1, nodes=64, layout=LAYOUT, node_resources=ONE_POD_NODE) as world:
            pages = Pages(world)
            await tell(world, pages)
            world.check()
            return pages.text

    text = run_virtual(story())
    path = GOLDEN / f"{name}-{scheduler}.yaml"
    if os.environ.get("GROVE_UPDATE_GOLDEN"):
        path.write_text(text)
    assert path.read_text() == text

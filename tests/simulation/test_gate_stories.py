"""Gates as a user sees them: when they go, and whose are never touched."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import yaml

from grove.api import labels
from grove.api.labels import GATE
from grove.api.resources import GROUPS
from grove.api.types.meta import JsonObject
from grove.api.types.pod import Pod
from grove.sim.faults import FaultPlan
from grove.sim.simulation import World
from grove.sim.virtual_clock import run_virtual
from tests.scene import Scene
from tests.simulation.gate_stories import GATE_STORIES, OTHERS_GATE, gates
from tests.simulation.stories import ONE_POD_NODE, WORKLOAD1, WORKLOAD2


def scaled(world: World) -> list[Pod]:
    return [pod for pod in world.pods() if labels.BASE_PODGANG in pod.metadata.labels]


def test_a_scaled_gangs_pods_keep_their_gate_until_the_base_gang_is_scheduled() -> None:
    async def story() -> None:
        async with World(seed=1, nodes=2, node_resources=ONE_POD_NODE) as world:
            await world.apply(WORKLOAD2)
            await world.settle()
            assert len(scaled(world)) == 4
            assert [gates(pod) for pod in scaled(world)] == [[GATE]] * 4
            base = [pod for pod in world.pods() if labels.BASE_PODGANG not in pod.metadata.labels]
            assert [gates(pod) for pod in base] == [[]] * 6
            await world.add_nodes(1)
            await world.settle()
            assert [gates(pod) for pod in scaled(world)] == [[]] * 4
            world.check()

    run_virtual(story())


@pytest.mark.parametrize(("workload", "count"), [(WORKLOAD1, 10), (WORKLOAD2, 6)], ids=["all needed", "small minima"])
def test_a_base_gangs_pods_keep_their_gate_until_the_gang_is_complete(workload: Path, count: int) -> None:
    async def story() -> None:
        # One create a second: the gang is under way for a while.
        async with World(
            seed=1, nodes=10, node_resources=ONE_POD_NODE, faults=FaultPlan(creates_per_second=1)
        ) as world:
            await world.apply(workload)
            await world.wait_until(lambda: len(world.pods()) == count - 1)
            assert [gates(pod) for pod in world.pods()] == [[GATE]] * (count - 1)
            await world.settle()
            assert len(world.running_pods()) == 10
            world.check()

    run_virtual(story())


@pytest.mark.parametrize("story", GATE_STORIES, ids=lambda story: story.__name__)
def test_the_story_of_gates_ends_as_told(story: Callable[[Scene], Awaitable[None]]) -> None:
    async def tell() -> None:
        async with World(seed=1, nodes=10, node_resources=ONE_POD_NODE) as world:
            await story(world)
            world.check()

    run_virtual(tell())


def test_a_gang_waits_as_a_whole_for_pods_behind_another_controllers_gate() -> None:
    async def story() -> None:
        async with World(seed=1, nodes=10, node_resources=ONE_POD_NODE) as world:
            manifest: JsonObject = yaml.safe_load(WORKLOAD1.read_text())
            pod_spec = manifest["spec"]["template"]["cliques"][0]["spec"]["podSpec"]
            pod_spec["schedulingGates"] = [{"name": OTHERS_GATE}]
            await world.apply(manifest)
            await world.settle()
            assert len(world.pods()) == 10
            assert world.running_pods() == ()
            world.check()

    run_virtual(story())


def test_a_group_scaled_back_loses_its_highest_replica() -> None:
    async def story() -> None:
        async with World(seed=1, nodes=14, node_resources=ONE_POD_NODE) as world:
            await world.apply(WORKLOAD1)
            await world.settle()
            await world.scale(GROUPS, "workload1-0-sg-x", 3)
            await world.settle()
            before = {pod.metadata.uid for pod in world.running_pods() if "sg-x-2" not in pod.metadata.name}
            await world.scale(GROUPS, "workload1-0-sg-x", 2)
            await world.settle()
            assert {pod.metadata.uid for pod in world.running_pods()} == before
            world.check()

    run_virtual(story())

"""A watch can be frozen while others live: nothing running is destroyed on stale facts."""

import pytest
import yaml

from grove.api.meta import JsonObject
from grove.api.resources import PODCLIQUES, PODCLIQUESETS, PODS
from grove.sim.clock import run_virtual
from grove.sim.world import World
from tests.simulation.stories import ONE_POD_NODE

FLAT = """
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {name: flat}
spec:
  replicas: 1
  template:
    cliques:
      - name: worker
        spec:
          roleName: worker
          replicas: 5
          minAvailable: 1
          podSpec:
            containers:
              - {name: main, image: none, resources: {requests: {memory: 80Mi}}}
"""


def flat() -> JsonObject:
    manifest: JsonObject = yaml.safe_load(FLAT)
    return manifest


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_a_scale_in_behind_a_frozen_pod_watch_destroys_no_running_pod_that_is_needed(lost: int) -> None:
    async def story() -> None:
        async with World(seed=1, nodes=5, node_resources=ONE_POD_NODE) as world:
            await world.apply(flat())
            await world.settle()
            assert len(world.running_pods()) == 5
            world.operator.freeze_watch("pods")
            names = [pod.metadata.name for pod in world.running_pods()]
            for name in names[:lost]:
                await world.client.delete(PODS, "default", name, grace_period_seconds=0)
            survivors = set(names[lost:])
            # One less is wanted, and at least one is gone already: none of the living may go.
            await world.scale(PODCLIQUES, "flat-0-worker", 4)
            await world.clock.sleep(30)
            assert survivors <= {pod.metadata.name for pod in world.running_pods()}
            world.operator.thaw_watch("pods")
            await world.settle()
            assert len(world.running_pods()) == 4
            assert survivors <= {pod.metadata.name for pod in world.running_pods()}
            world.check()

    run_virtual(story())


def test_a_scale_in_behind_a_frozen_watch_picks_pending_pods_as_they_are_now() -> None:
    async def story() -> None:
        async with World(seed=1, nodes=3, node_resources=ONE_POD_NODE) as world:
            await world.apply(flat())
            await world.settle()
            # Three run and two wait; the operator's picture of the pods stops here.
            world.operator.freeze_watch("pods")
            running = {pod.metadata.name for pod in world.running_pods()}
            await world.client.delete(PODS, "default", min(running), grace_period_seconds=0)
            await world.settle()
            running = {pod.metadata.name for pod in world.running_pods()}
            assert len(running) == 3
            await world.scale(PODCLIQUES, "flat-0-worker", 3)
            await world.settle()
            assert running <= {pod.metadata.name for pod in world.running_pods()}
            world.check()

    run_virtual(story())


@pytest.mark.parametrize(
    "plural", ["podcliques", "podgangs", "podcliquescalinggroups", "services", "podcliquesets", "pods"]
)
def test_a_frozen_watch_of_any_kind_destroys_nothing_that_runs(plural: str) -> None:
    async def story() -> None:
        async with World(seed=1, nodes=12, node_resources=ONE_POD_NODE) as world:
            await world.apply(flat())
            await world.settle()
            running = {pod.metadata.uid for pod in world.running_pods()}
            world.operator.freeze_watch(plural)
            await world.scale(PODCLIQUESETS, "flat", 2)
            await world.clock.sleep(120)
            assert running <= {pod.metadata.uid for pod in world.running_pods()}
            world.operator.thaw_watch(plural)
            await world.settle()
            assert running <= {pod.metadata.uid for pod in world.running_pods()}
            assert len(world.running_pods()) == 10
            world.check()

    run_virtual(story())

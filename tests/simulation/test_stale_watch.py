"""A watch can be frozen while others live: nothing running is destroyed on stale facts."""

from datetime import timedelta

import pytest
import yaml

from grove.api.resources import NODES, PODCLIQUES, PODCLIQUESETS, PODS, SERVICES
from grove.api.types.meta import JsonObject, find_condition
from grove.sim.faults import FaultPlan
from grove.sim.simulation import World
from grove.sim.virtual_clock import run_virtual
from tests.simulation.stories import ONE_POD_NODE, WORKLOAD2, expect_running
from tests.simulation.termination_stories import clique_of, give_back, lose_pods, with_delay
from tests.simulation.training_stories import FOR_EVER, clique, phase, restarts, runs, training
from tests.simulation.updating import NEW, change_image, images_of, small, start

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


def test_a_scale_that_our_watch_does_not_tell_of_survives_the_end_of_its_gang() -> None:
    async def story() -> None:
        async with World(seed=1, nodes=13, node_resources=ONE_POD_NODE) as world:
            await world.apply(with_delay(WORKLOAD2))
            await expect_running(world, 10)
            nodes = await lose_pods(world, "workload2-0-pc-a", 2)
            for spare in world.objects(NODES):
                if spare.metadata.name not in {pod.spec.node_name for pod in world.running_pods()}:
                    await world.nodes.cordon(spare.metadata.name)
                    nodes.append(spare.metadata.name)
            await world.clock.sleep(5)
            before = clique_of(world, "workload2-0-pc-a")
            world.freeze_watch("podcliques")
            await world.scale(PODCLIQUES, before.metadata.name, 5)
            await world.clock.sleep(60)
            world.thaw_watch("podcliques")
            await give_back(world, nodes)
            await expect_running(world, 13)
            after = clique_of(world, "workload2-0-pc-a")
            assert after.metadata.uid != before.metadata.uid
            assert after.spec.replicas == 5
            world.check()

    run_virtual(story())


@pytest.mark.parametrize("to", [1, 3])
def test_a_scale_of_a_member_that_our_watch_does_not_tell_of_survives_an_update(to: int) -> None:
    async def story() -> None:
        manifest = small(pods=1, group=2)
        member = manifest["spec"]["template"]["cliques"][1]
        member["spec"] |= {"replicas": 2, "minAvailable": 1}
        async with World(seed=1, nodes=9, node_resources=ONE_POD_NODE) as world:
            await start(world, manifest)
            await change_image(world, NEW, "b")
            await world.wait_until(lambda: NEW in images_of(world, "s-0-g-0-b"))
            await world.clock.sleep(2)
            world.freeze_watch("podcliques")
            await world.scale(PODCLIQUES, "s-0-g-1-b", to)
            await world.clock.sleep(120)
            world.thaw_watch("podcliques")
            await world.settle()
            assert clique_of(world, "s-0-g-1-b").spec.replicas == to
            assert len(world.running_pods()) == 3 + to
            world.check()

    run_virtual(story())


def test_a_job_that_recovered_unseen_is_not_restarted_when_its_time_comes_in_the_middle_of_other_work() -> None:
    async def story() -> None:
        async with World(seed=1, nodes=2, node_resources=ONE_POD_NODE) as world:
            await world.apply(training(clique("a", 2, exits_after=FOR_EVER), delay="60s", max_restarts=0))
            await world.wait_until(runs(world, 2))
            await world.settle()
            nodes = await lose_pods(world, "job-0-a")
            await world.clock.sleep(5)
            breach = find_condition(clique_of(world, "job-0-a").status.conditions, "MinAvailableBreached")
            assert breach is not None
            assert breach.status == "True"
            assert breach.last_transition_time is not None
            due_at = breach.last_transition_time + timedelta(seconds=60)
            world.freeze_watch("pods")
            await give_back(world, nodes)
            await world.clock.sleep((due_at - world.clock.now()).total_seconds() - 0.5)
            # What is done about the service begins before that time and is answered after it.
            world.set_faults(FaultPlan(latency=(0.5, 0.5)))
            await world.delete(SERVICES, "job-0")
            await world.clock.sleep(30)
            assert world.objects(SERVICES)
            world.thaw_watch("pods")
            world.calm()
            await world.settle()
            assert (phase(world), restarts(world), len(world.running_pods())) == ("Running", 0, 2)
            world.check()

    run_virtual(story())

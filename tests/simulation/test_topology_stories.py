"""Topology, told in calm on the embedded scheduler; and what happens where it is switched off."""

from random import Random

import pytest

from grove.api import labels
from grove.api.resources import PODCLIQUESETS, PODGANGS, TOPOLOGY_BINDINGS
from grove.cli.common.options import parse_object_ref
from grove.clock import Clock
from grove.controller.controller_options import ControllerOptions
from grove.controller.manager import Controller
from grove.kube.client import Client
from grove.operations.why.runner import explain
from grove.sim.simulation import SimulatedOperator, World
from grove.sim.virtual_clock import run_virtual
from tests.simulation.stories import ONE_POD_NODE, Story, expect_running
from tests.simulation.topology_stories import (
    TOPOLOGY_STORIES,
    WAITING_STORIES,
    add_rack,
    availability,
    binding,
    clique,
    group,
    pack,
    pcs,
    places,
)


@pytest.mark.parametrize("story", TOPOLOGY_STORIES, ids=lambda story: story.name)
def test_the_story_of_topology_ends_as_told(story: Story) -> None:
    async def tell() -> None:
        async with World(seed=1, node_resources=ONE_POD_NODE) as world:
            await story.play(world)
            await world.settle()
            world.check()

    run_virtual(tell())


def waiting_for_topology(client: Client, clock: Clock, random: Random) -> SimulatedOperator:
    return Controller(client, clock, random, ControllerOptions(waits_for_topology=True))


@pytest.mark.parametrize("story", WAITING_STORIES, ids=lambda story: story.name)
def test_where_a_binding_is_waited_for_the_story_ends_as_told(story: Story) -> None:
    async def tell() -> None:
        async with World(seed=1, node_resources=ONE_POD_NODE, operator=waiting_for_topology) as world:
            await story.play(world)
            await world.settle()
            world.check()

    run_virtual(tell())


def without_topology(client: Client, clock: Clock, random: Random) -> SimulatedOperator:
    return Controller(client, clock, random, ControllerOptions(is_topology_aware=False))


def test_switched_off_nothing_waits_and_the_set_says_so() -> None:
    async def story() -> None:
        async with World(seed=1, node_resources=ONE_POD_NODE, operator=without_topology) as world:
            await world.apply(binding())
            for rack in ("r0", "r1", "r2"):
                await add_rack(world, rack, 1)
            await world.apply(pcs(clique("a", 3, pack("dc", required="rack"))))
            await expect_running(world, 3)
            assert places(world) == {"t-0-a": ["r0", "r1", "r2"]}
            (gang,) = world.objects(PODGANGS)
            assert gang.spec.podgroups[0].topology_constraint is None
            assert labels.TOPOLOGY_NAME not in gang.metadata.annotations
            condition = availability(world)
            assert (condition.status, condition.reason) == ("Unknown", "TopologyAwareSchedulingDisabled")
            world.check()

    run_virtual(story())


def test_a_set_without_constraints_says_so_in_its_first_status_and_nothing_is_written_later() -> None:
    async def story() -> None:
        async with World(seed=1, nodes=2) as world:
            await world.apply(pcs(clique("a", 2)))
            await world.settle()
            assert availability(world).reason == "AllClusterTopologyLevelsAvailable"
            before = len(world.writes_by("operator"))
            await world.settle(quiet_seconds=3600)
            assert len(world.writes_by("operator")) == before

    run_virtual(story())


def test_a_binding_is_observed_once_and_then_left_alone() -> None:
    async def story() -> None:
        async with World(seed=1, nodes=1) as world:
            await world.apply(binding())
            await world.settle()
            (found,) = world.objects(TOPOLOGY_BINDINGS)
            assert found.status.observed_generation == found.metadata.generation == 1
            assert (found.status.conditions, found.status.scheduler_topology_statuses) == ((), ())
            writes = [write for write in world.writes_by("operator") if "topologybindings" in write.request.path]
            assert len(writes) == 1
            before = len(world.writes_by("operator"))
            await world.settle(quiet_seconds=3600)
            assert len(world.writes_by("operator")) == before

    run_virtual(story())


def test_grove_why_names_the_level_and_why_it_does_not_fit() -> None:
    async def story() -> None:
        async with World(seed=1, node_resources=ONE_POD_NODE) as world:
            await world.apply(binding())
            await add_rack(world, "r0", 2)
            await add_rack(world, "r1", 1)
            await world.apply(pcs(clique("a", 3, pack("dc", required="rack"))))
            await world.settle()
            told = await explain(world.client, world.clock.now(), "default", parse_object_ref("pcs/t"))
            assert any(
                "together on one rack (topology.kubernetes.io/rack)" in sentence.text
                and "the best rack has capacity for 2 (rack=r0)" in sentence.text
                for sentence in told
            ), told

    run_virtual(story())


@pytest.mark.parametrize("target", ["pcs/t", "pg/t-0"])
def test_grove_why_names_the_binding_that_is_waited_for(target: str) -> None:
    async def story() -> None:
        async with World(seed=1, nodes=4, operator=waiting_for_topology) as world:
            await world.apply(binding())
            await world.apply(pcs(clique("a", 2, pack("dc", required="rack")), replicas=0))
            await world.delete(TOPOLOGY_BINDINGS, "dc", namespace="")
            await world.scale(PODCLIQUESETS, "t", 1)
            await world.settle()
            told = await explain(world.client, world.clock.now(), "default", parse_object_ref(target))
            assert 'there is no ClusterTopologyBinding "dc"' in told[0].text, told

    run_virtual(story())


def test_grove_why_says_that_a_set_runs_without_its_binding() -> None:
    async def story() -> None:
        async with World(seed=1, nodes=4) as world:
            await world.apply(binding())
            await world.apply(pcs(clique("a", 2, pack("dc", required="rack"))))
            await world.settle()
            await world.delete(TOPOLOGY_BINDINGS, "dc", namespace="")
            await world.settle()
            told = await explain(world.client, world.clock.now(), "default", parse_object_ref("pcs/t"))
            said = 'there is no ClusterTopologyBinding "dc": create it; until then new gangs are placed without it.'
            assert said in [sentence.text for sentence in told], told

    run_virtual(story())


def test_grove_why_names_the_home_that_a_scaled_gang_has_to_follow() -> None:
    async def story() -> None:
        async with World(seed=1, node_resources=ONE_POD_NODE) as world:
            await world.apply(binding())
            await add_rack(world, "r0", 2, block="b0")
            await add_rack(world, "r1", 5, block="b1")
            members = group("g", "b", replicas=2, minAvailable=1)
            await world.apply(pcs(clique("a"), clique("b"), groups=(members,), constraint=pack("dc", required="block")))
            await expect_running(world, 2)
            told = await explain(world.client, world.clock.now(), "default", parse_object_ref("pg/t-0-g-0"))
            assert any("block" in sentence.text and "b0" in sentence.text for sentence in told), told

    run_virtual(story())

"""The placement stories with KAI's and Volcano's objects: a stand-in binds by those alone."""

from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from grove.api import labels
from grove.api.resources import GROUPS, KAI_TOPOLOGIES, NODES, PODCLIQUESETS, PODGANGS
from grove.api.types.meta import JsonObject, find_condition
from grove.cluster.nodes import BLOCK, RACK, ZONE, NodeTopology
from grove.sim.simulation import World
from grove.sim.virtual_clock import run_virtual
from tests.backends.scheduler_world import KAI, VOLCANO, SchedulerWorld, without_uids
from tests.backends.story_tiers import in_tiers
from tests.simulation.crashes import Crashes, tell_with_some_crashes
from tests.simulation.endstate import end_state
from tests.simulation.stories import (
    FIXTURES,
    ONE_POD_NODE,
    REST_SECONDS,
    STORIES,
    WORKLOAD1,
    WORKLOAD2,
    Story,
    expect_running,
)
from tests.simulation.zero_stories import ZERO_STORIES

TOPOLOGY = FIXTURES / "topology.yaml"
both = pytest.mark.parametrize("scheduler", [KAI, VOLCANO])


def world_of(scheduler: str, nodes: int, **fields: Any) -> SchedulerWorld:
    return SchedulerWorld(scheduler, seed=1, nodes=nodes, node_resources=ONE_POD_NODE, **fields)


@both
@pytest.mark.parametrize("story", in_tiers([*STORIES, *ZERO_STORIES]))
def test_the_story_ends_as_told(scheduler: str, story: Story) -> None:
    async def tell() -> None:
        async with world_of(scheduler, story.nodes) as world:
            await story.tell(world)
            world.check()
            assert_mirrored(world)
            # Zero writes at rest: what a server defaults or drops is not written again and again.
            before = world.server.store.revision
            await world.clock.sleep(REST_SECONDS)
            if "quota" not in story.name:
                assert world.server.store.revision == before

    run_virtual(tell())


def assert_mirrored(world: SchedulerWorld) -> None:
    """Every gang that asks for pods has its PodGroup, and there is no other."""
    asking = (gang.metadata for gang in world.objects(PODGANGS) if gang.spec.podgroups)
    gangs = {metadata.name: PODGANGS.owner_key(metadata) for metadata in asking}
    mirrors = {group.metadata.name: group.metadata.controller for group in world.objects(world.podgroups)}
    assert mirrors == gangs


# --- crashes ---------------------------------------------------------------------------------------------------------


async def a_small_set_grows_and_shrinks(world: World) -> None:
    container = {"name": "main", "image": "pause", "resources": {"requests": {"memory": "80Mi"}}}
    cliques = [
        {"name": name, "spec": {"roleName": name, "replicas": 1, "podSpec": {"containers": [container]}}}
        for name in ("a", "b")
    ]
    group = {"name": "g", "cliqueNames": ["b"], "replicas": 2, "minAvailable": 1}
    await world.apply(
        {
            "apiVersion": "grove.io/v1alpha1",
            "kind": "PodCliqueSet",
            "metadata": {"name": "small"},
            "spec": {"replicas": 1, "template": {"cliques": cliques, "podCliqueScalingGroups": [group]}},
        }
    )
    await expect_running(world, 3)
    await world.scale(GROUPS, "small-0-g", 1)
    await expect_running(world, 2)
    await world.scale(PODCLIQUESETS, "small", 2)
    await expect_running(world, 5)


@pytest.mark.deep(reason="crashes with schedulers of others; the quick tier crashes in the core stories")
@both
def test_a_crash_at_any_write_ends_like_no_crash(scheduler: str) -> None:
    story = Story("a small set grows and shrinks", 5, a_small_set_grows_and_shrinks)

    async def tell(crashes: Crashes) -> JsonObject:
        async with world_of(scheduler, story.nodes) as world:
            crashes.begin(world)
            await story.tell(world)
            await world.settle()
            world.check()
            assert_mirrored(world)
            specs = {group.metadata.name: without_uids(group.spec) for group in world.objects(world.podgroups)}
            return {**end_state(world), "podgroups": specs}

    ends = tell_with_some_crashes(tell)
    for moment, end in ends.crashed.items():
        assert end == ends.calm, f"a crash {moment}"


# --- what the scheduler says -----------------------------------------------------------------------------------------


@both
def test_a_gang_that_does_not_fit_says_so_in_its_schedulers_words(scheduler: str) -> None:
    async def tell() -> None:
        async with world_of(scheduler, 9) as world:
            await world.apply(WORKLOAD1)
            await world.settle()
            (gang,) = world.objects(PODGANGS)
            told = find_condition(gang.status.conditions, "Scheduled")
            assert told is not None
            assert told.status == "False"
            (group,) = world.objects(world.podgroups)
            assert _words(group.status) in told.message
            await world.add_nodes(1)
            await expect_running(world, 10)
            (gang,) = world.objects(PODGANGS)
            told = find_condition(gang.status.conditions, "Scheduled")
            assert told is not None
            assert told.status == "True"

    run_virtual(tell())


def _words(status: JsonObject) -> str:
    if "schedulingConditions" in status:
        return str(status["schedulingConditions"][0]["reasons"][0]["message"])
    return str(status["conditions"][0]["message"])


@both
def test_pods_are_ungated_after_their_podgroup_is_there(scheduler: str) -> None:
    async def tell() -> None:
        async with world_of(scheduler, 10) as world:
            await world.apply(WORKLOAD2)
            await expect_running(world, 10)
            paths = [(write.request.method, write.request.path) for write in world.writes_by("operator")]
            written: dict[str, int] = {}
            for number, (method, path) in enumerate(paths):
                if method == "POST" and path.endswith("/podgroups"):
                    written.setdefault("podgroup", number)
                if method == "PATCH" and "/pods/" in path:
                    written.setdefault("gate", number)
            assert written["podgroup"] < written["gate"]

    run_virtual(tell())


@both
def test_two_gangs_with_room_for_one_never_stand_half(scheduler: str) -> None:
    """Seen through the watch: at no moment of rest has a gang part of its minimum."""

    async def tell() -> None:
        async with world_of(scheduler, 13) as world:
            await world.apply(WORKLOAD1)
            second: JsonObject = yaml.safe_load(WORKLOAD1.read_text())
            await world.apply({**second, "metadata": {"name": "second"}})
            await expect_running(world, 10)
            owners = {pod.metadata.labels[labels.PART_OF] for pod in world.running_pods()}
            assert len(owners) == 1
            await world.delete(PODCLIQUESETS, owners.pop())
            await expect_running(world, 10)

    run_virtual(tell())


# --- topology, with KAI ----------------------------------------------------------------------------------------------


LAYOUT = NodeTopology(nodes_per_rack=4, racks_per_block=2, blocks_per_zone=2)


def domains(world: SchedulerWorld, key: str, *cliques: str) -> set[str]:
    """Where the running pods of these cliques (by how their names begin), or all, are."""
    nodes = {node.metadata.name: node.metadata.labels for node in world.objects(NODES)}
    return {
        nodes[pod.spec.node_name][key]
        for pod in world.running_pods()
        if pod.metadata.labels[labels.PODCLIQUE].startswith(cliques or "")
    }


def assert_packed(world: SchedulerWorld, replicas: int) -> None:
    assert len(domains(world, ZONE)) == 1
    for j in range(replicas):
        assert len(domains(world, BLOCK, f"packed-0-model-{j}-")) == 1
        assert len(domains(world, RACK, f"packed-0-model-{j}-prefill")) == 1


def test_kai_packs_at_all_three_levels_and_scaled_gangs_follow_their_base() -> None:
    async def tell() -> None:
        async with world_of(KAI, 48, layout=LAYOUT) as world:
            await world.apply(TOPOLOGY)
            await expect_running(world, 9)
            assert_packed(world, 2)
            await world.scale(GROUPS, "packed-0-model", 3)
            await expect_running(world, 13)
            assert_packed(world, 3)
            world.check()

    run_virtual(tell())


def test_a_gang_that_fits_in_no_zone_waits_with_the_reason() -> None:
    async def tell() -> None:
        # Two nodes of each zone are free: not the four that the base gang needs together.
        async with world_of(KAI, 0, layout=LAYOUT) as world:
            for zone in ("a", "b", "c"):
                await world.add_nodes(2, _place(zone))
            await world.apply(TOPOLOGY)
            await expect_running(world, 0)
            (base,) = [gang for gang in world.objects(PODGANGS) if gang.metadata.name == "packed-0"]
            told = find_condition(base.status.conditions, "Scheduled")
            assert told is not None
            assert "zone" in told.message
            await world.add_nodes(7, _place("b"))
            await expect_running(world, 9)
            assert domains(world, ZONE) == {"b"}

    run_virtual(tell())


def _place(zone: str) -> Mapping[str, str]:
    return {ZONE: zone, BLOCK: f"{zone}-1", RACK: f"{zone}-1-1"}


def test_a_topology_that_kai_has_already_is_used_where_the_binding_refers_to_it() -> None:
    async def tell() -> None:
        async with world_of(KAI, 32, layout=LAYOUT) as world:
            levels = [{"nodeLabel": key} for key in (ZONE, BLOCK, RACK)]
            kind = KAI_TOPOLOGIES
            own = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "kais-own"}}
            await world.client.create(kind, "", {**own, "spec": {"levels": levels}})
            binding, pcs = yaml.safe_load_all(TOPOLOGY.read_text())
            binding["spec"]["schedulerTopologyBindings"] = [{"schedulerName": KAI, "topologyReference": "kais-own"}]
            await world.apply(binding)
            await world.apply(pcs)
            await expect_running(world, 9)
            constraints = [group.spec["topologyConstraint"]["topology"] for group in world.objects(world.podgroups)]
            assert constraints == ["kais-own", "kais-own"]
            assert [one.metadata.name for one in world.objects(kind)] == ["kais-own"]

    run_virtual(tell())


def test_preferred_packing_falls_back() -> None:
    async def tell() -> None:
        async with world_of(KAI, 0, layout=LAYOUT) as world:
            # A block in which the two decoders of a replica find no common rack.
            await world.add_nodes(3, {ZONE: "a", BLOCK: "a-1", RACK: "a-1-1"})
            await world.add_nodes(1, {ZONE: "a", BLOCK: "a-1", RACK: "a-1-2"})
            await world.add_nodes(1, {ZONE: "a", BLOCK: "a-1", RACK: "a-1-3"})
            pcs: JsonObject
            binding, pcs = yaml.safe_load_all(TOPOLOGY.read_text())
            pcs["spec"]["template"]["podCliqueScalingGroups"][0]["replicas"] = 1
            await world.apply(binding)
            await world.apply(pcs)
            await expect_running(world, 5)
            assert len(domains(world, RACK, "packed-0-model-0-prefill")) == 1

    run_virtual(tell())

"""Stories of gang termination: what goes, what stays, and when. One pod per node, so a cordoned node is lost room.

Told in calm by `test_termination_stories.py`, and with a crash at every write by `test_crash_everywhere.py`.
"""

from collections.abc import Mapping
from pathlib import Path

import yaml

from grove.api import labels
from grove.api.resources import GROUPS, NODES, PODCLIQUES, PODCLIQUESETS, PODGANGS, PODS
from grove.api.types.meta import JsonObject, Uid, find_condition
from grove.api.types.pod import Pod
from grove.api.types.podclique import PodClique
from grove.sim.simulation import World
from tests.simulation.stories import WORKLOAD1, WORKLOAD2, Story, expect_running

DELAY = 10.0


def with_delay(path: Path, delay: str | None = "10s", groups: Mapping[str, str] = {}) -> JsonObject:
    manifest: JsonObject = yaml.safe_load(path.read_text())
    template = manifest["spec"]["template"]
    if delay is not None:
        template["terminationDelay"] = delay
    for group in template["podCliqueScalingGroups"]:
        if group["name"] in groups:
            group["terminationDelay"] = groups[group["name"]]
    return manifest


def pods_of(world: World, *cliques: str) -> dict[Uid, str]:
    """Living pods of these cliques, or of all, by uid."""
    return {
        pod.metadata.uid: pod.metadata.labels[labels.PODCLIQUE]
        for pod in world.pods()
        if not pod.metadata.is_terminating and (not cliques or pod.metadata.labels[labels.PODCLIQUE] in cliques)
    }


def clique_of(world: World, name: str) -> PodClique:
    return next(clique for clique in world.objects(PODCLIQUES) if clique.metadata.name == name)


def breach_of(world: World, name: str) -> tuple[str, str]:
    condition = find_condition(clique_of(world, name).status.conditions, "MinAvailableBreached")
    assert condition is not None
    return condition.status, condition.reason


async def lose_pods(world: World, clique: str, count: int = 1) -> list[str]:
    """Take so many of its pods and their nodes away; the nodes' names."""
    lost: list[Pod] = [p for p in world.running_pods() if p.metadata.labels[labels.PODCLIQUE] == clique][:count]
    assert len(lost) == count
    for pod in lost:
        await world.nodes.cordon(pod.spec.node_name)
        await world.client.delete(PODS, pod.metadata.namespace, pod.metadata.name, uid=pod.metadata.uid)
    return [pod.spec.node_name for pod in lost]


async def give_back(world: World, nodes: list[str]) -> None:
    for node in nodes:
        await world.nodes.uncordon(node)


async def until_a_second_before(world: World) -> None:
    await world.clock.sleep(DELAY - 1)


async def a_lost_standalone_pod_ends_the_whole_replica(world: World) -> None:
    await world.apply(with_delay(WORKLOAD1))
    await expect_running(world, 10)
    before = pods_of(world)
    nodes = await lose_pods(world, "workload1-0-pc-a")
    await until_a_second_before(world)
    assert len(pods_of(world).keys() & before.keys()) == 9
    await world.settle()
    assert not pods_of(world).keys() & before.keys()
    await give_back(world, nodes)
    await expect_running(world, 10)
    assert not pods_of(world).keys() & before.keys()


async def a_lost_member_of_a_group_at_its_minimum_ends_the_whole_replica(world: World) -> None:
    await world.apply(with_delay(WORKLOAD1))
    await expect_running(world, 10)
    before = pods_of(world)
    nodes = await lose_pods(world, "workload1-0-sg-x-0-pc-c")
    await until_a_second_before(world)
    assert len(pods_of(world).keys() & before.keys()) == 9
    await world.settle()
    assert not pods_of(world).keys() & before.keys()
    await give_back(world, nodes)
    await expect_running(world, 10)


async def a_pod_above_the_minimum_ends_nothing(world: World) -> None:
    await world.apply(with_delay(WORKLOAD2))
    await expect_running(world, 10)
    before = pods_of(world)
    await lose_pods(world, "workload2-0-pc-a")
    await lose_pods(world, "workload2-0-sg-x-0-pc-c")
    await world.settle()
    assert len(pods_of(world).keys() & before.keys()) == 8
    assert breach_of(world, "workload2-0-pc-a") == ("False", "SufficientReadyPods")


async def all_pods_of_a_standalone_clique_end_the_whole_replica(world: World) -> None:
    await world.apply(with_delay(WORKLOAD2))
    await expect_running(world, 10)
    before = pods_of(world)
    await lose_pods(world, "workload2-0-pc-a", 2)
    await until_a_second_before(world)
    assert len(pods_of(world).keys() & before.keys()) == 8
    await world.settle()
    assert not pods_of(world).keys() & before.keys()


async def a_broken_group_replica_goes_alone_and_takes_all_when_the_group_breaks(world: World) -> None:
    await world.apply(with_delay(WORKLOAD2))
    await expect_running(world, 10)
    first = pods_of(world, "workload2-0-sg-x-0-pc-b", "workload2-0-sg-x-0-pc-c")
    others = pods_of(world, "workload2-0-pc-a", "workload2-0-sg-x-1-pc-b", "workload2-0-sg-x-1-pc-c")
    # No room for a single pc-c: three of the four that replica 0 has are lost with their nodes.
    await lose_pods(world, "workload2-0-sg-x-0-pc-c", 3)
    await until_a_second_before(world)
    assert len(pods_of(world).keys() & first.keys()) == 1
    await world.settle()
    assert not pods_of(world).keys() & first.keys()
    assert pods_of(world).keys() >= others.keys()
    # It waits for room: the group's own minimum hangs on its replica 1, for which there is none left either.
    for node in world.objects(NODES):
        await world.nodes.cordon(node.metadata.name)
    await lose_pods(world, "workload2-0-sg-x-1-pc-c", 3)
    await until_a_second_before(world)
    assert len(pods_of(world).keys() & others.keys()) == 3
    await world.settle()
    assert not pods_of(world).keys() & others.keys()


async def recovery_in_time_resets_the_clock(world: World) -> None:
    await world.apply(with_delay(WORKLOAD1))
    await expect_running(world, 10)
    before = pods_of(world)
    nodes = await lose_pods(world, "workload1-0-pc-a")
    await world.clock.sleep(DELAY - 2)
    assert breach_of(world, "workload1-0-pc-a") == ("True", "InsufficientReadyPods")
    await give_back(world, nodes)
    await world.settle()
    assert len(pods_of(world).keys() & before.keys()) == 9
    assert breach_of(world, "workload1-0-pc-a") == ("False", "SufficientReadyPods")
    # A second breach counts from its own start.
    await lose_pods(world, "workload1-0-pc-a")
    await until_a_second_before(world)
    assert len(pods_of(world).keys() & before.keys()) >= 8
    await world.settle()
    assert not pods_of(world).keys() & before.keys()


async def a_scale_set_at_run_time_survives(world: World) -> None:
    await world.apply(with_delay(WORKLOAD2))
    await expect_running(world, 10)
    await world.scale(GROUPS, "workload2-0-sg-x", 1)
    await world.settle()
    await world.scale(PODCLIQUES, "workload2-0-pc-a", 6)
    await expect_running(world, 10)
    before = pods_of(world)
    nodes = await lose_pods(world, "workload2-0-pc-a", 6)
    await world.clock.sleep(DELAY * 3)
    # It is full: no pod of the clique could come back, so the whole replica went.
    assert not pods_of(world).keys() & before.keys()
    await give_back(world, nodes)
    await expect_running(world, 10)
    assert clique_of(world, "workload2-0-pc-a").spec.replicas == 6
    assert [group.spec.replicas for group in world.objects(GROUPS)] == [1]


async def a_group_scaled_in_below_its_broken_replica_forgets_it(world: World) -> None:
    await world.apply(with_delay(WORKLOAD2))
    await expect_running(world, 10)
    await lose_pods(world, "workload2-0-sg-x-1-pc-c", 3)
    await world.clock.sleep(DELAY / 2)
    await world.scale(GROUPS, "workload2-0-sg-x", 1)
    kept = pods_of(world, "workload2-0-pc-a", "workload2-0-sg-x-0-pc-b", "workload2-0-sg-x-0-pc-c")
    await world.settle()
    assert pods_of(world) == kept


async def without_a_delay_nothing_goes(world: World) -> None:
    await world.apply(with_delay(WORKLOAD1, None))
    await expect_running(world, 10)
    before = pods_of(world)
    await lose_pods(world, "workload1-0-pc-a")
    await world.clock.sleep(900)
    assert breach_of(world, "workload1-0-pc-a") == ("True", "InsufficientReadyPods")
    assert len(pods_of(world).keys() & before.keys()) == 9


async def what_was_never_available_is_never_in_breach(world: World) -> None:
    manifest = with_delay(WORKLOAD1)
    manifest["spec"]["template"]["cliques"][0]["annotations"] = {labels.SIM_READY_AFTER: "8760h"}
    await world.apply(manifest)
    await world.clock.sleep(900)
    assert breach_of(world, "workload1-0-pc-a") == ("False", "NeverAvailable")
    before = pods_of(world)
    await lose_pods(world, "workload1-0-pc-a")
    await world.clock.sleep(900)
    assert len(pods_of(world).keys() & before.keys()) == 9


async def two_replicas_only_the_broken_one_goes(world: World) -> None:
    await world.apply(with_delay(WORKLOAD2))
    await world.scale(PODCLIQUESETS, "workload2", 2)
    await expect_running(world, 20)
    before = pods_of(world)
    await lose_pods(world, "workload2-1-pc-a", 2)
    await world.clock.sleep(DELAY * 2)
    await world.settle()
    kept = pods_of(world).keys() & before.keys()
    assert {before[uid].split("-")[1] for uid in kept} == {"0"}
    assert len(kept) == 10


async def a_hold_ends_after_half_an_hour_although_the_nodes_stay_dead(world: World) -> None:
    await world.apply(with_delay(WORKLOAD1))
    await expect_running(world, 10)
    lost_at = world.clock.now()
    for number in range(6):
        await world.nodes.fail(f"node-{number}")
    await world.clock.sleep(1500)
    assert gang_annotations(world) == {}
    (pcs,) = world.objects(PODCLIQUESETS)
    held = find_condition(pcs.status.conditions, "TeardownHeld")
    assert held is not None
    assert "at most until" in held.message
    # What was held is known by the nodes alone: a restart does not extend it.
    await world.restart_controller()
    await world.wait_until(lambda: bool(gang_annotations(world)))
    assert 1800 <= (world.clock.now() - lost_at).total_seconds() < 1810
    await world.add_nodes(6)
    await world.wait_until(lambda: len(world.running_pods()) == 10)
    await world.settle()
    (pcs,) = world.objects(PODCLIQUESETS)
    assert find_condition(pcs.status.conditions, "TeardownHeld") is None


TERMINATION_STORIES = tuple(
    Story(tell.__name__, nodes, tell)
    for nodes, tell in (
        (10, a_lost_standalone_pod_ends_the_whole_replica),
        (10, a_lost_member_of_a_group_at_its_minimum_ends_the_whole_replica),
        (10, a_pod_above_the_minimum_ends_nothing),
        (10, all_pods_of_a_standalone_clique_end_the_whole_replica),
        (10, a_broken_group_replica_goes_alone_and_takes_all_when_the_group_breaks),
        (10, recovery_in_time_resets_the_clock),
        (10, a_scale_set_at_run_time_survives),
        (10, a_group_scaled_in_below_its_broken_replica_forgets_it),
        (10, without_a_delay_nothing_goes),
        (10, what_was_never_available_is_never_in_breach),
        (20, two_replicas_only_the_broken_one_goes),
        (10, a_hold_ends_after_half_an_hour_although_the_nodes_stay_dead),
    )
)


def gang_annotations(world: World) -> dict[str, str]:
    """Open and closed recreations, by gang."""
    return {
        gang.metadata.name: gang.metadata.annotations[labels.RECREATION]
        for gang in world.objects(PODGANGS)
        if labels.RECREATION in gang.metadata.annotations
    }

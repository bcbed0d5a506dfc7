"""Gang termination on all three levels, in virtual time."""

import pytest

from bench.worlds import flat_set
from grove.api import labels
from grove.api.resources import PODCLIQUES, PODCLIQUESETS, PODGANGS, PODS
from grove.api.types.meta import JsonObject, find_condition
from grove.kube.api_errors import ApiError
from grove.kube.request_info import summarize
from grove.planner.teardown.recreation import Record, read_record
from grove.sim.faults import RecordedWrite
from grove.sim.simulation import World
from grove.sim.virtual_clock import run_virtual
from tests.seeds import examples
from tests.simulation.stories import ONE_POD_NODE, WORKLOAD1, WORKLOAD2, Story, expect_running
from tests.simulation.termination_stories import (
    TERMINATION_STORIES,
    breach_of,
    clique_of,
    give_back,
    lose_pods,
    pods_of,
    with_delay,
)


def large_set(*, cliques: int, pods: int) -> JsonObject:
    manifest = flat_set("large", replicas=1, cliques=cliques, pods=pods)
    manifest["spec"]["template"]["terminationDelay"] = "10s"
    return manifest


def two_groups() -> JsonObject:
    """Two standalone pods, and two groups of two replicas that need one each, with delays of their own."""
    manifest = flat_set("two", replicas=1, cliques=3, pods=2)
    template = manifest["spec"]["template"]
    for clique, name in zip(template["cliques"], "abc", strict=True):
        clique["name"] = name
        clique["spec"]["podSpec"]["containers"][0]["resources"] = {"requests": {"memory": "80Mi"}}
    template["terminationDelay"] = "30s"
    template["podCliqueScalingGroups"] = [
        {"name": "fast", "cliqueNames": ["b"], "replicas": 2, "minAvailable": 1, "terminationDelay": "10s"},
        {"name": "slow", "cliqueNames": ["c"], "replicas": 3, "minAvailable": 1, "terminationDelay": "1h"},
    ]
    return manifest


def records(world: World) -> list[Record]:
    """What gangs remember of recreations."""
    return [record for gang in world.objects(PODGANGS) if (record := read_record(gang)) != Record()]


def is_teardown(write: RecordedWrite) -> bool:
    is_intent = b"grove.io/recreation" in write.request.body
    return write.request.method == "DELETE" or is_intent


@pytest.mark.parametrize("story", TERMINATION_STORIES, ids=lambda story: story.name)
def test_a_story_of_termination(story: Story) -> None:
    async def run() -> None:
        async with World(seed=1, nodes=story.nodes, node_resources=ONE_POD_NODE) as world:
            await story.tell(world)
            await world.settle()
            world.check()

    run_virtual(run())


def test_a_thousand_pods_are_torn_down_by_a_few_requests_and_only_once() -> None:
    """A tenth of them in the quick tier."""
    pods = examples(50)

    async def run() -> None:
        node = {"cpu": "64", "memory": "256Gi", "pods": "200"}
        async with World(seed=1, nodes=10, node_resources=node) as world:
            await world.apply(large_set(cliques=20, pods=pods))
            await world.settle()
            assert len(world.running_pods()) == 20 * pods
            before = pods_of(world)
            broken = [pod for pod in world.pods() if pod.metadata.labels[labels.PODCLIQUE] == "large-0-c0"]
            # They cannot come back in time: nobody schedules anything for a while.
            for number in range(10):
                await world.nodes.cordon(f"node-{number}")
            for pod in broken:
                await world.client.delete(PODS, "default", pod.metadata.name, uid=pod.metadata.uid)
            written = len(world.writes_by("operator"))
            await world.wait_until(lambda: not pods_of(world).keys() & before.keys())
            teardown = [w for w in world.writes_by("operator")[written:] if is_teardown(w)]
            assert 0 < len(teardown) <= 30
            await give_back(world, [f"node-{number}" for number in range(10)])
            await world.settle()
            assert len(world.running_pods()) == 20 * pods
            assert [record.count for record in records(world)] == [1]
            assert not any(record.open for record in records(world))
            world.check()

    run_virtual(run())


def test_a_gang_that_recovered_behind_a_cut_watch_is_not_torn_down() -> None:
    async def run() -> None:
        async with World(seed=1, nodes=10, node_resources=ONE_POD_NODE) as world:
            await world.apply(with_delay(WORKLOAD1))
            await expect_running(world, 10)
            before = pods_of(world)
            nodes = await lose_pods(world, "workload1-0-pc-a")
            await world.clock.sleep(5)
            assert breach_of(world, "workload1-0-pc-a")[0] == "True"
            world.freeze_watch("pods")
            await give_back(world, nodes)
            await world.clock.sleep(60)
            assert len(pods_of(world).keys() & before.keys()) == 9
            world.thaw_watch("pods")
            await expect_running(world, 10)
            assert records(world) == []
            world.check()

    run_virtual(run())


@pytest.mark.parametrize("lost", [5, 6])
def test_nothing_is_torn_down_while_most_nodes_are_not_ready(lost: int) -> None:
    """More than 55 % of ten nodes are six."""

    async def run() -> None:
        async with World(seed=1, nodes=10, node_resources=ONE_POD_NODE) as world:
            await world.apply(with_delay(WORKLOAD1))
            await expect_running(world, 10)
            for number in range(lost):
                await world.nodes.fail(f"node-{number}")
            await world.clock.sleep(120)
            is_held = lost == 6
            assert bool(records(world)) is not is_held
            (pcs,) = world.objects(PODCLIQUESETS)
            assert (find_condition(pcs.status.conditions, "TeardownHeld") is not None) is is_held
            # One comes back, so it is an outage no more; after a moment that counts. The clock ran on meanwhile.
            await world.nodes.recover("node-0")
            await world.clock.sleep(55)
            assert bool(records(world)) is not is_held
            await world.clock.sleep(10)
            assert records(world)
            (pcs,) = world.objects(PODCLIQUESETS)
            assert find_condition(pcs.status.conditions, "TeardownHeld") is None
            world.check()

    run_virtual(run())


def test_a_restart_in_the_middle_of_the_delay_does_not_start_it_anew() -> None:
    async def run() -> None:
        async with World(seed=1, nodes=10, node_resources=ONE_POD_NODE) as world:
            await world.apply(with_delay(WORKLOAD1))
            await expect_running(world, 10)
            before = pods_of(world)
            await lose_pods(world, "workload1-0-pc-a")
            await world.clock.sleep(5)
            await world.crash_controller()
            await world.clock.sleep(3)
            await world.restart_controller()
            assert len(pods_of(world).keys() & before.keys()) == 9
            # The breach was written down within a second of the loss, as a whole second.
            await world.clock.sleep(4)
            assert not pods_of(world).keys() & before.keys()
            world.check()

    run_virtual(run())


def test_two_groups_and_the_set_each_have_their_own_delay() -> None:
    async def run() -> None:
        async with World(seed=1, nodes=12, node_resources=ONE_POD_NODE) as world:
            await world.apply(two_groups())
            await expect_running(world, 12)
            fast, slow = pods_of(world, "two-0-fast-1-b"), pods_of(world, "two-0-slow-1-c")
            await lose_pods(world, "two-0-fast-1-b")
            await lose_pods(world, "two-0-slow-1-c")
            # Both: the fast group's teardown makes room for one.
            await lose_pods(world, "two-0-a", 2)
            await world.clock.sleep(15)
            living = pods_of(world).keys()
            assert not living & fast.keys()
            assert living & slow.keys()
            await world.clock.sleep(20)
            # The standalone clique ended everything at 30 s, long before the slow group's hour was over.
            assert not pods_of(world).keys() & slow.keys()
            world.check()

    run_virtual(run())


def test_a_scale_made_while_the_operator_was_down_in_the_middle_of_a_teardown_survives_it() -> None:
    async def run() -> None:
        async with World(seed=1, nodes=10, node_resources=ONE_POD_NODE) as world:
            await world.apply(with_delay(WORKLOAD2))
            await expect_running(world, 10)
            before = clique_of(world, "workload2-0-pc-a")
            nodes = await lose_pods(world, before.metadata.name, 2)
            await world.wait_until(lambda: bool(records(world)))
            await world.crash_controller()
            await world.scale(PODCLIQUES, before.metadata.name, 4)
            await world.clock.sleep(300)
            await world.restart_controller()
            await give_back(world, [*nodes, *await world.add_nodes(2)])
            await expect_running(world, 12)
            after = clique_of(world, before.metadata.name)
            assert after.metadata.uid != before.metadata.uid
            assert after.spec.replicas == 4
            world.check()

    run_virtual(run())


def test_a_scale_survives_when_the_whole_replica_goes_before_its_group_replica_is_back() -> None:
    async def run() -> None:
        async with World(seed=1, nodes=12, node_resources=ONE_POD_NODE) as world:
            await world.apply(with_delay(WORKLOAD2))
            await expect_running(world, 10)
            await world.scale(PODCLIQUES, "workload2-0-sg-x-1-pc-c", 5)
            await expect_running(world, 12)
            # The webhook that is asked about new cliques is down.
            refusal = world.operator.refuse(
                lambda request: (summarize(request).verb, summarize(request).resource) == ("create", "podcliques"),
                ApiError(500, "InternalError", "failed calling webhook"),
            )
            nodes = await lose_pods(world, "workload2-0-sg-x-1-pc-c", 5)
            await world.wait_until(lambda: len(world.objects(PODCLIQUES)) == 3)
            nodes += await lose_pods(world, "workload2-0-pc-a", 2)
            await world.wait_until(lambda: not world.objects(PODCLIQUES))
            world.operator.lift(refusal)
            await give_back(world, nodes)
            await expect_running(world, 12)
            assert clique_of(world, "workload2-0-sg-x-1-pc-c").spec.replicas == 5
            world.check()

    run_virtual(run())

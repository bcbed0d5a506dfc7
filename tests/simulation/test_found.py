"""What storms have found, told as short stories: each of them once ended badly."""

from collections.abc import Awaitable, Callable

from grove.api import labels
from grove.api.resources import GROUPS, PODCLIQUES, PODCLIQUESETS, PODGANGS, PODS
from grove.api.types.podcliqueset import PodCliqueSet
from grove.kube.api_errors import ApiError
from grove.kube.request_info import summarize
from grove.kube.transport import Request
from grove.planner.rollout.replica_order import current_replica_index
from grove.sim.faults import CALM, FaultPlan
from grove.sim.simulation import World
from grove.sim.virtual_clock import run_virtual
from tests.simulation.restored import unrestored, untrue_counts
from tests.simulation.stories import ONE_POD_NODE, WORKLOAD1, WORKLOAD2
from tests.simulation.training_stories import clique, training
from tests.simulation.updating import NEW, NEWER, change_image, small, start

UNAVAILABLE = ApiError(503, "ServiceUnavailable", "simulated: not now")


def live(story: Callable[[World], Awaitable[None]], *, nodes: int = 30, faults: FaultPlan = CALM) -> None:
    """Tell a story; no rule is broken on the way, and at its end everything is as it was asked for."""

    async def run() -> None:
        async with World(seed=1, nodes=nodes, node_resources=ONE_POD_NODE, faults=faults) as world:
            await story(world)
            await world.settle(quiet_seconds=330)
            world.check()
            assert unrestored(world) == []

    run_virtual(run())


def test_pods_wait_as_long_as_their_gang_cannot_be_created() -> None:
    async def story(world: World) -> None:
        stranger = {
            "apiVersion": PODGANGS.api_version,
            "kind": PODGANGS.kind,
            "metadata": {"name": "workload1-0"},
            "spec": {"podgroups": []},
        }
        await world.apply(stranger)
        await world.apply(WORKLOAD1)
        await world.clock.sleep(60)
        assert [pod.metadata.name for pod in world.pods()] == []
        await world.delete(PODGANGS, "workload1-0")

    live(story)


def test_a_removal_goes_on_until_the_last_clique_of_a_group_is_gone() -> None:
    async def story(world: World) -> None:
        await world.apply(WORKLOAD1)
        await world.scale(PODCLIQUESETS, "workload1", 2)
        await world.settle()
        refusal = world.operator.refuse(deletes(PODCLIQUES.plural, "workload1-1-sg-x-0-pc-b"), UNAVAILABLE)
        await world.scale(PODCLIQUESETS, "workload1", 1)
        await world.clock.sleep(60)
        assert "workload1-1" in [gang.metadata.name for gang in world.objects(PODGANGS)]
        world.operator.lift(refusal)

    live(story)


def test_a_watch_that_is_cut_after_every_event_does_not_make_the_operator_blind() -> None:
    async def story(world: World) -> None:
        await world.apply(WORKLOAD1)
        await world.wait_until(lambda: len(world.running_pods()) == 10)
        await world.clock.sleep(60)
        await world.client.delete(PODS, "default", world.pods()[0].metadata.name, grace_period_seconds=0)
        await world.wait_until(lambda: len(world.running_pods()) == 10, limit_seconds=5)
        world.calm()

    live(story, faults=FaultPlan(cut_watch=1.0))


def test_a_gang_that_was_created_without_our_hearing_of_it_names_more_pods_before_they_are_created() -> None:
    async def story(world: World) -> None:
        world.freeze_watch(PODGANGS.plural)
        await world.apply(WORKLOAD2)
        await world.wait_until(lambda: len(world.objects(PODCLIQUES)) == 5)
        world.operator.plan = FaultPlan(lost_answer=1.0)
        await world.wait_until(lambda: len(world.objects(PODGANGS)) > 0)
        await world.scale(PODCLIQUES, "workload2-0-pc-a", 4)
        world.operator.plan = CALM
        await world.clock.sleep(60)
        world.thaw_watch(PODGANGS.plural)

    live(story)


def test_a_clique_that_somebody_deleted_comes_back_although_its_old_pods_cannot_leave() -> None:
    async def story(world: World) -> None:
        await world.apply(WORKLOAD1)
        await world.settle()
        lost = [pod for pod in world.pods() if pod.metadata.labels[labels.PODCLIQUE] == "workload1-0-pc-a"]
        for pod in lost:
            await world.nodes.fail(pod.spec.node_name)
        await world.delete(PODCLIQUES, "workload1-0-pc-a")
        await world.wait_until(lambda: len(world.running_pods()) == 10, limit_seconds=10)
        for pod in lost:
            await world.nodes.recover(pod.spec.node_name)

    live(story)


def test_a_teardown_that_was_begun_without_our_hearing_of_it_is_finished_before_anything_is_created() -> None:
    async def story(world: World) -> None:
        await world.apply(WORKLOAD1)
        await world.settle()
        await world.scale(GROUPS, "workload1-0-sg-x", 3)
        await world.settle()
        world.freeze_watch(PODGANGS.plural)
        world.operator.plan = FaultPlan(lost_answer=1.0)
        await world.scale(GROUPS, "workload1-0-sg-x", 2)
        await world.wait_until(lambda: any(labels.TEARDOWN in g.metadata.annotations for g in world.objects(PODGANGS)))
        await world.scale(GROUPS, "workload1-0-sg-x", 3)
        await world.delete(PODCLIQUES, "workload1-0-sg-x-2-pc-b")
        world.operator.plan = CALM
        await world.clock.sleep(60)
        world.thaw_watch(PODGANGS.plural)

    live(story)


def test_a_gang_of_an_older_version_goes_when_its_replica_was_scaled_in_while_nobody_looked() -> None:
    async def story(world: World) -> None:
        await world.apply(WORKLOAD2)
        await world.settle()
        await world.crash_controller()
        # Grove in Go wrote no index on gangs.
        lost = dict.fromkeys((labels.SET_REPLICA_INDEX, labels.GROUP, labels.GROUP_REPLICA_INDEX, labels.INCARNATION))
        for gang in world.objects(PODGANGS):
            await world.client.patch(PODGANGS, "default", gang.metadata.name, {"metadata": {"labels": lost}})
        before = {pod.metadata.uid for pod in world.running_pods() if "sg-x-1" not in pod.metadata.name}
        await world.scale(GROUPS, "workload2-0-sg-x", 1)
        await world.restart_controller()
        await world.settle()
        assert [gang.metadata.name for gang in world.objects(PODGANGS)] == ["workload2-0"]
        assert {pod.metadata.uid for pod in world.running_pods()} == before

    live(story)


def deletes(plural: str, name: str) -> Callable[[Request], bool]:
    def applies(request: Request) -> bool:
        target = summarize(request)
        return (target.verb, target.resource, target.name) == ("delete", plural, name)

    return applies


def test_the_end_of_an_update_is_told_although_another_change_overtook_it() -> None:
    def says_that_it_ended(request: Request) -> bool:
        return summarize(request).resource == "podcliques/status" and b'"updateEndedAt":"' in request.body

    async def story(world: World) -> None:
        def seen() -> PodCliqueSet:
            return world.objects(PODCLIQUESETS)[0]

        await start(world, small(replicas=3, pods=1))
        refusal = world.operator.refuse(says_that_it_ended, UNAVAILABLE)
        await change_image(world, NEW)
        await world.wait_until(lambda: current_replica_index(seen()) == 2)
        await world.wait_until(lambda: current_replica_index(seen()) == 1)
        told = seen().status.current_generation_hash
        await change_image(world, NEWER)
        await world.wait_until(lambda: seen().status.current_generation_hash != told)
        world.operator.lift(refusal)

    live(story)


def test_pods_that_end_while_their_failed_set_is_cleaned_up_stay_and_are_counted() -> None:
    async def story(world: World) -> None:
        # The pods end after the operator decided to delete them, and before its request arrives.
        await world.apply(training(clique("a", 2, exits_after="107s"), max_runtime="100s"))
        await world.wait_until(lambda: len(world.running_pods()) == 2)
        world.set_faults(FaultPlan(latency=(3.0, 3.0)))
        await world.settle()
        assert [pod.is_succeeded for pod in world.pods()] == [True, True]
        assert untrue_counts(world) == []
        world.set_faults(CALM)

    live(story)

"""A scheduler that is not there, a queue that is missing or closed: the set says so, no pod is made, and it heals."""

import pytest

from grove.api.resources import EVENTS, KAI_TOPOLOGIES, PODCLIQUESETS, PODS, TOPOLOGY_BINDINGS
from grove.api.types.meta import JsonObject, find_condition
from grove.api.types.podcliqueset import PodCliqueSet
from grove.kube.api_errors import ApiError
from grove.sim.virtual_clock import run_virtual
from tests.backends.scheduler_world import KAI, QUEUE, VOLCANO, SchedulerWorld
from tests.simulation.stories import ONE_POD_NODE, WORKLOAD1, expect_running, find_set
from tests.simulation.topology_stories import RACK, add_rack, binding, clique, domains, pack, pcs, waiting

both = pytest.mark.parametrize("scheduler", [KAI, VOLCANO])


def told(pcs: PodCliqueSet) -> tuple[str, str]:
    """Reason and message of what stands between a set and its gangs."""
    condition = find_condition(pcs.status.conditions, "GangSchedulingUnavailable")
    return ("", "") if condition is None else (condition.reason, condition.message)


async def expect_held(world: SchedulerWorld, message: str) -> None:
    await world.settle()
    assert told(find_set(world, "workload1")) == ("MissingDependency", message)
    assert world.pods() == ()
    assert [write for write in world.writes_by("operator") if "/pods" in write.request.path] == []
    warnings = [event for event in world.objects(EVENTS) if event.reason == "MissingDependency"]
    assert [event.message for event in warnings] == [message]


async def expect_healed(world: SchedulerWorld) -> None:
    await expect_running(world, 10)
    assert told(find_set(world, "workload1")) == ("", "")


@both
def test_a_set_waits_for_a_scheduler_that_is_not_installed(scheduler: str) -> None:
    async def tell() -> None:
        world = SchedulerWorld(scheduler, is_installed=False, nodes=10, node_resources=ONE_POD_NODE)
        async with world:
            await world.apply(WORKLOAD1)
            missing = world.podgroups.full_name
            await expect_held(
                world, f"scheduler {scheduler} needs {missing}, which this cluster does not serve: install {scheduler}"
            )
            world.install()
            world.open_queue()
            await expect_healed(world)

    run_virtual(tell())


def test_a_set_waits_for_its_queue_of_kai() -> None:
    async def tell() -> None:
        async with SchedulerWorld(KAI, nodes=10, node_resources=ONE_POD_NODE) as world:
            await world.delete(world.queues, QUEUE)
            await world.apply(WORKLOAD1)
            await expect_held(
                world, 'queue "research" not found: create it, or correct metadata.labels[kai.scheduler/queue]'
            )
            world.open_queue()
            await expect_healed(world)

    run_virtual(tell())


@pytest.mark.parametrize("state", ["Closed", "Closing", "Unknown"])
def test_a_set_waits_for_its_queue_of_volcano_to_open(state: str) -> None:
    async def tell() -> None:
        async with SchedulerWorld(VOLCANO, nodes=10, node_resources=ONE_POD_NODE) as world:
            world.open_queue(state=state)
            await world.apply(WORKLOAD1)
            where = "metadata.annotations[scheduling.grove.io/volcano-queue]"
            await expect_held(world, f'queue "research" is {state}: open it, or correct {where}')
            world.open_queue()
            await expect_healed(world)

    run_virtual(tell())


@both
def test_what_runs_goes_on_when_its_queue_is_gone(scheduler: str) -> None:
    async def tell() -> None:
        async with SchedulerWorld(scheduler, nodes=10, node_resources=ONE_POD_NODE) as world:
            await world.apply(WORKLOAD1)
            await expect_running(world, 10)
            await world.delete(world.queues, QUEUE)
            await world.settle()
            assert len(world.running_pods()) == 10
            assert told(find_set(world, "workload1"))[0] == "MissingDependency"
            await world.delete(PODCLIQUESETS, "workload1")
            await world.settle()
            assert world.pods() == ()
            assert world.objects(world.podgroups) == ()

    run_virtual(tell())


@both
def test_a_podgroup_that_somebody_deleted_comes_back(scheduler: str) -> None:
    async def tell() -> None:
        async with SchedulerWorld(scheduler, nodes=10, node_resources=ONE_POD_NODE) as world:
            await world.apply(WORKLOAD1)
            await expect_running(world, 10)
            (before,) = world.objects(world.podgroups)
            await world.delete(world.podgroups, before.metadata.name)
            await world.settle()
            (after,) = world.objects(world.podgroups)
            assert after.metadata.uid != before.metadata.uid
            assert after.spec == before.spec

    run_virtual(tell())


@both
def test_a_podgroup_of_somebody_else_under_the_name_is_left_alone_and_told(scheduler: str) -> None:
    async def tell() -> None:
        async with SchedulerWorld(scheduler, nodes=10, node_resources=ONE_POD_NODE) as world:
            kind = world.podgroups
            stranger = {
                "apiVersion": kind.api_version,
                "kind": kind.kind,
                "metadata": {"name": "workload1-0", "namespace": "default"},
                "spec": {"minMember": 1},
            }
            await world.client.create(kind, "default", stranger)
            await world.apply(WORKLOAD1)
            await world.clock.sleep(120)
            (found,) = world.objects(kind)
            assert found.spec["minMember"] == 1
            assert world.running_pods() == ()
            condition = find_condition(find_set(world, "workload1").status.conditions, "ReconcileFailed")
            assert condition is not None
            assert condition.reason == "NameTaken"
            await world.delete(kind, "workload1-0")
            await world.clock.sleep(600)
            await expect_running(world, 10)

    run_virtual(tell())


def test_a_set_that_names_no_queue_of_kai_is_not_begun_and_says_why() -> None:
    """It came past admission, which did not know the default scheduler of the installation."""

    async def tell() -> None:
        async with SchedulerWorld(KAI, nodes=10, node_resources=ONE_POD_NODE) as world:
            await super(SchedulerWorld, world).apply(WORKLOAD1)
            await world.settle()
            assert world.pods() == ()
            condition = find_condition(find_set(world, "workload1").status.conditions, "ReconcileFailed")
            assert condition is not None
            assert "kai-scheduler needs a queue" in condition.message

    run_virtual(tell())


def naming(scheduler: str) -> JsonObject:
    """A set that names its scheduler itself."""
    container = {"name": "main", "image": "pause", "resources": {"requests": {"memory": "80Mi"}}}
    pod = {"containers": [container], "schedulerName": scheduler}
    clique = {"name": "a", "spec": {"roleName": "a", "replicas": 1, "podSpec": pod}}
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": "p"},
        "spec": {"replicas": 1, "template": {"cliques": [clique]}},
    }


def test_a_set_that_names_kai_is_refused_without_a_queue_and_warned_about_a_missing_one() -> None:
    async def tell() -> None:
        async with SchedulerWorld(KAI) as world:
            with pytest.raises(ApiError, match="kai-scheduler needs a queue"):
                await super(SchedulerWorld, world).apply(naming(KAI))
            await world.delete(world.queues, QUEUE)
            (applied,) = await world.apply(naming(KAI))
            where = "metadata.labels[kai.scheduler/queue]"
            assert applied.warnings == (
                f'{where}: queue "research" not found: create it, or correct {where}; no pod is created before that',
            )

    run_virtual(tell())


def test_a_set_that_names_volcano_is_refused_while_its_queue_is_not_open() -> None:
    async def tell() -> None:
        async with SchedulerWorld(VOLCANO) as world:
            world.open_queue(state="Closed")
            with pytest.raises(ApiError, match='queue "research" is Closed: open it'):
                await world.apply(naming(VOLCANO))
            world.open_queue()
            (applied,) = await world.apply(naming(VOLCANO))
            assert applied.warnings == ()

    run_virtual(tell())


class OldKaiWorld(SchedulerWorld):
    """KAI before 0.17: its PodGroups have no stalenessGracePeriod."""

    def _put(self, path: str, document: JsonObject) -> None:
        for version in document["spec"].get("versions", ()):
            spec = version["schema"]["openAPIV3Schema"]["properties"].get("spec", {})
            spec.get("properties", {}).pop("stalenessGracePeriod", None)
        super()._put(path, document)


def test_a_kai_without_a_grace_period_places_gangs_and_the_set_says_what_it_does_not_do() -> None:
    async def tell() -> None:
        async with OldKaiWorld(KAI, nodes=10, node_resources=ONE_POD_NODE) as world:
            await world.apply(WORKLOAD1)
            await expect_running(world, 10)
            (group,) = world.objects(world.podgroups)
            assert "stalenessGracePeriod" not in group.spec
            found = {one.type: one for one in find_set(world, "workload1").status.conditions}
            assert "GangSchedulingUnavailable" not in found
            limited = found["SchedulerLimited"]
            assert (limited.status, limited.reason) == ("True", "PartiallySupported")
            assert "install 0.17 or newer" in limited.message
            warnings = [event for event in world.objects(EVENTS) if event.reason == "PartiallySupported"]
            assert [event.message for event in warnings] == [limited.message]

    run_virtual(tell())


def test_a_binding_that_vanished_with_its_topology_of_kai_does_not_stop_a_set() -> None:
    async def tell() -> None:
        async with SchedulerWorld(KAI, node_resources=ONE_POD_NODE) as world:
            await world.apply(binding())
            await add_rack(world, "r0", 2)
            await add_rack(world, "r1", 1)
            await add_rack(world, "r2", 1)
            await world.apply(pcs(clique("a", 2, pack("dc", required="rack"))))
            await expect_running(world, 2)
            assert domains(world) == ["r0"]
            await world.delete(TOPOLOGY_BINDINGS, "dc", namespace="")
            await world.settle()
            assert world.objects(KAI_TOPOLOGIES) == ()
            victim = world.running_pods()[0]
            await world.nodes.cordon(victim.spec.node_name)
            await world.delete(PODS, victim.metadata.name)
            await expect_running(world, 1)
            assert [pod.spec.node_selector for pod in waiting(world)] == [{RACK: "r0"}]
            await world.nodes.uncordon(victim.spec.node_name)
            await expect_running(world, 2)
            assert domains(world) == ["r0"]
            await world.scale(PODCLIQUESETS, "t", 2)
            await expect_running(world, 4)
            before = {pod.metadata.uid for pod in world.pods()}
            await world.apply(binding())
            await expect_running(world, 4)
            assert {pod.metadata.uid for pod in world.pods()} == before
            constraint = {"topology": "dc", "requiredTopologyLevel": RACK}
            for group in world.objects(world.podgroups):
                assert [one.get("topologyConstraint") for one in group.spec["subGroups"]] == [constraint]

    run_virtual(tell())

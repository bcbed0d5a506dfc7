"""One visit after the other: trouble is waited out, and one set's trouble is not another's."""

from itertools import pairwise
from typing import Any

from grove.api.resources import EVENTS, PODCLIQUES, PODCLIQUESETS, PODGANGS, PODS, SERVICES, Resource
from grove.api.types.meta import JsonObject
from grove.kube.api_errors import ApiError
from grove.kube.transport import Request
from grove.sim.faults import FaultPlan
from grove.sim.simulation import World
from grove.sim.virtual_clock import run_virtual
from tests.simulation.training_stories import clique, training

BROKEN = ApiError(500, "InternalError", "broken")


def small_set(name: str, *, replicas: int = 1, pods: int = 2) -> JsonObject:
    clique = {
        "name": "a",
        "spec": {
            "roleName": "a",
            "replicas": pods,
            "podSpec": {"containers": [{"name": "main", "image": "pause"}]},
        },
    }
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": replicas, "template": {"cliques": [clique]}},
    }


def attempts_at(world: World, plural: str, name: str) -> list[float]:
    """When a create was tried, in seconds after the first time."""
    seen: list[float] = []

    def applies(request: Request) -> bool:
        if request.method == "POST" and request.path.endswith(f"/{plural}") and f'"{name}' in request.body.decode():
            seen.append(world.clock.monotonic())
            return True
        return False

    world.operator.refuse(applies, BROKEN)
    return seen


def test_trouble_of_the_server_is_waited_out_longer_and_longer() -> None:
    async def story() -> None:
        async with World(nodes=2) as world:
            seen = attempts_at(world, "podcliques", "p-0")
            await world.apply(small_set("p"))
            await world.clock.sleep(200)
            pauses = [round(later - earlier, 1) for earlier, later in pairwise(seen)]
            # The service is made beside it, and after a second the set's own status is written: visits that these lead
            # to do not try it again before its time. Once more it is tried when a minute is over, before it is told.
            assert pauses == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 9.0, 30.0, 30.0, 30.0, 30.0]

    run_virtual(story())


def test_a_broken_replica_stops_only_itself() -> None:
    async def story() -> None:
        async with World(nodes=2) as world:
            attempts_at(world, "services", "p-1")
            await world.apply(small_set("p", replicas=3))
            await world.apply(small_set("q"))
            await world.clock.sleep(60)
            running = sorted({pod.metadata.labels["grove.io/podgang"] for pod in world.running_pods()})
            assert running == ["p-0", "p-2", "q-0"]
            (status,) = [one.status for one in world.objects(PODCLIQUESETS) if one.metadata.name == "p"]
            assert status.available_replicas == 2

    run_virtual(story())


def test_when_the_trouble_is_over_everything_runs() -> None:
    async def story() -> None:
        async with World(nodes=2) as world:
            refusal = world.operator.refuse(lambda request: request.method == "POST", BROKEN)
            await world.apply(small_set("p"))
            await world.clock.sleep(60)
            assert world.pods() == ()
            world.operator.lift(refusal)
            await world.clock.sleep(31)
            assert len(world.running_pods()) == 2

    run_virtual(story())


def test_a_conflict_that_changed_nothing_is_tried_again() -> None:
    async def story() -> None:
        async with World(nodes=2, faults=FaultPlan(conflict=1.0)) as world:
            await world.apply(small_set("p"))
            await world.clock.sleep(10)
            world.calm()
            await world.settle()
            assert len(world.running_pods()) == 2

    run_virtual(story())


def test_idle_is_silent() -> None:
    async def story() -> None:
        async with World(nodes=2) as world:
            await world.apply(small_set("p", replicas=2))
            await world.settle()
            before = len(world.operator.writes)
            await world.clock.sleep(3600)
            assert len(world.operator.writes) == before

    run_virtual(story())


def test_objects_that_are_deleted_by_hand_come_back() -> None:
    async def story() -> None:
        async with World(nodes=2) as world:
            await world.apply(small_set("p"))
            await world.settle()
            children: tuple[Resource[Any], ...] = (SERVICES, PODGANGS, PODCLIQUES)
            for resource in children:
                for one in world.objects(resource):
                    await world.delete(resource, one.metadata.name)
                await world.settle()
                assert len(world.running_pods()) == len(world.objects(PODS)) == 2

    run_virtual(story())


def test_what_cannot_be_written_down_holds_up_its_replica_and_no_other() -> None:
    async def story() -> None:
        async with World(nodes=2) as world:
            await world.apply(small_set("p", replicas=2))
            refusal = world.operator.refuse(lambda request: request.path.endswith("/podcliques/p-0-a/status"), BROKEN)
            await world.settle()
            # Nobody knows yet that it was available: its surplus pod must not go before that is written.
            for name in ("p-0-a", "p-1-a"):
                await world.client.patch(PODCLIQUES, "default", name, {"spec": {"replicas": 1, "minAvailable": 1}})
            await world.clock.sleep(60)
            counts = [sum(f"{name}-" in pod.metadata.name for pod in world.pods()) for name in ("p-0-a", "p-1-a")]
            assert counts == [2, 1]
            world.operator.lift(refusal)
            await world.settle()
            assert len(world.pods()) == 2

    run_virtual(story())


def test_a_set_that_a_chart_calls_its_own_comes_to_rest() -> None:
    """Its labels are shown on its gangs, but not those by which we find them."""

    async def story() -> None:
        async with World(nodes=2) as world:
            manifest = small_set("p")
            manifest["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "Helm", "team": "blue"}
            await world.apply(manifest)
            await world.settle()
            assert len(world.running_pods()) == 2
            (gang,) = world.objects(PODGANGS)
            found = [gang.metadata.labels[key] for key in ("app.kubernetes.io/managed-by", "team")]
            assert found == ["grove-operator", "blue"]

    run_virtual(story())


def test_what_was_written_before_a_read_failed_has_its_event() -> None:
    """The breach is stored, then the pods that prove it are listed again, then the replica is restarted."""

    async def story() -> None:
        async with World(nodes=2) as world:
            refused = refuse_lists_after(world, "/podcliques/job-0-a/status", '"MinAvailableBreached","status":"True"')
            await world.apply(training(clique("a", exits_after="20s", code=3), max_restarts=1))
            await world.wait_until(lambda: len(refused) == 1)
            await world.settle()
            assert len(reasons(world, "PodCliqueFailed")) == 2
            assert len(reasons(world, "ReplicaRestarting")) == 1

    run_virtual(story())


def test_a_failure_that_only_the_set_reports_has_its_event() -> None:
    async def story() -> None:
        async with World(nodes=2) as world:
            await world.apply(small_set("p"))
            await world.settle()
            world.operator.refuse(is_live_read, BROKEN)
            await world.client.patch(PODCLIQUES, "default", "p-0-a", {"spec": {"replicas": 1, "minAvailable": 1}})
            await world.clock.sleep(300)
            assert len(world.pods()) == 2
            assert len(reasons(world, "ReconcileFailed")) == 1

    run_virtual(story())


def is_live_read(request: Request) -> bool:
    return request.method == "GET" and request.path.endswith("/pods") and "labelSelector" in request.query


def refuse_lists_after(world: World, path: str, text: str) -> list[Request]:
    """Refuse the first live read of pods after a write of the operator; the requests that were refused."""
    refused: list[Request] = []
    seen: list[Request] = []

    def applies(request: Request) -> bool:
        if request.is_write and request.path.endswith(path) and text in request.body.decode():
            seen.append(request)
        if seen and not refused and is_live_read(request):
            refused.append(request)
            return True
        return False

    world.operator.refuse(applies, BROKEN)
    return refused


def reasons(world: World, reason: str) -> list[str]:
    return [event.reason for event in world.objects(EVENTS) if event.reason == reason]

"""The horizontal autoscaler on a simulated cluster: load goes up and down, and the count follows."""

from typing import Any

import msgspec

from grove.api.resources import EVENTS, GROUPS, PODCLIQUES, PODS
from grove.api.types.meta import JsonObject, ObjectMeta, WireStruct
from grove.kube.transport import Request
from grove.sim.simulation import World
from grove.sim.virtual_clock import run_virtual
from tests.cluster.controllers.autoscaling.autoscalers import CPU_50, autoscaler, chat, external, external_values

LOAD = "load.simulation.grove.io/chat-0-web"
WEB = "chat-0-web"


def status_of(world: World, name: str = WEB) -> JsonObject:
    path = f"/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers/{name}"
    found: JsonObject = msgspec.json.decode(world.server.handle(Request(method="GET", path=path)).body).get(
        "status", {}
    )
    return found


def condition(world: World, type_: str, name: str = WEB) -> tuple[str, str]:
    return next((one["status"], one["reason"]) for one in status_of(world, name)["conditions"] if one["type"] == type_)


def replicas(world: World, name: str = WEB) -> int:
    return next(one.spec.replicas for one in world.objects(PODCLIQUES) if one.metadata.name == name)


class _Subject(WireStruct):
    kind: str = ""


class _AboutAutoscaler(WireStruct):
    metadata: ObjectMeta
    reason: str = ""
    message: str = ""
    involved_object: _Subject = _Subject()


def events(world: World) -> list[_AboutAutoscaler]:
    found = world.objects(EVENTS.viewed_as(_AboutAutoscaler))
    return [one for one in found if one.involved_object.kind == "HorizontalPodAutoscaler"]


async def annotate(world: World, **annotations: Any) -> None:
    await world.apply(chat(**{LOAD: annotations["load"]}))


def test_load_scales_a_clique_out_and_in() -> None:
    async def run() -> None:
        async with World(seed=1, nodes=4) as world:
            await world.apply(chat(**{LOAD: "1"}))
            await world.settle()
            await world.apply(autoscaler(WEB, most=6))
            await world.settle()
            assert replicas(world) == 2
            await annotate(world, load="2")
            await world.settle()
            assert replicas(world) == 4
            assert condition(world, "ScalingActive") == ("True", "ValidMetricFound")
            assert status_of(world)["currentMetrics"][0]["resource"]["current"] == {
                "averageUtilization": 50, "averageValue": "500m",
            }  # fmt: skip
            await annotate(world, load="10")
            await world.settle()
            assert replicas(world) == 6
            assert condition(world, "ScalingLimited") == ("True", "TooManyReplicas")
            await annotate(world, load="500m")
            await world.clock.sleep(280)
            assert replicas(world) == 6
            assert condition(world, "AbleToScale") == ("True", "ScaleDownStabilized")
            await world.settle()
            assert replicas(world) == 1
            world.check()

    run_virtual(run())


def test_kubectl_get_hpa_shows_the_current_usage() -> None:
    async def run() -> None:
        async with World(seed=1, nodes=4) as world:
            await world.apply(chat(**{LOAD: "1"}))
            await world.apply(autoscaler(WEB))
            path = f"/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers/{WEB}"
            table = "application/json;as=Table;v=v1;g=meta.k8s.io"

            def cells() -> list[Any]:
                answer = world.server.handle(Request(method="GET", path=path, accept=table))
                found: list[Any] = msgspec.json.decode(answer.body)["rows"][0]["cells"]
                return found[:6]

            assert cells() == [WEB, f"PodClique/{WEB}", "cpu: <unknown>/50%", 1, 10, 0]
            await world.settle()
            assert cells() == [WEB, f"PodClique/{WEB}", "cpu: 50%/50%", 1, 10, 2]

    run_virtual(run())


def test_without_metrics_the_autoscaler_says_what_is_missing_once() -> None:
    async def run() -> None:
        async with World(seed=1, nodes=4) as world:
            await world.apply(chat())
            await world.settle()
            await world.apply(autoscaler(WEB, least=1))
            await world.settle()
            assert replicas(world) == 2
            found = next(one for one in status_of(world)["conditions"] if one["type"] == "ScalingActive")
            assert (found["status"], found["reason"]) == ("False", "FailedGetResourceMetric")
            assert found["message"].startswith(
                "the HPA was unable to compute the replica count: failed to get cpu utilization: unable to get metrics"
                " for resource cpu: no metrics returned from resource metrics API: simulated pods use what the"
                " annotation simulation.grove.io/cpu-usage"
            )
            assert [event.reason for event in events(world)] == ["FailedGetResourceMetric"]

    run_virtual(run())


def test_a_missing_request_is_named() -> None:
    async def run() -> None:
        async with World(seed=1, nodes=4) as world:
            made = chat(**{LOAD: "1"})
            del made["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["containers"][0]["resources"]
            await world.apply(made)
            await world.apply(autoscaler(WEB))
            await world.settle()
            found = next(one for one in status_of(world)["conditions"] if one["type"] == "ScalingActive")
            assert "missing request for cpu in container main of Pod chat-0-web-" in found["message"]

    run_virtual(run())


def test_an_external_metric_scales_a_group_and_the_set_by_value_per_replica() -> None:
    async def run() -> None:
        async with World(seed=1, nodes=8) as world:
            await world.apply(chat())
            await world.apply(external_values(queue="30"))
            await world.apply(
                autoscaler(
                    "chat-0-decode", "PodCliqueScalingGroup", most=4, metrics=[external("queue", averageValue="10")]
                )
            )
            await world.settle()
            assert [one.spec.replicas for one in world.objects(GROUPS)] == [3]
            await world.apply(external_values(queue="1"))
            await world.settle(quiet_seconds=400)
            assert [one.spec.replicas for one in world.objects(GROUPS)] == [1]
            world.check()

    run_virtual(run())


def test_the_highest_of_several_metrics_wins_and_a_failed_one_forbids_scale_in() -> None:
    async def run() -> None:
        async with World(seed=1, nodes=8) as world:
            await world.apply(chat(**{LOAD: "1"}))
            await world.apply(external_values(queue="40"))
            metrics = [CPU_50, external("queue", averageValue="10")]
            await world.apply(autoscaler(WEB, metrics=metrics))
            await world.settle()
            assert replicas(world) == 4
            # The CPU alone asks for one pod now, but nobody knows about the queue.
            await world.apply({**external_values(), "data": {"queue": None}})
            await annotate(world, load="100m")
            await world.settle(quiet_seconds=400)
            assert replicas(world) == 4
            assert condition(world, "ScalingActive") == ("False", "FailedGetExternalMetric")
            await annotate(world, load="3")
            await world.settle()
            assert replicas(world) == 6

    run_virtual(run())


def test_pods_and_object_metrics_are_annotations() -> None:
    async def run() -> None:
        async with World(seed=1, nodes=8) as world:
            await world.apply(chat())
            await world.settle()
            for pod in world.pods():
                noted = {"metadata": {"annotations": {"metrics.simulation.grove.io/requests": "20"}}}
                await world.client.patch(PODS, "default", pod.metadata.name, noted)
            requests = {"metric": {"name": "requests"}, "target": {"type": "AverageValue", "averageValue": "10"}}
            await world.apply(autoscaler(WEB, metrics=[{"type": "Pods", "pods": requests}]))
            await world.wait_until(lambda: replicas(world) == 4, limit_seconds=60)
            described = {"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "name": "chat"}
            hits = {"metric": {"name": "hits"}, "target": {"type": "Value", "value": "1"}, "describedObject": described}
            await world.apply(autoscaler(WEB, metrics=[{"type": "Object", "object": hits}]))
            await world.apply(chat(**{"metrics.simulation.grove.io/hits": "1500m"}))
            await world.wait_until(lambda: replicas(world) == 6, limit_seconds=60)
            assert status_of(world)["currentMetrics"][0]["object"]["current"] == {"value": "1500m"}

    run_virtual(run())


def test_a_clique_scaled_to_zero_is_left_alone() -> None:
    async def run() -> None:
        async with World(seed=1, nodes=4) as world:
            await world.apply(chat(**{LOAD: "9"}))
            await world.settle()
            await world.scale(PODCLIQUES, WEB, 0)
            await world.apply(autoscaler(WEB))
            await world.settle()
            assert replicas(world) == 0
            assert condition(world, "ScalingActive") == ("False", "ScalingDisabled")

    run_virtual(run())


def test_a_count_outside_the_bounds_is_brought_inside() -> None:
    async def run() -> None:
        async with World(seed=1, nodes=4) as world:
            await world.apply(chat())
            await world.apply(autoscaler(WEB, least=3))
            await world.settle()
            assert replicas(world) == 3
            await world.scale(PODCLIQUES, WEB, 12)
            await world.settle()
            assert replicas(world) == 10
            messages = [event.message for event in events(world) if event.reason == "SuccessfulRescale"]
            assert sorted(messages) == [
                "New size: 10; reason: Current number of replicas above Spec.MaxReplicas",
                "New size: 3; reason: Current number of replicas below Spec.MinReplicas",
            ]

    run_virtual(run())


def test_a_scale_that_admission_rejects_is_reported() -> None:
    async def run() -> None:
        async with World(seed=1, nodes=4) as world:
            made = chat(**{LOAD: "100m"})
            made["spec"]["template"]["cliques"][0]["spec"]["minAvailable"] = 2
            await world.apply(made)
            await world.settle()
            await world.apply(autoscaler(WEB, least=1))
            await world.settle(quiet_seconds=400)
            assert replicas(world) == 2
            assert condition(world, "AbleToScale") == ("False", "FailedUpdateScale")
            assert "FailedRescale" in [event.reason for event in events(world)]

    run_virtual(run())


def test_two_autoscalers_of_the_same_pods_are_stopped() -> None:
    async def run() -> None:
        async with World(seed=1, nodes=8) as world:
            await world.apply(chat(**{LOAD: "4"}))
            await world.settle()
            await world.apply(autoscaler("chat", "PodCliqueSet"))
            await world.apply(autoscaler(WEB))
            await world.settle()
            assert condition(world, "ScalingActive", "chat") == ("False", "AmbiguousSelector")

    run_virtual(run())


def test_a_target_that_does_not_exist_is_named_until_it_does() -> None:
    async def run() -> None:
        async with World(seed=1, nodes=4) as world:
            await world.apply(autoscaler(WEB))
            await world.settle()
            assert condition(world, "AbleToScale") == ("False", "FailedGetScale")
            await world.apply(chat(**{LOAD: "2"}))
            await world.settle()
            assert replicas(world) == 4

    run_virtual(run())


def test_nothing_is_done_without_autoscalers_and_nothing_written_while_nothing_changes() -> None:
    async def run() -> None:
        async with World(seed=1, nodes=4) as world:
            await world.apply(chat(**{LOAD: "1"}))
            await world.apply(autoscaler(WEB))
            await world.settle()
            revision = world.server.store.revision
            await world.clock.sleep(3600)
            assert world.server.store.revision == revision

    run_virtual(run())


def test_an_external_metric_scales_to_zero_and_back() -> None:
    async def run() -> None:
        async with World(seed=1, nodes=4) as world:
            await world.apply(chat())
            await world.apply(external_values(queue="0"))
            await world.apply(autoscaler(WEB, least=0, metrics=[external("queue", averageValue="10")]))
            await world.settle(quiet_seconds=400)
            assert replicas(world) == 0
            assert condition(world, "ScaledToZero") == ("True", "ScaledToZero")
            await world.apply(external_values(queue="25"))
            await world.settle()
            assert replicas(world) == 3
            assert condition(world, "ScaledToZero") == ("False", "NotScaledToZero")
            world.check()

    run_virtual(run())

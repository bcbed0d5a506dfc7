"""The horizontal autoscaler on a simulated cluster: load goes up and down, and the count follows."""

from typing import Any

import msgspec

from grove.api.resources import PODCLIQUES
from grove.api.types.meta import JsonObject
from grove.kube.transport import Request
from grove.sim.simulation import World
from grove.sim.virtual_clock import run_virtual
from tests.cluster.controllers.autoscaling.autoscalers import autoscaler, chat

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

"""The rules about gates notice an operator that breaks them."""

import pytest

from grove.api.resources import PODS
from grove.kube.transport import Request
from grove.sim.invariants.pods_and_gangs import InvariantBroken
from grove.sim.simulation import World
from grove.sim.virtual_clock import run_virtual
from tests.controller.test_reconciler import BROKEN, small_set


def makes_a_service(request: Request) -> bool:
    return request.method == "POST" and request.path.endswith("/services")


def test_a_pod_that_starts_before_it_can_be_found_is_noticed() -> None:
    async def story() -> None:
        async with World(nodes=2) as world:
            world.operator.refuse(makes_a_service, BROKEN)
            await world.apply(small_set("p"))
            await world.clock.sleep(60)
            world.check()
            waiting = world.pods()
            assert [pod.is_gated for pod in waiting] == [True, True]
            await world.client.patch(PODS, "default", waiting[0].metadata.name, {"spec": {"schedulingGates": []}})
            with pytest.raises(InvariantBroken, match="ungated although service p-0 never existed"):
                world.check()
            world.invariants.broken.clear()

    run_virtual(story())

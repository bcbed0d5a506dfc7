"""The cluster of `grove up` and `grove run`: what it accepts is what its operator can carry out."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from grove.api.resources import PODCLIQUESETS, PODS
from grove.api.types.meta import JsonObject
from grove.clock import LoopClock
from grove.cluster.embedded_cluster import KubeletKind
from grove.cluster.nodes import Nodes
from grove.kube.api_errors import ApiError
from grove.operations.embedded_cluster import new_cluster
from grove.sim.virtual_clock import run_virtual

EXAMPLES = Path(__file__).parents[3] / "examples" / "schedulers"


def create(example: str, *, has_operator: bool) -> None:
    async def story() -> None:
        cluster = new_cluster(LoopClock.starting_now(), KubeletKind.NONE, has_operator=has_operator)
        await cluster.client().create(PODCLIQUESETS, "default", yaml.safe_load((EXAMPLES / example).read_text()))

    run_virtual(story())


def test_a_set_for_a_scheduler_that_does_not_run_here_is_refused() -> None:
    create("native.yaml", has_operator=True)
    with pytest.raises(ApiError, match=r"schedulerName.*volcano.*default-scheduler"):
        create("volcano.yaml", has_operator=True)


def test_without_an_operator_of_its_own_it_is_up_to_the_one_beside_it() -> None:
    create("volcano.yaml", has_operator=False)


def test_simulated_pods_are_ready_after_the_given_time_unless_they_say_it_themselves() -> None:
    def pod(name: str, **annotations: str) -> JsonObject:
        metadata = {"name": name, "annotations": annotations}
        return {"metadata": metadata, "spec": {"nodeName": "node-0", "containers": [{"name": "c", "image": "i"}]}}

    async def story() -> None:
        clock = LoopClock.starting_now()
        cluster = new_cluster(clock, KubeletKind.SIMULATED, ready_after=timedelta(seconds=30))
        client = cluster.client()

        async def ready() -> list[str]:
            return [one.metadata.name for one in (await client.list(PODS)).items if one.is_ready]

        running = asyncio.create_task(cluster.run())
        await Nodes(client, clock).create(1, {"cpu": "4", "pods": "10"})
        await client.create(PODS, "default", pod("as-given"))
        await client.create(PODS, "default", pod("sooner", **{"simulation.grove.io/ready-after": "5s"}))
        await clock.sleep(10)
        assert await ready() == ["sooner"]
        await clock.sleep(25)
        assert await ready() == ["as-given", "sooner"]
        running.cancel()
        await asyncio.wait([running])

    run_virtual(story())

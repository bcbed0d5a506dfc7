"""Half an hour of random load on two autoscalers, with an operator that crashes: counts stay inside their bounds.

The autoscalers target what those of the operator do: a standalone clique, and a group. The bounds are what the user
wrote; that a gang keeps its minimum, and every other rule of Grove, is checked by the invariants of the world.
"""

from random import Random

import pytest

from grove.api.resources import GROUPS, PODCLIQUES, PODGANGS
from grove.cluster.storage.store import Change
from grove.sim.faults import FaultPlan
from grove.sim.simulation import World
from grove.sim.virtual_clock import run_virtual
from tests.cluster.controllers.autoscaling.autoscalers import (
    CPU_50,
    autoscaler,
    chat,
    external,
    external_values,
)
from tests.seeds import commit_seed, is_deep

WEB, DECODE = "chat-0-web", "chat-0-decode"
WEB_BOUNDS, DECODE_BOUNDS = (1, 8), (1, 3)
MINUTES = 30
ROUGH = FaultPlan(latency=(0.0, 0.2), server_error=0.02, conflict=0.05, lost_answer=0.02, watch_latency=(0.0, 1.0))


class Counts:
    """Every count that the clique and the group ever requested, and every gang that was torn down."""

    def __init__(self) -> None:
        self.web: list[int] = []
        self.decode: list[int] = []
        self.recreated: list[str] = []

    def observe(self, change: Change) -> None:
        plural, entry = change.resource_info.plural, change.entry
        if plural == "podcliques" and entry.name == WEB:
            self.web.append(entry.obj["spec"]["replicas"])
        elif plural == "podcliquescalinggroups":
            self.decode.append(entry.obj["spec"]["replicas"])
        elif plural == "podgangs" and "grove.io/recreation" in (entry.obj["metadata"].get("annotations") or {}):
            self.recreated.append(entry.name)


async def play_half_an_hour(world: World, random: Random, counts: Counts) -> None:
    world.server.store.subscribe(counts.observe)
    made = chat(**{f"load.simulation.grove.io/{WEB}": "1"})
    # A breach of a gang is acted upon soon, so that a wrong one would show.
    made["spec"]["template"]["terminationDelay"] = "20s"
    await world.apply(made)
    await world.apply(external_values(queue="5"))
    await world.settle()
    fast = {"scaleDown": {"stabilizationWindowSeconds": random.choice([0, 60, 300])}}
    await world.apply(autoscaler(WEB, least=WEB_BOUNDS[0], most=WEB_BOUNDS[1], metrics=[CPU_50], behavior=fast))
    await world.apply(
        autoscaler(
            DECODE,
            "PodCliqueScalingGroup",
            least=DECODE_BOUNDS[0],
            most=DECODE_BOUNDS[1],
            metrics=[external("queue", averageValue="10")],
            behavior=fast,
        )
    )
    for _ in range(MINUTES):
        if random.random() < 0.5:
            load = f"{random.randrange(0, 7000)}m"
            noted = {"metadata": {"annotations": {f"load.simulation.grove.io/{WEB}": load}}}
            await world.apply({**made, **noted, "metadata": {**made["metadata"], **noted["metadata"]}})
        if random.random() < 0.3:
            await world.apply(external_values(queue=str(random.randrange(0, 60))))
        if random.random() < 0.1:
            await world.restart_controller()
        await world.clock.sleep(random.uniform(20, 100))
        world.check_safety()


@pytest.mark.parametrize("seed", [commit_seed() + index for index in range(20 if is_deep() else 1)])
def test_random_load_never_leaves_the_bounds_and_never_breaks_a_gang(seed: int) -> None:
    async def run() -> None:
        random, counts = Random(seed), Counts()
        async with World(seed=seed, nodes=8, faults=ROUGH) as world:
            await play_half_an_hour(world, random, counts)
            world.calm()
            await world.settle(quiet_seconds=400)
            world.check()
            for seen, (least, most) in ((counts.web, WEB_BOUNDS), (counts.decode, DECODE_BOUNDS)):
                assert least <= min(seen)
                assert max(seen) <= most
                assert len(set(seen)) > 1, "the load never moved the autoscaler"
            assert counts.recreated == []
            assert {gang.status.phase for gang in world.objects(PODGANGS)} == {"Running"}
            wanted = {one.metadata.name: one.spec.replicas for one in world.objects(PODCLIQUES)}
            assert {one.metadata.name: one.status.ready_replicas for one in world.objects(PODCLIQUES)} == wanted
            (group,) = world.objects(GROUPS)
            assert group.status.available_replicas == group.spec.replicas

    run_virtual(run())

"""The gang scheduler while everything around it goes wrong: random changes, lost answers, cut watches, restarts."""

from random import Random

import pytest

from grove.api.resources import PODS
from grove.kube.api_errors import ApiError
from grove.sim.faults import CALM, FaultPlan
from tests.cluster.scheduling_table import Table, numbered, run_story

STORMY = FaultPlan(
    latency=(0.0, 0.1),
    watch_latency=(0.0, 0.3),
    server_error=0.1,
    lost_request=0.05,
    lost_answer=0.1,
    cut_watch=0.05,
    gone=0.05,
)
STEPS = 40


@pytest.mark.parametrize("seed", range(25))
def test_after_any_storm_gangs_stand_whole_and_no_node_is_overfull(seed: int) -> None:
    async def story(table: Table) -> None:
        random = Random(f"story {seed}")
        gangs: dict[str, tuple[int, int]] = {}
        # Gangs that lost no pod, and no scheduler between two of their bindings: those can be broken by bad luck.
        untouched: dict[str, None] = {}
        for _ in range(STEPS):
            await take_a_step(table, random, gangs, untouched)
            await table.settle(random.choice([0.01, 0.1, 1.0]))
            assert len(set((await table.bound()).values())) == len(await table.bound())
        table.wire.plan = CALM
        await table.settle(120)
        bound = await table.bound()
        assert len(set(bound.values())) == len(bound)
        for name in untouched:
            count, minimum = gangs[name]
            placed_count = sum(pod in bound for pod in numbered(name, count))
            assert placed_count == 0 or placed_count >= minimum
        await expect_a_standstill(table)

    run_story(story, seed, STORMY)


async def take_a_step(
    table: Table, random: Random, gangs: dict[str, tuple[int, int]], untouched: dict[str, None]
) -> None:
    """A gang arrives, a pod goes or comes back, a node comes or goes."""
    match random.choice(["gang", "gang", "pod", "node", "node", "cordon", "restart"]):
        case "gang":
            name = f"g{len(gangs)}"
            count = random.randint(1, 4)
            gangs[name] = (count, random.randint(1, count))
            untouched[name] = None
            await table.add_gang(name, **{name: gangs[name]})
            await table.add_pods(name, *numbered(name, count))
        case "pod" if gangs:
            name = random.choice(list(gangs))
            untouched.pop(name, None)
            pod = random.choice(numbered(name, gangs[name][0]))
            if await exists(table, pod):
                await table.client.delete(PODS, "default", pod, grace_period_seconds=0)
            else:
                await table.add_pods(name, pod)
        case "node":
            await table.add_nodes(random.randint(1, 2))
        case "cordon":
            await table.add_nodes(1)
            await table.nodes.cordon("node-0")
        case "restart":
            untouched.clear()
            await table.restart()


async def exists(table: Table, pod: str) -> bool:
    try:
        await table.client.get(PODS, "default", pod)
    except ApiError:
        return False
    return True


async def expect_a_standstill(table: Table) -> None:
    """Neither an hour of quiet nor a scheduler with fresh eyes binds anything more."""
    before = await table.bound()
    await table.settle(3600)
    assert await table.bound() == before
    await table.restart()
    await table.settle(60)
    assert await table.bound() == before

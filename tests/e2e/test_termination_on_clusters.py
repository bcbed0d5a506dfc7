"""Gang termination from outside: on `grove up` and on a real control plane, with the operator in its own process.

The many cases are in `tests/simulation/termination_stories.py`, on virtual time; here some of them take real seconds.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

import pytest

from grove.api import labels
from grove.api.resources import GROUPS, PODCLIQUES, PODGANGS, PODS, SERVICES, Resource
from grove.api.types.meta import Uid, find_condition, is_condition_true
from grove.cluster.nodes import Nodes
from grove.planner.teardown.recreation import read_record
from tests.e2e.harness import Cluster, Stage
from tests.simulation.stories import WORKLOAD1, WORKLOAD2
from tests.simulation.termination_stories import with_delay

pytestmark = pytest.mark.kube

# Time to come back in, also for a machine that is busy with other things.
RECOVERY_SECONDS = 30


def living(stage: Stage, *cliques: str) -> set[Uid]:
    return {
        pod.metadata.uid
        for pod in stage.pods()
        if not pod.metadata.is_terminating and (not cliques or pod.metadata.labels[labels.PODCLIQUE] in cliques)
    }


def lasting(stage: Stage) -> set[Uid]:
    """What stays when pods and cliques go."""
    kinds: tuple[Resource[Any], ...] = (SERVICES, GROUPS, PODGANGS)
    return {obj.metadata.uid for kind in kinds for obj in stage.objects(kind)}


async def lose(stage: Stage, clique: str, count: int) -> None:
    """Take pods away, with no room for others."""
    pods = [pod for pod in stage.running_pods() if pod.metadata.labels[labels.PODCLIQUE] == clique][:count]
    assert len(pods) == count
    for pod in pods:
        await stage.client.delete(PODS, stage.namespace, pod.metadata.name, uid=pod.metadata.uid)


async def a_broken_clique_ends_the_whole_replica(stage: Stage) -> None:
    names = await stage.add_nodes(2)
    assert isinstance(names, tuple)
    nodes = Nodes(stage.client, stage.cluster.clock)
    await stage.apply(with_delay(WORKLOAD1, "3s"))
    await stage.settle()
    before, kept = living(stage), lasting(stage)
    assert len(before) == 10
    for name in names:
        await nodes.cordon(name)
    await lose(stage, "workload1-0-pc-a", 1)
    await stage.wait_until(lambda: not living(stage) & before)
    for name in names:
        await nodes.uncordon(name)
    await stage.settle()
    await stage.wait_until(lambda: not any(read_record(gang).open for gang in stage.objects(PODGANGS)))
    assert len(living(stage)) == 10
    assert lasting(stage) == kept
    assert sum(read_record(gang).count for gang in stage.objects(PODGANGS)) == 1
    await stage.wait_for_events("PodCliqueSetReplicaDeleteSuccessful")


async def a_broken_group_replica_goes_alone(stage: Stage) -> None:
    names = await stage.add_nodes(2)
    assert isinstance(names, tuple)
    nodes = Nodes(stage.client, stage.cluster.clock)
    await stage.apply(with_delay(WORKLOAD2, "3s"))
    await stage.settle()
    first = living(stage, "workload2-0-sg-x-0-pc-b", "workload2-0-sg-x-0-pc-c")
    others = living(stage) - first
    assert (len(first), len(others)) == (4, 6)
    for name in names:
        await nodes.cordon(name)
    await lose(stage, "workload2-0-sg-x-0-pc-c", 3)
    await stage.wait_until(lambda: not living(stage) & first)
    for name in names:
        await nodes.uncordon(name)
    await stage.settle()
    assert living(stage) >= others
    assert len(living(stage)) == 10


async def a_pod_above_the_minimum_and_a_recovery_in_time_end_nothing(stage: Stage) -> None:
    names = await stage.add_nodes(2)
    assert isinstance(names, tuple)
    nodes = Nodes(stage.client, stage.cluster.clock)
    await stage.apply(with_delay(WORKLOAD2, f"{RECOVERY_SECONDS}s"))
    await stage.settle()
    before = living(stage)
    for name in names:
        await nodes.cordon(name)
    # One of two is above the minimum; of the other clique all go, and come back before the delay is over.
    await lose(stage, "workload2-0-pc-a", 1)
    await lose(stage, "workload2-0-sg-x-1-pc-c", 3)
    await stage.wait_until(lambda: is_breached(stage, "workload2-0-sg-x-1-pc-c"))
    over_at = stage.cluster.clock.monotonic() + RECOVERY_SECONDS + 1
    assert not is_breached(stage, "workload2-0-pc-a")
    for name in names:
        await nodes.uncordon(name)
    await stage.settle()
    await stage.cluster.clock.sleep(max(0.0, over_at - stage.cluster.clock.monotonic()))
    await stage.look()
    assert len(living(stage) & before) == 6
    assert sum(read_record(gang).count for gang in stage.objects(PODGANGS)) == 0


async def a_group_that_is_scaled_out_in_breach_keeps_its_clock(stage: Stage) -> None:
    names = await stage.add_nodes(2)
    assert isinstance(names, tuple)
    nodes = Nodes(stage.client, stage.cluster.clock)
    await stage.apply(with_delay(WORKLOAD1, f"{RECOVERY_SECONDS}s"))
    await stage.settle()
    before = living(stage)
    for name in names:
        await nodes.cordon(name)
    await lose(stage, "workload1-0-sg-x-0-pc-c", 1)
    await stage.wait_until(lambda: breached_since(stage) is not None)
    since, over_at = breached_since(stage), stage.cluster.clock.monotonic() + RECOVERY_SECONDS + 5
    await stage.scale(GROUPS, "workload1-0-sg-x", 3)
    await stage.wait_until(lambda: len(living(stage, "workload1-0-sg-x-2-pc-c")) > 0)
    await stage.cluster.clock.sleep(2)
    await stage.look()
    assert breached_since(stage) == since
    await stage.wait_until(lambda: not living(stage) & before)
    assert stage.cluster.clock.monotonic() < over_at
    for name in names:
        await nodes.uncordon(name)
    await stage.settle()


def breached_since(stage: Stage) -> datetime | None:
    (group,) = stage.objects(GROUPS)
    breach = find_condition(group.status.conditions, "MinAvailableBreached")
    return breach.last_transition_time if breach is not None and breach.status == "True" else None


async def a_scale_set_at_run_time_comes_back(stage: Stage) -> None:
    names = await stage.add_nodes(2)
    assert isinstance(names, tuple)
    nodes = Nodes(stage.client, stage.cluster.clock)
    await stage.apply(with_delay(WORKLOAD2, "2s"))
    await stage.settle()
    await stage.scale(PODCLIQUES, "workload2-0-pc-a", 5)
    await stage.settle()
    before = living(stage)
    for name in names:
        await nodes.cordon(name)
    await lose(stage, "workload2-0-pc-a", 5)
    await stage.wait_until(lambda: not living(stage) & before)
    for name in names:
        await nodes.uncordon(name)
    await stage.settle()
    assert len(living(stage, "workload2-0-pc-a")) == 5
    assert len(living(stage)) == 13


async def without_a_delay_nothing_goes(stage: Stage) -> None:
    names = await stage.add_nodes(2)
    assert isinstance(names, tuple)
    nodes = Nodes(stage.client, stage.cluster.clock)
    await stage.apply(with_delay(WORKLOAD1, None))
    await stage.settle()
    before = living(stage)
    for name in names:
        await nodes.cordon(name)
    await lose(stage, "workload1-0-pc-a", 1)
    await stage.wait_until(lambda: is_breached(stage, "workload1-0-pc-a"))
    await stage.cluster.clock.sleep(5)
    await stage.look()
    assert len(living(stage) & before) == 9


def is_breached(stage: Stage, name: str) -> bool:
    (clique,) = (one for one in stage.objects(PODCLIQUES) if one.metadata.name == name)
    return is_condition_true(clique.status.conditions, "MinAvailableBreached")


STORIES = [
    a_broken_clique_ends_the_whole_replica,
    a_broken_group_replica_goes_alone,
    a_pod_above_the_minimum_and_a_recovery_in_time_end_nothing,
    a_group_that_is_scaled_out_in_breach_keeps_its_clock,
    a_scale_set_at_run_time_comes_back,
    without_a_delay_nothing_goes,
]


@pytest.mark.parametrize("story", STORIES)
def test_it_ends_as_in_the_simulation(
    runner: asyncio.Runner, cluster: Cluster, story: Callable[[Stage], Awaitable[None]]
) -> None:
    async def run() -> None:
        stage = await cluster.stage(has_nodes=False)
        await story(stage)
        await stage.clear()

    runner.run(run())

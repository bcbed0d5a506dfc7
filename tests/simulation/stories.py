"""The stories every run must end the same way, whatever breaks meanwhile. One pod per node: 80Mi pods on 150Mi nodes.

A story is a coroutine on a world; it asserts what a user would see at each rest. `test_stories.py` runs them in calm,
`test_crash_everywhere.py` with a crash at every write. Those that take a `Scene` are also told on clusters that are
reached over HTTP (`tests/e2e/test_cluster_stories.py`).
"""

from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import yaml

from grove.api import labels
from grove.api.resources import GROUPS, PODCLIQUESETS, Object, Resource
from grove.api.types.meta import find_condition
from grove.api.types.podcliqueset import PodCliqueSet
from grove.cluster.built_in_resources import SERVED
from grove.sim.simulation import World
from tests.scene import Scene, Seen

FIXTURES = Path(__file__).parent.parent / "fixtures"
WORKLOAD1 = FIXTURES / "workload1.yaml"
WORKLOAD2 = FIXTURES / "workload2.yaml"
# How long nothing may be written at the end of a story: longer than the longest period of the operator, that of a watch
# (ten minutes). `test_stories.py` has an hour.
REST_SECONDS = 15 * 60
ONE_POD_NODE = {"cpu": "4", "memory": "150Mi", "pods": "110"}
_NAMESPACED = tuple(
    Resource(
        group=resource_info.group,
        version=resource_info.version,
        plural=resource_info.plural,
        kind=resource_info.kind,
        view=Object,
    )
    for resource_info in SERVED
    if resource_info.namespaced
)


class Story(msgspec.Struct, frozen=True):
    name: str
    nodes: int
    tell: Callable[[World], Awaitable[None]]
    # Whose pods are refused, and in which words, is decided by who comes first.
    has_one_end: bool = True
    # What comes before the story: told too, but not crashed in.
    begin: Callable[[World], Awaitable[None]] | None = None

    async def play(self, world: World) -> None:
        if self.begin is not None:
            await self.begin(world)
        await self.tell(world)


def running_by_role(world: Scene) -> dict[str, int]:
    """How many pods run, by clique name without the set's and group's prefix."""
    counts: dict[str, int] = {}
    for pod in world.running_pods():
        role = pod.metadata.labels[labels.PODCLIQUE]
        counts[role] = counts.get(role, 0) + 1
    return counts


async def expect_running(world: Scene, count: int) -> None:
    """At rest `count` pods run, and every other pod says why it does not."""
    await world.settle()
    assert len(world.running_pods()) == count
    for pod in world.pods():
        if pod.status.phase != "Running":
            condition = find_condition(pod.status.conditions, "PodScheduled")
            assert condition is not None, pod.metadata.name
            assert condition.status == "False"
            assert condition.message


async def all_or_nothing(world: Scene) -> None:
    await world.apply(WORKLOAD1)
    await expect_running(world, 0)
    await world.add_nodes(1)
    await expect_running(world, 10)


async def a_scaled_replica_waits_as_a_block(world: Scene) -> None:
    await world.apply(WORKLOAD1)
    await expect_running(world, 10)
    await world.scale(GROUPS, "workload1-0-sg-x", 3)
    await expect_running(world, 10)
    await world.add_nodes(1)
    await expect_running(world, 14)


async def a_second_set_replica_waits_as_a_block(world: Scene) -> None:
    await world.apply(WORKLOAD1)
    await expect_running(world, 10)
    await world.scale(PODCLIQUESETS, "workload1", 2)
    await expect_running(world, 10)
    await world.add_nodes(1)
    await expect_running(world, 20)


async def minima_first_then_the_rest(world: Scene) -> None:
    await world.apply(WORKLOAD2)
    await expect_running(world, 0)
    await world.add_nodes(1)
    await expect_running(world, 3)
    assert running_by_role(world) == {
        "workload2-0-pc-a": 1,
        "workload2-0-sg-x-0-pc-b": 1,
        "workload2-0-sg-x-0-pc-c": 1,
    }
    await world.add_nodes(7)
    await expect_running(world, 10)


async def scaled_minima_before_any_extra(world: Scene) -> None:
    await world.apply(WORKLOAD2)
    await expect_running(world, 0)
    await world.scale(GROUPS, "workload2-0-sg-x", 3)
    await expect_running(world, 0)
    await world.add_nodes(3)
    await expect_running(world, 3)
    await world.add_nodes(4)
    await expect_running(world, 7)
    assert running_by_role(world) == {
        "workload2-0-pc-a": 1,
        "workload2-0-sg-x-0-pc-b": 1,
        "workload2-0-sg-x-0-pc-c": 1,
        "workload2-0-sg-x-1-pc-b": 1,
        "workload2-0-sg-x-1-pc-c": 1,
        "workload2-0-sg-x-2-pc-b": 1,
        "workload2-0-sg-x-2-pc-c": 1,
    }
    await world.add_nodes(7)
    await expect_running(world, 14)


async def both_bases_before_anything_else(world: Scene) -> None:
    await world.apply(WORKLOAD2)
    await world.scale(PODCLIQUESETS, "workload2", 2)
    await expect_running(world, 0)
    await world.add_nodes(6)
    await expect_running(world, 6)
    assert running_by_role(world) == {
        f"workload2-{replica}-{clique}": 1 for replica in (0, 1) for clique in ("pc-a", "sg-x-0-pc-b", "sg-x-0-pc-c")
    }
    await world.add_nodes(4)
    await expect_running(world, 10)
    await world.add_nodes(10)
    await expect_running(world, 20)


async def scaling_in_and_out_again(world: Scene) -> None:
    await world.apply(WORKLOAD1)
    await expect_running(world, 10)
    await world.scale(PODCLIQUESETS, "workload1", 2)
    await world.scale(GROUPS, "workload1-0-sg-x", 3)
    await expect_running(world, 24)
    await world.scale(GROUPS, "workload1-0-sg-x", 2)
    await world.scale(PODCLIQUESETS, "workload1", 1)
    await expect_running(world, 10)
    await world.scale(PODCLIQUESETS, "workload1", 2)
    await expect_running(world, 20)


async def a_deleted_set_leaves_nothing(world: Scene) -> None:
    await world.apply(WORKLOAD2)
    await expect_running(world, 10)
    await world.delete(PODCLIQUESETS, "workload2")
    await world.settle()
    assert left_of_sets(world) == []


async def a_lost_pod_comes_back(world: World) -> None:
    await world.apply(WORKLOAD1)
    await expect_running(world, 10)
    await world.nodes.fail("node-0")
    await world.nodes.fail("node-5")
    # Their pods are evicted after five minutes, and stay Terminating: nobody is there to confirm.
    await world.clock.sleep(400)
    await expect_replaced(world, 8)
    await world.add_nodes(2)
    await expect_replaced(world, 10)


async def expect_replaced(world: World, count: int) -> None:
    await world.settle()
    assert len(world.running_pods()) == count


async def quota_for_one_of_two_sets(world: World) -> None:
    await world.apply(quota(10))
    await world.apply(WORKLOAD1)
    await world.apply(named("second"))
    await world.clock.sleep(300)
    owners = [pod.metadata.labels[labels.PART_OF] for pod in world.running_pods()]
    assert owners in (["workload1"] * 10, ["second"] * 10)
    # The other holds none, and says why.
    loser = "second" if owners[0] == "workload1" else "workload1"
    assert len(world.pods()) == 10
    assert_refused(world, loser)
    await world.apply(quota(20))
    await world.clock.sleep(400)
    await expect_running(world, 20)
    assert_not_refused(world, loser)


async def quota_for_one_of_two_replicas(world: World) -> None:
    await world.apply(quota(15))
    await world.apply(WORKLOAD1)
    await world.scale(PODCLIQUESETS, "workload1", 2)
    await world.clock.sleep(300)
    replicas = [pod.metadata.labels[labels.SET_REPLICA_INDEX] for pod in world.pods() if pod.is_ready]
    assert replicas == ["0"] * 10
    assert len(world.pods()) == 10
    assert_refused(world, "workload1")
    await world.apply(quota(20))
    await world.clock.sleep(400)
    await expect_running(world, 20)
    assert_not_refused(world, "workload1")


def find_set(world: Seen, name: str) -> PodCliqueSet:
    return next(pcs for pcs in world.objects(PODCLIQUESETS) if pcs.metadata.name == name)


def assert_refused(world: Seen, name: str) -> None:
    """The set says in lastErrors and in a condition that its pods are refused."""
    status = find_set(world, name).status
    assert {error.code for error in status.last_errors} == {"ERR_CREATE_POD"}
    condition = find_condition(status.conditions, "ReconcileFailed")
    assert condition is not None
    assert "exceeded quota" in condition.message


def assert_not_refused(world: Seen, name: str) -> None:
    status = find_set(world, name).status
    assert status.last_errors == ()
    assert find_condition(status.conditions, "ReconcileFailed") is None


def quota(pods: int) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "few-pods", "namespace": "default"},
        "spec": {"hard": {"pods": str(pods)}},
    }


def named(name: str) -> dict[str, object]:
    """workload1 under another name."""
    manifest: dict[str, object] = yaml.safe_load(WORKLOAD1.read_text())
    manifest["metadata"] = {"name": name}
    return manifest


def left_of_sets(world: Seen) -> list[str]:
    """Everything that carries our labels, of whatever kind."""
    ours = f"{labels.MANAGED_BY}={labels.MANAGED_BY_VALUE}"
    return [
        f"{resource.plural}/{found.metadata.name}"
        for resource in _NAMESPACED
        for found in world.objects(resource, label_selector=ours)
    ]


STORIES = (
    Story("all or nothing", 9, all_or_nothing),
    Story("a scaled replica waits as a block", 13, a_scaled_replica_waits_as_a_block),
    Story("a second set replica waits as a block", 19, a_second_set_replica_waits_as_a_block),
    Story("minima first, then the rest", 2, minima_first_then_the_rest),
    Story("scaled minima before any extra", 0, scaled_minima_before_any_extra),
    Story("both bases before anything else", 0, both_bases_before_anything_else),
    Story("scaling in and out again", 24, scaling_in_and_out_again),
    Story("a deleted set leaves nothing", 10, a_deleted_set_leaves_nothing),
    Story("a lost pod comes back", 10, a_lost_pod_comes_back),
    Story("quota for one of two sets", 20, quota_for_one_of_two_sets, has_one_end=False),
    Story("quota for one of two replicas", 20, quota_for_one_of_two_replicas, has_one_end=False),
)

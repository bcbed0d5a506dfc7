"""Termination, updates and training with native gangs: stories that other modules tell without, and how groups end."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

from tests.e2e import test_termination_on_clusters as termination
from tests.e2e import test_training_on_clusters as trainings
from tests.e2e import test_updates_on_clusters as updates
from tests.e2e.harness import Stage
from tests.e2e.native import NativeCluster, native_cluster
from tests.e2e.native_mirrors import await_right_groups, mirror_problems
from tests.kube.controlplane.plane import GANGS

pytestmark = pytest.mark.kube

NODES = 3
# What begins without nodes brings its own.
LASTING: list[tuple[Callable[[Stage], Awaitable[None]], int]] = [
    *((story, 0) for story in termination.STORIES if story is not termination.without_a_delay_nothing_goes),
    (updates.a_changed_clique_rolls_pod_by_pod_and_nothing_else_is_touched, NODES),
    (updates.a_changed_member_rolls_its_group_replica_by_replica, NODES),
    (updates.one_replica_is_done_before_the_next_begins, NODES),
    (updates.replicas_that_come_during_an_update_are_born_with_the_newest, NODES),
    (updates.groups_and_cliques_scale_during_an_update, NODES),
    (updates.a_second_and_a_third_change_go_on_towards_the_newest, NODES),
    (updates.an_operator_that_is_killed_again_and_again_finishes_the_update, NODES),
]
ENDING = [
    trainings.all_exit_well_and_what_is_deleted_later_stays_deleted,
    trainings.a_failed_pod_restarts_the_replica_once,
    trainings.a_pod_deleted_by_hand_restarts_the_replica_once,
    trainings.a_completed_pod_deleted_before_its_clique_is_done_is_not_run_again,
]


@pytest.fixture(scope="module")
def native(runner: asyncio.Runner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NativeCluster]:
    with native_cluster(tmp_path_factory.mktemp("retold"), GANGS, runner) as cluster:
        yield cluster


@pytest.mark.parametrize(("story", "nodes"), LASTING, ids=lambda value: getattr(value, "__name__", ""))
def test_what_lives_on_ends_as_without_gangs_in_groups_that_are_right(
    runner: asyncio.Runner, native: NativeCluster, story: Callable[[Stage], Awaitable[None]], nodes: int
) -> None:
    async def run() -> None:
        stage = await native.wide_stage(nodes)
        await story(stage)
        await stage.settle()
        await await_right_groups(stage)
        assert mirror_problems(stage) == []
        await stage.clear()

    runner.run(run())


@pytest.mark.parametrize("story", ENDING, ids=lambda story: story.__name__)
def test_a_training_ends_as_without_gangs(
    runner: asyncio.Runner, native: NativeCluster, story: Callable[[Stage], Awaitable[None]]
) -> None:
    async def run() -> None:
        stage = await native.wide_stage(NODES)
        await story(stage)
        await stage.clear()

    runner.run(run())

"""Rolling updates from outside: on `grove up` and on a real control plane, with the operator in its own process.

The many cases, and a crash at every write, are in simulation; here every pod is watched while it happens.
"""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from grove.api import labels
from grove.api.resources import CONTROLLER_REVISIONS, GROUPS, PODCLIQUES, PODCLIQUESETS, PODS
from grove.cluster.nodes import Nodes
from tests.e2e.harness import Cluster, Stage
from tests.e2e.rollouts import (
    at_least_ready,
    at_most_one_down,
    at_version,
    clique_of,
    has_ended,
    in_order,
    is_updating,
    living,
    one_replica_serves,
    replica_of,
    stalled,
    untouched,
    version_of,
    watching,
)
from tests.simulation.stories import WORKLOAD1, WORKLOAD2, find_set

pytestmark = pytest.mark.kube

W1, W2 = "workload1", "workload2"
A = "workload1-0-pc-a"
GROUP_REPLICAS = {f"replica {j}": ((f"{W1}-0-sg-x-{j}-pc-b", f"{W1}-0-sg-x-{j}-pc-c"), 4) for j in (0, 1)}
NEVER_READY = {labels.SIM_READY_AFTER: "1000h"}
SLOWLY_READY = {labels.SIM_READY_AFTER: "1s"}
LOADING = {labels.SIM_READY_AFTER: "10s"}
MINUTES = 300.0


async def begin(stage: Stage, manifest: object) -> None:
    assert isinstance(manifest, dict)
    await stage.apply(manifest)
    await stage.settle()


async def ended(stage: Stage, name: str) -> None:
    await stage.wait_until(lambda: has_ended(stage, name))
    await stage.settle()


def versions(stage: Stage, *cliques: str) -> list[int]:
    return sorted(version_of(pod) for pod in living(stage.pods(), *cliques).values())


async def a_changed_clique_rolls_pod_by_pod_and_nothing_else_is_touched(stage: Stage) -> None:
    await begin(stage, at_version(WORKLOAD1, 1))
    others = [pod for pod in stage.pods() if clique_of(pod) != A]
    async with watching(stage, at_least_ready(1, A), untouched(others)) as eye:
        await stage.apply(at_version(WORKLOAD1, 2, "pc-a"))
        await ended(stage, W1)
    assert len(others) == 8
    assert versions(stage, A) == [2, 2]
    # Two pods were replaced, each once.
    assert (len(eye.seen), eye.stalls) == (12, [])


async def a_changed_member_rolls_its_group_replica_by_replica(stage: Stage) -> None:
    await begin(stage, at_version(WORKLOAD1, 1))
    others = [pod for pod in stage.pods() if clique_of(pod) == A]
    async with watching(stage, at_most_one_down(GROUP_REPLICAS), untouched(others)) as eye:
        await stage.apply(at_version(WORKLOAD1, 2, "pc-b"))
        await ended(stage, W1)
    assert (len(eye.seen), len(others), eye.stalls) == (10 + 8, 2, [])
    assert stage_versions(stage) == {1: 8, 2: 2}


def stage_versions(stage: Stage) -> dict[int, int]:
    found = versions(stage)
    return {version: found.count(version) for version in found}


async def one_replica_is_done_before_the_next_begins(stage: Stage) -> None:
    await begin(stage, at_version(WORKLOAD1, 1, replicas=2))
    async with watching(stage, in_order(1, 0, 2, 10)) as eye:
        await stage.apply(at_version(WORKLOAD1, 2, replicas=2))
        await ended(stage, W1)
    assert versions(stage) == [2] * 20
    assert (len(eye.seen), eye.stalls) == (40, [])


async def without_room_one_pod_waits_and_no_other_goes(stage: Stage) -> None:
    stage.patience = MINUTES
    names = await stage.add_nodes(2)
    assert isinstance(names, tuple)
    nodes = Nodes(stage.client, stage.cluster.clock)
    await begin(stage, at_version(WORKLOAD1, 1))
    before = living(stage.pods())
    async with watching(stage, at_least_ready(9)):
        for name in names:
            await nodes.cordon(name)
        await stage.apply(at_version(WORKLOAD1, 2, "pc-a"))
        # It takes a minute without progress until that is said.
        await stage.wait_until(lambda: stalled(stage, W1) is not None)
        condition = stalled(stage, W1)
        assert condition is not None
        assert (condition.status, condition.reason) == ("True", "NoCapacity")
        now = living(stage.pods())
        (waiting,) = (now[uid] for uid in now.keys() - before.keys())
        assert len(before.keys() - now.keys()) == 1
        assert (waiting.status.phase, version_of(waiting)) == ("Pending", 2)
        assert waiting.metadata.name in condition.message
        for name in names:
            await nodes.uncordon(name)
        await ended(stage, W1)
    assert versions(stage, A) == [2, 2]
    assert stalled(stage, W1) is None


async def replicas_that_come_during_an_update_are_born_with_the_newest(stage: Stage) -> None:
    await begin(stage, at_version(WORKLOAD1, 1, replicas=2))
    async with watching(stage) as eye:
        await stage.apply(at_version(WORKLOAD1, 2, replicas=2))
        await stage.scale(PODCLIQUESETS, W1, 3)
        await ended(stage, W1)
    assert versions(stage) == [2] * 30
    # Twenty old ones, twenty in their place, and ten more that nobody had to replace.
    assert len(eye.seen) == 50


async def the_replica_that_updates_may_go(stage: Stage) -> None:
    await begin(stage, at_version(WORKLOAD1, 1, replicas=2))
    await stage.apply(at_version(WORKLOAD1, 2, replicas=2, annotations=SLOWLY_READY))
    await stage.wait_until(lambda: is_updating(stage, W1, 1))
    await stage.scale(PODCLIQUESETS, W1, 1)
    await ended(stage, W1)
    assert versions(stage) == [2] * 10


async def groups_and_cliques_scale_during_an_update(stage: Stage) -> None:
    await begin(stage, at_version(WORKLOAD2, 1))
    group, clique = "workload2-0-sg-x", "workload2-0-pc-a"
    await stage.apply(at_version(WORKLOAD2, 2, annotations=SLOWLY_READY))
    await stage.wait_until(lambda: is_updating(stage, W2, 0))
    await stage.scale(GROUPS, group, 3)
    await stage.scale(PODCLIQUES, clique, 4)
    await ended(stage, W2)
    assert versions(stage) == [2] * (4 + 3 * 4)
    await stage.apply(at_version(WORKLOAD2, 3, annotations=SLOWLY_READY))
    await stage.wait_until(lambda: is_updating(stage, W2, 0))
    await stage.scale(GROUPS, group, 2)
    await stage.scale(PODCLIQUES, clique, 2)
    await ended(stage, W2)
    assert versions(stage) == [3] * (2 + 2 * 4)


async def a_second_and_a_third_change_go_on_towards_the_newest(stage: Stage) -> None:
    await begin(stage, at_version(WORKLOAD1, 1, replicas=2))
    async with watching(stage, at_least_ready(15)):
        await stage.apply(at_version(WORKLOAD1, 2, replicas=2, annotations=SLOWLY_READY))
        # In the middle of the first change, and of the second.
        for version in (2, 3):
            await stage.wait_until(lambda wanted=version: wanted in versions(stage))  # type: ignore[misc]
            assert not has_ended(stage, W1)
            await stage.apply(at_version(WORKLOAD1, version + 1, replicas=2, annotations=SLOWLY_READY))
        stage.patience = MINUTES
        await ended(stage, W1)
    assert versions(stage) == [4] * 20


async def a_template_that_never_gets_ready_stops_at_the_first_replica_until_it_is_mended(stage: Stage) -> None:
    stage.patience = MINUTES
    await begin(stage, at_version(WORKLOAD1, 1, replicas=2))
    resource_info = [pod for pod in stage.pods() if replica_of(pod) == 0]
    async with watching(stage, untouched(resource_info)):
        await stage.apply(at_version(WORKLOAD1, 2, replicas=2, annotations=NEVER_READY))
        await stage.wait_until(lambda: stalled(stage, W1) is not None)
        condition = stalled(stage, W1)
        assert condition is not None
        assert (condition.status, condition.reason) == ("True", "PodsNotReady")
        unready = [pod.metadata.name for pod in stage.pods() if version_of(pod) == 2 and not pod.is_ready]
        assert [name for name in unready if name in condition.message], condition.message
        assert not has_ended(stage, W1)
    await stage.apply(at_version(WORKLOAD1, 3, replicas=2))
    await ended(stage, W1)
    assert versions(stage) == [3] * 20
    assert stalled(stage, W1) is None


async def applying_the_old_template_again_takes_a_change_back(stage: Stage) -> None:
    await begin(stage, at_version(WORKLOAD1, 1))
    before = living(stage.pods())
    await stage.apply(at_version(WORKLOAD1, 2, "pc-a", annotations=NEVER_READY))
    await stage.wait_until(lambda: 2 in versions(stage, A))
    await stage.apply(at_version(WORKLOAD1, 1))
    await ended(stage, W1)
    after = living(stage.pods())
    # The one that had gone came back; who still ran the old template is simply current again.
    assert (len(after), len(before.keys() - after.keys())) == (10, 1)
    assert versions(stage) == [1] * 10
    numbers = sorted(revision.revision for revision in stage.objects(CONTROLLER_REVISIONS))
    newest = max(stage.objects(CONTROLLER_REVISIONS), key=lambda revision: revision.revision)
    assert numbers == [2, 3]
    assert newest.metadata.labels[labels.GENERATION_HASH] == find_set(stage, W1).status.current_generation_hash


async def on_delete_nothing_goes_and_whatever_comes_is_new(stage: Stage) -> None:
    await begin(stage, at_version(WORKLOAD2, 1, strategy="OnDelete"))
    hashes = template_hashes(stage)
    async with watching(stage, untouched(stage.pods())):
        await stage.apply(at_version(WORKLOAD2, 2, strategy="OnDelete"))
        await stage.wait_until(lambda: not hashes.items() & template_hashes(stage).items())
        await stage.wait_until(lambda: set(updated_counts(stage).values()) == {0} and has_said_so(stage))
    for name in ("workload2-0-pc-a", "workload2-0-sg-x-0-pc-c"):
        victim = next(pod for pod in stage.running_pods() if clique_of(pod) == name)
        await stage.client.delete(PODS, stage.namespace, victim.metadata.name, uid=victim.metadata.uid)
        await stage.wait_until(lambda clique=name: updated_counts(stage)[clique] == 1)  # type: ignore[misc]
    await stage.wait_until(lambda: len(stage.running_pods()) == 10)
    assert stage_versions(stage) == {1: 8, 2: 2}
    # Who is outdated goes first.
    await stage.scale(PODCLIQUES, "workload2-0-pc-a", 1)
    await stage.wait_until(lambda: versions(stage, "workload2-0-pc-a") == [2])


def template_hashes(stage: Stage) -> dict[str, str]:
    return {one.metadata.name: one.metadata.labels[labels.TEMPLATE_HASH] for one in stage.objects(PODCLIQUES)}


def updated_counts(stage: Stage) -> dict[str, int]:
    return {one.metadata.name: one.status.updated_replicas for one in stage.objects(PODCLIQUES)}


def has_said_so(stage: Stage) -> bool:
    """An update that deletes nothing is over when it begins."""
    pcs = find_set(stage, W2)
    progress = pcs.status.rolling_update_progress
    return (
        pcs.status.observed_generation == pcs.metadata.generation
        and progress is not None
        and progress.update_ended_at is not None
        and progress.currently_updating is None
    )


async def an_operator_that_is_killed_again_and_again_finishes_the_update(stage: Stage) -> None:
    (operator,) = stage.cluster.operators
    await begin(stage, at_version(WORKLOAD1, 1, replicas=2))
    stage.patience = MINUTES
    async with watching(stage, in_order(1, 0, 2, 10)) as eye:
        await stage.apply(at_version(WORKLOAD1, 2, replicas=2))
        for updated in (1, 4, 7, 12, 17):
            await stage.wait_until(lambda wanted=updated: versions(stage).count(2) >= wanted)  # type: ignore[misc]
            operator.kill()
            operator.start()
            await asyncio.to_thread(operator.await_ready)
        await ended(stage, W1)
    assert versions(stage) == [2] * 20
    assert len(eye.seen) == 40


async def a_set_that_is_deleted_and_applied_again_begins_at_once(stage: Stage) -> None:
    """It has the same template, so it needs the names of what was there before."""
    await begin(stage, at_version(WORKLOAD1, 1))
    async with watching(stage) as eye:
        await stage.delete(PODCLIQUESETS, W1)
        await stage.wait_until(lambda: stage.objects(PODCLIQUESETS) == ())
        await begin(stage, at_version(WORKLOAD1, 1))
    assert eye.troubles == []
    (revision,) = stage.objects(CONTROLLER_REVISIONS)
    assert revision.metadata.controller == PODCLIQUESETS.owner_key(find_set(stage, W1).metadata)


async def replicas_that_load_are_updated_before_the_one_that_serves(stage: Stage) -> None:
    stage.patience = MINUTES
    await begin(stage, at_version(WORKLOAD1, 1, annotations=LOADING))
    await stage.scale(PODCLIQUESETS, W1, 3)
    await stage.wait_until(lambda: len(stage.pods()) == 30)
    assert not all(pod.is_ready for pod in stage.pods())
    async with watching(stage, one_replica_serves(10)):
        await stage.apply(at_version(WORKLOAD1, 2, replicas=3, annotations=LOADING))
        await stage.wait_until(lambda: is_updating(stage, W1, 0))
        assert [version_of(p) for p in stage.pods() if replica_of(p) and p.is_ready] == [2] * 20
        await ended(stage, W1)
    assert versions(stage) == [2] * 30


async def what_lacks_its_minimum_is_not_listed_as_updated(stage: Stage) -> None:
    names = await stage.add_nodes(2)
    assert isinstance(names, tuple)
    nodes = Nodes(stage.client, stage.cluster.clock)
    await begin(stage, at_version(WORKLOAD1, 1))
    for name in names:
        await nodes.cordon(name)
    for pod in living(stage.pods(), A).values():
        await stage.client.delete(PODS, stage.namespace, pod.metadata.name, uid=pod.metadata.uid)
    await stage.wait_until(lambda: len(stage.running_pods()) == 8)
    await stage.apply(at_version(WORKLOAD1, 2, "pc-a"))
    await stage.wait_until(lambda: versions(stage, A) == [2, 2])
    await stage.cluster.clock.sleep(3)
    await stage.look()
    assert listed(stage) == ((), 0)
    assert not has_ended(stage, W1)
    for name in names:
        await nodes.uncordon(name)
    await ended(stage, W1)
    assert listed(stage)[1] == 1


def listed(stage: Stage) -> tuple[tuple[str, ...], int]:
    """The standalone cliques that the set calls updated, by name while the update runs, and how many."""
    status = find_set(stage, W1).status
    assert status.rolling_update_progress is not None
    assert status.update_progress is not None
    return status.rolling_update_progress.updated_pod_cliques, status.update_progress.updated_pod_cliques_count


STORIES = [
    a_changed_clique_rolls_pod_by_pod_and_nothing_else_is_touched,
    a_changed_member_rolls_its_group_replica_by_replica,
    one_replica_is_done_before_the_next_begins,
    without_room_one_pod_waits_and_no_other_goes,
    replicas_that_come_during_an_update_are_born_with_the_newest,
    the_replica_that_updates_may_go,
    groups_and_cliques_scale_during_an_update,
    a_second_and_a_third_change_go_on_towards_the_newest,
    a_template_that_never_gets_ready_stops_at_the_first_replica_until_it_is_mended,
    applying_the_old_template_again_takes_a_change_back,
    on_delete_nothing_goes_and_whatever_comes_is_new,
    an_operator_that_is_killed_again_and_again_finishes_the_update,
    a_set_that_is_deleted_and_applied_again_begins_at_once,
    replicas_that_load_are_updated_before_the_one_that_serves,
    what_lacks_its_minimum_is_not_listed_as_updated,
]
# They bring nodes of their own.
WITHOUT_NODES = (without_room_one_pod_waits_and_no_other_goes, what_lacks_its_minimum_is_not_listed_as_updated)


@pytest.mark.parametrize("story", STORIES)
def test_an_update_goes_as_in_the_simulation(
    runner: asyncio.Runner, cluster: Cluster, story: Callable[[Stage], Awaitable[None]]
) -> None:
    async def run() -> None:
        stage = await cluster.stage(has_nodes=story not in WITHOUT_NODES)
        await story(stage)
        await stage.clear()

    runner.run(run())

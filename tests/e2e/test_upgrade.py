"""A new operator takes over what an older one left, and itself after a restart: not one pod notices."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from grove.api import labels
from grove.api.resources import CONTROLLER_REVISIONS, GROUPS, PODCLIQUES, PODCLIQUESETS, PODGANGS, PODS, Resource
from grove.api.template_revision import read_revision
from grove.api.types.meta import find_condition
from tests.e2e.harness import Cluster, Stage, uids
from tests.e2e.installation import Installation, outside_operator
from tests.e2e.older_wire import GENERATION_HASH, HASHES, OlderSet
from tests.e2e.operators import Operator
from tests.e2e.quiet import Quiet
from tests.kube.controlplane.nodes import running_nodes
from tests.kube.controlplane.plane import running_plane
from tests.simulation.stories import WORKLOAD1, find_set
from tests.simulation.wire_stories import hostnames

pytestmark = pytest.mark.kube

EVERY_KIND: tuple[Resource[Any], ...] = (PODCLIQUESETS, PODCLIQUES, GROUPS, PODGANGS, PODS, CONTROLLER_REVISIONS)
Upgrade = Callable[[Stage, Operator], Awaitable[None]]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """A cluster with our kinds and nodes, and nobody who operates it yet."""
    with running_plane(tmp_path_factory.mktemp("upgrade")) as plane, running_nodes(plane.kubeconfig, 3):
        yield Installation(plane, has_webhooks=False)


def tell(installed: Installation, folder: Path, story: Upgrade) -> None:
    async def run() -> None:
        operator = outside_operator(installed.kubeconfig(), folder)
        async with Cluster(installed.plane.kubeconfig, operators=(operator,)) as cluster:
            stage = await cluster.stage()
            try:
                await story(stage, operator)
            finally:
                operator.stop()

    asyncio.run(run())


def is_whole(stage: Stage) -> bool:
    """The set and its gangs say that all is well."""
    is_running = all(gang.status.phase == "Running" for gang in stage.objects(PODGANGS))
    return is_running and all(pcs.status.available_replicas == 1 for pcs in stage.objects(PODCLIQUESETS))


def test_a_set_of_an_older_wire_is_taken_over_without_restarting_a_pod(installed: Installation, tmp_path: Path) -> None:
    async def story(stage: Stage, operator: Operator) -> None:
        await OlderSet(stage).write()
        await stage.wait_until(lambda: len(stage.running_pods()) == 6)
        before, hosts = uids(stage.running_pods()), hostnames(stage)
        operator.start()
        await stage.wait_until(lambda: find_set(stage, "p").status.phase == "Running" and is_whole(stage))
        # Taken over means: not held back by what nobody else would remove, and found by its labels from now on.
        assert (len(stage.objects(PODCLIQUES)), len(stage.objects(GROUPS))) == (5, 1)
        await stage.wait_until(lambda: finalizers(stage) == [])
        assert {gang.metadata.labels.get(labels.SET_REPLICA_INDEX) for gang in stage.objects(PODGANGS)} == {"0"}
        assert all(clique.status.was_available for clique in stage.objects(PODCLIQUES))
        assert find_condition(find_set(stage, "p").status.conditions, "ReconcileFailed") is None
        assert uids(stage.pods()) == before
        # And it is lived with as with any other: a pod comes back under its index, a scaled replica comes and goes.
        victim = next(pod.metadata for pod in stage.pods() if pod.metadata.labels[labels.PODCLIQUE] == "p-0-a")
        await stage.client.delete(PODS, victim.namespace, victim.name)
        await stage.wait_until(lambda: victim.name not in uids(stage.pods()) and len(stage.running_pods()) == 6)
        assert sorted(hostnames(stage).values()) == sorted(hosts.values())
        await stage.scale(GROUPS, "p-0-g", 3)
        await stage.wait_until(lambda: len(stage.running_pods()) == 8)
        await stage.scale(GROUPS, "p-0-g", 1)
        await stage.wait_until(lambda: len(stage.pods()) == 4 and len(stage.objects(PODGANGS)) == 1)
        kept = {name: uid for name, uid in before.items() if name != victim.name and "p-0-g-1" not in name}
        assert kept.items() <= uids(stage.pods()).items()
        await stage.delete(PODCLIQUESETS, "p")
        await stage.wait_until_nothing_is_left()
        assert stage.objects(PODCLIQUESETS) == ()

    tell(installed, tmp_path, story)


def test_the_templates_of_an_older_wire_keep_their_hashes_until_they_change(
    installed: Installation, tmp_path: Path
) -> None:
    async def story(stage: Stage, operator: Operator) -> None:
        older = OlderSet(stage)
        await older.write()
        await stage.wait_until(lambda: len(stage.running_pods()) == 6)
        before = uids(stage.running_pods())
        operator.start()
        await stage.wait_until(lambda: find_set(stage, "p").status.phase == "Running" and is_whole(stage))
        # What runs is what is asked for, under the names that it has.
        (stored,) = stage.objects(CONTROLLER_REVISIONS)
        revision = read_revision(stored, "p")
        assert revision is not None
        assert revision.template.hashes == HASHES
        assert stored.metadata.name == f"p-{GENERATION_HASH}"
        assert find_set(stage, "p").status.current_generation_hash == GENERATION_HASH
        assert hashes(stage) == {clique: HASHES[clique[-1]] for clique in older.pod_names}
        assert all(clique.status.updated_replicas == clique.spec.replicas for clique in stage.objects(PODCLIQUES))
        assert find_set(stage, "p").status.rolling_update_progress is None
        assert uids(stage.pods()) == before
        # A change then rolls what changed, and nothing else.
        await stage.apply(older.manifest(image_of_a="registry.example/server:2"))
        await stage.wait_until(lambda: has_ended(stage))
        assert running(stage, "p-0") == find_set(stage, "p").status.current_generation_hash
        kept = {name: uid for name, uid in before.items() if name not in older.pod_names["p-0-a"]}
        after = uids(stage.running_pods())
        assert (len(after), len(kept)) == (6, 4)
        assert kept.items() <= after.items()
        assert not before.keys() - kept.keys() & after.keys()
        assert {clique for clique, found in hashes(stage).items() if found != HASHES[clique[-1]]} == {"p-0-a"}
        assert sorted(one.revision for one in stage.objects(CONTROLLER_REVISIONS)) == [1, 2]
        # And back again, under the old names.
        await stage.apply(older.manifest())
        await stage.wait_until(lambda: hashes(stage)["p-0-a"] == HASHES["a"] and has_ended(stage))
        assert kept.items() <= uids(stage.running_pods()).items()
        assert find_set(stage, "p").status.current_generation_hash == GENERATION_HASH

    tell(installed, tmp_path, story)


def hashes(stage: Stage) -> dict[str, str]:
    return {one.metadata.name: one.metadata.labels[labels.TEMPLATE_HASH] for one in stage.objects(PODCLIQUES)}


def running(stage: Stage, base: str) -> str:
    """Which revision a base gang says that its replica runs."""
    (gang,) = (gang for gang in stage.objects(PODGANGS) if gang.metadata.name == base)
    return gang.metadata.labels.get(labels.GENERATION_HASH, "")


def has_ended(stage: Stage) -> bool:
    pcs = find_set(stage, "p")
    progress = pcs.status.rolling_update_progress
    is_said = progress is not None and progress.update_ended_at is not None
    return is_said and pcs.status.observed_generation == pcs.metadata.generation and is_whole(stage)


def test_a_set_of_an_older_wire_that_is_deleted_before_we_came_leaves_nothing(
    installed: Installation, tmp_path: Path
) -> None:
    async def story(stage: Stage, operator: Operator) -> None:
        await OlderSet(stage).write()
        await stage.wait_until(lambda: len(stage.running_pods()) == 6)
        await stage.delete(PODCLIQUESETS, "p")
        await stage.look()
        assert find_set(stage, "p").metadata.is_terminating
        operator.start()
        await stage.wait_until_nothing_is_left()
        assert stage.objects(PODCLIQUESETS) == ()

    tell(installed, tmp_path, story)


def test_a_scale_in_that_nobody_carried_out_yet_is_carried_out_by_the_new_operator(
    installed: Installation, tmp_path: Path
) -> None:
    async def story(stage: Stage, operator: Operator) -> None:
        await OlderSet(stage).write()
        await stage.wait_until(lambda: len(stage.running_pods()) == 6)
        before = uids(stage.running_pods())
        await stage.scale(GROUPS, "p-0-g", 1)
        operator.start()
        await stage.wait_until(lambda: len(stage.pods()) == 4 and is_whole(stage))
        await stage.wait_until(lambda: [gang.metadata.name for gang in stage.objects(PODGANGS)] == ["p-0"])
        assert uids(stage.pods()).items() <= before.items()

    tell(installed, tmp_path, story)


@pytest.mark.parametrize("is_killed", [False, True], ids=["stopped", "killed"])
def test_an_operator_that_comes_back_restarts_no_pod_and_writes_nothing(
    installed: Installation, tmp_path: Path, is_killed: bool
) -> None:
    async def story(stage: Stage, operator: Operator) -> None:
        operator.start()
        await stage.apply(WORKLOAD1)
        await stage.settle()
        # What only counts may be written a moment later.
        quiet = Quiet(stage.cluster.clock)
        await stage.wait_until(lambda: quiet.has_lasted(versions(stage), 3.0))
        before = versions(stage)
        operator.kill() if is_killed else operator.stop()
        operator.start()
        operator.await_ready()
        # It has seen everything once it carries out something new.
        await stage.apply({**_another(), "metadata": {"name": "later"}})
        await stage.settle()
        assert versions(stage).items() >= before.items()

    tell(installed, tmp_path, story)


def finalizers(stage: Stage) -> list[str]:
    """Of everything but sets."""
    return [name for resource in EVERY_KIND[1:] for obj in stage.objects(resource) for name in obj.metadata.finalizers]


def versions(stage: Stage) -> dict[str, str]:
    """Every object with its version: one that was written, or made anew, has another."""
    return {
        obj.metadata.uid: obj.metadata.resource_version for resource in EVERY_KIND for obj in stage.objects(resource)
    }


def _another() -> dict[str, object]:
    pod_spec = {"containers": [{"name": "main", "image": "registry.example/server:1"}]}
    clique = {"name": "a", "spec": {"roleName": "a", "replicas": 1, "minAvailable": 1, "podSpec": pod_spec}}
    return {
        "apiVersion": PODCLIQUESETS.api_version,
        "kind": PODCLIQUESETS.kind,
        "spec": {"replicas": 1, "template": {"cliques": [clique]}},
    }

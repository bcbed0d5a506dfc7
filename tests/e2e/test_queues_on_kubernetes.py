"""KAI's and Volcano's kinds on a real control plane: an operator with its rights only, and stand-ins that bind.

What is shown: the examples run, mirrors follow and go, admission asks for queues, and no right is missing.
"""

import asyncio
from collections.abc import Iterator
from random import Random

import msgspec
import pytest
import yaml

from grove.api.resources import KAI_PODGROUPS, KAI_QUEUES, PODCLIQUESETS, VOLCANO_PODGROUPS, VOLCANO_QUEUES, Resource
from grove.api.types.meta import JsonObject
from grove.api.types.scheduler_object import SchedulerObject
from grove.kube.api_errors import ApiError
from tests.backends.fake_schedulers import FakeScheduler, KaiDialect, VolcanoDialect
from tests.backends.scheduler_world import CRDS, definition_names
from tests.e2e.audit import Asked, read_audit, shown
from tests.e2e.harness import Cluster, Stage
from tests.e2e.installation import ELECTION, USER, Installation, await_served
from tests.kube.controlplane.nodes import running_nodes
from tests.kube.controlplane.plane import Plane, running_plane
from tests.markdown import ROOT

pytestmark = pytest.mark.kube

EXAMPLES = ROOT / "examples" / "schedulers"
FOREIGN = ("scheduling.run.ai", "kai.scheduler", "scheduling.volcano.sh")


class Evidence(msgspec.Struct):
    plane: Plane
    asked: list[Asked]
    # What was refused, and the words.
    refusal: str


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Evidence]:
    with running_plane(tmp_path_factory.mktemp("queues")) as plane, running_nodes(plane.kubeconfig, 3):
        installation = Installation(
            plane,
            leaderElection=ELECTION,
            scheduler={"profiles": [{"name": "kai-scheduler"}, {"name": "volcano"}]},
            topologyAwareScheduling={"enabled": True},
        )
        for path in sorted(CRDS.glob("*.yaml")):
            plane.kubectl("create", "-f", str(path))
        await_served(plane.user("admin"), definition_names())
        with installation.pod_like_operator() as operator:
            operator.await_ready()

            async def run() -> str:
                async with Cluster(plane.kubeconfig, operators=(operator,)) as cluster, asyncio.TaskGroup() as tasks:
                    fakes = [
                        tasks.create_task(FakeScheduler(cluster.client, cluster.clock, Random(1), dialect).run())
                        for dialect in (KaiDialect(), VolcanoDialect())
                    ]
                    refusal = await tell(cluster)
                    for fake in fakes:
                        fake.cancel()
                    return refusal

            refusal = asyncio.run(run())
        yield Evidence(plane=plane, asked=read_audit(plane, USER), refusal=refusal)


async def tell(cluster: Cluster) -> str:
    """Both examples run, wait for their queues, follow changes, and go."""
    stage = await cluster.stage()
    refusal = await _refused(stage)
    await stage.apply(EXAMPLES / "kai.yaml")
    await stage.wait_until(lambda: bool(stage.objects(PODCLIQUESETS)) and _is_held(stage))
    await _make_queue(cluster, KAI_QUEUES, "research", {})
    await _make_queue(cluster, VOLCANO_QUEUES, _queue_of("volcano.yaml"), {"state": "Open"})
    await stage.apply(EXAMPLES / "volcano.yaml")
    await stage.settle()
    for kind in (KAI_PODGROUPS, VOLCANO_PODGROUPS):
        names = [group.metadata.name for group in (await cluster.client.list(kind, namespace=stage.namespace)).items]
        assert names, kind.full_name
    for name in ("kai-gangs", _name_of("volcano.yaml")):
        await cluster.client.patch(PODCLIQUESETS, stage.namespace, name, {"metadata": {"labels": {"team": "x"}}})
        await _until_labelled(stage, name)
        await stage.delete(PODCLIQUESETS, name)
    await stage.wait_until_nothing_is_left()
    for kind in (KAI_PODGROUPS, VOLCANO_PODGROUPS):
        await _until_gone(stage, kind)
    return refusal


async def _refused(stage: Stage) -> str:
    try:
        await stage.apply(EXAMPLES / "volcano.yaml")
    except ApiError as error:
        return str(error)
    return ""


def _is_held(stage: Stage) -> bool:
    (pcs,) = stage.objects(PODCLIQUESETS)
    return not stage.pods() and any(one.reason == "MissingDependency" for one in pcs.status.conditions)


async def _make_queue(cluster: Cluster, kind: Resource[SchedulerObject], name: str, status: JsonObject) -> None:
    body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, "spec": {}}
    await cluster.client.create(kind, "", body)
    if status:
        await cluster.client.patch(kind, "", name, {"status": status}, subresource="status")


async def _until_labelled(stage: Stage, name: str) -> None:
    async with asyncio.timeout(stage.patience):
        while True:
            kind = KAI_PODGROUPS if name == "kai-gangs" else VOLCANO_PODGROUPS
            groups = (await stage.client.list(kind, namespace=stage.namespace)).items
            if groups and all(group.metadata.labels.get("team") == "x" for group in groups):
                return
            await stage.cluster.clock.sleep(0.1)


async def _until_gone(stage: Stage, kind: Resource[SchedulerObject]) -> None:
    async with asyncio.timeout(stage.patience):
        while (await stage.client.list(kind, namespace=stage.namespace)).items:
            await stage.cluster.clock.sleep(0.1)


def _example(file: str) -> JsonObject:
    documents = [one for one in yaml.safe_load_all((EXAMPLES / file).read_text()) if one]
    found: JsonObject = next(one for one in documents if one["kind"] == "PodCliqueSet")
    return found


def _name_of(file: str) -> str:
    return str(_example(file)["metadata"]["name"])


def _queue_of(file: str) -> str:
    annotations = _example(file)["metadata"].get("annotations", {})
    return str(annotations.get("scheduling.grove.io/volcano-queue", "default"))


def test_a_set_of_volcano_is_refused_before_its_queue_is_open(evidence: Evidence) -> None:
    assert 'queue "research" not found' in evidence.refusal


def test_the_rights_of_the_profiles_are_enough(evidence: Evidence) -> None:
    foreign = [one for one in evidence.asked if one.target is not None and one.target.api_group in FOREIGN]
    assert shown(foreign, lambda one: one.answer.code in (401, 403)) == []
    used = {(one.target.api_group, one.resource, one.verb) for one in foreign if one.target is not None}
    for group in ("scheduling.run.ai", "scheduling.volcano.sh"):
        assert {(group, "podgroups", verb) for verb in ("list", "watch", "create", "patch")} <= used
        assert {(group, "queues", verb) for verb in ("get", "list", "watch")} <= used


def test_a_podgroup_is_written_once_per_change(evidence: Evidence) -> None:
    """Defaults of the server and what the scheduler writes into its status lead to no further writes."""
    writes = [
        one
        for one in evidence.asked
        if one.target is not None
        and one.target.api_group in FOREIGN
        and one.is_write
        and one.resource == "podgroups"
        # A patch that met another version was rejected, and wrote nothing.
        and one.answer.code < 300
    ]
    per_object: dict[tuple[str, str, str], int] = {}
    for one in writes:
        assert one.target is not None
        key = (one.target.api_group, one.target.name, one.verb)
        per_object[key] = per_object.get(key, 0) + 1
    # One label was changed, once. Volcano's PodGroups are relaxed too, once, when their gang was placed.
    most = {"scheduling.run.ai": 1, "scheduling.volcano.sh": 2}
    assert {key: count for key, count in per_object.items() if key[2] == "patch" and count > most[key[0]]} == {}

"""A real etcd restored from a backup under a running operator, with leader election and without.

The runbook is docs/how-to/restore-etcd.md.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from grove.api.resources import PODCLIQUESETS
from grove.api.types.meta import JsonObject
from tests.e2e.audit import read_audit, shown
from tests.e2e.harness import Cluster, Stage
from tests.e2e.installation import ELECTION, NAMESPACE, USER, Installation, outside_operator
from tests.e2e.operators import Operator
from tests.kube.controlplane.nodes import running_nodes
from tests.kube.controlplane.plane import running_plane
from tests.kube.controlplane.restoring import back_up, put_back
from tests.simulation.stories import named

pytestmark = pytest.mark.kube

FOUND = "was restored from a backup"
LOST = "lease lost"


@pytest.fixture
def installed(tmp_path: Path) -> Iterator[Installation]:
    with running_plane(tmp_path) as plane, running_nodes(plane.kubeconfig, 5):
        yield Installation(plane, has_webhooks=False)


@pytest.mark.parametrize("is_bumped", [pytest.param(False, id="plain"), pytest.param(True, id="bumped")])
@pytest.mark.parametrize("has_election", [False, True])
def test_the_operator_goes_on_with_what_the_server_says(
    installed: Installation, tmp_path: Path, is_bumped: bool, has_election: bool
) -> None:
    # The account may write leases in the namespace of its installation only.
    election: JsonObject = {**ELECTION, "resourceNamespace": NAMESPACE} if has_election else {"enabled": False}
    operator = outside_operator(installed.kubeconfig(), tmp_path, leaderElection=election)

    async def main() -> None:
        async with Cluster(installed.plane.kubeconfig, operators=(operator,)) as cluster:
            await story(installed, await cluster.stage(), operator, is_bumped=is_bumped)

    operator.start()
    try:
        operator.await_ready()
        asyncio.run(main())
    finally:
        operator.stop()


async def story(installed: Installation, stage: Stage, operator: Operator, *, is_bumped: bool) -> None:
    plane = installed.plane
    await stage.apply(named("kept"))
    await stage.apply(named("deleted"))
    await stage.settle()
    pods = {pod.metadata.name for pod in stage.running_pods()}
    # Not in a thread: processes end with the thread that started them.
    backup = back_up(plane)
    # After the backup: one is made, one goes, one is scaled.
    await stage.apply(named("later"))
    await stage.delete(PODCLIQUESETS, "deleted")
    await stage.scale(PODCLIQUESETS, "kept", 2)
    await stage.wait_until(lambda: len(stage.running_pods()) == 30)
    await stage.settle()
    before = len(read_audit(plane, USER))
    put_back(plane, backup, is_bumped=is_bumped)
    await stage.wait_until(lambda: {pod.metadata.name for pod in stage.running_pods()} == pods)
    await stage.settle()
    # Long enough for whatever was remembered of the vanished future to come out.
    await stage.cluster.clock.sleep(20)
    await stage.settle()
    assert {pod.metadata.name for pod in stage.running_pods()} == pods
    assert {pcs.metadata.name for pcs in stage.objects(PODCLIQUESETS)} == {"kept", "deleted"}
    since = read_audit(plane, USER)[before:]
    assert shown(since, lambda one: one.is_write and one.resource in ("pods", "podcliques", "podgangs")) == []
    assert [line for line in shown(since, lambda one: one.is_write) if "/later" in line and "events" not in line] == []
    # A leader whose lease ran out meanwhile begins its next term with empty memory, and has nothing to find.
    assert LOST in operator.words or operator.words.count(FOUND) == 1
    # And it works on.
    await stage.scale(PODCLIQUESETS, "kept", 2)
    await stage.settle()
    assert len(stage.running_pods()) == 30

"""The operator may do what it does, and nothing else: its rules, held against what the API server wrote down.

The control plane also enforces the permission to own (OwnerReferencesPermissionEnforcement).
"""

import asyncio
from collections.abc import Iterator

import msgspec
import pytest

from grove.api.resources import PODCLIQUES
from grove.api.types.meta import JsonObject
from tests.e2e.audit import Asked, read_audit, shown
from tests.e2e.every_write import cause_every_write
from tests.e2e.harness import Cluster, Stage
from tests.e2e.installation import ELECTION, USER, Installation
from tests.kube.controlplane.nodes import running_nodes
from tests.kube.controlplane.plane import GANGS, running_plane
from tests.simulation.wire_stories import begin, find, names

pytestmark = pytest.mark.kube


class Right(msgspec.Struct, frozen=True, order=True):
    """One verb on one resource, for one object or (no name) for all."""

    group: str
    resource: str
    verb: str
    name: str = ""

    def covers(self, asked: Asked) -> bool:
        target = asked.target
        return (
            target is not None
            and (target.api_group, asked.resource, asked.verb) == (self.group, self.resource, self.verb)
            and (not self.name or target.name == self.name)
        )


def rights(documents: list[JsonObject]) -> list[Right]:
    """Those of the operator; other roles are for users."""
    return [
        Right(group, resource, verb, name)
        for document in documents
        if document["kind"] in ("ClusterRole", "Role") and document["metadata"]["name"].startswith("grove:system:")
        for rule in document["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    ]


ON: JsonObject = {"enabled": True}
GANGS_OF_KUBERNETES = "scheduling.k8s.io"


class Evidence(msgspec.Struct):
    granted: list[Right]
    asked: list[Asked]


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Evidence]:
    """Everything an operator may ever write, done by one that has the rights of the installation only."""
    folder = tmp_path_factory.mktemp("rbac")
    with running_plane(folder) as plane, running_nodes(plane.kubeconfig, 3):
        # The authorizer guards what the operator made, against everybody but the users of this test.
        authorizer = {"enabled": True, "exemptServiceAccountUserNames": ["admin"]}
        installation = Installation(plane, leaderElection=ELECTION, authorizer=authorizer, topologyAwareScheduling=ON)
        with installation.pod_like_operator() as operator:
            operator.await_ready()

            async def run() -> None:
                async with Cluster(plane.kubeconfig, operators=(operator,)) as cluster:
                    await cause_every_write(cluster)

            asyncio.run(run())
        yield Evidence(granted=rights(installation.documents), asked=read_audit(plane, USER))


def test_the_operator_is_never_refused_for_lack_of_a_right(evidence: Evidence) -> None:
    assert len(evidence.asked) > 100
    assert shown(evidence.asked, lambda one: one.answer.code in (401, 403)) == []


def test_every_request_is_covered_by_a_rule_of_the_installation(evidence: Evidence) -> None:
    resources = [one for one in evidence.asked if one.target is not None and one.target.resource]
    assert shown(resources, lambda one: not any(right.covers(one) for right in evidence.granted)) == []


def test_no_right_is_granted_that_is_not_used(evidence: Evidence) -> None:
    unused = sorted(right for right in evidence.granted if not any(right.covers(one) for one in evidence.asked))
    # The right to own is looked up when something is created for an owner; nobody ever asks for it by itself.
    left = [right for right in unused if not right.resource.endswith("/finalizers")]
    # Here kube-scheduler knows no gangs; below it does.
    left = [right for right in left if right.group != GANGS_OF_KUBERNETES]
    assert left == [], "\n".join(map(str, left))


def test_where_kubernetes_has_gangs_the_rights_to_show_them_are_enough_and_used(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("rbac-gangs")
    with running_plane(folder, gangs=GANGS) as plane, running_nodes(plane.kubeconfig, 3):
        installation = Installation(plane, leaderElection=ELECTION)
        with installation.pod_like_operator() as operator:
            operator.await_ready()

            async def run() -> None:
                async with Cluster(plane.kubeconfig, operators=(operator,)) as cluster:
                    stage = await cluster.stage()
                    await begin(stage)
                    await lose_a_clique(stage)
                    await stage.clear()

            asyncio.run(run())
        asked = [one for one in read_audit(plane, USER) if one.target and one.target.api_group == GANGS_OF_KUBERNETES]
        granted = [right for right in rights(installation.documents) if right.group == GANGS_OF_KUBERNETES]
    assert shown(asked, lambda one: one.answer.code in (401, 403)) == []
    unused = [right for right in granted if not any(right.covers(one) for one in asked)]
    # Read again only when a name was taken before us; changed only when a minimum does.
    assert [right for right in unused if right.verb not in ("get", "patch")] == []


async def lose_a_clique(stage: Stage) -> None:
    """It comes back in another life, with another group."""
    before = find(stage, PODCLIQUES, "p-0-a").metadata.uid
    await stage.delete(PODCLIQUES, "p-0-a")
    await stage.wait_until(
        lambda: "p-0-a" in names(stage, PODCLIQUES) and find(stage, PODCLIQUES, "p-0-a").metadata.uid != before
    )
    await stage.settle()

"""The operator as `grove manifests` installs it, on `grove up --no-operator`: its account, its roles, its webhooks.

The same installation on a real control plane: `test_rbac.py`.
"""

import asyncio
import base64
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
import yaml

from tests.cli.console import ROOT, grove
from tests.cli.operators import Operator as PlainOperator
from tests.cli.operators import write_config
from tests.e2e.every_write import cause_every_write
from tests.e2e.harness import Cluster
from tests.e2e.installation import ELECTION, USER, Installation
from tests.e2e.operators import Operator
from tests.e2e.ports import free_port
from tests.e2e.served import Kubectl, grove_up
from tests.e2e.test_webhook_url import TOO_DEMANDING
from tests.kube.controlplane.plane import Plane

pytestmark = pytest.mark.kubectl
NODES = 3


class ResourceInfo:
    """`grove up` in the place of a real control plane, as far as an installation asks for one."""

    def __init__(self, kubectl: Kubectl, folder: Path) -> None:
        self.folder = folder
        self.kubeconfig = kubectl.kubeconfig
        self._kubectl = kubectl
        cluster = yaml.safe_load(self.kubeconfig.read_text())["clusters"][0]["cluster"]
        self.url: str = cluster["server"]
        self.ca = base64.b64decode(cluster["certificate-authority-data"])

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        return self._kubectl(*arguments, stdin=stdin).out

    def user(self, name: str) -> Kubectl:
        assert name == "admin"
        return self._kubectl

    def kubeconfig_for(self, token: str, name: str = "other") -> Path:
        config = yaml.safe_load(self.kubeconfig.read_text())
        config["users"][0]["user"] = {"token": token}
        path = self.folder / f"{name}.kubeconfig"
        path.write_text(yaml.safe_dump(config))
        path.chmod(0o600)
        return path


@pytest.fixture(scope="module")
def resource_info(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ResourceInfo]:
    folder = tmp_path_factory.mktemp("restricted")
    with grove_up(folder / "up", "--no-operator", "--nodes", str(NODES)) as kubectl:
        yield ResourceInfo(kubectl, folder)


def test_the_installed_operator_does_all_its_work_with_its_own_rights(resource_info: ResourceInfo) -> None:
    authorizer = {"enabled": True, "exemptServiceAccountUserNames": ["grove-admin"]}
    # Neither is served here, and the operator needs neither.
    without = ("Deployment", "PodDisruptionBudget")
    installation = Installation(
        cast("Plane", resource_info),
        without=without,
        leaderElection=ELECTION,
        authorizer=authorizer,
        topologyAwareScheduling={"enabled": True},
    )
    with installation.pod_like_operator() as operator:
        operator.await_ready()
        asyncio.run(_work(resource_info, operator))
        assert "forbidden" not in operator.words
        _check_webhooks(resource_info, installation)
    _remove_webhooks(resource_info)


async def _work(resource_info: ResourceInfo, operator: Operator) -> None:
    async with Cluster(resource_info.kubeconfig, operators=(operator,)) as cluster:
        await cause_every_write(cluster)


def _check_webhooks(resource_info: ResourceInfo, installation: Installation) -> None:
    """They are asked, and know who is who."""
    kubectl = Kubectl(resource_info.kubeconfig, resource_info.folder)
    resource_info.kubectl("create", "namespace", "guarded")
    here = ("-n", "guarded")
    resource_info.kubectl("apply", *here, "-f", str(ROOT / "examples" / "quickstart.yaml"))
    # Cliques are made before gangs.
    resource_info.kubectl("wait", *here, "pg/chat-0", "--for=create", "--timeout=120s")
    clique = resource_info.kubectl("get", *here, "pclq", "-o", "name").split()[0]
    as_user = ("--as=somebody", "--as-group=system:masters")
    refused = kubectl.attempt("label", *here, clique, "meddled=yes", *as_user)
    assert "by somebody: it is managed by the operator" in refused.err, refused.err
    resource_info.kubectl("label", *here, clique, "meddled=yes")
    robot = Kubectl(installation.kubeconfig("robot"), resource_info.folder)
    assert robot("auth", "can-i", "delete", "pods").out == "yes\n"
    assert robot.attempt("auth", "can-i", "delete", "nodes").out == "no\n"
    nodes = robot.attempt("delete", "node", "node-0").err
    assert f'User "{USER}" cannot delete resource "nodes" in API group "" at the cluster scope' in nodes
    assert clique in robot("get", *here, "pclq", "-o", "name").lines


def _remove_webhooks(resource_info: ResourceInfo) -> None:
    resource_info.kubectl("delete", "validatingwebhookconfigurations,mutatingwebhookconfigurations", "--all")


def test_sets_are_judged_while_it_runs_and_nobody_is_asked_when_it_has_stopped(tmp_path: Path) -> None:
    with grove_up(tmp_path / "up", "--no-operator", "--nodes", str(NODES)) as kubectl:
        flags = ("--config", str(write_config(tmp_path)), "--kubeconfig", str(kubectl.kubeconfig))
        url = f"https://127.0.0.1:{free_port()}"
        with PlainOperator(tmp_path, *flags, "--webhook-url", url) as operator:
            operator.wait_for_output("ok\n", "readyz")
            refused = kubectl.attempt("apply", "-f", "-", stdin=TOO_DEMANDING)
            assert (refused.code, "must not be greater than replicas (1)" in refused.err) == (1, True), refused.err
            kubectl("apply", "-f", str(ROOT / "examples" / "quickstart.yaml"))
            operator.wait_for_output('resource="pods",verb="create"} 10.0', "metrics")
            assert operator.end() == 0
        kinds = "validatingwebhookconfigurations,mutatingwebhookconfigurations"
        assert kubectl("get", kinds, "-o", "name").out == ""


def test_a_webhook_that_is_gone_holds_writes_up_and_no_deletion(tmp_path: Path) -> None:
    with grove_up(tmp_path / "up", "--no-operator", "--nodes", str(NODES)) as kubectl:
        flags = ("--config", str(write_config(tmp_path)), "--kubeconfig", str(kubectl.kubeconfig))
        url = f"https://127.0.0.1:{free_port()}"
        with PlainOperator(tmp_path, *flags, "--webhook-url", url) as operator:
            operator.wait_for_output("ok\n", "readyz")
            kubectl("apply", "-f", str(ROOT / "examples" / "quickstart.yaml"))
            operator.wait_for_output('resource="pods",verb="create"} 10.0', "metrics")
            operator.end(signal.SIGKILL)
        name = kubectl("get", "pcs", "-o", "name").out.strip()
        refused = kubectl.attempt("scale", name, "--replicas=3")
        assert 'failed calling webhook "scale.validating.webhooks.grove.io"' in refused.err
        assert "connect: connection refused" in refused.err
        kubectl("delete", name, "--wait=false")
        # Its finalizer is the operator's, who is dead: whoever gives it up is not asked about what is leaving.
        kubectl("patch", name, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
        assert kubectl("get", "pcs", "-o", "name").out == ""
        assert grove(tmp_path, "crds").code == 0

"""Grove on a real control plane, installed by `grove manifests`; but for its pods, whose part processes take.

A process in the place of a pod has what a pod has: the service account's folder, the cluster's address and webhooks
that the API server reaches through the Service.
"""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from time import monotonic, sleep
from urllib.parse import urlsplit

import msgspec
import yaml

from grove.api.types.meta import JsonObject
from tests.e2e.lives import READY_SECONDS
from tests.e2e.operators import Operator
from tests.e2e.ports import free_port
from tests.e2e.served import Kubectl
from tests.kube.controlplane.definitions import await_our_kinds
from tests.kube.controlplane.plane import LOOPBACK, Plane

NAMESPACE = "grove-system"
ACCOUNT = "grove-operator"
USER = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
# Other tests have operators on this machine too: every port is a free one.
_FREE_PORT = {"bindAddress": LOOPBACK, "port": 0}
FREE_PORTS: JsonObject = {"healthProbes": _FREE_PORT, "metrics": _FREE_PORT}
CONFIGURATION: JsonObject = {
    "apiVersion": "operator.config.grove.io/v1alpha1",
    "kind": "OperatorConfiguration",
    "server": FREE_PORTS,
}
# As long as people have it: where nobody is to take over, a busy machine shall not cost anybody the lead.
ELECTION: JsonObject = {"enabled": True, "leaseDuration": "15s", "renewDeadline": "10s", "retryPeriod": "500ms"}


def write_configuration(path: Path, **parts: JsonObject) -> Path:
    path.write_text(yaml.safe_dump({**CONFIGURATION, **parts}))
    return path


def outside_operator(kubeconfig: Path, folder: Path, *, name: str = "operator", **parts: JsonObject) -> Operator:
    """An operator beside the cluster: no webhooks."""
    config = write_configuration(folder / f"{name}.yaml", **parts)
    command = ("grove.cli.main", "operator", "--kubeconfig", str(kubeconfig), "--config", str(config))
    return Operator(command, folder / f"{name}.log")


class Installation:
    """What `grove manifests` prints, applied to a plane."""

    def __init__(
        self,
        plane: Plane,
        *,
        has_webhooks: bool = True,
        without: tuple[str, ...] = ("Deployment",),
        **parts: JsonObject,
    ) -> None:
        """`parts` of the configuration that the installation, and every operator of it, is made with."""
        self.plane = plane
        self._parts = parts
        self.webhook_port = free_port()
        self.documents = [
            document
            for document in printed_manifests(plane.folder, parts)
            if document["kind"] not in without and (has_webhooks or "Webhook" not in document["kind"])
        ]
        # Namespace and definitions first, as they stand in the output; the rest needs them.
        text = yaml.safe_dump_all(self._reachable(document) for document in self.documents)
        plane.kubectl("apply", "--server-side", "-f", "-", stdin=text)
        await_our_kinds(plane)

    def token(self) -> str:
        """A new token of the operator's account; each can be told apart in the audit log."""
        return self.plane.kubectl("create", "token", ACCOUNT, "-n", NAMESPACE, "--duration=2h").strip()

    def kubeconfig(self, name: str = "operator-account") -> Path:
        return self.plane.kubeconfig_for(self.token(), name)

    def pod_like_operator(self, name: str = "operator") -> Operator:
        """An operator as in a pod of this installation, webhooks included."""
        folder = self.plane.folder
        mount = folder / f"{name}-account"
        mount.mkdir()
        for file, content in (("token", self.token()), ("namespace", NAMESPACE), ("ca.crt", self.plane.ca.decode())):
            (mount / file).write_text(content)
        server = {**FREE_PORTS, "webhooks": {"bindAddress": LOOPBACK, "port": self.webhook_port}}
        config = write_configuration(folder / f"{name}.yaml", server=server, **self._parts)
        address = urlsplit(self.plane.url)
        environment = {
            "KUBERNETES_SERVICE_HOST": str(address.hostname),
            "KUBERNETES_SERVICE_PORT": str(address.port),
            "GROVE_OPERATOR_SERVICE_ACCOUNT_NAME": ACCOUNT,
        }
        command = ("tests.e2e.in_pod", str(mount), "operator", "--config", str(config))
        return Operator(command, folder / f"{name}.log", environment)

    def _reachable(self, document: JsonObject) -> JsonObject:
        """There is no network of pods here: the Service stands for this machine, and its port for the process's."""
        if document["kind"] == "Service":
            return {**document, "spec": {"type": "ExternalName", "externalName": "localhost"}}
        for webhook in document.get("webhooks", ()):
            webhook["clientConfig"]["service"]["port"] = self.webhook_port
        return document


def await_served(kubectl: Kubectl, definitions: Iterable[str]) -> None:
    """Until kubectl finds the kinds of these definitions: a moment after the server said that it serves them."""
    deadline = monotonic() + READY_SECONDS
    for name in definitions:
        while kubectl.attempt("get", name).code != 0:
            assert monotonic() < deadline, f"{name} is not served"
            sleep(0.1)


def printed_manifests(folder: Path, parts: JsonObject) -> list[JsonObject]:
    """What `grove manifests` prints for a configuration."""
    ports = {"webhooks": {"port": 9443}, "healthProbes": {"port": 9444}, "metrics": {"port": 9445}}
    config = write_configuration(folder / "installed.yaml", **{"leaderElection": ELECTION, **parts, "server": ports})
    options = ("--config", str(config), "--output", "json")
    command = [sys.executable, "-m", "grove.cli.main", "manifests", *options]
    printed = subprocess.run(command, capture_output=True, check=True).stdout
    found: list[JsonObject] = msgspec.json.decode(printed)["items"]
    return found

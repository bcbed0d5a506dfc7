"""The chart with helm itself: what it renders, and its whole life on a real control plane."""

import re
import shutil
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from grove.api.types.meta import JsonObject
from grove.api.types.operatorconfiguration import read_configuration
from grove.installation.install_options import Issuer, OptionalObjects, plan_installation
from grove.installation.manifests import installation_objects
from release.archives import package_chart
from tests.cli.console import attempts, yaml_documents
from tests.e2e.installation import ACCOUNT, FREE_PORTS, NAMESPACE
from tests.e2e.operators import Operator
from tests.e2e.ports import free_port
from tests.helm_chart import CHART
from tests.kube.controlplane.definitions import await_our_kinds
from tests.kube.controlplane.nodes import running_nodes
from tests.kube.controlplane.plane import LOOPBACK, Plane, running_plane
from tests.kube.tools.build import HELM, run_tool
from tests.markdown import ROOT

pytestmark = pytest.mark.kube

RELEASE = "grove"
SERVER = {"webhooks": {"port": 9443}, "healthProbes": {"port": 9444}, "metrics": {"port": 9445}}
EVERYTHING: JsonObject = {
    "image": {"repository": "registry.example/grove-operator", "tag": "1"},
    "replicas": 3,
    "resources": {"requests": {"cpu": "2", "memory": "4Gi"}, "limits": {"memory": "8Gi"}},
    "priorityClassName": "",
    "watchNamespaces": ["team-a", "team-b"],
    "config": {
        "leaderElection": {"enabled": True, "resourceNamespace": "leases", "resourceName": "mine"},
        "server": SERVER,
        "authorizer": {"enabled": True},
        "scheduler": {"profiles": [{"name": "kai-scheduler"}, {"name": "volcano"}]},
    },
    "certificates": {"mode": "cert-manager", "issuer": {"kind": "Issuer", "name": "ca"}},
    "userRoles": {"create": False},
    "networkPolicy": {"enabled": True},
    "serviceMonitor": {"enabled": True},
    "prometheusRule": {"enabled": True},
    "grafanaDashboard": {"enabled": True},
    "crds": {"install": False},
}
MANUAL: JsonObject = {
    "replicas": 1,
    "config": {"leaderElection": {"enabled": False}, "server": {**SERVER, "metrics": {"port": 7000}}},
    "certificates": {"mode": "manual", "caBundle": "Q0E="},
    "crds": {"install": False},
}


def wishes(values: JsonObject) -> dict[str, Any]:
    """The same settings, as `grove manifests` takes them."""
    image = values.get("image", {})
    name = f"{image.get('repository', 'grove-operator')}:{image.get('tag', yaml.safe_load(_chart())['appVersion'])}"
    issuer = values.get("certificates", {}).get("issuer")
    on = {name: values.get(name, {}).get("enabled", False) for name in ("networkPolicy", "serviceMonitor")}
    return {
        "namespace": "elsewhere",
        "image": name,
        "replicas": values.get("replicas", 2),
        "priority_class": values.get("priorityClassName", "system-cluster-critical"),
        "ca_bundle": values.get("certificates", {}).get("caBundle", ""),
        "watch_namespaces": tuple(values.get("watchNamespaces", ())),
        "resources": values.get("resources"),
        "optional": OptionalObjects(
            has_user_roles=values.get("userRoles", {}).get("create", True),
            has_network_policy=on["networkPolicy"],
            has_service_monitor=on["serviceMonitor"],
            has_prometheus_rule=values.get("prometheusRule", {}).get("enabled", False),
            has_grafana_dashboard=values.get("grafanaDashboard", {}).get("enabled", False),
            issuer=Issuer(**issuer) if issuer else None,
        ),
    }


def _chart() -> str:
    return (CHART / "Chart.yaml").read_text()


def helm(folder: Path, *arguments: str, **variables: str) -> str:
    done = run_tool(HELM, *arguments, cwd=folder, **variables)
    assert done.returncode == 0, f"helm {' '.join(arguments)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def rendered(folder: Path, values: JsonObject) -> dict[tuple[str, str, str], JsonObject]:
    path = folder / "values.yaml"
    path.write_text(yaml.safe_dump(values))
    options = ("--namespace", "elsewhere", "--values", str(path), "--set", "crds.keep=false")
    return by_name(yaml_documents(helm(folder, "template", RELEASE, str(CHART), *options)))


def by_name(objects: list[JsonObject]) -> dict[tuple[str, str, str], JsonObject]:
    return {(one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]): one for one in objects}


# --- what it renders -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("values", [{}, EVERYTHING, MANUAL], ids=["default", "everything", "manual"])
def test_the_chart_renders_the_objects_of_grove_manifests(tmp_path: Path, values: JsonObject) -> None:
    found = rendered(tmp_path, values)
    (text,) = [one["data"]["config.yaml"] for one in found.values() if "config.yaml" in one.get("data", {})]
    configuration, warnings = read_configuration(text)
    assert warnings == ()
    installation, _ = plan_installation(configuration_text=text, **wishes(values))
    expected = by_name(list(installation_objects(installation)))
    has_crds = values.get("crds", {}).get("install", True)
    for key in tuple(expected):
        # helm creates the namespace of a release itself.
        if key[0] == "Namespace" or (key[0] == "CustomResourceDefinition" and not has_crds):
            del expected[key]
    assert sorted(found) == sorted(expected)
    assert [key for key in expected if found[key] != expected[key]] == []
    asked = values.get("config", {})
    assert configuration.authorizer.enabled == asked.get("authorizer", {}).get("enabled", False)
    assert installation.is_manual == (values.get("certificates", {}).get("mode", "own") != "own")


def test_the_package_of_a_release_renders_what_the_folder_renders(tmp_path: Path) -> None:
    packed = str(package_chart(CHART, tmp_path))
    assert helm(tmp_path, "template", RELEASE, packed) == helm(tmp_path, "template", RELEASE, str(CHART))


def test_helm_lint_finds_nothing(tmp_path: Path) -> None:
    said = helm(tmp_path, "lint", "--strict", str(CHART))
    assert "0 chart(s) failed" in said
    assert "WARNING" not in said


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("config.leaderElection.enabled=false", "2 replicas need config.leaderElection.enabled: true"),
        ("config.server.metrics.port=9443", "set three different ports"),
        ("certificates.caBundle=Q0E=", "certificates.caBundle is only for your own certificates"),
        ("certificates.mode=cert-manager", "needs certificates.issuer.name"),
        ("replica=3", "additional properties 'replica' not allowed"),
    ],
)
def test_values_that_contradict_each_other_are_rejected(tmp_path: Path, setting: str, words: str) -> None:
    done = run_tool(HELM, "template", RELEASE, str(CHART), "--set", setting, cwd=tmp_path)
    assert done.returncode != 0
    assert words in done.stderr


# --- its life on a cluster -------------------------------------------------------------------------------------------


class Chart(msgspec.Struct, frozen=True):
    """A packaged chart whose webhooks lead to a process of this machine: there is no network of pods here."""

    path: Path
    version: str


def package(folder: Path, version: str, port: int, mark: str) -> Chart:
    """`mark` stands in the description of a CRD, to tell whose definition the server has."""
    source = folder / f"source-{version}" / "grove-operator"
    shutil.copytree(CHART, source)
    webhooks = source / "templates" / "webhooks.yaml"
    webhooks.write_text(webhooks.read_text().replace("port: 443", f"port: {port}"))
    service = source / "templates" / "service.yaml"
    head, _, _ = service.read_text().partition("spec:")
    service.write_text(head + "spec: {type: ExternalName, externalName: localhost}\n")
    gangs = source / "files" / "crds" / "scheduler.grove.io_podgangs.yaml"
    text = gangs.read_text()
    assert "metadata: {name" in text
    gangs.write_text(text.replace("metadata: {name", f"metadata: {{annotations: {{mark: {mark}}}, name", 1))
    helm(folder, "package", str(source), "--version", version, "--destination", str(folder))
    return Chart(folder / f"grove-operator-{version}.tgz", version)


class Life:
    """A release on a plane, and the process that stands for its pods."""

    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        self.port = free_port()
        self.one = package(plane.folder, "1.0.0", self.port, "one")
        self.two = package(plane.folder, "1.1.0", self.port, "two")

    def helm(self, *arguments: str) -> str:
        return helm(self.plane.folder, *arguments, "--namespace", NAMESPACE, KUBECONFIG=str(self.plane.kubeconfig))

    def json(self, *arguments: str) -> JsonObject:
        return self.plane.user("admin").json(*arguments)

    def mark(self) -> str:
        annotations = self.json("get", "crd", "podgangs.scheduler.grove.io")["metadata"]["annotations"]
        return str(annotations["mark"])

    def pods(self) -> dict[str, str]:
        return {
            one["metadata"]["name"]: one["metadata"]["uid"]
            for one in self.json("get", "pods", "-n", "default")["items"]
            if "deletionTimestamp" not in one["metadata"]
        }

    @contextmanager
    def operator(self, name: str) -> Iterator[Operator]:
        """The command, configuration and account of the Deployment, in a process; its ports are free ones."""
        spec = self.json("get", "deployment", "grove-operator", "-n", NAMESPACE)["spec"]["template"]["spec"]
        (container,) = spec["containers"]
        config_map = spec["volumes"][0]["configMap"]["name"]
        text = self.json("get", "configmap", config_map, "-n", NAMESPACE)["data"]["config.yaml"]
        server = {**FREE_PORTS, "webhooks": {"bindAddress": LOOPBACK, "port": self.port}}
        config = self.plane.folder / f"{name}.yaml"
        config.write_text(yaml.safe_dump({**yaml.safe_load(text), "server": server}))
        mount = self.plane.folder / f"{name}-account"
        mount.mkdir()
        token = self.plane.kubectl("create", "token", spec["serviceAccountName"], "-n", NAMESPACE).strip()
        for file, content in (("token", token), ("namespace", NAMESPACE), ("ca.crt", self.plane.ca.decode())):
            (mount / file).write_text(content)
        arguments = [f"--config={config}" if one.startswith("--config=") else one for one in container["args"]]
        address = self.plane.url.removeprefix("https://").split(":")
        environment = {
            "KUBERNETES_SERVICE_HOST": address[0],
            "KUBERNETES_SERVICE_PORT": address[1],
            "GROVE_OPERATOR_SERVICE_ACCOUNT_NAME": ACCOUNT,
        }
        command = ("tests.e2e.in_pod", str(mount), *arguments)
        with Operator(command, self.plane.folder / f"{name}.log", environment) as operator:
            yield operator.await_ready()


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Life]:
    with running_plane(tmp_path_factory.mktemp("helm")) as plane, running_nodes(plane.kubeconfig, 8):
        plane.kubectl("create", "namespace", NAMESPACE)
        yield Life(plane)


def until(holds: Any) -> None:
    assert any(holds() for _ in attempts())


# Kinds that the control plane itself writes all the time, or that only tell what happened.
RESTLESS = ("events", "leases.coordination.k8s.io", "endpoints", "componentstatuses", "nodes")


def every_object(life: Life) -> set[str]:
    kinds = life.plane.kubectl("api-resources", "--verbs=list", "-o", "name").split()
    wanted = ",".join(kind for kind in kinds if not kind.startswith(RESTLESS))
    found = life.plane.kubectl("get", wanted, "--all-namespaces", "--ignore-not-found", "-o", "name")
    return set(found.split())


def test_install_upgrade_rollback_and_uninstall_with_a_running_set(life: Life) -> None:
    before = every_object(life)
    life.helm("install", RELEASE, str(life.one.path), "--set", "crds.keep=false", "--set", "image.tag=one")
    await_our_kinds(life.plane)
    with life.operator("first") as operator:
        life.plane.kubectl("apply", "-f", str(ROOT / "examples" / "quickstart.yaml"))
        life.plane.kubectl("wait", "--for=condition=Available", "pcs/chat", "--timeout=180s")
        running = life.pods()
        assert len(running) == 10
        scraped = scrape(operator)
    assert scraped["grove_leader"] == 1
    assert scraped['grove_webhook_requests_total{result="allowed",webhook="validate-podcliqueset"}'] >= 1
    assert scraped["grove_webhook_certificate_expiry_timestamp_seconds"] > 7 * 86400
    assert life.mark() == "one"

    life.helm("upgrade", RELEASE, str(life.two.path), "--reuse-values", "--set", "image.tag=two,replicas=3")
    assert life.mark() == "two"
    deployment = life.json("get", "deployment", "grove-operator", "-n", NAMESPACE)["spec"]
    assert (deployment["replicas"], deployment["template"]["spec"]["containers"][0]["image"]) == (
        3, "grove-operator:two",
    )  # fmt: skip
    with life.operator("second"):
        life.plane.kubectl("scale", "pcsg/chat-0-decode", "--replicas=3")
        until(lambda: len(life.pods()) > len(running))
        assert running.items() <= life.pods().items()

    life.helm("rollback", RELEASE, "1")
    assert life.mark() == "one"
    assert life.json("get", "deployment", "grove-operator", "-n", NAMESPACE)["spec"]["replicas"] == 2
    with life.operator("third"):
        assert running.items() <= life.pods().items()
        life.plane.kubectl("delete", "pcs", "chat", "--timeout=120s")
        until(lambda: not life.pods())

    life.helm("uninstall", RELEASE)
    # The operator itself created the Secret of its certificate and its Lease; docs say how to delete them.
    life.plane.kubectl("delete", "secret", "grove-webhook-server-cert", "-n", NAMESPACE)
    until(lambda: every_object(life) <= before)
    assert every_object(life) == before


def scrape(operator: Operator) -> dict[str, float]:
    """The series of the operator's metrics page, by name and labels."""
    (url, *_) = re.findall(r'"metrics":"([^"]+)"', operator.words)
    with urllib.request.urlopen(f"{url}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[:1] != "#")}


def test_an_operator_for_one_namespace_needs_its_roles_only(life: Life) -> None:
    life.plane.kubectl("create", "namespace", "team")
    life.helm("install", RELEASE, str(life.one.path), "--set", "crds.keep=false", "--set", "watchNamespaces={team}")
    await_our_kinds(life.plane)
    example = str(ROOT / "examples" / "quickstart.yaml")
    with life.operator("scoped") as operator:
        life.plane.kubectl("apply", "-n", "default", "-f", example)
        life.plane.kubectl("apply", "-n", "team", "-f", example)
        life.plane.kubectl("wait", "-n", "team", "--for=condition=Available", "pcs/chat", "--timeout=120s")
        assert life.pods() == {}
        assert 'grove_sets{namespace="team",phase="Running"}' in scrape(operator)
        life.plane.kubectl("delete", "pcs", "chat", "-n", "default", "--timeout=60s")
        life.plane.kubectl("delete", "pcs", "chat", "-n", "team", "--timeout=120s")
        assert '"code":403' not in operator.words
    life.helm("uninstall", RELEASE)
    until(lambda: life.plane.user("admin").attempt("get", "crd", "podgangs.scheduler.grove.io").code != 0)


def test_uninstall_keeps_the_definitions_and_a_new_release_takes_them_over(life: Life) -> None:
    life.helm("install", RELEASE, str(life.one.path))
    await_our_kinds(life.plane)
    gang = {
        "apiVersion": "scheduler.grove.io/v1alpha1", "kind": "PodGang",
        "metadata": {"name": "kept", "namespace": "default"}, "spec": {"podgroups": []},
    }  # fmt: skip
    life.plane.kubectl("create", "-f", "-", stdin=msgspec.json.encode(gang).decode())
    life.helm("uninstall", RELEASE)
    assert life.json("get", "podgang", "kept", "-n", "default")["metadata"]["name"] == "kept"
    life.helm("install", RELEASE, str(life.two.path))
    assert life.mark() == "two"
    assert life.json("get", "podgang", "kept", "-n", "default")["metadata"]["name"] == "kept"

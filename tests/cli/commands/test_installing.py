"""`grove manifests` and `grove webhook-certs`, as people pipe them into kubectl."""

import base64
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from grove.installation.install_options import DEFAULT_CONFIGURATION, plan_installation
from grove.installation.manifests import installation_objects
from tests.cli.console import grove, yaml_documents

MANUAL = DEFAULT_CONFIGURATION.replace("port: 9443", "port: 9443\n    certProvisionMode: manual")


def test_manifests_are_the_objects_of_an_installation(tmp_path: Path) -> None:
    installation, _ = plan_installation(image="i:1", namespace="here", replicas=3, priority_class="")
    expected = list(installation_objects(installation))
    options = ("--image", "i:1", "--namespace", "here", "--replicas", "3", "--priority-class", "")
    said = grove(tmp_path, "manifests", *options)
    assert (said.code, said.err, yaml_documents(said.out) == expected) == (0, "", True)
    assert grove(tmp_path, "manifests", *options, "-o", "json").json()["items"] == expected


def test_the_first_line_says_how_to_apply_them(tmp_path: Path) -> None:
    """On the client's side `kubectl apply` would put every definition a second time into an annotation."""
    said = grove(tmp_path, "manifests")
    assert "kubectl apply --server-side -f" in said.out.splitlines()[0]
    assert "image: grove-operator:" in said.out


def test_a_configuration_of_ones_own_is_installed_word_for_word(tmp_path: Path) -> None:
    text = "# ours\n" + DEFAULT_CONFIGURATION + "logLevl: debug\n"
    (tmp_path / "config.yaml").write_text(text)
    said = grove(tmp_path, "manifests", "--config", "config.yaml")
    (config,) = [one for one in yaml_documents(said.out) if one["kind"] == "ConfigMap"]
    assert config["data"] == {"config.yaml": text}
    assert said.err == "grove: warning: config.yaml: logLevl: unknown key, ignored; did you mean logLevel?\n"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--config", "absent"], 1, "grove: absent: cannot be read"),
        (["--replicas", "0"], 2, "grove: Invalid value for '--replicas'"),
        (["--namespace", "No Name"], 2, "grove: --namespace No Name: is not a valid namespace"),
        (["--ca-bundle", "ca.crt"], 1, "grove: a CA bundle is only for your own certificates"),
        (["--ca-bundle", "empty"], 1, "grove: empty: has no PEM certificate"),
        (["--config", "empty"], 2, "grove: empty: is not an object; begin it with apiVersion"),
        (["--config", "single.yaml"], 1, "grove: 2 replicas need leaderElection.enabled: true"),
    ],
)
def test_what_could_not_work_is_refused_in_one_line(
    tmp_path: Path, arguments: list[str], code: int, words: str
) -> None:  # fmt: skip
    (tmp_path / "ca.crt").write_text("x")
    (tmp_path / "empty").write_text("")
    (tmp_path / "single.yaml").write_text(DEFAULT_CONFIGURATION.replace("true", "false"))
    said = grove(tmp_path, "manifests", *arguments)
    assert (said.code, said.out, said.err.count("\n")) == (code, "", 1)
    assert said.err.startswith(words)


def test_certificates_and_manifests_of_a_manual_installation_fit_together(tmp_path: Path) -> None:
    (secret,) = yaml_documents(grove(tmp_path, "webhook-certs", "--namespace", "here", "--secret", "s").out)
    assert (secret["metadata"]["name"], secret["metadata"]["namespace"]) == ("s", "here")
    data = {key: base64.b64decode(value) for key, value in secret["data"].items()}
    assert sorted(data) == ["ca.crt", "tls.crt", "tls.key"]
    authority, resource_info = (
        x509.load_pem_x509_certificate(data["ca.crt"]),
        x509.load_pem_x509_certificate(data["tls.crt"]),
    )
    resource_info.verify_directly_issued_by(authority)
    assert load_pem_private_key(data["tls.key"], None).public_key() == resource_info.public_key()
    names = resource_info.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "grove-operator.here.svc" in names.get_values_for_type(x509.DNSName)

    (tmp_path / "ca.crt").write_bytes(data["ca.crt"])
    (tmp_path / "manual.yaml").write_text(MANUAL)
    said = grove(tmp_path, "manifests", "--config", "manual.yaml", "--ca-bundle", "ca.crt", "--namespace", "here")
    webhooks = [webhook for one in yaml_documents(said.out) for webhook in one.get("webhooks", ())]
    assert {webhook["clientConfig"]["caBundle"] for webhook in webhooks} == {secret["data"]["ca.crt"]}


def test_a_secret_that_no_cluster_would_take_is_not_made(tmp_path: Path) -> None:
    said = grove(tmp_path, "webhook-certs", "--secret", "No Name")
    assert (said.code, said.out) == (2, "")
    assert said.err == (
        "grove: --secret No Name: is not a valid name of a Secret; write for example grove-webhook-server-cert\n"
    )


def test_every_call_makes_another_certificate(tmp_path: Path) -> None:
    one, other = (grove(tmp_path, "webhook-certs", "-o", "json").json()["items"][0] for _ in range(2))
    assert one["data"] != other["data"]


def test_a_kustomization_lists_files_with_all_objects(tmp_path: Path) -> None:
    options = ("--network-policy", "--service-monitor", "--prometheus-rule", "--grafana-dashboard", "--no-user-roles")
    scope = ("--watch-namespaces", "a,b", "--requests", "cpu=2")
    printed = yaml_documents(grove(tmp_path, "manifests", *options, *scope).out)
    said = grove(tmp_path, "manifests", *options, *scope, "--kustomize", "base")
    assert (said.code, said.err, said.out.startswith(f"{len(printed)} objects in base.")) == (0, "", True)
    (listed,) = yaml_documents((tmp_path / "base" / "kustomization.yaml").read_text())
    found = [one for name in listed["resources"] for one in yaml_documents((tmp_path / "base" / name).read_text())]
    assert sorted(found, key=str) == sorted(printed, key=str)
    kinds = {one["kind"] for one in found}
    assert {"NetworkPolicy", "ServiceMonitor", "PrometheusRule"} < kinds
    (deployment,) = [one for one in found if one["kind"] == "Deployment"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert "--watch-namespaces=a,b" in container["args"]
    assert container["resources"] == {"requests": {"cpu": "2", "memory": "128Mi"}, "limits": {"memory": "1Gi"}}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--watch-namespaces", "a,B!"], "grove: --watch-namespaces a,B!: 'B!' is not a valid namespace"),
        (["--requests", "cpu"], "grove: --requests cpu: write for example cpu=500m,memory=1Gi"),
        (["--cert-manager-issuer", "x"], "grove: --cert-manager-issuer x: write ClusterIssuer/NAME or Issuer/NAME"),
        (["--cert-manager-issuer", "Issuer/x"], "grove: an issuer of cert-manager is only for certificates that"),
    ],
)
def test_an_option_that_cannot_be_read_is_rejected_in_one_line(
    tmp_path: Path, arguments: list[str], words: str
) -> None:  # fmt: skip
    said = grove(tmp_path, "manifests", *arguments)
    assert (said.code > 0, said.out, said.err.count("\n")) == (True, "", 1)
    assert said.err.startswith(words)

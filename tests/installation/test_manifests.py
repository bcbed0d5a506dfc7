"""What `grove manifests` installs, and why each part is as it is.

`GROVE_UPDATE_GOLDEN=1 pytest tests/installation/test_manifests.py` rewrites the golden files.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grove.api import labels
from grove.api.types.meta import JsonObject
from grove.api.types.operatorconfiguration import ConfigurationError
from grove.api.values.yaml_text import expanded_yaml
from grove.installation.install_options import DEFAULT_CONFIGURATION, Installation, InstallationError, plan_installation
from grove.installation.manifests import installation_objects
from grove.installation.policy_rule import PolicyRule
from grove.installation.rbac import (
    CERTIFICATE_ROLE,
    CLUSTER_ROLE,
    LEASE_ROLE,
    certificate_rules,
    cluster_rules,
    lease_rules,
)
from grove.installation.user_roles import EDIT_RULES, VIEW_RULES
from tests.markdown import ROOT, fences, tables

GOLDEN = Path(__file__).parent / "golden"
IMAGE = "example/grove-operator:1"
MANUAL = DEFAULT_CONFIGURATION.replace("port: 9443", "port: 9443\n    certProvisionMode: manual")
ALL_SCHEDULERS = DEFAULT_CONFIGURATION + (
    "scheduler:\n  profiles: [{name: kai-scheduler}, {name: volcano}, {name: lpx-scheduler}]\n"
)
AUTHORIZED = DEFAULT_CONFIGURATION + "authorizer:\n  enabled: true\n"


def installation(**wishes: Any) -> Installation:
    planned, warnings = plan_installation(image=IMAGE, **wishes)
    assert warnings == ()
    return planned


def objects(**wishes: Any) -> dict[tuple[str, str], JsonObject]:
    """By kind and name."""
    made = installation_objects(installation(**wishes))
    return {(one["kind"], one["metadata"]["name"]): one for one in made}


def pod_spec(**wishes: Any) -> JsonObject:
    spec: JsonObject = objects(**wishes)["Deployment", "grove-operator"]["spec"]["template"]["spec"]
    return spec


@pytest.mark.parametrize(
    ("name", "wishes"),
    [
        ("default", {}),
        ("manual", {"namespace": "elsewhere", "replicas": 1, "configuration_text": MANUAL, "ca_bundle": "Q0E="}),
    ],
)
def test_the_manifests_are_what_was_reviewed(name: str, wishes: dict[str, Any]) -> None:
    """Without the CRDs, which have files of their own."""
    made = installation_objects(installation(**wishes))
    text = "---\n".join(expanded_yaml(one) for one in made if one["kind"] != "CustomResourceDefinition")
    path = GOLDEN / f"{name}.yaml"
    if os.environ.get("GROVE_UPDATE_GOLDEN"):
        path.write_text(text)
    assert path.read_text() == text


def test_everything_comes_after_what_it_needs_and_webhooks_come_last() -> None:
    kinds = list(dict.fromkeys(kind for kind, _ in objects()))
    assert kinds == [
        "Namespace", "CustomResourceDefinition", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role",
        "RoleBinding", "ConfigMap", "Service", "Deployment", "PodDisruptionBudget",
        "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration",
    ]  # fmt: skip


def test_every_namespaced_object_is_in_the_namespace_that_was_asked_for() -> None:
    found = objects(namespace="here")
    places = {one["metadata"].get("namespace", "") for one in found.values()}
    assert places == {"", "here"}
    assert ("Namespace", "here") in found
    mutating = found["MutatingWebhookConfiguration", "podcliqueset-defaulting-webhook"]
    assert mutating["webhooks"][0]["clientConfig"]["service"]["namespace"] == "here"


def test_the_operator_never_takes_its_own_objects_for_those_of_a_set() -> None:
    """It follows pods and Services by this label."""
    found = objects()
    own = [found["Deployment", "grove-operator"]["spec"]["template"], found["Service", "grove-operator"]]
    assert [labels.MANAGED_BY in one["metadata"]["labels"] for one in own] == [False, False]


def test_the_service_the_budget_and_the_spread_all_mean_the_operators_pods() -> None:
    found = objects()
    deployment = found["Deployment", "grove-operator"]["spec"]
    selectors = [
        deployment["selector"]["matchLabels"],
        found["Service", "grove-operator"]["spec"]["selector"],
        found["PodDisruptionBudget", "grove-operator"]["spec"]["selector"]["matchLabels"],
        *(one["labelSelector"]["matchLabels"] for one in pod_spec()["topologySpreadConstraints"]),
    ]
    assert all(selector == selectors[0] for selector in selectors)
    assert selectors[0].items() <= deployment["template"]["metadata"]["labels"].items()


def test_ports_are_those_of_the_configuration() -> None:
    text = DEFAULT_CONFIGURATION.replace("9443", "7001").replace("9444", "7002").replace("9445", "7003")
    container = pod_spec(configuration_text=text)["containers"][0]
    assert {port["name"]: port["containerPort"] for port in container["ports"]} == {
        "webhooks": 7001, "health": 7002, "metrics": 7003,
    }  # fmt: skip
    assert {container[probe]["httpGet"]["port"] for probe in ("livenessProbe", "readinessProbe")} == {"health"}
    service = objects(configuration_text=text)["Service", "grove-operator"]["spec"]["ports"]
    assert [(port["port"], port["targetPort"]) for port in service] == [(443, "webhooks"), (7003, "metrics")]


def test_another_configuration_is_another_config_map_so_that_pods_follow_it() -> None:
    names = [
        next(name for kind, name in objects(configuration_text=text) if kind == "ConfigMap")
        for text in (DEFAULT_CONFIGURATION, DEFAULT_CONFIGURATION, MANUAL)
    ]
    assert names[0] == names[1] != names[2]
    assert pod_spec()["volumes"][0]["configMap"]["name"] == names[0]


def test_the_pod_passes_the_restricted_standard() -> None:
    spec, container = pod_spec(), pod_spec()["containers"][0]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
    }  # fmt: skip
    namespace = objects()["Namespace", "grove-system"]["metadata"]["labels"]
    assert namespace["pod-security.kubernetes.io/enforce"] == "restricted"


def test_a_priority_class_can_be_left_out() -> None:
    assert pod_spec()["priorityClassName"] == "system-cluster-critical"
    assert "priorityClassName" not in pod_spec(priority_class="")


def test_the_image_runs_as_the_user_that_the_manifests_name() -> None:
    image = (ROOT / "Dockerfile").read_text()
    user = pod_spec()["securityContext"]["runAsUser"]
    assert f"\nUSER {user}:{user}\n" in image
    assert image.endswith('ENTRYPOINT ["grove"]\nCMD ["operator"]\n')


def test_the_image_is_built_of_what_is_sent_to_its_builder() -> None:
    copied = [
        name
        for line in (ROOT / "Dockerfile").read_text().splitlines()
        if line.startswith("COPY ") and "--from" not in line
        for name in line.split()[1:-1]
    ]
    sent = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    assert sorted(copied) == sorted(sent)
    assert [name for name in copied if not (ROOT / name).exists()] == []


# --- certificates ----------------------------------------------------------------------------------------------------


def test_with_certificates_of_our_own_the_bundle_is_left_to_the_operator() -> None:
    assert [config for config in _client_configs(objects()) if "caBundle" in config] == []
    assert [volume["name"] for volume in pod_spec()["volumes"]] == ["config"]


def test_with_certificates_of_somebody_else_they_are_mounted_and_trusted_and_no_right_is_needed() -> None:
    found = objects(configuration_text=MANUAL, ca_bundle="Q0E=")
    assert {config["caBundle"] for config in _client_configs(found)} == {"Q0E="}
    spec = found["Deployment", "grove-operator"]["spec"]["template"]["spec"]
    assert spec["volumes"][1] == {"name": "certificate", "secret": {"secretName": "grove-webhook-server-cert"}}
    assert spec["containers"][0]["volumeMounts"][1]["mountPath"] == "/etc/grove-operator/webhook-certs"
    assert ("Role", CERTIFICATE_ROLE) not in found
    verbs = [rule["verbs"] for rule in found["ClusterRole", CLUSTER_ROLE]["rules"] if _is_about_webhooks(rule)]
    assert verbs == [["list", "watch"]]


def _client_configs(found: dict[tuple[str, str], JsonObject]) -> Iterator[JsonObject]:
    for one in found.values():
        for webhook in one.get("webhooks", ()):
            yield webhook["clientConfig"]


def _is_about_webhooks(rule: JsonObject) -> bool:
    return bool(rule["apiGroups"] == ["admissionregistration.k8s.io"])


def test_the_authorizer_is_registered_when_the_configuration_switches_it_on() -> None:
    assert ("ValidatingWebhookConfiguration", "authorizer-webhook") not in objects()
    assert ("ValidatingWebhookConfiguration", "authorizer-webhook") in objects(configuration_text=AUTHORIZED)


def test_the_manual_configuration_of_the_document_can_be_installed() -> None:
    page = (ROOT / "docs" / "how-to" / "install.md").read_text()
    (text,) = [fence.text for fence in fences(page) if "kind: OperatorConfiguration" in fence.text]
    assert installation(configuration_text=text).is_manual


# --- leader election -------------------------------------------------------------------------------------------------


def test_the_lease_is_where_the_configuration_says() -> None:
    text = DEFAULT_CONFIGURATION.replace(
        "enabled: true", "enabled: true\n  resourceNamespace: leases\n  resourceName: mine"
    )
    role = objects(configuration_text=text)["Role", LEASE_ROLE]
    assert role["metadata"]["namespace"] == "leases"
    assert role["rules"][0]["resourceNames"] == ["mine"]


def test_one_replica_without_an_election_needs_no_lease() -> None:
    text = DEFAULT_CONFIGURATION.replace("enabled: true", "enabled: false")
    assert ("Role", LEASE_ROLE) not in objects(configuration_text=text, replicas=1)


@pytest.mark.parametrize(
    ("wishes", "words"),
    [
        ({"configuration_text": DEFAULT_CONFIGURATION.replace("true", "false")}, "2 replicas need leaderElection"),
        ({"configuration_text": DEFAULT_CONFIGURATION.replace("9444", "9443")}, "9443, 9443, 9445"),
        ({"configuration_text": DEFAULT_CONFIGURATION.replace("9444", "0")}, "9443, 0, 9445"),
        ({"ca_bundle": "Q0E="}, "certProvisionMode: manual"),
    ],
)
def test_wishes_that_contradict_each_other_are_refused(wishes: dict[str, Any], words: str) -> None:
    with pytest.raises(InstallationError, match=words):
        plan_installation(image=IMAGE, **wishes)


def test_a_wrong_configuration_is_refused_before_it_is_installed() -> None:
    with pytest.raises(ConfigurationError, match="logLevel"):
        plan_installation(image=IMAGE, configuration_text=DEFAULT_CONFIGURATION + "logLevel: loud\n")


# --- rights ----------------------------------------------------------------------------------------------------------


def test_no_right_is_wider_than_it_must_be() -> None:
    rules = all_rules()
    words = [word for rule in rules for word in (rule.group, *rule.resources, *rule.verbs)]
    assert [word for word in words if "*" in word] == []
    loose = [rule for rule in rules if "secrets" in rule.resources and not rule.names]
    assert [rule.verbs for rule in loose] == [("create",)]
    # Without bind and escalate, a Role that the operator creates can allow only what the operator itself may do.
    forbidden = {"bind", "escalate", "clusterroles", "serviceaccounts"}
    assert [word for word in words if word in forbidden] == []


def test_no_verb_is_granted_twice() -> None:
    granted = [
        (rule.group, resource, rule.names, verb) for rule in all_rules() for resource in rule.resources
        for verb in rule.verbs
    ]  # fmt: skip
    assert len(granted) == len(frozenset(granted))


def test_the_document_says_what_each_right_is_for() -> None:
    page = (ROOT / "docs" / "how-to" / "install.md").read_text()
    documented = {row for table in tables(page) for row in table if len(row) == 3}
    assert [row for row in map(_row, all_rules()) if row not in documented] == []


def test_rights_on_a_schedulers_objects_come_with_its_profile() -> None:
    assert [rule for rule in cluster_rules(installation()) if rule.group in _FOREIGN] == []
    only_volcano = DEFAULT_CONFIGURATION + "scheduler:\n  profiles: [{name: volcano}]\n"
    groups = {rule.group for rule in cluster_rules(installation(configuration_text=only_volcano))}
    assert groups & _FOREIGN == {"scheduling.volcano.sh"}
    groups = {rule.group for rule in cluster_rules(installation(configuration_text=ALL_SCHEDULERS))}
    assert groups & _FOREIGN == _FOREIGN


_FOREIGN = {"scheduling.run.ai", "kai.scheduler", "scheduling.volcano.sh"}


def all_rules() -> tuple[PolicyRule, ...]:
    made = installation(configuration_text=ALL_SCHEDULERS)
    return (*cluster_rules(made), *lease_rules(made), *certificate_rules(made))


def test_the_roles_of_users_aggregate_into_those_of_kubernetes() -> None:
    found = objects()
    prefix = "rbac.authorization.k8s.io/aggregate-to-"
    aggregates = {
        name: sorted(key.removeprefix(prefix) for key in one["metadata"]["labels"] if key.startswith(prefix))
        for (kind, name), one in found.items()
        if kind == "ClusterRole"
    }
    assert aggregates == {CLUSTER_ROLE: [], "grove:view": ["admin", "edit", "view"], "grove:edit": ["admin", "edit"]}
    page = (ROOT / "docs" / "how-to" / "install.md").read_text()
    documented = {row for table in tables(page) for row in table if len(row) == 3}
    assert [row for row in map(_row, (*VIEW_RULES, *EDIT_RULES)) if row not in documented] == []


def _row(rule: PolicyRule) -> tuple[str, str, str]:
    resources = ", ".join(f"`{name}`" for name in rule.resources)
    limited = f" (only `{'`, `'.join(rule.names)}`)" if rule.names else ""
    return resources + limited, ", ".join(rule.verbs), rule.why

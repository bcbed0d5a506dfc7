"""Every verb of kubectl is accounted for; and those that hardly need a cluster, on both clusters all the same."""

import importlib
import re
from pathlib import Path

import pytest
import yaml

from tests.e2e import test_kubectl_verbs_making, test_kubectl_verbs_reading, test_kubectl_verbs_running
from tests.e2e.kubectl_verbs import Both, Clusters, comparable
from tests.e2e.kubectl_verbs_differences import DIFFERENCES

pytestmark = pytest.mark.kube

_HERE = "tests.e2e.test_kubectl_verbs"
_MAKING, _READING, _RUNNING = f"{_HERE}_making", f"{_HERE}_reading", f"{_HERE}_running"

# Which test runs it, by group of commands: what `kubectl help` and `kubectl GROUP --help` list must all be here.
VERBS: dict[str, dict[str, str]] = {
    "": {
        "create": f"{_MAKING}::test_create_takes_manifests",
        "expose": f"{_MAKING}::test_a_pod_is_run_and_exposed",
        "run": f"{_MAKING}::test_a_pod_is_run_and_exposed",
        "set": f"{_MAKING}::test_set_changes_what_may_change",
        "explain": f"{_READING}::test_explain_knows_our_kinds",
        "get": f"{_READING}::test_get_writes_in_every_form",
        "edit": f"{_MAKING}::test_edit_stores_what_the_editor_leaves",
        "delete": f"{_RUNNING}::test_delete_takes_what_it_is_told",
        "rollout": f"{_RUNNING}::test_rollout_does_not_know_sets",
        "scale": f"{_RUNNING}::test_scale_changes_replicas_within_the_rules",
        "autoscale": f"{_RUNNING}::test_autoscale_makes_an_autoscaler",
        "certificate": f"{_READING}::test_no_certificates_are_given",
        "cluster-info": f"{_READING}::test_the_cluster_tells_of_itself",
        "top": f"{_READING}::test_only_the_embedded_cluster_measures",
        "cordon": f"{_RUNNING}::test_nodes_are_cordoned",
        "uncordon": f"{_RUNNING}::test_nodes_are_cordoned",
        "drain": f"{_RUNNING}::test_a_node_is_drained",
        "taint": f"{_RUNNING}::test_nodes_are_tainted",
        "describe": f"{_READING}::test_describe_shows_built_in_kinds",
        "logs": f"{_READING}::test_logs_are_asked_for",
        "attach": f"{_RUNNING}::test_who_wants_into_a_pod_is_told_that_nothing_is_there",
        "exec": f"{_RUNNING}::test_who_wants_into_a_pod_is_told_that_nothing_is_there",
        "port-forward": f"{_RUNNING}::test_nobody_forwards_to_a_pod_in_which_nothing_runs",
        "proxy": f"{_RUNNING}::test_proxy_passes_requests_on",
        "cp": f"{_RUNNING}::test_who_wants_into_a_pod_is_told_that_nothing_is_there",
        "auth": f"{_READING}::test_rights_are_told",
        "debug": f"{_RUNNING}::test_debug_adds_no_container_to_a_pod",
        "events": f"{_READING}::test_events_are_told",
        "diff": f"{_MAKING}::test_diff_shows_what_apply_would_do",
        "apply": f"{_MAKING}::test_apply_creates_changes_and_leaves_alone",
        "patch": f"{_MAKING}::test_patches_of_every_type_change_an_object",
        "replace": f"{_MAKING}::test_replace_needs_what_it_replaces",
        "wait": f"{_READING}::test_wait_sees_what_comes",
        "kustomize": f"{_MAKING}::test_what_kustomize_makes_is_applied",
        "label": f"{_MAKING}::test_marks_come_and_go",
        "annotate": f"{_MAKING}::test_marks_come_and_go",
        "completion": f"{_HERE}::test_local_commands_say_the_same",
        "api-resources": f"{_READING}::test_api_resources_are_told",
        "api-versions": f"{_READING}::test_api_versions_are_told",
        "config": f"{_HERE}::test_config_changes_its_file",
        "kuberc": f"{_HERE}::test_preferences_are_kept",
        "plugin": f"{_HERE}::test_local_commands_say_the_same",
        "version": f"{_READING}::test_versions_are_told",
    },
    "create": {
        **dict.fromkeys(
            (
                "clusterrole", "clusterrolebinding", "configmap", "namespace", "poddisruptionbudget", "priorityclass",
                "quota", "role", "rolebinding", "secret", "service", "serviceaccount",
            ),
            f"{_MAKING}::test_what_a_generator_makes_is_the_same_object",
        ),
        **dict.fromkeys(
            ("cronjob", "deployment", "ingress", "job"), f"{_MAKING}::test_create_refuses_politely_what_is_not_served"
        ),
        "token": f"{_MAKING}::test_create_makes_tokens",
    },
    "set": {
        **dict.fromkeys(("image", "selector", "subject"), f"{_MAKING}::test_set_changes_what_may_change"),
        **dict.fromkeys(("env", "resources", "serviceaccount"), f"{_MAKING}::test_set_is_refused_what_a_pod_keeps"),
    },
    "rollout": dict.fromkeys(
        ("history", "pause", "restart", "resume", "status", "undo"), f"{_RUNNING}::test_rollout_does_not_know_sets"
    ),
    "apply": dict.fromkeys(
        ("edit-last-applied", "set-last-applied", "view-last-applied"),
        f"{_MAKING}::test_the_last_applied_is_viewed_set_and_edited",
    ),
    "auth": {
        "can-i": f"{_READING}::test_rights_are_told",
        "reconcile": f"{_READING}::test_rights_are_reconciled",
        "whoami": f"{_READING}::test_rights_are_told",
    },
    "certificate": dict.fromkeys(("approve", "deny"), f"{_READING}::test_no_certificates_are_given"),
    "cluster-info": {"dump": f"{_READING}::test_the_cluster_tells_of_itself"},
    "top": dict.fromkeys(("node", "pod"), f"{_READING}::test_only_the_embedded_cluster_measures"),
    "config": dict.fromkeys(
        (
            "current-context", "delete-cluster", "delete-context", "delete-user", "get-clusters", "get-contexts",
            "get-users", "rename-context", "set", "set-cluster", "set-context", "set-credentials", "unset",
            "use-context", "view",
        ),
        f"{_HERE}::test_config_changes_its_file",
    ),
    "kuberc": dict.fromkeys(("set", "view"), f"{_HERE}::test_preferences_are_kept"),
    "plugin": {"list": f"{_HERE}::test_local_commands_say_the_same"},
}  # fmt: skip


@pytest.mark.parametrize("group", VERBS)
def test_every_verb_is_accounted_for(clusters: Clusters, group: str) -> None:
    text = clusters.embedded(*filter(None, (group, "--help"))).out
    # Commands stand in columns under headings; options and examples do not begin with a lower-case word there.
    sections = re.findall(r"^[A-Z][\w ()]*Commands[\w ()]*:\n((?:  \S.*\n)+)", text, re.MULTILINE)
    listed = {line.split()[0] for section in sections for line in section.splitlines()}
    assert listed == set(VERBS[group])


def test_every_verb_has_its_test() -> None:
    tests = {test for group in VERBS.values() for test in group.values()}
    for test in sorted(tests):
        module, _, name = test.partition("::")
        assert callable(getattr(importlib.import_module(module), name))


def test_every_difference_is_met_by_a_test() -> None:
    modules = (test_kubectl_verbs_making, test_kubectl_verbs_reading, test_kubectl_verbs_running)
    text = "".join(Path(str(module.__file__)).read_text() for module in modules)
    # Some names are made of the command.
    made = ("no-exec", "no-attach", "no-cp", "ours-label-first", "ours-annotate-first")
    assert [name for name in DIFFERENCES if f'"{name}"' not in text and name not in made] == []


LOCAL = [
    "completion bash", "completion zsh", "completion fish", "completion powershell", "options", "plugin list",
    "help get", "explain --help", "version --client -o yaml",
]  # fmt: skip


@pytest.mark.parametrize("command", LOCAL)
def test_local_commands_say_the_same(both: Both, command: str) -> None:
    code = 1 if command == "plugin list" else 0
    both(*command.split(), code=code)


def test_config_changes_its_file(both: Both, tmp_path: Path) -> None:
    config = f"--kubeconfig={tmp_path / 'config'}"
    for command in (
        "set-cluster one --server=https://example:1", "set-credentials alice --token=secret",
        "set-context here --cluster=one --user=alice --namespace=x", "use-context here",
        "set contexts.here.namespace y", "unset contexts.here.namespace", "rename-context here there",
    ):  # fmt: skip
        one = both.clusters.embedded("config", *command.split(), config)
        assert one.code == 0
    for command in ("view", "current-context", "get-clusters", "get-contexts", "get-users"):
        both("config", command, config)
    for command in ("delete-context there", "delete-user alice", "delete-cluster one"):
        both.clusters.embedded("config", *command.split(), config)
    assert yaml.safe_load((tmp_path / "config").read_text())["contexts"] in (None, [])


def test_preferences_are_kept(both: Both) -> None:
    both("kuberc", "view")
    both("kuberc", "set", "--section=aliases", "--name=getn", "--command=get", "--prependarg=nodes")
    both("kuberc", "view")
    both("getn", "-o", "name")


def test_who_wrote_in_which_second_does_not_count() -> None:
    us = "  - fieldsV1:\n      f:data:\n        f:x: {}\n    manager: us\n"
    them = "  - fieldsV1:\n      f:data:\n        f:z: {}\n    manager: them\n"
    one, other = (f"metadata:\n  managedFields:\n{owners}  name: a\n" for owners in (us + them, them + us))
    assert comparable(one) == comparable(other) == one


def test_a_drawn_name_that_looks_like_an_age_is_a_name() -> None:
    assert comparable("demo-0-web-24d5h  3h24m\n") == comparable("demo-0-web-x4d5h  5s\n") == "demo-0-web-SUFFIX  AGE\n"
    assert comparable("demo.5555555555555555") == comparable("demo.185f3a1b2c4d5e6f") == "demo.EVENT"

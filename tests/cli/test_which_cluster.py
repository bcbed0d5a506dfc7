"""The cluster that a command talks to: found, named, and asked for when it is not the one that was expected."""

import os
import pty
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.cli.console import SECONDS, CommandResult, Up, environment, grove
from tests.cli.forked import Forked, Piped

GONE = "https://127.0.0.1:1"
MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\n"


@pytest.fixture(scope="module")
def production(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """A cluster that tests know by a kubeconfig of another name. It has the namespace `team`."""
    with Up(tmp_path_factory.mktemp("production"), "--no-operator") as up:
        namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: team}\n"
        assert up.grove("apply", "-f", "-", given=namespace).code == 0
        config = yaml.safe_load((up.folder / ".grove" / "kubeconfig").read_text())
        config["contexts"][0]["name"] = config["current-context"] = "prod"
        (up.folder / "config").write_text(yaml.safe_dump(config))
        yield up


@pytest.fixture
def folder(tmp_path: Path, production: Up) -> Path:
    """A directory whose local cluster is gone. Kubectl's default is the production cluster."""
    local = {
        "current-context": "grove",
        "contexts": [{"name": "grove", "context": {"cluster": "grove"}}],
        "clusters": [{"name": "grove", "cluster": {"server": GONE}}],
    }
    for path, text in ((".grove/kubeconfig", yaml.safe_dump(local)), (".kube/config", config_of(production))):
        (tmp_path / path).parent.mkdir()
        (tmp_path / path).write_text(text)
    return tmp_path


def config_of(production: Up) -> str:
    return (production.folder / "config").read_text()


def server_of(production: Up) -> str:
    server: str = yaml.safe_load(config_of(production))["clusters"][0]["cluster"]["server"]
    return server


def maps_of(production: Up) -> list[str]:
    return [one["metadata"]["name"] for one in production.read("/api/v1/namespaces/default/configmaps")["items"]]


def test_every_write_says_where(production: Up) -> None:
    said = production.grove("apply", "-f", "-", given=MAP % "here")
    assert said == CommandResult(
        code=0,
        out="configmap/here created\n",
        err=f"Cluster: {server_of(production)} (context grove of .grove/kubeconfig)\n",
    )
    config = "(context prod of config)"
    again = production.grove("apply", "-f", "-", "--kubeconfig", "config", "-o", "name", given=MAP % "here")
    assert (again.out, again.err) == ("configmap/here\n", f"Cluster: {server_of(production)} {config}\n")
    assert production.grove("status").err == ""
    dry = production.grove("delete", "pod/nothing")
    assert "Cluster:" not in dry.err


def test_without_a_terminal_another_cluster_must_be_confirmed(folder: Path, production: Up) -> None:
    said = grove(folder, "apply", "-f", "-", given=MAP % "unasked")
    assert (said.code, said.out) == (1, "")
    assert said.err == (
        f"grove: the local cluster {GONE} is gone, and this would apply configmap/unasked in {server_of(production)} "
        f"(context prod of {folder}/.kube/config); start it again with `grove up`, name a cluster with --kubeconfig "
        "or --context, or confirm with --yes\n"
    )
    assert grove(folder, "delete", "pcs/x").err.startswith(f"grove: the local cluster {GONE} is gone, and this would")
    scaled = grove(folder, "scale", "pcs/x", "--replicas", "0")
    assert "this would scale podcliqueset/x to 0 in" in scaled.err
    assert "unasked" not in maps_of(production)
    for number, choice in enumerate((["--yes"], ["--context", "prod"], ["--kubeconfig", ".kube/config"])):
        chosen = grove(folder, "apply", "-f", "-", *choice, given=MAP % f"asked-{number}")
        assert (chosen.code, chosen.out) == (0, f"configmap/asked-{number} created\n")


def test_a_reader_is_told_that_the_local_cluster_is_gone(folder: Path, production: Up) -> None:
    said = grove(folder, "status")
    assert (said.code, said.out) == (0, "no PodCliqueSets in namespace default\n")
    assert said.err == (
        f"grove: the local cluster {GONE} is gone, so this is {server_of(production)} "
        f"(context prod of {folder}/.kube/config)\n"
    )


def test_an_operator_is_never_started_on_another_cluster_by_accident(folder: Path) -> None:
    said = grove(folder, "operator")
    assert (said.code, said.out) == (1, "")
    assert said.err.startswith(f"grove: the local cluster {GONE} is gone, and the operator would manage https://")


def test_an_explicit_kubeconfig_comes_before_the_local_cluster(folder: Path, production: Up) -> None:
    (production.folder / "other").write_text(config_of(production).replace("prod", "named"))
    env = {"KUBECONFIG": str(production.folder / "other")}
    said = grove(folder, "apply", "-f", "-", given=MAP % "named", env=env)
    assert (said.code, "(context named of " in said.err) == (0, True)
    # A local cluster that answers makes no difference.
    said = grove(production.folder, "apply", "-f", "-", given=MAP % "named", env=env)
    assert (said.code, "(context named of " in said.err) == (0, True)


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 1)])
def test_on_a_terminal_the_user_is_asked(folder: Path, production: Up, answer: str, code: int) -> None:
    (folder / "map.yaml").write_text(MAP % f"answer-{answer}")
    leader, follower = pty.openpty()
    process = Forked(folder, ("apply", "-f", "map.yaml"), environment(folder), files=(follower, follower, follower))
    os.close(follower)
    seen = b""
    while b"[y/N] " not in seen:
        seen += os.read(leader, 65536)
    os.write(leader, f"{answer}\n".encode())
    assert process.wait(timeout=SECONDS) == code
    os.close(leader)
    question = seen.decode().replace("\r\n", "\n")
    assert question.startswith(f"The local cluster {GONE} is gone.\nApply configmap/answer-{answer} in https://")
    assert (f"answer-{answer}" in maps_of(production)) is (code == 0)


def test_a_cluster_that_ended_is_remembered_and_a_new_one_warns_of_kubeconfig(tmp_path: Path, production: Up) -> None:
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").write_text(config_of(production))
    process = Piped(tmp_path, ("up", "--no-operator", "--nodes", "1"), environment(tmp_path, {"KUBECONFIG": "/other"}))
    lines = [process.stdout.readline() for _ in range(4)]
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=SECONDS)
    flag = " --kubeconfig .grove/kubeconfig"
    assert lines[2] == f"  grove status{flag}      grove why{flag} pcs/NAME      grove apply{flag} -f FILE\n"
    assert err.splitlines() == [
        "Warning: KUBECONFIG=/other is set, so grove and kubectl use that cluster. To use this one:",
        f"  export KUBECONFIG={tmp_path}/.grove/kubeconfig",
    ]
    assert not (tmp_path / ".grove").exists()
    said = grove(tmp_path, "delete", "pcs/precious")
    assert (said.code, "is gone, and this would delete podcliqueset/precious in " in said.err) == (1, True)
    # Who confirms it once knows it.
    assert "Cluster:" in grove(tmp_path, "apply", "--yes", "-f", "-", given=MAP % "known").err
    assert grove(tmp_path, "delete", "pcs/precious").err.startswith("grove: no podcliqueset/precious in namespace")


def test_hints_can_be_pasted(production: Up, tmp_path: Path) -> None:
    config = str(production.folder / "config")
    said = grove(tmp_path, "status", "nothing", "-n", "team", "--kubeconfig", config, "--context", "prod")
    assert said.err.endswith(f"; `grove status -A --kubeconfig {config} --context prod` lists all sets\n")
    chat = "apiVersion: grove.io/v1alpha1\nkind: PodCliqueSet\nmetadata: {name: chat%s}\n" + SPEC
    for place in ("", ", namespace: team"):
        assert production.grove("apply", "-f", "-", given=chat % place).code == 0
    shown = grove(tmp_path, "status", "chat", "-n", "team", "--kubeconfig", config).out
    assert f"grove why pcs/chat -n team --kubeconfig {config}\n" in shown
    timed = grove(tmp_path, "rollout", "status", "chat", "-n", "team", "--kubeconfig", config, "--timeout", "10ms")
    assert timed.err.endswith(f"`grove why pcs/chat -n team --kubeconfig {config}` explains more\n")


SPEC = """\
spec:
  replicas: 1
  template:
    cliques:
      - name: a
        spec: {replicas: 1, podSpec: {containers: [{name: main, image: none}]}}
"""


def test_sets_of_one_name_in_two_namespaces_are_told_apart(production: Up) -> None:
    both = "---\n".join(
        f"apiVersion: grove.io/v1alpha1\nkind: PodCliqueSet\nmetadata: {{name: twin{place}}}\n{SPEC}"
        for place in ("", ", namespace: team")
    )
    said = production.grove("apply", "-f", "-", given=both)
    assert said.out == "podcliqueset/twin created\npodcliqueset/twin (namespace team) created\n"
    watcher = production.start("status", "-A", "--watch")
    seen: list[str] = []
    while not any("pcs/twin (namespace team) " in line for line in seen):
        seen.append(watcher.stdout.readline())
    watcher.send_signal(signal.SIGINT)
    watcher.communicate(timeout=SECONDS)
    assert any(" pcs/twin Pending" in line for line in seen)
    # In manifests of two namespaces, too.
    gone = production.grove("delete", "-f", "-", "--wait=false", given=both)
    assert gone.out == "podcliqueset/twin deleted\npodcliqueset/twin (namespace team) deleted\n"


@pytest.mark.parametrize("command", ["apply", "plan", "delete"])
def test_a_namespace_that_contradicts_the_manifest_is_an_error(production: Up, command: str) -> None:
    manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m, namespace: other}\n"
    said = production.grove(command, "-n", "team", "-f", "-", given=manifest)
    assert (said.code, said.out, said.err) == (
        1,
        "",
        (
            "grove: standard input, document 1: ConfigMap m is in namespace other, which does not match -n team; "
            "use -n other, or omit -n\n"
        ),
    )

"""`grove up` as a process: what it says, what it leaves behind, and how it ends."""

import re
import signal
import socket
import stat
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import yaml

from tests.cli.console import ROOT, SECONDS, Up, UpScript, grove

QUICKSTART = str(ROOT / "examples" / "quickstart.yaml")
BROKEN_SET = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: fine}
---
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {name: broken}
spec:
  replicas: 1
  template:
    cliques:
      - name: a
        spec: {roleName: r, replicas: 1, minAvailable: 2, podSpec: {containers: [{name: m, image: i}]}}
      - name: a
        spec: {roleName: r2, replicas: 0, podSpec: {containers: [{name: m, image: i}]}}
"""


@pytest.fixture
def hangup(request: pytest.FixtureRequest) -> Iterator[None]:
    """What processes that are started now do when their terminal is closed."""
    before = signal.signal(signal.SIGHUP, request.param)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("hangup")
@pytest.mark.parametrize("hangup", [signal.SIG_DFL], indirect=True)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_it_ends_cleanly_and_leaves_nothing_behind(tmp_path: Path, number: signal.Signals) -> None:
    with UpScript(tmp_path) as up:
        kubeconfig = tmp_path / ".grove" / "kubeconfig"
        assert stat.S_IMODE(kubeconfig.stat().st_mode) == 0o600
        said = up.end(number)
    assert (said.code, said.err) == (0, "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("hangup")
@pytest.mark.parametrize("hangup", [signal.SIG_IGN], indirect=True)
def test_started_with_nohup_it_outlives_its_terminal(tmp_path: Path) -> None:
    with UpScript(tmp_path) as up:
        up.process.send_signal(signal.SIGHUP)
        assert up.grove("status").out == "no PodCliqueSets in namespace default\n"
        assert up.end().code == 0


def test_it_ends_while_others_are_watching(tmp_path: Path) -> None:
    with Up(tmp_path, QUICKSTART) as up:
        up.read_until("podcliqueset/chat created")
        watcher = up.start("status", "--watch")
        assert "pcs/chat" in watcher.stdout.readline()
        assert up.end().code == 0
        watcher.send_signal(signal.SIGINT)
        watcher.communicate(timeout=SECONDS)
        assert watcher.returncode == 130
    assert list(tmp_path.iterdir()) == []


def test_it_says_what_to_type_next_and_tells_changes_in_plain_lines(tmp_path: Path) -> None:
    with Up(tmp_path, QUICKSTART) as up:
        up.read_until("1/1 replicas available, 10/10 pods ready")
        assert any(" pcs/chat Pending -> Running, 1/1 replicas available, " in line for line in up.lines)
        assert up.lines[0].startswith("A cluster with 8 nodes and the Grove operator: https://127.0.0.1:")
        curl = up.lines[3]
        assert up.lines[1:6] == [
            "  kubectl --kubeconfig .grove/kubeconfig get pods",
            "  grove status      grove why pcs/NAME      grove apply -f FILE",
            curl,
            "Ctrl-C ends it.",
            "podcliqueset/chat created",
        ]
        assert re.fullmatch(r"  curl http://127\.0\.0\.1:\d+/metrics", curl)
        with urllib.request.urlopen(curl.split()[1], timeout=SECONDS) as page:
            metrics = page.read().decode()
        assert re.search(r'^grove_api_requests_total\{code="201",resource="pods",verb="create"\} 10\.0$', metrics, re.M)


def test_its_json_begins_with_where_it_is(tmp_path: Path) -> None:
    up = Up(tmp_path, QUICKSTART, "--output", "json", "--kubeconfig", "here")
    first = msgspec.json.decode(up.read_until("url"))
    assert first == {"url": first["url"], "kubeconfig": "here", "metrics": first["metrics"]}
    applied = msgspec.json.decode(up.read_until("created"))
    assert (applied["kind"], applied["name"], applied["action"]) == ("PodCliqueSet", "chat", "created")
    sets = msgspec.json.decode(up.read_until('"availableReplicas":1'))
    assert [node["name"] for node in sets] == ["chat"]
    assert up.end().code == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("a: [", "grove: set.yaml, document 1: not valid YAML: line 1: "),
        ("kind: Pod\n", "grove: set.yaml, document 1: has no apiVersion; add it\n"),
        ("apiVersion: v1\nkind: Pod\n", "grove: set.yaml, document 1: Pod has no metadata.name; add it\n"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: p, name: q}\n", "grove: set.yaml, document 1: not valid YAML: "),
        ("---\n---\n[]\n", "grove: set.yaml, document 2: is not an object; it needs apiVersion, kind and metadata\n"),
        ("", "grove: set.yaml: has no object; add a manifest\n"),
    ],
)
def test_a_bad_manifest_is_named_by_file_and_document_before_anything_starts(
    tmp_path: Path, text: str, error: str
) -> None:
    (tmp_path / "set.yaml").write_text(text)
    said = grove(tmp_path, "up", "set.yaml")
    assert (said.code, said.out, said.err.count("\n")) == (1, "", 1)
    assert said.err.startswith(error)
    assert [path.name for path in tmp_path.iterdir()] == ["set.yaml"]


def test_a_set_that_is_refused_is_told_all_of_its_errors(tmp_path: Path) -> None:
    (tmp_path / "set.yaml").write_text(BROKEN_SET)
    said = grove(tmp_path, "up", "set.yaml")
    assert said.code == 1
    assert "configmap/fine created\n" in said.out
    first, *errors = said.err.splitlines()
    assert first == f"grove: set.yaml, document 2: PodCliqueSet broken was rejected with {len(errors)} errors:"
    assert len(errors) >= 3
    assert all(error.startswith("  spec.template.cliques") for error in errors)
    assert [path.name for path in tmp_path.iterdir()] == ["set.yaml"]


def test_a_kind_that_the_cluster_does_not_know_is_named(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\n")
    said = grove(tmp_path, "up", "job.yaml")
    assert (said.code, said.err) == (
        1,
        (
            "grove: job.yaml, document 1: this cluster has no kind Job in batch/v1; check apiVersion and kind, "
            "or install its CustomResourceDefinition\n"
        ),
    )


def test_a_second_one_in_the_same_folder_is_refused_and_the_first_stays(tmp_path: Path) -> None:
    with Up(tmp_path) as up:
        before = (tmp_path / ".grove" / "kubeconfig").read_text()
        said = up.grove("up")
        assert (said.code, said.err.count("\n")) == (1, 1)
        assert said.err.startswith("grove: .grove/kubeconfig: another `grove up` serves https://127.0.0.1:")
        assert (tmp_path / ".grove" / "kubeconfig").read_text() == before


def test_a_kubeconfig_that_is_not_ours_is_never_overwritten(tmp_path: Path) -> None:
    config = {
        "current-context": "mine",
        "contexts": [{"name": "mine", "context": {"cluster": "c"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://10.0.0.1"}}],
    }
    mine = tmp_path / "config"
    mine.write_text(yaml.safe_dump(config))
    before = mine.read_bytes()
    said = grove(tmp_path, "up", "--kubeconfig", "config")
    assert (said.code, said.err) == (
        1,
        "grove: config: exists and was not written by `grove up`; choose another file with --kubeconfig\n",
    )
    assert mine.read_bytes() == before


def test_what_a_killed_one_left_behind_is_replaced(tmp_path: Path) -> None:
    with Up(tmp_path) as killed:
        killed.end(signal.SIGKILL)
    assert (tmp_path / ".grove" / "kubeconfig").exists()
    stale = grove(tmp_path, "status")
    assert (stale.code, "is the cluster running?" in stale.err) == (1, True)
    with Up(tmp_path) as up:
        assert up.grove("status").out == "no PodCliqueSets in namespace default\n"


def test_a_port_in_use_is_a_failure_that_says_what_to_do(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = grove(tmp_path, "up", "--port", str(port))
    assert (said.code, said.out, said.err.count("\n")) == (1, "", 1)
    assert said.err.startswith(f"grove: port {port} cannot be used (")
    assert list(tmp_path.iterdir()) == []


def test_nodes_are_as_many_and_as_large_as_asked_for(tmp_path: Path) -> None:
    with Up(tmp_path, QUICKSTART, "--nodes", "1", "--node-resources", "cpu=1,memory=1Gi") as up:
        up.read_until("pcs/chat Pending, 0/1 replicas available, 0/10 pods ready")
        said = up.wait_for_output("never fit", "why", "pg/chat-0")
        assert "never fit: the largest node has 1Gi memory, the pod asks for 2Gi." in said.out


def test_without_an_operator_nobody_acts(tmp_path: Path) -> None:
    with Up(tmp_path, QUICKSTART, "--no-operator") as up:
        up.read_until("pcs/chat Pending")
        assert up.lines[0].startswith("A cluster with 8 nodes without an operator: ")
        assert up.grove("status").out.splitlines()[1].split()[:4] == ["chat", "Pending", "0/0", "0/1"]


def test_without_a_kubelet_pods_are_placed_and_nobody_runs_them(tmp_path: Path) -> None:
    with Up(tmp_path, QUICKSTART, "--kubelet", "none") as up:
        up.wait_for_output("the kubelet of node-", "why", "pg/chat-0")
        assert {pod["status"]["phase"] for pod in up.read("/api/v1/namespaces/default/pods")["items"]} == {"Pending"}

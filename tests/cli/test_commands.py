"""Commands on a running cluster: apply, status, why, logs, delete."""

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import yaml

from grove.api.types.meta import JsonObject
from tests.cli.console import ROOT, SECONDS, Up, attempts, grove
from tests.cli.forked import Piped, killed_after

QUICKSTART = ROOT / "examples" / "quickstart.yaml"


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """One cluster for all tests of this file; each works on objects of its own."""
    with Up(tmp_path_factory.mktemp("cluster"), str(QUICKSTART)) as up:
        up.read_until("1/1 replicas available, 10/10 pods ready")
        yield up


def small_set(name: str, **spec: object) -> str:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "100m"}}}
    clique = {"name": "a", "spec": {"roleName": "a", "replicas": 2, "podSpec": {"containers": [container]}}}
    manifest: JsonObject = {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": name},
        "spec": {"replicas": 1, "template": {"cliques": [clique]}, **spec},
    }
    return yaml.safe_dump(manifest)


def config_map(name: str, **data: str) -> str:
    return yaml.safe_dump({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})


def pod_name(up: Up) -> str:
    tree = up.grove("status", "chat", "-o", "json").json()
    name: str = tree["setReplicas"][0]["cliques"][0]["pods"][0]["name"]
    return name


def test_status_without_a_name_is_a_table(up: Up) -> None:
    said = up.grove("status")
    header, *rows = [line.split() for line in said.out.splitlines()]
    assert header == ["NAME", "STATUS", "READY", "AVAILABLE", "SCHEDULED", "AGE"]
    assert ["chat", "Running", "10/10", "1/1", "10"] in [row[:5] for row in rows]
    everywhere = up.grove("status", "-A").out.splitlines()
    assert everywhere[0].split()[0] == "NAMESPACE"


def test_status_of_a_set_is_its_tree(up: Up) -> None:
    said = up.grove("status", "pcs/chat")
    lines = said.out.splitlines()
    assert (said.code, said.err, len(lines)) == (0, "", 24)
    assert lines[1].split()[:4] == ["pcs/chat", "Running", "10/10", "1/1"]
    assert "\x1b" not in said.out


def test_one_set_is_not_looked_for_everywhere(up: Up) -> None:
    said = up.grove("status", "chat", "-A")
    assert (said.code, said.out, said.err) == (
        2, "", "grove: --all-namespaces shows all sets; omit chat, or give its namespace with -n\n",
    )  # fmt: skip


def test_status_for_programs_is_json(up: Up) -> None:
    tree = up.grove("status", "chat", "--output", "json").json()
    assert (tree["name"], tree["phase"], tree["counts"]) == (
        "chat", "Running", {"wanted": 10, "ready": 10, "scheduled": 10, "succeeded": 0},
    )  # fmt: skip
    assert [tree["name"] for tree in msgspec.json.decode(up.grove("status", "-o", "json").out)][:1] == ["chat"]


@pytest.mark.parametrize("watch", [(), ("--watch",)])
def test_a_set_that_is_not_there_is_a_failure(up: Up, watch: tuple[str, ...]) -> None:
    said = up.grove("status", "nobody", *watch)
    assert (said.code, said.out, said.err) == (
        1, "", "grove: no PodCliqueSet 'nobody' in namespace 'default'; `grove status -A` lists all sets\n",
    )  # fmt: skip


def test_apply_says_created_then_unchanged_then_configured(up: Up) -> None:
    answers = [
        up.grove("apply", "-f", "-", given=config_map("mine", **data)).out
        for data in ({"a": "1", "b": "2"}, {"a": "1", "b": "2"}, {"a": "3"}, {"a": "3"})
    ]
    assert answers == [f"configmap/mine {verb}\n" for verb in ("created", "unchanged", "configured", "unchanged")]


def test_what_is_no_longer_written_is_removed_and_what_others_wrote_stays(up: Up) -> None:
    up.grove("apply", "-f", "-", given=small_set("merged"))
    # The operator puts it there, as soon as it sees the set.
    for _ in attempts():
        before = up.read("/apis/grove.io/v1alpha1/namespaces/default/podcliquesets/merged")
        if before["metadata"].get("finalizers"):
            break
    assert before["metadata"]["finalizers"] == ["grove.io/podcliqueset.grove.io"]
    labelled = yaml.safe_load(small_set("merged"))
    labelled["metadata"]["labels"] = {"team": "a"}
    up.grove("apply", "-f", "-", given=yaml.safe_dump(labelled))
    assert up.read("/apis/grove.io/v1alpha1/namespaces/default/podcliquesets/merged")["metadata"]["labels"] == {
        "team": "a"
    }
    up.grove("apply", "-f", "-", given=small_set("merged"))
    after = up.read("/apis/grove.io/v1alpha1/namespaces/default/podcliquesets/merged")
    assert after["metadata"].get("labels", {}) == {}
    assert after["metadata"]["finalizers"] == ["grove.io/podcliqueset.grove.io"]


def test_warnings_reach_the_user_and_json_holds_them(up: Up) -> None:
    manifest = small_set("warned", workloadType="Training", updateStrategy={"type": "OnDelete"})
    said = up.grove("apply", "-f", "-", given=manifest)
    assert (said.code, said.out) == (0, "podcliqueset/warned created\n")
    cluster, warning = said.err.splitlines()
    assert warning.startswith("Warning: spec.updateStrategy")
    again = small_set("warned-too", workloadType="Training", updateStrategy={"type": "OnDelete"})
    other = up.grove("apply", "-f", "-", "-o", "json", given=again)
    assert other.json()["warnings"] == [warning.removeprefix("Warning: ")]
    assert other.err.splitlines() == [cluster]


def test_a_misspelt_field_is_named(up: Up) -> None:
    said = up.grove("apply", "-f", "-", given=small_set("misspelt", templat={}))
    assert (said.code, said.out) == (1, "")
    assert 'unknown field "spec.templat"' in said.err


def test_delete_waits_until_the_set_is_gone(up: Up) -> None:
    up.grove("apply", "-f", "-", given=small_set("short"))
    assert up.grove("delete", "pcs/short").out == "podcliqueset/short deleted\n"
    assert up.grove("why", "pcs/short").err == (
        "grove: no PodCliqueSet 'short' in namespace 'default'; `grove status -A` lists all sets\n"
    )
    again = up.grove("delete", "pcs/short")
    assert (again.code, again.err) == (
        1, "grove: no podcliqueset/short in namespace 'default'; check the name and the namespace (-n)\n",
    )  # fmt: skip


def test_delete_without_waiting_returns_at_once(up: Up) -> None:
    held = yaml.safe_load(small_set("held"))
    held["metadata"]["finalizers"] = ["example.com/backup"]
    up.grove("apply", "-f", "-", given=yaml.safe_dump(held))
    said = up.grove("delete", "pcs/held", "--wait=false", "--output", "json")
    assert msgspec.json.decode(said.out) == [{"kind": "podcliqueset", "name": "held", "action": "deleted"}]
    up.wait_for_output("Finalizer example.com/backup blocks the deletion of podcliqueset/held.", "why", "pcs/held")


def test_why_speaks_for_people_and_for_programs(up: Up) -> None:
    assert up.grove("why", "pcs/chat").out == "Nothing: 10 of 10 pods are ready.\n"
    assert up.grove("why", "podcliqueset/chat", "-o", "json").json() == {
        "about": "podcliqueset/chat",
        "sentences": [
            {
                "about": "podcliqueset/chat",
                "kind": "note",
                "reason": "",
                "text": "Nothing: 10 of 10 pods are ready.",
                "details": [],
                "until": None,
            }
        ],
    }


_CONTAINER = {"name": "main", "image": "none"}


def test_logs_are_what_the_kubelet_kept(up: Up) -> None:
    name = pod_name(up)
    assert up.grove("logs", name).out == (
        "container router started (simulated: no process runs)\ncontainer router is ready\n"
    )
    assert up.grove("logs", f"pod/{name}", "--tail", "1").out == "container router is ready\n"
    missing = up.grove("logs", "nobody")
    assert (missing.code, missing.err.count("\n")) == (1, 1)
    assert missing.err == "grove: no pod/nobody in namespace 'default'; check the name and the namespace (-n)\n"


def test_programs_read_a_log_line_by_line(up: Up) -> None:
    name = pod_name(up)
    started, ready = "container router started (simulated: no process runs)", "container router is ready"
    lines = [json.loads(line) for line in up.grove("logs", name, "--output", "json").out.splitlines()]
    assert lines == [{"line": started}, {"line": ready}]
    assert up.grove("logs", name, "--tail", "0", "-o", "json").out == ""
    follower = up.start("logs", "-f", name, "--tail", "1", "-o", "json")
    assert json.loads(follower.stdout.readline()) == {"line": ready}
    assert _interrupted(follower) == 130


@pytest.mark.parametrize("follow", [(), ("--follow",)])
def test_the_log_of_a_pod_without_a_node_is_a_question_for_why(up: Up, follow: tuple[str, ...]) -> None:
    spec = {"schedulingGates": [{"name": "example.com/hold"}], "containers": [{"name": "main", "image": "none"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "held"}, "spec": spec}
    up.grove("apply", "-f", "-", given=yaml.safe_dump(pod))
    said = up.grove("logs", "held", *follow)
    assert (said.code, said.out) == (1, "")
    assert said.err == "grove: pod/held has no node yet; `grove why pod/held` explains what it waits for\n"


def test_a_followed_log_goes_on_until_it_is_interrupted(up: Up) -> None:
    follower = up.start("logs", "-f", pod_name(up))
    assert follower.stdout.readline() == "container router started (simulated: no process runs)\n"
    assert follower.stdout.readline() == "container router is ready\n"
    assert _interrupted(follower) == 130


def test_a_followed_log_ends_with_its_pod(up: Up) -> None:
    spec = {"containers": [{"name": "main", "image": "none"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "brief"}, "spec": spec}
    assert up.grove("apply", "-f", "-", given=yaml.safe_dump(pod)).out == "pod/brief created\n"
    up.wait_for_output("is ready", "logs", "brief")
    follower = up.start("logs", "-f", "brief", "--tail", "1")
    assert follower.stdout.readline() == "container main is ready\n"
    up.grove("delete", "pod/brief")
    assert (follower.communicate(timeout=SECONDS)[0], follower.returncode) == ("", 0)


def test_the_logs_of_an_object_have_the_names_of_their_pods(up: Up) -> None:
    pods = re.findall(r"pod/(\S+)", up.grove("status", "chat").out)
    lines = up.grove("logs", "pcs/chat", "--tail", "1").out.splitlines()
    assert sorted(line.split(" | ")[0].rstrip() for line in lines) == sorted(pods)
    assert {line.split(" | ")[1].split()[-1] for line in lines} == {"ready"}
    assert len({line.index(" | ") for line in lines}) == 1
    frontend = up.grove("logs", "pclq/chat-0-frontend", "-o", "json").out.splitlines()
    records = [json.loads(line) for line in frontend]
    assert {record["container"] for record in records} == {"router"}
    assert [record["at"] for record in records] == sorted(record["at"] for record in records)
    assert len(records) == 6
    group = up.grove("logs", "pcsg/chat-0-decode", "--tail", "-1", "--since", "1h").out.splitlines()
    assert len(group) == 8


def test_the_stable_name_of_a_pod_is_enough_for_its_log(up: Up) -> None:
    assert up.grove("logs", "chat-0-frontend-0", "--tail", "1").out == "container router is ready\n"
    missing = up.grove("logs", "chat-0-frontend-99")
    assert missing.err.startswith("grove: no pod/chat-0-frontend-99 in namespace 'default'; ")


def test_logs_that_do_not_exist_say_what_to_do(up: Up) -> None:
    assert up.grove("logs", "pcs/chat", "--previous").err == (
        "grove: no container of podcliqueset/chat was restarted; omit --previous to print the current logs\n"
    )
    assert up.grove("logs", "pcs/chat", "-c", "nothing").err.startswith(
        "grove: no container 'nothing' of podcliqueset/chat has started; "
    )
    assert up.grove("logs", "pcs/nobody").err.startswith("grove: no podcliqueset/nobody in namespace 'default'; ")


def test_followed_logs_of_a_set_take_up_its_new_pods_and_end_with_it(up: Up) -> None:
    clique = {"name": "w", "spec": {"roleName": "w", "replicas": 1, "podSpec": {"containers": [_CONTAINER]}}}
    manifest = {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": "followed"},
        "spec": {"replicas": 1, "template": {"cliques": [clique]}},
    }
    assert up.grove("apply", "-f", "-", given=yaml.safe_dump(manifest)).code == 0
    up.wait_for_output("is ready", "logs", "followed-0-w-0")
    follower = up.start("logs", "-f", "pcs/followed", "--tail", "1")
    first = follower.stdout.readline()
    name = first.split(" | ")[0]
    assert first == f"{name} | container main is ready\n"
    up.grove("delete", f"pod/{name}")
    after = [follower.stdout.readline() for _ in range(2)]
    assert [line.split(" | ")[1] for line in after] == [
        "container main started (simulated: no process runs)\n", "container main is ready\n",
    ]  # fmt: skip
    assert after[0].split(" | ")[0] not in (name, "")
    up.grove("delete", "pcs/followed")
    assert (follower.communicate(timeout=SECONDS)[0], follower.returncode) == ("", 0)


def test_top_shows_who_holds_the_gpus(up: Up) -> None:
    said = up.grove("top")
    assert (said.code, said.err) == (0, "")
    assert said.out.splitlines()[0].split("  ")[0] == "NAME"
    assert "default/chat" in said.out
    found = up.grove("top", "--output", "json").json()
    chat = next(one for one in found["sets"] if one["name"] == "default/chat")
    assert chat["held"] == found["cluster"]["held"]["default/chat"]
    assert chat["pods"] == 10


def test_an_interrupted_watch_says_nothing(up: Up) -> None:
    watcher = up.start("status", "chat", "--watch", "-o", "json")
    assert '"chat"' in watcher.stdout.readline()
    watcher.send_signal(signal.SIGINT)
    # What changed meanwhile, and nothing of the interruption.
    out, _ = watcher.communicate(timeout=SECONDS)
    assert [msgspec.json.decode(line)[0]["name"] for line in out.splitlines()] == ["chat"] * len(out.splitlines())
    assert watcher.returncode == 130


def _interrupted(process: Piped) -> int | None:
    """As by Ctrl-C: how it ended; it must have said nothing of it."""
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=SECONDS)
    assert out == ""
    return process.returncode


@pytest.mark.parametrize("watch", [(), ("--watch",)])
def test_credentials_that_are_not_accepted_are_named_with_their_source(
    up: Up, tmp_path: Path, watch: tuple[str, ...]
) -> None:
    config = yaml.safe_load((up.folder / ".grove" / "kubeconfig").read_text())
    config["users"][0]["user"]["token"] = "wrong"
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    said = grove(tmp_path, "status", "--kubeconfig", "config", *watch)
    assert (said.code, said.out, said.err.count("\n")) == (1, "", 1)
    assert said.err.endswith("(from config) rejected the credentials; renew them (`grove up` writes new ones)\n")


def test_a_server_that_nobody_vouches_for_is_not_called_stopped(up: Up, tmp_path: Path) -> None:
    config = yaml.safe_load((up.folder / ".grove" / "kubeconfig").read_text())
    del config["clusters"][0]["cluster"]["certificate-authority-data"]
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    said = grove(tmp_path, "status", "--kubeconfig", "config")
    assert (said.code, said.out, said.err.count("\n")) == (1, "", 1)
    assert said.err.startswith("grove: cannot trust the certificate of https://127.0.0.1:")
    reason = "unable to get local issuer certificate"
    assert said.err.endswith(
        f" (from config): {reason}; set certificate-authority in the kubeconfig to the CA of this cluster\n"
    )


def test_a_credential_plugin_is_asked_who_we_are_and_heard_when_it_fails(up: Up, tmp_path: Path) -> None:
    config = yaml.safe_load((up.folder / ".grove" / "kubeconfig").read_text())
    user = config["users"][0]["user"]
    version = "client.authentication.k8s.io/v1"
    answer = {"apiVersion": version, "kind": "ExecCredential", "status": {"token": user.pop("token")}}
    (tmp_path / "answer").write_text(json.dumps(answer))
    user["exec"] = {
        "apiVersion": version,
        "command": "cat",
        "args": [str(tmp_path / "answer")],
        "interactiveMode": "Never",
    }
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    assert grove(tmp_path, "status", "--kubeconfig", "config").code == 0
    (tmp_path / "answer").unlink()
    said = grove(tmp_path, "status", "--kubeconfig", "config")
    assert (said.code, said.out, said.err.count("\n")) == (1, "", 1)
    assert said.err.startswith("grove: config: the credential plugin 'cat' failed with code 1: cat: ")


def test_a_namespace_that_does_not_exist_is_named(up: Up) -> None:
    said = up.grove("apply", "-n", "nowhere", "-f", "-", given=config_map("lost"))
    assert (said.code, said.out) == (1, "")
    assert 'namespaces "nowhere" not found' in said.err


def test_watching_tells_the_first_look_and_then_what_changes(up: Up) -> None:
    watcher = up.start("status", "--watch")
    with killed_after(SECONDS, watcher):
        assert "pcs/chat Running" in watcher.stdout.readline()
        up.grove("apply", "-f", "-", given=small_set("fresh"))
        # Not every state on the way is told, but that there is something new.
        assert any("pcs/fresh " in line for line in watcher.stdout)
    watcher.terminate()
    watcher.communicate(timeout=SECONDS)


def test_a_folder_without_a_kubeconfig_of_grove_uses_kubectls_rules(up: Up, tmp_path: Path) -> None:
    elsewhere = tmp_path / ".kube"
    elsewhere.mkdir()
    (elsewhere / "config").write_text((up.folder / ".grove" / "kubeconfig").read_text())
    assert "chat" in grove(tmp_path, "status").out

"""Habits of kubectl users: names and files in every form, output formats, scale, restart, describe, events, init."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from grove.api.labels import default_labels
from grove.api.types.meta import JsonObject
from grove.cli.starter.manifest_templates import StarterKind
from tests.cli.console import SECONDS, Up, attempts, grove
from tests.cli.forked import killed_after
from tests.cli.rollouts import manifest

RESTARTED_AT = "kubectl.kubernetes.io/restartedAt"


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """One cluster for all tests of this file; each works on sets of its own. The set `habit` only serves readers."""
    with Up(tmp_path_factory.mktemp("cluster")) as up:
        body = manifest("habit", a="a:1", b="b:1")
        body["metadata"]["labels"] = {"team": "blue"}
        body["spec"]["template"]["cliques"][0]["spec"]["minAvailable"] = 2
        apply(up, body)
        up.wait_for_output("is up to date", "rollout", "status", "habit")
        yield up


def apply(up: Up, body: JsonObject) -> None:
    said = up.grove("apply", "-f", "-", given=yaml.safe_dump(body))
    assert said.code == 0, said


def config_map(name: str) -> str:
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n"


# --- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words", [["pcs/habit"], ["pcs", "habit"], ["habit"], ["podcliqueset.grove.io/habit"], ["PodCliqueSets", "habit"]]
)
def test_why_takes_a_name_in_every_form(up: Up, words: list[str]) -> None:
    assert up.grove("why", *words, "-o", "json").json()["about"] == "podcliqueset/habit"


def test_a_bare_name_may_be_that_of_any_object_of_a_set(up: Up) -> None:
    pod = next(iter(up.read("/api/v1/namespaces/default/pods")["items"]))["metadata"]["name"]
    names = ("habit-0", "habit-0-a", pod)
    about = [up.grove("why", name, "-o", "json").json()["about"] for name in names]
    assert about == ["podgang/habit-0", "podclique/habit-0-a", f"pod/{pod}"]
    missing = up.grove("why", "nobody")
    assert (missing.code, missing.err) == (
        1,
        "grove: no PodCliqueSet 'nobody' in namespace 'default'; `grove status -A` lists all sets\n",
    )


@pytest.mark.parametrize("words", [["habit"], ["pcs/habit"], ["pcs", "habit"]])
def test_other_commands_take_the_same_forms(up: Up, words: list[str]) -> None:
    assert up.grove("status", *words, "-o", "name").out == "podcliqueset.grove.io/habit\n"
    assert up.grove("rollout", "history", *words, "-o", "json").json()["name"] == "habit"


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("grove why ha", ["habit"]),
        ("grove status pcs/h", ["pcs/habit"]),
        ("grove delete h", []),
        ("grove delete p", ["pcs/habit"]),
        ("grove scale pclq/habit-0-", ["pclq/habit-0-a", "pclq/habit-0-g-0-b", "pclq/habit-0-g-1-b"]),
        ("grove why pclq habit-0-a", ["habit-0-a"]),
        ("grove status -n nowhere ha", []),
    ],
)
def test_a_shell_completes_names_of_objects(up: Up, typed: str, completed: list[str]) -> None:
    env = {"_GROVE_COMPLETE": "bash_complete", "COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split(" ")) - 1)}
    said = grove(up.folder, env=env)
    assert ([word for word in said.out.split() if "habit" in word], said.err) == (
        [f"plain,{word}" for word in completed],
        "",
    )


def test_completion_without_a_cluster_offers_nothing_and_says_nothing(tmp_path: Path) -> None:
    said = grove(tmp_path, env={"_GROVE_COMPLETE": "bash_complete", "COMP_WORDS": "grove why ", "COMP_CWORD": "2"})
    assert (said.out.strip(), said.err) == ("", "")


# --- files and formats -----------------------------------------------------------------------------------------------


def test_apply_takes_directories_and_several_files(up: Up, tmp_path: Path) -> None:
    for path in ("dir/b.yaml", "dir/a.yml", "dir/deep/d.json", "dir/notes.txt", "one.yaml", "two.yaml"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(config_map(Path(path).stem) if path != "dir/notes.txt" else "no manifest")
    folder, one, two = (str(tmp_path / name) for name in ("dir", "one.yaml", "two.yaml"))
    flat = up.grove("apply", "-f", folder, "-f", one, two)
    assert flat.out.split()[::2] == [f"configmap/{name}" for name in ("a", "b", "one", "two")]
    assert up.grove("apply", "-R", "-f", folder, "-o", "name").out.split() == [f"configmap/{name}" for name in "abd"]
    assert up.grove("delete", "-R", "-f", folder).out.split()[::2] == [f"configmap/{name}" for name in "abd"]
    (tmp_path / "empty").mkdir()
    empty = up.grove("apply", "-f", str(tmp_path / "empty"))
    assert (empty.code, empty.out) == (1, "")
    assert "empty: has no file that ends with .json, .yaml, .yml; check the path, or add --recursive" in empty.err


def test_status_has_the_formats_and_the_selector_of_kubectl(up: Up) -> None:
    apply(up, manifest("plain", a="a:1"))
    header, *rows = (line.split() for line in up.grove("status", "-o", "wide").out.splitlines())
    assert header[-4:] == ["UPDATED", "GANGS", "NODES", "PROBLEMS"]
    assert [row[-4:] for row in rows if row[0] == "habit"] == [["2/2", "4", "1", "<none>"]]
    assert up.grove("status", "-l", "team=blue", "-o", "name").out == "podcliqueset.grove.io/habit\n"
    assert up.grove("status", "-l", "team=red").out == "no PodCliqueSets in namespace default\n"
    assert yaml.safe_load(up.grove("status", "habit", "-o", "yaml").out) == json.loads(
        up.grove("status", "habit", "-o", "json").out
    )


# --- scale -----------------------------------------------------------------------------------------------------------


def test_sets_and_cliques_are_scaled(up: Up) -> None:
    apply(up, manifest("scaled", a="a:1"))
    before = up.read("/apis/grove.io/v1alpha1/namespaces/default/podcliquesets/scaled")["spec"]["replicas"]
    said = up.grove("scale", "pcs/scaled", "--replicas", "1")
    assert (said.code, said.out) == (0, f"podcliqueset/scaled scaled from {before} to 1\n")
    assert up.grove("scale", "pcs", "scaled", "--replicas=1").out == "podcliqueset/scaled already has 1 replicas\n"
    assert up.grove("scale", "scaled", "--replicas=1").out == "podcliqueset/scaled already has 1 replicas\n"
    up.wait_for_output("1/1", "status")
    assert up.grove("scale", "scaled-0-a", "--replicas=2").out.startswith("podclique/scaled-0-a ")
    missing = up.grove("scale", "missing", "--replicas=2")
    assert missing.err.startswith("grove: no PodCliqueSet 'missing' in namespace 'default'")
    result = json.loads(up.grove("scale", "pclq/scaled-0-a", "--replicas=3", "-o", "json").out)
    assert [(one["kind"], one["name"], one["replicas"]) for one in result] == [("podclique", "scaled-0-a", 3)]
    assert up.grove("scale", "pclq/scaled-0-a", "--replicas=3", "-o", "name").out == "podclique.grove.io/scaled-0-a\n"


def test_a_scale_that_is_not_allowed_is_rejected_in_the_words_of_admission(up: Up) -> None:
    below = up.grove("scale", "pclq/habit-0-a", "--replicas", "1")
    assert (below.code, below.out, below.err.count("\n")) == (1, "", 1)
    assert "spec.replicas: Invalid value: 1: must be 0, or at least minAvailable (2)" in below.err
    wrong = up.grove("scale", "pcs/habit", "--replicas", "3", "--current-replicas", "7")
    assert (wrong.code, wrong.err) == (
        1,
        "grove: podcliqueset/habit has 2 replicas, not 7; omit --current-replicas to scale it anyway\n",
    )
    missing = up.grove("scale", "pcsg/nobody", "--replicas", "3")
    assert missing.err.startswith("grove: no podcliquescalinggroup/nobody in namespace 'default'")


# --- delete ----------------------------------------------------------------------------------------------------------


def test_delete_reports_what_a_finalizer_keeps_of_the_set(up: Up) -> None:
    apply(up, manifest("held", a="a:1"))
    metadata = {"name": "held-old", "labels": default_labels("held"), "finalizers": ["example.com/hold"]}
    containers = [{"name": "main", "image": "a:1"}]
    apply(up, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers}})
    up.grove("delete", "pod/held-old", "--wait=false")
    said = up.grove("delete", "pcs/held")
    assert (said.code, said.out) == (0, "podcliqueset/held deleted\n")
    assert said.err.splitlines()[-1] == (
        "Warning: finalizer example.com/hold blocks the deletion of pod/held-old. "
        "`grove why podcliqueset/held` explains what to do."
    )
    assert up.grove("why", "held").out.startswith("Finalizer example.com/hold blocks the deletion of pod/held-old.\n")


# --- restart ---------------------------------------------------------------------------------------------------------


def test_a_restart_replaces_all_pods_and_survives_the_next_apply(up: Up) -> None:
    body = manifest("again", a="a:1", b="b:1")
    body["spec"]["template"]["cliques"][0]["annotations"] = {"mine": "1", "dropped": "1"}
    apply(up, body)
    up.wait_for_output("is up to date (revision 1)", "rollout", "status", "again")
    before = pods_of(up, "again")
    said = up.grove("rollout", "restart", "pcs/again", "--wait")
    assert (said.code, said.out.splitlines()[0]) == (0, "podcliqueset/again restarted")
    assert said.out.splitlines()[-1].startswith("pcs/again is up to date (revision 2)")
    after = pods_of(up, "again")
    assert (len(before), before & after, len(after)) == (8, set(), 8)
    del body["spec"]["template"]["cliques"][0]["annotations"]["dropped"]
    applied = up.grove("apply", "-f", "-", given=yaml.safe_dump(body))
    assert applied.out == "podcliqueset/again configured\n"
    first, second = stored_cliques(up, "again")
    # What the manifest no longer has is removed; what it never had stays.
    assert sorted(first["annotations"]) == [RESTARTED_AT, "mine"]
    assert sorted(second["annotations"]) == [RESTARTED_AT]
    assert up.grove("apply", "-f", "-", given=yaml.safe_dump(body)).out == "podcliqueset/again unchanged\n"


def test_a_restart_with_on_delete_says_who_replaces_the_pods(up: Up) -> None:
    body = manifest("ondel", a="a:1")
    body["spec"]["updateStrategy"] = {"type": "OnDelete"}
    apply(up, body)
    said = up.grove("rollout", "restart", "ondel", "-o", "json").json()
    assert (said["restart"]["isOnDelete"], said["restart"]["name"]) == (True, "ondel")
    assert up.grove("rollout", "restart", "nobody").err.startswith("grove: no PodCliqueSet 'nobody' in namespace")


def pods_of(up: Up, name: str) -> set[str]:
    pods = up.read("/api/v1/namespaces/default/pods")["items"]
    return {pod["metadata"]["name"] for pod in pods if pod["metadata"]["name"].startswith(f"{name}-")}


def stored_cliques(up: Up, name: str) -> list[JsonObject]:
    stored = up.read(f"/apis/grove.io/v1alpha1/namespaces/default/podcliquesets/{name}")
    cliques: list[JsonObject] = stored["spec"]["template"]["cliques"]
    return cliques


# --- describe and events ---------------------------------------------------------------------------------------------


def test_describe_shows_an_object_with_its_conditions_and_events(up: Up) -> None:
    said = up.grove("describe", "habit")
    lines = said.out.splitlines()
    assert lines[0].split() == ["Name:", "habit"]
    assert "Labels:       team=blue" in lines
    assert [line for line in lines if line.endswith(":") and line[0].isalpha()][:2] == ["Spec:", "Status:"]
    assert any("pcs/habit" in line and "PodGangCreateOrUpdateSuccessful" in line for line in lines)
    assert lines[-1] == "What it waits for: grove why podcliqueset/habit"
    assert "last-applied" not in said.out
    found = up.grove("describe", "pclq", "habit-0-a", "-o", "json").json()
    assert (found["object"]["metadata"]["name"], "managedFields" in found["object"]["metadata"]) == ("habit-0-a", False)
    assert {event["object"] for event in found["events"]} == {"pclq/habit-0-a"}
    every = up.grove("describe", "pcs").out
    assert every.count("Name: ") >= 1
    assert up.grove("describe", "pclq/nobody").err.startswith("grove: no podclique/nobody in namespace 'default'")


def test_events_are_those_of_the_whole_tree_and_of_no_other_set(up: Up) -> None:
    apply(up, manifest("habit-0-x", a="a:1"))
    up.wait_for_output("pclq/habit-0-x-0-a", "events", "habit-0-x")
    events = json.loads(up.grove("events", "pcs/habit", "-o", "json").out)
    objects = {event["object"] for event in events}
    assert {"pcs/habit", "pclq/habit-0-a", "pclq/habit-1-g-0-b"} <= objects
    assert not any("habit-0-x" in name for name in objects)
    assert [event["lastSeen"] for event in events] == sorted(event["lastSeen"] for event in events)
    clique = json.loads(up.grove("events", "--for", "pclq/habit-0-a", "-o", "json").out)
    assert {event["object"] for event in clique} == {"pclq/habit-0-a"}
    header = up.grove("events").out.splitlines()[0]
    assert header.split() == ["LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    assert up.grove("events", "pcs/habit", "--types", "Warning").out == (
        "no events of podcliqueset/habit in namespace default; the API server deletes events after an hour\n"
    )


def test_watched_events_are_printed_as_they_happen(up: Up) -> None:
    apply(up, manifest("late"))
    up.wait_for_output("pcs/late", "events", "late")
    watcher = up.start("events", "pcs/late", "--watch")
    with killed_after(SECONDS, watcher):
        seen = watcher.stdout.readline()
        assert seen.split() == ["LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
        up.grove("scale", "pcs/late", "--replicas", "3")
        while "late-2" not in seen:
            seen = watcher.stdout.readline()
    watcher.send_signal(signal.SIGINT)
    watcher.communicate(timeout=SECONDS)
    assert watcher.returncode == 130


# --- init ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", list(StarterKind))
def test_every_starter_manifest_is_commented_and_accepted(up: Up, kind: StarterKind) -> None:
    text = grove(up.folder, "init", kind).out
    assert text.count("# ") >= 8
    assert grove(up.folder, "init", kind, "-o", "json").json()["items"] == list(yaml.safe_load_all(text))
    said = up.grove("apply", "-f", "-", given=text)
    assert (said.code, said.out.splitlines()[0]) == (0, f"podcliqueset/{kind} created")
    assert "Warning" not in said.err
    for _ in attempts():
        if up.grove("status", kind, "-o", "json").json()["phase"] in ("Running", "Succeeded"):
            break
    assert up.grove("delete", f"pcs/{kind}").code == 0


def test_a_starter_manifest_gets_the_name_that_is_asked_for(tmp_path: Path) -> None:
    body, program = yaml.safe_load_all(grove(tmp_path, "init", "torchrun", "--name", "llama").out)
    assert (body["metadata"]["name"], program["metadata"]["name"]) == ("llama", "llama")
    assert yaml.safe_load(grove(tmp_path, "init").out)["metadata"]["name"] == "inference"


def test_the_training_starter_runs_to_its_end_on_this_machine(tmp_path: Path) -> None:
    (tmp_path / "train.yaml").write_text(grove(tmp_path, "init", "training", "--name", "job").out)
    said = grove(tmp_path, "run", "train.yaml")
    assert (said.code, said.out.count(": epoch 3 of 3\n")) == (0, 4)
    assert said.out.splitlines()[-1].startswith("pcs/job Succeeded after ")

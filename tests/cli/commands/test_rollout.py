"""`grove rollout` on a running cluster, with the operator: follow an update, look back, go back."""

import fcntl
import os
import pty
import re
import struct
import termios
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import yaml

from grove.api.types.meta import JsonObject
from tests.cli.console import SECONDS, Up, environment, grove
from tests.cli.forked import Forked
from tests.cli.rollouts import manifest

COLUMNS = 60
# A template that finds no node: the update stops at its first pod until somebody goes back.
STUCK = {"zone": "nowhere"}


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """One cluster for all tests of this file; each works on a set of its own."""
    with Up(tmp_path_factory.mktemp("cluster")) as up:
        yield up


def write(up: Up, body: JsonObject, *, cause: str = "", selector: JsonObject | None = None) -> None:
    if cause:
        body["metadata"]["annotations"] = {"kubernetes.io/change-cause": cause}
    if selector:
        body["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["nodeSelector"] = selector
    assert up.grove("apply", "-f", "-", given=yaml.safe_dump(body)).code == 0


def follow(up: Up, name: str, *options: str) -> None:
    said = up.grove("rollout", "status", f"pcs/{name}", *options)
    assert (said.code, said.err) == (0, ""), said


def stuck(up: Up, name: str) -> None:
    """Revision 1 runs, revision 2 cannot."""
    write(up, manifest(name, a="a:1", b="b:1"))
    follow(up, name)
    write(up, manifest(name, a="a:2", b="b:1"), selector=STUCK)
    up.wait_for_output("0/2 pods new and ready, 1 starting, replacing pod/", "rollout", "status", name, "--no-watch")


# --- follow ----------------------------------------------------------------------------------------------------------


def test_an_update_is_followed_to_its_end(up: Up) -> None:
    write(up, manifest("ends", a="a:1", b="b:1"))
    assert up.grove("rollout", "status", "ends").out.splitlines()[-1].startswith("pcs/ends is up to date (revision 1)")
    write(up, manifest("ends", a="a:2", b="b:2"))
    last = up.grove("rollout", "status", "pcs/ends").out.splitlines()[-1]
    assert last.startswith("pcs/ends is up to date (revision 2)")
    pods = up.read("/api/v1/namespaces/default/pods?labelSelector=app.kubernetes.io/part-of%3Dends")["items"]
    images = [pod["spec"]["containers"][0]["image"] for pod in pods if "deletionTimestamp" not in pod["metadata"]]
    assert sorted(images) == ["a:2"] * 4 + ["b:2"] * 4


def test_one_look_says_how_far_it_is(up: Up) -> None:
    stuck(up, "look")
    said = up.grove("rollout", "status", "look", "--watch=false")
    assert said.code == 0
    assert re.fullmatch(
        r"pcs/look updating to revision 2; 0/2 replicas; 4/8 pods new and ready, 1 starting; replica 1; "
        r"pclq/look-1-a 0/2 pods new and ready, 1 starting, replacing pod/look-1-a-\d-\w{5}\n",
        said.out,
    )
    # Counts of the status; the operator writes it a moment after the pods.
    line = "│  updating replica 1, 3 of 4 pods new, 0 of 2 replicas done"
    assert line in up.wait_for_output(line, "status", "look").out.splitlines()
    as_json = up.grove("rollout", "status", "look", "--no-watch", "-o", "json").json()
    assert (as_json["state"], as_json["revision"], as_json["pods"]) == (
        "Updating",
        2,
        {"updated": 5, "total": 8, "ready": 4},
    )


def test_patience_ends_with_what_is_waited_for(up: Up) -> None:
    stuck(up, "late")
    said = up.grove("rollout", "status", "late", "--timeout", "300ms", "--output", "json")
    assert (said.code, said.json()["state"]) == (1, "Updating")
    assert said.err.startswith("grove: the update is not complete after 300ms: pcs/late updating to revision 2; ")
    assert "pclq/late-1-a 0/2 pods new and ready, 1 starting" in said.err
    assert said.err.endswith("; `grove why pcs/late` explains more\n")


def test_lines_go_on_until_the_end_that_somebody_else_brings_about(up: Up) -> None:
    stuck(up, "lines")
    follower = up.start("rollout", "status", "lines")
    first = follower.stdout.readline()
    assert re.match(r"\d\d:\d\d:\d\d pcs/lines ", first)
    assert "\x1b" not in first
    assert up.grove("rollout", "undo", "lines", "--to-revision", "1").code == 0
    *_, last = follower.communicate(timeout=SECONDS)[0].splitlines()
    assert last.startswith("pcs/lines is up to date (revision 3)")
    assert follower.returncode == 0


def test_a_set_that_is_deleted_meanwhile_is_a_failure(up: Up) -> None:
    stuck(up, "short")
    follower = up.start("rollout", "status", "short")
    assert "pcs/short" in follower.stdout.readline()
    assert up.grove("delete", "pcs/short").code == 0
    follower.communicate(timeout=SECONDS)
    assert follower.returncode == 1


def test_on_delete_is_told_and_not_waited_for(up: Up) -> None:
    strategy = {"type": "OnDelete"}
    write(up, manifest("ondel", a="a:1", b="b:1", updateStrategy=strategy))
    follow(up, "ondel")
    write(up, manifest("ondel", a="a:2", b="b:1", updateStrategy=strategy))
    assert up.grove("rollout", "status", "ondel").out.splitlines()[-1] == (
        "pcs/ondel: 4 of 8 pods run the newest template; OnDelete: delete the others to update them"
    )


def test_on_a_terminal_there_are_bars_that_fit(up: Up) -> None:
    stuck(up, "drawn")
    seen, code = on_terminal(
        up, "░", ("rollout", "undo", "drawn", "--to-revision", "1"), "rollout", "status", "drawn"
    )  # fmt: skip
    assert code == 0
    assert re.search(r"\x1b\[[0-9;]*3\dm", seen) is None
    frames = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line).rstrip() for line in re.split(r"[\r\n]+", seen)]
    assert [line for line in frames if len(line) > COLUMNS] == []
    assert any(re.fullmatch(r"replicas  ░+  0/2", line) for line in frames)
    assert any(re.fullmatch(r"pods      █+  8/8 ready", line) for line in frames)
    assert any(line.startswith("pcs/drawn is up to date (revision 3)") for line in frames)


def on_terminal(up: Up, until: str, then: tuple[str, ...], *arguments: str) -> tuple[str, int]:
    """A command on a terminal of 60 columns without colours; another one runs once it has shown `until`."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    env = environment(up.folder, {"COLUMNS": str(COLUMNS), "LINES": "24", "NO_COLOR": "1", "TERM": "xterm-256color"})
    process = Forked(up.folder, arguments, env, files=(follower, follower, follower))
    os.close(follower)
    seen = b""
    has_acted = False
    while piece := _read(leader):
        seen += piece
        if not has_acted and until.encode() in seen:
            has_acted = True
            assert up.grove(*then).code == 0
    os.close(leader)
    return seen.decode(), process.wait(timeout=SECONDS)


def _read(leader: int) -> bytes:
    try:
        return os.read(leader, 65536)
    except OSError:
        # How Linux says that the other side of a terminal was closed.
        return b""


# --- look back -------------------------------------------------------------------------------------------------------


def test_history_tells_what_each_revision_changed_and_who_runs_it(up: Up) -> None:
    write(up, manifest("past", a="a:1", b="b:1"), cause="first of all")
    follow(up, "past")
    write(up, manifest("past", a="a:2", b="b:1"), cause="a better a")
    follow(up, "past")
    header, *rows = up.grove("rollout", "history", "pcs/past").out.splitlines()
    assert header.split() == ["REVISION", "CURRENT", "REPLICAS", "AGE", "HASH", "CHANGE-CAUSE", "CHANGED"]
    assert [re.split(r"\s{2,}", row)[:2] for row in rows] == [["1", "0"], ["2", "*"]]
    assert rows[0].endswith("first of all")
    assert rows[1].endswith("a better a    a: image a:1 -> a:2")
    as_json = up.grove("rollout", "history", "past", "-o", "json").json()
    assert [(one["revision"], one["replicas"], one["isCurrent"]) for one in as_json["revisions"]] == [
        (1, 0, False), (2, 2, True),
    ]  # fmt: skip
    assert yaml.safe_load(up.grove("rollout", "history", "past", "-o", "yaml").out) == as_json


def test_one_revision_is_its_templates(up: Up) -> None:
    write(up, manifest("single", a="a:1", b="b:1"))
    follow(up, "single")
    said = up.grove("rollout", "history", "single", "--revision", "1").out
    assert said.startswith("# pcs/single revision 1\n")
    templates = yaml.safe_load(said)
    assert [(one["name"], one["podSpec"]["containers"][0]["image"]) for one in templates["cliques"]] == [
        ("a", "a:1"), ("b", "b:1"),
    ]  # fmt: skip
    as_json = up.grove("rollout", "history", "single", "--revision", "1", "-o", "json").json()
    assert as_json == {"revision": 1, **templates}
    missing = up.grove("rollout", "history", "single", "--revision", "9")
    assert (missing.code, missing.err) == (
        1,
        "grove: pcs/single has no revision 9; it has revision 1, see `grove rollout history pcs/single`\n",
    )


# --- go back ---------------------------------------------------------------------------------------------------------


def test_undo_says_what_changes_and_can_be_waited_for(up: Up) -> None:
    write(up, manifest("back", a="a:1", b="b:1"))
    follow(up, "back")
    write(up, manifest("back", a="a:2", b="b:1"))
    follow(up, "back")
    dry = up.grove("rollout", "undo", "back", "--dry-run")
    told = "back from revision 2 to revision 1, which becomes revision 3\n  a: image a:2 -> a:1\n"
    assert (dry.code, dry.out) == (0, f"pcs/back would go {told}")
    done = up.grove("rollout", "undo", "pcs/back", "--wait")
    assert (done.code, dry.err) == (0, "")
    assert done.err.startswith("Cluster: https://127.0.0.1:")
    assert done.out.startswith(f"pcs/back goes {told}")
    assert done.out.splitlines()[-1].startswith("pcs/back is up to date (revision 3)")
    again = up.grove("rollout", "undo", "back", "--to-revision", "3", "-o", "json").json()["undo"]
    assert (again["isChanged"], again["changes"]) == (False, [])
    assert up.grove("rollout", "undo", "back", "--to-revision", "3").out == (
        "pcs/back already has the templates of revision 3, so nothing changes\n"
    )


def test_undo_in_json_holds_how_the_update_ended(up: Up) -> None:
    stuck(up, "undone")
    said = up.grove("rollout", "undo", "undone", "--wait", "--output", "json").json()
    assert (said["undo"]["toRevision"], said["rollout"]["state"], said["rollout"]["revision"]) == (1, "UpToDate", 3)


@pytest.mark.parametrize("command", [("status",), ("status", "--no-watch"), ("history",), ("undo",)])
def test_a_set_that_is_not_there_is_a_failure_of_every_command(up: Up, command: tuple[str, ...]) -> None:
    said = up.grove("rollout", *command, "pcs/nobody")
    assert (said.code, said.out, said.err) == (
        1, "", "grove: no PodCliqueSet 'nobody' in namespace 'default'; `grove status -A` lists all sets\n",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["status", "pod/x"], "grove: 'pod/x': only a set has a rollout; "),
        (["status", "x y"], "grove: 'x y' is not a valid name"),
        (["status", "x", "--timeout", "soon"], 'grove: --timeout: "soon" is not a duration: '),
        (["status", "x", "--timeout", "0s"], "grove: --timeout: 0s is not greater than zero; "),
        (["status", "x", "--watch=maybe"], "grove: Invalid value for '--watch'"),
        (["history", "x", "--revision", "0"], "grove: Invalid value for '--revision'"),
        (["undo", "x", "--to-revision", "newest"], "grove: Invalid value for '--to-revision'"),
        (["undo", "x", "--dry-run", "--wait"], "grove: --wait: a dry run changes nothing, "),
        (["undo", "x", "--timeout", "5m"], "grove: --timeout: has an effect only with --wait; "),
        (["undo"], "grove: Missing argument 'pcs/NAME'"),
        (["statsu", "x"], "grove: No such command 'statsu'. (Did you mean one of: 'restart', 'status'?) "),
    ],
)
def test_wrong_usage_of_rollout_is_one_line_and_exit_code_2(tmp_path: Path, arguments: list[str], line: str) -> None:
    said = grove(tmp_path, "rollout", *arguments)
    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1)
    assert said.err.startswith(line)


def test_what_programs_read_is_one_object(up: Up) -> None:
    write(up, manifest("object", a="a:1", b="b:1"))
    decoded = msgspec.json.decode(up.grove("rollout", "status", "object", "-o", "json").out)
    assert (decoded["name"], decoded["state"]) == ("object", "UpToDate")


def test_without_an_operator_it_is_said_whom_it_waits_for(tmp_path: Path) -> None:
    with Up(tmp_path, "--no-operator") as alone:
        write(alone, manifest("p"))
        said = alone.grove("rollout", "status", "p", "--timeout", "300ms")
        assert (said.code, said.err) == (
            1,
            (
                "grove: the update is not complete after 300ms: pcs/p waits for the operator to begin the update "
                "to its newest templates; `grove why pcs/p` explains more\n"
            ),
        )
        assert alone.grove("rollout", "history", "p").out == (
            "pcs/p has no revisions yet: no operator has reconciled it; `grove why pcs/p` explains more\n"
        )

"""The command line as scripts and people meet it: exit codes, one line per error, plain text, JSON, completion."""

import subprocess
import sys
from pathlib import Path

import click
import pytest

from grove.api.schema.crd_generator import custom_resource_definitions
from grove.cli import main as command_line
from grove.cli.command_registry import COMMANDS
from tests.cli.console import GROVE, ROOT, environment, grove, run_script, yaml_documents

# A kubeconfig: no server has this port.
UNREACHABLE = """\
current-context: c
contexts: [{name: c, context: {cluster: c}}]
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
"""


def test_the_version_is_printed_for_people_and_for_programs(tmp_path: Path) -> None:
    said = run_script(tmp_path, "version")
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith("grove ")
    as_json = grove(tmp_path, "version", "--output", "json")
    assert f"grove {as_json.json()['version']}\n" == said.out
    assert grove(tmp_path, "--version") == said


@pytest.mark.parametrize("words", [[], ["rollout"]], ids=["grove", "rollout"])
def test_no_help_line_of_a_command_is_cut(tmp_path: Path, words: list[str]) -> None:
    listed = grove(tmp_path, *words, "--help").out.partition("Commands:")[2].splitlines()
    assert [line for line in listed if line.endswith("...")] == []
    assert sum(line.endswith(".") for line in listed) >= 4
    assert max(len(line) for line in listed) <= 80


def test_help_lists_every_command(tmp_path: Path) -> None:
    said = grove(tmp_path, "--help")
    assert said.code == 0
    listed = said.out.partition("Commands:")[2].split("\n")
    assert [line.split()[0] for line in listed if line.strip()] == [
        "init", "up", "run", "operator", "apply", "plan", "delete", "status", "why", "describe", "events", "scale",
        "rollout", "logs", "top", "wait", "sim", "crds", "manifests", "webhook-certs", "completion", "version",
    ]  # fmt: skip


@pytest.mark.parametrize("columns", ["40", "80"])
@pytest.mark.parametrize("command", [[], ["rollout"]])
def test_no_line_of_the_help_is_cut(tmp_path: Path, columns: str, command: list[str]) -> None:
    said = grove(tmp_path, *command, "--help", env={"COLUMNS": columns})
    words = " ".join(said.out.split())
    assert "..." not in words.replace("[ARGS]...", "")
    lines = COMMANDS.values() if not command else ["Roll a set back to an earlier revision."]
    assert [line for line in lines if line not in words] == []


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["statsu"], "grove: No such command 'statsu'. Did you mean 'status'? (see grove --help)"),
        (["up", "--nodse", "3"], "grove: No such option '--nodse'. Did you mean '--nodes'? (see grove up --help)"),
        (["rollout", "status"], "grove: Missing argument 'pcs/NAME'. (see grove rollout status --help)"),
        (["up", "--nodes", "many"], "grove: Invalid value for '--nodes'"),
        (["up", "--nodes", "-1"], "grove: Invalid value for '--nodes'"),
        (["up", "--port", "65536"], "grove: Invalid value for '--port'"),
        (["up", "--kubelet", "real"], "grove: Invalid value for '--kubelet'"),
        (["up", "--ready-after", "soon"], 'grove: --ready-after: "soon" is not a duration'),
        (["up", "--ready-after", "5s", "--kubelet", "none"], "grove: --ready-after: only simulated pods become ready "),
        (["up", "--node-resources", "cpu"], "grove: --node-resources: 'cpu' is not K=V; "),
        (["up", "--node-resources", "cpu=lots"], 'grove: --node-resources: cpu: "lots" is not a quantity: '),
        (["run"], "grove: Missing argument 'FILE'"),
        (["run", "x", "--kubelet", "none"], "grove: Invalid value for '--kubelet'"),
        (["run", "x", "--until", "later"], "grove: Invalid value for '--until'"),
        (["run", "x", "--timeout", "soon"], 'grove: --timeout: "soon" is not a duration: '),
        (["run", "x", "--timeout", "0s"], "grove: --timeout: 0s is not greater than zero; "),
        (["run", "x", "--node-resources", "cpu"], "grove: --node-resources: 'cpu' is not K=V; "),
        (["why", "pcs"], "grove: 'pcs': expected KIND/NAME, such as pcs/chat; "),
        (["why", "pcs", "a", "b"], "grove: 'pcs a b': expected one object, such as pcs/chat"),
        (["delete", "chat"], "grove: 'chat': expected KIND/NAME, such as pcs/chat; "),
        (["delete"], "grove: name the objects to delete, such as pcs/chat, or their manifests with -f FILE"),
        (["delete", "pcs/x", "-f", "x"], "grove: name the objects to delete, such as pcs/chat, or their manifests "),
        (["scale", "pod/x", "--replicas", "1"], "grove: pod/x: only sets, groups and cliques have replicas; "),
        (["scale", "pcs/x"], "grove: Missing option '--replicas'"),
        (["scale", "pcs/x", "--replicas", "-1"], "grove: Invalid value for '--replicas'"),
        (["events", "pcs/x", "-A"], "grove: --all-namespaces lists the events of all sets; "),
        (["events", "--types", "Bad"], "grove: --types: 'Bad' is not a type of events; use Normal or Warning"),
        (["init", "chess"], "grove: Invalid value for"),
        (["init", "--name", "a.b"], "grove: --name: 'a.b' is not a DNS label; "),
        (["status", "x", "-l", "a=b"], "grove: --selector chooses among all sets; omit x, or omit --selector"),
        (["status", "-w", "-o", "yaml"], "grove: --watch prints text or json, not yaml; "),
        (["why", "node/node-0"], "grove: 'node/node-0': expected KIND/NAME, such as pcs/chat; "),
        (["why"], "grove: Missing argument 'KIND/NAME'"),
        (["status", "pod/x"], "grove: 'pod/x': status shows sets; "),
        (["apply"], "grove: Missing option '--filename'"),
        (["delete", "pcs/x", "--wait=maybe"], "grove: Invalid value for '--wait'"),
        (["status", "--output", "xml"], "grove: Invalid value for '--output' / '-o': 'xml' is not one of 'text', "),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(tmp_path: Path, arguments: list[str], line: str) -> None:
    said = grove(tmp_path, *arguments)
    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1)
    assert said.err.startswith(line)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["status"], "grove: no cluster found; start one with `grove up`, or name one with --kubeconfig or "),
        (["status", "--kubeconfig", "none"], "grove: none: no such file; check --kubeconfig\n"),
        (["status", "--kubeconfig", "."], "grove: .: is a directory, not a file; check --kubeconfig\n"),
        (
            ["apply", "-f", "none.yaml"],
            "grove: none.yaml: cannot be read (No such file or directory); check the path\n",
        ),
        (["run", "none.yaml"], "grove: none.yaml: cannot be read (No such file or directory); check the path\n"),
        (["up", "none.yaml"], "grove: none.yaml: cannot be read (No such file or directory); check the path\n"),
    ],
)
def test_a_failure_is_one_line_and_exit_code_1(tmp_path: Path, arguments: list[str], line: str) -> None:
    said = grove(tmp_path, *arguments)
    assert (said.code, said.out, said.err.count("\n")) == (1, "", 1)
    assert said.err.startswith(line)


@pytest.mark.parametrize(
    ("output", "code", "words"),
    [
        pytest.param(
            ">/dev/full", 1,
            "grove: the output cannot be written (No space left on device); free some disk space and try again\n",
            id="full",
        ),
        pytest.param(">&-", 0, "", id="closed"),
        pytest.param("2>&- >&-", 0, "", id="all closed"),
    ],
)  # fmt: skip
def test_output_that_takes_nothing_is_no_bug(tmp_path: Path, output: str, code: int, words: str) -> None:
    said = subprocess.run(
        ["sh", "-c", f'"$0" version {output}', str(GROVE)],
        cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (said.returncode, said.stdout, said.stderr) == (code, "", words)


def test_signs_that_an_encoding_lacks_are_replaced(tmp_path: Path) -> None:
    scenario = ROOT / "examples" / "scenarios" / "node-loss-at-group-level.yaml"
    said = run_script(tmp_path, "sim", str(scenario), env={"PYTHONIOENCODING": "ascii"})
    assert (said.code, said.err) == (0, "")
    assert "\n?? replica 0 " in said.out


@pytest.mark.parametrize(
    "arguments",
    [
        ["status", "x y"],
        ["status", "-n", "a/b"],
        ["why", "pod/a?b"],
        ["why", "pcs/ü"],
        ["logs", "../x"],
        ["delete", "pcs/A"],
        ["delete", "pcs/-"],
    ],
)
def test_what_can_be_no_name_is_not_sent_to_any_server(tmp_path: Path, arguments: list[str]) -> None:
    said = grove(tmp_path, *arguments)
    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["node/a"], "grove: 'node/a': expected KIND/NAME, such as pcs/chat; kinds: pcs, pclq, pcsg, pg, po, "),
        (["pcs/chat", "-f", "--previous"], "grove: --previous: that run has ended, so there is nothing to follow; "),
        (["pcs/chat", "--since", "0s"], "grove: --since: 0s is not greater than zero; write for example 5m\n"),
        (["pcs/chat", "--since", "soon"], "grove: --since: "),
    ],
)
def test_logs_say_what_is_wrong_before_they_ask_a_cluster(tmp_path: Path, arguments: list[str], error: str) -> None:
    said = grove(tmp_path, "logs", *arguments)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(error)


def test_a_cluster_that_does_not_answer_is_named_with_its_source(tmp_path: Path) -> None:
    (tmp_path / "config").write_text(UNREACHABLE)
    said = grove(tmp_path, "status", "--kubeconfig", "config")
    assert (said.code, said.out, said.err.count("\n")) == (1, "", 1)
    assert said.err.startswith("grove: cannot reach https://127.0.0.1:1 (from config): ")
    assert said.err.endswith("; check that it runs and that this machine can reach it\n")
    assert "ssl:" not in said.err


def test_only_a_cluster_of_grove_up_can_be_started_with_it(tmp_path: Path) -> None:
    ours = UNREACHABLE.replace("name: c,", "name: grove,").replace("current-context: c", "current-context: grove")
    (tmp_path / "config").write_text(ours.replace("clusters: [{name: grove,", "clusters: [{name: c,"))
    said = grove(tmp_path, "status", "--kubeconfig", "config")
    assert said.err.endswith("is the cluster running? `grove up` starts one\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["apply", "-f", "set.yaml"],
        ["plan", "-f", "set.yaml"],
        ["delete", "pcs/x"],
        ["status", "--watch"],
        ["why", "pcs/x"],
        ["logs", "--follow", "x"],
        ["logs", "pcs/x"],
        ["top"],
        ["rollout", "undo", "x"],
        ["rollout", "restart", "x"],
        ["scale", "pcs/x", "--replicas", "2"],
        ["describe", "x"],
        ["events", "--watch"],
    ],
)
def test_a_command_loads_all_that_it_needs_in_a_new_interpreter(tmp_path: Path, arguments: list[str]) -> None:
    """Other tests run it where everything is loaded already. Nothing that it loads may be deprecated."""
    (tmp_path / "config").write_text(UNREACHABLE)
    (tmp_path / "set.yaml").write_text((ROOT / "examples" / "quickstart.yaml").read_text())
    said = subprocess.run(
        [sys.executable, "-W", "error", str(GROVE), *arguments, "--kubeconfig", "config"],
        cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (said.returncode, said.stdout) == (1, "")
    assert said.stderr.startswith("grove: cannot reach https://127.0.0.1:1 (from config): ")


def test_a_bug_is_one_line_that_says_where_the_details_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def break_down() -> None:
        raise ExceptionGroup("several", [RuntimeError("a belief is broken")])

    monkeypatch.setattr(command_line, "app", click.Command("grove", callback=break_down))
    assert command_line.main([]) == 1
    assert capsys.readouterr().err == (
        "grove: RuntimeError: a belief is broken; this is a bug, please report it (GROVE_DEBUG=1 shows the details)\n"
    )
    monkeypatch.setenv("GROVE_DEBUG", "1")
    assert command_line.main([]) == 1
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_crds_are_the_definitions_of_our_kinds(tmp_path: Path) -> None:
    expected = list(custom_resource_definitions())
    assert yaml_documents(grove(tmp_path, "crds").out) == expected
    assert [crd["metadata"] for crd in grove(tmp_path, "crds", "-o", "json").json()["items"]] == [
        crd["metadata"] for crd in expected
    ]


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path: Path) -> None:
    script = f"'{GROVE}' crds | head -n 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("apiVersion: apiextensions.k8s.io/v1\n0\n", "")


@pytest.mark.parametrize(
    ("typed", "completed"), [("grove st", ["status"]), ("grove rollout ", ["status", "history", "undo", "restart"])]
)
def test_a_shell_is_told_how_to_complete_commands(tmp_path: Path, typed: str, completed: list[str]) -> None:
    place = str(len(typed.split(" ")) - 1)
    asked = {"_GROVE_COMPLETE": "bash_complete", "COMP_WORDS": typed, "COMP_CWORD": place}
    assert grove(tmp_path, env=asked).out.split() == [f"plain,{word}" for word in completed]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell_asks_grove_for_completions(tmp_path: Path, shell: str) -> None:
    said = grove(tmp_path, "completion", shell)
    assert (said.code, said.err) == (0, "")
    assert f"_GROVE_COMPLETE={shell}_complete" in said.out


@pytest.mark.parametrize("loading", ["click", "grove.cli.main", "grove.cli.commands.version"])
def test_ctrl_c_is_understood_while_it_still_loads(tmp_path: Path, loading: str) -> None:
    impatient = (
        "import sys\n"
        "class Impatient:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {loading!r}: raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Impatient())\n"
        "from grove.cli.entry import main\n"
        "sys.exit(main())\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", impatient, "version"],
        cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (said.returncode, said.stdout, said.stderr) == (130, "", "")

"""`grove run` as a process, with real pods: what it prints, how it ends, and that nothing is left behind."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
import yaml

from grove.api.types.meta import JsonObject
from grove.cli.commands.run import RunKubelet, RunOptions, Until
from grove.cli.common.output import Format
from grove.cli.run.runner import Run
from grove.clock import LoopClock
from grove.operations.apply.manifest_reader import ManifestDocument
from tests.cli.console import ROOT, SECONDS, CommandResult, environment, grove
from tests.cli.forked import Piped, killed_after

EXAMPLES = ROOT / "examples"
PREFIXED = re.compile(r"(?P<pod>\S+) +(?P<mark>[|!]) (?P<text>.*)")


# --- manifests -------------------------------------------------------------------------------------------------------


def clique(name: str, script: str, **spec: object) -> JsonObject:
    """Pods that run a shell script."""
    # As Kubernetes wants a dollar that is meant.
    container = {"name": "main", "image": "none", "command": ["sh", "-c", script.replace("$$", "$$$$")]}
    return {"name": name, "spec": {"roleName": name, "replicas": 1, "podSpec": {"containers": [container]}, **spec}}


def training_set(name: str, *cliques: JsonObject, **training: object) -> JsonObject:
    spec = {"replicas": 1, "workloadType": "Training", "trainingSpec": training, "template": {"cliques": [*cliques]}}
    return {"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "metadata": {"name": name}, "spec": spec}


def inference_set(name: str, *cliques: JsonObject) -> JsonObject:
    spec = {"replicas": 1, "template": {"cliques": [*cliques]}}
    return {"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "metadata": {"name": name}, "spec": spec}


def write(folder: Path, *objects: JsonObject) -> str:
    (folder / "job.yaml").write_text(yaml.safe_dump_all(objects))
    return "job.yaml"


def example(name: str, folder: Path) -> str:
    """With a shared folder of this test's own."""
    text = (EXAMPLES / name).read_text()
    changed = re.sub(r"(?<=path: )/var/tmp/[\w-]+", str(folder / "shared"), text)
    assert changed != text
    (folder / name).write_text(changed)
    return name


# --- running ---------------------------------------------------------------------------------------------------------


def temporary(folder: Path) -> Path:
    """Where the cluster keeps its files."""
    path = folder / "temporary"
    path.mkdir(exist_ok=True)
    return path


def run(folder: Path, *arguments: str) -> CommandResult:
    said = grove(folder, "run", *arguments, env={"TMPDIR": str(temporary(folder))})
    assert list(temporary(folder).iterdir()) == []
    return said


@contextmanager
def running(folder: Path, *arguments: str) -> Iterator[Piped]:
    """In a process group of its own, so that nothing of ours is hit by what is meant for it."""
    env = environment(folder, {"TMPDIR": str(temporary(folder))})
    process = Piped(folder, ("run", *arguments), env, has_own_session=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait(SECONDS)
        process.close()


def read_until(process: Piped, texts: set[str]) -> list[str]:
    """Lines up to the one by which all the texts were seen."""
    lines: list[str] = []
    with killed_after(SECONDS, process):
        for line in process.stdout:
            lines.append(line.rstrip("\n"))
            if all(any(text in seen for seen in lines) for text in texts):
                return lines
    raise AssertionError(f"never said {texts}: {lines}")


def said_by(out: str, pod: str) -> list[str]:
    """What the pods whose names begin so wrote, in order."""
    found = (PREFIXED.fullmatch(line) for line in out.splitlines())
    return [each["text"] for each in found if each and each["pod"].startswith(pod) and each["mark"] == "|"]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def has_members(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


# --- the examples ----------------------------------------------------------------------------------------------------


def losses(out: str) -> dict[int, float]:
    """By epoch; an epoch is told once."""
    found = re.findall(r"\| epoch +(\d+)  loss (\S+)", out)
    assert len(found) == len({epoch for epoch, _ in found})
    return {int(epoch): float(loss) for epoch, loss in found}


def said_by_workers(out: str, name: str) -> list[str]:
    return [text for rank in (1, 2, 3) for text in said_by(out, f"{name}-0-worker-{rank}-")]


def test_the_allreduce_example_learns_and_succeeds(tmp_path: Path) -> None:
    said = run(tmp_path, example("training-allreduce.yaml", tmp_path))
    assert (said.code, said.err) == (0, "")
    found = losses(said.out)
    assert list(found) == list(range(1, 13))
    assert list(found.values()) == sorted(found.values(), reverse=True)
    assert found[12] < 0.05 < 5 < found[1]
    assert said_by(said.out, "allreduce-0-worker-0-")[0] == "3 workers are here"
    assert said_by_workers(said.out, "allreduce") == ["done after 12 epochs"] * 3
    assert re.fullmatch(r"pcs/allreduce Succeeded after \S+s, 1 attempt \(0 restarts\)", said.out.splitlines()[-1])
    assert list((tmp_path / "shared").iterdir()) == []


def test_the_restart_example_fails_once_and_goes_on_from_the_checkpoint(tmp_path: Path) -> None:
    said = run(tmp_path, example("training-restart.yaml", tmp_path))
    assert (said.code, said.err) == (0, "")
    found = losses(said.out)
    assert list(found) == list(range(1, 13))
    assert list(found.values()) == sorted(found.values(), reverse=True)
    died = ["something terrible happens in epoch 3"]
    assert sorted(said_by_workers(said.out, "restart")) == ["done after 10 epochs"] * 3 + died
    assert "3 workers are here; continuing after epoch 2" in said_by(said.out, "restart-0-worker-0-")
    assert "pcs/restart ReplicaRestarting: replica 0 is restarted (1 of 1 restarts used)" in said.out
    assert re.search(
        r"^pcs/restart Succeeded after \S+s, 2 attempts \(1 restart\)\n"
        r"Failed first: pod/restart-0-worker-1-\w{5}, exit code 7, in attempt 1; its last lines:\n"
        r"  something terrible happens in epoch 3\n\Z",
        said.out,
        re.MULTILINE,
    )


def test_the_two_examples_are_one_program_but_for_the_death() -> None:
    plain, dying = (_program(f"training-{name}.yaml") for name in ("allreduce", "restart"))
    added = [line for line in dying if line not in plain]
    assert [line for line in dying if line not in added] == plain
    assert [line.split()[0] for line in added] == ["if", 'say("something', "raise"]


def _program(name: str) -> list[str]:
    documents = list(yaml.safe_load_all((EXAMPLES / name).read_text()))
    return str(documents[1]["data"]["train.py"]).splitlines()


# --- outcomes --------------------------------------------------------------------------------------------------------


def test_a_script_that_exits_3_is_named_with_its_code_and_last_lines(tmp_path: Path) -> None:
    script = "for i in $(seq 13); do echo line $i; done; exit 3"
    said = run(tmp_path, write(tmp_path, training_set("bad", clique("worker", script))))
    assert (said.code, said.err) == (1, "")
    assert said_by(said.out, "bad-0-worker-0-") == [f"line {number}" for number in range(1, 14)]
    told, failed, *lines = said.out.splitlines()[-12:]
    assert re.match(r"pcs/bad Failed after \S+s, 1 attempt \(0 restarts\): ", told)
    assert re.fullmatch(r"Failed first: pod/bad-0-worker-0-\w{5}, exit code 3, in attempt 1; its last lines:", failed)
    assert lines == [f"  line {number}" for number in range(4, 14)]


def test_what_failed_first_is_told_although_its_pod_was_made_anew(tmp_path: Path) -> None:
    """Another worker fails in the second attempt, and it is the first that counts."""
    script = (
        "case $GROVE_PCLQ_POD_INDEX:$LIFE in "
        "0:*.*) exit 0;; 0:*) echo first; exit 4;; 1:*.1) echo second; exit 5;; 1:*.2) exit 0;; esac; exec sleep 1000"
    )
    worker = clique("worker", script, replicas=2)
    life = {"fieldRef": {"fieldPath": "metadata.labels['grove.io/incarnation']"}}
    worker["spec"]["podSpec"]["containers"][0]["env"] = [{"name": "LIFE", "valueFrom": life}]
    job = training_set("job", worker, maxRestarts=2)
    said = run(tmp_path, write(tmp_path, job))
    assert said.code == 0
    summary = said.out[said.out.index("pcs/job Succeeded after") :].splitlines()
    assert summary[0].endswith("3 attempts (2 restarts)")
    assert re.fullmatch(
        r"Failed first: pod/job-0-worker-0-\w{5}, exit code 4, in attempt 1; its last lines:", summary[1]
    )
    assert summary[2] == "  first"
    assert re.fullmatch(r"Then: pod/job-0-worker-1-\w{5}, exit code 5, in attempt 2", summary[3])
    assert len(summary) == 4


def test_one_that_fails_ends_all_sets_of_the_file(tmp_path: Path) -> None:
    good = training_set("good", clique("worker", "exec sleep 1000"))
    bad = training_set("bad", clique("worker", "exit 9"))
    said = run(tmp_path, write(tmp_path, good, bad))
    assert said.code == 1
    assert re.search(r"^pcs/good \w+ when another set failed after ", said.out, re.MULTILINE)
    first = r"^Failed first: pod/bad-0-worker-0-\w{5}, exit code 9, in attempt 1; it printed nothing$"
    assert re.search(first, said.out, re.MULTILINE)


def test_out_of_time_is_an_exit_code_of_its_own(tmp_path: Path) -> None:
    job = training_set("slow", clique("worker", "exec sleep 1000"))
    said = run(tmp_path, write(tmp_path, job), "--timeout", "1s")
    assert (said.code, said.err) == (124, "")
    assert re.search(
        r"^pcs/slow \w+ when the timeout expired after \S+s, 1 attempt \(0 restarts\)$", said.out, re.MULTILINE
    )


def test_a_command_that_this_machine_does_not_have_is_named(tmp_path: Path) -> None:
    lost = clique("worker", "")
    lost["spec"]["podSpec"]["containers"][0]["command"] = ["no-such-program"]
    with running(tmp_path, write(tmp_path, training_set("lost", lost))) as process:
        (*_, line) = read_until(process, {"ErrImageNotSupported"})
        assert re.match(r"lost-0-worker-0-\w{5} ! ErrImageNotSupported: .*no-such-program", line)


def test_an_inference_set_is_done_once_it_is_available(tmp_path: Path) -> None:
    serving = inference_set("serve", clique("server", "echo serving; touch up; exec sleep 1000", replicas=2))
    # In the folder that it runs in. Else it would be available before it has said anything.
    probe = {"exec": {"command": ["test", "-e", "up"]}, "periodSeconds": 1, "timeoutSeconds": 60}
    serving["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["containers"][0]["readinessProbe"] = probe
    said = run(tmp_path, write(tmp_path, serving), "--until", "available")
    assert (said.code, said.err) == (0, "")
    assert said_by(said.out, "serve-0-server-") == ["serving"] * 2
    assert re.fullmatch(r"pcs/serve Running and available after \S+s", said.out.splitlines()[-1])


def test_nothing_runs_when_the_file_makes_no_sense(tmp_path: Path) -> None:
    no_set = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    said = run(tmp_path, write(tmp_path, no_set))
    assert (said.code, said.out) == (1, "")
    assert said.err == "grove: job.yaml: has no PodCliqueSet, so there is nothing to run; add one\n"
    refused = run(tmp_path, write(tmp_path, training_set("bad", clique("worker", "true", replicas=0))))
    assert (refused.code, refused.out) == (1, "")
    assert refused.err.startswith("grove: job.yaml, document 1: PodCliqueSet bad was rejected")


def test_pods_can_be_pretended(tmp_path: Path) -> None:
    pretended = clique("worker", "exit 1")
    pretended["annotations"] = {"simulation.grove.io/exit-after": "0s"}
    said = run(tmp_path, write(tmp_path, training_set("job", pretended)), "--kubelet", "simulated")
    assert said.code == 0
    assert "container main ended with exit code 0" in said_by(said.out, "job-0-worker-0-")


# --- lines -----------------------------------------------------------------------------------------------------------

CHATTER = """\
import sys
for number in range(3000):
    sys.stdout.write(f"{number} " + "x" * 40)
    if number % 7 == 0:
        sys.stdout.flush()
    sys.stdout.write("y" * 40 + "\\n")
sys.stdout.write("the end, without a newline")
"""


def test_lines_are_whole_in_order_and_all_there_also_of_pods_that_fail_at_once(tmp_path: Path) -> None:
    (tmp_path / "chatter.py").write_text(CHATTER)
    talker = clique("talker", f"{sys.executable} {tmp_path / 'chatter.py'}; exit 1", replicas=3, minAvailable=1)
    silent = clique("other", "exec sleep 1000")
    said = run(tmp_path, write(tmp_path, training_set("talk", talker, silent)))
    assert said.code == 1
    expected = [f"{number} {'x' * 40}{'y' * 40}" for number in range(3000)] + ["the end, without a newline"]
    for pod in frozenset(re.findall(r"^talk-0-talker-\d-\w{5}", said.out, re.MULTILINE)):
        lines = said_by(said.out, pod)
        # One that was told to go before its end is cut there.
        assert lines == expected[: len(lines)]
    failed = re.findall(r"^(talk-0-talker-\d-\w{5}) +! ended with exit code 1$", said.out, re.MULTILINE)
    assert failed
    assert [said_by(said.out, pod) for pod in failed] == [expected] * len(failed)


def test_containers_of_one_pod_are_told_apart(tmp_path: Path) -> None:
    two = clique("worker", "echo from main")
    two["spec"]["podSpec"]["containers"].append({"name": "side", "image": "none", "command": ["echo", "from side"]})
    two["spec"]["podSpec"]["initContainers"] = [{"name": "first", "image": "none", "command": ["echo", "from init"]}]
    said = run(tmp_path, write(tmp_path, training_set("job", two)))
    assert said.code == 0
    found = [PREFIXED.fullmatch(line) for line in said.out.splitlines()]
    told = [(each["pod"].partition("/")[2], each["text"]) for each in found if each]
    assert told[0] == ("first", "from init")
    assert sorted(told[1:]) == [("main", "from main"), ("side", "from side")]


def test_programs_get_one_json_value_per_line_and_the_outcome_last(tmp_path: Path) -> None:
    job = training_set("job", clique("worker", "echo hello; exit 3"))
    said = run(tmp_path, write(tmp_path, job), "--output", "json")
    assert said.code == 1
    values = [msgspec.json.decode(line) for line in said.out.splitlines()]
    lines = [value for value in values if "line" in value]
    assert [(one["container"], one["line"]) for one in lines] == [("main", "hello")]
    outcome = values[-1]
    assert (outcome["outcome"], outcome["exitCode"], outcome["sets"][0]["phase"]) == ("Failed", 1, "Failed")
    (failure,) = outcome["sets"][0]["failures"]
    assert (failure["pod"], failure["exitCode"], failure["lastLines"]) == (lines[0]["pod"], 3, ["hello"])


# --- the end ---------------------------------------------------------------------------------------------------------

# A child that takes no notice of being told to end, and one that left its session.
STUBBORN = (
    "echo $$ > {pids}/main.$GROVE_PCLQ_POD_INDEX; "
    "(trap '' TERM; echo $(exec sh -c 'echo $PPID') > {pids}/deaf.$GROVE_PCLQ_POD_INDEX; while :; do sleep 1; done) & "
    "setsid sh -c 'echo $$ > {pids}/away.$GROVE_PCLQ_POD_INDEX; while :; do sleep 1; done' & "
    "until test -s {pids}/deaf.$GROVE_PCLQ_POD_INDEX -a -s {pids}/away.$GROVE_PCLQ_POD_INDEX; do :; done; "
    "echo up; wait"
)


@pytest.mark.parametrize(
    ("number", "code", "words"),
    [
        (signal.SIGINT, 130, "when interrupted"),
        (signal.SIGTERM, 143, "when terminated"),
        (signal.SIGKILL, -9, ""),
    ],
)
def test_nothing_is_left_when_it_is_stopped(tmp_path: Path, number: signal.Signals, code: int, words: str) -> None:
    pids = tmp_path / "pids"
    pids.mkdir()
    job = training_set("job", clique("worker", STUBBORN.format(pids=pids), replicas=2))
    with running(tmp_path, write(tmp_path, job)) as process:
        read_until(process, {"job-0-worker-0", "job-0-worker-1", "Running, 1/1"})
        started = {path.name: int(path.read_text()) for path in pids.iterdir()}
        assert len(started) == 6
        assert all(is_alive(pid) for pid in started.values())
        process.send_signal(number)
        # Pods hold no end of this pipe, but whoever ends them after a KILL does not wait for us.
        out, err = process.communicate(timeout=SECONDS)
        assert process.returncode == code
        wait_until_gone(tmp_path, started)
    assert [name for name, pid in started.items() if is_alive(pid) or has_members(pid)] == []
    assert list(temporary(tmp_path).iterdir()) == []
    if words:
        assert err == ""
        assert re.search(rf"^pcs/job Running {words} after \S+s, 1 attempt \(0 restarts\)$", out, re.MULTILINE)
        assert "Failed first" not in out


def wait_until_gone(folder: Path, started: dict[str, int]) -> None:
    """Whoever was killed cannot wait for the end of its processes; somebody else sees to it."""
    script = 'while test -n "$(ls -A "$0")" || kill -0 "$@" 2>&-; do sleep 0.05; done'
    pids = [str(pid) for pid in started.values()]
    subprocess.run(["bash", "-c", script, str(temporary(folder)), *pids], timeout=SECONDS, check=True)


def test_what_pods_say_while_they_end_is_told(tmp_path: Path) -> None:
    script = "trap 'echo good bye; exit 0' TERM; echo up; while :; do sleep 0.1; done"
    with running(tmp_path, write(tmp_path, inference_set("serve", clique("server", script)))) as process:
        read_until(process, {"| up"})
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 130
    assert said_by(out, "serve-0-server-0-")[-1] == "good bye"


def test_runs_one_after_the_other_leave_no_process_and_no_descriptor() -> None:
    """In one process, since what a process leaves behind goes with it."""
    script = "echo hello; sleep 1000 & exit 0"
    body = training_set("job", clique("worker", script, replicas=2))
    wishes = RunOptions(
        file=Path("job.yaml"), timeout_seconds=SECONDS, nodes=1, node_resources={"cpu": "4", "pods": "9"},
        kubelet=RunKubelet.PROCESS, until=Until.FINISHED, output=Format.TEXT,
    )  # fmt: skip

    async def once() -> int:
        run = Run(wishes, [ManifestDocument(place="here", body=body)], LoopClock.starting_now())
        return (await run.run_to_completion()).exit_code

    assert asyncio.run(once()) == 0
    before = belongings()
    assert [asyncio.run(once()) for _ in range(5)] == [0] * 5
    assert belongings() == before


def belongings() -> tuple[int, str]:
    """Open files and children of this process."""
    return len(os.listdir("/proc/self/fd")), Path(f"/proc/self/task/{os.getpid()}/children").read_text()

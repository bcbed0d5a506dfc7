"""When a run is over, and how it is told: on views, and on virtual time with pods that are only pretended."""

import io
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace
from rich.console import Console

from grove.api.types.meta import JsonObject, ObjectMeta
from grove.api.types.podcliqueset import PodCliqueSet, PodCliqueSetSpec, PodCliqueSetStatus, WorkloadType
from grove.cli.commands.run import RunKubelet, RunOptions, Until
from grove.cli.common.output import Format, plain_lines, rich_text
from grove.cli.run.exit_status import EXIT_CODES, RunResult, SetResult, Summary, compute_result
from grove.cli.run.pod_output import ContainerFailure, PodContainer, PodLine, RunEvent, SetKey
from grove.cli.run.runner import Run
from grove.cli.run.view import MAX_FURTHER_FAILURES, Prefixes, summary_rows
from grove.clock import LoopClock
from grove.operations.apply.manifest_reader import ManifestDocument
from grove.planner.explain.text import note
from grove.sim.virtual_clock import run_virtual

JOB = SetKey(namespace="default", name="job")
OTHER = SetKey(namespace="default", name="other")


# --- is it over? -----------------------------------------------------------------------------------------------------


def pcs(phase: str | None, *, available: int = 0, seen: int = 1) -> PodCliqueSet:
    return PodCliqueSet(
        metadata=ObjectMeta(generation=1),
        spec=PodCliqueSetSpec(replicas=2),
        status=PodCliqueSetStatus(phase=phase, available_replicas=available, observed_generation=seen),
    )


@pytest.mark.parametrize(
    ("job", "other", "until", "ending"),
    [
        pytest.param(pcs("Succeeded"), pcs("Succeeded"), Until.FINISHED, RunResult.SUCCEEDED, id="all succeeded"),
        pytest.param(pcs("Succeeded"), pcs("Running"), Until.FINISHED, None, id="one goes on"),
        pytest.param(pcs("Succeeded"), pcs("Failed"), Until.FINISHED, RunResult.FAILED, id="one failed"),
        pytest.param(pcs("Running"), pcs("Failed"), Until.FINISHED, RunResult.FAILED, id="one failed, one goes on"),
        pytest.param(pcs(None), pcs("Succeeded"), Until.FINISHED, None, id="one without a status"),
        pytest.param(None, pcs("Succeeded"), Until.FINISHED, None, id="one is not there"),
        pytest.param(pcs("Running", available=2), pcs("Running", available=2), Until.FINISHED, None, id="serving"),
        pytest.param(
            pcs("Running", available=2),
            pcs("Running", available=2),
            Until.AVAILABLE,
            RunResult.AVAILABLE,
            id="available",
        ),
        pytest.param(pcs("Running", available=1), pcs("Succeeded"), Until.AVAILABLE, None, id="not all replicas"),
        pytest.param(
            pcs("Running", available=2, seen=0), pcs("Succeeded"), Until.AVAILABLE, None, id="an older status"
        ),
        pytest.param(
            pcs("Running", available=2), pcs("Succeeded"), Until.AVAILABLE, RunResult.AVAILABLE, id="done is available"
        ),
        pytest.param(pcs("Running", available=2), pcs("Failed"), Until.AVAILABLE, RunResult.FAILED, id="failed before"),
    ],
)
def test_a_run_is_over_when_all_its_sets_are_or_one_failed(
    job: PodCliqueSet | None, other: PodCliqueSet, until: Until, ending: RunResult | None
) -> None:
    sets = {key: one for key, one in ((JOB, job), (OTHER, other)) if one is not None}
    assert compute_result([JOB, OTHER], sets, until) == ending


def test_every_ending_has_its_exit_code() -> None:
    assert {ending.value: EXIT_CODES[ending] for ending in RunResult} == {
        "Succeeded": 0, "Available": 0, "Failed": 1, "CannotStart": 1,
        "TimedOut": 124, "Interrupted": 130, "Terminated": 143,
    }  # fmt: skip


# --- the summary -----------------------------------------------------------------------------------------------------


def failure(
    attempt: int, code: int | None, *lines: str, reason: str = "", where: str = "job-0-a-0-xxxxx"
) -> ContainerFailure:
    return ContainerFailure(
        of_set=JOB, where=where, pod="p", attempt=attempt, exit_code=code, reason=reason, last_lines=lines
    )


def told(ending: RunResult, *sets: SetResult, seconds: float = 61.04) -> list[str]:
    return plain_lines(summary_rows(Summary(outcome=ending, exit_code=EXIT_CODES[ending], seconds=seconds, sets=sets)))


def outcome(phase: str, *failures: ContainerFailure, restarts: int = 0, kind: str = WorkloadType.TRAINING) -> SetResult:
    return SetResult(
        namespace="default", name="job", workload_type=kind, phase=phase, restarts=restarts, failures=failures
    )


def test_the_first_failure_is_told_with_its_lines_and_of_later_attempts_the_first_each() -> None:
    failures = (
        failure(1, 3, "one", "two"),
        failure(1, 1, "because of the first"),
        failure(2, 137, "killed"),
        failure(2, 143),
        failure(3, None, reason="Evicted"),
    )
    assert told(RunResult.SUCCEEDED, outcome("Succeeded", *failures, restarts=3)) == [
        "pcs/job Succeeded after 1m1s, 4 attempts (3 restarts)",
        "Failed first: pod/job-0-a-0-xxxxx, exit code 3, in attempt 1; its last lines:",
        "  one",
        "  two",
        "Then: pod/job-0-a-0-xxxxx, exit code 137 (SIGKILL), in attempt 2",
        "Then: pod/job-0-a-0-xxxxx, Evicted, in attempt 3",
    ]


@pytest.mark.parametrize(
    ("further", "last"),
    [
        (MAX_FURTHER_FAILURES, f"in attempt {MAX_FURTHER_FAILURES + 1}"),
        (MAX_FURTHER_FAILURES + 1, "... and 1 more failure"),
    ],
)
def test_very_many_failures_are_cut_short(further: int, last: str) -> None:
    failures = [failure(attempt, 1) for attempt in range(1, further + 2)]
    assert told(RunResult.FAILED, outcome("Failed", *failures))[-1].endswith(last)


@pytest.mark.parametrize(
    ("ending", "phase", "words"),
    [
        (RunResult.AVAILABLE, "Running", "pcs/job Running and available after 1.5s"),
        (RunResult.FAILED, "Running", "pcs/job Running when another set failed after 1.5s"),
        (RunResult.TIMED_OUT, "Pending", "pcs/job Pending when the timeout expired after 1.5s"),
        (RunResult.INTERRUPTED, "Running", "pcs/job Running when interrupted after 1.5s"),
        (RunResult.TERMINATED, "Running", "pcs/job Running when terminated after 1.5s"),
        (RunResult.INTERRUPTED, "Succeeded", "pcs/job Succeeded after 1.5s"),
    ],
)
def test_a_set_that_had_not_ended_is_told_with_what_ended_the_run(ending: RunResult, phase: str, words: str) -> None:
    """Of inference sets nobody counts attempts."""
    assert told(ending, outcome(phase, kind=WorkloadType.INFERENCE), seconds=1.5) == [words]


def test_why_a_set_failed_and_what_it_waits_for_stand_in_the_summary() -> None:
    failed = replace(outcome("Failed"), message="out of luck")
    waiting = replace(outcome("Pending"), waits_for=(note("pcs/job", "For a node."),))
    assert told(RunResult.FAILED, failed)[0].endswith("1 attempt (0 restarts): out of luck")
    assert told(RunResult.TIMED_OUT, waiting)[1] == "For a node."


# --- lines -----------------------------------------------------------------------------------------------------------


def line(pod: str, text: str, *, host: str = "", container: str = "", is_remark: bool = False) -> PodLine:
    origin = PodContainer(pod=pod, container=container or "main", host=host or pod, is_alone=not container)
    return PodLine(origin=origin, written_at="", text=text, is_remark=is_remark)


def test_names_in_front_are_as_wide_as_the_widest_so_far() -> None:
    prefixes = Prefixes()
    heard = [line("long-name", "a"), line("b", "b"), line("b", "c", container="side"), line("b", "d", is_remark=True)]
    assert [prefixes.plain_line(one) for one in heard] == [
        "long-name | a",
        "b         | b",
        "b/side    | c",
        "b         ! d",
    ]


def test_an_event_is_told_with_its_time() -> None:
    at = datetime(2026, 1, 1, 12, 30, 5, tzinfo=UTC)
    happening = RunEvent(about="pcs/job", reason="ReplicaRestarting", message="replica 0", at=at)
    assert Prefixes().plain_line(happening) == "12:30:05 pcs/job ReplicaRestarting: replica 0"
    assert plain_lines([Prefixes().row(happening)]) == ["12:30:05 pcs/job ReplicaRestarting: replica 0"]


def test_a_successor_has_the_colour_of_its_predecessor_and_a_neighbour_another() -> None:
    prefixes = Prefixes()
    first, neighbour, successor = (
        prefixes.row(one)[0].tone
        for one in (line("a-0-x", "", host="a-0"), line("a-1-y", "", host="a-1"), line("a-0-z", "", host="a-0"))
    )
    assert first == successor != neighbour


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\tand tab", "| plain\tand tab"),
        ("\x1b[31mred\x1b[0m", "| red"),
        ("\x1b[2J\x1b[1;1Hcleared", "| cleared"),
        ("\x1b]0;title\x07text", "| text"),
        ("\x1b]8;;http://x\x1b\\link", "| link"),
        ("back\x08space\x00", "| backspace"),
        ("cut \x1b", "| cut "),
    ],
)
def test_a_terminal_is_not_made_to_obey_what_a_pod_writes(text: str, shown: str) -> None:
    row = Prefixes().row(line("p", text))
    assert row[1].text == shown
    screen = io.StringIO()
    Console(file=screen, force_terminal=True, color_system=None).print(rich_text([row]), soft_wrap=True)
    assert "\x1b" not in screen.getvalue()
    assert Prefixes().plain_line(line("p", text)) == f"p | {text}"


# --- on virtual time -------------------------------------------------------------------------------------------------


def documents(*, exits: JsonObject, workload: JsonObject, cpu: str = "1") -> list[ManifestDocument]:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    clique = {
        "name": "worker",
        "annotations": {f"simulation.grove.io/{key}": value for key, value in exits.items()},
        "spec": {"roleName": "worker", "replicas": 2, "podSpec": {"containers": [container]}},
    }
    body = {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": "job"},
        "spec": {"replicas": 1, "template": {"cliques": [clique]}, **workload},
    }
    return [ManifestDocument(place="here", body=body)]


WISHES = RunOptions(
    file=Path("here"), timeout_seconds=None, nodes=2, node_resources={"cpu": "4", "pods": "9"},
    kubelet=RunKubelet.SIMULATED, until=Until.FINISHED, output=Format.TEXT,
)  # fmt: skip


def run(docs: list[ManifestDocument], wishes: RunOptions = WISHES) -> Summary:
    async def story() -> Summary:
        return await Run(wishes, docs, LoopClock.starting_now()).run_to_completion()

    return run_virtual(story())


TRAINING = {"workloadType": "Training", "trainingSpec": {"maxRestarts": 2}}


def test_a_job_of_hours_succeeds() -> None:
    summary = run(documents(exits={"exit-after": "3h"}, workload=TRAINING))
    assert (summary.outcome, summary.exit_code, summary.sets[0].phase) == (RunResult.SUCCEEDED, 0, "Succeeded")
    assert 3 * 3600 <= summary.seconds < 3 * 3600 + 5


def test_a_job_that_fails_in_every_attempt_is_told_attempt_by_attempt() -> None:
    summary = run(documents(exits={"exit-after": "1h", "exit-code": "3"}, workload=TRAINING))
    (one,) = summary.sets
    assert (summary.outcome, one.phase, one.restarts) == (RunResult.FAILED, "Failed", 2)
    assert sorted({each.attempt for each in one.failures}) == [1, 2, 3]
    assert {each.exit_code for each in one.failures} == {3}
    assert one.failures[0].last_lines[-1] == "container main ended with exit code 3"
    assert len({each.pod for each in one.failures}) == len(one.failures)


@pytest.mark.parametrize(
    ("seconds", "ending"), [(3599.0, RunResult.TIMED_OUT), (3610.0, RunResult.SUCCEEDED)], ids=["too short", "enough"]
)
def test_a_timeout_counts_from_the_beginning(seconds: float, ending: RunResult) -> None:
    summary = run(documents(exits={"exit-after": "1h"}, workload=TRAINING), replace(WISHES, timeout_seconds=seconds))
    assert summary.outcome == ending
    assert bool(summary.sets[0].waits_for) is (ending is RunResult.TIMED_OUT)
    if ending is RunResult.TIMED_OUT:
        assert summary.seconds == pytest.approx(seconds)


def test_a_set_that_never_fits_ends_the_run_at_once_with_the_cause() -> None:
    large = documents(exits={}, workload=TRAINING, cpu="1000")
    summary = run(large, replace(WISHES, timeout_seconds=60.0))
    assert (summary.outcome, summary.exit_code, summary.sets[0].phase) == (RunResult.CANNOT_START, 1, "Pending")
    assert summary.seconds < 60
    assert summary.sets[0].waits_for[0].text == (
        "2 pods of podgang/job-0 never fit: the largest node has 4 cpu, the pod asks for 1k."
    )
    assert plain_lines(summary_rows(summary))[0].startswith("pcs/job Pending and cannot start after ")


def test_the_first_failure_of_the_summary_is_the_one_that_the_operator_reported() -> None:
    (one,) = run(documents(exits={"exit-after": "1h", "exit-code": "3"}, workload=TRAINING)).sets
    last = next(each for each in one.failures if each.attempt == 3)
    assert f"pod {last.pod}, container main, exit code 3" in one.message


def test_the_summary_has_no_hint_that_needs_the_cluster_of_the_run() -> None:
    crashing = documents(exits={"exit-after": "5s", "exit-code": "3"}, workload={})
    (one,) = run(crashing, replace(WISHES, timeout_seconds=60.0)).sets
    assert "crashes with exit code 3" in one.waits_for[0].text
    assert not any(word in each.text for each in one.waits_for for word in ("grove logs", "kubectl"))


def test_an_inference_set_never_ends_by_itself() -> None:
    serving = documents(exits={}, workload={})
    a_day = replace(WISHES, timeout_seconds=86400.0)
    assert run(serving, a_day).outcome == RunResult.TIMED_OUT
    assert run(serving, replace(a_day, until=Until.AVAILABLE)).outcome == RunResult.AVAILABLE

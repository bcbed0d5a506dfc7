"""How a training set runs and ends, in sentences."""

from typing import Any

import pytest

from grove.api.types.meta import Condition
from grove.api.types.podcliqueset import PodCliqueSet, PodCliqueSetStatus, TrainingSpec
from grove.planner.explain.training import explain_limits, explain_outcome
from grove.planner.explain.why import Explainer
from grove.planner.plan import plan
from tests.dsl import NOW, at, pcs, role, snapshot

ABOUT = "podcliqueset/p"
AGAIN = "to run it again, delete the set and create it again."
FAILED = Condition(type="Failed", status="True", reason="MaxRestartsExceeded", message="2 of 2 restarts were used")


def job(budget: int | None = None, runtime: str | None = None, **status: Any) -> PodCliqueSet:
    return pcs(
        role("a"),
        template={"termination_delay": "0s"},
        spec={
            "workload_type": "Training",
            "training_spec": TrainingSpec(max_restarts=budget, max_runtime=runtime),
        },
        status=PodCliqueSetStatus(observed_generation=1, **status),
    )


@pytest.mark.parametrize(
    ("observed", "texts"),
    [
        pytest.param(job(phase="Running"), [], id="it runs"),
        pytest.param(
            job(phase="Succeeded", restart_count=1),
            ["Nothing: the set succeeded; 1 restart was used. Its pods stay for their logs until it is deleted."],
            id="it succeeded",
        ),
        pytest.param(
            job(phase="Running", conditions=(FAILED,)),
            [
                "the set failed: 2 of 2 restarts were used.",
                f"its pods are being deleted, then its phase becomes Failed; {AGAIN}",
            ],
            id="it fails",
        ),
        pytest.param(
            job(phase="Failed", conditions=(FAILED,)),
            [
                "the set failed: 2 of 2 restarts were used.",
                f"nothing more is created; {AGAIN}",
            ],
            id="it failed",
        ),
    ],
)
def test_how_it_ended(observed: PodCliqueSet, texts: list[str]) -> None:
    assert [sentence.text for sentence in explain_outcome(ABOUT, observed)] == texts


def test_the_pod_that_failed_first_is_the_cause_of_a_failed_set() -> None:
    pod = "pod p-0-a-0-xxxxx, container main, exit code 7 (Error)"
    limit = "it failed and all restarts are used (1 of 1): replica 0: p-0-a: 0 of at least 2 pods are ready"
    failed = Condition(type="Failed", status="True", reason="MaxRestartsExceeded", message=f"{limit}; first: {pod}")
    found = explain_outcome(ABOUT, job(phase="Failed", conditions=(failed,)))[0]
    assert found.text == f"the set failed: {pod}."
    assert found.details == (f"It{limit.removeprefix('it')}.",)


@pytest.mark.parametrize(
    ("observed", "texts"),
    [
        pytest.param(job(3, phase="Running"), [], id="nothing was used"),
        pytest.param(job(3, phase="Running", restart_count=1), ["1 of 3 restarts were used."], id="a restart was"),
        pytest.param(job(runtime="90s", phase="Pending"), [], id="its time has not begun"),
        pytest.param(
            job(runtime="90s", phase="Running", start_time=NOW),
            [f"It must end by {at(90):%H:%M:%S} (in 31 s)."],
            id="its time runs",
        ),
    ],
)
def test_what_is_left_of_its_limits(observed: PodCliqueSet, texts: list[str]) -> None:
    assert [sentence.text for sentence in explain_limits(ABOUT, observed, at(60))] == texts


def test_why_a_set_is_not_complete_ends_with_what_is_left_of_its_limits() -> None:
    observed = job(3, "90s", phase="Pending", restart_count=1, start_time=NOW)
    seen = snapshot(observed)
    told = Explainer(seen, plan(seen, at(60)), at(60)).explain_set()
    assert len(told) > 2
    assert [sentence.text for sentence in told[-2:]] == [
        "1 of 3 restarts were used.",
        f"It must end by {at(90):%H:%M:%S} (in 31 s).",
    ]

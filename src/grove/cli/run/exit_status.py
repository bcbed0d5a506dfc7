"""Decide how a run ended, and build its summary. Pure; `view.py` renders it."""

from collections.abc import Mapping, Sequence
from enum import StrEnum

from grove.api.reasons import ConditionType, FindingReason
from grove.api.types.meta import WireStruct, find_condition
from grove.api.types.podcliqueset import PodCliqueSet, SetPhase
from grove.cli.commands.run import Until
from grove.cli.run.pod_output import ContainerFailure, SetKey
from grove.planner.explain.text import Explanation, has_command


class RunResult(StrEnum):
    SUCCEEDED = "Succeeded"
    AVAILABLE = "Available"
    FAILED = "Failed"
    # A program, an object or a resource is missing, and the private cluster will never get it.
    CANNOT_START = "CannotStart"
    TIMED_OUT = "TimedOut"
    INTERRUPTED = "Interrupted"
    TERMINATED = "Terminated"


# As `timeout` and shells use them: 128 plus the number of the signal.
EXIT_CODES = {
    RunResult.SUCCEEDED: 0,
    RunResult.AVAILABLE: 0,
    RunResult.FAILED: 1,
    RunResult.CANNOT_START: 1,
    RunResult.TIMED_OUT: 124,
    RunResult.INTERRUPTED: 130,
    RunResult.TERMINATED: 143,
}


HOPELESS = (FindingReason.NEVER_FITS, FindingReason.CONTAINER_CANNOT_START, FindingReason.MISSING_DEPENDENCY)


class SetResult(WireStruct):
    """The state of one set at the end of the run."""

    namespace: str
    name: str
    workload_type: str
    phase: str
    # Number of failed attempts that were followed by another.
    restarts: int
    # Why it failed, or what it waits for.
    message: str = ""
    waits_for: tuple[Explanation, ...] = ()
    # By attempt; the one that the operator reported as the first comes first.
    failures: tuple[ContainerFailure, ...] = ()


class Summary(WireStruct):
    outcome: RunResult
    exit_code: int
    seconds: float
    sets: tuple[SetResult, ...]


def compute_result(wanted: Sequence[SetKey], sets: Mapping[SetKey, PodCliqueSet], until: Until) -> RunResult | None:
    """Return how the run ended, or None if it continues. One failed set ends the run."""
    found = [sets.get(key) for key in wanted]
    if any(pcs is not None and pcs.status.phase == SetPhase.FAILED for pcs in found):
        return RunResult.FAILED
    if all(pcs is not None and pcs.status.phase == SetPhase.SUCCEEDED for pcs in found):
        return RunResult.SUCCEEDED
    if until is Until.AVAILABLE and all(pcs is not None and _is_available(pcs) for pcs in found):
        return RunResult.AVAILABLE
    return None


def is_hopeless(pcs: PodCliqueSet, waits_for: Sequence[Explanation]) -> bool:
    """Return whether the set can never start. Nothing is added to a private cluster after the file was applied."""
    is_waiting = pcs.status.phase not in (SetPhase.RUNNING, SetPhase.SUCCEEDED, SetPhase.FAILED)
    return is_waiting and bool(waits_for) and waits_for[0].reason in HOPELESS


def _is_available(pcs: PodCliqueSet) -> bool:
    """Return whether the set is available. A status of an older generation does not count."""
    status = pcs.status
    if status.phase == SetPhase.SUCCEEDED:
        return True
    is_current = status.observed_generation == pcs.metadata.generation
    return is_current and status.available_replicas >= pcs.spec.replicas


def build_summary(
    ending: RunResult,
    wanted: Sequence[SetKey],
    sets: Mapping[SetKey, PodCliqueSet],
    failures: Sequence[ContainerFailure],
    waits: Mapping[SetKey, tuple[Explanation, ...]],
    *,
    seconds: float,
) -> Summary:
    outcomes = tuple(
        _build_result(key, sets.get(key), tuple(each for each in failures if each.of_set == key), waits.get(key, ()))
        for key in wanted
    )
    return Summary(outcome=ending, exit_code=EXIT_CODES[ending], seconds=round(seconds, 3), sets=outcomes)


def _build_result(
    key: SetKey, pcs: PodCliqueSet | None, failures: tuple[ContainerFailure, ...], waits_for: tuple[Explanation, ...]
) -> SetResult:
    status = pcs.status if pcs is not None else None
    failed = find_condition(status.conditions, ConditionType.FAILED) if status is not None else None
    return SetResult(
        namespace=key.namespace,
        name=key.name,
        workload_type=pcs.spec.workload_type if pcs is not None else "",
        phase=(status.phase or SetPhase.PENDING) if status is not None else "Gone",
        restarts=(status.restart_count or 0) if status is not None else 0,
        message=failed.message if failed is not None and failed.status == "True" else "",
        # The cluster ends with the run, so commands that need it would fail.
        waits_for=tuple(one for one in waits_for if not has_command(one)),
        failures=failures,
    )

"""How a run ends, and what is told of it at the end. Pure; the words and colours are `view.py`'s."""

from collections.abc import Mapping, Sequence
from enum import StrEnum

from grove.api.reasons import ConditionType
from grove.api.types.meta import Wire, find_condition
from grove.api.types.podcliqueset import PodCliqueSet, SetPhase
from grove.cli.commands.run import Until
from grove.cli.run.pod_output import Failure, SetKey
from grove.planner.explain.text import Sentence


class Ending(StrEnum):
    SUCCEEDED = "Succeeded"
    AVAILABLE = "Available"
    FAILED = "Failed"
    TIMED_OUT = "TimedOut"
    INTERRUPTED = "Interrupted"
    TERMINATED = "Terminated"


# As `timeout` and shells have them: 128 and the number of the signal.
EXIT_CODES = {
    Ending.SUCCEEDED: 0,
    Ending.AVAILABLE: 0,
    Ending.FAILED: 1,
    Ending.TIMED_OUT: 124,
    Ending.INTERRUPTED: 130,
    Ending.TERMINATED: 143,
}


class SetOutcome(Wire):
    """One set as it stood when the run was over."""

    namespace: str
    name: str
    workload_type: str
    phase: str
    # Lives of its replicas that failed and were followed by another.
    restarts: int
    # Why it failed, or what it waits for.
    message: str = ""
    waits_for: tuple[Sentence, ...] = ()
    # In the order in which they happened.
    failures: tuple[Failure, ...] = ()


class Summary(Wire):
    outcome: Ending
    exit_code: int
    seconds: float
    sets: tuple[SetOutcome, ...]


def ending_of(wanted: Sequence[SetKey], sets: Mapping[SetKey, PodCliqueSet], until: Until) -> Ending | None:
    """None: it goes on. One that failed is the end of all."""
    found = [sets.get(key) for key in wanted]
    if any(pcs is not None and pcs.status.phase == SetPhase.FAILED for pcs in found):
        return Ending.FAILED
    if all(pcs is not None and pcs.status.phase == SetPhase.SUCCEEDED for pcs in found):
        return Ending.SUCCEEDED
    if until is Until.AVAILABLE and all(pcs is not None and _is_available(pcs) for pcs in found):
        return Ending.AVAILABLE
    return None


def _is_available(pcs: PodCliqueSet) -> bool:
    """What the status says, if it speaks of the spec as it is."""
    status = pcs.status
    if status.phase == SetPhase.SUCCEEDED:
        return True
    is_current = status.observed_generation == pcs.metadata.generation
    return is_current and status.available_replicas >= pcs.spec.replicas


def build_summary(
    ending: Ending,
    wanted: Sequence[SetKey],
    sets: Mapping[SetKey, PodCliqueSet],
    failures: Sequence[Failure],
    waits: Mapping[SetKey, tuple[Sentence, ...]],
    *,
    seconds: float,
) -> Summary:
    outcomes = tuple(
        _build_outcome(key, sets.get(key), tuple(each for each in failures if each.of_set == key), waits.get(key, ()))
        for key in wanted
    )
    return Summary(outcome=ending, exit_code=EXIT_CODES[ending], seconds=round(seconds, 3), sets=outcomes)


def _build_outcome(
    key: SetKey, pcs: PodCliqueSet | None, failures: tuple[Failure, ...], waits_for: tuple[Sentence, ...]
) -> SetOutcome:
    status = pcs.status if pcs is not None else None
    failed = find_condition(status.conditions, ConditionType.FAILED) if status is not None else None
    return SetOutcome(
        namespace=key.namespace,
        name=key.name,
        workload_type=pcs.spec.workload_type if pcs is not None else "",
        phase=(status.phase or SetPhase.PENDING) if status is not None else "Gone",
        restarts=(status.restart_count or 0) if status is not None else 0,
        message=failed.message if failed is not None and failed.status == "True" else "",
        waits_for=waits_for,
        failures=failures,
    )

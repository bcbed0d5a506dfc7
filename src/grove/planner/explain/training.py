"""Explain a training set: how it ended, and what is left of its restarts and its time."""

from datetime import datetime

from grove.api.types.meta import Condition
from grove.api.types.podcliqueset import PodCliqueSet, SetPhase
from grove.planner.explain.text import (
    Explanation,
    cause,
    count_noun,
    format_when,
    namespace_flag,
    next_step,
    note,
    verb,
)
from grove.planner.status.availability import EVIDENCE
from grove.planner.training.lifecycle import deadline_of, failure_of, is_finished
from grove.planner.training.restarts import budget_of


def explain_outcome(about: str, pcs: PodCliqueSet) -> tuple[Explanation, ...]:
    """Explain how the set ended. Empty while it runs."""
    failure = failure_of(pcs.status)
    used = pcs.status.restart_count or 0
    restarts = f"{count_noun(used, 'restart')} {verb(used, 'was', 'were')} used"
    if failure is not None:
        is_over = is_finished(pcs)
        then = "nothing more is created" if is_over else "its pods are being deleted, then its phase becomes Failed"
        return (
            _explain_failure(about, failure),
            *_explain_log(about, pcs, failure),
            next_step(about, f"{then}; to run it again, delete the set and create it again."),
        )
    if is_finished(pcs) and pcs.status.phase == SetPhase.SUCCEEDED:
        return (
            note(about, f"Nothing: the set succeeded; {restarts}. Its pods stay for their logs until it is deleted."),
        )
    return ()


def _explain_failure(about: str, failure: Condition) -> Explanation:
    """Explain why the set failed: the pod that failed first, if the condition names one, then the limit."""
    reason, _, first = failure.message.partition(EVIDENCE)
    if not first:
        return cause(about, failure.reason, f"the set failed: {reason}.")
    return cause(about, failure.reason, f"the set failed: {first}.", detail=f"{reason[0].upper()}{reason[1:]}.")


def _explain_log(about: str, pcs: PodCliqueSet, failure: Condition) -> tuple[Explanation, ...]:
    """Name the log of the pod that failed first. Pods that ended by themselves stay for their logs."""
    first = failure.message.partition(EVIDENCE)[2]
    if ", exit code " not in first:
        return ()
    pod = first.removeprefix("pod ").partition(",")[0]
    return (next_step(about, f"the log shows why: grove logs {pod}{namespace_flag(pcs.metadata.namespace)}."),)


def explain_limits(about: str, pcs: PodCliqueSet, now: datetime) -> tuple[Explanation, ...]:
    """Report the restarts used and the deadline. Empty if no restart was used and there is no deadline."""
    used, budget = pcs.status.restart_count or 0, budget_of(pcs)
    deadline = deadline_of(pcs, pcs.status.start_time)
    reported = [note(about, f"{used} of {budget} restarts were used.")] if used else []
    if deadline:
        text = f"It must end by {format_when(deadline, now).removeprefix('about ')}."
        reported.append(note(about, text, until=deadline))
    return tuple(reported)

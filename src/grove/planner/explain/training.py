"""Explain a training set: how it ended, and what is left of its restarts and its time."""

from datetime import datetime

from grove.api.types.podcliqueset import PodCliqueSet, SetPhase
from grove.planner.explain.text import Explanation, cause, count_noun, format_when, next_step, note, verb
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
            cause(about, failure.reason, f"the set failed: {failure.message}."),
            next_step(about, f"{then}; to run it again, delete the set and create it again."),
        )
    if is_finished(pcs) and pcs.status.phase == SetPhase.SUCCEEDED:
        return (
            note(about, f"Nothing: the set succeeded; {restarts}. Its pods stay for their logs until it is deleted."),
        )
    return ()


def explain_limits(about: str, pcs: PodCliqueSet, now: datetime) -> tuple[Explanation, ...]:
    """Report the restarts used and the deadline. Empty if no restart was used and there is no deadline."""
    used, budget = pcs.status.restart_count or 0, budget_of(pcs)
    deadline = deadline_of(pcs, pcs.status.start_time)
    reported = [note(about, f"{used} of {budget} restarts were used.")] if used else []
    if deadline:
        text = f"It must end by {format_when(deadline, now).removeprefix('about ')}."
        reported.append(note(about, text, until=deadline))
    return tuple(reported)

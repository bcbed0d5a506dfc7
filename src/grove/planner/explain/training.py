"""Explain a training set: how it ended, and what is left of its restarts and its time."""

from datetime import datetime

from grove.api.types.podcliqueset import PodCliqueSet, SetPhase
from grove.planner.explain.text import Explanation, cause, counted, next_step, note, verb, when
from grove.planner.training.lifecycle import budget_of, deadline_of, failure_of, is_finished


def over_sentences(about: str, pcs: PodCliqueSet) -> tuple[Explanation, ...]:
    """Explain how the set ended. Empty while it runs."""
    failure = failure_of(pcs.status)
    used = pcs.status.restart_count or 0
    restarts = f"{counted(used, 'restart')} {verb(used, 'was', 'were')} used"
    if failure is not None:
        is_over = is_finished(pcs)
        then = "nothing is made any more" if is_over else "its pods are being deleted, then its phase says Failed"
        return (
            cause(about, failure.reason, f"the set failed: {failure.message}."),
            next_step(about, f"{then}; to run it again, delete it and create it anew."),
        )
    if is_finished(pcs) and pcs.status.phase == SetPhase.SUCCEEDED:
        return (
            note(about, f"Nothing: the set succeeded; {restarts}. Its pods stay for their logs until it is deleted."),
        )
    return ()


def run_sentences(about: str, pcs: PodCliqueSet, now: datetime) -> tuple[Explanation, ...]:
    """Report the restarts used and the deadline. Empty if no restart was used and there is no deadline."""
    used, budget = pcs.status.restart_count or 0, budget_of(pcs)
    deadline = deadline_of(pcs, pcs.status.start_time)
    told = [f"{used} of {budget} restarts were used."] if used else []
    told += [f"It must have ended at {when(deadline, now).removeprefix('about ')}."] if deadline else []
    return tuple(note(about, text) for text in told)

"""How a training set ended, or is ending, in sentences."""

from grove.api.podcliqueset import PodCliqueSet, SetPhase
from grove.planner.sentences import Sentence, cause, next_step, note
from grove.planner.training import failure_of, is_finished


def over_sentences(about: str, pcs: PodCliqueSet) -> tuple[Sentence, ...]:
    """Nothing, while it runs."""
    failure = failure_of(pcs.status)
    restarts = f"{pcs.status.restart_count or 0} restarts were used"
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

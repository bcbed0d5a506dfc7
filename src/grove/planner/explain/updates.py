"""Explain the update of a set that is in progress."""

from collections.abc import Iterable

from grove.api.reasons import FindingReason
from grove.api.types.podcliqueset import PodCliqueSet
from grove.planner.actions import Finding
from grove.planner.explain.text import Explanation, cause, next_step


def explain_update(about: str, pcs: PodCliqueSet, findings: Iterable[Finding]) -> tuple[Explanation, ...]:
    """Explain the update. Empty if no update is in progress."""
    progress = pcs.status.rolling_update_progress
    if progress is None or progress.update_ended_at is not None:
        return ()
    done = f"{pcs.status.updated_replicas} of {pcs.spec.replicas} replicas run the newest templates"
    reported = next((f for f in findings if f.reason in (FindingReason.UPDATING, FindingReason.UPDATE_STALLED)), None)
    if reported is None:
        return (cause(about, FindingReason.UPDATING, f"an update is in progress: {done}."),)
    if reported.reason == FindingReason.UPDATING:
        return (cause(about, reported.reason, f"an update is in progress: {reported.message}; {done}."),)
    return (
        cause(about, reported.reason, f"the update is stalled at {reported.message}."),
        next_step(
            about,
            f"it continues when that is fixed; {done}, the others keep what they run. "
            f"To undo it: grove rollout undo pcs/{pcs.metadata.name}.",
        ),
    )

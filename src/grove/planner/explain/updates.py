"""Explain the update of a set that is in progress."""

from collections.abc import Iterable

from grove.api.reasons import FindingReason
from grove.api.types.podcliqueset import PodCliqueSet
from grove.planner.actions import Finding
from grove.planner.explain.text import Explanation, cause, namespace_flag, next_step


def explain_update(
    about: str, pcs: PodCliqueSet, findings: Iterable[Finding], *, is_explained: bool = False
) -> tuple[Explanation, ...]:
    """Explain the update. Empty if no update is in progress. `is_explained`: another cause explains its stall."""
    progress = pcs.status.rolling_update_progress
    if progress is None or progress.update_ended_at is not None:
        return ()
    done = f"{pcs.status.updated_replicas} of {pcs.spec.replicas} replicas run the newest templates"
    reported = next((f for f in findings if f.reason in (FindingReason.UPDATING, FindingReason.UPDATE_STALLED)), None)
    if reported is None:
        return (cause(about, FindingReason.UPDATING, f"an update is in progress: {done}."),)
    replica = reported.message.partition(":")[0].removesuffix(" is being updated")
    if reported.reason == FindingReason.UPDATING:
        text = f"the update waits at {replica}" if is_explained else f"an update is in progress: {reported.message}"
        return (cause(about, reported.reason, f"{text}; {done}."),)
    flag = namespace_flag(pcs.metadata.namespace)
    where = replica if is_explained else reported.message
    return (
        cause(about, reported.reason, f"the update is stalled at {where}."),
        next_step(about, f"the update continues when that is fixed ({done})."),
        next_step(about, f"or undo the update: grove rollout undo pcs/{pcs.metadata.name}{flag}."),
    )

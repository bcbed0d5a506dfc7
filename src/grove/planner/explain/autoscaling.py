"""Explain the autoscalers of a set and its parts: counts, bounds, metrics, and why one does not scale."""

from collections.abc import Iterable, Sequence

from grove.api.types.horizontalpodautoscaler import HorizontalPodAutoscaler
from grove.api.types.meta import ObjectMeta
from grove.api.values.autoscaler_summary import index_by_target, summarize_autoscaler
from grove.planner.explain.text import Explanation, note

# Sets with many replicas have an autoscaler each; those that cannot scale come first.
LISTED_AUTOSCALERS = 5


def explain_autoscalers(
    autoscalers: Iterable[HorizontalPodAutoscaler], targets: Sequence[tuple[str, str, ObjectMeta]]
) -> tuple[Explanation, ...]:
    """Return a note about each autoscaler of these targets, which are given as KIND/NAME, kind and metadata."""
    by_target = index_by_target(autoscalers)
    found = [
        (about, summarize_autoscaler(autoscaler))
        for about, kind, metadata in targets
        if (autoscaler := by_target.get((metadata.namespace, kind, metadata.name))) is not None
    ]
    found.sort(key=lambda one: not one[1].is_stuck)
    listed = [note(about, f"The autoscaler of {about}: {summary}.") for about, summary in found[:LISTED_AUTOSCALERS]]
    if (more := len(found) - LISTED_AUTOSCALERS) > 0:
        listed.append(note(found[0][0], f"{more} more autoscalers scale parts of the set."))
    return tuple(listed)

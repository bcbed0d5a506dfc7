"""Explain that no operator works on a set: nothing else that the set waits for can happen before one runs."""

from datetime import datetime

from grove.api.reasons import FindingReason
from grove.api.types.podcliqueset import PodCliqueSet
from grove.planner.actions import Plan
from grove.planner.explain.cluster_facts import ClusterFacts
from grove.planner.explain.text import Explanation, cause, next_step

# A running operator acts on a new set within this time.
ATTENTION_SECONDS = 5


def explain_absent_operator(
    about: str, pcs: PodCliqueSet, plan: Plan, facts: ClusterFacts, now: datetime
) -> tuple[Explanation, ...]:
    """Explain an operator that does not run although it has work. Empty if it runs, or has nothing to do."""
    evidence = _find_evidence(pcs, plan, facts, now)
    if not evidence:
        return ()
    return (
        cause(about, FindingReason.NO_OPERATOR, f"{evidence}."),
        next_step(about, "start the operator; it then acts on the set. Its pods: kubectl -n grove-system get pods."),
    )


def _find_evidence(pcs: PodCliqueSet, plan: Plan, facts: ClusterFacts, now: datetime) -> str:
    observed, current = pcs.status.observed_generation, pcs.metadata.generation
    if facts.operator_absence and (plan.chains or observed != current):
        return f"no operator runs: {facts.operator_absence}"
    created = pcs.metadata.creation_timestamp
    waited = int((now - created).total_seconds()) if created else 0
    if observed is None and waited >= ATTENTION_SECONDS:
        return f"no operator has acted on the set since its creation {waited} s ago"
    if observed is not None and observed != current and not pcs.status.last_errors:
        return f"no operator has acted on the latest change of the set (generation {current}, observed {observed})"
    return ""

"""Explain a set that is being deleted: what holds it, and what is left."""

from collections.abc import Sequence
from datetime import datetime

from grove.api import labels
from grove.api.reasons import FindingReason
from grove.api.types.meta import ObjectMeta
from grove.api.types.pod import Pod
from grove.planner.explain.cluster_facts import ClusterFacts
from grove.planner.explain.finalizers import explain_held_objects
from grove.planner.explain.pods import explain_stuck_pods
from grove.planner.explain.text import Explanation, cause, count_noun, effect, next_step, order_by_kind, verb

# A running operator begins to delete the pods within this time.
ATTENTION_SECONDS = 5


def explain_deletion(
    about: str,
    metadata: ObjectMeta,
    children: Sequence[tuple[str, ObjectMeta]],
    pods: Sequence[Pod],
    facts: ClusterFacts,
    now: datetime,
) -> tuple[Explanation, ...]:
    """Explain the deletion of the set. `children` are its groups, cliques and gangs as KIND/NAME, with metadata."""
    left = f"{count_noun(len(pods), 'pod')} still {verb(len(pods), 'exists', 'exist')}"
    holders = (
        *_explain_unattended(about, metadata, pods, now),
        *explain_held_objects([(f"podcliqueset/{metadata.name}", metadata), *children]),
        *explain_stuck_pods(pods, facts),
    )
    state = effect if any(one.kind == "cause" for one in holders) else cause
    return order_by_kind(
        (*holders, state(about, FindingReason.BEING_DELETED, f"the set is being deleted; {left}."))
    )  # fmt: skip


def _explain_unattended(
    about: str, metadata: ObjectMeta, pods: Sequence[Pod], now: datetime
) -> tuple[Explanation, ...]:  # fmt: skip
    """Explain a deletion that no operator works on. A running operator deletes the pods first."""
    deleted = metadata.deletion_timestamp
    waited = int((now - deleted).total_seconds()) if deleted else 0
    is_begun = any(pod.metadata.is_terminating for pod in pods)
    if labels.SET_FINALIZER not in metadata.finalizers or is_begun or waited < ATTENTION_SECONDS:
        return ()
    return (
        cause(about, FindingReason.NO_OPERATOR, f"no operator has acted on the set since its deletion {waited} s ago."),
        next_step(about, "start the operator, or delete the set without one: see Uninstall in docs/how-to/install.md."),
    )

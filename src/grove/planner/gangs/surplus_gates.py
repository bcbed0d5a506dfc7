"""Gates of pods above the minimum, for schedulers that do not place minima first.

These pods stay gated until their gang is placed and the scheduler has tried the scaled gangs of their replica: minima
come before surplus pods. In a placed gang they wait at most some seconds after the base gang was placed. In a gang that
lost its minimum they wait until it recovers: they would use the capacity that it needs.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from grove.api.reasons import ConditionType, FindingReason
from grove.api.types.meta import find_condition
from grove.planner.explain.pods import has_foreign_gate, is_unschedulable
from grove.planner.gangs.gang_state import GangState
from grove.planner.gangs.scheduling_gates import GateDecision, base_placement, closed_gate

SURPLUS_WAIT = timedelta(seconds=10)
# Times on the wire are whole seconds.
ROUNDING = timedelta(seconds=1)


def surplus_wait_ends_at(states: Sequence[GangState]) -> datetime | None:
    """Return when surplus pods stop waiting; None: the base gang is not placed, or since when is not known."""
    base = next((state.gang for state in states if state.desired.is_base), None)
    placed = find_condition(base.status.conditions, ConditionType.SCHEDULED) if base is not None else None
    if placed is None or placed.status != "True" or placed.last_transition_time is None:
        return None
    return placed.last_transition_time + SURPLUS_WAIT + ROUNDING


def surplus_gate(state: GangState, states: Sequence[GangState], gate: GateDecision, now: datetime) -> GateDecision:
    """Decide about the gates of pods above the minimum. `gate` is the decision about the minimum."""
    if not gate.may_go:
        return gate
    placed = base_placement(state.views, base_name=state.desired.name, clique_count=state.clique_count)
    if not placed.may_go:
        return closed_gate(FindingReason.ABOVE_MINIMUM_WAITS, "pods above the minimum wait until the minimum is placed")
    ends_at = surplus_wait_ends_at(states)
    if ends_at is not None and ends_at <= now:
        return gate
    for other in states:
        if not other.desired.is_base and not _was_considered(other):
            return closed_gate(
                FindingReason.ABOVE_MINIMUM_WAITS,
                f"pods above the minimum wait for the minimum of {other.desired.name}",
            )
    return gate


def _was_considered(state: GangState) -> bool:
    """Return whether pods above the minimum need not wait for this gang: it is placed, or cannot be placed now."""
    if state.backoff is not None or not state.is_whole:
        return True
    views = state.views
    if all(clique.placed_count >= clique.min_available for clique in views):
        return True
    if any(clique.existing_count < clique.replicas for clique in views):
        return True
    if state.scheduler_plan.messages:
        return True
    waiting = [pod for clique in views for pod in clique.active if not pod.is_scheduled]
    return any(map(is_unschedulable, waiting)) or any(map(has_foreign_gate, waiting))

"""Pods above the minimum, where the scheduler does not place minima first by itself: we hold them back.

They wait behind our gate until their gang is placed and the scaled gangs of their replica had their chance: a minimum
comes before another gang's extras. Of a gang that is placed they do not wait for ever: some seconds after the base gang
was placed they go anyway. Of one that lost its minimum they wait: they would take the room that it needs to come back.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from grove.api.reasons import ConditionType, FindingReason
from grove.api.types.meta import find_condition
from grove.planner.explain.pods import has_foreign_gate, is_told_full
from grove.planner.gangs.gang_state import GangState
from grove.planner.gangs.scheduling_gates import GateVerdict, base_placement, closed

CHANCE = timedelta(seconds=10)
# Times on the wire are whole seconds.
ROUNDING = timedelta(seconds=1)


def chance_ends_at(states: Sequence[GangState]) -> datetime | None:
    """When extras wait no longer; None: the base gang is not placed, or nobody wrote down since when."""
    base = next((state.gang for state in states if state.blueprint.is_base), None)
    placed = find_condition(base.status.conditions, ConditionType.SCHEDULED) if base is not None else None
    if placed is None or placed.status != "True" or placed.last_transition_time is None:
        return None
    return placed.last_transition_time + CHANCE + ROUNDING


def extras_gate(state: GangState, states: Sequence[GangState], gate: GateVerdict, now: datetime) -> GateVerdict:
    """May the pods above the minimum of this gang go? `gate` is the verdict on its minimum."""
    if not gate.may_go:
        return gate
    placed = base_placement(state.views, base_name=state.blueprint.name, clique_count=state.clique_count)
    if not placed.may_go:
        return closed(FindingReason.EXTRAS_WAIT, "pods above the minimum come after it")
    ends_at = chance_ends_at(states)
    if ends_at is not None and ends_at <= now:
        return gate
    for other in states:
        if not other.blueprint.is_base and not _had_its_chance(other):
            return closed(
                FindingReason.EXTRAS_WAIT, f"pods above the minimum let the minimum of {other.blueprint.name} go first"
            )
    return gate


def _had_its_chance(state: GangState) -> bool:
    """It is placed, the scheduler said that it does not fit, or it cannot be offered to the scheduler now."""
    if state.refusal is not None or not state.is_whole:
        return True
    views = state.views
    if all(clique.placed_count >= clique.min_available for clique in views):
        return True
    if any(clique.existing_count < clique.replicas for clique in views):
        return True
    if state.mirror.said:
        return True
    waiting = [pod for clique in views for pod in clique.active if not pod.is_scheduled]
    return any(map(is_told_full, waiting)) or any(map(has_foreign_gate, waiting))

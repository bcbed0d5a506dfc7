"""Actions of an update in one replica: pods to delete, group replicas to recreate, and the events about it."""

from collections.abc import Iterable
from datetime import datetime

from grove.api.reasons import EventReason, FindingReason
from grove.planner.actions import Action, EventRecord, Finding, Patch
from grove.planner.desired_state import ReplicaBlueprint
from grove.planner.rollout.replica_update import ReplicaRoll
from grove.planner.rollout.stall import StallReason
from grove.planner.snapshot import SetContext
from grove.planner.teardown.pod_deletion import delete_pod
from grove.planner.teardown.recreation import RecreationUnit, is_recorded_on, live_scale, plan_intent
from grove.planner.views import ReplicaView


def plan_update_deletes(replica: ReplicaView, roll: ReplicaRoll) -> tuple[Action, ...]:
    """Their replacements follow in the next pass, when they are seen to leave."""
    return tuple(
        delete_pod(replica.cliques[name], entry.pod.metadata, entry.reason)
        for name, clique in roll.cliques.items()
        for entry in clique.deletes
    )


def plan_update_intents(
    context: SetContext, replica: ReplicaView, blueprint: ReplicaBlueprint, roll: ReplicaRoll
) -> tuple[Patch, ...]:
    """One write per gang that holds replicas to recreate."""
    return tuple(_intents(context, replica, blueprint, roll.takes)) if roll.takes else ()


def _intents(
    context: SetContext, replica: ReplicaView, blueprint: ReplicaBlueprint, units: tuple[RecreationUnit, ...]
) -> Iterable[Patch]:
    for gang in blueprint.gangs:
        current = replica.gangs.get(gang.name)
        ours = [unit for unit in units if is_recorded_on(gang.name, blueprint, unit)]
        if current is None or current.metadata.is_terminating or not ours:
            continue
        which = ", ".join(f"{unit.group} replica {unit.index}" for unit in ours)
        yield plan_intent(
            context,
            current,
            ours,
            scale=live_scale(replica, blueprint, ours),
            seen=[view.incarnation for view in replica.cliques.values()],
            reason="it has a newer template",
            announcement=EventRecord(
                subject=context.subject,
                reason=EventReason.GROUP_REPLICA_DELETED,
                message=f"{which} is recreated: it has a newer template",
            ),
        )


def update_findings(
    context: SetContext, replica: ReplicaView, wait: StallReason | None, now: datetime
) -> Iterable[Finding]:
    """Of the replica whose turn it is."""
    is_stalled = wait is not None and wait.is_stalled(now)
    waits = f": {wait.message}" if wait is not None else ""
    yield Finding(
        about=f"podcliqueset/{context.name}",
        reason=FindingReason.UPDATE_STALLED if is_stalled else FindingReason.UPDATING,
        message=f"replica {replica.index}{waits}" if is_stalled else f"replica {replica.index} is being updated{waits}",
    )

"""Actions of an update in one replica: pods to delete, group replicas to recreate, and the events about it."""

from collections.abc import Iterable
from datetime import datetime

from grove.api.reasons import EventReason, FindingReason
from grove.planner.actions import Action, EventRecord, Finding, Patch
from grove.planner.desired_state import DesiredReplica
from grove.planner.rollout.replica_update import ReplicaRoll
from grove.planner.rollout.stall import StallReason
from grove.planner.snapshot import SetContext
from grove.planner.teardown.pod_deletion import delete_pod
from grove.planner.teardown.recreation import RecreationUnit, is_recorded_on, live_scale, plan_intent
from grove.planner.views import ReplicaView


def plan_update_deletes(replica: ReplicaView, roll: ReplicaRoll) -> tuple[Action, ...]:
    """Delete the old pods. Their replacements are created in the next reconcile."""
    return tuple(
        delete_pod(replica.cliques[name], entry.pod.metadata, entry.reason)
        for name, clique in roll.cliques.items()
        for entry in clique.deletes
    )


def plan_update_intents(
    context: SetContext, replica: ReplicaView, desired: DesiredReplica, roll: ReplicaRoll
) -> tuple[Patch, ...]:
    """Return one write per gang with group replicas to recreate."""
    return tuple(_intents(context, replica, desired, roll.recreate)) if roll.recreate else ()


def _intents(
    context: SetContext, replica: ReplicaView, desired: DesiredReplica, units: tuple[RecreationUnit, ...]
) -> Iterable[Patch]:
    for gang in desired.gangs:
        current = replica.gangs.get(gang.name)
        ours = [unit for unit in units if is_recorded_on(gang.name, desired, unit)]
        if current is None or current.metadata.is_terminating or not ours:
            continue
        which = ", ".join(f"{unit.group} replica {unit.index}" for unit in ours)
        yield plan_intent(
            context,
            current,
            ours,
            scale=live_scale(replica, desired, ours),
            seen=[view.incarnation for view in replica.cliques.values()],
            reason="it has a newer template",
            event=EventRecord(
                subject=context.subject,
                reason=EventReason.GROUP_REPLICA_DELETED,
                message=f"{which} is recreated: it has a newer template",
            ),
        )


def update_findings(
    context: SetContext, replica: ReplicaView, wait: StallReason | None, now: datetime
) -> Iterable[Finding]:
    """Yield the finding about the replica that is updated now."""
    is_stalled = wait is not None and wait.is_stalled(now)
    waits = f": {wait.message}" if wait is not None else ""
    yield Finding(
        about=f"podcliqueset/{context.name}",
        reason=FindingReason.UPDATE_STALLED if is_stalled else FindingReason.UPDATING,
        message=f"replica {replica.index}{waits}" if is_stalled else f"replica {replica.index} is being updated{waits}",
    )

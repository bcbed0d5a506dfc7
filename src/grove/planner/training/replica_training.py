"""Training, seen from one set replica: its restart, and how far it is."""

import msgspec

from grove.planner.actions import Patch
from grove.planner.replica_facts import ReplicaFacts
from grove.planner.teardown.gang_termination import Terminations
from grove.planner.training.lifecycle import ReplicaRun, compute_run
from grove.planner.training.restarts import has_pods_of_earlier_attempt, is_restart_pending, plan_restart_intent


class ReplicaTraining(msgspec.Struct, frozen=True, kw_only=True):
    """The restart of a training replica, and its run. Of an inference replica all fields keep their defaults."""

    # Records the restart that the set's status counts.
    restart_intents: tuple[Patch, ...] = ()
    # No pod is created: the set's status counts a restart that has not begun, or pods of the attempt before exist.
    are_pods_held: bool = False
    # A restart is due but not counted yet, or a mass outage holds it. Nothing is repaired until it is counted.
    is_restart_awaited: bool = False
    run: ReplicaRun | None = None


NO_TRAINING = ReplicaTraining()


def plan_training(facts: ReplicaFacts, terminations: Terminations) -> ReplicaTraining:
    """Return what training adds to the plan of a replica. A restart that is counted is not counted again."""
    context, replica, desired, restarts = facts.context, facts.replica, facts.desired, facts.role.restarts
    if not context.is_training:
        return NO_TRAINING
    is_counted = is_restart_pending(replica, desired, restarts)
    due = "" if is_counted else terminations.restart
    return ReplicaTraining(
        restart_intents=plan_restart_intent(context, replica, desired, restarts),
        are_pods_held=is_counted or has_pods_of_earlier_attempt(replica, desired, facts.recreations, facts.now),
        is_restart_awaited=bool(due) or terminations.is_restart_held,
        run=compute_run(replica, desired, facts.recreations, due, facts.now),
    )

"""Count and execute the restarts of training replicas.

spec/training-jobs.md. The set's status counts a restart first. Then the intent is recorded on the base gang, and the
earlier attempt is deleted. The next attempt waits until the last pod of the earlier one is gone.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec

from grove.api.reasons import EventReason
from grove.api.types.podcliqueset import PodCliqueSet, PodCliqueSetStatus, ReplicaRestarts
from grove.planner.actions import EventRecord, Patch, Severity, Stage, earliest
from grove.planner.desired_state import DesiredReplica
from grove.planner.rollout.clique_update import gone_at
from grove.planner.snapshot import SetContext
from grove.planner.teardown.recreation import (
    REPLICA,
    Recreations,
    count_of,
    live_scale,
    plan_intent,
    plan_recreation_deletes,
    read_record,
)
from grove.planner.views import CliqueView, ReplicaView


class RestartCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The counts for the status of a set; or, in words, why its budget does not allow the restarts."""

    total: int
    by_replica: tuple[ReplicaRestarts, ...]
    exceeded: str = ""


def count_restarts(status: PodCliqueSetStatus, budget: int, due: Mapping[int, int]) -> RestartCounts:
    """Count one restart more for each replica in `due`, which has their recreation counts by index."""
    used, before = status.restart_count or 0, status.replica_restarts or ()
    if used + len(due) > budget:
        return RestartCounts(total=used, by_replica=before, exceeded=_describe_budget(used, budget, len(due)))
    counts = restarts_of(status)
    for index, recreation_count in due.items():
        # Above its recreation count, also after a user removed the status.
        counts[index] = max(counts.get(index, 0), recreation_count) + 1
    by_replica = tuple(ReplicaRestarts(replica_index=i, count=n) for i, n in sorted(counts.items()))
    return RestartCounts(total=used + len(due), by_replica=by_replica)


def budget_of(pcs: PodCliqueSet) -> int:
    return (pcs.spec.training_spec.max_restarts or 0) if pcs.spec.training_spec else 0


def restarts_of(status: PodCliqueSetStatus) -> dict[int, int]:
    return {entry.replica_index: entry.count for entry in status.replica_restarts or ()}


def _describe_budget(used: int, budget: int, needed: int) -> str:
    """Describe why there are too many restarts. The budget may have been lowered below the used restarts."""
    left = budget - used
    if left > 0:
        return f"{needed} replicas need a restart at once, with {left} of {budget} restarts left"
    return f"all restarts are used ({used} of {budget})"


def count_recreations(replica: ReplicaView, desired: DesiredReplica) -> int:
    """Return how often this replica was recreated: by its gang during a recreation, else by its oldest clique.

    The cliques are needed because a user may delete the gang that records the recreation.
    """
    record = read_record(replica.gangs.get(desired.base.name))
    if any(one.key == REPLICA.key for one in record.open):
        return record.count
    views = (replica.cliques.get(clique.name) for clique in desired.cliques)
    return min((count_of(view.incarnation) for view in views if view is not None), default=record.count)


def is_restart_pending(replica: ReplicaView, desired: DesiredReplica, restarts: int) -> bool:
    """Return whether the set's status counts a restart that has not begun."""
    return restarts > count_recreations(replica, desired)


def plan_restart_intent(
    context: SetContext, replica: ReplicaView, desired: DesiredReplica, restarts: int
) -> tuple[Patch, ...]:
    """Record a counted restart on the base gang. If a user deleted the gang, it is recreated first."""
    gang = replica.gangs.get(desired.base.name)
    if gang is None or gang.metadata.is_terminating or not is_restart_pending(replica, desired, restarts):
        return ()
    which = f"replica {replica.index} is restarted"
    return (
        plan_intent(
            context,
            gang,
            [REPLICA],
            scale=live_scale(replica, desired, [REPLICA]),
            seen=(),
            # Not observed plus one: existing objects of this incarnation belong to this restart.
            count=restarts,
            reason="it failed and is restarted",
            event=EventRecord(
                subject=context.subject,
                reason=EventReason.REPLICA_DELETED,
                message=f"{which}: it is deleted and recreated",
                severity=Severity.WARNING,
            ),
        ),
    )


def plan_restart_deletes(
    context: SetContext, replica: ReplicaView, desired: DesiredReplica, recreations: Recreations, now: datetime
) -> tuple[tuple[Stage, ...], datetime | None]:
    """Return the stages of the teardown, and when to reconcile again.

    The next attempt waits until the last pod is gone: two pods of one rank must not write one checkpoint. The cliques
    stay until then, because they own the pods.
    """
    pods, cliques = plan_recreation_deletes(context, replica, desired, recreations)
    terminating = _termination_deadlines(replica, desired, recreations, now)
    return ((pods,), earliest(*terminating)) if pods or terminating else ((cliques,), None)


def has_pods_of_earlier_attempt(
    replica: ReplicaView, desired: DesiredReplica, recreations: Recreations, now: datetime
) -> bool:
    """Return whether a pod of the attempt that a restart ends still exists. Its nodes may run it until it is gone."""
    old = _old_cliques(replica, desired, recreations)
    return any(view.active or view.failed or view.succeeded for view in old) or bool(
        _termination_deadlines(replica, desired, recreations, now)
    )


def _termination_deadlines(
    replica: ReplicaView, desired: DesiredReplica, recreations: Recreations, now: datetime
) -> list[datetime]:
    """Return when each terminating pod of the earlier attempt is gone for certain."""
    return [
        gone_at(pod)
        for view in _old_cliques(replica, desired, recreations)
        for pod in view.terminating
        if now < gone_at(pod)
    ]


def _old_cliques(replica: ReplicaView, desired: DesiredReplica, recreations: Recreations) -> Iterable[CliqueView]:
    for clique in desired.cliques:
        view = replica.cliques.get(clique.name)
        if view is not None and recreations.is_old(clique, view):
            yield view

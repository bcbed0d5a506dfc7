"""Compute how far a training set is: the run of each replica, and whether the set succeeded or failed.

spec/training-jobs.md. `restarts.py` counts and executes restarts, `failure.py` ends a set that failed.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec

from grove.api.reasons import ConditionType, EventReason, Reason
from grove.api.types.meta import Condition, find_condition, is_condition_true
from grove.api.types.pod import first_started_at, pod_finished_at
from grove.api.types.podcliqueset import PodCliqueSet, PodCliqueSetStatus, ReplicaRestarts, SetPhase, WorkloadType
from grove.api.values.durations import parse_duration
from grove.api.values.times import ceil_second
from grove.planner.actions import EventRecord, Severity, earliest
from grove.planner.desired_state import DesiredReplica
from grove.planner.snapshot import SetContext
from grove.planner.teardown.recreation import (
    Recreations,
)
from grove.planner.training.restarts import budget_of, count_recreations, count_restarts
from grove.planner.views import CliqueView, ReplicaView

FINISHED = (SetPhase.SUCCEEDED, SetPhase.FAILED)


class ReplicaRun(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of one replica of a training set."""

    index: int
    # Why it must be restarted now; "": it need not.
    due: str = ""
    # Every observed pod succeeded.
    has_ended: bool = False
    # The status of every clique reports it too.
    is_done: bool = False
    # When the first of its containers started, by the pods that still exist.
    started_at: datetime | None = None
    finished_at: datetime | None = None
    # How often it was recreated so far.
    recreation_count: int = 0


def compute_run(
    replica: ReplicaView, desired: DesiredReplica, recreations: Recreations, due: str, now: datetime
) -> ReplicaRun:
    """Return the progress of a replica. Pods of an earlier attempt count only for the start time of the set."""
    cliques = tuple(desired.cliques)
    present = [replica.cliques[c.name] for c in cliques if recreations.is_present(replica, c)]
    is_whole = len(present) == len(cliques)
    ends = [_finished_at(view) for view in present]
    return ReplicaRun(
        index=replica.index,
        due=due,
        has_ended=is_whole and all(view.is_done or _has_succeeded(view) for view in present),
        is_done=is_whole and all(_has_succeeded(view) for view in present),
        started_at=earliest(*(_started_at(view, now) for view in replica.cliques.values())),
        finished_at=max((end for end in ends if end), default=None),
        recreation_count=count_recreations(replica, desired),
    )


def _has_succeeded(view: CliqueView) -> bool:
    return is_condition_true(view.clique.status.conditions, ConditionType.SUCCEEDED)


def _started_at(view: CliqueView, now: datetime) -> datetime | None:
    """Return when its first container started; not before the pod was created nor in the future (clock skew)."""
    pods = (*view.active, *view.terminating, *view.succeeded, *view.failed)
    starts = ((first_started_at(pod), pod.metadata.creation_timestamp) for pod in pods)
    found = [max(min(start, now), created or start) for start, created in starts if start is not None]
    if found or not view.done_indices:
        return min(found, default=None)
    # Its pods succeeded and are gone. They started after their clique was created.
    return view.clique.metadata.creation_timestamp


def _finished_at(view: CliqueView) -> datetime | None:
    """Return when the last existing pod finished; without pods, when the clique reported its success."""
    ends = [end for pod in view.succeeded if (end := pod_finished_at(pod))]
    reported = find_condition(view.clique.status.conditions, ConditionType.SUCCEEDED)
    return max(ends) if ends else reported.last_transition_time if reported else None


class TrainingOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a training set's status that its run decides."""

    phase: str
    start_time: datetime | None
    restart_count: int
    replica_restarts: tuple[ReplicaRestarts, ...]
    failed: Reason | None = None
    message: str = ""
    # Replicas that this write restarts, with the reason.
    restarting: tuple[ReplicaRun, ...] = ()
    requeue_at: datetime | None = None


def set_phase(*, is_running: bool) -> SetPhase:
    """Return the phase of a set that is not finished. `is_running`: a pod that is not terminating has phase Running."""
    return SetPhase.RUNNING if is_running else SetPhase.PENDING


def is_finished(pcs: PodCliqueSet) -> bool:
    return pcs.spec.workload_type == WorkloadType.TRAINING and pcs.status.phase in FINISHED


def compute_training_outcome(
    pcs: PodCliqueSet, runs: Sequence[ReplicaRun], now: datetime, *, is_running: bool
) -> TrainingOutcome:
    """Decide whether the set succeeded, failed, or has replicas to restart."""
    status = pcs.status
    if is_finished(pcs):
        return TrainingOutcome(
            phase=status.phase or SetPhase.PENDING,
            start_time=status.start_time,
            restart_count=status.restart_count or 0,
            replica_restarts=status.replica_restarts or (),
        )
    starts = [run.started_at for run in runs if run.started_at is not None]
    # Times on the wire are whole seconds; a deadline never comes early.
    start_time = status.start_time or (ceil_second(min(starts)) if starts else None)
    deadline = deadline_of(pcs, start_time)
    training_status = TrainingOutcome(
        phase=set_phase(is_running=is_running),
        start_time=start_time,
        restart_count=status.restart_count or 0,
        replica_restarts=status.replica_restarts or (),
        requeue_at=deadline if deadline is not None and deadline > now else None,
    )
    is_over = deadline is not None and deadline <= now
    if len(runs) == pcs.spec.replicas and runs and all(run.has_ended for run in runs):
        last = max((run.finished_at for run in runs if run.finished_at is not None), default=now)
        if deadline is None or last <= deadline:
            # The cliques must report it first: their status outlives the pods.
            is_reported = all(run.is_done for run in runs)
            return (
                msgspec.structs.replace(training_status, phase=SetPhase.SUCCEEDED, requeue_at=None)
                if is_reported
                else training_status
            )
    if is_over:
        limit = pcs.spec.training_spec.max_runtime if pcs.spec.training_spec else ""
        return msgspec.structs.replace(
            training_status, failed=Reason.MAX_RUNTIME_EXCEEDED, message=f"it ran longer than maxRuntime ({limit})"
        )
    due = tuple(run for run in runs if run.due)
    return _with_restarts(pcs, training_status, due) if due else training_status


def _with_restarts(pcs: PodCliqueSet, training_status: TrainingOutcome, due: tuple[ReplicaRun, ...]) -> TrainingOutcome:
    """Count the restarts of replicas that are due, or fail the set if its budget does not allow them."""
    counts = count_restarts(pcs.status, budget_of(pcs), {run.index: run.recreation_count for run in due})
    if counts.exceeded:
        why = "; ".join(f"replica {run.index}: {run.due}" for run in due)
        return msgspec.structs.replace(
            training_status, failed=Reason.MAX_RESTARTS_EXCEEDED, message=f"it failed and {counts.exceeded}: {why}"
        )
    return msgspec.structs.replace(
        training_status, restart_count=counts.total, replica_restarts=counts.by_replica, restarting=due
    )


def deadline_of(pcs: PodCliqueSet, start_time: datetime | None) -> datetime | None:
    """Return when a set that started then must have ended; None: there is no limit."""
    limit = pcs.spec.training_spec.max_runtime if pcs.spec.training_spec else None
    return start_time + parse_duration(limit) if start_time is not None and limit else None


def failure_of(status: PodCliqueSetStatus) -> Condition | None:
    """Return the condition of a set that failed. Its pods may still exist."""
    reported = find_condition(status.conditions, ConditionType.FAILED)
    return reported if reported is not None and reported.status == "True" else None


def training_events(pcs: PodCliqueSet, context: SetContext, training_status: TrainingOutcome) -> Iterable[EventRecord]:
    budget = budget_of(pcs)
    for run in training_status.restarting:
        yield EventRecord(
            subject=context.subject,
            reason=EventReason.REPLICA_RESTARTING,
            message=f"replica {run.index} is restarted ({training_status.restart_count} of {budget} restarts used): "
            f"{run.due}",
        )
    if training_status.failed is not None:
        yield EventRecord(
            subject=context.subject,
            reason=EventReason.MAX_RUNTIME_EXCEEDED
            if training_status.failed is Reason.MAX_RUNTIME_EXCEEDED
            else EventReason.MAX_RESTARTS_EXCEEDED,
            message=training_status.message,
            severity=Severity.WARNING,
        )
    if training_status.phase == SetPhase.SUCCEEDED and pcs.status.phase != SetPhase.SUCCEEDED:
        yield EventRecord(
            subject=context.subject, reason=EventReason.WORKLOAD_SUCCEEDED, message="every replica succeeded"
        )

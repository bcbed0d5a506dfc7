"""Compute how far a training set is: the run of each replica, and whether the set succeeded or failed.

spec/training-jobs.md. Restarts are in `restarts.py`, the deadline is in `max_runtime.py`.
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
from grove.planner.actions import EventRecord, Patch, Severity, Stage, earliest
from grove.planner.desired_state import ReplicaBlueprint
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

FINISHED = (SetPhase.SUCCEEDED, SetPhase.FAILED)


class ReplicaRun(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of one replica of a training set."""

    index: int
    # Why it must be restarted now; "": it need not.
    due: str = ""
    # Every pod ended well, as far as it can be seen.
    has_ended: bool = False
    # Every clique says so in its status too.
    is_done: bool = False
    # When the first of its containers started, as far as pods still tell.
    started_at: datetime | None = None
    finished_at: datetime | None = None
    # How often it was recreated so far.
    lives: int = 0


def run_of(
    replica: ReplicaView, blueprint: ReplicaBlueprint, recreations: Recreations, due: str, now: datetime
) -> ReplicaRun:
    """Return how far a replica is. What is left of an earlier attempt says only when the set was first started."""
    cliques = tuple(blueprint.cliques)
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
        lives=lives_so_far(replica, blueprint),
    )


def _has_succeeded(view: CliqueView) -> bool:
    return is_condition_true(view.clique.status.conditions, ConditionType.SUCCEEDED)


def _started_at(view: CliqueView, now: datetime) -> datetime | None:
    """When its first container started. A node's clock may be wrong: not before its pod was made, nor in the future."""
    pods = (*view.active, *view.leaving, *view.succeeded, *view.failed)
    starts = ((first_started_at(pod), pod.metadata.creation_timestamp) for pod in pods)
    found = [max(min(start, now), created or start) for start, created in starts if start is not None]
    if found or not view.done_indices:
        return min(found, default=None)
    # Pods ended well and are gone: they had started after their clique was made.
    return view.clique.metadata.creation_timestamp


def _finished_at(view: CliqueView) -> datetime | None:
    """By the pods that are left; what is gone had ended before, or the clique tells when all were known to have."""
    ends = [end for pod in view.succeeded if (end := pod_finished_at(pod))]
    told = find_condition(view.clique.status.conditions, ConditionType.SUCCEEDED)
    return max(ends) if ends else told.last_transition_time if told else None


def lives_so_far(replica: ReplicaView, blueprint: ReplicaBlueprint) -> int:
    """How often this replica was recreated, by its gang while that is under way, else by the oldest of its parts.

    Somebody may take a gang away that says what is to be made anew: then the parts that are not yet, tell it.
    """
    record = read_record(replica.gangs.get(blueprint.base.name))
    if any(one.key == REPLICA.key for one in record.open):
        return record.count
    views = (replica.cliques.get(clique.name) for clique in blueprint.cliques)
    return min((count_of(view.incarnation) for view in views if view is not None), default=record.count)


def is_restart_pending(replica: ReplicaView, blueprint: ReplicaBlueprint, restarts: int) -> bool:
    """Is there a restart that the set's status counts and that was not begun yet?"""
    return restarts > lives_so_far(replica, blueprint)


def plan_restart_intent(
    context: SetContext, replica: ReplicaView, blueprint: ReplicaBlueprint, restarts: int
) -> tuple[Patch, ...]:
    """Recorded on the gang; if somebody took that away, it is made again first."""
    gang = replica.gangs.get(blueprint.base.name)
    if gang is None or gang.metadata.is_terminating or not is_restart_pending(replica, blueprint, restarts):
        return ()
    which = f"replica {replica.index} is restarted"
    return (
        plan_intent(
            context,
            gang,
            [REPLICA],
            scale=live_scale(replica, blueprint, [REPLICA]),
            seen=(),
            # Not one more than was seen: what exists of this life already was made for this very restart.
            count=restarts,
            reason="it failed and is restarted",
            announcement=EventRecord(
                subject=context.subject,
                reason=EventReason.REPLICA_DELETED,
                message=f"{which}: it is torn down and made anew",
                severity=Severity.WARNING,
            ),
        ),
    )


def plan_restart_deletes(
    context: SetContext, replica: ReplicaView, blueprint: ReplicaBlueprint, recreations: Recreations, now: datetime
) -> tuple[tuple[Stage, ...], datetime | None]:
    """The stages of the teardown, and when to look again. The next attempt waits until the last one is gone: two
    pods of one rank must not work at one checkpoint. Cliques are kept for that long, since they know their pods.
    """
    pods, cliques = plan_recreation_deletes(context, replica, blueprint, recreations)
    leaving = _leaving_times(replica, blueprint, recreations, now)
    return ((pods,), earliest(*leaving)) if pods or leaving else ((cliques,), None)


def has_pods_of_earlier_attempt(
    replica: ReplicaView, blueprint: ReplicaBlueprint, recreations: Recreations, now: datetime
) -> bool:
    """Return whether a pod of the attempt that a restart ends still exists. Its nodes may run it until it is gone."""
    old = _old_cliques(replica, blueprint, recreations)
    return any(view.active or view.failed or view.succeeded for view in old) or bool(
        _leaving_times(replica, blueprint, recreations, now)
    )


def _leaving_times(
    replica: ReplicaView, blueprint: ReplicaBlueprint, recreations: Recreations, now: datetime
) -> list[datetime]:
    """Return when each terminating pod of the earlier attempt is gone for certain."""
    return [
        gone_at(pod)
        for view in _old_cliques(replica, blueprint, recreations)
        for pod in view.leaving
        if now < gone_at(pod)
    ]


def _old_cliques(replica: ReplicaView, blueprint: ReplicaBlueprint, recreations: Recreations) -> Iterable[CliqueView]:
    for clique in blueprint.cliques:
        view = replica.cliques.get(clique.name)
        if view is not None and recreations.is_old(clique, view):
            yield view


class TrainingOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a training set's status that its run decides."""

    phase: str
    start_time: datetime | None
    restart_count: int
    replica_restarts: tuple[ReplicaRestarts, ...]
    failed: Reason | None = None
    message: str = ""
    # Replicas that are restarted by this very write, with why.
    restarting: tuple[ReplicaRun, ...] = ()
    requeue_at: datetime | None = None


def phase_of(*, is_running: bool) -> SetPhase:
    """Of both workload types, until a training set is finished. `is_running`: a pod that stays has phase Running."""
    return SetPhase.RUNNING if is_running else SetPhase.PENDING


def is_finished(pcs: PodCliqueSet) -> bool:
    return pcs.spec.workload_type == WorkloadType.TRAINING and pcs.status.phase in FINISHED


def judge(pcs: PodCliqueSet, runs: Sequence[ReplicaRun], now: datetime, *, is_running: bool) -> TrainingOutcome:
    """Judge the set as a whole: succeeded, failed, or with some replicas to restart."""
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
        phase=phase_of(is_running=is_running),
        start_time=start_time,
        restart_count=status.restart_count or 0,
        replica_restarts=status.replica_restarts or (),
        requeue_at=deadline if deadline is not None and deadline > now else None,
    )
    is_over = deadline is not None and deadline <= now
    if len(runs) == pcs.spec.replicas and runs and all(run.has_ended for run in runs):
        last = max((run.finished_at for run in runs if run.finished_at is not None), default=now)
        if deadline is None or last <= deadline:
            # The cliques tell it first: what they say outlives the pods.
            is_told = all(run.is_done for run in runs)
            return (
                msgspec.structs.replace(training_status, phase=SetPhase.SUCCEEDED, requeue_at=None)
                if is_told
                else training_status
            )
    if is_over:
        limit = pcs.spec.training_spec.max_runtime if pcs.spec.training_spec else ""
        return msgspec.structs.replace(
            training_status, failed=Reason.MAX_RUNTIME_EXCEEDED, message=f"it ran longer than maxRuntime ({limit})"
        )
    due = tuple(run for run in runs if run.due)
    return _restarted(pcs, training_status, due) if due else training_status


def budget_of(pcs: PodCliqueSet) -> int:
    return (pcs.spec.training_spec.max_restarts or 0) if pcs.spec.training_spec else 0


def _restarted(pcs: PodCliqueSet, training_status: TrainingOutcome, due: tuple[ReplicaRun, ...]) -> TrainingOutcome:
    budget = budget_of(pcs)
    count = training_status.restart_count + len(due)
    if count > budget:
        why = "; ".join(f"replica {run.index}: {run.due}" for run in due)
        spent = _describe_budget(training_status.restart_count, budget, len(due))
        return msgspec.structs.replace(
            training_status, failed=Reason.MAX_RESTARTS_EXCEEDED, message=f"it failed and {spent}: {why}"
        )
    counts = {entry.replica_index: entry.count for entry in training_status.replica_restarts}
    for run in due:
        # Ahead of its lives, also when somebody took our status away.
        counts[run.index] = max(counts.get(run.index, 0), run.lives) + 1
    return msgspec.structs.replace(
        training_status,
        restart_count=count,
        replica_restarts=tuple(ReplicaRestarts(replica_index=i, count=n) for i, n in sorted(counts.items())),
        restarting=due,
    )


def _describe_budget(used: int, budget: int, needed: int) -> str:
    """Say why so many restarts are too many. The budget may have been lowered below what was used."""
    left = budget - used
    if left > 0:
        return f"{needed} replicas need a restart at once, with {left} of {budget} restarts left"
    return f"all restarts are used ({used} of {budget})"


def deadline_of(pcs: PodCliqueSet, start_time: datetime | None) -> datetime | None:
    """When a set that began then must have ended; None: whenever it likes."""
    limit = pcs.spec.training_spec.max_runtime if pcs.spec.training_spec else None
    return start_time + parse_duration(limit) if start_time is not None and limit else None


def restarts_of(status: PodCliqueSetStatus) -> dict[int, int]:
    return {entry.replica_index: entry.count for entry in status.replica_restarts or ()}


def failure_of(status: PodCliqueSetStatus) -> Condition | None:
    """Why the set failed for good, once that is decided; its pods may not be gone yet."""
    told = find_condition(status.conditions, ConditionType.FAILED)
    return told if told is not None and told.status == "True" else None


def announcements(pcs: PodCliqueSet, context: SetContext, training_status: TrainingOutcome) -> Iterable[EventRecord]:
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
            subject=context.subject, reason=EventReason.WORKLOAD_SUCCEEDED, message="every replica ended well"
        )

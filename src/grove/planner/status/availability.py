"""Decide whether cliques and groups are scheduled, available and in breach. Groups read the results of cliques.

`child_status.py` turns the results into conditions, `teardown/gang_termination.py` acts on breaches.
"""

from collections.abc import Iterable, Sequence
from enum import Enum, auto

import msgspec

from grove.api.reasons import ConditionType, Reason
from grove.api.types.meta import ConditionStatus, is_condition_true
from grove.api.types.podcliquescalinggroup import PodCliqueScalingGroup
from grove.planner.training.failure_evidence import describe_failure, find_first_failure
from grove.planner.views import MOST_FAILURES, CliqueView

LISTED_INDICES = 10
# Before the pod that caused a breach, in its message.
EVIDENCE = "; first: "
AT_ZERO = "it is scaled to zero and needs no pods"


class ConditionResult(msgspec.Struct, frozen=True, kw_only=True):
    """A condition without its times: status, reason, and a message with the numbers."""

    status: ConditionStatus
    reason: Reason
    message: str

    @property
    def is_true(self) -> bool:
        return self.status == ConditionStatus.TRUE


def is_available(clique: CliqueView) -> bool:
    return not clique.is_terminating and clique.available_count >= clique.min_available


def is_scheduled(clique: CliqueView) -> bool:
    return not clique.is_terminating and clique.placed_count >= clique.min_available


def has_minimum(clique: CliqueView) -> bool:
    """Return whether the minimum is available, or all replicas if those are fewer."""
    return not clique.is_terminating and clique.available_count >= min(clique.min_available, clique.replicas)


def is_replica_available(cliques: Sequence[CliqueView | None]) -> bool:
    """Return whether a group replica is available; `None` stands for a clique that does not exist."""
    return all(clique is not None and is_available(clique) and is_scheduled(clique) for clique in cliques)


def was_available(clique: CliqueView) -> bool:
    """Return whether the minimum was ever ready. It stays true; an update in progress does not make it true."""
    is_ready = is_available(clique) and not clique.is_at_zero
    return clique.clique.status.was_available or (is_ready and not is_updating(clique))


def is_updating(clique: CliqueView) -> bool:
    """Return whether the clique, or the group that it is a member of, is being updated."""
    progress = clique.clique.status.rolling_update_progress
    return clique.is_group_rolling or (progress is not None and progress.update_ended_at is None)


def clique_scheduled(clique: CliqueView) -> ConditionResult:
    if clique.is_at_zero:
        return ConditionResult(status=ConditionStatus.TRUE, reason=Reason.SCALED_TO_ZERO, message=AT_ZERO)
    found = f"{clique.placed_count} of at least {clique.min_available} pods have a node"
    if is_scheduled(clique):
        return ConditionResult(status=ConditionStatus.TRUE, reason=Reason.SUFFICIENT_SCHEDULED_PODS, message=found)
    return ConditionResult(status=ConditionStatus.FALSE, reason=Reason.INSUFFICIENT_SCHEDULED_PODS, message=found)


def clique_breach(clique: CliqueView) -> ConditionResult:
    """Decide whether the clique is below its minimum. The order of the checks is that of the specification.

    spec/gang-termination.md, "PodClique Level Detection". A clique at zero is never in breach.
    """
    if clique.is_at_zero:
        return ConditionResult(status=ConditionStatus.FALSE, reason=Reason.SCALED_TO_ZERO, message=AT_ZERO)
    if clique.is_finite:
        return _finite_breach(clique)
    found = f"{clique.ready_count} of at least {clique.min_available} pods are ready"
    if clique.ready_count >= clique.min_available:
        return ConditionResult(status=ConditionStatus.FALSE, reason=Reason.SUFFICIENT_READY_PODS, message=found)
    if not clique.has_served:
        return ConditionResult(status=ConditionStatus.FALSE, reason=Reason.NEVER_AVAILABLE, message=found)
    if is_updating(clique):
        return ConditionResult(status=ConditionStatus.UNKNOWN, reason=Reason.UPDATE_IN_PROGRESS, message=found)
    return ConditionResult(status=ConditionStatus.TRUE, reason=Reason.INSUFFICIENT_READY_PODS, message=found)


def _finite_breach(clique: CliqueView) -> ConditionResult:
    """Decide for a training set: once it was available, only pods that are ready, finishing or succeeded count.

    Before that a failed pod is a breach only if the pods that start cannot reach the minimum. Only ready pods end a
    breach: a replacement may wait for capacity until the delay has passed.
    """
    found = (
        f"{clique.available_count} of at least {clique.min_available} pods are ready or succeeded, "
        f"{clique.starting_count} starting, {clique.failed_count} failed"
    )
    if clique.failed_indices:
        found += f"; given up after {MOST_FAILURES} failures: {_list_indices(clique.failed_indices)}"
    if clique.has_given_up:
        return _finite_verdict(clique, Reason.POD_FAILED, found)
    if clique.available_count >= clique.min_available:
        return ConditionResult(status=ConditionStatus.FALSE, reason=Reason.SUFFICIENT_READY_PODS, message=found)
    if clique.failed_count and clique.available_count + clique.starting_count < clique.min_available:
        return _finite_verdict(clique, Reason.POD_FAILED, found)
    is_breached = is_condition_true(clique.clique.status.conditions, ConditionType.MIN_AVAILABLE_BREACHED)
    if is_breached or clique.clique.status.was_available:
        return _finite_verdict(clique, Reason.INSUFFICIENT_READY_PODS, found)
    return ConditionResult(status=ConditionStatus.FALSE, reason=Reason.NEVER_AVAILABLE, message=found)


def _finite_verdict(clique: CliqueView, reason: Reason, found: str) -> ConditionResult:
    """Return a breach together with the pod that caused it."""
    failure = find_first_failure(clique)
    evidence = f"{EVIDENCE}{describe_failure(failure)}" if failure is not None else ""
    return ConditionResult(status=ConditionStatus.TRUE, reason=reason, message=f"{found}{evidence}")


def _list_indices(indices: Iterable[int]) -> str:
    listed = sorted(indices)
    more = f" and {len(listed) - LISTED_INDICES} more" if len(listed) > LISTED_INDICES else ""
    return f"index {', '.join(map(str, listed[:LISTED_INDICES]))}{more}"


class ReplicaHealth(Enum):
    """The health of one group replica."""

    BREACHED = auto()
    UNKNOWN = auto()
    STARTING = auto()
    GOOD = auto()


class GroupReplica(msgspec.Struct, frozen=True, kw_only=True):
    """One replica of a group; `None` stands for a clique that does not exist."""

    cliques: tuple[CliqueView | None, ...]
    # Its recreation is recorded and not finished.
    is_coming_back: bool = False
    # A clique was not created yet: its PodGang does not exist, or never referenced a pod of it. Or it was scaled in and
    # is wanted again before it is gone.
    is_unmade: bool = False


def group_replica_health(replica: GroupReplica) -> ReplicaHealth:
    """Return the health of a replica. It is unknown only while the replica is recreated, or after it lost a clique."""
    verdicts = [clique_breach(clique) for clique in replica.cliques if clique is not None and not clique.is_terminating]
    if any(verdict.is_true for verdict in verdicts):
        return ReplicaHealth.BREACHED
    if replica.is_coming_back:
        return ReplicaHealth.UNKNOWN
    if replica.is_unmade or any(verdict.reason == Reason.NEVER_AVAILABLE for verdict in verdicts):
        return ReplicaHealth.STARTING
    is_short = len(verdicts) < len(replica.cliques)
    if is_short or any(verdict.status == ConditionStatus.UNKNOWN for verdict in verdicts):
        return ReplicaHealth.UNKNOWN
    return ReplicaHealth.GOOD


def is_group_updating(group: PodCliqueScalingGroup) -> bool:
    progress = group.status.rolling_update_progress
    return progress is not None and progress.update_ended_at is None


def group_verdict(group: PodCliqueScalingGroup, replicas: Sequence[GroupReplica]) -> ConditionResult:
    """Decide whether the group is below its minimum. Unknown during an update; a group without replicas is at zero."""
    if not replicas:
        return ConditionResult(status=ConditionStatus.FALSE, reason=Reason.SCALED_TO_ZERO, message=AT_ZERO)
    found = group_breach(map(group_replica_health, replicas), group.spec.min_available)
    if is_group_updating(group):
        return ConditionResult(status=ConditionStatus.UNKNOWN, reason=Reason.UPDATE_IN_PROGRESS, message=found.message)
    return found


def group_breach(healths: Iterable[ReplicaHealth], min_available: int) -> ConditionResult:
    """Return True if too few replicas can be healthy, Unknown while that is not certain."""
    seen = tuple(healths)
    good = seen.count(ReplicaHealth.GOOD)
    breached = seen.count(ReplicaHealth.BREACHED)
    unknown = seen.count(ReplicaHealth.UNKNOWN)
    found = f"{good} of at least {min_available} replicas are healthy, {breached} in breach, {unknown} unknown"
    if breached and good + unknown < min_available:
        return ConditionResult(
            status=ConditionStatus.TRUE, reason=Reason.INSUFFICIENT_AVAILABLE_REPLICAS, message=found
        )
    if good < min_available <= good + unknown and (breached or unknown):
        return ConditionResult(status=ConditionStatus.UNKNOWN, reason=Reason.REPLICA_STATE_UNKNOWN, message=found)
    if good < min_available:
        return ConditionResult(status=ConditionStatus.FALSE, reason=Reason.NEVER_AVAILABLE, message=found)
    return ConditionResult(status=ConditionStatus.FALSE, reason=Reason.SUFFICIENT_AVAILABLE_REPLICAS, message=found)

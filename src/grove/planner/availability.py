"""Ready, scheduled, available, in breach: each level reads the level below and answers for its own.

Not here: what is done about a breach. Conditions are made of these verdicts in `status.py`.
"""

from collections.abc import Iterable, Sequence
from enum import Enum, auto

import msgspec

from grove.api.meta import ConditionStatus, is_condition_true
from grove.api.reasons import ConditionType, Reason
from grove.api.scalinggroup import PodCliqueScalingGroup
from grove.planner.views import CliqueView


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """A condition without its times: status, reason and the numbers behind it in words."""

    status: ConditionStatus
    reason: Reason
    message: str

    @property
    def is_true(self) -> bool:
        return self.status == ConditionStatus.TRUE


def is_available(clique: CliqueView) -> bool:
    return not clique.is_leaving and clique.available_count >= clique.min_available


def is_scheduled(clique: CliqueView) -> bool:
    return not clique.is_leaving and clique.placed_count >= clique.min_available


def was_available(clique: CliqueView) -> bool:
    """Sticky: true from the first time the minimum is ready, for the rest of the clique's life; not by an update."""
    return clique.clique.status.was_available or (is_available(clique) and not is_updating(clique))


def is_updating(clique: CliqueView) -> bool:
    """A standalone clique while it rolls; a member while its group does."""
    progress = clique.clique.status.rolling_update_progress
    return clique.is_group_rolling or (progress is not None and progress.update_ended_at is None)


def clique_scheduled(clique: CliqueView) -> Verdict:
    found = f"{clique.placed_count} of at least {clique.min_available} pods have a node"
    if is_scheduled(clique):
        return Verdict(status=ConditionStatus.TRUE, reason=Reason.SUFFICIENT_SCHEDULED_PODS, message=found)
    return Verdict(status=ConditionStatus.FALSE, reason=Reason.INSUFFICIENT_SCHEDULED_PODS, message=found)


def clique_breach(clique: CliqueView) -> Verdict:
    """Below its minimum? The order of the questions is the specification.

    spec/gang-termination.md, "PodClique Level Detection".
    """
    if clique.is_finite:
        return _finite_breach(clique)
    found = f"{clique.ready_count} of at least {clique.min_available} pods are ready"
    if clique.ready_count >= clique.min_available:
        return Verdict(status=ConditionStatus.FALSE, reason=Reason.SUFFICIENT_READY_PODS, message=found)
    if not clique.clique.status.was_available:
        return Verdict(status=ConditionStatus.FALSE, reason=Reason.NEVER_AVAILABLE, message=found)
    if is_updating(clique):
        return Verdict(status=ConditionStatus.UNKNOWN, reason=Reason.UPDATE_IN_PROGRESS, message=found)
    return Verdict(status=ConditionStatus.TRUE, reason=Reason.INSUFFICIENT_READY_PODS, message=found)


def _finite_breach(clique: CliqueView) -> Verdict:
    """Of a training set: a failed pod is a fact, not a slow start; but while others start, nothing is lost yet."""
    found = (
        f"{clique.available_count} of at least {clique.min_available} pods are ready or ended well, "
        f"{clique.starting_count} starting, {len(clique.failed)} failed"
    )
    if clique.available_count >= clique.min_available:
        return Verdict(status=ConditionStatus.FALSE, reason=Reason.SUFFICIENT_READY_PODS, message=found)
    is_short = clique.available_count + clique.starting_count < clique.min_available
    if clique.failed and is_short:
        return Verdict(status=ConditionStatus.TRUE, reason=Reason.POD_FAILED, message=found)
    # Only what is ready heals a breach: a replacement may wait for room until the delay is over.
    if is_condition_true(clique.clique.status.conditions, ConditionType.MIN_AVAILABLE_BREACHED):
        return Verdict(status=ConditionStatus.TRUE, reason=Reason.INSUFFICIENT_READY_PODS, message=found)
    if not clique.clique.status.was_available:
        return Verdict(status=ConditionStatus.FALSE, reason=Reason.NEVER_AVAILABLE, message=found)
    if is_short:
        return Verdict(status=ConditionStatus.TRUE, reason=Reason.INSUFFICIENT_READY_PODS, message=found)
    return Verdict(status=ConditionStatus.FALSE, reason=Reason.SUFFICIENT_READY_PODS, message=found)


class ReplicaHealth(Enum):
    """How one group replica stands, as seen by its group."""

    BREACHED = auto()
    UNKNOWN = auto()
    STARTING = auto()
    GOOD = auto()


def group_replica_health(cliques: Sequence[CliqueView | None]) -> ReplicaHealth:
    """`None` stands for a clique that does not exist."""
    verdicts = [clique_breach(clique) for clique in cliques if clique is not None and not clique.is_leaving]
    if any(verdict.is_true for verdict in verdicts):
        return ReplicaHealth.BREACHED
    if len(verdicts) < len(cliques) or any(verdict.status == ConditionStatus.UNKNOWN for verdict in verdicts):
        return ReplicaHealth.UNKNOWN
    if any(verdict.reason == Reason.NEVER_AVAILABLE for verdict in verdicts):
        return ReplicaHealth.STARTING
    return ReplicaHealth.GOOD


def is_group_updating(group: PodCliqueScalingGroup) -> bool:
    progress = group.status.rolling_update_progress
    return progress is not None and progress.update_ended_at is None


def group_verdict(group: PodCliqueScalingGroup, replicas: Sequence[Sequence[CliqueView | None]]) -> Verdict:
    """The group's own condition; while it rolls, nobody can tell."""
    found = group_breach(map(group_replica_health, replicas), group.spec.min_available)
    if is_group_updating(group):
        return Verdict(status=ConditionStatus.UNKNOWN, reason=Reason.UPDATE_IN_PROGRESS, message=found.message)
    return found


def group_breach(healths: Iterable[ReplicaHealth], min_available: int) -> Verdict:
    """True when too few replicas can still be good; Unknown when that cannot be told yet."""
    seen = tuple(healths)
    good = seen.count(ReplicaHealth.GOOD)
    breached = seen.count(ReplicaHealth.BREACHED)
    unknown = seen.count(ReplicaHealth.UNKNOWN)
    found = f"{good} of at least {min_available} replicas are good, {breached} in breach, {unknown} unknown"
    if breached and good + unknown < min_available:
        return Verdict(status=ConditionStatus.TRUE, reason=Reason.INSUFFICIENT_AVAILABLE_REPLICAS, message=found)
    if good < min_available <= good + unknown and (breached or unknown):
        return Verdict(status=ConditionStatus.UNKNOWN, reason=Reason.REPLICA_STATE_UNKNOWN, message=found)
    return Verdict(status=ConditionStatus.FALSE, reason=Reason.SUFFICIENT_AVAILABLE_REPLICAS, message=found)

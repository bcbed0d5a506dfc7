"""Back-off after the API server rejected pods: which gang keeps its pods, which releases them, and when to retry.

Two half-created gangs must not starve each other (docs/explanation/architecture.md, "Writes that fail").
"""

from datetime import datetime, timedelta

import msgspec

from grove.planner.actions import CreateRejection
from grove.planner.views import CliqueView

HOLD = timedelta(seconds=30)
FIRST_RETRY = timedelta(seconds=1)
SECOND_RETRY = timedelta(seconds=30)
LONGEST_RETRY = timedelta(minutes=5)
# Gangs ahead try this much earlier each, so that they never take pods from each other.
TURN = timedelta(seconds=5)


class CreateBackoff(msgspec.Struct, frozen=True, kw_only=True):
    """What to do about a gang whose pods are refused."""

    message: str
    since: datetime
    retry_at: datetime
    # Not None: the gang is below its minima and holds gated pods that others could use; give them back then.
    give_back_at: datetime | None


def pods_failure_key(clique_name: str) -> str:
    return f"pods/{clique_name}"


def is_about_pods(failure: CreateRejection) -> bool:
    return failure.key.startswith("pods/")


def gang_refusal(
    cliques: tuple[CliqueView, ...], failures: tuple[CreateRejection, ...], *, gangs_ahead_count: int
) -> CreateBackoff | None:
    """The refusal of a gang's pods, if there is one; it ends when all of them could be created."""
    keys = {pods_failure_key(clique.name) for clique in cliques}
    refused = [failure for failure in failures if failure.key in keys]
    if not refused:
        return None
    latest = max(refused, key=lambda failure: (failure.last_at, failure.key))
    attempts = max(failure.count for failure in refused)
    hold = HOLD if attempts == 1 else timedelta(0)
    return CreateBackoff(
        message=latest.message,
        since=min(failure.first_at for failure in refused),
        retry_at=latest.last_at + hold + _pause(attempts) + TURN * gangs_ahead_count,
        give_back_at=latest.last_at + hold if is_below_minima(cliques) and not has_started(cliques) else None,
    )


def _pause(attempts: int) -> timedelta:
    if attempts == 1:
        return FIRST_RETRY
    return min(SECOND_RETRY * (1 << min(attempts - 2, 8)), LONGEST_RETRY)


def is_below_minima(cliques: tuple[CliqueView, ...]) -> bool:
    return any(clique.existing_count < clique.min_available for clique in cliques)


def has_started(cliques: tuple[CliqueView, ...]) -> bool:
    """Some pod is past our gate: the first placement of this gang has begun, and completeness guards no more.

    Ended and leaving pods tell it too: a gang whose last running pod failed is not a new one.
    """
    return any(clique.done_count for clique in cliques) or any(
        not pod.is_behind_our_gate
        for clique in cliques
        for pods in (clique.active, clique.failed, clique.leaving)
        for pod in pods
    )

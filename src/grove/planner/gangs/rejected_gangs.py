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
    """The back-off of a gang whose pods the API server rejects."""

    message: str
    since: datetime
    retry_at: datetime
    # Not None: the gang is below its minima and its gated pods block others; they are deleted then.
    release_at: datetime | None


def pods_failure_key(clique_name: str) -> str:
    return f"pods/{clique_name}"


def is_about_pods(failure: CreateRejection) -> bool:
    return failure.key.startswith("pods/")


def find_gang_backoff(
    cliques: tuple[CliqueView, ...], failures: tuple[CreateRejection, ...], *, gangs_ahead_count: int
) -> CreateBackoff | None:
    """Return the back-off of a gang with rejected pods. It ends when all of them were created."""
    keys = {pods_failure_key(clique.name) for clique in cliques}
    rejected = [failure for failure in failures if failure.key in keys]
    if not rejected:
        return None
    latest = max(rejected, key=lambda failure: (failure.last_at, failure.key))
    attempts = max(failure.count for failure in rejected)
    hold = HOLD if attempts == 1 else timedelta(0)
    return CreateBackoff(
        message=latest.message,
        since=min(failure.first_at for failure in rejected),
        retry_at=latest.last_at + hold + _pause(attempts) + TURN * gangs_ahead_count,
        release_at=latest.last_at + hold if is_below_minima(cliques) and not has_started(cliques) else None,
    )


def _pause(attempts: int) -> timedelta:
    if attempts == 1:
        return FIRST_RETRY
    return min(SECOND_RETRY * (1 << min(attempts - 2, 8)), LONGEST_RETRY)


def is_below_minima(cliques: tuple[CliqueView, ...]) -> bool:
    return any(clique.existing_count < clique.min_available for clique in cliques)


def has_started(cliques: tuple[CliqueView, ...]) -> bool:
    """Return whether a pod passed Grove's gate, so that the gang need not be complete any more.

    Ended and terminating pods count too: a gang whose last running pod failed is not a new one.
    """
    return any(clique.done_count for clique in cliques) or any(
        not pod.is_gated
        for clique in cliques
        for pods in (clique.active, clique.failed, clique.terminating)
        for pod in pods
    )

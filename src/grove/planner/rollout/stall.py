"""Stalled updates: find what a step waits for, and when to report it in `UpdateStalled`."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from grove.api.reasons import ConditionType, Reason
from grove.api.types.meta import find_condition
from grove.api.types.pod import Pod
from grove.planner.explain.containers import find_trouble
from grove.planner.views import CliqueView, template_hash_of

# A step that takes longer is reported as stalled. Slow pods may need minutes.
STALLED_AFTER = timedelta(seconds=60)
_EPOCH = datetime.fromtimestamp(0, UTC)


class StallReason(msgspec.Struct, frozen=True, kw_only=True):
    """The reason why a step waits. A cause that needs a user is reported at once."""

    reason: Reason
    message: str
    # None: it waits for the operator's own next writes.
    since: datetime | None
    is_hopeless: bool = False

    def is_stalled(self, now: datetime) -> bool:
        return self.is_hopeless or (self.stalled_at is not None and now >= self.stalled_at)

    @property
    def stalled_at(self) -> datetime | None:
        return None if self.since is None else self.since + STALLED_AFTER


_REMEDIES: dict[str, str] = {
    Reason.NO_CAPACITY: "add capacity, or undo the change",
    Reason.MINIMUM_NOT_MET: "repair what is not ready, or undo the change",
    Reason.PODS_REJECTED: "allow the pods, or undo the change",
}


def remedy(reason: Reason) -> str:
    """Return what a user can do about a stalled update."""
    return _REMEDIES.get(reason, "correct the template, or undo the change")


def longest(waits: Iterable[StallReason | None]) -> StallReason | None:
    """Return the reason to report: one that needs a user, else the longest."""
    return min(
        (wait for wait in waits if wait is not None),
        key=lambda wait: (not wait.is_hopeless, wait.since is None, wait.since or _EPOCH),
        default=None,
    )


def wait_for_new_pods(views: Sequence[CliqueView], target: str | None) -> StallReason:
    """Return why pods of the new template are not ready; `target` None: the template of each clique."""
    waiting = [
        pod
        for view in views
        for pod in view.active
        if not pod.is_ready and template_hash_of(pod.metadata) == (target or view.template_hash)
    ]
    of = f" of {', '.join(view.name for view in views)}" if views else ""
    missing = StallReason(reason=Reason.PODS_NOT_READY, message=f"new pods{of} do not exist yet", since=None)
    return longest(map(_wait_for, waiting)) or missing


def wait_for_minimum(view: CliqueView, started_at: datetime | None) -> StallReason:
    found = f"{view.ready_count} of at least {view.min_available} pods of {view.name} are ready"
    cause = longest(_wait_for(pod) for pod in view.active if not pod.is_ready)
    why = f": {cause.message}" if cause else ""
    since = cause.since if cause else None
    return StallReason(
        reason=Reason.MINIMUM_NOT_MET,
        message=f"no further ready pod is replaced, because {found}{why}",
        since=None if since is None else max(since, _last_change(view), started_at or _EPOCH),
        is_hopeless=cause is not None and cause.is_hopeless,
    )


def _last_change(view: CliqueView) -> datetime:
    """Return the creation time of the newest pod: until then there was progress."""
    return max((_created_at(pod) for pod in view.active), default=view.clique.metadata.creation_timestamp or _EPOCH)


def _wait_for(pod: Pod) -> StallReason:
    name = pod.metadata.name
    if not pod.is_scheduled:
        reported = find_condition(pod.status.conditions, ConditionType.POD_SCHEDULED)
        if reported is not None and reported.status == "False" and reported.reason == Reason.UNSCHEDULABLE:
            return StallReason(
                reason=Reason.NO_CAPACITY, message=f"pod {name} has no node: {reported.message}", since=_created_at(pod)
            )
        return StallReason(reason=Reason.NO_CAPACITY, message=f"pod {name} has no node yet", since=_created_at(pod))
    if trouble := find_trouble(pod):
        return StallReason(
            reason=Reason.PODS_NOT_STARTING, message=f"pod {name}: {trouble}", since=_created_at(pod), is_hopeless=True
        )
    ready = find_condition(pod.status.conditions, ConditionType.READY)
    # It may have been ready before: count from the transition.
    since = max(_created_at(pod), (ready.last_transition_time if ready else None) or _EPOCH)
    return StallReason(reason=Reason.PODS_NOT_READY, message=f"pod {name} is not ready yet", since=since)


def _created_at(pod: Pod) -> datetime:
    return pod.metadata.creation_timestamp or _EPOCH

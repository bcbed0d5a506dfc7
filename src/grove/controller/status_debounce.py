"""Debouncing of status writes: several changes of counts within a second become one write.

While a large set is created, thousands of counts change at once. Then status writes of counts and of transitions wait
longer, so that they do not delay creates and deletes. The status of the set itself is one write, and waits at most one
second.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from grove.api.types.meta import Uid
from grove.planner.actions import WHOLE_SET, StatusPriority, StatusWrite

# The most count-only status writes of one set.
COUNTS_PER_SECOND = 50
# How long a transition waits while most of the set is still starting.
TRANSITION_PATIENCE = timedelta(seconds=10)


class StatusDebouncer:
    """A record of since when each status of a set is out of date, until it is written."""

    def __init__(self, settle: timedelta) -> None:
        self._settle = settle
        self._since: dict[Uid, dict[Uid, datetime]] = {}
        self._requeue_at: dict[Uid, datetime] = {}

    def choose(self, key: Uid, statuses: Sequence[StatusWrite], now: datetime) -> list[StatusWrite]:
        """Return the statuses to write now, the most important first: facts, the set itself, transitions, counts."""
        known = self._since.get(key, {})
        since = {status.uid: known.get(status.uid, now) for status in statuses}
        patience = self._patience(statuses)
        chosen: list[StatusWrite] = []
        waits: list[datetime] = []
        for status in statuses:
            longest = patience[status.priority]
            until = since[status.uid] + (min(self._settle, longest) if status.replica_index == WHOLE_SET else longest)
            if now >= until:
                chosen.append(status)
            else:
                waits.append(until)
        self.forget(key)
        if since:
            self._since[key] = since
        if waits:
            self._requeue_at[key] = min(waits)
        return sorted(chosen, key=_write_order)

    def mark_written(self, key: Uid, uids: Iterable[Uid]) -> None:
        """Reset the delay of written statuses; a status whose write failed has waited already."""
        since = self._since.get(key, {})
        for uid in uids:
            since.pop(uid, None)
        if not since:
            self._since.pop(key, None)

    def requeue_at(self, key: Uid) -> datetime | None:
        return self._requeue_at.get(key)

    def forget(self, key: Uid) -> None:
        self._since.pop(key, None)
        self._requeue_at.pop(key, None)

    def _patience(self, statuses: Sequence[StatusWrite]) -> dict[StatusPriority, timedelta]:
        is_crowd = sum(status.priority is StatusPriority.COUNTS for status in statuses) > COUNTS_PER_SECOND
        return {
            StatusPriority.DURABLE: timedelta(0),
            StatusPriority.TRANSITION: TRANSITION_PATIENCE if is_crowd else timedelta(0),
            StatusPriority.COUNTS: max(self._settle, timedelta(seconds=len(statuses) / COUNTS_PER_SECOND)),
        }


def _write_order(status: StatusWrite) -> int:
    if status.priority is StatusPriority.DURABLE:
        return 0
    return 1 if status.replica_index == WHOLE_SET else 2 if status.priority is StatusPriority.TRANSITION else 3

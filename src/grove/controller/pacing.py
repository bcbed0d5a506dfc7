"""Which statuses are written now and which wait for the next change: ten counts in a second become one write.

While a large set is built, thousands of counts change at once: then they wait longer, so that telling about the work
does not hold up the work.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from grove.api.meta import Uid
from grove.planner.actions import StatusWrite, Urgency

# Statuses of one set that only count, at most.
COUNTS_PER_SECOND = 50


class StatusPacer:
    """Remembers since when each status of a set has been out of date."""

    def __init__(self, settle: timedelta) -> None:
        self._settle = settle
        self._since: dict[Uid, dict[Uid, datetime]] = {}

    def choose(self, key: Uid, statuses: Sequence[StatusWrite], now: datetime) -> list[StatusWrite]:
        """The statuses to write now: facts, news, and counts that waited long enough."""
        settle = self._settle_of(len(statuses))
        known = self._since.get(key, {})
        waiting: dict[Uid, datetime] = {}
        chosen: list[StatusWrite] = []
        for status in statuses:
            since = known.get(status.uid, now)
            if status.urgency is not Urgency.COUNT or now >= since + settle:
                chosen.append(status)
            else:
                waiting[status.uid] = since
        if waiting:
            self._since[key] = waiting
        else:
            self._since.pop(key, None)
        return chosen

    def wake_at(self, key: Uid) -> datetime | None:
        waiting = self._since.get(key)
        return min(waiting.values()) + self._settle_of(len(waiting)) if waiting else None

    def _settle_of(self, count: int) -> timedelta:
        return max(self._settle, timedelta(seconds=count / COUNTS_PER_SECOND))

    def forget(self, key: Uid) -> None:
        self._since.pop(key, None)

"""Which statuses are written now and which wait for the next change: ten counts in a second become one write.

While a large set is built, thousands of counts change at once: then they wait longer, and so does good news, so that
telling about the work does not hold up the work. The set's own status is one write, and waits a second at most.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from grove.api.meta import Uid
from grove.planner.actions import WHOLE_SET, StatusWrite, Urgency

# Statuses of one set that only count, at most.
COUNTS_PER_SECOND = 50
# Good news from a set most of which is still under way.
NEWS_PATIENCE = timedelta(seconds=10)


class _Wait(msgspec.Struct, frozen=True):
    since: datetime
    until: datetime


class StatusPacer:
    """Remembers since when each status of a set has been out of date."""

    def __init__(self, settle: timedelta) -> None:
        self._settle = settle
        self._waiting: dict[Uid, dict[Uid, _Wait]] = {}

    def choose(self, key: Uid, statuses: Sequence[StatusWrite], now: datetime) -> list[StatusWrite]:
        """The statuses to write now: facts, and those that waited long enough."""
        known = self._waiting.get(key, {})
        patience = self._patience(statuses)
        waiting: dict[Uid, _Wait] = {}
        chosen: list[StatusWrite] = []
        for status in statuses:
            since = known[status.uid].since if status.uid in known else now
            longest = patience[status.urgency]
            until = since + (min(self._settle, longest) if status.part == WHOLE_SET else longest)
            if now >= until:
                chosen.append(status)
            else:
                waiting[status.uid] = _Wait(since=since, until=until)
        if waiting:
            self._waiting[key] = waiting
        else:
            self._waiting.pop(key, None)
        return chosen

    def wake_at(self, key: Uid) -> datetime | None:
        return min((wait.until for wait in self._waiting.get(key, {}).values()), default=None)

    def forget(self, key: Uid) -> None:
        self._waiting.pop(key, None)

    def _patience(self, statuses: Sequence[StatusWrite]) -> dict[Urgency, timedelta]:
        is_crowd = sum(status.urgency is Urgency.COUNT for status in statuses) > COUNTS_PER_SECOND
        return {
            Urgency.FACT: timedelta(0),
            Urgency.NEWS: NEWS_PATIENCE if is_crowd else timedelta(0),
            Urgency.COUNT: max(self._settle, timedelta(seconds=len(statuses) / COUNTS_PER_SECOND)),
        }

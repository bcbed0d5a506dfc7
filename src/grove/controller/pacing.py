"""Which statuses are written now and which wait for the next change: ten counts in a second become one write."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from grove.api.meta import Uid
from grove.planner.actions import StatusWrite


class StatusPacer:
    """Remembers since when each status of a set has been out of date."""

    def __init__(self, settle: timedelta) -> None:
        self._settle = settle
        self._since: dict[Uid, dict[Uid, datetime]] = {}

    def choose(self, key: Uid, statuses: Sequence[StatusWrite], now: datetime) -> list[StatusWrite]:
        """The statuses to write now: urgent ones, and those that waited long enough."""
        known = self._since.get(key, {})
        waiting: dict[Uid, datetime] = {}
        chosen: list[StatusWrite] = []
        for status in statuses:
            since = known.get(status.uid, now)
            if status.is_urgent or now >= since + self._settle:
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
        return min(waiting.values()) + self._settle if waiting else None

    def forget(self, key: Uid) -> None:
        self._since.pop(key, None)

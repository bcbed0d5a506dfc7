"""Staleness: values that the operator may still use, because a watch delivers changes late or was cut.

`pods_and_gangs.py` and the rules of updates and training use it.
"""

from datetime import datetime, timedelta
from typing import Generic, TypeVar

from grove.api.types.meta import HasMetadata, Uid
from grove.clock import Clock

M = TypeVar("M", Uid, int)
V = TypeVar("V")

# Longer than every delay of a fault plan between an observation and an action, including queueing.
MOMENT = timedelta(seconds=20)


def owner_uid(obj: HasMetadata) -> Uid:
    """Return the uid of the controller, "" without one.

    The uid alone proves nothing. It is enough for the rules, because `pods_and_gangs.py` shows them only objects whose
    whole owner key is known.
    """
    owner = obj.metadata.controller
    return Uid("") if owner is None else owner.uid


class Staleness:
    """The age of the oldest state that the operator may act on: some seconds, or more while a watch is frozen."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._blind_count = 0
        self._lost_at: datetime | None = None
        self._regained_at: datetime | None = None

    def begin_stale(self) -> None:
        self._lost_at = self.since()
        self._blind_count += 1

    def end_stale(self) -> None:
        self._blind_count -= 1
        self._regained_at = self._clock.now()

    def since(self) -> datetime:
        now = self._clock.now()
        is_blind = self._blind_count or (self._regained_at is not None and now - self._regained_at <= MOMENT)
        return self._lost_at if self._lost_at is not None and is_blind else now - MOMENT


class Lately(Generic[M]):
    """The members of a clique for which a fact is true, or was recently: the operator may still act on it.

    A member is a pod by its uid, or an index.
    """

    def __init__(self, clock: Clock, staleness: Staleness) -> None:
        self._clock = clock
        self._staleness = staleness
        self._true: dict[Uid, dict[M, None]] = {}
        # Members for which it is no longer true, and since when.
        self._ended: dict[Uid, dict[M, datetime]] = {}

    def note(self, clique: Uid, member: M, is_true: bool) -> None:
        now_true, ended = self._true.setdefault(clique, {}), self._ended.setdefault(clique, {})
        if is_true:
            now_true[member] = None
            ended.pop(member, None)
        elif member in now_true:
            del now_true[member]
            ended[member] = self._clock.now()

    def count(self, clique: Uid | None) -> int:
        uid = clique or Uid("")
        return len(self._true.get(uid, ())) + len(self._just_ended(uid))

    def members(self, clique: Uid) -> list[M]:
        return [*self._true.get(clique, ()), *self._just_ended(clique)]

    def has_other(self, clique: Uid | None, member: M) -> bool:
        uid = clique or Uid("")
        is_true = any(other != member for other in self._true.get(uid, ()))
        return is_true or any(other != member for other in self._just_ended(uid))

    def _just_ended(self, clique: Uid) -> list[M]:
        ended = self._ended.get(clique)
        if not ended:
            return []
        since = self._staleness.since()
        return [member for member, ended_at in ended.items() if ended_at >= since]


class RecentValues(Generic[V]):
    """The requested values of each object, current and recent: the operator may still act on a recent one."""

    def __init__(self, clock: Clock, staleness: Staleness) -> None:
        self._clock = clock
        self._staleness = staleness
        # Each value and until when it was current; the last one still is.
        self._values: dict[Uid, list[tuple[datetime, V]]] = {}

    def note(self, uid: Uid, value: V) -> None:
        values = self._values.setdefault(uid, [])
        if not values or values[-1][1] != value:
            if values:
                values[-1] = (self._clock.now(), values[-1][1])
            values.append((self._clock.now(), value))

    def recent(self, uid: Uid) -> list[V]:
        since, values = self._staleness.since(), self._values.get(uid, [])
        return [value for i, (until, value) in enumerate(values) if i == len(values) - 1 or until >= since]

"""Refusals the server gave us, per set replica, until the refused action succeeds or nobody wants it any more.

Kept in memory only: after a restart the action is simply tried and refused again.
"""

from datetime import datetime

from grove.api.meta import Uid
from grove.planner.actions import Failure


class FailureBook:
    """One set's failures by chain. A tuple is replaced, never changed, so that views can compare by identity."""

    def __init__(self) -> None:
        self._by_replica: dict[tuple[Uid, int], dict[str, Failure]] = {}
        self._tuples: dict[tuple[Uid, int], tuple[Failure, ...]] = {}

    def of(self, set_uid: Uid, replica_index: int) -> tuple[Failure, ...]:
        return self._tuples.get((set_uid, replica_index), ())

    def record(self, set_uid: Uid, replica_index: int, *, key: str, code: str, message: str, now: datetime) -> None:
        """Counted once per attempt: several refusals at one instant are one."""
        failures = self._by_replica.setdefault((set_uid, replica_index), {})
        old = failures.get(key)
        if old is not None and old.last_at == now:
            return
        failures[key] = Failure(
            key=key,
            code=code,
            message=message,
            count=old.count + 1 if old else 1,
            first_at=old.first_at if old else now,
            last_at=now,
        )
        self._seal(set_uid, replica_index)

    def clear(self, set_uid: Uid, replica_index: int, keys: list[str]) -> bool:
        """Forget failures whose action is done; True if there were any."""
        failures = self._by_replica.get((set_uid, replica_index))
        if not failures:
            return False
        known = [key for key in keys if key in failures]
        for key in known:
            del failures[key]
        if known:
            self._seal(set_uid, replica_index)
        return bool(known)

    def forget_set(self, set_uid: Uid) -> None:
        for _, replica_index in [key for key in self._by_replica if key[0] == set_uid]:
            self.forget_replica(set_uid, replica_index)

    def forget_replica(self, set_uid: Uid, replica_index: int) -> None:
        self._by_replica.pop((set_uid, replica_index), None)
        self._tuples.pop((set_uid, replica_index), None)

    def has_refused_pods(self, set_uid: Uid, replica_count: int) -> bool:
        return any(
            failure.key.startswith("pods/") for index in range(replica_count) for failure in self.of(set_uid, index)
        )

    def _seal(self, set_uid: Uid, replica_index: int) -> None:
        failures = self._by_replica[(set_uid, replica_index)]
        if failures:
            self._tuples[(set_uid, replica_index)] = tuple(failures[key] for key in sorted(failures))
        else:
            self.forget_replica(set_uid, replica_index)

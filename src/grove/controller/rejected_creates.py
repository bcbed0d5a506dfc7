"""Rejected creates per set replica, until the create succeeds or is no longer planned.

Kept in memory only: after a restart the create is tried and rejected again.
"""

from collections import Counter
from collections.abc import Set
from datetime import datetime

from grove.api.types.meta import Uid
from grove.planner.actions import CreateRejection
from grove.planner.gangs.rejected_gangs import is_about_pods


class RejectedCreates:
    """Rejections by set and replica. A tuple is replaced, never changed, so that views can compare by identity."""

    def __init__(self) -> None:
        self._sets: dict[Uid, dict[int, tuple[CreateRejection, ...]]] = {}

    def count_by_code(self) -> Counter[str]:
        """Count the objects that are rejected now, by reason."""
        every = (failure for parts in self._sets.values() for failures in parts.values() for failure in failures)
        return Counter(str(failure.code) for failure in every)

    def of(self, set_uid: Uid, replica_index: int) -> tuple[CreateRejection, ...]:
        return self._sets.get(set_uid, {}).get(replica_index, ())

    def has_rejected_pods(self, set_uid: Uid) -> bool:
        return any(is_about_pods(failure) for failures in self._sets.get(set_uid, {}).values() for failure in failures)

    def record(
        self,
        set_uid: Uid,
        replica_index: int,
        *,
        key: str,
        code: str,
        message: str,
        now: datetime,
        target: str = "",
        status_code: int = 0,
    ) -> None:
        """Record a rejection. Several rejections at one time count as one attempt."""
        failures = {failure.key: failure for failure in self.of(set_uid, replica_index)}
        old = failures.get(key)
        if old is not None and old.last_at == now:
            return
        failures[key] = CreateRejection(
            key=key,
            code=code,
            message=message,
            count=old.count + 1 if old else 1,
            first_at=old.first_at if old else now,
            last_at=now,
            target=target,
            status_code=status_code,
        )
        self._put(set_uid, replica_index, failures)

    def clear(self, set_uid: Uid, replica_index: int, keys: list[str]) -> bool:
        """Forget rejections of creates that succeeded; return whether there were any."""
        failures = {failure.key: failure for failure in self.of(set_uid, replica_index)}
        kept = {key: failure for key, failure in failures.items() if key not in keys}
        if len(kept) == len(failures):
            return False
        self._put(set_uid, replica_index, kept)
        return True

    def keep_only(self, set_uid: Uid, wanted: Set[str]) -> list[int]:
        """Forget rejections of creates that are no longer needed; return the replicas that had any."""
        parts = self._sets.get(set_uid, {})
        changed = [part for part, failures in parts.items() if any(one.key not in wanted for one in failures)]
        for part in changed:
            self._put(set_uid, part, {one.key: one for one in self.of(set_uid, part) if one.key in wanted})
        return changed

    def forget_set(self, set_uid: Uid) -> None:
        self._sets.pop(set_uid, None)

    def forget_replica(self, set_uid: Uid, replica_index: int) -> None:
        if self.of(set_uid, replica_index):
            self._put(set_uid, replica_index, {})

    def _put(self, set_uid: Uid, replica_index: int, failures: dict[str, CreateRejection]) -> None:
        replicas = self._sets.setdefault(set_uid, {})
        if failures:
            replicas[replica_index] = tuple(failures[key] for key in sorted(failures))
        else:
            replicas.pop(replica_index, None)
        if not replicas:
            del self._sets[set_uid]

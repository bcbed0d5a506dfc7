"""Failed writes by key, and when to retry each. An entry is kept until the write succeeds or is no longer planned.

Kept in memory only: after a restart a write is retried and fails again. `planner/status/write_failures.py` decides what
is reported, and when. `rejected_creates.py` has the creates that the API server rejects.
"""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from grove.api.types.meta import Uid
from grove.kube.api_errors import ApiError
from grove.planner.status.write_failures import LASTING, FailedWrite, WriteId, reason_of

# A new error code is reported after this many responses in a row: alternating codes must not cause a status write each.
CONFIRMING_RESPONSES = 3
# So many conflicts in a row are retried without backoff.
FREE_CONFLICTS = 3


class _Entry(msgspec.Struct):
    """One failed write as it is reported; `other` is a different code received since then, and how often."""

    failed: FailedWrite
    held_until: datetime
    other: tuple[int, int] = (0, 0)
    # The last code that was reported.
    reported_code: int | None = None


class FailedWrites:
    """Failed writes by key: the uid of a set or topology binding. `first` and `longest` are the backoff in seconds."""

    def __init__(self, *, first: float, longest: float) -> None:
        self._first = first
        self._longest = longest
        self._keys: dict[Uid, dict[WriteId, _Entry]] = {}
        # Keys all of whose writes were attempted since this process became the leader.
        self._tried: set[Uid] = set()

    def of(self, key: Uid) -> tuple[FailedWrite, ...]:
        """Return the failed writes, the oldest first."""
        entries = self._keys.get(key)
        if not entries:
            return ()
        return tuple(sorted((entry.failed for entry in entries.values()), key=_age))

    def ids_of(self, key: Uid) -> frozenset[WriteId]:
        return frozenset(self._keys.get(key, ()))

    def all(self) -> tuple[FailedWrite, ...]:
        return tuple(sorted((one.failed for entries in self._keys.values() for one in entries.values()), key=_age))

    def count_by_reason(self) -> Counter[str]:
        return Counter(str(reason_of(one.code, one.message)) for one in self.all())

    def held_until(self, key: Uid, write: WriteId) -> datetime | None:
        """Return when the backoff of the write ends."""
        entry = self._keys.get(key, {}).get(write)
        return None if entry is None else entry.held_until

    def is_tried(self, key: Uid) -> bool:
        """Return whether all writes of the key were attempted once. Before that, the failures are incomplete."""
        return key in self._tried

    def record(self, key: Uid, write: WriteId, error: ApiError, now: datetime) -> datetime:
        """Record a failure; return when to retry."""
        entries = self._keys.setdefault(key, {})
        old = entries.get(write)
        count = old.failed.count + 1 if old else 1
        first_at = old.failed.first_at if old else now
        retry_at = self._retry_at(count, first_at, now, error.retry_after or 0.0)
        is_free = error.code == 409 and count < FREE_CONFLICTS
        failed = FailedWrite(
            write=write,
            code=error.code,
            message=error.brief or error.reason,
            count=count,
            first_at=first_at,
            last_at=now,
        )
        entry = _Entry(failed=failed, held_until=now if is_free else retry_at)
        if old is not None:
            _keep_reported_message(entry, old, error.code)
        entries[write] = entry
        return retry_at

    def clear(self, key: Uid, write: WriteId) -> None:
        """Forget a write that succeeded."""
        entries = self._keys.get(key)
        if entries is not None:
            entries.pop(write, None)
            if not entries:
                del self._keys[key]

    def keep_only(self, key: Uid, wanted: Iterable[WriteId]) -> bool:
        """Forget writes that the newest plan does not contain; return whether there were any."""
        ids = self.ids_of(key)
        dropped = ids.difference(wanted) if ids else ids
        for write in dropped:
            self.clear(key, write)
        return bool(dropped)

    def mark_tried(self, key: Uid) -> bool:
        """Record that all writes of the key were attempted; return whether this is the first time."""
        is_first = key not in self._tried
        self._tried.add(key)
        return is_first

    def take_new_failures(self, key: Uid, now: datetime) -> tuple[FailedWrite, ...]:
        """Return failures that became lasting, or changed their code, since the last call."""
        new_failures: list[FailedWrite] = []
        for entry in self._keys.get(key, {}).values():
            if entry.failed.is_lasting(now) and entry.reported_code != entry.failed.code:
                entry.reported_code = entry.failed.code
                new_failures.append(entry.failed)
        return tuple(sorted(new_failures, key=_age))

    def forget(self, key: Uid) -> None:
        self._keys.pop(key, None)
        self._tried.discard(key)

    def _retry_at(self, count: int, first_at: datetime, now: datetime, retry_after_seconds: float) -> datetime:
        """Return when to retry: exponential backoff, with one more retry right before the failure is reported."""
        pause = min(self._first * (1 << min(count - 1, 16)), self._longest)
        reported_at = first_at + LASTING
        retry_at = now + timedelta(seconds=pause)
        if now < reported_at < retry_at:
            retry_at = reported_at
        return max(retry_at, now + timedelta(seconds=retry_after_seconds))


def _keep_reported_message(entry: _Entry, old: _Entry, code: int) -> None:
    """Keep the message that was reported first, until another code is received several times in a row.

    Messages of one code differ in ports, times and names.
    """
    entry.reported_code = old.reported_code
    received = old.other[1] + 1 if old.other[0] == code else 1
    if code == old.failed.code:
        received = 0
    if received < CONFIRMING_RESPONSES:
        entry.failed = msgspec.structs.replace(entry.failed, code=old.failed.code, message=old.failed.message)
        entry.other = (code, received)


def _age(failed: FailedWrite) -> tuple[datetime, str, str, str, str]:
    write = failed.write
    return failed.first_at, write.resource, write.verb, write.namespace, write.name

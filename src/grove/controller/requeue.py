"""The end of a reconcile: record events and errors, and requeue the key. Used for sets and topology bindings."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from grove.api.reasons import EventReason
from grove.api.types.meta import Uid
from grove.clock import Clock
from grove.controller.controller_options import ControllerOptions
from grove.controller.executor import ExecutionResult
from grove.controller.failed_writes import FailedWrites
from grove.controller.observability.decision_log import DecisionLog
from grove.controller.observability.events import EventRecorder
from grove.controller.workqueue import WorkQueue
from grove.kube.api_errors import ApiError
from grove.planner.actions import EventRecord, EventSubject, Severity, earliest
from grove.planner.status.write_failures import FailedWrite, describe_failed, lasting_at


class Requeuer:
    """Requeues keys; counts the consecutive failures of each key for the backoff."""

    def __init__(
        self,
        *,
        clock: Clock,
        queue: WorkQueue,
        recorder: EventRecorder,
        settings: ControllerOptions,
        journal: DecisionLog,
        failed_writes: FailedWrites,
    ) -> None:
        self._clock = clock
        self._queue = queue
        self._recorder = recorder
        self._settings = settings
        self._journal = journal
        self._failed_writes = failed_writes
        self._trouble: dict[Uid, int] = {}

    @property
    def troubled(self) -> frozenset[Uid]:
        return frozenset(self._trouble)

    def settle(self, key: Uid, requeue_at: datetime | None, outcomes: Sequence[ExecutionResult]) -> None:
        emits = [emit for outcome in outcomes for emit in outcome.emits]
        self._recorder.record(emits)
        self._journal.decided(key, [done for outcome in outcomes for done in outcome.done], emits)
        errors = [error for outcome in outcomes for error in outcome.errors]
        if errors:
            self._journal.troubled(key, errors, self._trouble.get(key, 0))
            # An earlier deadline stays: one failing replica must not delay the others.
            requeue_at = earliest(requeue_at, self._retry_at(key, max(e.retry_after or 0.0 for e in errors) or None))
        else:
            if not any(outcome.held_count for outcome in outcomes):
                self._trouble.pop(key, None)
            if any(outcome.is_cut_short for outcome in outcomes):
                self._queue.add(key)
        self._queue.requeue_at(key, earliest(requeue_at, *(outcome.retry_at for outcome in outcomes)))

    def report_lasting(self, key: Uid, subject: EventSubject, *, is_in_status: bool) -> None:
        """Log writes that have failed for a minute; record events too, where the status cannot report them."""
        news = self._failed_writes.take_news(key, self._clock.now())
        if not news:
            return
        self._journal.kept_failing(key, news)
        if not is_in_status:
            self._recorder.record([_event(subject, news)])

    def refused(self, key: Uid, error: ApiError) -> None:
        """Requeue a key whose reconcile ended with an API error."""
        self._journal.troubled(key, [error], self._trouble.get(key, 0))
        lasting = lasting_at(self._failed_writes.of(key), self._clock.now())
        self._queue.requeue_at(key, earliest(lasting, self._retry_at(key, error.retry_after)))

    def failed(self, key: Uid) -> None:
        """Requeue a key whose reconcile ended with an unexpected exception."""
        self._journal.failed(key)
        self._queue.requeue_at(key, self._retry_at(key, None))

    def forget(self, key: Uid) -> None:
        self._trouble.pop(key, None)
        self._queue.requeue_at(key, None)

    def _retry_at(self, key: Uid, retry_after: float | None) -> datetime:
        """Return the next retry time, with exponential backoff."""
        attempts = self._trouble.get(key, 0)
        self._trouble[key] = attempts + 1
        first, longest = self._settings.first_backoff_seconds, self._settings.longest_backoff_seconds
        pause = max(retry_after or 0.0, min(first * (1 << min(attempts, 16)), longest))
        return self._clock.now() + timedelta(seconds=pause)


def _event(subject: EventSubject, news: Sequence[FailedWrite]) -> EventRecord:
    message = describe_failed(news[0], more_count=len(news) - 1)
    return EventRecord(subject=subject, reason=EventReason.RECONCILE_FAILED, message=message, severity=Severity.WARNING)

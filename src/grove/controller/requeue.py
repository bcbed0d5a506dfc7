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
    """A requeuer of keys, which counts the consecutive failures of each key for the backoff."""

    def __init__(
        self,
        *,
        clock: Clock,
        queue: WorkQueue,
        recorder: EventRecorder,
        settings: ControllerOptions,
        decision_log: DecisionLog,
        failed_writes: FailedWrites,
    ) -> None:
        self._clock = clock
        self._queue = queue
        self._recorder = recorder
        self._settings = settings
        self._decision_log = decision_log
        self._failed_writes = failed_writes
        self._failure_counts: dict[Uid, int] = {}

    @property
    def failing_keys(self) -> frozenset[Uid]:
        return frozenset(self._failure_counts)

    def record(self, key: Uid, results: Sequence[ExecutionResult]) -> None:
        """Record the events of what was done, and log it. Call it also for a reconcile that ends with an error."""
        emits = [emit for result in results for emit in result.emits]
        self._recorder.record(emits)
        self._decision_log.log_decisions(key, [done for result in results for done in result.done], emits)

    def settle(self, key: Uid, requeue_at: datetime | None, results: Sequence[ExecutionResult]) -> None:
        errors = [error for result in results for error in result.errors]
        if errors:
            self._decision_log.log_errors(key, errors, self._failure_counts.get(key, 0))
            # An earlier deadline stays: one failing replica must not delay the others.
            requeue_at = earliest(requeue_at, self._retry_at(key, max(e.retry_after or 0.0 for e in errors) or None))
        else:
            if not any(result.held_count for result in results):
                self._failure_counts.pop(key, None)
            if any(result.is_cut_short for result in results):
                self._queue.add(key)
        self._queue.requeue_at(key, earliest(requeue_at, *(result.retry_at for result in results)))

    def report_lasting(self, key: Uid, subject: EventSubject, *, is_in_status: bool) -> None:
        """Log writes that have failed for a minute; record events too, where the status cannot report them."""
        new_failures = self._failed_writes.take_new_failures(key, self._clock.now())
        if not new_failures:
            return
        self._decision_log.log_lasting_failures(key, new_failures)
        if not is_in_status:
            self._recorder.record([_event(subject, new_failures)])

    def requeue_after_error(self, key: Uid, error: ApiError) -> None:
        """Requeue a key whose reconcile ended with an API error."""
        self._decision_log.log_errors(key, [error], self._failure_counts.get(key, 0))
        lasting = lasting_at(self._failed_writes.of(key), self._clock.now())
        self._queue.requeue_at(key, earliest(lasting, self._retry_at(key, error.retry_after)))

    def requeue_after_panic(self, key: Uid) -> None:
        """Requeue a key whose reconcile ended with an unexpected exception."""
        self._decision_log.log_panic(key)
        self._queue.requeue_at(key, self._retry_at(key, None))

    def forget(self, key: Uid) -> None:
        self._failure_counts.pop(key, None)
        self._queue.requeue_at(key, None)

    def _retry_at(self, key: Uid, retry_after: float | None) -> datetime:
        """Return the next retry time, with exponential backoff."""
        attempts = self._failure_counts.get(key, 0)
        self._failure_counts[key] = attempts + 1
        first, longest = self._settings.first_backoff_seconds, self._settings.longest_backoff_seconds
        pause = max(retry_after or 0.0, min(first * (1 << min(attempts, 16)), longest))
        return self._clock.now() + timedelta(seconds=pause)


def _event(subject: EventSubject, new_failures: Sequence[FailedWrite]) -> EventRecord:
    message = describe_failed(new_failures[0], more_count=len(new_failures) - 1)
    return EventRecord(subject=subject, reason=EventReason.RECONCILE_FAILED, message=message, severity=Severity.WARNING)

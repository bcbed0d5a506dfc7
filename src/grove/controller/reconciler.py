"""The reconciler of sets: take a snapshot, plan, execute, requeue. A failing set does not affect the others."""

from datetime import datetime, timedelta

from grove.api.reasons import ConditionType
from grove.api.resources import PODCLIQUESETS
from grove.api.types.meta import Uid, find_condition
from grove.clock import Clock
from grove.controller.controller_options import ControllerOptions
from grove.controller.executor import ExecutionResult, Executor
from grove.controller.failed_writes import FailedWrites
from grove.controller.observability.decision_log import DecisionLog
from grove.controller.observability.events import EventRecorder
from grove.controller.observability.instrumentation import Instrumentation
from grove.controller.rejected_creates import RejectedCreates
from grove.controller.requeue import Requeuer
from grove.controller.snapshot_builder import Observer
from grove.controller.status_debounce import StatusDebouncer
from grove.controller.workqueue import WorkQueue
from grove.kube.api_errors import ApiError
from grove.planner.actions import WHOLE_SET, LiveRead, Plan, StatusPriority, StatusWrite, earliest
from grove.planner.plan import plan
from grove.planner.plan_cache import PlanCache
from grove.planner.status.write_failures import wanted_ids

# The rest waits for the next reconcile: no set may occupy a worker for long.
FACTS_IN_A_ROW = 4
SET_STATUS = f"{PODCLIQUESETS.plural}/status"


class SetReconciler:
    """A reconciler of sets. What it keeps of a set between reconciles is only a cache."""

    def __init__(
        self,
        *,
        clock: Clock,
        queue: WorkQueue,
        observer: Observer,
        executor: Executor,
        failures: RejectedCreates,
        failed_writes: FailedWrites,
        recorder: EventRecorder,
        settings: ControllerOptions,
        instrumentation: Instrumentation,
        decision_log: DecisionLog,
    ) -> None:
        self._clock = clock
        self._queue = queue
        self._observer = observer
        self._executor = executor
        self._failures = failures
        self._failed_writes = failed_writes
        self._instrumentation = instrumentation
        self._status_debouncer = StatusDebouncer(timedelta(seconds=settings.status_settle_seconds))
        self._memos: dict[Uid, PlanCache] = {}
        self._requeuer = Requeuer(
            clock=clock,
            queue=queue,
            recorder=recorder,
            settings=settings,
            decision_log=decision_log,
            failed_writes=failed_writes,
        )
        self.reconcile_count = 0
        self.bug_count = 0

    @property
    def remembered_count(self) -> int:
        """Return the number of sets with state between reconciles; deleted sets have none."""
        return len(self._memos.keys() | self._requeuer.failing_keys)

    async def work(self) -> None:
        while True:
            key = await self._queue.take()
            started_at = self._clock.monotonic()
            try:
                await self._reconcile_safely(key)
            finally:
                self._instrumentation.observe_reconcile(self._clock.monotonic() - started_at)
                self._queue.done(key)

    async def _reconcile_safely(self, key: Uid) -> None:
        try:
            await self._reconcile_or_report(key)
        except Exception:
            # One set must not stop the others: log, count, retry later.
            self.bug_count += 1
            self._instrumentation.count_panic()
            self._requeuer.requeue_after_panic(key)

    async def _reconcile_or_report(self, key: Uid) -> None:
        results: list[ExecutionResult] = []
        try:
            await self._reconcile(key, results)
        except ApiError as error:
            self._requeuer.requeue_after_error(key, error)
            results += await self._report_failures(key)
        finally:
            # A write that succeeded has its event, also if the reconcile failed after it.
            self._requeuer.record(key, results)

    async def _reconcile(self, key: Uid, results: list[ExecutionResult]) -> None:
        """Reconcile a set. Appends the result of each round of writes to `results`."""
        self.reconcile_count += 1
        await self._executor.resolve_uncertain_writes(key)
        taken: set[LiveRead] = set()
        decided = await self._decide_on_fresh_facts(key, taken)
        if decided is None:
            self._forget(key)
            return
        # A fact is written before an action that depends on it or destroys its evidence; one may lead to the next.
        while facts := facts_first(decided):
            results.append(await self._executor.write_statuses(facts, flow=key))
            # The writes changed resource versions, and the actions name the versions that they depend on.
            decided = await self._decide_on_fresh_facts(key, taken) or decided
            if results[-1].not_written or len(results) == FACTS_IN_A_ROW:
                facts = facts_first(decided)
                break
        # A fact that could not be written must not lose its evidence: the actions of its replica wait.
        not_written = {status.replica_index for status in facts} | {
            replica_index for result in results for replica_index in result.not_written
        }
        chains = [chain for chain in decided.chains if chain.replica_index not in not_written]
        result = await self._executor.execute(chains, flow=key)
        results.append(result)
        self._remember_failures(key, result, self._clock.now())
        # Status-only writes go last, so that they reflect the result.
        seen = self._decide_after(key, result, decided)
        failed = self._failed_writes.ids_of(key)
        now = self._clock.now()
        statuses = self._status_debouncer.choose(key, seen.statuses, now)
        if is_unsure := not taken.issuperset(seen.live_reads):
            # A deadline passed meanwhile: its fact may need a live read, which the next reconcile does first.
            statuses = [status for status in statuses if status.priority is not StatusPriority.DURABLE]
        written = await self._executor.write_statuses(statuses, flow=key)
        results.append(written)
        self._status_debouncer.mark_written(key, written.written)
        requeue_at = earliest(seen.requeue_at, self._status_debouncer.requeue_at(key), now if is_unsure else None)
        self._requeuer.settle(key, requeue_at, results)
        is_first = not (not_written or result.is_cut_short) and self._failed_writes.mark_tried(key)
        if not failed <= self._failed_writes.ids_of(key) or (is_first and self._has_failed_condition(key)):
            # The status reports a failure that is over.
            self._queue.add(key)
        elif any(result.uncertain for result in results) and self._is_failing_long(key):
            # A write without a clear answer holds back every status of this reconcile. The next one reads it first.
            self._queue.add(key)
        self._report_lasting(key)

    def _decide_after(self, key: Uid, result: ExecutionResult, decided: Plan) -> Plan:
        seen = (self._decide(key) if result.write_count else decided) or Plan()
        if self._failed_writes.keep_only(key, wanted_ids(seen)):
            seen = self._decide(key) or Plan()
        if seen.rejections is not None:
            for replica_index in self._failures.keep_only(key, {one.key for one in seen.rejections}):
                self._observer.mark(key, replica_index)
        return seen

    async def _report_failures(self, key: Uid) -> list[ExecutionResult]:
        """Write only the status of the set itself, after a reconcile that ended early."""
        decided = self._decide(key) or Plan()
        own = [
            status for status in decided.statuses if status.uid == key and status.priority is not StatusPriority.DURABLE
        ]
        if not self._failed_writes.of(key):
            return []
        written = await self._executor.write_statuses(own, flow=key)
        self._report_lasting(key)
        return [written]

    def _report_lasting(self, key: Uid) -> None:
        failed = self._failed_writes.of(key)
        snapshot = self._observer.snapshot(key) if failed else None
        if snapshot is not None:
            # While the set cannot be read, its status is not written either.
            is_in_status = all(one.write.resource != SET_STATUS and one.write.verb != "get" for one in failed)
            self._requeuer.report_lasting(key, snapshot.context.subject, is_in_status=is_in_status)

    def _is_failing_long(self, key: Uid) -> bool:
        now = self._clock.now()
        return any(failed.is_lasting(now) for failed in self._failed_writes.of(key))

    def _has_failed_condition(self, key: Uid) -> bool:
        snapshot = self._observer.snapshot(key)
        conditions = snapshot.pcs.status.conditions if snapshot is not None else ()
        return find_condition(conditions, ConditionType.RECONCILE_FAILED) is not None

    async def _decide_on_fresh_facts(self, key: Uid, taken: set[LiveRead]) -> Plan | None:
        """Plan until all live reads of the plan are done; each read may change the plan and require further reads."""
        while True:
            decided = self._decide(key)
            missing = [live_read for live_read in decided.live_reads if live_read not in taken] if decided else []
            if not missing:
                return decided
            await self._executor.read_live_all(missing, flow=key)
            taken.update(missing)

    def _decide(self, key: Uid) -> Plan | None:
        snapshot = self._observer.snapshot(key)
        if snapshot is None:
            return None
        return plan(snapshot, self._clock.now(), self._memos.setdefault(key, PlanCache()))

    def _remember_failures(self, key: Uid, result: ExecutionResult, now: datetime) -> None:
        rejected = {(rejection.replica_index, rejection.key) for rejection in result.rejected}
        for replica_index, failure_key in result.created:
            if (replica_index, failure_key) not in rejected and self._failures.clear(key, replica_index, [failure_key]):
                self._observer.mark(key, replica_index)
        for rejection in result.rejected:
            self._instrumentation.count_rejected_create(rejection.code)
            self._failures.record(
                key,
                rejection.replica_index,
                key=rejection.key,
                code=rejection.code,
                message=rejection.message,
                now=now,
                target=rejection.target,
                status_code=rejection.status_code,
            )
            self._observer.mark(key, rejection.replica_index)

    def _forget(self, key: Uid) -> None:
        self._memos.pop(key, None)
        self._executor.forget(key)
        self._requeuer.forget(key)
        self._status_debouncer.forget(key)
        # A reconcile that ran while the set was deleted may have added rejections.
        self._failures.forget_set(key)


def facts_first(decided: Plan) -> list[StatusWrite]:
    """Return the facts to write before the actions: those that an action depends on, or whose evidence it destroys."""
    facts = [status for status in decided.statuses if status.priority is StatusPriority.DURABLE]
    acting = {chain.replica_index for chain in decided.chains}
    if WHOLE_SET in acting:
        return facts
    return [fact for fact in facts if fact.replica_index == WHOLE_SET or fact.replica_index in acting]

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
from grove.planner.plan_cache import Memo
from grove.planner.status.write_failures import wanted_ids

# The rest waits for the next reconcile: no set may occupy a worker for long.
FACTS_IN_A_ROW = 4
SET_STATUS = f"{PODCLIQUESETS.plural}/status"


class Loop:
    """Reconciles sets. What it keeps of a set between reconciles is only a cache."""

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
        meter: Instrumentation,
        journal: DecisionLog,
    ) -> None:
        self._clock = clock
        self._queue = queue
        self._observer = observer
        self._executor = executor
        self._failures = failures
        self._failed_writes = failed_writes
        self._meter = meter
        self._pacer = StatusDebouncer(timedelta(seconds=settings.status_settle_seconds))
        self._memos: dict[Uid, Memo] = {}
        self._aftermath = Requeuer(
            clock=clock,
            queue=queue,
            recorder=recorder,
            settings=settings,
            journal=journal,
            failed_writes=failed_writes,
        )
        self.visit_count = 0
        self.bug_count = 0

    @property
    def remembered_count(self) -> int:
        """Return the number of sets with state between reconciles; deleted sets have none."""
        return len(self._memos.keys() | self._aftermath.troubled)

    async def work(self) -> None:
        while True:
            key = await self._queue.take()
            started_at = self._clock.monotonic()
            try:
                await self._visit_safely(key)
            finally:
                self._meter.reconciled(self._clock.monotonic() - started_at)
                self._queue.done(key)

    async def _visit_safely(self, key: Uid) -> None:
        try:
            await self._visit_or_report(key)
        except Exception:
            # One set must not stop the others: log, count, retry later.
            self.bug_count += 1
            self._meter.failed()
            self._aftermath.failed(key)

    async def _visit_or_report(self, key: Uid) -> None:
        try:
            await self._reconcile(key)
        except ApiError as error:
            self._aftermath.refused(key, error)
            await self._report_failures(key)

    async def _reconcile(self, key: Uid) -> None:
        self.visit_count += 1
        await self._executor.resolve_uncertain_writes(key)
        taken: set[LiveRead] = set()
        decided = await self._decide_on_fresh_facts(key, taken)
        if decided is None:
            self._forget(key)
            return
        known: list[ExecutionResult] = []
        # A fact is written before an action that depends on it or destroys its evidence; one may lead to the next.
        while facts := facts_first(decided):
            known.append(await self._executor.write_statuses(facts, flow=key))
            # The writes changed resource versions, and the actions name the versions that they depend on.
            decided = await self._decide_on_fresh_facts(key, taken) or decided
            if known[-1].untold or len(known) == FACTS_IN_A_ROW:
                facts = facts_first(decided)
                break
        # A fact that could not be written must not lose its evidence: the actions of its replica wait.
        untold = {status.part for status in facts} | {part for told in known for part in told.untold}
        chains = [chain for chain in decided.chains if chain.part not in untold]
        outcome = await self._executor.carry_out(chains, flow=key)
        self._remember_failures(key, outcome, self._clock.now())
        # Status-only writes go last, so that they reflect the result.
        seen = self._decide_after(key, outcome, decided)
        failed = self._failed_writes.ids_of(key)
        now = self._clock.now()
        statuses = self._pacer.choose(key, seen.statuses, now)
        if is_unsure := not taken.issuperset(seen.looks):
            # A deadline passed meanwhile: its fact may need a live read, which the next reconcile does first.
            statuses = [status for status in statuses if status.urgency is not StatusPriority.FACT]
        told = await self._executor.write_statuses(statuses, flow=key)
        self._pacer.written(key, told.told)
        requeue_at = earliest(seen.requeue_at, self._pacer.requeue_at(key), now if is_unsure else None)
        self._aftermath.settle(key, requeue_at, (*known, outcome, told))
        is_first = not (untold or outcome.is_cut_short) and self._failed_writes.mark_tried(key)
        if not failed <= self._failed_writes.ids_of(key) or (is_first and self._says_that_it_failed(key)):
            # The status reports a failure that is over.
            self._queue.add(key)
        self._report_lasting(key)

    def _decide_after(self, key: Uid, outcome: ExecutionResult, decided: Plan) -> Plan:
        seen = (self._decide(key) if outcome.write_count else decided) or Plan()
        if self._failed_writes.keep_only(key, wanted_ids(seen)):
            seen = self._decide(key) or Plan()
        return seen

    async def _report_failures(self, key: Uid) -> None:
        """Write only the status of the set itself, after a reconcile that ended early."""
        decided = self._decide(key) or Plan()
        own = [status for status in decided.statuses if status.uid == key and status.urgency is not StatusPriority.FACT]
        if self._failed_writes.of(key):
            await self._executor.write_statuses(own, flow=key)
            self._report_lasting(key)

    def _report_lasting(self, key: Uid) -> None:
        failed = self._failed_writes.of(key)
        snapshot = self._observer.snapshot(key) if failed else None
        if snapshot is not None:
            # While the set cannot be read, its status is not written either.
            is_in_status = all(one.write.resource != SET_STATUS and one.write.verb != "get" for one in failed)
            self._aftermath.report_lasting(key, snapshot.context.subject, is_in_status=is_in_status)

    def _says_that_it_failed(self, key: Uid) -> bool:
        snapshot = self._observer.snapshot(key)
        conditions = snapshot.pcs.status.conditions if snapshot is not None else ()
        return find_condition(conditions, ConditionType.RECONCILE_FAILED) is not None

    async def _decide_on_fresh_facts(self, key: Uid, taken: set[LiveRead]) -> Plan | None:
        """Plan until all live reads of the plan are done; each read may change the plan and require further reads."""
        while True:
            decided = self._decide(key)
            missing = [look for look in decided.looks if look not in taken] if decided else []
            if not missing:
                return decided
            await self._executor.read_live_all(missing, flow=key)
            taken.update(missing)

    def _decide(self, key: Uid) -> Plan | None:
        snapshot = self._observer.snapshot(key)
        if snapshot is None:
            return None
        return plan(snapshot, self._clock.now(), self._memos.setdefault(key, Memo()))

    def _remember_failures(self, key: Uid, outcome: ExecutionResult, now: datetime) -> None:
        refused = {(refusal.part, refusal.key) for refusal in outcome.refused}
        for part, failure_key in outcome.created:
            if (part, failure_key) not in refused and self._failures.clear(key, part, [failure_key]):
                self._observer.mark(key, part)
        for refusal in outcome.refused:
            self._meter.refused(refusal.code)
            self._failures.record(
                key,
                refusal.part,
                key=refusal.key,
                code=refusal.code,
                message=refusal.message,
                now=now,
                target=refusal.target,
                status_code=refusal.status_code,
            )
            self._observer.mark(key, refusal.part)

    def _forget(self, key: Uid) -> None:
        self._memos.pop(key, None)
        self._executor.forget(key)
        self._aftermath.forget(key)
        self._pacer.forget(key)
        # A reconcile that ran while the set was deleted may have added rejections.
        self._failures.forget_set(key)


def facts_first(decided: Plan) -> list[StatusWrite]:
    """Return the facts to write before the actions: those that an action depends on, or whose evidence it destroys."""
    facts = [status for status in decided.statuses if status.urgency is StatusPriority.FACT]
    acting = {chain.part for chain in decided.chains}
    if WHOLE_SET in acting:
        return facts
    return [fact for fact in facts if fact.part == WHOLE_SET or fact.part in acting]

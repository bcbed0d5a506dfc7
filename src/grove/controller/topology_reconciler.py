"""The reconciler of ClusterTopologyBindings: it runs whenever a binding or a topology of a scheduler changed.

It does not poll. `binding_sync.py` makes the decisions; `snapshot_builder.py` enqueues the sets of a changed binding.
"""

from collections.abc import Callable
from typing import Any

from grove.api.resources import TOPOLOGY_BINDINGS, Resource
from grove.api.types.clustertopologybinding import ClusterTopologyBinding
from grove.api.types.meta import Uid
from grove.api.types.scheduler_object import SchedulerObject
from grove.clock import Clock
from grove.controller.controller_options import ControllerOptions
from grove.controller.executor import ExecutionResult, Executor
from grove.controller.failed_writes import FailedWrites
from grove.controller.informers import Caches
from grove.controller.observability.decision_log import DecisionLog
from grove.controller.observability.events import EventRecorder
from grove.controller.rejected_creates import RejectedCreates
from grove.controller.requeue import Requeuer
from grove.controller.workqueue import WorkQueue
from grove.kube.api_errors import ApiError
from grove.planner.actions import Plan, earliest, subject_of
from grove.planner.status.write_failures import lasting_at, wanted_ids
from grove.planner.topology.binding_sync import TOPOLOGY_KINDS, SchedulerTopologies, plan_binding

# A binding has no replicas.
_WHOLE = -1


def topology_kinds(settings: ControllerOptions) -> dict[str, Resource[SchedulerObject]]:
    """Return the topology kinds of the enabled schedulers, by scheduler name."""
    if not settings.is_topology_aware:
        return {}
    return {name: kind for name, kind in TOPOLOGY_KINDS.items() if name in settings.schedulers}


class TopologyReconciler:
    """A reconciler of topology bindings. `is_missing` returns whether the cluster does not serve a kind."""

    def __init__(
        self,
        *,
        clock: Clock,
        caches: Caches,
        executor: Executor,
        failed_writes: FailedWrites,
        recorder: EventRecorder,
        settings: ControllerOptions,
        decision_log: DecisionLog,
        is_missing: Callable[[Resource[Any]], bool],
    ) -> None:
        self._clock = clock
        self._caches = caches
        self._executor = executor
        self._is_missing = is_missing
        self._kinds = topology_kinds(settings)
        self._failures = RejectedCreates()
        self._failed_writes = failed_writes
        self.queue = WorkQueue(clock)
        self._requeuer = Requeuer(
            clock=clock,
            queue=self.queue,
            recorder=recorder,
            settings=settings,
            decision_log=decision_log,
            failed_writes=failed_writes,
        )
        self.reconcile_count = 0
        caches.bindings.subscribe(self._binding_changed)
        caches.topologies.subscribe(self._topology_changed)

    def wake_all(self) -> None:
        """Enqueue all bindings. Call it when the served kinds changed."""
        for binding in self._caches.bindings.values():
            self.queue.add(binding.metadata.uid)

    async def run(self) -> None:
        while True:
            key = await self.queue.take()
            try:
                await self._reconcile_safely(key)
            finally:
                self.queue.done(key)

    def _binding_changed(self, old: ClusterTopologyBinding | None, new: ClusterTopologyBinding | None) -> None:
        known = new or old
        if known is not None:
            self.queue.add(known.metadata.uid)

    def _topology_changed(self, old: SchedulerObject | None, new: SchedulerObject | None) -> None:
        known = new or old
        for binding in self._caches.bindings.values():
            if known is not None and known.metadata.name in _named_by(binding):
                self.queue.add(binding.metadata.uid)

    async def _reconcile_safely(self, key: Uid) -> None:
        try:
            await self._reconcile(key)
        except ApiError as error:
            self._requeuer.requeue_after_error(key, error)
        except Exception:
            # One binding must not stop the others, nor the sets.
            self._requeuer.requeue_after_panic(key)

    async def _reconcile(self, key: Uid) -> None:
        self.reconcile_count += 1
        await self._executor.resolve_uncertain_writes(key)
        decided = self._decide(key)
        if decided is None:
            self._forget(key)
            return
        result = await self._executor.execute(decided.chains, flow=key)
        self._remember_failures(key, result)
        # Status writes go last, so that they reflect the result.
        seen = (self._decide(key) if result.write_count else decided) or decided
        written = await self._executor.write_statuses(seen.statuses, flow=key)
        self._failed_writes.keep_only(key, wanted_ids(seen))
        requeue_at = earliest(seen.requeue_at, lasting_at(self._failed_writes.of(key), self._clock.now()))
        self._requeuer.record(key, (result, written))
        self._requeuer.settle(key, requeue_at, (result, written))
        binding = self._caches.bindings.get(key)
        if binding is not None:
            self._requeuer.report_lasting(key, subject_of(TOPOLOGY_BINDINGS, binding.metadata), is_in_status=False)

    def _decide(self, key: Uid) -> Plan | None:
        binding = self._caches.bindings.get(key)
        if binding is None:
            return None
        known = [
            SchedulerTopologies(
                scheduler=scheduler,
                resource=kind,
                topologies=None
                if self._is_missing(kind)
                else {one.metadata.name: one for one in self._caches.store(kind).values()},
            )
            for scheduler, kind in self._kinds.items()
        ]
        return plan_binding(binding, known, self._clock.now(), self._failures.of(key, _WHOLE))

    def _remember_failures(self, key: Uid, result: ExecutionResult) -> None:
        rejected = {rejection.key for rejection in result.rejected}
        self._failures.clear(key, _WHOLE, [name for _, name in result.created if name not in rejected])
        for rejection in result.rejected:
            self._failures.record(
                key, _WHOLE, key=rejection.key, code=rejection.code, message=rejection.message, now=self._clock.now(),
                target=rejection.target, status_code=rejection.status_code,
            )  # fmt: skip

    def _forget(self, key: Uid) -> None:
        self._executor.forget(key)
        self._requeuer.forget(key)
        self._failures.forget_set(key)


def _named_by(binding: ClusterTopologyBinding) -> tuple[str, ...]:
    references = (entry.topology_reference for entry in binding.spec.scheduler_topology_bindings)
    return (binding.metadata.name, *references)

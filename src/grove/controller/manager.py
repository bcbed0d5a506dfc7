"""Build and run the controller: informers, work queue, workers and event recorder. There is no global state."""

import asyncio
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import structlog

from grove.api.resources import TOPOLOGY_BINDINGS, Resource
from grove.api.types.meta import ObjectMeta
from grove.backends.native_podgroups import NativeFeatures
from grove.backends.registry import Backends
from grove.clock import Clock
from grove.controller.controller_options import ControllerOptions
from grove.controller.executor import Executor
from grove.controller.failed_writes import FailedWrites
from grove.controller.feature_discovery import find_features
from grove.controller.informers import Caches, scoped_name, unscoped_name
from grove.controller.observability.decision_log import DecisionLog, NoDecisionLog, StructuredDecisionLog
from grove.controller.observability.events import EventRecorder
from grove.controller.observability.instrumentation import Instrumentation, NoInstrumentation
from grove.controller.reconciler import SetReconciler
from grove.controller.rejected_creates import RejectedCreates
from grove.controller.restore_detection import NewHistoryError, ServerHistory
from grove.controller.snapshot_builder import Observer
from grove.controller.topology_reconciler import TopologyReconciler, topology_kinds
from grove.controller.workqueue import WorkQueue
from grove.kube.api_errors import ApiError
from grove.kube.client import Client
from grove.kube.reflector import Reflector
from grove.planner.snapshot import ClusterContext
from grove.planner.status.write_failures import FailedWrite

FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 30.0

log = structlog.get_logger()


class Controller:
    """The operator. `run` ends when it is cancelled, or when the API server was restored from a backup."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        random: Random,
        settings: ControllerOptions | None = None,
        *,
        instrumentation: Instrumentation | None = None,
        decision_log: DecisionLog | None = None,
        is_logging: bool = False,
    ) -> None:
        self._client = client
        self._clock = clock
        self._random = random
        self._settings = settings or ControllerOptions()
        self._backends = Backends(enabled=self._settings.schedulers, default=self._settings.default_scheduler)
        self._optional: dict[str, Reflector[Any]] = {}
        self._is_logging = is_logging
        self.discovery_error: ApiError | None = None
        """Why it cannot be found out what the server offers; no set is planned for before that was found out once."""
        self.has_features = False
        self.caches = Caches(clock.monotonic, self._settings.watch_namespaces)
        self.failures = RejectedCreates()
        self.failed_writes = FailedWrites(
            first=self._settings.first_backoff_seconds, longest=self._settings.longest_backoff_seconds
        )
        self.queue = WorkQueue(clock)
        self.observer = Observer(
            self.caches,
            self.failures,
            self.queue.add,
            failed_writes=self.failed_writes,
            mass_outage=self._settings.mass_outage,
            cluster=ClusterContext(
                backends=self._backends,
                is_topology_aware=self._settings.is_topology_aware,
                waits_for_topology=self._settings.waits_for_topology,
                objects_per_set=self._settings.objects_per_set,
                init_image=self._settings.init_image,
            ),
        )
        self.recorder = EventRecorder(client, clock)
        # Set when the connection was lost: the next response may come from another server.
        self._reconnected = asyncio.Event()
        self._history = ServerHistory()
        self._reflectors = self.caches.reflectors(
            client,
            clock,
            random,
            lost=self._reconnected.set,
            on_watch=self._history.note_watch,
            on_new_history=self._history.end,
        )
        decision_log = decision_log or (StructuredDecisionLog(self.caches) if is_logging else NoDecisionLog())
        self.topologies = TopologyReconciler(
            clock=clock,
            caches=self.caches,
            executor=Executor(client, self.caches, clock, self._settings, self.failed_writes, self._history),
            failed_writes=self.failed_writes,
            recorder=self.recorder,
            settings=self._settings,
            decision_log=decision_log,
            is_missing=self._is_missing,
        )
        self.loop = SetReconciler(
            clock=clock,
            queue=self.queue,
            observer=self.observer,
            executor=Executor(client, self.caches, clock, self._settings, self.failed_writes, self._history),
            failures=self.failures,
            failed_writes=self.failed_writes,
            recorder=self.recorder,
            settings=self._settings,
            instrumentation=instrumentation or NoInstrumentation(),
            decision_log=decision_log,
        )

    @property
    def is_synced(self) -> bool:
        """Return whether every kind was listed once; sets are reconciled only then."""
        return not self.find_unlisted()

    def find_unlisted(self) -> list[str]:
        """Return the resources that were not listed yet."""
        return [
            *(plural for plural, reflector in self._reflectors.items() if not reflector.listed.is_set()),
            *(name for name, reflector in self._optional.items() if not reflector.answered.is_set()),
        ]

    def watch_restarts(self) -> dict[str, int]:
        """Return the restarts by resource."""
        restarts: Counter[str] = Counter()
        for name, reflector in self._reflectors.items():
            restarts[unscoped_name(name)] += reflector.restarts
        return dict(restarts)

    def stale_seconds(self) -> dict[str, float]:
        """Return, by resource, for how long its cache may be stale."""
        stale: dict[str, float] = {}
        for name, reflector in {**self._reflectors, **self._optional}.items():
            kind = unscoped_name(name)
            stale[kind] = max(stale.get(kind, 0.0), reflector.stale_seconds)
        return stale

    def unreadable(self) -> dict[str, tuple[ObjectMeta, ...]]:
        """Return, by resource, the objects that the operator cannot decode and therefore ignores."""
        found: dict[str, tuple[ObjectMeta, ...]] = {}
        for name, reflector in {**self._reflectors, **self._optional}.items():
            kind = unscoped_name(name)
            found[kind] = (*found.get(kind, ()), *reflector.unreadable.values())
        return found

    def lasting_failures(self) -> tuple[FailedWrite, ...]:
        """Return writes that have failed for a minute, the oldest first."""
        now = self._clock.now()
        return tuple(one for one in self.failed_writes.all() if one.is_lasting(now))

    def failing_by_reason(self) -> Counter[str]:
        """Count the writes that fail now: those of `failed_writes`, and rejected creates."""
        return self.failed_writes.count_by_reason() + self.failures.count_by_code()

    async def run(self) -> None:
        """Run until cancelled. Raises `NewHistoryError` if the server was restored; then start another controller."""
        try:
            await self._run()
        except BaseExceptionGroup as errors:
            if self._history.is_over and errors.split(NewHistoryError)[1] is None:
                raise NewHistoryError("the API server shows an older state than before") from None
            raise

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._history.watch_over())
            for reflector in self._reflectors.values():
                tasks.create_task(reflector.run())
            tasks.create_task(self.recorder.run())
            self._follow(tasks, TOPOLOGY_BINDINGS)
            for kind in topology_kinds(self._settings).values():
                self._follow(tasks, kind)
            await self._discover(tasks)
            # Wait for all caches: an object that was not listed yet is not missing.
            for reflector in self._reflectors.values():
                await reflector.listed.wait()
            for optional in self._optional.values():
                await optional.answered.wait()
            for _ in range(self._settings.workers):
                tasks.create_task(self.loop.work())
            if self._settings.is_topology_aware:
                tasks.create_task(self.topologies.run())
            tasks.create_task(self._discover_again(tasks))

    async def _discover(self, tasks: asyncio.TaskGroup) -> None:
        """Discover the features of the API server, and watch the kinds that the backends need."""
        features = await self._features()
        self._backends = Backends(enabled=self._backends.enabled, default=self._backends.default, features=features)
        for backend in self._backends.all():
            for kind in (*backend.object_kinds, *backend.queues):
                self._follow(tasks, kind)
        self._update_features()

    async def _features(self) -> NativeFeatures:
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                features = await find_features(self._client)
            except ApiError as error:
                self._note_discovery_error(error)
                await self._clock.sleep(max(pause, error.retry_after or 0.0))
                pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
            else:
                self._note_discovery_error(None)
                self.has_features = True
                return features

    def _note_discovery_error(self, error: ApiError | None) -> None:
        """Log each change once: discovery is retried every few seconds."""
        before, self.discovery_error = self.discovery_error, error
        if error is not None and self._is_logging and (before is None or before.code != error.code):
            log.error(
                "cannot discover the features of the API server", code=error.code, reason=error.reason,
                message=error.brief,
            )  # fmt: skip

    async def _discover_again(self, tasks: asyncio.TaskGroup) -> None:
        """Discover features again after a reconnect: the API server may be another one."""
        while True:
            await self._reconnected.wait()
            self._reconnected.clear()
            await self._discover(tasks)

    def _follow(self, tasks: asyncio.TaskGroup, kind: Resource[Any]) -> None:
        for namespace in self.caches.scopes(kind):
            name = scoped_name(namespace, kind.full_name)
            if name in self._optional:
                continue
            reflector = self.caches.optional_reflector(
                kind,
                namespace,
                self._client,
                self._clock,
                self._random,
                changed=self._update_features,
                on_new_history=self._history.end,
            )
            self._optional[name] = reflector
            tasks.create_task(reflector.run())

    def _update_features(self) -> None:
        missing = frozenset(unscoped_name(name) for name, reflector in self._optional.items() if reflector.is_missing)
        self.observer.update_features(self._backends, missing)
        self.topologies.wake_all()

    def _is_missing(self, kind: Resource[Any]) -> bool:
        # A kind is served in all namespaces or in none.
        name = scoped_name(self.caches.scopes(kind)[0], kind.full_name)
        reflector = self._optional.get(name)
        return reflector is None or reflector.is_missing


async def run_through_restores(
    make: Callable[[], Controller], on_new_history: Callable[[], None] = lambda: None
) -> None:
    """Run a controller. When the API server was restored from a backup, start a new one with an empty cache."""
    while True:
        try:
            await make().run()
        except NewHistoryError:
            log.error("the API server was restored from a backup: all caches are rebuilt before the next write")
            on_new_history()

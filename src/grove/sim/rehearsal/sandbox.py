"""A sandbox for rehearsals: objects of a real cluster in an embedded server on virtual time, with the real operator.

Loaded objects keep their identity, age and status. Pods that have started, or cannot start, do not change until they
are deleted. Nodes keep their state too: no component marks one as lost. Nothing reaches the real cluster.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from random import Random
from typing import Any, Generic, TypeVar

import msgspec

from grove.api.resources import PODS
from grove.api.types.meta import JsonObject, NamespacedName, Uid
from grove.api.types.pod import Pod
from grove.api.values.clique_counts import LOCAL_IMAGE
from grove.clock import Clock, LoopClock
from grove.cluster.apiserver.api_server import ApiServer
from grove.cluster.built_in_resources import SERVED, ResourceInfo
from grove.cluster.controllers.garbage_collector import GarbageCollector
from grove.cluster.in_process_transport import InProcessTransport
from grove.cluster.kubelet.simulated.simulated_kubelet import SimulatedKubelet
from grove.cluster.node_pod_cache import BoundPods
from grove.cluster.scheduler.scheduler import DEFAULT_NAMES, Scheduler
from grove.controller.controller_options import ControllerOptions
from grove.controller.manager import Controller, run_through_restores
from grove.errors import UserError
from grove.kube.api_errors import ApiError
from grove.kube.client import Client
from grove.kube.reflector import Reflector
from grove.kube.store import Store
from grove.kube.transport import Transport
from grove.kube.write_limiter import WriteLimiter
from grove.sim.in_process_admission import admission_of
from grove.sim.rehearsal.cluster_import import Observed
from grove.sim.rehearsal.pod_recorder import PodHistory, PodRecorder, Recorded
from grove.sim.rehearsal.prediction import PredictedOutcome, predict

C = TypeVar("C")
E = TypeVar("E")
R = TypeVar("R")

# The real start time of pods is unknown. This is shorter than every timeout of the operator, so no step looks stalled.
READY_AFTER = timedelta(seconds=10)
# The rehearsal ends when nothing has changed for this time (the short one if everything is as requested), or when there
# were changes but no progress for the longest one.
QUIET_SECONDS = 900.0
DONE_SECONDS = 90.0
# Before the change: long enough for one reconcile, and too short for pods that are starting to become ready.
WARM_UP_SECONDS = 0.5
# A younger pod without errors and restarts is starting; the status of others does not change.
STARTS_WITHIN = timedelta(minutes=10)
PATIENCE_SECONDS = 7200.0
LONGEST_SECONDS = 7 * 24 * 3600.0
MOST_CHANGES = 1_000_000
_CHECK_SECONDS = 20.0

_STARTING = ("", "ContainerCreating", "PodInitializing")
_UNLIMITED_NODE = "somewhere"
_HELD = "held.grove.io"
_KINDS = {(resource_info.api_version, resource_info.kind): resource_info for resource_info in SERVED}


class Rehearsal(msgspec.Struct, Generic[C, E], frozen=True, kw_only=True):
    """The result of a rehearsal. `changed` and `ending` are what the caller's functions returned."""

    changed: C
    ending: E
    sets: tuple[Recorded, ...]
    # Whether everything settled.
    is_settled: bool
    # Pods that changed before the change was applied: the cluster had not settled.
    moving: dict[NamespacedName, tuple[PodHistory, ...]]
    # Pods that are pending in the real cluster although the sandbox would place them.
    held: tuple[str, ...] = ()


async def rehearse(
    observed: Observed,
    sets: Sequence[NamespacedName],
    change: Callable[[Transport], Awaitable[C]],
    at_end: Callable[[Client, Clock], Awaitable[E]],
    *,
    schedulers: Iterable[str] = (),
) -> Rehearsal[C, E]:
    """Run the operator briefly, apply the change, and wait until it settles. Errors of `change` are not wrapped.

    Call it on a virtual loop. `schedulers`: scheduler names that pods may have besides the default one; here all are
    one scheduler.
    """
    served_names = (*DEFAULT_NAMES, *schedulers)
    held = await _find_held_pods(observed, sets, served_names)
    sandbox = _Sandbox(observed, sets, served_names, held)

    async def steps() -> Rehearsal[C, E]:
        await sandbox.clock.sleep(WARM_UP_SECONDS)
        moving = sandbox.recorder.find_changed_pods()
        sandbox.recorder.begin()
        changed = await change(sandbox.connect())
        is_settled = await sandbox.settle()
        return Rehearsal(
            changed=changed,
            ending=await at_end(sandbox.client(), sandbox.clock),
            sets=sandbox.recorder.end(),
            is_settled=is_settled,
            moving=moving,
            held=tuple(sorted(sandbox.names_of(held))),
        )

    return await sandbox.run(steps())


async def _find_held_pods(
    observed: Observed, sets: Sequence[NamespacedName], served_names: Sequence[str]
) -> frozenset[Uid]:
    """Return pods that the real scheduler reports as unschedulable but this one would place: they stay pending."""
    waiting = frozenset(Uid(obj["metadata"]["uid"]) for obj in observed.objects if _is_unschedulable(obj))
    if not waiting:
        return frozenset()
    trial = _Sandbox(observed, sets, served_names, frozenset())

    async def steps() -> frozenset[Uid]:
        await trial.clock.sleep(WARM_UP_SECONDS)
        return frozenset(pod.metadata.uid for pod in trial.pods() if pod.spec.node_name) & waiting

    return await trial.run(steps())


class _Sandbox:
    """One embedded cluster with its operator."""

    def __init__(
        self, observed: Observed, sets: Sequence[NamespacedName], served_names: Sequence[str], held: frozenset[Uid]
    ) -> None:
        self.clock: Clock = LoopClock(observed.at)
        self._random = Random(0)
        self.server = ApiServer(self.clock, self._new_random(), admission=admission_of(lambda: self.server.store))
        self._has_nodes = observed.has_nodes
        self._served_names = served_names
        self._load(observed, held)
        now = self.clock.now()
        self._keeps = frozenset(
            pod.metadata.uid for pod in self.pods() if pod.spec.node_name and not _is_starting(pod, now)
        )  # fmt: skip
        self.recorder = PodRecorder(self.clock, self.server.store, sets)

    def connect(self) -> InProcessTransport:
        return InProcessTransport(self.server, self.clock)

    def client(self) -> Client:
        return Client(self.connect(), self.clock)

    def pods(self) -> list[Pod]:
        table = self.server.store.table(_KINDS["v1", "Pod"])
        return [msgspec.convert(entry.obj, Pod) for entry in table.entries(None)]

    def names_of(self, uids: frozenset[Uid]) -> list[str]:
        return [pod.metadata.name for pod in self.pods() if pod.metadata.uid in uids]

    async def run(self, steps: Coroutine[Any, Any, R]) -> R:
        """Run the steps together with all components. A component that fails ends the run with its error."""
        running = asyncio.create_task(self._run_components())
        body = asyncio.create_task(steps)
        await asyncio.wait((running, body), return_when=asyncio.FIRST_COMPLETED)
        for task in (running, body):
            task.cancel()
        await asyncio.wait((running, body))
        if not running.cancelled():
            running.result()
        return body.result()

    async def settle(self) -> bool:
        """Let time pass until nothing changes or no progress is made; return whether it settled."""
        began_at = self.clock.monotonic()
        self.recorder.changed_at = self.recorder.advanced_at = began_at
        while True:
            await self.clock.sleep(_CHECK_SECONDS)
            now = self.clock.monotonic()
            quiet = now - self.recorder.changed_at
            if quiet >= QUIET_SECONDS or (quiet >= DONE_SECONDS and self._is_done()):
                return True
            is_stuck = now - self.recorder.advanced_at >= PATIENCE_SECONDS
            if is_stuck or now - began_at >= LONGEST_SECONDS or self.recorder.change_count > MOST_CHANGES:
                return False

    def _is_done(self) -> bool:
        outcomes = [predict(one, is_settled=True).outcome for one in self.recorder.end()]
        return all(outcome in (PredictedOutcome.NOTHING, PredictedOutcome.DONE) for outcome in outcomes)

    async def _run_components(self) -> None:
        clock = self.clock
        bound = BoundPods(self.client(), clock, self._new_random())
        kubelet = SimulatedKubelet(
            self.client(), clock, self._new_random(), bound, ready_after=READY_AFTER, unmanaged=self._keeps
        )
        client = Client(self.connect(), clock, WriteLimiter(clock))
        options = ControllerOptions(init_image=LOCAL_IMAGE)
        operating = run_through_restores(
            lambda: Controller(client, clock, self._new_random(), options, decision_log=self.recorder)
        )
        placing = (
            Scheduler(self.client(), clock, self._new_random(), served_names=self._served_names).run()
            if self._has_nodes
            else _UnlimitedScheduler(self.client(), clock, self._new_random()).run()
        )
        async with asyncio.TaskGroup() as tasks:
            for part in (bound.run(), kubelet.run(), GarbageCollector(self.server).run(), placing, operating):
                tasks.create_task(part)

    # Loading

    def _load(self, observed: Observed, held: frozenset[Uid]) -> None:
        known = frozenset(obj["metadata"].get("uid") for obj in observed.objects)
        for obj in observed.objects:
            self._put(_adapt_object(obj, known, is_held=obj["metadata"].get("uid") in held))
        if not observed.has_nodes:
            named = {
                str(obj["spec"].get("nodeName") or _UNLIMITED_NODE): None for obj in observed.objects if _is_pod(obj)
            }
            for name in {**named, _UNLIMITED_NODE: None}:
                self._put(_ready_node(name))

    def _put(self, obj: JsonObject) -> None:
        resource_info = _resource_info_of(obj)
        metadata = obj["metadata"]
        self.server.store.put(
            resource_info, metadata.get("namespace", "") if resource_info.namespaced else "", metadata["name"], obj
        )

    def _new_random(self) -> Random:
        """Return a generator for one component."""
        return Random(self._random.getrandbits(64))


class _UnlimitedScheduler:
    """A scheduler for rehearsals without nodes: it binds every pod that has no gates."""

    def __init__(self, client: Client, clock: Clock, random: Random) -> None:
        self._client = client
        self._pods: Store[Pod] = Store()
        self._reflector = Reflector(client, PODS, self._pods, clock, random)
        self._to_bind: asyncio.Queue[Pod] = asyncio.Queue()
        self._pods.subscribe(self._pod_changed)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._reflector.run())
            while True:
                metadata = (await self._to_bind.get()).metadata
                try:
                    await self._client.bind(metadata.namespace, metadata.name, _UNLIMITED_NODE, uid=metadata.uid)
                except ApiError as error:
                    # Bound or deleted since.
                    if not (error.is_conflict or error.is_not_found):
                        raise

    def _pod_changed(self, _old: Pod | None, new: Pod | None) -> None:
        if new is not None and not new.spec.node_name and not new.spec.scheduling_gates and new.is_active:
            self._to_bind.put_nowait(new)


def _resource_info_of(obj: JsonObject) -> ResourceInfo:
    resource_info = _KINDS.get((str(obj["apiVersion"]), str(obj["kind"])))
    if resource_info is None:
        raise UserError(f"{obj['apiVersion']} {obj['kind']} cannot be rehearsed; leave it out")
    return resource_info


def _adapt_object(obj: JsonObject, known: frozenset[object], *, is_held: bool) -> JsonObject:
    """Return the object without owners that were not imported: the garbage collector would delete it."""
    metadata = {**obj["metadata"]}
    if owners := metadata.pop("ownerReferences", None):
        metadata["ownerReferences"] = [owner for owner in owners if owner.get("uid") in known]
    if not _is_pod(obj):
        return {**obj, "metadata": metadata}
    # The controllers that remove finalizers do not run here.
    metadata.pop("finalizers", None)
    return {**obj, "metadata": metadata, "spec": {**obj["spec"], "schedulerName": _HELD} if is_held else obj["spec"]}


def _is_pod(obj: Mapping[str, object]) -> bool:
    return obj["kind"] == "Pod"


def _is_starting(pod: Pod, now: datetime) -> bool:
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    waiting = [status.state.waiting.reason for status in statuses if status.state.waiting is not None]
    return (
        pod.is_active
        and not pod.is_ready
        and (pod.metadata.creation_timestamp or now) + STARTS_WITHIN > now
        and not any(status.restart_count for status in statuses)
        and all(reason in _STARTING for reason in waiting)
    )


def _is_unschedulable(obj: JsonObject) -> bool:
    if not _is_pod(obj) or obj["spec"].get("nodeName"):
        return False
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == "PodScheduled" and one.get("reason") == "Unschedulable" for one in conditions)


def _ready_node(name: str) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": f"of-{name}"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }

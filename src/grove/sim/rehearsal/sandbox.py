"""A real cluster rehearsed: its objects in an embedded server on virtual time, with the real operator at work on them.

What is loaded keeps its identity, age and status. Pods that have started, or cannot start, stay as they are until they
are deleted; nodes keep their state as well: nobody here takes one for lost. Nothing that happens here reaches the
cluster.
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
from grove.clock import Clock, LoopClock
from grove.cluster.apiserver.api_server import ApiServer
from grove.cluster.built_in_resources import SERVED, ResourceInfo
from grove.cluster.controllers.garbage_collector import GarbageCollector
from grove.cluster.in_process_transport import InProcessTransport
from grove.cluster.kubelet.simulated.simulated_kubelet import SimulatedKubelet
from grove.cluster.node_pod_cache import BoundPods
from grove.cluster.scheduler.scheduler import DEFAULT_NAMES, Scheduler
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
from grove.sim.rehearsal.pod_recorder import PodRecorder, PodStory, Recorded
from grove.sim.rehearsal.prediction import PredictedOutcome, predict

C = TypeVar("C")
E = TypeVar("E")
R = TypeVar("R")

# Nobody knows how long real pods take. Shorter than any patience of the operator's, so that no step seems to hang.
READY_AFTER = timedelta(seconds=10)
# Over when nothing has happened for so long, and sooner when all is as it was asked for; given up when nothing has gone
# forward for so long, though things happen.
QUIET_SECONDS = 900.0
DONE_SECONDS = 90.0
# Before the change: long enough for everybody to look once, and too short for anything that is on its way to arrive.
LOOK_AROUND_SECONDS = 0.5
# A pod that is younger, has no error and was never restarted is on its way; others stay as they are.
STARTS_WITHIN = timedelta(minutes=10)
PATIENCE_SECONDS = 7200.0
LONGEST_SECONDS = 7 * 24 * 3600.0
MOST_CHANGES = 1_000_000
_CHECK_SECONDS = 20.0

_STARTING = ("", "ContainerCreating", "PodInitializing")
_ENDLESS = "somewhere"
_HELD = "held.grove.io"
_KINDS = {(resource_info.api_version, resource_info.kind): resource_info for resource_info in SERVED}


class Rehearsal(msgspec.Struct, Generic[C, E], frozen=True, kw_only=True):
    """`changed` and `ending` are what the caller's functions returned."""

    changed: C
    ending: E
    sets: tuple[Recorded, ...]
    # Whether everything came to rest.
    is_settled: bool
    # Pods that moved before anything was changed: the cluster itself is on its way.
    moving: dict[NamespacedName, tuple[PodStory, ...]]
    # Pods that wait for a node in the cluster though they would get one here.
    held: tuple[str, ...] = ()


async def rehearse(
    observed: Observed,
    sets: Sequence[NamespacedName],
    change: Callable[[Transport], Awaitable[C]],
    at_end: Callable[[Client, Clock], Awaitable[E]],
    *,
    schedulers: Iterable[str] = (),
) -> Rehearsal[C, E]:
    """Look around, change it, let it come to rest. On a virtual loop; errors of `change` come out as they are.

    `schedulers`: names that pods of the sets may ask for besides the default one; here all are one scheduler.
    """
    served_names = (*DEFAULT_NAMES, *schedulers)
    held = await _held(observed, sets, served_names)
    sandbox = _Sandbox(observed, sets, served_names, held)

    async def story() -> Rehearsal[C, E]:
        await sandbox.clock.sleep(LOOK_AROUND_SECONDS)
        moving = sandbox.recorder.happened()
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

    return await sandbox.run(story())


async def _held(observed: Observed, sets: Sequence[NamespacedName], served_names: Sequence[str]) -> frozenset[Uid]:
    """Pods that the cluster's scheduler says do not fit, and ours would place: it knows something that we do not."""
    waiting = frozenset(Uid(obj["metadata"]["uid"]) for obj in observed.objects if _is_unschedulable(obj))
    if not waiting:
        return frozenset()
    trial = _Sandbox(observed, sets, served_names, frozenset())

    async def story() -> frozenset[Uid]:
        await trial.clock.sleep(LOOK_AROUND_SECONDS)
        return frozenset(pod.metadata.uid for pod in trial.pods() if pod.spec.node_name) & waiting

    return await trial.run(story())


class _Sandbox:
    """One embedded cluster with its operator."""

    def __init__(
        self, observed: Observed, sets: Sequence[NamespacedName], served_names: Sequence[str], held: frozenset[Uid]
    ) -> None:
        self.clock: Clock = LoopClock(observed.at)
        self._random = Random(0)
        self.server = ApiServer(self.clock, self._chance(), admission=admission_of(lambda: self.server.store))
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

    async def run(self, story: Coroutine[Any, Any, R]) -> R:
        """The story, with everybody at work; one of them that fails ends it with its error."""
        living = asyncio.create_task(self._live())
        telling = asyncio.create_task(story)
        await asyncio.wait((living, telling), return_when=asyncio.FIRST_COMPLETED)
        for task in (living, telling):
            task.cancel()
        await asyncio.wait((living, telling))
        if not living.cancelled():
            living.result()
        return telling.result()

    async def settle(self) -> bool:
        """Let time pass until nothing happens any more, or nothing comes of it; whether it came to rest."""
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

    async def _live(self) -> None:
        clock = self.clock
        bound = BoundPods(self.client(), clock, self._chance())
        kubelet = SimulatedKubelet(
            self.client(), clock, self._chance(), bound, ready_after=READY_AFTER, keeps=self._keeps
        )
        client = Client(self.connect(), clock, WriteLimiter(clock))
        operating = run_through_restores(lambda: Controller(client, clock, self._chance(), journal=self.recorder))
        placing = (
            Scheduler(self.client(), clock, self._chance(), served_names=self._served_names).run()
            if self._has_nodes
            else _EndlessRoom(self.client(), clock, self._chance()).run()
        )
        async with asyncio.TaskGroup() as tasks:
            for part in (bound.run(), kubelet.run(), GarbageCollector(self.server).run(), placing, operating):
                tasks.create_task(part)

    # Loading

    def _load(self, observed: Observed, held: frozenset[Uid]) -> None:
        known = frozenset(obj["metadata"].get("uid") for obj in observed.objects)
        for obj in observed.objects:
            self._put(_sandboxed(obj, known, is_held=obj["metadata"].get("uid") in held))
        if not observed.has_nodes:
            named = {str(obj["spec"].get("nodeName") or _ENDLESS): None for obj in observed.objects if _is_pod(obj)}
            for name in {**named, _ENDLESS: None}:
                self._put(_ready_node(name))

    def _put(self, obj: JsonObject) -> None:
        resource_info = _served(obj)
        metadata = obj["metadata"]
        self.server.store.put(
            resource_info, metadata.get("namespace", "") if resource_info.namespaced else "", metadata["name"], obj
        )

    def _chance(self) -> Random:
        """Chance of its own for every part."""
        return Random(self._random.getrandbits(64))


class _EndlessRoom:
    """In place of a scheduler where nodes cannot be seen: whoever may be placed, is."""

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
                    await self._client.bind(metadata.namespace, metadata.name, _ENDLESS, uid=metadata.uid)
                except ApiError as error:
                    # Bound or deleted since.
                    if not (error.is_conflict or error.is_not_found):
                        raise

    def _pod_changed(self, _old: Pod | None, new: Pod | None) -> None:
        if new is not None and not new.spec.node_name and not new.spec.scheduling_gates and new.is_active:
            self._to_bind.put_nowait(new)


def _served(obj: JsonObject) -> ResourceInfo:
    resource_info = _KINDS.get((str(obj["apiVersion"]), str(obj["kind"])))
    if resource_info is None:
        raise UserError(f"{obj['apiVersion']} {obj['kind']} cannot be rehearsed; leave it out")
    return resource_info


def _sandboxed(obj: JsonObject, known: frozenset[object], *, is_held: bool) -> JsonObject:
    """Without owners that are not here: the garbage collector would take them for gone."""
    metadata = {**obj["metadata"]}
    if owners := metadata.pop("ownerReferences", None):
        metadata["ownerReferences"] = [owner for owner in owners if owner.get("uid") in known]
    if not _is_pod(obj):
        return {**obj, "metadata": metadata}
    # Whoever would take them off is not here either.
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

"""A whole world on one clock: cluster, nodes, scheduler, kubelet and operator, each behind its own connection.

What may go wrong is `faults.py`, what happened is `write_log.py`. Run it with `clock.run_virtual`; the seed decides
everything else.
"""

import asyncio
import re
from collections.abc import Callable, Coroutine, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

import msgspec
import yaml

from grove.api.resources import PODS, Resource
from grove.api.types.meta import HasMetadata, JsonObject
from grove.api.types.pod import Pod
from grove.clock import Clock, LoopClock
from grove.cluster.apiserver.api_server import ApiServer
from grove.cluster.built_in_resources import SERVED
from grove.cluster.controllers.garbage_collector import GarbageCollector
from grove.cluster.controllers.node_lifecycle import NodeLifecycle
from grove.cluster.in_process_transport import InProcessTransport
from grove.cluster.kubelet.simulated.simulated_kubelet import SimulatedKubelet
from grove.cluster.node_pod_cache import BoundPods
from grove.cluster.nodes import Nodes, NodeTopology
from grove.cluster.scheduler.scheduler import Scheduler
from grove.controller.manager import Controller, run_through_restores
from grove.errors import Bug, UserError
from grove.kube.api_errors import ApiError, Status
from grove.kube.client import Client
from grove.kube.transport import MERGE_PATCH, Request, Response
from grove.kube.write_limiter import WriteLimiter
from grove.sim.faults import CALM, FaultPlan, FaultyTransport, RecordedWrite
from grove.sim.in_process_admission import admission_of
from grove.sim.invariants.pods_and_gangs import Invariants
from grove.sim.write_log import Timeline

T = TypeVar("T", bound=HasMetadata)

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
NODE_RESOURCES: Mapping[str, str] = {"cpu": "32", "memory": "256Gi", "nvidia.com/gpu": "8", "pods": "110"}
RESTART_SECONDS = 1.0
_KINDS = {(resource_info.api_version, resource_info.kind): resource_info for resource_info in SERVED}


class SimulatedOperator(Protocol):
    async def run(self) -> None: ...


OperatorFactory = Callable[[Client, Clock, Random], SimulatedOperator]


class _ThroughRestores:
    """Implements `SimulatedOperator`: a controller, and another one whenever the server was restored from a backup."""

    def __init__(self, make: Callable[[], Controller]) -> None:
        self._make = make

    async def run(self) -> None:
        await run_through_restores(self._make)


def grove_operator(client: Client, clock: Clock, random: Random) -> SimulatedOperator:
    return _ThroughRestores(lambda: Controller(client, clock, random))


class NotSettled(Bug):
    """The world kept changing for longer than it was allowed to; the message shows the last changes."""


class SimulatedApply(msgspec.Struct, frozen=True, kw_only=True):
    """The object as the server now has it, and what the server warned about."""

    object: JsonObject
    warnings: tuple[str, ...] = ()


class World:
    """`async with World(seed=7, nodes=10) as world:` - then apply, scale, break things, settle, and look.

    A crashed operator is started again after a second, with empty memory, unless it was crashed by `crash_controller`.
    An inhabitant that fails ends the world with its error.
    """

    def __init__(
        self,
        *,
        seed: int = 0,
        nodes: int = 0,
        node_resources: Mapping[str, str] = NODE_RESOURCES,
        layout: NodeTopology | None = None,
        faults: FaultPlan = CALM,
        cluster_faults: FaultPlan = CALM,
        operator: OperatorFactory | None = grove_operator,
        is_checked: bool = True,
    ) -> None:
        self.seed = seed
        self._is_checked = is_checked
        self.timeline = Timeline()
        self._node_count = nodes
        self._node_resources = node_resources
        self._layout = layout
        self._faults = faults
        self._cluster_faults = cluster_faults
        self._operator_factory = operator
        self._inhabitants: list[asyncio.Task[None]] = []
        self._transports: list[FaultyTransport] = []
        self._frozen: dict[str, FaultyTransport] = {}
        self._controller_task: asyncio.Task[None] | None = None
        self._life_count = 0

    async def __aenter__(self) -> Self:
        self.clock: Clock = LoopClock(EPOCH)
        self.server = ApiServer(self.clock, self._random("server"), admission=admission_of(lambda: self.server.store))
        self._changed = asyncio.Event()
        self.invariants = Invariants(self.clock)
        if self._is_checked:
            self.server.store.subscribe(self.invariants.observe)
        self.server.store.subscribe(lambda *_: self._changed.set())
        self.server.observers.append(_check_no_bug)
        self.server.observers.append(lambda *_: self.invariants.end_request())
        self.user = self._connect("user", CALM)
        self.client = Client(self.user, self.clock)
        self.nodes = Nodes(self.client, self.clock, self._layout)
        self._tasks = asyncio.TaskGroup()
        await self._tasks.__aenter__()
        self._populate()
        if self._node_count:
            await self.add_nodes(self._node_count)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._inhabitants:
            task.cancel()
        # Only a cancellation concerns the group: any other error of a story must come out as it is.
        is_cancelled = kind is not None and issubclass(kind, asyncio.CancelledError)
        await self._tasks.__aexit__(*((kind, error, trace) if is_cancelled else (None, None, None)))

    # What users and administrators do

    async def apply(self, manifest: JsonObject | Path) -> tuple[SimulatedApply, ...]:
        """Create or change what the manifest says, in namespace `default` unless it names one. Raises `ApiError`."""
        return tuple([await self._apply_one(document) for document in _documents(manifest)])

    async def scale(self, resource: Resource[Any], name: str, replicas: int, *, namespace: str = "default") -> None:
        body = msgspec.json.encode({"spec": {"replicas": replicas}})
        path = resource.path(namespace, name, "scale")
        await self._ask(Request(method="PATCH", path=path, body=body, content_type=MERGE_PATCH))

    async def delete(self, resource: Resource[Any], name: str, *, namespace: str = "default") -> None:
        await self.client.delete(resource, namespace, name)

    async def add_nodes(self, number: int, labels: Mapping[str, str] | None = None) -> tuple[str, ...]:
        return await self.nodes.create(number, self._node_resources, labels)

    # Looking at it

    def objects(self, resource: Resource[T], *, namespace: str = "", label_selector: str = "") -> tuple[T, ...]:
        """What the server holds now, without a moment passing."""
        query = {"labelSelector": label_selector} if label_selector else {}
        response = self.server.handle(Request(method="GET", path=resource.path(namespace), query=query))
        items = msgspec.json.decode(response.body, type=_Items).items
        return tuple(msgspec.json.decode(item, type=resource.view) for item in items)

    def pods(self, *, namespace: str = "") -> tuple[Pod, ...]:
        return self.objects(PODS, namespace=namespace)

    def running_pods(self, *, namespace: str = "") -> tuple[Pod, ...]:
        """Pods that run and stay."""
        return tuple(
            pod for pod in self.pods(namespace=namespace)
            if pod.status.phase == "Running" and not pod.metadata.is_terminating
        )  # fmt: skip

    def writes_by(self, who: str) -> tuple[RecordedWrite, ...]:
        """Of `user`, `operator` (all its lives), `scheduler`, `kubelet` or `nodes`; what reached the server."""
        return self.timeline.writes_by(who)

    def check(self) -> None:
        """Raise `InvariantBroken` if a safety rule did not hold at any moment so far. Call it at rest."""
        self.invariants.check()

    def check_safety(self) -> None:
        """Raise `InvariantBroken` if a safety rule did not hold so far, also while the operator is down or at work."""
        self.invariants.check_safety()

    # Time

    async def settle(self, *, quiet_seconds: float = 60.0, limit_seconds: float = 3600.0) -> None:
        """Let time pass until nothing has changed for `quiet_seconds`; raises `NotSettled` after `limit_seconds`."""
        deadline = self.clock.monotonic() + limit_seconds
        while True:
            revision = self.server.store.revision
            await self.clock.sleep(quiet_seconds)
            if self.server.store.revision == revision:
                return
            if self.clock.monotonic() >= deadline:
                raise NotSettled(f"seed {self.seed}: still changing; last:\n{self.timeline.text(last=20)}")

    async def wait_until(self, holds: Callable[[], bool], *, limit_seconds: float = 3600.0) -> None:
        """Let time pass until something holds, looked at after every change."""
        try:
            async with asyncio.timeout(limit_seconds):
                while not holds():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise NotSettled(f"seed {self.seed}: never came true; last:\n{self.timeline.text(last=20)}") from None

    # Faults

    def calm(self) -> None:
        """Stop all faults, now and for later lives of the operator."""
        self._faults = self._cluster_faults = CALM
        for transport in self._transports:
            transport.plan = CALM

    def set_faults(self, plan: FaultPlan) -> None:
        """Other weather for the operator, in this life and the next ones."""
        self._faults = plan
        self.operator.plan = plan

    async def crash_controller(self) -> None:
        """Kill the operator between two of its steps; it stays down until `restart_controller`."""
        self.operator.crash()
        task, self._controller_task = self._controller_task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def restart_controller(self) -> None:
        """Start the operator with empty memory; one that runs is killed first."""
        await self.crash_controller()
        self._start_controller()

    def freeze_watch(self, plural: str) -> None:
        """The operator hears nothing of this resource until `thaw_watch`; rules judge it by what it could know."""
        self._frozen[plural] = self.operator
        self.operator.freeze_watch(plural)
        self.invariants.lose_sight()

    def thaw_watch(self, plural: str) -> None:
        self._frozen.pop(plural).thaw_watch(plural)
        self.invariants.regain_sight()

    # How it is made

    def _populate(self) -> None:
        bound = BoundPods(self._cluster_client("kubelet"), self.clock, self._random("bound"))
        kubelet = SimulatedKubelet(self._cluster_client("kubelet"), self.clock, self._random("kubelet"), bound)
        lifecycle = NodeLifecycle(self._cluster_client("nodes"), self.clock, self._random("nodes"), bound)
        scheduler = Scheduler(self._cluster_client("scheduler"), self.clock, self._random("scheduler"))
        garbage = GarbageCollector(self.server)
        for name, run in (
            ("bound", bound.run()), ("kubelet", kubelet.run()), ("nodes", lifecycle.run()),
            ("scheduler", scheduler.run()), ("garbage", garbage.run()),
        ):  # fmt: skip
            self._inhabit(name, run)
        if self._operator_factory is not None:
            self._start_controller()

    def _inhabit(self, name: str, run: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._tasks.create_task(run, name=name)
        self._inhabitants.append(task)
        return task

    def _start_controller(self) -> None:
        self._begin_life()
        self._controller_task = self._inhabit("operator", self._live_again_and_again())

    def _begin_life(self) -> None:
        self._life_count += 1
        self.operator = self._connect("operator", self._faults, life=self._life_count)

    async def _live_again_and_again(self) -> None:
        while True:
            await self._live()
            await self.clock.sleep(RESTART_SECONDS)
            self._begin_life()

    async def _live(self) -> None:
        """Run the operator until it crashes."""
        if self._operator_factory is None:
            raise UserError("this world was made without an operator")
        client = Client(self.operator, self.clock, WriteLimiter(self.clock))
        operator = self._operator_factory(client, self.clock, self._random(f"operator/{self._life_count}"))
        async with asyncio.TaskGroup() as group:
            running = group.create_task(operator.run())
            await self.operator.crashed.wait()
            running.cancel()

    def _cluster_client(self, who: str) -> Client:
        return Client(self._connect(who, self._cluster_faults), self.clock)

    def _connect(self, who: str, plan: FaultPlan, *, life: int = 1) -> FaultyTransport:
        inner = InProcessTransport(self.server, self.clock)
        random = self._random(f"{who}/connection/{life}")
        transport = FaultyTransport(inner, self.clock, random, plan, on_write=partial(self._record, who))
        self._transports.append(transport)
        return transport

    def _record(self, who: str, write: RecordedWrite) -> None:
        self.timeline.record(who, write)
        if who == "operator" and self._is_checked:
            self.invariants.observe_write(write)

    def _random(self, purpose: str) -> Random:
        """Chance of its own for everyone, so that one's draws do not shift another's."""
        return Random(f"{self.seed}/{purpose}")

    async def _apply_one(self, document: JsonObject) -> SimulatedApply:
        api_version, kind = document["apiVersion"], document["kind"]
        resource_info = _KINDS.get((api_version, kind))
        if resource_info is None:
            raise UserError(f"{api_version} {kind}: not a kind of this cluster; check apiVersion and kind")
        metadata = document["metadata"]
        prefix = f"/apis/{api_version}" if resource_info.group else f"/api/{api_version}"
        namespace = f"/namespaces/{metadata.get('namespace', 'default')}" if resource_info.namespaced else ""
        path = f"{prefix}{namespace}/{resource_info.plural}"
        body = msgspec.json.encode(document)
        try:
            response = await self._ask(Request(method="POST", path=path, body=body))
        except ApiError as error:
            if not error.is_already_exists:
                raise
            change = Request(method="PATCH", path=f"{path}/{metadata['name']}", body=body, content_type=MERGE_PATCH)
            response = await self._ask(change)
        return SimulatedApply(object=msgspec.json.decode(response.body), warnings=_warnings(response))

    async def _ask(self, request: Request) -> Response:
        response = await self.user.send(request)
        if response.status >= 400:
            status = msgspec.json.decode(response.body, type=Status)
            raise ApiError(response.status, status.reason, status.message)
        return response


class _Items(msgspec.Struct, frozen=True, kw_only=True):
    items: tuple[msgspec.Raw, ...] = ()


def _documents(manifest: JsonObject | Path) -> tuple[JsonObject, ...]:
    if isinstance(manifest, dict):
        return (manifest,)
    return tuple(document for document in yaml.safe_load_all(manifest.read_text()) if document)


def _warnings(response: Response) -> tuple[str, ...]:
    """The texts of `299 - "text"` lines; in them quotes and backslashes are escaped."""
    lines = response.headers.get("Warning", "").splitlines()
    quoted = (line.removeprefix('299 - "').removesuffix('"') for line in lines)
    return tuple(re.sub(r"\\(.)", r"\1", text) for text in quoted)


def _check_no_bug(request: Request, response: Response) -> None:
    """A failure of the server must not look like one more fault that everybody survives."""
    if response.status == 500:
        raise Bug(f"{request.method} {request.path}: the embedded server failed; its log has the details")

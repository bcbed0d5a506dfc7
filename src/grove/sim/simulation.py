"""Simulation of a cluster on one clock: API server, nodes, scheduler, kubelet and operator, each with a connection.

`faults.py` injects faults, `write_log.py` records writes. Run it with `virtual_clock.run_virtual`; the seed decides
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
from grove.api.values.clique_counts import LOCAL_IMAGE
from grove.clock import Clock, LoopClock
from grove.cluster.apiserver.api_server import ApiServer
from grove.cluster.built_in_resources import SERVED
from grove.cluster.controllers.autoscaling.horizontal_controller import HorizontalController
from grove.cluster.controllers.garbage_collector import GarbageCollector
from grove.cluster.controllers.node_lifecycle import NodeLifecycle
from grove.cluster.in_process_transport import InProcessTransport
from grove.cluster.kubelet.simulated.simulated_kubelet import SimulatedKubelet
from grove.cluster.kubelet.simulated.simulated_usage import SimulatedUsage
from grove.cluster.node_pod_cache import BoundPods
from grove.cluster.nodes import Nodes, NodeTopology
from grove.cluster.scheduler.scheduler import Scheduler
from grove.controller.controller_options import ControllerOptions
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
# The loader in C is ten times as fast, but not every installation of PyYAML has it.
_YAML_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
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
    options = ControllerOptions(init_image=LOCAL_IMAGE)
    return _ThroughRestores(lambda: Controller(client, clock, random, options))


class NotSettled(Bug):
    """The cluster still changes after the time limit; the message shows the last changes."""


class SimulatedApply(msgspec.Struct, frozen=True, kw_only=True):
    """The object as stored, and the warnings of the server."""

    object: JsonObject
    warnings: tuple[str, ...] = ()


class World:
    """`async with World(seed=7, nodes=10) as world:` - then apply, scale, inject faults, settle, and read.

    A crashed operator is started again after a second, with empty memory, unless it was crashed by `crash_controller`.
    A component that fails ends the simulation with its error.
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
        self._component_tasks: list[asyncio.Task[None]] = []
        self._transports: list[FaultyTransport] = []
        self._frozen: dict[str, FaultyTransport] = {}
        self._controller_task: asyncio.Task[None] | None = None
        self._operator_starts = 0

    async def __aenter__(self) -> Self:
        self.clock: Clock = LoopClock(EPOCH)
        self.server = ApiServer(
            self.clock,
            self._random("server"),
            admission=admission_of(lambda: self.server.store),
            usage=SimulatedUsage(),
        )
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
        self._start_components()
        if self._node_count:
            await self.add_nodes(self._node_count)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._component_tasks:
            task.cancel()
        # Only a cancellation concerns the group; other errors are raised unchanged.
        is_cancelled = kind is not None and issubclass(kind, asyncio.CancelledError)
        await self._tasks.__aexit__(*((kind, error, trace) if is_cancelled else (None, None, None)))

    # What users and administrators do

    async def apply(self, manifest: JsonObject | Path) -> tuple[SimulatedApply, ...]:
        """Create or update the object of the manifest; the default namespace is `default`. Raises `ApiError`."""
        return tuple([await self._apply_one(document) for document in _documents(manifest)])

    async def scale(self, resource: Resource[Any], name: str, replicas: int, *, namespace: str = "default") -> None:
        body = msgspec.json.encode({"spec": {"replicas": replicas}})
        path = resource.path(namespace, name, "scale")
        await self._send(Request(method="PATCH", path=path, body=body, content_type=MERGE_PATCH))

    async def delete(self, resource: Resource[Any], name: str, *, namespace: str = "default") -> None:
        await self.client.delete(resource, namespace, name)

    async def add_nodes(self, number: int, labels: Mapping[str, str] | None = None) -> tuple[str, ...]:
        return await self.nodes.create(number, self._node_resources, labels)

    # Reads

    def objects(self, resource: Resource[T], *, namespace: str = "", label_selector: str = "") -> tuple[T, ...]:
        """Return the objects of the server; no time passes."""
        query = {"labelSelector": label_selector} if label_selector else {}
        response = self.server.handle(Request(method="GET", path=resource.path(namespace), query=query))
        items = msgspec.json.decode(response.body, type=_Items).items
        return tuple(msgspec.json.decode(item, type=resource.view) for item in items)

    def pods(self, *, namespace: str = "") -> tuple[Pod, ...]:
        return self.objects(PODS, namespace=namespace)

    def running_pods(self, *, namespace: str = "") -> tuple[Pod, ...]:
        """Return running pods that are not terminating."""
        return tuple(
            pod for pod in self.pods(namespace=namespace)
            if pod.status.phase == "Running" and not pod.metadata.is_terminating
        )  # fmt: skip

    def writes_by(self, who: str) -> tuple[RecordedWrite, ...]:
        """Return the writes that reached the server, by `user`, `operator`, `scheduler`, `kubelet` or `nodes`."""
        return self.timeline.writes_by(who)

    def check(self) -> None:
        """Raise `InvariantBroken` if an invariant was broken so far. Call it when the cluster has settled."""
        self.invariants.check()

    def check_safety(self) -> None:
        """Raise `InvariantBroken` if an invariant was broken so far. It may be called at any time."""
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
        """Let time pass until `holds` returns true; it is called after every change."""
        try:
            async with asyncio.timeout(limit_seconds):
                while not holds():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise NotSettled(f"seed {self.seed}: never came true; last:\n{self.timeline.text(last=20)}") from None

    # Faults

    def calm(self) -> None:
        """Stop all faults, also after later restarts of the operator."""
        self._faults = self._cluster_faults = CALM
        for transport in self._transports:
            transport.plan = CALM

    def set_faults(self, plan: FaultPlan) -> None:
        """Replace the faults of the operator, now and after its restarts."""
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
        """Send the operator no watch events of this resource until `thaw_watch`; the invariants allow for it."""
        self._frozen[plural] = self.operator
        self.operator.freeze_watch(plural)
        self.invariants.begin_stale()

    def thaw_watch(self, plural: str) -> None:
        self._frozen.pop(plural).thaw_watch(plural)
        self.invariants.end_stale()

    # Components

    def _start_components(self) -> None:
        bound = BoundPods(self._cluster_client("kubelet"), self.clock, self._random("bound"))
        kubelet = SimulatedKubelet(self._cluster_client("kubelet"), self.clock, self._random("kubelet"), bound)
        lifecycle = NodeLifecycle(self._cluster_client("nodes"), self.clock, self._random("nodes"), bound)
        scheduler = Scheduler(self._cluster_client("scheduler"), self.clock, self._random("scheduler"))
        garbage = GarbageCollector(self.server)
        autoscaler = HorizontalController(self.server)
        for name, run in (
            ("bound", bound.run()), ("kubelet", kubelet.run()), ("nodes", lifecycle.run()),
            ("scheduler", scheduler.run()), ("garbage", garbage.run()),
            ("autoscaler", autoscaler.run()),
        ):  # fmt: skip
            self._start_task(name, run)
        if self._operator_factory is not None:
            self._start_controller()

    def _start_task(self, name: str, run: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._tasks.create_task(run, name=name)
        self._component_tasks.append(task)
        return task

    def _start_controller(self) -> None:
        self._connect_operator()
        self._controller_task = self._start_task("operator", self._run_operator_with_restarts())

    def _connect_operator(self) -> None:
        self._operator_starts += 1
        self.operator = self._connect("operator", self._faults, start=self._operator_starts)

    async def _run_operator_with_restarts(self) -> None:
        while True:
            await self._run_operator()
            await self.clock.sleep(RESTART_SECONDS)
            self._connect_operator()

    async def _run_operator(self) -> None:
        """Run the operator until it crashes."""
        if self._operator_factory is None:
            raise UserError("this world was made without an operator")
        client = Client(self.operator, self.clock, WriteLimiter(self.clock))
        operator = self._operator_factory(client, self.clock, self._random(f"operator/{self._operator_starts}"))
        async with asyncio.TaskGroup() as group:
            running = group.create_task(operator.run())
            await self.operator.crashed.wait()
            running.cancel()

    def _cluster_client(self, who: str) -> Client:
        return Client(self._connect(who, self._cluster_faults), self.clock)

    def _connect(self, who: str, plan: FaultPlan, *, start: int = 1) -> FaultyTransport:
        inner = InProcessTransport(self.server, self.clock)
        random = self._random(f"{who}/connection/{start}")
        transport = FaultyTransport(inner, self.clock, random, plan, on_write=partial(self._record, who))
        self._transports.append(transport)
        return transport

    def _record(self, who: str, write: RecordedWrite) -> None:
        self.timeline.record(who, write)
        if who == "operator" and self._is_checked:
            self.invariants.observe_write(write)

    def _random(self, purpose: str) -> Random:
        """Return a generator for one purpose, so that draws for one do not change those for another."""
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
            response = await self._send(Request(method="POST", path=path, body=body))
        except ApiError as error:
            if not error.is_already_exists:
                raise
            change = Request(method="PATCH", path=f"{path}/{metadata['name']}", body=body, content_type=MERGE_PATCH)
            response = await self._send(change)
        return SimulatedApply(object=msgspec.json.decode(response.body), warnings=_warnings(response))

    async def _send(self, request: Request) -> Response:
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
    return tuple(document for document in yaml.load_all(manifest.read_text(), _YAML_LOADER) if document)


def _warnings(response: Response) -> tuple[str, ...]:
    """Return the texts of `299 - "text"` lines, in which quotes and backslashes are escaped."""
    lines = response.headers.get("Warning", "").splitlines()
    quoted = (line.removeprefix('299 - "').removesuffix('"') for line in lines)
    return tuple(re.sub(r"\\(.)", r"\1", text) for text in quoted)


def _check_no_bug(request: Request, response: Response) -> None:
    """Raise if the server failed: this must not pass for an injected fault."""
    if response.status == 500:
        raise Bug(f"{request.method} {request.path}: the embedded server failed; its log has the details")

"""An executor on the embedded cluster: the server is real, the plans are written by hand."""

from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, TypeVar

from grove.api import labels
from grove.api.resources import PODCLIQUES, PODCLIQUESETS, PODS, Resource
from grove.api.types.meta import HasMetadata, JsonObject, Uid
from grove.api.types.podcliqueset import PodCliqueSet
from grove.clock import LoopClock
from grove.cluster.apiserver.api_server import ApiServer
from grove.cluster.in_process_transport import InProcessTransport
from grove.controller.controller_options import ControllerOptions
from grove.controller.executor import ExecutionResult, Executor
from grove.controller.failed_writes import FailedWrites
from grove.controller.informers import Caches
from grove.controller.restore_detection import ServerHistory
from grove.kube.client import Client
from grove.kube.transport import Request
from grove.planner.actions import Chain, Create, EventRecord, EventSubject, Stage, subject_of
from grove.sim.faults import FaultyTransport
from grove.sim.virtual_clock import run_virtual
from tests.dsl import NOW

T = TypeVar("T", bound=HasMetadata)

LANE = Uid("lane")


class SmallOperator:
    """`user` writes as somebody else; `executor` is ours, with caches that know only its own writes."""

    def __init__(self, settings: ControllerOptions | None = None) -> None:
        self.clock = LoopClock(NOW)
        self.server = ApiServer(self.clock, Random("server"))
        self.user = Client(InProcessTransport(self.server, self.clock), self.clock)
        self.transport = FaultyTransport(InProcessTransport(self.server, self.clock), self.clock, Random("faults"))
        self.caches = Caches()
        self.client = Client(self.transport, self.clock)
        self.failed_writes = FailedWrites(first=0.2, longest=30.0)
        self.history = ServerHistory()
        self.executor = Executor(
            self.client, self.caches, self.clock, settings or ControllerOptions(), self.failed_writes, self.history
        )
        self.owner: EventSubject
        self.pcs: PodCliqueSet

    async def start(self) -> None:
        body = {
            "apiVersion": "grove.io/v1alpha1",
            "kind": "PodCliqueSet",
            "metadata": {"name": "p", "namespace": "default"},
            "spec": {"replicas": 1, "template": {"cliques": []}},
        }
        self.pcs = await self.user.create(PODCLIQUESETS, "default", body)
        self.owner = subject_of(PODCLIQUESETS, self.pcs.metadata)

    async def execute(self, *stages: Stage, key: str = "p-0") -> ExecutionResult:
        return await self.executor.execute([Chain(key=key, replica_index=0, stages=stages)], LANE)

    def pod(self, name: str, *, owner: Uid | None = None) -> Create:
        """Create a pod that belongs to us, or to somebody else."""
        return self.create(PODS, name, {"containers": [{"name": "main", "image": "pause"}]}, owner)

    def clique(self, name: str, *, replicas: int = 1, owner: Uid | None = None) -> Create:
        spec = {"roleName": "worker", "replicas": replicas, "podSpec": {"containers": []}}
        return self.create(PODCLIQUES, name, spec, owner)

    def create(self, resource: Resource[Any], name: str, spec: JsonObject, owner: Uid | None = None) -> Create:
        reference = {
            "apiVersion": self.owner.api_version,
            "kind": self.owner.kind,
            "name": owner or self.owner.name,
            "uid": owner or self.owner.uid,
            "controller": True,
        }
        metadata = {
            "name": name,
            "namespace": "default",
            "labels": {labels.MANAGED_BY: labels.MANAGED_BY_VALUE},
            "ownerReferences": [reference],
        }
        body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec}
        return Create(
            resource=resource,
            namespace="default",
            name=name,
            body=body,
            failure_key=f"{resource.plural}/{name}",
            reason="a test wants it",
            on_success=self.emit(name),
        )

    def emit(self, name: str) -> EventRecord:
        return EventRecord(subject=self.owner, reason="Made", message="made", names=(name,))

    async def exists(self, resource: Resource[T], name: str) -> bool:
        listing = await self.user.list(resource, namespace="default")
        return any(one.metadata.name == name for one in listing.items)

    def writes(self) -> list[str]:
        """What reached the server, in order."""
        return [f"{write.request.method} {write.request.path.rpartition('/')[2]}" for write in self.transport.writes]


def run(story: Callable[[SmallOperator], Awaitable[None]], settings: ControllerOptions | None = None) -> None:
    async def main() -> None:
        operator = SmallOperator(settings)
        await operator.start()
        await story(operator)

    run_virtual(main())


def creates_of(plural: str) -> Callable[[Request], bool]:
    return lambda request: request.method == "POST" and request.path.endswith(f"/{plural}")

"""Several operators and one lease on the embedded cluster: each can be cut off, frozen, hurried, stopped or killed.

Every write but those of the lease itself is judged when it reaches the server: its writer must hold the lease then.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, suppress
from datetime import datetime, timedelta
from random import Random
from typing import Any

import msgspec

from grove.api.resources import LEASES, Object, Resource
from grove.api.types.lease import Lease, LeaseSpec
from grove.clock import Clock, LoopClock
from grove.cluster.apiserver.api_server import ApiServer
from grove.cluster.in_process_transport import InProcessTransport
from grove.controller.leader.leader_election import Leadership, LeaseOptions
from grove.controller.leader.write_fence import Fence, FencedTransport
from grove.kube.api_errors import ApiError, ConnectionLost
from grove.kube.client import Client
from grove.kube.request_info import plural_of
from grove.kube.transport import Request, Response, Transport
from grove.sim.faults import FaultyTransport, RecordedWrite
from tests.dsl import NOW

OPTIONS = LeaseOptions(namespace="default", name="leader", lease_seconds=15, renew_seconds=10.0, retry_seconds=2.0)
CONFIG_MAPS = Resource(group="", version="v1", plural="configmaps", kind="ConfigMap", view=Object)


class OddClock:
    """Runs at a speed of its own, shows any time of day, and stands still while its program is frozen."""

    def __init__(self, inner: Clock, speed: float = 1.0) -> None:
        self._inner = inner
        self._speed = speed
        self.offset = timedelta(0)
        self.awake = asyncio.Event()
        self.awake.set()

    def now(self) -> datetime:
        return self._inner.now() + self.offset

    def monotonic(self) -> float:
        return self._inner.monotonic() * self._speed

    async def sleep(self, seconds: float) -> None:
        await self._inner.sleep(seconds / self._speed)
        await self.awake.wait()


class Line:
    """A connection that may be cut: what is sent then hangs, and is lost when it is mended.

    A frozen program hears no answer.
    """

    def __init__(self, inner: Transport, clock: OddClock) -> None:
        self._inner = inner
        self._clock = clock
        self.whole = asyncio.Event()
        self.whole.set()

    async def send(self, request: Request) -> Response:
        await self._cross(request)
        response = await self._inner.send(request)
        await self._cross(request)
        await self._clock.awake.wait()
        return response

    async def _cross(self, request: Request) -> None:
        if not self.whole.is_set():
            await self.whole.wait()
            await self._clock.awake.wait()
            raise ConnectionLost(f"{request.method} {request.path}: the connection was reset")

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._inner.stream(request)


Job = Callable[[Client, "Candidate"], Coroutine[Any, Any, None]]


class Candidate:
    """One operator, with a job for its terms."""

    def __init__(self, electorate: "Electorate", name: str, speed: float, job: Job) -> None:
        self.name = name
        self._job = job
        self.clock = OddClock(electorate.clock, speed)
        self.wire = FaultyTransport(
            InProcessTransport(electorate.server, electorate.clock),
            electorate.clock,
            Random(f"{electorate.seed}/{name}/wire"),
            on_write=lambda write: electorate.judge(self, write),
        )
        self.line = Line(self.wire, self.clock)
        self.random = Random(f"{electorate.seed}/{name}")
        client = Client(self.line, self.clock)
        self.leadership = Leadership(client, self.clock, self.random, OPTIONS, name)
        self.stop = asyncio.Event()
        self.term_count = 0
        self.write_times: list[float] = []
        self.task = asyncio.create_task(self.leadership.run(self.work, self.stop))

    async def work(self, fence: Fence) -> None:
        self.term_count += 1
        await self._job(Client(FencedTransport(self.line, fence), self.clock), self)

    def kill(self) -> None:
        """As `kill -9`: what it sent arrives, and nothing more."""
        self.wire.crash()
        self.task.cancel()


async def write_for_ever(client: Client, candidate: Candidate) -> None:
    """As often as it can, several writes at once."""
    async with asyncio.TaskGroup() as tasks:
        for writer in range(3):
            prefix = f"{candidate.name}-{candidate.term_count}-{writer}"
            tasks.create_task(_write_for_ever(client, candidate, prefix))


async def _write_for_ever(client: Client, candidate: Candidate, prefix: str) -> None:
    count = 0
    while True:
        count += 1
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"{prefix}-{count}"}}
        with suppress(ApiError):
            await client.create(CONFIG_MAPS, "default", body)
        await candidate.clock.sleep(candidate.random.uniform(0.05, 2.0))


class Electorate:
    """Candidates of one server: of a server of its own, or of a world's."""

    def __init__(self, seed: int = 0, *, clock: Clock | None = None, server: ApiServer | None = None) -> None:
        self.seed = seed
        self.clock = clock or LoopClock(NOW)
        self.server = server or ApiServer(self.clock, Random("server"))
        self.user = Client(InProcessTransport(self.server, self.clock), self.clock)
        self.offences: list[str] = []
        self.leaders: list[str] = []

    def candidate(self, name: str, *, speed: float = 1.0, job: Job = write_for_ever) -> Candidate:
        return Candidate(self, name, speed, job)

    def judge(self, candidate: Candidate, write: RecordedWrite) -> None:
        if plural_of(write.request) == "leases":
            return
        candidate.write_times.append(write.at)
        holder = self.lease.holder_identity
        if holder != candidate.name:
            self.offences.append(f"{write.at:.3f}: {candidate.name} wrote while {holder or 'nobody'} held the lease")
        if not self.leaders or self.leaders[-1] != candidate.name:
            self.leaders.append(candidate.name)

    @property
    def lease(self) -> LeaseSpec:
        path = LEASES.path(OPTIONS.namespace, OPTIONS.name)
        response = self.server.handle(Request(method="GET", path=path))
        return msgspec.json.decode(response.body, type=Lease).spec if response.status == 200 else LeaseSpec()

    @property
    def now(self) -> float:
        return self.clock.monotonic()

    async def until(self, instant: float) -> None:
        await self.clock.sleep(instant - self.now)

    async def until_leader(self, candidate: Candidate) -> float:
        """When this candidate's first write of a new term arrives."""
        before = len(candidate.write_times)
        while len(candidate.write_times) == before:
            await self.clock.sleep(0.1)
        return candidate.write_times[before]

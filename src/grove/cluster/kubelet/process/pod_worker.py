"""One pod's life on this machine: its files and address, its containers in order, its status, and its end.

Decisions about one container are `container.py`'s, the words of the status `pod_status.py`'s.
"""

import asyncio
from collections.abc import Callable, Mapping
from datetime import timedelta
from itertools import count
from pathlib import Path
from random import Random

import msgspec

from grove.api.types.meta import JsonObject, Uid
from grove.clock import Clock
from grove.cluster.kubelet.process.async_events import Broadcast, first_of
from grove.cluster.kubelet.process.config_watcher import Configs
from grove.cluster.kubelet.process.container import ContainerLife
from grove.cluster.kubelet.process.container_command import Launch, Names, build_launch
from grove.cluster.kubelet.process.environment import DownwardAPI
from grove.cluster.kubelet.process.log_source import ProcessLogs
from grove.cluster.kubelet.process.pod_addresses import Addresses, Host, Hosts, hostname_of
from grove.cluster.kubelet.process.pod_spec import (
    LOCAL_PODS,
    Container,
    LocalPod,
    NotRunnable,
    RunnablePodSpec,
    read_spec,
)
from grove.cluster.kubelet.process.pod_status import (
    CREATING,
    INITIALIZING,
    ContainerFacts,
    ContainerWaiting,
    PodFacts,
    changed_conditions,
    status_of,
)
from grove.cluster.kubelet.process.probes import Questions
from grove.cluster.kubelet.process.restart_recovery import Earlier, earlier_run, is_over
from grove.cluster.kubelet.process.supervisor_client import Processes
from grove.cluster.kubelet.process.volumes import PodHome
from grove.cluster.kubelet.simulated.pod_state_machine import back_off
from grove.cluster.node_pod_cache import BoundNode
from grove.kube.api_errors import ApiError
from grove.kube.client import Client
from grove.kube.store import Store
from grove.kube.transport import STRATEGIC_PATCH

HOST_IP = "127.0.0.1"
RETRY_SECONDS = (0.5, 1.5)


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """What all pods of a kubelet share."""

    client: Client
    clock: Clock
    random: Random
    pods: Store[LocalPod]
    node: Callable[[str], BoundNode | None]
    processes: Processes
    configs: Configs
    addresses: Addresses
    hosts: Hosts
    logs: ProcessLogs
    root: Path
    folders: "count[int]"
    inherited: Mapping[str, str]


class PodLife:
    """`run` it once, and tell it what happens to its pod. A `PodAround` for its containers."""

    def __init__(self, pod: LocalPod, machine: Machine) -> None:
        self.uid: str = pod.metadata.uid
        self.name = pod.metadata.name
        self.clock = machine.clock
        self.processes = machine.processes
        self.logs = machine.logs
        self.changes = machine.configs.changes
        self._machine = machine
        self._pod = pod
        self._address = machine.addresses.take()
        self.questions = Questions(machine.processes, self._address)
        self.home = PodHome(machine.root / str(next(machine.folders)))
        self._spec, self._refusal = _read(pod)
        self.grace_seconds = float(self._spec.termination_grace_period_seconds)
        self._started_at = pod.status.start_time or machine.clock.now()
        self._earlier = self._earlier_runs()
        self._inits = [self._life(each, is_init=True) for each in self._spec.init_containers]
        self._mains = [self._life(each, is_init=False) for each in self._spec.containers]
        self._is_over = False
        # Why it cannot be started as a whole, and what ended it from outside.
        self._trouble: NotRunnable | None = None
        self._ended_by = ("", "")
        self._stop_at = float("inf")
        self._stopping = asyncio.Event()
        self._gone = asyncio.Event()
        self._events = Broadcast()
        self._has_news = asyncio.Event()
        self._writing = asyncio.Lock()
        self._written: JsonObject = {}

    # What happens to the pod from outside

    def observe(self, pod: LocalPod) -> None:
        """Its newest version."""
        self._pod = pod
        if pod.metadata.is_terminating:
            # From when we know of it: the time on the object has lost its parts of a second.
            self._stop(self.clock.monotonic() + (pod.metadata.deletion_grace_period_seconds or 0))
        self.wake()

    def vanish(self) -> None:
        """The object is gone: nobody waits for the processes any more."""
        self._gone.set()
        self._stop(self.clock.monotonic())
        self.wake()

    def wake(self) -> None:
        """Something that it may wait for has changed."""
        self._events.tell()
        self._has_news.set()

    async def give_up(self) -> None:
        """After a bug: nothing of it must stay behind."""
        for life in (*self._inits, *self._mains):
            await life.kill()
        self._machine.hosts.remove(Uid(self.uid))
        self._clear()

    # Its life

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            attendants = [group.create_task(self._report()), group.create_task(self._keep_deadline())]
            self.wake()
            await self._live()
            self._is_over = True
            self._machine.hosts.remove(Uid(self.uid))
            self._machine.hosts.write()
            self.home.empty()
            self.wake()
            await self._be_removed()
            for attendant in attendants:
                attendant.cancel()
        self._clear()

    def _clear(self) -> None:
        for life in (*self._inits, *self._mains):
            life.drop_logs()
        self.home.remove()
        self._machine.addresses.give_back(self._address)

    def launch(self, container: Container) -> Launch:
        """Raises `NotRunnable`."""
        namespace = self._pod.metadata.namespace
        hosts = self._machine.hosts
        names = Names(hosts_file=str(hosts.file(namespace)), python_path=str(hosts.python_path))
        lookup = self._machine.configs.within(namespace)
        return build_launch(
            container, self._around(), lookup, self.home, names=names, inherited=self._machine.inherited
        )  # fmt: skip

    async def _live(self) -> None:
        """Everything that its containers do, to the end."""
        await self._node_ready()
        if self._was_over:
            return
        await self._machine.configs.listed()
        if not await self._furnish():
            return
        self._publish()
        async with asyncio.TaskGroup() as sidecars:
            tasks: dict[str, asyncio.Task[None]] = {}
            if await self._initialize(sidecars, tasks):
                async with asyncio.TaskGroup() as mains:
                    for life in self._mains:
                        mains.create_task(life.run())
            stop_at = min(self._stop_at, self.clock.monotonic() + self.grace_seconds)
            for life in reversed(self._inits):
                if life.spec.name in tasks:
                    life.stop(stop_at)
                    await tasks[life.spec.name]

    async def _furnish(self) -> bool:
        """Its volumes. Waits, saying why, for what is missing; false: it was stopped meanwhile."""
        attempts = 0
        while not self._stopping.is_set():
            try:
                if self._refusal is not None:
                    raise self._refusal
                lookup = self._machine.configs.within(self._pod.metadata.namespace)
                self.home.fill(self._spec.volumes, self._around(), lookup)
                self._trouble = None
                return True
            except NotRunnable as problem:
                self._trouble = problem
                self._has_news.set()
            attempts += 1
            seconds = back_off(attempts).total_seconds()
            await first_of(self._stopping.wait(), self.changes.wait(), seconds=seconds)
        return False

    def _publish(self) -> None:
        meta = self._pod.metadata
        host = Host(
            namespace=meta.namespace,
            hostname=hostname_of(meta.name, self._spec.hostname),
            subdomain=self._spec.subdomain,
            address=self._address,
        )
        self._machine.hosts.add(meta.uid, host)
        self._machine.hosts.write()

    async def _initialize(self, sidecars: asyncio.TaskGroup, tasks: dict[str, asyncio.Task[None]]) -> bool:
        """Init containers one after the other; those that run on are started, and left running."""
        for life in self._inits:
            if self._stopping.is_set():
                return False
            if life.spec.is_sidecar:
                tasks[life.spec.name] = sidecars.create_task(life.run())
                await first_of(life.started.wait(), self._stopping.wait())
                continue
            await life.run()
            if not life.facts.has_succeeded:
                return False
        return not self._stopping.is_set()

    async def _be_removed(self) -> None:
        """Until the object is gone: once it is to leave, what is left of it is for us to remove."""
        while not self._gone.is_set():
            if self._is_ready_to_go():
                await self._write_status()
                await self._delete()
            else:
                await self._events.wait()

    def _is_ready_to_go(self) -> bool:
        meta = self._pod.metadata
        # Without grace and still there: a finalizer holds it.
        is_held = not meta.deletion_grace_period_seconds and bool(meta.finalizers)
        return meta.is_terminating and not is_held and self._is_node_ready

    def _stop(self, at: float) -> None:
        self._stop_at = min(at, self._stop_at)
        self._stopping.set()
        # Sidecars end after the others, so that they can be used to the last.
        for life in (*self._inits, *self._mains):
            if not life.spec.is_sidecar:
                life.stop(self._stop_at)

    async def _keep_deadline(self) -> None:
        while True:
            seconds = self._pod.active_deadline_seconds
            left = None if seconds is None else self._seconds_until(seconds)
            if left is not None and left <= 0:
                break
            await first_of(self._events.wait(), seconds=left)
        if not self._stopping.is_set() and not self._is_over:
            self._ended_by = ("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
            self._stop(self.clock.monotonic() + self.grace_seconds)

    def _seconds_until(self, seconds: int) -> float:
        return (self._started_at + timedelta(seconds=seconds) - self.clock.now()).total_seconds()

    # What is known of it

    def _life(self, container: Container, *, is_init: bool) -> ContainerLife:
        policy = self._spec.restart_policy
        if is_init:
            policy = "Always" if container.is_sidecar else "Never" if policy == "Never" else "OnFailure"
        reason = INITIALIZING if self._spec.init_containers else CREATING
        is_finite = is_init and not container.is_sidecar
        return ContainerLife(
            container, self, lambda: self._has_news.set(), policy=policy, is_init=is_finite, reason=reason,
            earlier=self._earlier.get(container.name),
        )  # fmt: skip

    def _earlier_runs(self) -> dict[str, Earlier]:
        """Of each container that ran before this kubelet did."""
        status, now = self._pod.status, self.clock.now()
        statuses = (*status.init_container_statuses, *status.container_statuses)
        runs = {each.name: earlier_run(each, now) for each in statuses}
        return {name: run for name, run in runs.items() if run is not None}

    @property
    def _was_over(self) -> bool:
        """It ended with an earlier kubelet."""
        finite = [each.name for each in self._spec.init_containers if not each.is_sidecar]
        mains = [each.name for each in self._spec.containers]
        find = self._earlier.get
        return bool(self._earlier) and is_over(
            self._spec.restart_policy, tuple(map(find, finite)), tuple(map(find, mains))
        )

    def _around(self) -> DownwardAPI:
        node = self._machine.node(self._spec.node_name)
        return DownwardAPI(
            metadata=self._pod.metadata,
            spec=self._spec,
            pod_ip=self._address,
            host_ip=HOST_IP,
            allocatable={} if node is None else node.status.allocatable,
        )

    @property
    def _is_node_ready(self) -> bool:
        """Nobody works on behalf of a node that is out of order, also if its processes are here."""
        node = self._machine.node(self._pod.node_name)
        return node is not None and node.is_ready

    async def _node_ready(self) -> None:
        while not (self._is_node_ready or self._stopping.is_set()):
            await self._events.wait()

    def _facts(self) -> PodFacts:
        return PodFacts(
            started_at=self._started_at,
            host_ip=HOST_IP,
            pod_ip=self._address,
            restart_policy=self._spec.restart_policy,
            containers=tuple(self._explained(life.facts) for life in self._mains),
            init_containers=tuple(self._explained(life.facts) for life in self._inits),
            sidecars=frozenset(life.spec.name for life in self._inits if life.spec.is_sidecar),
            readiness_gates=tuple(gate.condition_type for gate in self._spec.readiness_gates),
            is_over=self._is_over,
            reason=self._ended_by[0],
            message=self._ended_by[1],
        )

    def _explained(self, facts: ContainerFacts) -> ContainerFacts:
        """While the pod itself cannot be started, its containers say why."""
        if self._trouble is None:
            return facts
        waiting = ContainerWaiting(reason=self._trouble.reason, message=self._trouble.message)
        return msgspec.structs.replace(facts, state=waiting)

    # The API

    async def _report(self) -> None:
        while True:
            await self._has_news.wait()
            self._has_news.clear()
            await self._write_status()

    async def _write_status(self) -> None:
        """What differs from what was written, until it is written. On behalf of a node that is in order only."""
        async with self._writing:
            while self._is_node_ready and not self._gone.is_set():
                facts = self._facts()
                wanted = status_of(facts)
                conditions = changed_conditions(facts, self._pod.status.conditions, self.clock.now())
                if wanted == self._written and not conditions:
                    return
                if await self._patch({**wanted, "conditions": conditions}):
                    self._written = wanted
                    return
                await self._pause()

    async def _patch(self, status: JsonObject) -> bool:
        """Whether there is nothing left to do: it is written, or the pod is gone."""
        meta = self._pod.metadata
        # The uid is a precondition: a new pod of the same name must not get this one's status.
        patch: JsonObject = {"metadata": {"uid": meta.uid}, "status": status}
        try:
            answer = await self._machine.client.patch(
                LOCAL_PODS, meta.namespace, meta.name, patch, content_type=STRATEGIC_PATCH, subresource="status"
            )
        except ApiError as error:
            return error.is_not_found or error.is_conflict
        self._machine.pods.observe(answer)
        return True

    async def _delete(self) -> None:
        meta = self._pod.metadata
        try:
            left = await self._machine.client.delete(
                LOCAL_PODS, meta.namespace, meta.name, uid=meta.uid, grace_period_seconds=0
            )
        except ApiError:
            await self._pause()
            return
        if left is None:
            self._machine.pods.forget(meta.uid)
        else:
            self._machine.pods.observe(left)

    async def _pause(self) -> None:
        await first_of(self._gone.wait(), seconds=self._machine.random.uniform(*RETRY_SECONDS))


def _read(pod: LocalPod) -> tuple[RunnablePodSpec, NotRunnable | None]:
    """What can be run of it; or only the names of its containers, and why."""
    try:
        return read_spec(pod.spec), None
    except NotRunnable as refusal:
        return RunnablePodSpec(containers=tuple(_names(pod.spec.get("containers"))), node_name=pod.node_name), refusal


def _names(containers: object) -> list[Container]:
    found = containers if isinstance(containers, list) else []
    return [Container(name=str(each.get("name")), image=str(each.get("image"))) for each in found]

"""Pod worker of the process kubelet: files, address, containers, status and termination of one pod.

`container.py` runs one container; `pod_status.py` computes the status.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from itertools import count
from pathlib import Path
from random import Random

import msgspec

from grove.api.types.meta import JsonObject, Uid
from grove.clock import Clock
from grove.cluster.kubelet.process.async_events import Broadcast, wait_first
from grove.cluster.kubelet.process.config_watcher import ConfigWatcher
from grove.cluster.kubelet.process.container import ContainerRunner
from grove.cluster.kubelet.process.container_command import ContainerConfig, DnsConfig, build_container_config
from grove.cluster.kubelet.process.environment import DownwardAPI
from grove.cluster.kubelet.process.log_source import ProcessLogs
from grove.cluster.kubelet.process.pod_addresses import AddressPool, Host, HostsFiles, hostname_of
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
    ContainerRuntimeStatus,
    ContainerWaiting,
    PodRuntimeStatus,
    changed_conditions,
    status_of,
)
from grove.cluster.kubelet.process.probes import ProbeRunner
from grove.cluster.kubelet.process.restart_recovery import PreviousRun, is_over, previous_run
from grove.cluster.kubelet.process.supervisor_client import SupervisorClient
from grove.cluster.kubelet.process.volumes import PodDirectory
from grove.cluster.kubelet.process_usage import RunningProcess
from grove.cluster.kubelet.service_account_tokens import renewal_seconds, request_tokens
from grove.cluster.kubelet.simulated.pod_state_machine import back_off
from grove.cluster.node_pod_cache import BoundNode
from grove.kube.api_errors import ApiError
from grove.kube.client import Client
from grove.kube.store import Store
from grove.kube.transport import STRATEGIC_PATCH

HOST_IP = "127.0.0.1"
RETRY_SECONDS = (0.5, 1.5)


class KubeletContext(msgspec.Struct, frozen=True, kw_only=True):
    """Components that all pod workers of a kubelet share."""

    client: Client
    clock: Clock
    random: Random
    pods: Store[LocalPod]
    node: Callable[[str], BoundNode | None]
    processes: SupervisorClient
    configs: ConfigWatcher
    addresses: AddressPool
    hosts: HostsFiles
    logs: ProcessLogs
    root: Path
    folders: "count[int]"
    inherited: Mapping[str, str]


class PodWorker:
    """A worker for one pod, and the `PodContext` of its containers. Call `run` once."""

    def __init__(self, pod: LocalPod, context: KubeletContext) -> None:
        self.uid: str = pod.metadata.uid
        self.name = pod.metadata.name
        self.clock = context.clock
        self.processes = context.processes
        self.logs = context.logs
        self.changes = context.configs.changes
        self._context = context
        self._pod = pod
        self._address = context.addresses.allocate()
        self.probe_runner = ProbeRunner(context.processes, self._address)
        self.directory = PodDirectory(context.root / str(next(context.folders)))
        self._spec, self._spec_error = _read(pod)
        self.grace_seconds = float(self._spec.termination_grace_period_seconds)
        self._started_at = pod.status.start_time or context.clock.now()
        self._previous_runs = self._read_previous_runs()
        self._init_runners = [self._build_runner(each, is_init=True) for each in self._spec.init_containers]
        self._runners = [self._build_runner(each, is_init=False) for each in self._spec.containers]
        self._is_over = False
        # Why the pod cannot start, and why it was stopped (reason and message).
        self._start_error: NotRunnable | None = None
        self._termination_cause = ("", "")
        self._stop_at = float("inf")
        self._stopping = asyncio.Event()
        self._gone = asyncio.Event()
        self._events = Broadcast()
        self._status_changed = asyncio.Event()
        self._writing = asyncio.Lock()
        self._written: JsonObject = {}

    # Events of the pod

    def observe(self, pod: LocalPod) -> None:
        """Take over a newer version of the pod."""
        self._pod = pod
        if pod.metadata.is_terminating:
            # Counted from now: the deletionTimestamp has whole seconds only.
            self._stop(self.clock.monotonic() + (pod.metadata.deletion_grace_period_seconds or 0))
        self.wake()

    def handle_deletion(self) -> None:
        """Kill the containers at once: the pod object was deleted."""
        self._gone.set()
        self._stop(self.clock.monotonic())
        self.wake()

    def wake(self) -> None:
        """Check the pod and its node again."""
        self._events.notify()
        self._status_changed.set()

    @property
    def running_processes(self) -> tuple[RunningProcess, ...]:
        """Return the first process of each running container, sidecars included."""
        runners = (*self._init_runners, *self._runners)
        return tuple(process for runner in runners if (process := runner.running_process) is not None)

    async def abandon(self) -> None:
        """Kill the containers and release everything, after an unexpected error."""
        for runner in (*self._init_runners, *self._runners):
            await runner.kill()
        self._context.hosts.remove(Uid(self.uid))
        self._release()

    # Run

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            background = [
                group.create_task(self._write_status_changes()),
                group.create_task(self._enforce_active_deadline()),
                group.create_task(self._renew_tokens()),
            ]
            self.wake()
            await self._run_containers()
            self._is_over = True
            self._context.hosts.remove(Uid(self.uid))
            self._context.hosts.write()
            self.directory.empty()
            self.wake()
            await self._await_removal()
            for task in background:
                task.cancel()
        self._release()

    def _release(self) -> None:
        for runner in (*self._init_runners, *self._runners):
            runner.drop_logs()
        self.directory.remove()
        self._context.addresses.release(self._address)

    def build_config(self, container: Container) -> ContainerConfig:
        """Build the config of a container. Raises `NotRunnable`."""
        namespace = self._pod.metadata.namespace
        hosts = self._context.hosts
        dns = DnsConfig(hosts_file=str(hosts.file(namespace)), python_path=str(hosts.python_path))
        lookup = self._context.configs.in_namespace(namespace)
        return build_container_config(
            container, self._downward_api(), lookup, self.directory, dns=dns, inherited=self._context.inherited
        )  # fmt: skip

    async def _run_containers(self) -> None:
        """Run all containers to their end."""
        await self._wait_for_node()
        if self._has_ended_before:
            return
        await self._context.configs.wait_until_listed()
        if not await self._prepare_volumes():
            return
        self._publish_host()
        async with asyncio.TaskGroup() as sidecars:
            tasks: dict[str, asyncio.Task[None]] = {}
            if await self._initialize(sidecars, tasks):
                async with asyncio.TaskGroup() as mains:
                    for runner in self._runners:
                        mains.create_task(runner.run())
            stop_at = min(self._stop_at, self.clock.monotonic() + self.grace_seconds)
            for runner in reversed(self._init_runners):
                if runner.spec.name in tasks:
                    runner.stop(stop_at)
                    await tasks[runner.spec.name]

    async def _prepare_volumes(self) -> bool:
        """Create the volumes. Wait for missing objects and report them. Return false if the pod was stopped."""
        attempts = 0
        while not self._stopping.is_set():
            try:
                if self._spec_error is not None:
                    raise self._spec_error
                await self._fill_volumes()
                self._start_error = None
                return True
            except NotRunnable as error:
                self._start_error = error
                self._status_changed.set()
            attempts += 1
            seconds = back_off(attempts).total_seconds()
            await wait_first(self._stopping.wait(), self.changes.wait(), seconds=seconds)
        return False

    async def _fill_volumes(self) -> None:
        """Write all files of the volumes. Raises `NotRunnable`."""
        lookup = self._context.configs.in_namespace(self._pod.metadata.namespace)
        tokens = await request_tokens(self._context.client, self._pod, self._spec)
        self.directory.fill(self._spec.volumes, self._downward_api(), lookup, tokens)

    async def _renew_tokens(self) -> None:
        """Replace the tokens of the pod before they expire."""
        seconds = renewal_seconds(self._spec.volumes)
        while seconds is not None and not self._is_over:
            await self.clock.sleep(seconds)
            # The next attempt follows soon: the old token is valid for a while.
            with suppress(NotRunnable):
                await self._fill_volumes()

    def _publish_host(self) -> None:
        meta = self._pod.metadata
        host = Host(
            namespace=meta.namespace,
            hostname=hostname_of(meta.name, self._spec.hostname),
            subdomain=self._spec.subdomain,
            address=self._address,
        )
        self._context.hosts.add(meta.uid, host)
        self._context.hosts.write()

    async def _initialize(self, sidecars: asyncio.TaskGroup, tasks: dict[str, asyncio.Task[None]]) -> bool:
        """Run the init containers in order and start the sidecars. Return whether the main containers may start."""
        for runner in self._init_runners:
            if self._stopping.is_set():
                return False
            if runner.spec.is_sidecar:
                tasks[runner.spec.name] = sidecars.create_task(runner.run())
                await wait_first(runner.started.wait(), self._stopping.wait())
                continue
            await runner.run()
            if not runner.status.has_succeeded:
                return False
        return not self._stopping.is_set()

    async def _await_removal(self) -> None:
        """Wait until the pod object is gone. When the pod is terminating, delete the object."""
        while not self._gone.is_set():
            if self._can_be_removed():
                await self._write_status()
                await self._delete()
            else:
                await self._events.wait()

    def _can_be_removed(self) -> bool:
        meta = self._pod.metadata
        # Deleted without a grace period and still there: a finalizer holds it.
        is_held = not meta.deletion_grace_period_seconds and bool(meta.finalizers)
        return meta.is_terminating and not is_held and self._is_node_ready

    def _stop(self, at: float) -> None:
        self._stop_at = min(at, self._stop_at)
        self._stopping.set()
        # Sidecars stop last, because other containers may use them until then.
        for runner in (*self._init_runners, *self._runners):
            if not runner.spec.is_sidecar:
                runner.stop(self._stop_at)

    async def _enforce_active_deadline(self) -> None:
        while True:
            seconds = self._pod.active_deadline_seconds
            remaining = None if seconds is None else self._seconds_until(seconds)
            if remaining is not None and remaining <= 0:
                break
            await wait_first(self._events.wait(), seconds=remaining)
        if not self._stopping.is_set() and not self._is_over:
            self._termination_cause = (
                "DeadlineExceeded",
                "Pod was active on the node longer than the specified deadline",
            )
            self._stop(self.clock.monotonic() + self.grace_seconds)

    def _seconds_until(self, seconds: int) -> float:
        return (self._started_at + timedelta(seconds=seconds) - self.clock.now()).total_seconds()

    # Status

    def _build_runner(self, container: Container, *, is_init: bool) -> ContainerRunner:
        policy = self._spec.restart_policy
        if is_init:
            policy = "Always" if container.is_sidecar else "Never" if policy == "Never" else "OnFailure"
        reason = INITIALIZING if self._spec.init_containers else CREATING
        is_finite = is_init and not container.is_sidecar
        return ContainerRunner(
            container, self, lambda: self._status_changed.set(), policy=policy, is_init=is_finite, reason=reason,
            previous=self._previous_runs.get(container.name),
        )  # fmt: skip

    def _read_previous_runs(self) -> dict[str, PreviousRun]:
        """Return the last run of each container under a previous kubelet."""
        status, now = self._pod.status, self.clock.now()
        statuses = (*status.init_container_statuses, *status.container_statuses)
        runs = {each.name: previous_run(each, now) for each in statuses}
        return {name: run for name, run in runs.items() if run is not None}

    @property
    def _has_ended_before(self) -> bool:
        """Return whether the pod ended under a previous kubelet."""
        finite = [each.name for each in self._spec.init_containers if not each.is_sidecar]
        mains = [each.name for each in self._spec.containers]
        previous_of = self._previous_runs.get
        return bool(self._previous_runs) and is_over(
            self._spec.restart_policy, tuple(map(previous_of, finite)), tuple(map(previous_of, mains))
        )

    def _downward_api(self) -> DownwardAPI:
        node = self._context.node(self._spec.node_name)
        return DownwardAPI(
            metadata=self._pod.metadata,
            spec=self._spec,
            pod_ip=self._address,
            host_ip=HOST_IP,
            allocatable={} if node is None else node.status.allocatable,
        )

    @property
    def _is_node_ready(self) -> bool:
        """Return whether the node is ready. Nothing is written for a node that is not."""
        node = self._context.node(self._pod.node_name)
        return node is not None and node.is_ready

    async def _wait_for_node(self) -> None:
        while not (self._is_node_ready or self._stopping.is_set()):
            await self._events.wait()

    def _runtime_status(self) -> PodRuntimeStatus:
        return PodRuntimeStatus(
            started_at=self._started_at,
            host_ip=HOST_IP,
            pod_ip=self._address,
            restart_policy=self._spec.restart_policy,
            containers=tuple(self._with_start_error(runner.status) for runner in self._runners),
            init_containers=tuple(self._with_start_error(runner.status) for runner in self._init_runners),
            sidecars=frozenset(runner.spec.name for runner in self._init_runners if runner.spec.is_sidecar),
            readiness_gates=tuple(gate.condition_type for gate in self._spec.readiness_gates),
            is_over=self._is_over,
            reason=self._termination_cause[0],
            message=self._termination_cause[1],
        )

    def _with_start_error(self, status: ContainerRuntimeStatus) -> ContainerRuntimeStatus:
        """While the pod cannot start, its containers wait for that reason."""
        if self._start_error is None:
            return status
        waiting = ContainerWaiting(reason=self._start_error.reason, message=self._start_error.message)
        return msgspec.structs.replace(status, state=waiting)

    # The API

    async def _write_status_changes(self) -> None:
        while True:
            await self._status_changed.wait()
            self._status_changed.clear()
            await self._write_status()

    async def _write_status(self) -> None:
        """Write status changes, with retries, while the node is ready."""
        async with self._writing:
            while self._is_node_ready and not self._gone.is_set():
                status = self._runtime_status()
                desired = status_of(status)
                conditions = changed_conditions(status, self._pod.status.conditions, self.clock.now())
                if desired == self._written and not conditions:
                    return
                if await self._patch({**desired, "conditions": conditions}):
                    self._written = desired
                    return
                await self._pause()

    async def _patch(self, status: JsonObject) -> bool:
        """Patch the status. Return whether it was written or the pod is gone."""
        meta = self._pod.metadata
        # The uid is a precondition: a new pod of the same name must not get this status.
        patch: JsonObject = {"metadata": {"uid": meta.uid}, "status": status}
        try:
            patched = await self._context.client.patch(
                LOCAL_PODS, meta.namespace, meta.name, patch, content_type=STRATEGIC_PATCH, subresource="status"
            )
        except ApiError as error:
            return error.is_not_found or error.is_conflict
        self._context.pods.observe(patched)
        return True

    async def _delete(self) -> None:
        meta = self._pod.metadata
        try:
            remaining = await self._context.client.delete(
                LOCAL_PODS, meta.namespace, meta.name, uid=meta.uid, grace_period_seconds=0
            )
        except ApiError:
            await self._pause()
            return
        if remaining is None:
            self._context.pods.forget(meta.uid)
        else:
            self._context.pods.observe(remaining)

    async def _pause(self) -> None:
        await wait_first(self._gone.wait(), seconds=self._context.random.uniform(*RETRY_SECONDS))


def _read(pod: LocalPod) -> tuple[RunnablePodSpec, NotRunnable | None]:
    """Decode the spec. If that fails, return only the names of the containers, and the error."""
    try:
        return read_spec(pod.spec), None
    except NotRunnable as error:
        return RunnablePodSpec(containers=tuple(_names(pod.spec.get("containers"))), node_name=pod.node_name), error


def _names(containers: object) -> list[Container]:
    found = containers if isinstance(containers, list) else []
    return [Container(name=str(each.get("name")), image=str(each.get("image"))) for each in found]

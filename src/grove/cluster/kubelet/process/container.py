"""Runs one container: its runs one after the other, with hooks, probes, restarts and termination.

Only this module changes the `status` of a container; `pod_worker.py` combines them into the status of the pod.
"""

import asyncio
import hashlib
import signal
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Protocol

import msgspec

from grove.clock import Clock
from grove.cluster.kubelet.process.async_events import Broadcast, wait_first
from grove.cluster.kubelet.process.container_command import BAD_FOLDER, ContainerConfig
from grove.cluster.kubelet.process.container_log import ContainerLog
from grove.cluster.kubelet.process.log_source import ProcessLogs
from grove.cluster.kubelet.process.pod_spec import Container, Hook, NotRunnable, Probe
from grove.cluster.kubelet.process.pod_status import ContainerRuntimeStatus, ContainerWaiting, Running, Terminated
from grove.cluster.kubelet.process.probes import Prober, ProbeRunner
from grove.cluster.kubelet.process.restart_recovery import PreviousRun
from grove.cluster.kubelet.process.supervisor import MARK
from grove.cluster.kubelet.process.supervisor_client import Process, StartFailed, SupervisorClient
from grove.cluster.kubelet.process.volumes import PodDirectory
from grove.cluster.kubelet.process_usage import RunningProcess
from grove.cluster.kubelet.simulated.pod_state_machine import BACK_OFF_FORGOTTEN_AFTER, back_off

CRASH_LOOP = "CrashLoopBackOff"
# The exit code of shells and container runtimes for a program that could not be started.
NOT_STARTED = 128
# Other processes may still have the output of an ended program open; the supervisor kills them.
_DRAIN_SECONDS = 2.0
_MAX_MESSAGE_BYTES = 4096
_LOG_LINES_IN_MESSAGE = 80
_LOG_TEXT_IN_MESSAGE = 2048


class PodContext(Protocol):
    """The pod as its containers see it."""

    uid: str
    name: str
    grace_seconds: float
    clock: Clock
    processes: SupervisorClient
    probe_runner: ProbeRunner
    logs: ProcessLogs
    directory: PodDirectory
    # Notified when something that a container config depends on has changed.
    changes: Broadcast

    def build_config(self, container: Container) -> ContainerConfig: ...


class _Run(msgspec.Struct, frozen=True, kw_only=True):
    process: Process
    log: ContainerLog
    config: ContainerConfig
    started_at: datetime
    container_id: str


def restarts(policy: str, exit_code: int) -> bool:
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


class ContainerRunner:
    """A runner of one container. Call `run` once; `stop` ends the container in any state."""

    def __init__(
        self,
        spec: Container,
        pod: PodContext,
        changed: Callable[[], None],
        *,
        policy: str,
        is_init: bool,
        reason: str,
        previous: PreviousRun | None = None,
    ) -> None:
        self.spec = spec
        self.status = ContainerRuntimeStatus(name=spec.name, image=spec.image, state=ContainerWaiting(reason=reason))
        self._pod = pod
        self._clock = pod.clock
        self._changed = changed
        self._policy = policy
        self._is_init = is_init
        self._process: Process | None = None
        self._run_count = 0
        self._crash_count = 0
        self._log_ids: list[str] = []
        self._stopping = asyncio.Event()
        self._stop_at = float("inf")
        self._deadline_changed = Broadcast()
        self.started = asyncio.Event()
        """Set when the container has started (its startup probe succeeded), or will not start any more."""
        self._previous_end: Terminated | None = None
        if previous is not None:
            self._resume(previous)

    def _resume(self, previous: PreviousRun) -> None:
        """Continue the restart count. Init containers run again, because the files of the pod are gone."""
        self._run_count = previous.restart_count
        ended = msgspec.structs.replace(previous.ended, container_id=self._new_container_id())
        self._run_count += 1
        self._previous_end = None if self._is_init else ended
        self.status = msgspec.structs.replace(
            self.status,
            state=ended,
            restart_count=previous.restart_count,
            container_id=ended.container_id,
            is_ready=self._is_init and ended.exit_code == 0,
        )

    async def run(self) -> None:
        """Run the container until it must not restart, or is stopped."""
        ended = self._previous_end
        while not self._stopping.is_set():
            if ended is not None:
                if not restarts(self._policy, ended.exit_code):
                    break
                await self._back_off(ended)
            ended = await self._run_once()
            if ended is None:
                break
        self.started.set()

    def stop(self, at: float) -> None:
        """Terminate the container, and kill it at this time of the clock. A second call can shorten the time."""
        self._stop_at = min(at, self._stop_at)
        self._stopping.set()
        self._deadline_changed.notify()

    async def kill(self) -> None:
        """Kill the container at once, even after `run` has ended."""
        if self._process is not None:
            await self._pod.processes.signal(self._process, signal.SIGKILL)

    @property
    def running_process(self) -> RunningProcess | None:
        """Return the process of the current run, for measurements."""
        state = self.status.state
        if self._process is None or not isinstance(state, Running):
            return None
        return RunningProcess(self.spec.name, self._process.pid, state.started_at)

    def drop_logs(self) -> None:
        for container_id in self._log_ids:
            self._pod.logs.drop(container_id)

    # One run

    async def _run_once(self) -> Terminated | None:
        """Run the container once. Return None if it was stopped before it started."""
        container_id = self._new_container_id()
        prepared = await self._prepare(container_id)
        if prepared is None:
            return None
        config, log = prepared
        started_at = self._clock.now()
        try:
            self._process = await self._start(config, log)
        except StartFailed as error:
            log.close()
            self._count_run(container_id)
            message = f"the command {config.command.argv[0]} could not be started: {error}"
            return self._end(NOT_STARTED, "StartError", started_at, container_id, message=message)
        run = _Run(
            process=self._process, log=log, config=config, started_at=started_at, container_id=container_id
        )  # fmt: skip
        self._count_run(container_id, state=Running(started_at=started_at))
        if self.spec.startup_probe is None and self.spec.lifecycle.post_start is None:
            self._mark_started()
        return self._end_run(run, await self._supervise(run))

    async def _prepare(self, container_id: str) -> tuple[ContainerConfig, ContainerLog] | None:
        """Wait until the container can start, and report why it cannot. Return None if it was stopped."""
        attempts = 0
        while not self._stopping.is_set():
            try:
                config = self._pod.build_config(self.spec)
                return _with_identity(config, self._pod.processes.new_identity()), self._new_log(container_id)
            except NotRunnable as error:
                self._update(state=ContainerWaiting(reason=error.reason, message=error.message))
            except OSError as error:
                self._update(state=ContainerWaiting(reason=BAD_FOLDER, message=f"the log cannot be written: {error}"))
            attempts += 1
            # The watch reports what appears in the cluster, but not what appears on this machine: so retry.
            await wait_first(
                self._stopping.wait(), self._pod.changes.wait(), seconds=back_off(attempts).total_seconds()
            )  # fmt: skip
        return None

    async def _start(self, config: ContainerConfig, log: ContainerLog) -> Process:
        identity = config.command.env[MARK]
        try:
            return await self._pod.processes.start(config.command, identity=identity, output=log.write_end)
        finally:
            log.close_write_end()

    async def _supervise(self, run: _Run) -> int:
        """Wait until the run has ended and all its output is in the log. Return the exit status."""
        async with asyncio.TaskGroup() as group:
            background = [
                group.create_task(self._stop_on_request(run)),
                group.create_task(self._kill_at_deadline(run)),
                group.create_task(self._run_hooks_and_probes(run)),
            ]
            status = await run.process.end()
            for task in background:
                task.cancel()
        await wait_first(run.log.drained.wait(), seconds=_DRAIN_SECONDS)
        run.log.close()
        return status

    async def _stop_on_request(self, run: _Run) -> None:
        await self._stopping.wait()
        if self._clock.monotonic() < self._stop_at:
            await self._terminate(run)

    async def _kill_at_deadline(self, run: _Run) -> None:
        await self._stopping.wait()
        while (left := self._stop_at - self._clock.monotonic()) > 0:
            await wait_first(self._deadline_changed.wait(), seconds=left)
        await self._pod.processes.signal(run.process, signal.SIGKILL)

    async def _terminate(self, run: _Run) -> None:
        lifecycle = self.spec.lifecycle
        if lifecycle.pre_stop is not None:
            await self._hook(lifecycle.pre_stop, run)
        await self._pod.processes.signal(run.process, _signal_number(lifecycle.stop_signal))

    async def _terminate_early(self, run: _Run, grace: float) -> None:
        """Terminate a run that failed a probe or hook. The restart policy decides about the next run."""
        async with asyncio.TaskGroup() as group:
            terminating = group.create_task(self._terminate(run))
            await self._clock.sleep(grace)
            terminating.cancel()
        await self._pod.processes.signal(run.process, signal.SIGKILL)

    # Hooks and probes

    async def _run_hooks_and_probes(self, run: _Run) -> None:
        post_start = self.spec.lifecycle.post_start
        if post_start is not None and not await self._hook(post_start, run):
            await self._terminate_early(run, self._pod.grace_seconds)
            return
        startup = self._prober(self.spec.startup_probe, run)
        if startup is not None and not await startup.next_result():
            await self._terminate_early(run, self._grace_of(self.spec.startup_probe))
            return
        self._mark_started()
        async with asyncio.TaskGroup() as group:
            if (readiness := self._prober(self.spec.readiness_probe, run)) is not None:
                group.create_task(self._watch_readiness(readiness))
            if (liveness := self._prober(self.spec.liveness_probe, run)) is not None:
                group.create_task(self._watch_liveness(liveness, run))

    async def _watch_readiness(self, prober: Prober) -> None:
        while True:
            self._update(is_ready=await prober.next_result())

    async def _watch_liveness(self, prober: Prober, run: _Run) -> None:
        while await prober.next_result():
            pass
        await self._terminate_early(run, self._grace_of(self.spec.liveness_probe))

    def _prober(self, probe: Probe | None, run: _Run) -> Prober | None:
        if probe is None:
            return None
        return Prober(probe, self._pod.probe_runner.check_of(probe, self.spec, run.config), self._clock)

    def _grace_of(self, probe: Probe | None) -> float:
        own = None if probe is None else probe.termination_grace_period_seconds
        return self._pod.grace_seconds if own is None else own

    async def _hook(self, hook: Hook, run: _Run) -> bool:
        if hook.sleep is not None:
            await self._clock.sleep(hook.sleep.seconds)
            return True
        if hook.http_get is not None:
            return await self._pod.probe_runner.fetch(hook.http_get, self.spec)
        return await self._pod.probe_runner.run(hook.exec, run.config)

    # Status

    def _new_container_id(self) -> str:
        """Return an id of the run, in the form of a container runtime."""
        identity = f"{self._pod.uid}/{self.spec.name}/{self._run_count}"
        return f"process://{hashlib.sha256(identity.encode()).hexdigest()}"

    def _new_log(self, container_id: str) -> ContainerLog:
        """Open the log of a new run. Of previous runs, keep only the last log."""
        while len(self._log_ids) > 1:
            self._pod.logs.drop(self._log_ids.pop(0))
        log = ContainerLog(self._pod.directory.log_file(self.spec.name, self._run_count), self._clock)
        self._pod.logs.keep(container_id, log)
        self._log_ids.append(container_id)
        return log

    def _count_run(self, container_id: str, **changes: Any) -> None:
        status = self.status
        last_state = status.state if isinstance(status.state, Terminated) else status.last_state
        self._update(last_state=last_state, restart_count=self._run_count, container_id=container_id, **changes)
        self._run_count += 1

    def _mark_started(self) -> None:
        if not self.status.is_started:
            self._update(is_started=True, is_ready=self.spec.readiness_probe is None and not self._is_init)
            self.started.set()

    def _end_run(self, run: _Run, status: int) -> Terminated:
        number = max(-status, 0)
        exit_code = 128 + number if number else status
        message = self._termination_message(run, exit_code)
        reason = "Completed" if exit_code == 0 else "Error"
        return self._end(exit_code, reason, run.started_at, run.container_id, number=number, message=message)

    def _end(
        self,
        exit_code: int,
        reason: str,
        started_at: datetime,
        container_id: str,
        *,
        number: int = 0,
        message: str = "",
    ) -> Terminated:
        ended = Terminated(
            exit_code=exit_code,
            reason=reason,
            started_at=started_at,
            finished_at=self._clock.now(),
            container_id=container_id,
            signal=number,
            message=message,
        )
        self._update(
            state=ended,
            container_id=container_id,
            is_started=False,
            # An init container is ready when it has succeeded.
            is_ready=self._is_init and exit_code == 0,
        )
        return ended

    def _termination_message(self, run: _Run, exit_code: int) -> str:
        """Return the termination message, or the last log lines if the policy allows that."""
        try:
            with self._pod.directory.termination_log(self.spec).open("rb") as file:
                message = file.read(_MAX_MESSAGE_BYTES).decode(errors="replace")
        except OSError:
            message = ""
        if message or exit_code == 0 or self.spec.termination_message_policy != "FallbackToLogsOnError":
            return message
        lines, _ = run.log.lines_from(0)
        return "\n".join(line.text for line in lines[-_LOG_LINES_IN_MESSAGE:])[-_LOG_TEXT_IN_MESSAGE:]

    async def _back_off(self, ended: Terminated) -> None:
        """Wait before a restart: not at first, then longer after each crash. A long run resets the delay."""
        if ended.finished_at - ended.started_at >= BACK_OFF_FORGOTTEN_AFTER:
            self._crash_count = 0
        delay = back_off(self._crash_count)
        self._crash_count += 1
        if delay > timedelta(0):
            message = (
                f"back-off {delay.total_seconds():g}s restarting failed container={self.spec.name} pod={self._pod.name}"
            )
            self._update(state=ContainerWaiting(reason=CRASH_LOOP, message=message), last_state=ended)
            await wait_first(self._stopping.wait(), seconds=delay.total_seconds())

    def _update(self, **changes: Any) -> None:
        self.status = msgspec.structs.replace(self.status, **changes)
        self._changed()


def _with_identity(config: ContainerConfig, identity: str) -> ContainerConfig:
    """Set the identity of the main process in the environment. Hooks and probes inherit it."""
    command = msgspec.structs.replace(config.command, env={**config.command.env, MARK: identity})
    return msgspec.structs.replace(config, command=command)


def _signal_number(name: str) -> int:
    try:
        return signal.Signals[name]
    except KeyError:
        return signal.SIGTERM

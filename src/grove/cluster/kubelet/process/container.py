"""One container's life: its runs one after the other, with hooks, probes, restarts and its end.

What happens is written into `facts`, and only here; `pod_worker.py` makes a pod of them.
"""

import asyncio
import hashlib
import signal
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Protocol

import msgspec

from grove.clock import Clock
from grove.cluster.kubelet.process.async_events import Broadcast, first_of
from grove.cluster.kubelet.process.container_command import BAD_FOLDER, Launch
from grove.cluster.kubelet.process.container_log import RunLog
from grove.cluster.kubelet.process.log_source import ProcessLogs
from grove.cluster.kubelet.process.pod_spec import Container, Hook, NotRunnable, Probe
from grove.cluster.kubelet.process.pod_status import ContainerFacts, ContainerWaiting, Running, Terminated
from grove.cluster.kubelet.process.probes import Prober, Questions
from grove.cluster.kubelet.process.restart_recovery import Earlier
from grove.cluster.kubelet.process.supervisor import MARK
from grove.cluster.kubelet.process.supervisor_client import Process, Processes, StartFailed
from grove.cluster.kubelet.process.volumes import PodHome
from grove.cluster.kubelet.simulated.pod_state_machine import BACK_OFF_FORGOTTEN_AFTER, back_off

CRASH_LOOP = "CrashLoopBackOff"
# What the shell and container runtimes say of a program that could not be started.
NOT_STARTED = 128
# Others may still hold the output of a program that has ended; they are being killed.
_DRAIN_SECONDS = 2.0
_LONGEST_MESSAGE = 4096
_LOG_LINES_IN_MESSAGE = 80
_LOG_TEXT_IN_MESSAGE = 2048


class PodAround(Protocol):
    """What a container needs of its pod."""

    uid: str
    name: str
    grace_seconds: float
    clock: Clock
    processes: Processes
    questions: Questions
    logs: ProcessLogs
    home: PodHome
    # Told when something that a launch may depend on has changed.
    changes: Broadcast

    def launch(self, container: Container) -> Launch: ...


class _Run(msgspec.Struct, frozen=True, kw_only=True):
    process: Process
    log: RunLog
    launch: Launch
    started_at: datetime
    container_id: str


def restarts(policy: str, exit_code: int) -> bool:
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


class ContainerLife:
    """`run` it once. `stop` ends it for good, whatever it is doing."""

    def __init__(
        self,
        spec: Container,
        pod: PodAround,
        changed: Callable[[], None],
        *,
        policy: str,
        is_init: bool,
        reason: str,
        earlier: Earlier | None = None,
    ) -> None:
        self.spec = spec
        self.facts = ContainerFacts(name=spec.name, image=spec.image, state=ContainerWaiting(reason=reason))
        self._pod = pod
        self._clock = pod.clock
        self._changed = changed
        self._policy = policy
        self._is_init = is_init
        self._process: Process | None = None
        self._run_count = 0
        self._quick_ends = 0
        self._kept_logs: list[str] = []
        self._stopping = asyncio.Event()
        self._stop_at = float("inf")
        self._hurried = Broadcast()
        self.started = asyncio.Event()
        """Set when it has started, as its startup probe understands it; or will not any more."""
        self._ended_before: Terminated | None = None
        if earlier is not None:
            self._resume(earlier)

    def _resume(self, earlier: Earlier) -> None:
        """Go on counting. What an init container did is gone with the pod's files: it does it again."""
        self._run_count = earlier.restart_count
        ended = msgspec.structs.replace(earlier.ended, container_id=self._new_container_id())
        self._run_count += 1
        self._ended_before = None if self._is_init else ended
        self.facts = msgspec.structs.replace(
            self.facts,
            state=ended,
            restart_count=earlier.restart_count,
            container_id=ended.container_id,
            is_ready=self._is_init and ended.exit_code == 0,
        )

    async def run(self) -> None:
        """All its runs. Afterwards it has ended, or was stopped before it could begin."""
        ended = self._ended_before
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
        """Ask it to end, and kill it at this instant of the clock. May be called again to hurry."""
        self._stop_at = min(at, self._stop_at)
        self._stopping.set()
        self._hurried.tell()

    async def kill(self) -> None:
        """At once, also if nobody `run`s it any more."""
        if self._process is not None:
            await self._pod.processes.signal(self._process, signal.SIGKILL)

    def drop_logs(self) -> None:
        for container_id in self._kept_logs:
            self._pod.logs.drop(container_id)

    # One run

    async def _run_once(self) -> Terminated | None:
        """How it ended; None: it was stopped before it could begin."""
        container_id = self._new_container_id()
        prepared = await self._prepare(container_id)
        if prepared is None:
            return None
        launch, log = prepared
        started_at = self._clock.now()
        try:
            self._process = await self._start(launch, log)
        except StartFailed as error:
            log.close()
            self._count_run(container_id)
            message = f"the command {launch.command.argv[0]} could not be started: {error}"
            return self._end(NOT_STARTED, "StartError", started_at, container_id, message=message)
        run = _Run(
            process=self._process, log=log, launch=launch, started_at=started_at, container_id=container_id
        )  # fmt: skip
        self._count_run(container_id, state=Running(started_at=started_at))
        if self.spec.startup_probe is None and self.spec.lifecycle.post_start is None:
            self._tell_started()
        return self._end_run(run, await self._attend(run))

    async def _prepare(self, container_id: str) -> tuple[Launch, RunLog] | None:
        """Waits, saying why, until it can be started; None: stopped."""
        attempts = 0
        while not self._stopping.is_set():
            try:
                return _marked(self._pod.launch(self.spec), self._pod.processes.new_identity()), self._new_log(
                    container_id
                )
            except NotRunnable as problem:
                self._tell(state=ContainerWaiting(reason=problem.reason, message=problem.message))
            except OSError as error:
                self._tell(state=ContainerWaiting(reason=BAD_FOLDER, message=f"the log cannot be written: {error}"))
            attempts += 1
            # What is missing may appear in the cluster, which is told; or on this machine, which is not.
            await first_of(
                self._stopping.wait(), self._pod.changes.wait(), seconds=back_off(attempts).total_seconds()
            )  # fmt: skip
        return None

    async def _start(self, launch: Launch, log: RunLog) -> Process:
        identity = launch.command.env[MARK]
        try:
            return await self._pod.processes.start(launch.command, identity=identity, output=log.write_end)
        finally:
            log.close_write_end()

    async def _attend(self, run: _Run) -> int:
        """Look after a run until it has ended and all its lines are in the log."""
        async with asyncio.TaskGroup() as group:
            attendants = [
                group.create_task(self._obey_stop(run)),
                group.create_task(self._kill_in_time(run)),
                group.create_task(self._look_after(run)),
            ]
            status = await run.process.end()
            for attendant in attendants:
                attendant.cancel()
        await first_of(run.log.drained.wait(), seconds=_DRAIN_SECONDS)
        run.log.close()
        return status

    async def _obey_stop(self, run: _Run) -> None:
        await self._stopping.wait()
        if self._clock.monotonic() < self._stop_at:
            await self._ask_to_end(run)

    async def _kill_in_time(self, run: _Run) -> None:
        await self._stopping.wait()
        while (left := self._stop_at - self._clock.monotonic()) > 0:
            await first_of(self._hurried.wait(), seconds=left)
        await self._pod.processes.signal(run.process, signal.SIGKILL)

    async def _ask_to_end(self, run: _Run) -> None:
        lifecycle = self.spec.lifecycle
        if lifecycle.pre_stop is not None:
            await self._hook(lifecycle.pre_stop, run)
        await self._pod.processes.signal(run.process, _signal_number(lifecycle.stop_signal))

    async def _end_early(self, run: _Run, grace: float) -> None:
        """This run has failed a probe or a hook; whether there is another one is decided as after every end."""
        async with asyncio.TaskGroup() as group:
            asking = group.create_task(self._ask_to_end(run))
            await self._clock.sleep(grace)
            asking.cancel()
        await self._pod.processes.signal(run.process, signal.SIGKILL)

    # Hooks and probes

    async def _look_after(self, run: _Run) -> None:
        post_start = self.spec.lifecycle.post_start
        if post_start is not None and not await self._hook(post_start, run):
            await self._end_early(run, self._pod.grace_seconds)
            return
        startup = self._prober(self.spec.startup_probe, run)
        if startup is not None and not await startup.next_verdict():
            await self._end_early(run, self._grace_of(self.spec.startup_probe))
            return
        self._tell_started()
        async with asyncio.TaskGroup() as group:
            if (readiness := self._prober(self.spec.readiness_probe, run)) is not None:
                group.create_task(self._watch_readiness(readiness))
            if (liveness := self._prober(self.spec.liveness_probe, run)) is not None:
                group.create_task(self._watch_liveness(liveness, run))

    async def _watch_readiness(self, prober: Prober) -> None:
        while True:
            self._tell(is_ready=await prober.next_verdict())

    async def _watch_liveness(self, prober: Prober, run: _Run) -> None:
        while await prober.next_verdict():
            pass
        await self._end_early(run, self._grace_of(self.spec.liveness_probe))

    def _prober(self, probe: Probe | None, run: _Run) -> Prober | None:
        if probe is None:
            return None
        return Prober(probe, self._pod.questions.check_of(probe, self.spec, run.launch), self._clock)

    def _grace_of(self, probe: Probe | None) -> float:
        own = None if probe is None else probe.termination_grace_period_seconds
        return self._pod.grace_seconds if own is None else own

    async def _hook(self, hook: Hook, run: _Run) -> bool:
        if hook.sleep is not None:
            await self._clock.sleep(hook.sleep.seconds)
            return True
        if hook.http_get is not None:
            return await self._pod.questions.fetch(hook.http_get, self.spec)
        return await self._pod.questions.run(hook.exec, run.launch)

    # Facts

    def _new_container_id(self) -> str:
        """The way a container runtime names a run."""
        identity = f"{self._pod.uid}/{self.spec.name}/{self._run_count}"
        return f"process://{hashlib.sha256(identity.encode()).hexdigest()}"

    def _new_log(self, container_id: str) -> RunLog:
        """Of earlier runs only the last one's log is kept."""
        while len(self._kept_logs) > 1:
            self._pod.logs.drop(self._kept_logs.pop(0))
        log = RunLog(self._pod.home.log_file(self.spec.name, self._run_count), self._clock)
        self._pod.logs.keep(container_id, log)
        self._kept_logs.append(container_id)
        return log

    def _count_run(self, container_id: str, **changes: Any) -> None:
        facts = self.facts
        last_state = facts.state if isinstance(facts.state, Terminated) else facts.last_state
        self._tell(last_state=last_state, restart_count=self._run_count, container_id=container_id, **changes)
        self._run_count += 1

    def _tell_started(self) -> None:
        if not self.facts.is_started:
            self._tell(is_started=True, is_ready=self.spec.readiness_probe is None and not self._is_init)
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
        self._tell(
            state=ended,
            container_id=container_id,
            is_started=False,
            # An init container is ready when its work is done.
            is_ready=self._is_init and exit_code == 0,
        )
        return ended

    def _termination_message(self, run: _Run, exit_code: int) -> str:
        """What the program left to say, or else, if it is wanted, its last lines."""
        try:
            with self._pod.home.termination_log(self.spec).open("rb") as file:
                message = file.read(_LONGEST_MESSAGE).decode(errors="replace")
        except OSError:
            message = ""
        if message or exit_code == 0 or self.spec.termination_message_policy != "FallbackToLogsOnError":
            return message
        lines, _ = run.log.lines_from(0)
        return "\n".join(line.text for line in lines[-_LOG_LINES_IN_MESSAGE:])[-_LOG_TEXT_IN_MESSAGE:]

    async def _back_off(self, ended: Terminated) -> None:
        """At first none; then longer and longer, until it has run for a while."""
        if ended.finished_at - ended.started_at >= BACK_OFF_FORGOTTEN_AFTER:
            self._quick_ends = 0
        wait = back_off(self._quick_ends)
        self._quick_ends += 1
        if wait > timedelta(0):
            words = (
                f"back-off {wait.total_seconds():g}s restarting failed container={self.spec.name} pod={self._pod.name}"
            )
            self._tell(state=ContainerWaiting(reason=CRASH_LOOP, message=words), last_state=ended)
            await first_of(self._stopping.wait(), seconds=wait.total_seconds())

    def _tell(self, **changes: Any) -> None:
        self.facts = msgspec.structs.replace(self.facts, **changes)
        self._changed()


def _marked(launch: Launch, identity: str) -> Launch:
    """All that runs in a container, and beside it, carries the identity of its main process."""
    command = msgspec.structs.replace(launch.command, env={**launch.command.env, MARK: identity})
    return msgspec.structs.replace(launch, command=command)


def _signal_number(name: str) -> int:
    try:
        return signal.Signals[name]
    except KeyError:
        return signal.SIGTERM

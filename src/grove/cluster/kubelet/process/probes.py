"""Probes of a container: one check (exec, HTTP, TCP) and the thresholds that make a result.

`container.py` acts on the results.
"""

import asyncio
import signal
from collections.abc import Awaitable, Callable

import aiohttp
import msgspec

from grove.clock import Clock
from grove.cluster.kubelet.process.container_command import ContainerConfig
from grove.cluster.kubelet.process.pod_spec import Container, Exec, HttpGet, Probe, TcpSocket, port_of
from grove.cluster.kubelet.process.supervisor_client import StartFailed, SupervisorClient

Check = Callable[[], Awaitable[bool]]


class Prober:
    """A prober for one probe of one run. A result needs enough equal checks in a row."""

    def __init__(self, probe: Probe, check: Check, clock: Clock) -> None:
        self._probe = probe
        self._check = check
        self._clock = clock
        self._has_started = False
        self._last_result: bool | None = None
        self._streak_result = True
        self._streak = 0

    async def next_result(self) -> bool:
        """Wait for the first result, then for each result that differs from the last."""
        while True:
            await self._clock.sleep(
                self._probe.period_seconds if self._has_started else self._probe.initial_delay_seconds
            )
            self._has_started = True
            result = self._apply_threshold(await self._probe_once())
            if result is not None and result != self._last_result:
                self._last_result = result
                return result

    async def _probe_once(self) -> bool:
        try:
            async with asyncio.timeout(self._probe.timeout_seconds):
                return await self._check()
        except TimeoutError:
            return False

    def _apply_threshold(self, result: bool) -> bool | None:
        self._streak = self._streak + 1 if result == self._streak_result else 1
        self._streak_result = result
        enough = self._probe.success_threshold if result else self._probe.failure_threshold
        return result if self._streak >= enough else None


class ProbeRunner:
    """Runs the checks of probes and hooks in the containers of one pod."""

    def __init__(self, processes: SupervisorClient, pod_ip: str) -> None:
        self._processes = processes
        self._pod_ip = pod_ip

    def check_of(self, probe: Probe, container: Container, config: ContainerConfig) -> Check:
        if probe.exec is not None:
            return lambda: self.run(probe.exec, config)
        if probe.http_get is not None:
            return lambda: self.fetch(probe.http_get, container)
        return lambda: self._connect(probe.tcp_socket, container)

    async def run(self, action: Exec | None, config: ContainerConfig) -> bool:
        """Run a command in the environment of the container; return whether it succeeded. Kill it on cancellation."""
        if action is None or not action.command:
            return False
        argv = tuple(config.mounts.translate(text) for text in action.command)
        command = msgspec.structs.replace(config.command, argv=argv)
        try:
            process = await self._processes.start(command)
        except StartFailed:
            return False
        try:
            return await process.end() == 0
        except asyncio.CancelledError:
            await self._processes.signal(process, signal.SIGKILL)
            raise

    async def fetch(self, action: HttpGet | None, container: Container) -> bool:
        if action is None:
            return False
        host = action.host or self._pod_ip
        path = action.path if action.path.startswith("/") else f"/{action.path}"
        url = f"{action.scheme.lower()}://{host}:{port_of(action.port, container)}{path}"
        headers = {"User-Agent": "kube-probe/grove", "Accept": "*/*"}
        headers |= {header.name: header.value for header in action.http_headers}
        connector = aiohttp.TCPConnector(ssl=False, force_close=True)
        try:
            async with (
                aiohttp.ClientSession(connector=connector) as session,
                session.get(url, headers=headers, allow_redirects=False) as response,
            ):
                return 200 <= response.status < 400
        except (aiohttp.ClientError, OSError, ValueError):
            return False

    async def _connect(self, action: TcpSocket | None, container: Container) -> bool:
        if action is None:
            return False
        try:
            _, writer = await asyncio.open_connection(action.host or self._pod_ip, port_of(action.port, container))
        except OSError:
            return False
        writer.close()
        return True

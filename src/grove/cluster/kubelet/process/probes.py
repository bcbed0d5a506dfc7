"""Asking a container how it is: one question (exec, HTTP, TCP), and how many answers in a row make a verdict.

What follows from a verdict is `container.py`'s.
"""

import asyncio
import signal
from collections.abc import Awaitable, Callable

import aiohttp
import msgspec

from grove.clock import Clock
from grove.cluster.kubelet.process.container_command import Launch
from grove.cluster.kubelet.process.pod_spec import Container, Exec, HttpGet, Probe, TcpSocket, port_of
from grove.cluster.kubelet.process.supervisor_client import Processes, StartFailed

Check = Callable[[], Awaitable[bool]]


class Prober:
    """One probe of one run. Verdicts come when enough answers in a row agree."""

    def __init__(self, probe: Probe, check: Check, clock: Clock) -> None:
        self._probe = probe
        self._check = check
        self._clock = clock
        self._has_begun = False
        self._verdict: bool | None = None
        self._answer = True
        self._streak = 0

    async def next_verdict(self) -> bool:
        """The first verdict, and then each that differs from the one before."""
        while True:
            await self._clock.sleep(
                self._probe.period_seconds if self._has_begun else self._probe.initial_delay_seconds
            )
            self._has_begun = True
            verdict = self._counted(await self._ask())
            if verdict is not None and verdict != self._verdict:
                self._verdict = verdict
                return verdict

    async def _ask(self) -> bool:
        try:
            async with asyncio.timeout(self._probe.timeout_seconds):
                return await self._check()
        except TimeoutError:
            return False

    def _counted(self, answer: bool) -> bool | None:
        self._streak = self._streak + 1 if answer == self._answer else 1
        self._answer = answer
        enough = self._probe.success_threshold if answer else self._probe.failure_threshold
        return answer if self._streak >= enough else None


class Questions:
    """How the containers of one pod are asked."""

    def __init__(self, processes: Processes, pod_ip: str) -> None:
        self._processes = processes
        self._pod_ip = pod_ip

    def check_of(self, probe: Probe, container: Container, launch: Launch) -> Check:
        if probe.exec is not None:
            return lambda: self.run(probe.exec, launch)
        if probe.http_get is not None:
            return lambda: self.fetch(probe.http_get, container)
        return lambda: self._connect(probe.tcp_socket, container)

    async def run(self, wanted: Exec | None, launch: Launch) -> bool:
        """Whether it ended well, with the environment and the folder of its container. Cancelled, it is killed."""
        if wanted is None or not wanted.command:
            return False
        argv = tuple(launch.mounts.mapped(text) for text in wanted.command)
        beside = msgspec.structs.replace(launch.command, argv=argv)
        try:
            process = await self._processes.start(beside)
        except StartFailed:
            return False
        try:
            return await process.end() == 0
        except asyncio.CancelledError:
            await self._processes.signal(process, signal.SIGKILL)
            raise

    async def fetch(self, wanted: HttpGet | None, container: Container) -> bool:
        if wanted is None:
            return False
        host = wanted.host or self._pod_ip
        path = wanted.path if wanted.path.startswith("/") else f"/{wanted.path}"
        url = f"{wanted.scheme.lower()}://{host}:{port_of(wanted.port, container)}{path}"
        headers = {"User-Agent": "kube-probe/grove", "Accept": "*/*"}
        headers |= {header.name: header.value for header in wanted.http_headers}
        connector = aiohttp.TCPConnector(ssl=False, force_close=True)
        try:
            async with (
                aiohttp.ClientSession(connector=connector) as session,
                session.get(url, headers=headers, allow_redirects=False) as response,
            ):
                return 200 <= response.status < 400
        except (aiohttp.ClientError, OSError, ValueError):
            return False

    async def _connect(self, wanted: TcpSocket | None, container: Container) -> bool:
        if wanted is None:
            return False
        try:
            _, writer = await asyncio.open_connection(wanted.host or self._pod_ip, port_of(wanted.port, container))
        except OSError:
            return False
        writer.close()
        return True

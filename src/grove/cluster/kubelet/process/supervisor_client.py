"""Client of the supervisor: starts and signals local processes and waits for their exit.

`supervisor.py` is a separate program, so that no process stays behind, however the kubelet ends.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from grove.cluster.kubelet.process import supervisor
from grove.errors import Bug

# The time that processes get to exit after SIGTERM when the cluster stops.
STOP_SECONDS = 5.0
_CHUNK = 65536


class StartFailed(Exception):
    """The operating system could not start the command. Its author must act."""


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """A command with its environment and working directory. `argv[0]` is a path."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str


class Process:
    """A started process, the leader of its own session."""

    def __init__(self, identity: str, loop: asyncio.AbstractEventLoop) -> None:
        self.identity = identity
        self.pid = 0
        self.started: asyncio.Future[None] = loop.create_future()
        self.ended: asyncio.Future[int] = loop.create_future()

    async def end(self) -> int:
        """Wait for the exit. Return the exit code, or minus the number of the signal."""
        # Shielded: a cancelled waiter must not cancel the shared future.
        return await asyncio.shield(self.ended)


class _Report(msgspec.Struct, frozen=True):
    id: str
    pid: int = 0
    error: str = ""
    status: int | None = None


class SupervisorClient:
    """A client, used with `async with`. On exit all started processes and the directory `root` are gone."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._loop = asyncio.get_running_loop()
        self._identities = count(1)
        self._live: dict[str, Process] = {}
        self._sending = asyncio.Lock()
        self._buffer = b""
        self._is_closing = False
        self._supervisor: subprocess.Popen[bytes] | None = None
        self._channel, self._far_end = socket.socketpair()
        self._supervisor_ended: asyncio.Future[None] = self._loop.create_future()

    async def __aenter__(self) -> Self:
        self._supervisor = _start_supervisor(self._far_end, self._root)
        self._far_end.close()
        self._channel.setblocking(False)
        self._loop.add_reader(self._channel, self._receive)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._terminate_all()
        finally:
            self._is_closing = True
            self._channel.shutdown(socket.SHUT_WR)
            try:
                await self.wait_for_supervisor_exit()
            finally:
                self._loop.remove_reader(self._channel)
                self._channel.close()
                if self._supervisor is not None:
                    self._supervisor.wait()
                # The supervisor has removed it, unless it was killed.
                shutil.rmtree(self._root, ignore_errors=True)

    async def wait_for_supervisor_exit(self) -> None:
        """Wait until the supervisor and all its processes are gone."""
        # Shielded: a cancelled waiter must not cancel the shared future.
        await asyncio.shield(self._supervisor_ended)

    @property
    def count(self) -> int:
        """Return the number of known running processes."""
        return len(self._live)

    def new_identity(self) -> str:
        """Return an identity for the next process. All processes of the container have it in their environment."""
        return str(next(self._identities))

    async def start(self, command: Command, *, identity: str = "", output: int | None = None) -> Process:
        """Start a process. Raises `StartFailed`. The caller closes `output`; None discards the output."""
        process = Process(identity or self.new_identity(), self._loop)
        self._live[process.identity] = process
        request = {"start": process.identity, "argv": command.argv, "env": command.env, "cwd": command.cwd}
        sink = os.open(os.devnull, os.O_WRONLY) if output is None else output
        try:
            await self._send(request, [sink])
        finally:
            if output is None:
                os.close(sink)
        # Shielded: if the caller is cancelled, the report still needs the future.
        await asyncio.shield(process.started)
        return process

    async def signal(self, process: Process, number: int) -> None:
        """Send a signal to the process group. Does nothing if the process has ended."""
        if not process.ended.done():
            await self._send({"signal": process.identity, "number": int(number)})

    async def _send(self, request: object, files: list[int] | None = None) -> None:
        data = msgspec.json.encode(request) + b"\n"
        async with self._sending:
            while True:
                try:
                    sent = socket.send_fds(self._channel, [data], files or [])
                    break
                except BlockingIOError:
                    await self._wait_until_writable()
                except OSError as error:
                    raise Bug("the supervisor of the process kubelet has exited; please report this") from error
            await self._loop.sock_sendall(self._channel, data[sent:])

    async def _wait_until_writable(self) -> None:
        writable = self._loop.create_future()
        self._loop.add_writer(self._channel, writable.set_result, None)
        try:
            await writable
        finally:
            self._loop.remove_writer(self._channel)

    def _receive(self) -> None:
        try:
            data = self._channel.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._handle_supervisor_exit()
            return
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            self._handle_report(msgspec.json.decode(line, type=_Report))

    def _handle_supervisor_exit(self) -> None:
        self._loop.remove_reader(self._channel)
        if not self._is_closing:
            # The kernel has killed the processes that the supervisor started; kill their children too.
            for process in self._live.values():
                if not process.pid:
                    continue
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
        if not self._supervisor_ended.done():
            self._supervisor_ended.set_result(None)

    def _handle_report(self, report: _Report) -> None:
        process = self._live[report.id]
        if report.status is not None:
            del self._live[report.id]
            process.ended.set_result(report.status)
        elif report.error:
            del self._live[report.id]
            process.started.set_exception(StartFailed(report.error))
            # The waiter may have been cancelled.
            process.started.exception()
        else:
            process.pid = report.pid
            process.started.set_result(None)

    async def _terminate_all(self) -> None:
        live = tuple(self._live.values())
        if not live or self._supervisor_ended.done():
            return
        for process in live:
            await self.signal(process, signal.SIGTERM)
        await asyncio.wait([process.ended for process in live], timeout=STOP_SECONDS)


def _start_supervisor(channel: socket.socket, root: Path) -> "subprocess.Popen[bytes]":
    number = channel.fileno()
    return subprocess.Popen(
        [sys.executable, "-I", "-S", supervisor.__file__, str(number), str(root)],
        pass_fds=(number,),
        stdin=subprocess.DEVNULL,
        env={},
        cwd="/",
        # Ctrl-C is for the kubelet only: it stops its processes and then the supervisor.
        start_new_session=True,
    )

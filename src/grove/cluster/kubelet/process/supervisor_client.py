"""Local processes as the kubelet sees them: started, signalled, and each with its end to wait for.

The work is done by a program of its own, `supervisor.py`, so that nothing stays behind however this one ends. What
is run, and why, is not known here.
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

# How long the processes of a cluster that stops may take to end by themselves.
STOP_SECONDS = 5.0
_CHUNK = 65536


class StartFailed(Exception):
    """The machine would not start it: whoever wrote the command acts."""


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """What to run, where, and with which environment. `argv[0]` is a path."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str


class Process:
    """One started process, the first of a session of its own."""

    def __init__(self, identity: str, loop: asyncio.AbstractEventLoop) -> None:
        self.identity = identity
        self.pid = 0
        self.started: asyncio.Future[None] = loop.create_future()
        self.ended: asyncio.Future[int] = loop.create_future()

    async def end(self) -> int:
        """The exit code, or minus the number of the signal that ended it."""
        # Shielded: who stops waiting does not end it.
        return await asyncio.shield(self.ended)


class _Report(msgspec.Struct, frozen=True):
    id: str
    pid: int = 0
    error: str = ""
    status: int | None = None


class Processes:
    """`async with` it: on leaving, everything that it started is gone, and so is the folder `root`."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._loop = asyncio.get_running_loop()
        self._identities = count(1)
        self._live: dict[str, Process] = {}
        self._sending = asyncio.Lock()
        self._buffer = b""
        self._is_closing = False
        self._warden: subprocess.Popen[bytes] | None = None
        self._channel, self._far_end = socket.socketpair()
        self._warden_ended: asyncio.Future[None] = self._loop.create_future()

    async def __aenter__(self) -> Self:
        self._warden = _start_warden(self._far_end, self._root)
        self._far_end.close()
        self._channel.setblocking(False)
        self._loop.add_reader(self._channel, self._receive)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._end_gently()
        finally:
            self._is_closing = True
            self._channel.shutdown(socket.SHUT_WR)
            try:
                await self.warden_end()
            finally:
                self._loop.remove_reader(self._channel)
                self._channel.close()
                if self._warden is not None:
                    self._warden.wait()
                # The warden has done so, unless it was killed.
                shutil.rmtree(self._root, ignore_errors=True)

    async def warden_end(self) -> None:
        """Until it is gone, and with it all that it started."""
        # Shielded: who stops waiting does not end it.
        await asyncio.shield(self._warden_ended)

    @property
    def count(self) -> int:
        """How many processes run, as far as is known."""
        return len(self._live)

    def new_identity(self) -> str:
        """For the next process to start; belongs into the environment of all that runs in its container."""
        return str(next(self._identities))

    async def start(self, command: Command, *, identity: str = "", output: int | None = None) -> Process:
        """Started when this returns; raises `StartFailed`. `output` stays the caller's; None: nobody wants to know."""
        process = Process(identity or self.new_identity(), self._loop)
        self._live[process.identity] = process
        request = {"start": process.identity, "argv": command.argv, "env": command.env, "cwd": command.cwd}
        sink = os.open(os.devnull, os.O_WRONLY) if output is None else output
        try:
            await self._send(request, [sink])
        finally:
            if output is None:
                os.close(sink)
        # Shielded: should the caller be cancelled, the answer still has somewhere to go.
        await asyncio.shield(process.started)
        return process

    async def signal(self, process: Process, number: int) -> None:
        """To the process and its whole group; nothing happens if it has ended."""
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
                    await self._room_to_send()
                except OSError as error:
                    raise Bug("the warden of the process kubelet is gone; please report this") from error
            await self._loop.sock_sendall(self._channel, data[sent:])

    async def _room_to_send(self) -> None:
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
            self._lose_warden()
            return
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            self._hear(msgspec.json.decode(line, type=_Report))

    def _lose_warden(self) -> None:
        self._loop.remove_reader(self._channel)
        if not self._is_closing:
            # The kernel has killed those whom it had started; this is for their children.
            for process in self._live.values():
                if not process.pid:
                    continue
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
        if not self._warden_ended.done():
            self._warden_ended.set_result(None)

    def _hear(self, report: _Report) -> None:
        process = self._live[report.id]
        if report.status is not None:
            del self._live[report.id]
            process.ended.set_result(report.status)
        elif report.error:
            del self._live[report.id]
            process.started.set_exception(StartFailed(report.error))
            # Somebody may have stopped waiting for it.
            process.started.exception()
        else:
            process.pid = report.pid
            process.started.set_result(None)

    async def _end_gently(self) -> None:
        live = tuple(self._live.values())
        if not live or self._warden_ended.done():
            return
        for process in live:
            await self.signal(process, signal.SIGTERM)
        await asyncio.wait([process.ended for process in live], timeout=STOP_SECONDS)


def _start_warden(channel: socket.socket, root: Path) -> "subprocess.Popen[bytes]":
    number = channel.fileno()
    return subprocess.Popen(
        [sys.executable, "-I", "-S", supervisor.__file__, str(number), str(root)],
        pass_fds=(number,),
        stdin=subprocess.DEVNULL,
        env={},
        cwd="/",
        # A Ctrl-C at the terminal is for us: we end in order, and the warden after us.
        start_new_session=True,
    )

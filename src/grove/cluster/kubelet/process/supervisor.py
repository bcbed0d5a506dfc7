"""Supervisor: a small program beside the kubelet that starts the processes of containers and ends them reliably.

It runs as a separate script with only the standard library; `supervisor_client.py` is the other end of its socket. It
starts all processes, so it learns of every exit. It adopts orphans (as a subreaper), so no process escapes. When the
kubelet dies, the socket closes: then it kills all processes, removes the files of the pods and exits. If the supervisor
itself is killed, the kernel kills the processes that it started.

Requests and reports are JSON, one per line. A start request carries one file descriptor, for the output.
    {"start": ID, "argv": [...], "env": {...}, "cwd": "..."}  ->  {"id": ID, "pid": N} or {"id": ID, "error": "..."}
    {"signal": ID, "number": 15}                              ->  nothing
    a process has ended                                       ->  {"id": ID, "status": exit code, or minus its signal}
"""

import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
from collections import deque
from typing import Any

# The variable that marks all processes of a container with the identity of its main process. It identifies orphans.
MARK = "GROVE_CONTAINER_ID"

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_CHUNK = 65536
_MOST_FILES = 64


class Supervisor:
    """The supervisor of all processes of one kubelet."""

    def __init__(self, channel: socket.socket, root: str) -> None:
        self._channel = channel
        self._root = root
        self._buffer = b""
        self._outputs: deque[int] = deque()
        self._pid = os.getpid()
        self._started: dict[int, str] = {}
        self._pids: dict[str, int] = {}
        # Main processes of containers. The other started processes are hooks and probes.
        self._mains: dict[int, str] = {}
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._wake_reader, self._wake_writer = os.pipe()

    def serve(self) -> None:
        """Serve until the kubelet closes its end of the socket or dies."""
        self._libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        for pipe_end in (self._wake_reader, self._wake_writer):
            os.set_blocking(pipe_end, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake_writer, warn_on_full_buffer=False)
        for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(ignored, signal.SIG_IGN)
        while self._step():
            pass
        self._kill_all()
        shutil.rmtree(self._root, ignore_errors=True)

    def _step(self) -> bool:
        ready, _, _ = select.select([self._channel.fileno(), self._wake_reader], [], [])
        if self._wake_reader in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self._wake_reader, _CHUNK)
            self._reap()
        return self._channel.fileno() not in ready or self._receive()

    def _receive(self) -> bool:
        try:
            data, outputs, _, _ = socket.recv_fds(self._channel, _CHUNK, _MOST_FILES)
        except ConnectionError:
            return False
        self._outputs.extend(outputs)
        self._buffer += data
        *lines, self._buffer = self._buffer.split(b"\n")
        for line in lines:
            self._handle_request(json.loads(line))
        return bool(data)

    def _handle_request(self, request: dict[str, Any]) -> None:
        if "start" in request:
            self._start(request, self._outputs.popleft())
        else:
            self._signal(request["signal"], request["number"])

    def _start(self, request: dict[str, Any], output: int) -> None:
        identity = request["start"]
        try:
            process = subprocess.Popen(
                request["argv"],
                env=request["env"],
                cwd=request["cwd"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                # Safe: this program has one thread.
                preexec_fn=self._die_with_supervisor,
            )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            self._report({"id": identity, "error": getattr(error, "strerror", None) or str(error)})
            return
        finally:
            os.close(output)
        # `_reap` waits for all children, so the Popen object must not.
        process.returncode = 0
        self._started[process.pid] = identity
        self._pids[identity] = process.pid
        if request["env"].get(MARK) == identity:
            self._mains[process.pid] = identity
        self._report({"id": identity, "pid": process.pid})

    def _die_with_supervisor(self) -> None:
        self._libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != self._pid:
            os._exit(1)
        # Ignored signals are inherited; restore the defaults that programs expect.
        for restored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(restored, signal.SIG_DFL)

    def _signal(self, identity: str, number: int) -> None:
        pid = self._pids.get(identity)
        if pid is not None:
            _signal_group(pid, number)

    def _reap(self) -> None:
        """Report ended processes. When a main process ends, kill the rest of its container."""
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None:
                break
            pid = ended.si_pid
            # Before waitpid: until then the pid cannot be reused.
            if pid in self._mains:
                _signal_group(pid, signal.SIGKILL)
            _, status = os.waitpid(pid, 0)
            self._forget(pid, os.waitstatus_to_exitcode(status))
        self._kill_orphans()

    def _forget(self, pid: int, status: int) -> None:
        self._mains.pop(pid, None)
        identity = self._started.pop(pid, None)
        if identity is not None:
            del self._pids[identity]
            self._report({"id": identity, "status": status})

    def _kill_orphans(self) -> None:
        """Kill orphans whose container has ended. Orphans without the mark are killed when the supervisor exits."""
        for pid in _children():
            if pid not in self._started and _mark_of(pid) not in (None, *self._mains.values()):
                _signal_one(pid, signal.SIGKILL)

    def _kill_all(self) -> None:
        """Kill all processes. Children of killed processes are adopted and killed too."""
        while True:
            for pid in _children():
                _signal_one(pid, signal.SIGKILL)
            try:
                reaped, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not reaped:
                select.select([self._wake_reader], [], [], 0.01)
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wake_reader, _CHUNK)

    def _report(self, report: dict[str, Any]) -> None:
        # If the kubelet is gone, the next read notices it.
        with contextlib.suppress(OSError):
            self._channel.sendall(json.dumps(report).encode() + b"\n")


def _children() -> list[int]:
    """Return the pids of the child processes."""
    me = os.getpid()
    try:
        with open(f"/proc/{me}/task/{me}/children") as listed:
            return [int(pid) for pid in listed.read().split()]
    except OSError:
        return [int(name) for name in os.listdir("/proc") if name.isdecimal() and _parent_of(name) == me]


def _parent_of(pid: str) -> int:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            # The process name in parentheses may contain any character.
            return int(stat.read().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def _mark_of(pid: int) -> str | None:
    """Return the identity of the container of a process, or None if it has no mark or is gone."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as environ:
            variables = environ.read().split(b"\0")
    except OSError:
        return None
    prefix = MARK.encode() + b"="
    return next((each.removeprefix(prefix).decode() for each in variables if each.startswith(prefix)), None)


def _signal_group(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def _signal_one(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


if __name__ == "__main__":
    Supervisor(socket.socket(fileno=int(sys.argv[1])), sys.argv[2]).serve()

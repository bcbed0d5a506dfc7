"""The usage of containers that run as processes: CPU time and memory from `/proc`, read when somebody asks.

All processes of a container are in the session of its first one. The CPU is an average since an earlier request, at
least `_SHORTEST_WINDOW` ago, or since the start of the container. On systems without `/proc` nothing is measured.
"""

import os
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from grove.api.types.meta import JsonObject
from grove.cluster.apiserver.metrics.pod_usage import ContainerUsage, PodUsage, is_running
from grove.cluster.storage.store import Storage

_SHORTEST_WINDOW = timedelta(seconds=10)
# A container that has just started has no average yet.
_SHORTEST_RUN = timedelta(seconds=1)
_PROC = Path("/proc")
# Fields of /proc/PID/stat after the name of the program: session, CPU times of itself and its ended children, memory.
_SESSION, _TIMES, _RESIDENT = 3, slice(11, 15), 21


class RunningProcess(msgspec.Struct, frozen=True):
    """The first process of a running container."""

    container: str
    pid: int
    started_at: datetime


class SessionUsage(msgspec.Struct, frozen=True):
    """The CPU time and the memory of all processes of a session."""

    cpu_seconds: float = 0.0
    memory_bytes: int = 0


class _Samples(msgspec.Struct, frozen=True):
    """Two earlier measurements of the CPU time: when, and how much."""

    older: tuple[datetime, float]
    newer: tuple[datetime, float]


def read_sessions() -> dict[int, SessionUsage]:
    """Return the usage of every session of this machine, by the pid of its first process."""
    ticks, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    found: dict[int, SessionUsage] = {}
    for path in _PROC.glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            # The process has ended meanwhile.
            continue
        before = found.get(int(fields[_SESSION]), SessionUsage())
        found[int(fields[_SESSION])] = SessionUsage(
            before.cpu_seconds + sum(map(int, fields[_TIMES])) / ticks,
            before.memory_bytes + int(fields[_RESIDENT]) * page,
        )
    return found


FindProcesses = Callable[[str], Sequence[RunningProcess]]


class ProcessUsage:
    """A `UsageSource` for processes. The kubelet tells it which processes a pod has."""

    hint = "" if _PROC.joinpath("self", "stat").exists() else "the usage of processes is measured on Linux only"

    def __init__(self, read: Callable[[], dict[int, SessionUsage]] = read_sessions) -> None:
        self._read = read
        self._find: FindProcesses = lambda _: ()
        self._samples: dict[int, _Samples] = {}

    def follow(self, find_processes: FindProcesses) -> None:
        """Measure the processes that this function returns for the uid of a pod."""
        self._find = find_processes

    def measure(self, store: Storage, pods: Sequence[JsonObject], now: datetime) -> dict[str, PodUsage]:
        sessions = self._read()
        self._samples = {pid: samples for pid, samples in self._samples.items() if pid in sessions}
        found = {}
        for pod in pods:
            uid = pod["metadata"]["uid"]
            if is_running(pod) and (usage := self._measure_pod(self._find(uid), sessions, now)) is not None:
                found[uid] = usage
        return found

    def _measure_pod(
        self, processes: Sequence[RunningProcess], sessions: dict[int, SessionUsage], now: datetime
    ) -> PodUsage | None:
        containers: list[ContainerUsage] = []
        windows: list[timedelta] = []
        for process in processes:
            session = sessions.get(process.pid)
            if session is None or now - process.started_at < _SHORTEST_RUN:
                continue
            since, used = self._advance(process, session.cpu_seconds, now)
            windows.append(now - since)
            milli = round(max(session.cpu_seconds - used, 0.0) * 1000 / (now - since).total_seconds())
            containers.append(
                ContainerUsage(name=process.container, cpu_milli=milli, memory_bytes=session.memory_bytes)
            )
        if not containers:
            return None
        return PodUsage(at=now, window=max(windows), containers=tuple(containers))

    def _advance(self, process: RunningProcess, used: float, now: datetime) -> tuple[datetime, float]:
        """Record a measurement. Return the earlier one that the average starts from."""
        start = (process.started_at, 0.0)
        samples = self._samples.get(process.pid)
        if samples is None or samples.older[0] < process.started_at:
            samples = _Samples(start, start)
        is_due = now - samples.newer[0] >= _SHORTEST_WINDOW
        base = samples.newer if is_due else samples.older
        self._samples[process.pid] = _Samples(samples.newer, (now, used)) if is_due else samples
        return base

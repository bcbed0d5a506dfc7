"""A cluster that is kept on disk: what that costs a write, and what a restart with many objects takes.

The same creates over HTTP as in `http.py`, in memory and with `--data-dir`, in one run. Disks differ: the time of one
`fdatasync` is part of the table.
"""

import asyncio
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from statistics import median

import msgspec

from bench.http import CONNECTIONS, GROVE, OBJECTS, connected, pod, requests_per_second
from bench.table import Row, show
from grove.api.resources import PODS
from grove.clock import LoopClock
from grove.cluster.apiserver.api_server import ApiServer
from grove.cluster.storage.data_dir import open_data_dir
from grove.cluster.storage.group_commit import GroupCommit
from grove.kube.transport import Request

KEPT_OBJECTS = 50_000
SYNCS = 200
_BARE = ("--nodes", "0", "--no-operator", "--kubelet", "none")


class Creates(msgspec.Struct, frozen=True):
    per_second: float
    # The server's own, of all its threads: it does not depend on what else the machine does.
    cpu_microseconds: float


class Start(msgspec.Struct, frozen=True):
    seconds: float
    cpu_seconds: float
    megabytes: float


def measure() -> Sequence[Row]:
    with tempfile.TemporaryDirectory(prefix="grove-bench-", dir=Path.cwd()) as name:
        folder = Path(name)
        sync = _sync_milliseconds(folder)
        in_memory = _creates(folder, "memory")
        kept = _creates(folder, "kept", "--data-dir", str(folder / "creates"))
        empty = _start(folder, "empty")
        _fill(folder / "many")
        full = _start(folder, "many")
        killed = _start(folder, "many")
        size = (folder / "many" / "cluster.db").stat().st_size
    share = kept.per_second / in_memory.per_second
    return [
        Row("one fdatasync of 2 KB", f"{sync:.2f} ms", "this disk"),
        _row(f"creates in memory, {CONNECTIONS} connections", in_memory, f"{OBJECTS:,} pods"),
        _row("creates with --data-dir", kept, f"{share:.0%} of those in memory"),
        _row("start, nothing kept", empty),
        _row(f"start with {KEPT_OBJECTS:,} pods", full, f"{size / 1e6:.0f} MB on disk"),
        _row("the same after kill -9", killed),
    ]


def _sync_milliseconds(folder: Path) -> float:
    file = os.open(folder / "sync", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    times = []
    for _ in range(SYNCS):
        os.write(file, bytes(2000))
        started = time.perf_counter()
        os.fdatasync(file)
        times.append(time.perf_counter() - started)
    os.close(file)
    return median(times) * 1000


def _creates(folder: Path, name: str, *options: str) -> Creates:
    async def ask(process: "subprocess.Popen[bytes]") -> Creates:
        async with connected(folder / name) as transport:
            before = _cpu_seconds(process.pid)
            per_second = await requests_per_second(transport, PODS.path("default"))
            return Creates(per_second, (_cpu_seconds(process.pid) - before) / OBJECTS * 1e6)

    with _up(folder / name, *options) as process:
        return asyncio.run(ask(process))


def _fill(folder: Path) -> None:
    """As a server leaves it behind that was told to end."""

    async def write() -> None:
        with open_data_dir(folder) as data_dir:
            journal = GroupCommit(data_dir.store, data_dir.log)
            server = ApiServer(LoopClock.starting_now(), Random(1), store=data_dir.store)
            for number in range(KEPT_OBJECTS):
                body = msgspec.json.encode(pod(f"pod-{number}"))
                server.handle(Request(method="POST", path=PODS.path("default"), body=body))
                if number % 1000 == 0:
                    await journal.wait_persisted()
            await journal.close()

    asyncio.run(write())


def _start(folder: Path, name: str) -> Start:
    """Until it answers. It is killed then."""
    kubeconfig = folder / f"{name}.kubeconfig"
    kubeconfig.unlink(missing_ok=True)

    async def ready() -> None:
        async with connected(kubeconfig) as transport:
            response = await transport.send(Request(method="GET", path="/readyz"))
            assert response.status == 200

    started = time.perf_counter()
    with _up(kubeconfig, "--data-dir", str(folder / name)) as process:
        asyncio.run(ready())
        return Start(time.perf_counter() - started, _cpu_seconds(process.pid), _resident_megabytes(process.pid))


@contextmanager
def _up(kubeconfig: Path, *options: str) -> Iterator["subprocess.Popen[bytes]"]:
    command = [str(GROVE), "up", *_BARE, "--kubeconfig", str(kubeconfig), *options]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _row(what: str, found: Creates | Start, remark: str = "") -> Row:
    match found:
        case Creates(per_second=per_second, cpu_microseconds=cpu):
            figure, costs = f"{per_second:,.0f}/s", f"{cpu:.0f} µs of CPU each"
        case Start(seconds=seconds, cpu_seconds=cpu, megabytes=megabytes):
            figure, costs = f"{seconds:.2f} s", f"{cpu:.2f} s of CPU, {megabytes:.0f} MB of memory"
    return Row(what, figure, f"{costs}; {remark}" if remark else costs)


def _cpu_seconds(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def _resident_megabytes(pid: int) -> float:
    words = Path(f"/proc/{pid}/statm").read_text().split()
    return int(words[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


if __name__ == "__main__":
    show("A cluster that is kept on disk", measure())

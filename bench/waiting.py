"""500 pods that wait for one leader: what they cost the API server, and what one `grove wait` costs its pod.

`python -m bench.waiting`. Two ways to wait, one after the other, each next to its own `grove up` over loopback:

* `grove wait`, which watches the PodCliques of its gang;
* a pod informer (`bench.pod_informer`), as the init container of the Go implementation has: it watches all pods of its
  gang.

A few waiters are real processes. The others are bare connections of this process that list and watch as they do and
only count what arrives: 500 interpreters do not fit on two cores. While they wait, every waiting pod reports once that
its init container runs; then the leader becomes ready.
"""

import asyncio
import os
import re
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec

from bench.http import GROVE, batched, connected
from bench.plane import cpu_seconds
from bench.table import Row, show
from grove.api import labels
from grove.api.resources import PODCLIQUES, PODS, Resource
from grove.api.types.meta import JsonObject
from grove.clock import LoopClock
from grove.kube.client import Client
from grove.kube.kubeconfig import Access, find_access

WAITERS = 500
PROCESSES = 3
WRITERS = 8
LONGEST_SECONDS = 120.0
GANG = "job-0"
LEADER = "job-0-leader"
SELECTOR = labels.selector({labels.PODGANG: GANG})


class Costs(msgspec.Struct, kw_only=True):
    """What the waiters of one way cost. Times are in seconds."""

    requests: int = 0
    events: int = 0
    sent_bytes: int = 0
    # Of the API server, from the first list until the last waiter knows.
    server_cpu: float = 0.0
    # From the write of the leader's status until the last waiter knows.
    notice_seconds: float = 0.0
    process_starts: list[float] = []
    process_cpu: list[float] = []
    process_peaks: list[float] = []


def measure() -> Sequence[Row]:
    cliques = asyncio.run(_measure(PODCLIQUES, [str(GROVE), "wait", f"--podcliques={LEADER}:1"]))
    pods = asyncio.run(_measure(PODS, [sys.executable, "-m", "bench.pod_informer", "default", f"{LEADER}-0", SELECTOR]))
    return [*_rows("grove wait", cliques), *_rows("pod informer", pods)]


def _rows(what: str, costs: Costs) -> list[Row]:
    of = f"{WAITERS} waiters, {PROCESSES} of them processes"
    return [
        Row(f"{what}: requests of all", f"{costs.requests:,}", f"{of}; one list and one watch each"),
        Row(f"{what}: events sent", f"{costs.events:,}", f"{costs.sent_bytes / 2**20:.1f} MiB with the lists"),
        Row(f"{what}: CPU of the API server", f"{costs.server_cpu:.2f} s", "with the handshakes and 501 status writes"),
        Row(f"{what}: all know that the leader is ready", f"{costs.notice_seconds:.2f} s", "after the write"),
        Row(f"{what}: a process until it watches", f"{max(costs.process_starts):.2f} s", f"slowest of {PROCESSES}"),
        Row(f"{what}: its CPU until the leader is ready", f"{max(costs.process_cpu):.2f} s", f"most of {PROCESSES}"),
        Row(f"{what}: its peak memory", f"{max(costs.process_peaks):.1f} MB", f"most of {PROCESSES}"),
    ]


# --- one way to wait -------------------------------------------------------------------------------------------------


async def _measure(kind: Resource[Any], command: Sequence[str]) -> Costs:
    costs = Costs(process_starts=[], process_cpu=[], process_peaks=[])
    async with AsyncExitStack() as stack:
        kubeconfig = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="grove-bench-"))) / "kubeconfig"
        server = _start_server(kubeconfig)
        stack.callback(_end, server)
        transport = await stack.enter_async_context(connected(kubeconfig))
        client = Client(transport, LoopClock.starting_now())
        await _create_gang(client)
        await stack.enter_async_context(asyncio.timeout(LONGEST_SECONDS))
        before = cpu_seconds(server)
        waiters = [Waiter(costs, _access(kubeconfig), kind) for _ in range(WAITERS - PROCESSES)]
        for numbers in batched(len(waiters), WRITERS):
            await asyncio.gather(*(waiters[number].open() for number in numbers))
        watching = [asyncio.create_task(waiter.follow()) for waiter in waiters]
        processes = [await _start_process(command, kubeconfig, costs) for _ in range(PROCESSES)]
        await _report_pods(client)
        # Until all have read their events.
        await asyncio.sleep(1.0)
        for process in processes:
            _weigh(process.pid, costs)
        started = time.perf_counter()
        await _patch_status(client, PODCLIQUES, LEADER, {"readyReplicas": 1})
        await _patch_status(client, PODS, f"{LEADER}-0", {"conditions": [_READY]})
        await asyncio.gather(*watching)
        for process in processes:
            assert await process.wait() == 0
        costs.notice_seconds = time.perf_counter() - started
        costs.server_cpu = cpu_seconds(server) - before
        # Processes send what the connections send: a list and a watch.
        costs.requests += 2 * PROCESSES
        costs.events += PROCESSES * waiters[0].events
    return costs


def _start_server(kubeconfig: Path) -> subprocess.Popen[bytes]:
    command = [str(GROVE), "up", "--nodes", "0", "--no-operator", "--kubeconfig", str(kubeconfig)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.wait()


def _access(kubeconfig: Path) -> Access:
    access = find_access({}, kubeconfig=kubeconfig)
    assert access is not None
    return access


_READY: JsonObject = {"type": "Ready", "status": "True"}
_RUNS: JsonObject = {"phase": "Pending", "reason": "Waiting"}


async def _create_gang(client: Client) -> None:
    spec = {"roleName": "leader", "replicas": 1, "podSpec": {"containers": [{"name": "main", "image": "i"}]}}
    metadata = {"name": LEADER, "labels": {labels.PODGANG: GANG}}
    body: JsonObject = {
        "apiVersion": PODCLIQUES.api_version,
        "kind": PODCLIQUES.kind,
        "metadata": metadata,
        "spec": spec,
    }
    await client.create(PODCLIQUES, "default", body)
    for name in (f"{LEADER}-0", *(_pod_name(number) for number in range(WAITERS))):
        await client.create(PODS, "default", _pod(name))


def _pod_name(number: int) -> str:
    return f"job-0-worker-{number}"


def _pod(name: str) -> JsonObject:
    """A pod of the gang that nobody schedules, about as large as those that the operator creates."""
    env = [{"name": f"GROVE_VARIABLE_{number}", "value": name} for number in range(10)]
    container = {"name": "main", "image": "i", "env": env, "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {labels.PODGANG: GANG}},
        "spec": {"schedulerName": "nobody", "containers": [container], "initContainers": [_init_container()]},
    }


def _init_container() -> JsonObject:
    return {"name": "grove-initc", "image": "i", "args": [f"--podcliques={LEADER}:1"]}


async def _report_pods(client: Client) -> None:
    for numbers in batched(WAITERS, WRITERS):
        names = [_pod_name(number) for number in numbers]
        await asyncio.gather(*(_patch_status(client, PODS, name, _RUNS) for name in names))


async def _patch_status(client: Client, kind: Resource[Any], name: str, status: JsonObject) -> None:
    await client.patch(kind, "default", name, {"status": status}, subresource="status")


# --- bare connections ------------------------------------------------------------------------------------------------


class Waiter:
    """A connection that lists and watches, and counts what arrives until it shows a leader that is ready."""

    def __init__(self, costs: Costs, access: Access, kind: Resource[Any]) -> None:
        self.events = 0
        self._costs = costs
        self._access = access
        self._kind = kind
        # What the last event looks like.
        self._sign = b'"readyReplicas":1' if kind is PODCLIQUES else b'"type":"Ready","status":"True"'
        self._tls = _tls_of(access)

    async def open(self) -> None:
        url = urlsplit(self._access.server)
        self._reader, self._writer = await asyncio.open_connection(url.hostname, url.port, ssl=self._tls)
        path = f"{self._kind.path('default')}?labelSelector={quote(SELECTOR)}"
        head = await self._send(path)
        found = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
        assert found is not None, head
        body = await self._reader.readexactly(int(found[1]))
        self._costs.sent_bytes += len(body)
        version = re.search(rb'"resourceVersion":"(\d+)"', body[:300]) or re.search(rb'"resourceVersion":"(\d+)"', body)
        assert version is not None
        await self._send(f"{path}&watch=true&allowWatchBookmarks=true&resourceVersion={version[1].decode()}")

    async def _send(self, path: str) -> bytes:
        self._costs.requests += 1
        lines = (f"GET {path} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {self._access.token}", "", "")
        self._writer.write("\r\n".join(lines).encode())
        head = await self._reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        return head

    async def follow(self) -> None:
        tail = b""
        while self._sign not in tail:
            data = await self._reader.read(1 << 16)
            assert data, "the watch ended"
            self._costs.sent_bytes += len(data)
            events = data.count(b'{"type":"MODIFIED"')
            self.events += events
            self._costs.events += events
            tail = tail[-200:] + data
        self._writer.transport.abort()


def _tls_of(access: Access) -> ssl.SSLContext:
    assert access.certificate_authority is not None
    return ssl.create_default_context(cadata=access.certificate_authority.decode())


# --- processes -------------------------------------------------------------------------------------------------------


async def _start_process(command: Sequence[str], kubeconfig: Path, costs: Costs) -> asyncio.subprocess.Process:
    """Start one and wait for its first line. One at a time: they are measured."""
    started = time.perf_counter()
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    process = await asyncio.create_subprocess_exec(*command, env=environment, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    line = await process.stdout.readline()
    assert line.startswith(b"waiting for"), line
    costs.process_starts.append(time.perf_counter() - started)
    return process


def _weigh(pid: int, costs: Costs) -> None:
    """Add CPU and peak memory of a process that has waited."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    costs.process_cpu.append((int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"))
    peak = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert peak is not None
    costs.process_peaks.append(int(peak[1]) * 1024 / 1e6)


if __name__ == "__main__":
    show(f"{WAITERS} pods that wait for a leader", measure())

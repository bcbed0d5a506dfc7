"""A real control plane to measure on: nodes, the operator in a process of its own, and what is seen of both."""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from bench.http import GROVE
from bench.table import Row
from grove.api.resources import GROUPS, PODCLIQUES, PODCLIQUESETS, PODGANGS, PODS, SERVICES, Resource
from grove.api.types.pod import Pod
from grove.api.types.podcliqueset import PodCliqueSet
from grove.clock import Clock
from grove.kube.client import Client
from grove.kube.http_transport import HttpTransport
from grove.kube.reflector import Reflector
from grove.kube.store import Store
from grove.kube.transport import MERGE_PATCH, Request
from tests.kube.controlplane.nodes import running_nodes
from tests.kube.controlplane.plane import NO_GANGS, Gangs, Plane, running_plane

LONGEST_SECONDS = 300.0
CRDS = Path(__file__).parent.parent / "src/grove/api/schema/crd_yaml"
OURS = "app.kubernetes.io/managed-by=grove-operator"
OPERATOR = "system:serviceaccount:default:bench"


@contextmanager
def measured_plane(nodes: int, gangs: Gangs = NO_GANGS) -> Iterator[tuple[Plane, Path]]:
    """A control plane with our kinds and simulated nodes, and the kubeconfig of the operator's account."""
    with (
        tempfile.TemporaryDirectory(prefix="grove-bench-") as folder,
        running_plane(Path(folder), gangs=gangs) as plane,
    ):
        plane.kubectl("apply", "--server-side", "-f", str(CRDS))
        plane.kubectl("wait", "crd", "--all", "--for=condition=Established", "--timeout=30s")
        kubeconfig = _account(plane)
        with running_nodes(plane.kubeconfig, nodes):
            yield plane, kubeconfig


# --- what is seen ----------------------------------------------------------------------------------------------------


class Seen:
    """Pods and sets of the cluster as a watch tells, and what a user does."""

    def __init__(self, transport: HttpTransport, clock: Clock) -> None:
        self.clock = clock
        self.client = Client(transport, clock)
        self.pods: Store[Pod] = Store()
        self.sets: Store[PodCliqueSet] = Store()
        self.bound_count = 0
        self.ready_count = 0
        self._transport = transport
        self._changed = asyncio.Event()
        self.pods.subscribe(self._count)
        self.sets.subscribe(lambda *_: self._changed.set())
        self.reflectors = (
            Reflector(self.client, PODS, self.pods, clock, Random(1)),
            Reflector(self.client, PODCLIQUESETS, self.sets, clock, Random(2)),
        )

    def _count(self, old: Pod | None, new: Pod | None) -> None:
        self.bound_count += bool(new and new.spec.node_name) - bool(old and old.spec.node_name)
        self.ready_count += (new is not None and new.is_ready) - (old is not None and old.is_ready)
        self._changed.set()

    def available(self, name: str) -> int:
        pcs = self.sets.by_name("default", name)
        return -1 if pcs is None else pcs.status.available_replicas

    async def seconds_until(self, holds: Callable[[], bool], started: float) -> float:
        async with asyncio.timeout(LONGEST_SECONDS):
            while not holds():
                self._changed.clear()
                await self._changed.wait()
        return time.perf_counter() - started

    async def scale(self, name: str, replicas: int) -> None:
        body = msgspec.json.encode({"spec": {"replicas": replicas}})
        path = PODCLIQUESETS.path("default", name, "scale")
        response = await self._transport.send(Request(method="PATCH", path=path, body=body, content_type=MERGE_PATCH))
        assert response.status == 200, response.body

    async def left(self) -> int:
        children: tuple[Resource[Any], ...] = (PODS, PODCLIQUES, GROUPS, PODGANGS, SERVICES)
        found = [len((await self.client.list(kind, label_selector=OURS)).items) for kind in children]
        return sum(found) + len((await self.client.list(PODCLIQUESETS)).items)


@asynccontextmanager
async def watched(transport: HttpTransport, clock: Clock) -> AsyncIterator[Seen]:
    seen = Seen(transport, clock)
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(reflector.run()) for reflector in seen.reflectors]
        for reflector in seen.reflectors:
            await reflector.listed.wait()
        yield seen
        for task in running:
            task.cancel()


class _Entry(msgspec.Struct, rename="camel"):
    """One line of an audit log, as far as we count it."""

    verb: str
    user: dict[str, object]
    user_agent: str = ""
    object_ref: dict[str, str] = {}


class Audit:
    """Requests of the operator since `forget`, by verb and kind, as the API server saw them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def forget(self) -> None:
        self._offset = self._path.stat().st_size

    def counts(self) -> Counter[str]:
        return Counter(_kind_of(entry) for entry in self._entries() if entry.user.get("username") == OPERATOR)

    def counts_of_scheduler(self) -> Counter[str]:
        return Counter(_kind_of(entry) for entry in self._entries() if entry.user_agent.startswith("kube-scheduler/"))

    def _entries(self) -> list[_Entry]:
        # The server writes its log about a second late.
        time.sleep(2.5)
        with self._path.open("rb") as file:
            file.seek(self._offset)
            entries = [msgspec.json.decode(line, type=_Entry) for line in file]
        return [entry for entry in entries if entry.verb != "watch"]

    def table(self, pods: int) -> Sequence[Row]:
        found = self.counts()
        rows = [Row(what, f"{number / pods:.3f}", "per pod") for what, number in found.most_common()]
        without_events = sum(number for what, number in found.items() if not what.endswith("events"))
        return [
            *rows,
            Row("all", f"{sum(found.values()) / pods:.2f}", f"per pod; {without_events / pods:.2f} without events"),
        ]


def _kind_of(entry: _Entry) -> str:
    kind = [entry.object_ref[key] for key in ("resource", "subresource") if entry.object_ref.get(key)]
    return f"{entry.verb} {'/'.join(kind)}"


# --- processes -------------------------------------------------------------------------------------------------------


def _account(plane: Plane) -> Path:
    """A service account of its own, so that the audit log tells the operator's requests from all others."""
    plane.kubectl("create", "serviceaccount", "bench")
    plane.kubectl(
        "create", "clusterrolebinding", "bench", "--clusterrole=cluster-admin", "--serviceaccount=default:bench"
    )
    token = plane.kubectl("create", "token", "bench", "--duration=24h").strip()
    return plane.kubeconfig_for(token, "bench")


@contextmanager
def running_operator(kubeconfig: Path) -> Iterator[subprocess.Popen[bytes]]:
    log = kubeconfig.with_name("operator.log")
    with log.open("wb") as file:
        process = subprocess.Popen([str(GROVE), "operator", "--kubeconfig", str(kubeconfig)], stdout=file, stderr=file)
    try:
        yield process
    except BaseException:
        sys.stderr.write(log.read_text()[-3000:])
        raise
    finally:
        process.terminate()
        process.wait()


def cpu_seconds(process: subprocess.Popen[bytes]) -> float:
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_memory(process: subprocess.Popen[bytes]) -> int:
    """In kilobytes."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])

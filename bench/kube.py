"""The operator on a real control plane: `python -m bench.kube`. Needs `make kube`.

One control plane, 100 simulated nodes, one `grove operator` in a process of its own. The ceiling is a plain client that
creates the same number of gated pods in the same run: what this machine's API server can take.
"""

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

from bench.http import GROVE, pod
from bench.table import Row, show
from bench.worlds import flat_set
from grove.api.labels import GATE
from grove.api.meta import JsonObject
from grove.api.pod import Pod
from grove.api.podcliqueset import PodCliqueSet
from grove.api.resources import GROUPS, PODCLIQUES, PODCLIQUESETS, PODGANGS, PODS, SERVICES, Resource
from grove.clock import Clock, LoopClock
from grove.kube.cache import Store
from grove.kube.client import Client
from grove.kube.config import find_access
from grove.kube.http import HttpTransport
from grove.kube.transport import MERGE_PATCH, Request
from grove.kube.watch import Reflector
from tests.kube.controlplane.nodes import running_nodes
from tests.kube.controlplane.plane import Plane, running_plane

NODES = 100
CONNECTIONS = 64
PODS_TOTAL = 1000
IDLE_SECONDS = 30.0
LONGEST_SECONDS = 300.0
CRDS = Path(__file__).parent.parent / "src/grove/api/crd_yaml"
OURS = "app.kubernetes.io/managed-by=grove-operator"
OPERATOR = "system:serviceaccount:default:bench"


def measure() -> Sequence[tuple[str, Sequence[Row]]]:
    with tempfile.TemporaryDirectory(prefix="grove-bench-") as folder, running_plane(Path(folder)) as plane:
        plane.kubectl("apply", "--server-side", "-f", str(CRDS))
        plane.kubectl("wait", "crd", "--all", "--for=condition=Established", "--timeout=30s")
        kubeconfig = _account(plane)
        with running_nodes(plane.kubeconfig, NODES):
            return asyncio.run(_measure(plane, kubeconfig))


async def _measure(plane: Plane, kubeconfig: Path) -> Sequence[tuple[str, Sequence[Row]]]:
    clock = LoopClock.starting_now()
    async with HttpTransport(find_access({}, kubeconfig=plane.kubeconfig), clock) as transport:
        ceiling = await _measure_ceiling(transport, clock)
        rows = [
            Row(f"ceiling, {CONNECTIONS} connections", f"{PODS_TOTAL / ceiling:,.0f}/s", "gated pods, plain client")
        ]
        with _operator(kubeconfig) as process:
            async with _watched(transport, clock) as seen:
                audit = _Audit(plane.audit_log)
                rows += await _measure_large(seen, audit, process, ceiling)
                requests = audit.table(PODS_TOTAL)
                rows += await _measure_scaling(seen)
                rows += await _measure_deletion(seen, "large")
                rows += await _measure_group(seen)
                rows += await _measure_small(seen)
                rows += await _measure_idle(seen, audit)
                rows.append(
                    Row("operator's peak memory", f"{_peak_memory(process) / 1024:,.0f} MB", "of the whole run")
                )
    return [("On a real control plane", rows), ("Requests of the operator, 1,000 pods", requests)]


# --- the figures -----------------------------------------------------------------------------------------------------


async def _measure_ceiling(transport: HttpTransport, clock: Clock) -> float:
    numbers = iter(range(PODS_TOTAL))

    async def work() -> None:
        for number in numbers:
            gated = pod(f"ceiling-{number}")
            gated["spec"]["schedulingGates"] = [{"name": GATE}]
            body = msgspec.json.encode(gated)
            response = await transport.send(Request(method="POST", path=PODS.path("default"), body=body))
            assert response.status == 201, response.body

    started = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(CONNECTIONS)))
    took = time.perf_counter() - started
    client = Client(transport, clock)
    await client.delete_collection(PODS, "default", label_selector="app=bench")
    while (await client.list(PODS)).items:
        await clock.sleep(0.2)
    return took


async def _measure_large(
    seen: "_Seen", audit: "_Audit", process: subprocess.Popen[bytes], ceiling: float
) -> Sequence[Row]:
    audit.forget()
    cpu = _cpu_seconds(process)
    started = time.perf_counter()
    await seen.client.create(PODCLIQUESETS, "default", flat_set("large", replicas=500, cliques=1, pods=2))
    created = await seen.seconds_until(lambda: len(seen.pods) == PODS_TOTAL, started)
    ready = await seen.seconds_until(lambda: seen.ready_count == PODS_TOTAL, started)
    available = await seen.seconds_until(lambda: seen.available("large") == 500, started)
    cpu = _cpu_seconds(process) - cpu
    return [
        Row("500 x 1 x 2 pods: created", f"{created:.2f} s", f"{ceiling / created:.0%} of the ceiling's rate"),
        Row("500 x 1 x 2 pods: ready", f"{ready:.2f} s"),
        Row("500 x 1 x 2 pods: available", f"{available:.2f} s"),
        Row("operator's CPU", f"{cpu:.2f} s", "of the operator, until available"),
    ]


async def _measure_scaling(seen: "_Seen") -> Sequence[Row]:
    started = time.perf_counter()
    await seen.scale("large", 250)
    smaller = await seen.seconds_until(lambda: len(seen.pods) == 500 and seen.available("large") == 250, started)
    started = time.perf_counter()
    await seen.scale("large", 500)
    larger = await seen.seconds_until(lambda: seen.available("large") == 500, started)
    return [
        Row("500 -> 250 replicas", f"{smaller:.2f} s", "pods gone, status true"),
        Row("250 -> 500 replicas", f"{larger:.2f} s", "available"),
    ]


async def _measure_deletion(seen: "_Seen", name: str) -> Sequence[Row]:
    started = time.perf_counter()
    await seen.client.delete(PODCLIQUESETS, "default", name)
    pods = await seen.seconds_until(lambda: not len(seen.pods), started)
    while await seen.left():
        await seen.clock.sleep(0.05)
    return [Row("deletion to nothing left", f"{time.perf_counter() - started:.2f} s", f"pods gone after {pods:.2f} s")]


async def _measure_group(seen: "_Seen") -> Sequence[Row]:
    started = time.perf_counter()
    await seen.client.create(PODCLIQUESETS, "default", _grouped_set("grouped", replicas=100, workers=4))
    await seen.seconds_until(lambda: seen.ready_count == 500, started)
    took = await seen.seconds_until(lambda: seen.available("grouped") == 1, started)
    await _measure_deletion(seen, "grouped")
    return [Row("a group of 100 x (1 + 4) pods", f"{took:.2f} s", "ready and available")]


async def _measure_small(seen: "_Seen") -> Sequence[Row]:
    times = []
    for number in range(5):
        started = time.perf_counter()
        await seen.client.create(PODCLIQUESETS, "default", flat_set(f"small-{number}", replicas=1, cliques=2, pods=5))
        times.append(await seen.seconds_until(lambda: seen.ready_count == 10, started))
        if number < 4:
            await _measure_deletion(seen, f"small-{number}")
    times.sort()
    return [Row("10 pods: ready", f"{times[2]:.2f} s", f"median of 5, fastest {times[0]:.2f} s")]


async def _measure_idle(seen: "_Seen", audit: "_Audit") -> Sequence[Row]:
    await seen.clock.sleep(5.0)
    audit.forget()
    patch = {"metadata": {"annotations": {"touched": "yes"}}}
    await seen.client.patch(PODCLIQUESETS, "default", "small-4", patch)
    await seen.clock.sleep(IDLE_SECONDS)
    found = audit.counts()
    what = ", ".join(f"{number} x {request}" for request, number in found.items()) or "nothing"
    return [Row("requests after a touched annotation", f"{sum(found.values())}", f"in {IDLE_SECONDS:g} s: {what}")]


# --- what is seen ----------------------------------------------------------------------------------------------------


class _Seen:
    """Pods and sets of the cluster as a watch tells, and what a user does."""

    def __init__(self, transport: HttpTransport, clock: Clock) -> None:
        self.clock = clock
        self.client = Client(transport, clock)
        self.pods: Store[Pod] = Store()
        self.sets: Store[PodCliqueSet] = Store()
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
async def _watched(transport: HttpTransport, clock: Clock) -> AsyncIterator[_Seen]:
    seen = _Seen(transport, clock)
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
    object_ref: dict[str, str] = {}


class _Audit:
    """Requests of the operator since `forget`, by verb and kind, as the API server saw them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def forget(self) -> None:
        self._offset = self._path.stat().st_size

    def counts(self) -> Counter[str]:
        # The server writes its log about a second late.
        time.sleep(2.5)
        with self._path.open("rb") as file:
            file.seek(self._offset)
            entries = [msgspec.json.decode(line, type=_Entry) for line in file]
        ours = (e for e in entries if e.user.get("username") == OPERATOR and e.verb != "watch")
        return Counter(f"{e.verb} {'/'.join(_present(e.object_ref))}" for e in ours)

    def table(self, pods: int) -> Sequence[Row]:
        found = self.counts()
        rows = [Row(what, f"{number / pods:.3f}", "per pod") for what, number in found.most_common()]
        without_events = sum(number for what, number in found.items() if not what.endswith("events"))
        return [
            *rows,
            Row("all", f"{sum(found.values()) / pods:.2f}", f"per pod; {without_events / pods:.2f} without events"),
        ]


def _present(reference: dict[str, str]) -> list[str]:
    return [reference[key] for key in ("resource", "subresource") if reference.get(key)]


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
def _operator(kubeconfig: Path) -> Iterator[subprocess.Popen[bytes]]:
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


def _cpu_seconds(process: subprocess.Popen[bytes]) -> float:
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _peak_memory(process: subprocess.Popen[bytes]) -> int:
    """In kilobytes."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])


def _grouped_set(name: str, *, replicas: int, workers: int) -> JsonObject:
    manifest = flat_set(name, replicas=1, cliques=2, pods=1)
    template = manifest["spec"]["template"]
    template["cliques"][1]["spec"] |= {"replicas": workers, "minAvailable": workers}
    group = {"name": "g", "cliqueNames": ["c0", "c1"], "replicas": replicas, "minAvailable": 1}
    template["podCliqueScalingGroups"] = [group]
    return manifest


def main() -> None:
    for title, rows in measure():
        show(title, rows)


if __name__ == "__main__":
    main()

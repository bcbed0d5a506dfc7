"""The operator on a real control plane: `python -m bench.kube`. Needs `make kube`.

One control plane, 100 simulated nodes, one `grove operator` in a process of its own. The ceiling is a plain client that
creates the same number of gated pods in the same run: what this machine's API server can take.
"""

import asyncio
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from bench.http import pod
from bench.plane import Audit, Seen, cpu_seconds, measured_plane, peak_memory, running_operator, watched
from bench.table import Row, show
from bench.worlds import flat_set
from grove.api.labels import GATE
from grove.api.resources import PODCLIQUESETS, PODS
from grove.api.types.meta import JsonObject
from grove.clock import Clock, LoopClock
from grove.kube.client import Client
from grove.kube.http_transport import HttpTransport
from grove.kube.kubeconfig import find_access
from grove.kube.transport import Request
from tests.kube.controlplane.plane import Plane

NODES = 100
CONNECTIONS = 64
PODS_TOTAL = 1000
IDLE_SECONDS = 30.0


def measure() -> Sequence[tuple[str, Sequence[Row]]]:
    with measured_plane(NODES) as (plane, kubeconfig):
        return asyncio.run(_measure(plane, kubeconfig))


async def _measure(plane: Plane, kubeconfig: Path) -> Sequence[tuple[str, Sequence[Row]]]:
    clock = LoopClock.starting_now()
    async with HttpTransport(find_access({}, kubeconfig=plane.kubeconfig), clock) as transport:
        ceiling = await _measure_ceiling(transport, clock)
        rows = [
            Row(f"ceiling, {CONNECTIONS} connections", f"{PODS_TOTAL / ceiling:,.0f}/s", "gated pods, plain client")
        ]
        with running_operator(kubeconfig) as process:
            async with watched(transport, clock) as seen:
                audit = Audit(plane.audit_log)
                await _warm_up(seen)
                rows += await _measure_large(seen, audit, process, ceiling)
                requests = audit.table(PODS_TOTAL)
                rows += await _measure_scaling(seen)
                rows += await _measure_idle(seen, audit, "large")
                rows += await _measure_deletion(seen, "large")
                rows += await _measure_group(seen)
                rows += await _measure_small(seen)
                rows.append(Row("operator's peak memory", f"{peak_memory(process) / 1024:,.0f} MB", "of the whole run"))
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


async def _warm_up(seen: Seen) -> None:
    """Until the operator works: how long it takes to start is another question."""
    await seen.client.create(PODCLIQUESETS, "default", flat_set("first", replicas=1, cliques=1, pods=1))
    await seen.seconds_until(lambda: seen.available("first") == 1, time.perf_counter())
    await _measure_deletion(seen, "first")


async def _measure_large(seen: Seen, audit: Audit, process: subprocess.Popen[bytes], ceiling: float) -> Sequence[Row]:
    audit.forget()
    cpu = cpu_seconds(process)
    started = time.perf_counter()
    await seen.client.create(PODCLIQUESETS, "default", flat_set("large", replicas=500, cliques=1, pods=2))
    created = await seen.seconds_until(lambda: len(seen.pods) == PODS_TOTAL, started)
    ready = await seen.seconds_until(lambda: seen.ready_count == PODS_TOTAL, started)
    available = await seen.seconds_until(lambda: seen.available("large") == 500, started)
    cpu = cpu_seconds(process) - cpu
    return [
        Row("500 x 1 x 2 pods: created", f"{created:.2f} s", f"{ceiling / created:.0%} of the ceiling's rate"),
        Row("500 x 1 x 2 pods: ready", f"{ready:.2f} s"),
        Row("500 x 1 x 2 pods: available", f"{available:.2f} s"),
        Row("operator's CPU", f"{cpu:.2f} s", "of the operator, until available"),
    ]


async def _measure_scaling(seen: Seen) -> Sequence[Row]:
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


async def _measure_deletion(seen: Seen, name: str) -> Sequence[Row]:
    started = time.perf_counter()
    await seen.client.delete(PODCLIQUESETS, "default", name)
    pods = await seen.seconds_until(lambda: not len(seen.pods), started)
    while await seen.left():
        await seen.clock.sleep(0.05)
    return [Row("deletion to nothing left", f"{time.perf_counter() - started:.2f} s", f"pods gone after {pods:.2f} s")]


async def _measure_group(seen: Seen) -> Sequence[Row]:
    started = time.perf_counter()
    await seen.client.create(PODCLIQUESETS, "default", _grouped_set("grouped", replicas=100, workers=4))
    await seen.seconds_until(lambda: seen.ready_count == 500, started)
    took = await seen.seconds_until(lambda: seen.available("grouped") == 1, started)
    await _measure_deletion(seen, "grouped")
    return [Row("a group of 100 x (1 + 4) pods", f"{took:.2f} s", "ready and available")]


async def _measure_small(seen: Seen) -> Sequence[Row]:
    times = []
    for number in range(5):
        started = time.perf_counter()
        await seen.client.create(PODCLIQUESETS, "default", flat_set(f"small-{number}", replicas=1, cliques=2, pods=5))
        times.append(await seen.seconds_until(lambda: seen.ready_count == 10, started))
        if number < 4:
            await _measure_deletion(seen, f"small-{number}")
    times.sort()
    return [Row("10 pods: ready", f"{times[2]:.2f} s", f"median of 5, fastest {times[0]:.2f} s")]


async def _measure_idle(seen: Seen, audit: Audit, name: str) -> Sequence[Row]:
    await seen.clock.sleep(5.0)
    audit.forget()
    patch = {"metadata": {"annotations": {"touched": "yes"}}}
    await seen.client.patch(PODCLIQUESETS, "default", name, patch)
    await seen.clock.sleep(IDLE_SECONDS)
    found = audit.counts()
    what = ", ".join(f"{number} x {request}" for request, number in found.items()) or "nothing"
    return [Row("requests after a touched annotation", f"{sum(found.values())}", f"in {IDLE_SECONDS:g} s: {what}")]


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

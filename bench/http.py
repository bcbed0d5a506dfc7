"""The API over HTTP, from another process: creates, a long list, watches, and how long `grove up` takes to start.

Next to a bare aiohttp server that echoes, over TLS too, asked by the same client in the same run: the client is a part
of every figure. `python -m bench.http echo PATH` is that server.
"""

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from pathlib import Path
from statistics import median

import msgspec
from aiohttp import web

from bench.table import Row, show
from grove.api.resources import PODS
from grove.api.types.meta import JsonObject
from grove.clock import LoopClock
from grove.cluster.http.kubeconfig_writer import write_kubeconfig
from grove.cluster.http.loopback_certificates import make_certificates
from grove.kube.client import Client
from grove.kube.http_transport import HttpTransport
from grove.kube.kubeconfig import Access, find_access
from grove.kube.transport import Request

CONNECTIONS = 64
OBJECTS = 10_000
WATCHERS = 20
WATCHED = 1_000
WRITERS = 16
STARTS = 5
GROVE = Path(sys.executable).with_name("grove")


def measure() -> Sequence[Row]:
    with tempfile.TemporaryDirectory(prefix="grove-bench-") as folder:
        echo, creates, listing, fan_out = asyncio.run(_measure_requests(Path(folder)))
        starts = [_measure_start(Path(folder)) for _ in range(STARTS)]
    return [
        Row(f"echo, {CONNECTIONS} connections", f"{echo:,.0f}/s", "bare aiohttp, the pod as body"),
        Row(
            f"creates, {CONNECTIONS} connections",
            f"{creates:,.0f}/s",
            f"{OBJECTS:,} pods; {creates / echo:.0%} of echo",
        ),
        *listing,
        Row(f"watch fan-out to {WATCHERS}", f"{fan_out:,.0f} events/s", f"{WATCHED:,} creates seen by every watcher"),
        Row("grove up to /readyz", f"{median(starts):.2f} s", f"median of {STARTS}, fastest {min(starts):.2f} s"),
    ]


def pod(name: str) -> JsonObject:
    """A pod that nobody schedules."""
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "100m", "memory": "80Mi"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "bench", "part": name}},
        "spec": {"schedulerName": "nobody", "containers": [container]},
    }


async def _measure_requests(folder: Path) -> tuple[float, float, list[Row], float]:
    path = PODS.path("default")
    with running(sys.executable, "-m", "bench.http", "echo", str(folder / "echo")):
        async with connected(folder / "echo") as transport:
            echo = await requests_per_second(transport, path)
    with running(str(GROVE), "up", "--nodes", "0", "--no-operator", "--kubeconfig", str(folder / "grove")):
        async with connected(folder / "grove") as transport:
            creates = await requests_per_second(transport, path)
            listing = [await _list(transport, 500), await _list(transport, OBJECTS)]
            fan_out = await _fan_out(transport)
    return echo, creates, listing, fan_out


async def requests_per_second(transport: HttpTransport, path: str) -> float:
    """Creates of pods, by all connections."""
    numbers = iter(range(OBJECTS))

    async def work() -> None:
        for number in numbers:
            body = msgspec.json.encode(pod(f"pod-{number}"))
            response = await transport.send(Request(method="POST", path=path, body=body))
            assert response.status < 300, response.body

    started = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(CONNECTIONS)))
    return OBJECTS / (time.perf_counter() - started)


async def _list(transport: HttpTransport, page_size: int) -> Row:
    client = Client(transport, LoopClock.starting_now())
    started = time.perf_counter()
    listing = await client.list(PODS, page_size=page_size)
    took = time.perf_counter() - started
    assert len(listing.items) == OBJECTS
    return Row(f"LIST of {OBJECTS:,} pods", f"{took * 1000:,.0f} ms", f"pages of {page_size:,}, decoded")


async def _fan_out(transport: HttpTransport) -> float:
    client = Client(transport, LoopClock.starting_now())
    version = (await client.list(PODS)).resource_version
    is_open = asyncio.Barrier(WATCHERS + 1)

    async def watch() -> None:
        async with client.watch(PODS, resource_version=version, timeout_seconds=300) as events:
            await is_open.wait()
            seen = count(1)
            async for _ in events:
                if next(seen) == WATCHED:
                    return

    async with asyncio.TaskGroup() as tasks:
        watchers = [tasks.create_task(watch()) for _ in range(WATCHERS)]
        await is_open.wait()
        started = time.perf_counter()
        for batch in batched(WATCHED, WRITERS):
            await asyncio.gather(*(client.create(PODS, "default", pod(f"watched-{number}")) for number in batch))
        await asyncio.wait(watchers)
        return WATCHED * WATCHERS / (time.perf_counter() - started)


def batched(total: int, size: int) -> Iterator[range]:
    for start in range(0, total, size):
        yield range(start, min(start + size, total))


def _measure_start(folder: Path) -> float:
    kubeconfig = folder / "start"
    started = time.perf_counter()
    with running(str(GROVE), "up", "--kubeconfig", str(kubeconfig)):

        async def ready() -> float:
            async with connected(kubeconfig) as transport:
                response = await transport.send(Request(method="GET", path="/readyz"))
                assert response.status == 200
                return time.perf_counter() - started

        return asyncio.run(ready())


@contextmanager
def running(*command: str) -> Iterator[None]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


@asynccontextmanager
async def connected(kubeconfig: Path) -> AsyncIterator[HttpTransport]:
    """Once the kubeconfig is there: it is written when the server answers."""
    clock = LoopClock.starting_now()
    while (access := _access(kubeconfig)) is None:
        await clock.sleep(0.005)
    async with HttpTransport(access, clock) as transport:
        yield transport


def _access(kubeconfig: Path) -> Access | None:
    return find_access({}, kubeconfig=kubeconfig) if kubeconfig.exists() else None


# --- the bare server -------------------------------------------------------------------------------------------------


async def _echo(request: web.BaseRequest) -> web.Response:
    return web.Response(status=201, body=await request.read(), content_type="application/json")


async def _serve_echo(kubeconfig: Path) -> None:
    clock = LoopClock.starting_now()
    certificates = make_certificates(clock.now())
    runner = web.ServerRunner(web.Server(_echo, access_log=None))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=certificates.server_context(), backlog=1024)
    await site.start()
    url = f"https://127.0.0.1:{runner.addresses[0][1]}"
    write_kubeconfig(kubeconfig, url=url, ca=certificates.ca, token="none")
    await asyncio.Event().wait()


if __name__ == "__main__":
    if sys.argv[1:2] == ["echo"]:
        asyncio.run(_serve_echo(Path(sys.argv[2])))
    else:
        show("The API over HTTP", measure())

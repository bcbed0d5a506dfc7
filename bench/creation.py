"""From nothing to ready: time for 1,000 and 10,000 pods, where it goes, writes and memory per pod.

Everything runs in one process on one core: API server, scheduler, kubelet and operator. Time is CPU time.
"""

import cProfile
import gc
import pstats
import tracemalloc
from collections import Counter
from time import process_time

from bench.table import Row
from bench.worlds import BenchWorld, flat_set, rare_collections
from grove.sim.virtual_clock import run_virtual

_ROOMS = ("planner", "controller", "kube", "placement", "cluster", "sim", "api", "admission")


def measure() -> list[Row]:
    with rare_collections():
        _creation_seconds(20)
        small = _creation_seconds(100)
        large = _creation_seconds(1000)
    return [
        Row("1,000 pods ready (100 x 2 x 5)", f"{small:.2f} s", f"{1000 / small:.0f} pods/s"),
        Row("10,000 pods ready (1,000 x 2 x 5)", f"{large:.2f} s", f"{10_000 / large:.0f} pods/s; aim: 1,000"),
        Row("ratio", f"{large / small:.1f} x", "aim: at most 12 x"),
    ]


def measure_rooms() -> list[Row]:
    """Where the time goes, by the room whose code was running (own time; libraries are counted apart)."""
    profile = cProfile.Profile()
    profile.runcall(_creation_seconds, 100)
    seconds: Counter[str] = Counter()
    for (file, _, _), (_, _, own, _, _) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        seconds[_room_of(file)] += own
    total = sum(seconds.values())
    return [Row(room, f"{100 * share / total:.0f} %") for room, share in seconds.most_common()]


def _room_of(file: str) -> str:
    for room in _ROOMS:
        if f"/grove/{room}/" in file:
            return room
    return "asyncio" if "asyncio" in file else "JSON, built-ins and other libraries"


def _creation_seconds(replicas: int) -> float:
    async def run() -> float:
        async with BenchWorld() as world:
            start = process_time()
            await world.run_to_ready(flat_set("big", replicas=replicas, cliques=2, pods=5), replicas * 10)
            return process_time() - start

    return run_virtual(run())


def measure_writes() -> list[Row]:
    """The operator's own writes per pod; events are not counted."""

    async def run() -> float:
        async with BenchWorld() as world:
            await world.run_to_ready(flat_set("big", replicas=500, cliques=1, pods=2), 1000)
            own = [write for write in world.writes_by("operator") if write.target.resource != "events"]
            return len(own) / 1000

    return [Row("operator writes per pod (500 x 1 x 2)", f"{run_virtual(run()):.2f}", "aim: at most 5")]


def measure_memory() -> list[Row]:
    """What caches and views of the operator hold per pod, in a set of 10,000."""

    async def run() -> float:
        async with BenchWorld() as world:
            await world.run_to_ready(flat_set("big", replicas=1000, cliques=2, pods=5), 10_000)
            gc.collect()
            tracemalloc.start()
            await world.restart_controller()
            await world.settle()
            gc.collect()
            held, _ = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            return held / 10_000 / 1000

    return [Row("operator memory per pod (caches, views, plans)", f"{run_virtual(run()):.1f} KB", "aim: at most 20 KB")]

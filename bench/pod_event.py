"""What one pod event costs the operator, in a small set and in one a hundred times larger."""

from statistics import median
from time import perf_counter_ns

import msgspec

from bench.table import Row
from bench.worlds import BenchWorld, flat_set
from grove.api.types.meta import Condition, find_condition
from grove.api.types.pod import Pod
from grove.kube.response_decoding import Modified
from grove.planner.plan import plan
from grove.planner.plan_cache import PlanCache
from grove.sim.virtual_clock import run_virtual

SMALL, LARGE, EVENTS = 15, 1500, 300


class Cost(msgspec.Struct, frozen=True):
    microseconds: float
    touched: float


def measure() -> list[Row]:
    small, large = (run_virtual(_cost(replicas)) for replicas in (SMALL, LARGE))
    ratio = large.microseconds / small.microseconds
    return [
        Row("pod event, set of 150 pods", f"{small.microseconds:.0f} us", f"{small.touched:.0f} objects touched"),
        Row("pod event, set of 15,000 pods", f"{large.microseconds:.0f} us", f"{large.touched:.0f} objects touched"),
        Row("ratio", f"{ratio:.1f} x", "aim: at most 3 x"),
    ]


async def _cost(replicas: int) -> Cost:
    """From the watch event in the cache to a finished plan: the part that could grow with the set."""
    async with BenchWorld() as world:
        await world.run_to_ready(flat_set("big", replicas=replicas, cliques=2, pods=5), replicas * 10)
        await world.crash_controller()
        controller, now = world.controller, world.clock.now()
        (pcs,) = controller.caches.sets.values()
        pods = list(controller.caches.pods.values())
        cache, version = PlanCache(), world.server.store.revision
        nanoseconds: list[int] = []
        touched_before = 0
        for number in range(-20, EVENTS):
            version += 1
            event = Modified(object=_flipped(pods[number * 7919 % len(pods)], version))
            if number == 0:
                touched_before = controller.observer.touched_count
            start = perf_counter_ns()
            controller.caches.pods.apply(event)
            snapshot = controller.observer.snapshot(pcs.metadata.uid)
            assert snapshot is not None
            plan(snapshot, now, cache)
            nanoseconds.append(perf_counter_ns() - start)
        touched = controller.observer.touched_count - touched_before
        return Cost(median(nanoseconds[20:]) / 1000, touched / EVENTS)


def _flipped(pod: Pod, version: int) -> Pod:
    """The pod with its readiness turned round."""
    ready = find_condition(pod.status.conditions, "Ready")
    assert ready is not None
    flipped = Condition(type="Ready", status="False" if ready.status == "True" else "True")
    others = tuple(condition for condition in pod.status.conditions if condition.type != "Ready")
    status = msgspec.structs.replace(pod.status, conditions=(*others, flipped))
    metadata = msgspec.structs.replace(pod.metadata, resource_version=str(version))
    return msgspec.structs.replace(pod, metadata=metadata, status=status)

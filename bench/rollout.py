"""A rolling update: on a real control plane (`python -m bench.rollout`, needs `make kube`), and in process.

On the real one every pod of 20 replicas is replaced, one after the other, and turns ready at once: what is measured is
the chain of events. In process the question is whether a late step costs more than an early one.
"""

import asyncio
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import process_time

import msgspec

from bench.plane import Audit, Seen, cpu_seconds, measured_plane, running_operator, watched
from bench.table import Row, show
from bench.worlds import BenchWorld, flat_set, rare_collections
from grove.api.resources import PODCLIQUESETS
from grove.api.types.meta import JsonObject, Uid
from grove.api.types.pod import Pod
from grove.clock import LoopClock
from grove.cluster.storage.store import Change
from grove.kube.http_transport import HttpTransport
from grove.kube.kubeconfig import find_access
from grove.sim.virtual_clock import run_virtual
from tests.kube.controlplane.plane import Plane

NODES = 100
REPLICAS = 20
REPLACED = REPLICAS * 2
# In process: replicas, and the steps between which is counted.
LARGE = 500
EARLY, LATE = (50, 150), (850, 950)


# --- on a real control plane -----------------------------------------------------------------------------------------


def measure() -> Sequence[tuple[str, Sequence[Row]]]:
    with measured_plane(NODES) as (plane, kubeconfig):
        return asyncio.run(_measure(plane, kubeconfig))


async def _measure(plane: Plane, kubeconfig: Path) -> Sequence[tuple[str, Sequence[Row]]]:
    clock = LoopClock.starting_now()
    async with HttpTransport(find_access({}, kubeconfig=plane.kubeconfig), clock) as transport:
        with running_operator(kubeconfig) as process:
            async with watched(transport, clock) as seen:
                return await measure_update(seen, Audit(plane.audit_log), process)


async def measure_update(
    seen: Seen, audit: Audit, process: subprocess.Popen[bytes]
) -> Sequence[tuple[str, Sequence[Row]]]:
    manifest = flat_set("rolled", replicas=REPLICAS, cliques=1, pods=2)
    await seen.client.create(PODCLIQUESETS, "default", manifest)
    await seen.seconds_until(lambda: seen.available("rolled") == REPLICAS, time.perf_counter())
    await seen.clock.sleep(2.0)
    audit.forget()
    steps = _Steps(seen)
    cpu = cpu_seconds(process)
    started = time.perf_counter()
    await seen.client.patch(PODCLIQUESETS, "default", "rolled", {"spec": _with_image(manifest, "other")["spec"]})
    took = await seen.seconds_until(lambda: _has_ended(seen, "rolled"), started)
    cpu = cpu_seconds(process) - cpu
    await seen.seconds_until(lambda: seen.available("rolled") == REPLICAS and len(seen.pods) == REPLACED, started)
    requests = audit.counts()
    total = sum(requests.values())
    rows = [
        Row(f"{REPLICAS} x 1 x 2 pods: all replaced", f"{took:.2f} s", "until the set says so; aim: 8 s"),
        Row("steps", f"{steps.count}", f"{took / max(steps.count, 1) * 1000:.0f} ms each"),
        *steps.rows(),
        Row("operator's CPU", f"{cpu:.2f} s", f"{cpu / REPLACED * 1000:.0f} ms per replaced pod"),
        Row("requests of the operator", f"{total}", f"{total / REPLACED:.1f} per replaced pod; aim: 1,000 in all"),
    ]
    table = [
        Row(what, f"{number}", f"{number / REPLACED:.2f} per replaced pod") for what, number in requests.most_common()
    ]
    return [("A rolling update on a real control plane", rows), ("Requests of the operator, rolling update", table)]


def _with_image(manifest: JsonObject, image: str) -> JsonObject:
    changed: JsonObject = msgspec.json.decode(msgspec.json.encode(manifest))
    for clique in changed["spec"]["template"]["cliques"]:
        for container in clique["spec"]["podSpec"]["containers"]:
            container["image"] = image
    return changed


def _has_ended(seen: Seen, name: str) -> bool:
    pcs = seen.sets.by_name("default", name)
    progress = None if pcs is None else pcs.status.rolling_update_progress
    return progress is not None and progress.update_ended_at is not None


class _Steps:
    """When each pod was told to go, and when its successor came, was placed and became ready, as a watch tells."""

    def __init__(self, seen: Seen) -> None:
        self._old = {pod.metadata.uid for pod in seen.pods.values()}
        self._gone_at: dict[Uid, float] = {}
        self._born_at: dict[Uid, float] = {}
        self._open_at: dict[Uid, float] = {}
        self._bound_at: dict[Uid, float] = {}
        self._ready_at: dict[Uid, float] = {}
        seen.pods.subscribe(self._changed)

    def _changed(self, old: Pod | None, new: Pod | None) -> None:
        now = time.perf_counter()
        pod = new or old
        assert pod is not None
        uid = pod.metadata.uid
        if uid in self._old:
            if new is None or new.metadata.is_terminating:
                self._gone_at.setdefault(uid, now)
            return
        self._born_at.setdefault(uid, now)
        if not pod.spec.scheduling_gates:
            self._open_at.setdefault(uid, now)
        if pod.spec.node_name:
            self._bound_at.setdefault(uid, now)
        if pod.is_ready:
            self._ready_at.setdefault(uid, now)

    @property
    def count(self) -> int:
        """How often the update waited for a pod before it went on."""
        return len(self._gone_at)

    def rows(self) -> list[Row]:
        parts = (
            ("told to go until the next one is there", _spans(self._gone_at, self._born_at), "operator, API server"),
            ("there until its gate is open", _spans(self._born_at, self._open_at), "operator"),
            ("open until it has a node", _spans(self._open_at, self._bound_at), "kube-scheduler"),
            ("on a node until it is ready", _spans(self._bound_at, self._ready_at), "simulated kubelet"),
            ("ready until the next one is told to go", _gaps(self._ready_at, self._gone_at), "operator"),
        )
        return [Row(f"  {what}", f"{_middle(spans):.0f} ms", f"median; {who}") for what, spans, who in parts]


def _spans(starts: dict[Uid, float], ends: dict[Uid, float]) -> list[float]:
    """Pods go one after the other: the n-th that went is followed by the n-th that came."""
    return [end - start for start, end in zip(sorted(starts.values()), sorted(ends.values()), strict=False)]


def _gaps(ends: dict[Uid, float], starts: dict[Uid, float]) -> list[float]:
    return [start - end for end, start in zip(sorted(ends.values()), sorted(starts.values())[1:], strict=False)]


def _middle(seconds: list[float]) -> float:
    return median(seconds) * 1000 if seconds else 0.0


# --- in process ------------------------------------------------------------------------------------------------------


class _Mark(msgspec.Struct, frozen=True):
    """What had been done by a step."""

    writes: int
    views: int
    plans: int
    cpu: float


def measure_in_process() -> Sequence[Row]:
    with rare_collections():
        early, late = run_virtual(_costs())
    return [
        Row(
            f"{LARGE} x 2 pods: {what} per step",
            f"{getattr(early, field):{form}} -> {getattr(late, field):{form}}",
            f"steps {EARLY[0]} to {EARLY[1]} -> steps {LATE[0]} to {LATE[1]}",
        )
        for what, field, form in (
            ("writes of the operator", "writes", ".1f"),
            ("views recomputed", "views", ".1f"),
            ("plans recomputed", "plans", ".1f"),
            ("milliseconds of everything", "milliseconds", ".2f"),
        )
    ]


class _Cost(msgspec.Struct, frozen=True):
    """Of one step."""

    writes: float
    views: float
    plans: float
    milliseconds: float


async def _costs() -> tuple[_Cost, _Cost]:
    manifest = flat_set("big", replicas=LARGE, cliques=1, pods=2)
    async with BenchWorld() as world:
        await world.run_to_ready(manifest, LARGE * 2)
        marks: dict[int, _Mark] = {}
        born = 0

        def count(change: Change) -> None:
            nonlocal born
            if change.resource_info.plural == "pods" and change.before is None:
                born += 1
                if born in (*EARLY, *LATE):
                    marks[born] = _mark(world)

        world.server.store.subscribe(count)
        await world.apply(_with_image(manifest, "other"))
        await world.wait_until(lambda: born >= LATE[1])
        early, late = (_between(marks[first], marks[last], last - first) for first, last in (EARLY, LATE))
        return early, late


def _mark(world: BenchWorld) -> _Mark:
    own = [write for write in world.writes_by("operator") if write.target.resource != "events"]
    return _Mark(
        writes=len(own),
        views=world.controller.observer.touched_count,
        plans=sum(memo.planned_count for memo in world.controller.loop._memos.values()),
        cpu=process_time(),
    )


def _between(first: _Mark, last: _Mark, steps: int) -> _Cost:
    return _Cost(
        writes=(last.writes - first.writes) / steps,
        views=(last.views - first.views) / steps,
        plans=(last.plans - first.plans) / steps,
        milliseconds=(last.cpu - first.cpu) / steps * 1000,
    )


def main() -> None:
    for title, rows in measure():
        show(title, rows)


if __name__ == "__main__":
    main()

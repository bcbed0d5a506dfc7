"""The usage of containers that run as processes, as the metrics API serves it."""

from datetime import UTC, datetime, timedelta

import msgspec

from grove.api.types.meta import JsonObject
from grove.api.values.quantities import parse_milli
from grove.cluster.kubelet.process_usage import ProcessUsage, RunningProcess, SessionUsage
from grove.cluster.storage.store import Storage
from grove.kube.transport import Request
from tests.cluster.kubelet.process_cluster import ProcessCluster, run_processes

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
BUSY = "i=0; while [ $i -lt 40000 ]; do i=$((i+1)); done; (sleep 60 & wait) & echo done; wait"


def test_the_cpu_and_memory_of_all_processes_of_a_container_are_measured() -> None:
    async def story(cluster: ProcessCluster) -> None:
        await cluster.put("busy", "sh", "-c", BUSY)
        await cluster.lines("busy")
        await cluster.clock.sleep(1)
        path = "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods/busy"
        found: JsonObject = msgspec.json.decode((await cluster.transport.send(Request(method="GET", path=path))).body)
        (container,) = found["containers"]
        assert container["name"] == "main"
        assert 1 <= parse_milli(container["usage"]["cpu"]) <= 1100
        # Two shells and a sleep have more than half a megabyte, and less than a hundred.
        assert 500_000 < parse_milli(container["usage"]["memory"]) / 1000 < 100_000_000

    run_processes(story)


def test_a_pod_that_has_ended_is_not_measured() -> None:
    async def story(cluster: ProcessCluster) -> None:
        await cluster.output("short", "true")
        path = "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods"
        found = msgspec.json.decode((await cluster.transport.send(Request(method="GET", path=path))).body)
        assert found["items"] == []

    run_processes(story)


def test_the_average_starts_at_a_request_at_least_ten_seconds_ago() -> None:
    used = 0.0
    usage = ProcessUsage(lambda: {7: SessionUsage(used, 1_000_000)})
    usage.follow(lambda _: (RunningProcess("main", 7, NOON),))
    pod: JsonObject = {"metadata": {"uid": "u"}, "status": {"phase": "Running"}}

    def measure(seconds: int) -> tuple[int, int] | None:
        """The CPU in thousandths, and the seconds of its average."""
        found = usage.measure(Storage(), [pod], NOON + timedelta(seconds=seconds)).get("u")
        return None if found is None else (found.containers[0].cpu_milli or 0, int(found.window.total_seconds()))

    assert measure(0) is None
    used = 4.0
    assert measure(8) == (500, 8)
    assert measure(20) == (200, 20)
    used = 9.0
    assert measure(25) == (360, 25)
    assert measure(30) == (500, 10)
    assert measure(45) == (0, 15)

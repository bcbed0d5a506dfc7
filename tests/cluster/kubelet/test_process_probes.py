"""Probes of containers that are processes: what is asked, how often, and what follows."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from grove.clock import LoopClock
from grove.cluster.kubelet.process.pod_spec import Probe
from grove.cluster.kubelet.process.probes import Prober
from grove.sim.virtual_clock import run_virtual
from tests.cluster.kubelet.process_cluster import SECONDS, ProcessCluster, is_alive, run_processes, speed_of_time

SERVER = """
import http.server, os, pathlib
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        code = pathlib.Path(os.environ["CODE"]).read_text().strip()
        self.send_response(int(code) if self.path == "/health" and self.headers["X-Ask"] == "yes" else 404)
        self.end_headers()
    def log_message(self, *_): pass
server = http.server.HTTPServer((os.environ["GROVE_POD_IP"], 8080), Answer)
print("up", flush=True)
server.serve_forever()
"""


def serving(code: Path, **probes: Any) -> dict[str, Any]:
    """A container that answers with what stands in a file."""
    ports = [{"name": "web", "containerPort": 8080}]
    return {"ports": ports, "env": [{"name": "CODE", "value": str(code)}], **probes}


# In time that runs faster, a second is soon over; and a slow answer is not what these tests are about.
PATIENT = {"periodSeconds": 1, "timeoutSeconds": 300}


def asking(**more: Any) -> dict[str, Any]:
    get = {"port": "web", "path": "health", "httpHeaders": [{"name": "X-Ask", "value": "yes"}]}
    return {"httpGet": get, **PATIENT, **more}


def test_a_pod_is_ready_as_long_as_its_server_says_so(tmp_path: Path) -> None:
    async def story(cluster: ProcessCluster) -> None:
        code = tmp_path / "code"
        code.write_text("503")
        await cluster.put("a", "python3", "-c", SERVER, main=serving(code, readinessProbe=asking()))
        await cluster.lines("a")
        pod = await cluster.pod("a")
        assert pod is not None
        assert not pod.is_true("Ready")
        code.write_text("302")
        await cluster.ready("a")
        code.write_text("500")
        pod = await cluster.until("a", lambda pod: not pod.is_true("Ready"))
        assert (pod.phase, pod.container["restartCount"]) == ("Running", 0)

    run_processes(story, speed=5)


def test_a_container_that_is_not_alive_is_killed_and_started_again(tmp_path: Path) -> None:
    async def story(cluster: ProcessCluster) -> None:
        code = tmp_path / "code"
        code.write_text("200")
        # It is asked whether it lives once it has started, however long that takes.
        probes = {"startupProbe": asking(failureThreshold=9999), "livenessProbe": asking(failureThreshold=1)}
        await cluster.put("a", "python3", "-c", SERVER, main=serving(code, **probes), restartPolicy="Always")
        await cluster.until("a", lambda pod: pod.container.get("started"))
        code.write_text("500")
        pod = await cluster.until("a", lambda pod: pod.container["restartCount"] == 1)
        code.write_text("200")
        assert pod.container["lastState"]["terminated"]["exitCode"] == 143

    run_processes(story, speed=5)


def test_a_container_that_never_starts_fails(tmp_path: Path) -> None:
    async def story(cluster: ProcessCluster) -> None:
        startup = {"exec": {"command": ["test", "-e", str(tmp_path / "up")]}, "periodSeconds": 1, "failureThreshold": 3}
        await cluster.put("a", "sleep", "1000", main={"startupProbe": startup})
        pod = await cluster.until("a", lambda pod: "running" in pod.state)
        assert (pod.container["started"], pod.container["ready"]) == (False, False)
        pod = await cluster.ended("a")
        assert (pod.phase, pod.exit_code) == ("Failed", 143)

    run_processes(story, speed=20)


def test_other_probes_wait_until_it_has_started(tmp_path: Path) -> None:
    async def story(cluster: ProcessCluster) -> None:
        startup = {"exec": {"command": ["test", "-e", str(tmp_path / "up")]}, **PATIENT, "failureThreshold": 9999}
        liveness = {"exec": {"command": ["sh", "-c", f"touch {tmp_path}/asked"]}, **PATIENT}
        await cluster.put("a", "sleep", "1000", main={"startupProbe": startup, "livenessProbe": liveness})
        await cluster.until("a", lambda pod: "running" in pod.state)
        await cluster.clock.sleep(5)
        assert not (tmp_path / "asked").exists()
        (tmp_path / "up").touch()
        pod = await cluster.ready("a")
        assert pod.container["started"]
        async with asyncio.timeout(SECONDS * speed_of_time()):
            while not (tmp_path / "asked").exists():
                await cluster.clock.sleep(1)

    run_processes(story, speed=20)


def test_a_port_that_listens_is_ready(tmp_path: Path) -> None:
    async def story(cluster: ProcessCluster) -> None:
        listener = (
            "import os, socket, time\n"
            f"while not os.path.exists('{tmp_path}/go'): time.sleep(0.01)\n"
            "server = socket.create_server((os.environ['GROVE_POD_IP'], 7000))\n"
            "while True: server.accept()[0].close()\n"
        )
        probe = {"tcpSocket": {"port": 7000}, **PATIENT}
        await cluster.put("a", "python3", "-c", listener, main={"readinessProbe": probe})
        pod = await cluster.until("a", lambda pod: "running" in pod.state)
        assert not pod.is_true("Ready")
        (tmp_path / "go").touch()
        await cluster.ready("a")

    run_processes(story, speed=5)


def test_an_answer_that_comes_too_late_is_none_and_its_process_is_killed() -> None:
    async def story(cluster: ProcessCluster) -> None:
        slow = {"exec": {"command": ["sleep", "1000"]}, "periodSeconds": 1, "failureThreshold": 2}
        await cluster.put("a", "sleep", "2000", main={"livenessProbe": slow})
        pod = await cluster.ended("a")
        assert (pod.phase, pod.exit_code) == ("Failed", 143)

    run_processes(story, speed=10)


def test_what_a_hook_starts_lives_as_long_as_its_container(tmp_path: Path) -> None:
    async def story(cluster: ProcessCluster) -> None:
        daemon = f"setsid sleep 1000 & echo $! > {tmp_path}/pid"
        hook = {"postStart": {"exec": {"command": ["sh", "-c", daemon]}}}
        await cluster.put("a", "sleep", "1000", main={"lifecycle": hook})
        await cluster.ready("a")
        pid = int((tmp_path / "pid").read_text())
        assert is_alive(pid)
        await cluster.delete("a")
        await cluster.gone("a")
        async with asyncio.timeout(60):
            while is_alive(pid):
                await cluster.clock.sleep(0.01)

    run_processes(story)


def test_a_container_whose_first_hook_fails_is_not_run() -> None:
    async def story(cluster: ProcessCluster) -> None:
        await cluster.put("a", "sleep", "1000", main={"lifecycle": {"postStart": {"exec": {"command": ["false"]}}}})
        pod = await cluster.ended("a")
        assert (pod.phase, pod.exit_code) == ("Failed", 143)

    run_processes(story)


@pytest.mark.parametrize(
    ("answers", "verdicts"),
    [
        ("y", [(True, 3)]),
        ("ny", [(True, 5)]),
        ("nn", [(False, 5)]),
        ("nynn", [(True, 5), (False, 9)]),
        ("ynnny", [(True, 3), (False, 7), (True, 11)]),
    ],
)
def test_a_verdict_takes_so_many_answers_in_a_row(answers: str, verdicts: list[tuple[bool, float]]) -> None:
    """Asked after 3 seconds and then every 2; one yes is enough, and two no."""

    async def story() -> None:
        clock = LoopClock.starting_now()
        left = iter(answers)

        async def answer() -> bool:
            return next(left) == "y"

        probe = Probe(initial_delay_seconds=3, period_seconds=2, failure_threshold=2)
        prober = Prober(probe, answer, clock)
        found = [(await prober.next_result(), clock.monotonic()) for _ in verdicts]
        assert found == verdicts

    run_virtual(story())

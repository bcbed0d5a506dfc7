"""However it ends, a cluster of processes leaves nothing behind: no process, no file, no open descriptor."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from grove.clock import LoopClock
from grove.cluster.kubelet.process.container import ContainerRunner
from grove.cluster.kubelet.process.container_log import ContainerLog
from grove.cluster.kubelet.process.pod_worker import PodWorker
from tests.cluster.kubelet.process_cluster import ProcessCluster, is_alive, run_processes
from tests.seeds import examples

ROOT = Path(__file__).parent.parent.parent.parent
# A family: a child in the group, one in a group of its own, and a daemon that no longer knows its parent.
FAMILY = """
import os, subprocess, sys
def number(start):
    reader, writer = os.pipe()
    if os.fork() == 0:
        start()
        os.write(writer, str(os.getpid()).encode())
        os.execvp("sleep", ["sleep", "1000"])
    return os.read(reader, 20).decode()
def daemon():
    os.setsid()
    if os.fork():
        os._exit(0)
print(os.getpid(), number(lambda: None), number(os.setpgrp), number(daemon), os.environ["GROVE_ROOT"], flush=True)
"""
STAY = FAMILY + "import time; time.sleep(1000)\n"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + STAY

CLUSTER = """
from tests.cluster.kubelet.process_cluster import ProcessCluster, run_processes
from tests.cluster.kubelet.test_process_leftovers import STAY
async def story(cluster: ProcessCluster) -> None:
    await cluster.put("a", "python3", "-c", STAY)
    print(*await cluster.lines("a"), flush=True)
    await cluster.clock.sleep(1000)
run_processes(story)
"""


def wait_until(what: Callable[[], bool], seconds: float = 60) -> None:
    async def wait() -> None:
        clock = LoopClock.starting_now()
        async with asyncio.timeout(seconds):
            while not what():
                await clock.sleep(0.01)

    asyncio.run(wait())


def family_of(line: str) -> tuple[list[int], Path]:
    *pids, root = line.split()
    return [int(pid) for pid in pids], Path(root).parent.parent.parent


def test_what_a_container_leaves_behind_ends_with_it() -> None:
    async def story(cluster: ProcessCluster) -> None:
        await cluster.put("a", "python3", "-c", FAMILY)
        await cluster.ended("a")
        pids, _ = family_of(await cluster.log("a"))
        assert len(pids) == 4
        async with asyncio.timeout(60):
            while any(is_alive(pid) for pid in pids):
                await cluster.clock.sleep(0.01)

    run_processes(story)


@pytest.mark.parametrize(("program", "speed"), [(STAY, 1), (STUBBORN, 20)], ids=["ends when asked", "must be killed"])
def test_when_the_cluster_stops_so_does_every_process_and_its_files_go(program: str, speed: float) -> None:
    lines: list[str] = []

    async def story(cluster: ProcessCluster) -> None:
        await cluster.put("a", "python3", "-c", program)
        lines.extend(await cluster.lines("a"))

    run_processes(story, speed=speed)
    pids, folder = family_of(lines[0])
    assert [is_alive(pid) for pid in pids] == [False] * 4
    assert not folder.exists()


def test_when_the_cluster_stops_processes_are_asked_before_they_are_killed(tmp_path: Path) -> None:
    async def story(cluster: ProcessCluster) -> None:
        script = f"trap 'sleep 0.2; touch {tmp_path}/saved; exit 0' TERM; echo up; while :; do sleep 0.01; done"
        await cluster.put("a", "sh", "-c", script)
        await cluster.lines("a")

    run_processes(story)
    assert (tmp_path / "saved").exists()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_when_the_cluster_dies_so_does_every_process_and_its_files_go(number: signal.Signals) -> None:
    command = [sys.executable, "-c", CLUSTER]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as one:
        assert one.stdout is not None
        pids, folder = family_of(one.stdout.readline())
        assert [is_alive(pid) for pid in pids] == [True] * 4
        one.send_signal(number)
        try:
            one.wait(60)
        finally:
            one.kill()
    wait_until(lambda: not any(is_alive(pid) for pid in pids) and not folder.exists())


def test_when_the_supervisor_is_killed_all_is_over() -> None:
    lines: list[str] = []

    async def story(cluster: ProcessCluster) -> None:
        await cluster.put("a", "python3", "-c", STAY)
        lines.extend(await cluster.lines("a"))
        os.kill(_parent_of(family_of(lines[0])[0][0]), signal.SIGKILL)
        await cluster.clock.sleep(60)

    with pytest.raises(AssertionError) as caught:
        run_processes(story)
    assert "the supervisor of the process kubelet has exited" in repr(caught.value)
    pids, _ = family_of(lines[0])
    # The daemon has left its group, and lost with the supervisor the only one who knew of it.
    wait_until(lambda: not any(is_alive(pid) for pid in pids[:2]))
    for pid in pids[2:]:
        if is_alive(pid):
            os.kill(pid, signal.SIGKILL)


def _parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_two_hundred_short_pods_one_after_the_other_leak_nothing() -> None:
    """A tenth of them in the quick tier."""

    async def story(cluster: ProcessCluster) -> None:
        await one_pod(cluster, "first")
        before = holdings()
        for number in range(examples(200)):
            await one_pod(cluster, f"pod-{number}")
        # What has ended may be reaped, or closed, a moment later; a leak stays.
        async with asyncio.timeout(60):
            while holdings() != before:
                await cluster.clock.sleep(0.1)

    run_processes(story)


async def one_pod(cluster: ProcessCluster, name: str) -> None:
    spec = {"volumes": [{"name": "v", "emptyDir": {}}], "hostname": name, "subdomain": "s"}
    mounts = {"volumeMounts": [{"name": "v", "mountPath": "/data"}]}
    assert await cluster.output(name, "sh", "-c", "echo hi > /data/x; cat /data/x", main=mounts, **spec) == "hi\n"
    await cluster.delete(name)
    await cluster.settled()


def holdings() -> dict[str, int]:
    """What a leak would show in."""
    gc.collect()
    kinds = (PodWorker, ContainerRunner, ContainerLog, asyncio.Task)
    alive = {kind.__name__: 0 for kind in kinds}
    for each in gc.get_objects():
        # A task may be of a subclass: the virtual clock of another test has one.
        for kind in kinds:
            alive[kind.__name__] += isinstance(each, kind)
    # Other tests may have started processes, too.
    supervisors = [
        pid for pid in map(int, _children_of(os.getpid())) if any("supervisor" in word for word in _command_of(pid))
    ]
    folders = [path for supervisor in supervisors for path in _folder_of(supervisor).rglob("*")]
    return alive | {
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
        "supervisors": len(supervisors),
        "processes": sum(len(_children_of(supervisor)) for supervisor in supervisors),
        "files": len(folders),
    }


def _children_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def _folder_of(supervisor: int) -> Path:
    """The folder of all pods, which its supervisor gets as its last argument."""
    return Path(_command_of(supervisor)[-1])


def _command_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")[:-1]

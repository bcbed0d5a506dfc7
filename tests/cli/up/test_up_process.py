"""`grove up --kubelet process`: pods are processes of this machine, and go when it goes."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from grove.clock import LoopClock
from tests.cli.console import SECONDS, Up

# A launcher and two workers that find it by the names that Grove gives them, all on the same port.
GANG = """\
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {name: job}
spec:
  replicas: 1
  template:
    cliques:
      - name: launcher
        spec:
          roleName: launcher
          replicas: 1
          podSpec:
            containers:
              - name: main
                image: none
                command: [python3, -u, -c]
                args:
                  - |
                    import os, socket
                    server = socket.create_server(("", 9000))
                    names = sorted(server.accept()[0].recv(100).decode() for _ in range(2))
                    print("met", *names, "pid", os.getpid())
                    server.accept()
      - name: worker
        spec:
          roleName: worker
          replicas: 2
          podSpec:
            containers:
              - name: main
                image: none
                command: [python3, -u, -c]
                args:
                  - |
                    import os, socket, time
                    launcher = "job-0-launcher-0." + os.environ["GROVE_HEADLESS_SERVICE"]
                    while True:
                        try:
                            peer = socket.create_connection((launcher, 9000))
                            break
                        except OSError:
                            time.sleep(0.05)
                    peer.sendall(socket.gethostname().encode())
                    time.sleep(1000)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_gang_runs_here_and_nothing_of_it_stays(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "gang.yaml").write_text(GANG)
    with Up(tmp_path, "gang.yaml", "--kubelet", "process") as up:
        up.read_until("3/3 pods ready")
        pods = up.read("/api/v1/namespaces/default/pods")["items"]
        (launcher,) = [pod["metadata"]["name"] for pod in pods if "launcher" in pod["metadata"]["name"]]
        words = up.wait_for_output("pid", "logs", launcher).out.split()
        assert words[:4] == ["met", "job-0-worker-0", "job-0-worker-1", "pid"]
        main = int(words[-1])
        supervisor = parent_of(main)
        assert len(up.read("/api/v1/namespaces/default/pods")["items"]) == 3
        groups = [int(pid) for pid in children_of(supervisor)]
        assert (main in groups, len(groups)) == (True, 3)
        folder = Path(Path(f"/proc/{supervisor}/cmdline").read_bytes().split(b"\0")[-2].decode())
        said = up.end(number)
    assert said.code == (-9 if number is signal.SIGKILL else 0)
    wait_until_gone(groups, folder)


def wait_until_gone(groups: list[int], folder: Path) -> None:
    """By process group: whoever is left in one of them would be found."""

    async def wait() -> None:
        clock = LoopClock.starting_now()
        async with asyncio.timeout(SECONDS):
            while is_left(groups, folder):
                await clock.sleep(0.01)

    asyncio.run(wait())


def is_left(groups: list[int], folder: Path) -> bool:
    return any(is_group(group) for group in groups) or folder.exists()


def is_group(number: int) -> bool:
    try:
        os.killpg(number, 0)
    except ProcessLookupError:
        return False
    return True


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def children_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()

"""The SDK as scripts use it: without async, typed, and ended by Ctrl-C."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from grove.sdk import (
    AsyncClient,
    Client,
    ConnectionFailed,
    PodCliqueSet,
    SetNotFound,
    TrainingSpec,
    WaitProgress,
    WaitTimeout,
    clique,
    local,
    pod_clique_set,
)
from tests.processes import die_with_parent

ROOT = Path(__file__).parents[2]
SECONDS = 120


def chat(**options: int) -> PodCliqueSet:
    return pod_clique_set("chat", [clique("router", image="example/router:1.0", gpus=options.get("gpus", 0))])


def test_a_script_without_async_submits_waits_reads_logs_and_deletes() -> None:
    with local(nodes=1) as client:
        assert client.submit(chat()).action == "created"
        threads: list[str] = []
        client.wait(
            "chat", "ready", timeout=SECONDS, on_progress=lambda _: threads.append(threading.current_thread().name)
        )
        # Progress is reported where the script waits, so that it may draw.
        assert set(threads) == {threading.current_thread().name}
        assert [line.text for line in client.logs("chat", tail=1)] == ["container router is ready"]
        for line in client.logs("chat", follow=True):
            assert "started" in line.text
            break
        assert [one.metadata.name for one in client.list()] == ["chat"]
        assert client.in_namespace("kube-system").list() == ()
        client.delete("chat", timeout=SECONDS)
        with pytest.raises(SetNotFound):
            client.get("chat")
    assert "grove-sdk" not in [thread.name for thread in threading.enumerate()]


def test_an_error_of_a_callback_ends_the_waiting() -> None:
    def fail(_: WaitProgress) -> None:
        raise RuntimeError("from the script")

    with local(nodes=1) as client:
        client.submit(chat(gpus=16))
        with pytest.raises(RuntimeError, match="from the script"):
            client.wait("chat", on_progress=fail)
        with pytest.raises(WaitTimeout):
            client.wait("chat", timeout=0.01)


def test_a_client_without_a_cluster_says_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    with Client() as client, pytest.raises(ConnectionFailed, match="no cluster found; start one with `grove up`"):
        client.list()
    with Client(kubeconfig="missing") as client, pytest.raises(ConnectionFailed, match="missing"):
        client.list()


def test_pods_may_be_local_processes() -> None:
    command = [sys.executable, "-c", "import os; print('rank', os.environ['RANK'])"]
    worker = clique("worker", replicas=2, image="example/train:1.0", command=command)
    with local(nodes=1, kubelet="process") as client:
        client.submit(pod_clique_set("job", [worker], training=TrainingSpec(max_restarts=0)))
        client.wait("job", "complete", timeout=SECONDS)
        assert sorted(line.text for line in client.logs("job")) == ["rank 0", "rank 1"]


def test_a_client_of_a_kubeconfig_does_the_same_over_https(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    with serving(kubeconfig), Client(kubeconfig=kubeconfig) as client:
        client.submit(chat(gpus=16))
        with pytest.raises(WaitTimeout, match="waited 1 s for 'available' of chat: 0/1 pods"):
            client.wait("chat", timeout=1)
        client.submit(chat())
        client.wait("chat", "ready", timeout=SECONDS)
        lines = client.logs("chat", follow=True)
        assert "started" in next(lines).text
        lines.close()
        client.delete("chat", timeout=SECONDS)
        assert client.list() == ()


@contextmanager
def serving(kubeconfig: Path) -> Iterator[None]:
    """`grove up` beside the script, until the block ends."""
    command = [sys.executable, "-m", "grove.cli.main", "up", "--nodes", "1", "--kubeconfig", str(kubeconfig)]
    process = subprocess.Popen(
        command, cwd=kubeconfig.parent, stdout=subprocess.PIPE, text=True, preexec_fn=die_with_parent
    )
    with process:
        assert process.stdout is not None
        # It prints once the kubeconfig is written.
        process.stdout.readline()
        try:
            yield
        finally:
            process.terminate()
            process.communicate(timeout=SECONDS)


def test_both_clients_have_the_same_methods() -> None:
    def public(kind: type) -> list[str]:
        return sorted(name for name in vars(kind) if not name.startswith("_"))

    assert public(Client) == public(AsyncClient)


def test_the_example_runs() -> None:
    command = [sys.executable, str(ROOT / "examples" / "sdk_quickstart.py")]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=SECONDS, check=False, preexec_fn=die_with_parent
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "kind: PodCliqueSet" in done.stdout
    assert "chat: 6/6 pods ready, 1/1 replicas available" in done.stdout
    assert "revision 2 -> 1" in done.stdout
    assert "waited 3 s for 'ready' of chat: " in done.stdout
    assert done.stdout.rstrip().endswith(".")


WAITING = """
from grove.sdk import clique, local, pod_clique_set

with local(nodes=1) as client:
    client.submit(pod_clique_set("chat", [clique("router", image="example/router:1.0", gpus=16)]))
    client.wait("chat", on_progress=lambda progress: print(progress, flush=True))
"""


def test_ctrl_c_ends_a_waiting_script_cleanly() -> None:
    script = subprocess.Popen(
        [sys.executable, "-c", WAITING], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=die_with_parent,
    )  # fmt: skip
    with script:
        assert script.stdout is not None
        assert "0/1 pods ready" in script.stdout.readline() + script.stdout.readline()
        os.kill(script.pid, signal.SIGINT)
        _, errors = script.communicate(timeout=SECONDS)
    # Python ends by the signal after an uncaught KeyboardInterrupt. It is the only error, and nothing was left behind.
    assert script.returncode == -signal.SIGINT
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert errors.count("Traceback") == 1, errors
    assert "was never retrieved" not in errors


TYPED = """
from grove.sdk import AsyncClient, Client, PodCliqueSet, WaitProgress, clique, container, group, local, pod_clique_set

chat: PodCliqueSet = pod_clique_set(
    "chat",
    [clique("router", image="example/router:1.0", containers=[container("side", "example/side:1.0", gpus=1)])],
    groups=[group("decode", ["router"], replicas=2)],
)


def show(progress: WaitProgress) -> None:
    print(progress.ready_pods + progress.pods, progress.message.upper())


def script(client: Client) -> list[str]:
    client.submit(chat)
    name: str = client.wait(chat, "available", timeout=60, on_progress=show).metadata.name
    client.wait(name, lambda pcs: pcs.status.available_replicas > 0)
    return [line.text for line in client.logs(name)] + [one.text for one in client.why(name)]


async def main(client: AsyncClient) -> int:
    async for line in client.logs("chat", follow=True):
        print(line.pod, line.text)
    return (await client.scale("chat", 2)).replicas


with local() as opened:
    script(opened)
"""
WRONG = """
from grove.sdk import local

with local() as client:
    client.wait("chat", "avialable")
    client.wait(7)
"""


@pytest.mark.deep(reason="mypy reads the whole package, which takes a minute")
def test_a_script_of_a_user_is_checked_by_mypy(tmp_path: Path) -> None:
    def check(name: str, text: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / name).write_text(text)
        command = [
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            "--config-file=",
            "--cache-dir",
            str(tmp_path / "cache"),
            name,
        ]
        environment = {**os.environ, "MYPYPATH": str(ROOT / "src")}
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    typed = check("typed.py", TYPED)
    assert (typed.returncode, typed.stdout) == (0, "Success: no issues found in 1 source file\n")
    wrong = check("wrong.py", WRONG)
    assert wrong.stdout.count("error: Argument") == 2, wrong.stdout

"""`grove up --data-dir`: killed at any moment, it goes on with everything that somebody was told of."""

import asyncio
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from grove.api.types.meta import JsonObject
from grove.clock import LoopClock
from grove.cluster.http.kubeconfig_writer import write_kubeconfig
from grove.cluster.http.loopback_certificates import make_certificates
from grove.kube.api_errors import ConnectionLost
from grove.kube.http_transport import HttpTransport
from grove.kube.kubeconfig import find_access
from grove.kube.transport import Request, Response
from tests.cli.console import ROOT, Up, attempts, grove
from tests.seeds import examples

QUICKSTART = str(ROOT / "examples" / "quickstart.yaml")
CONFIGS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
# A tenth of them in the quick tier.
LIVES = examples(50)
WRITERS = 8
MOST_ANSWERS = 60
TOKEN = "a-token-for-tests"


# --- kill -9, many times ---------------------------------------------------------------------------------------------


class Nursery:
    """Servers in processes of their own, one after the other, on one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._kubeconfig = folder / "kubeconfig"
        self._pid = 0
        certificates = make_certificates(_now())
        for name in ("ca", "certificate", "key"):
            (folder / name).write_bytes(getattr(certificates, name))
        self._ca = certificates.ca
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.cluster.nursery", TOKEN, str(folder)],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    @asynccontextmanager
    async def life(self) -> AsyncIterator[HttpTransport]:
        """A server, and a connection to it. It is killed at the end, whatever it is doing."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{self._folder / 'kept'}\n")
        self._process.stdin.flush()
        pid, port = map(int, self._process.stdout.readline().split())
        write_kubeconfig(self._kubeconfig, url=f"https://127.0.0.1:{port}", ca=self._ca, token=TOKEN)
        self._pid = pid
        try:
            async with HttpTransport(
                find_access({}, kubeconfig=self._kubeconfig), LoopClock.starting_now()
            ) as transport:
                yield transport
        finally:
            self.kill()

    def kill(self) -> None:
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)
            while Path(f"/proc/{self._pid}").exists():
                pass
            self._pid = 0

    def close(self) -> None:
        self.kill()
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def nursery(tmp_path: Path) -> Iterator[Nursery]:
    nursery = Nursery(tmp_path)
    try:
        yield nursery
    finally:
        nursery.close()


class Burst:
    """Writers that count, each in objects of its own; what they were told, and when to end it."""

    def __init__(self) -> None:
        self.told: dict[int, int] = {}
        self.tried: dict[int, int] = {}
        self._answers_left = 0

    async def run(self, transport: HttpTransport, nursery: Nursery, answers: int) -> None:
        self._answers_left = answers
        async with asyncio.TaskGroup() as group:
            for writer in range(WRITERS):
                group.create_task(self._write(writer, transport, nursery))

    async def _write(self, writer: int, transport: HttpTransport, nursery: Nursery) -> None:
        while True:
            number = self.tried[writer] = self.told.get(writer, 0) + 1
            try:
                answer = await _put(transport, f"w{writer}", number, is_new=number == 1)
                if writer == 0:
                    # Two writes in one request: marked, and removed.
                    await _ask(transport, "POST", PODS, _pod(f"p{number}"))
                    await _ask(transport, "DELETE", f"{PODS}/p{number}")
            except ConnectionLost:
                return
            # An attempt whose answer was lost may have been carried out.
            assert answer.status in (200, 201, 409), answer.body
            self.told[writer] = number
            self._answers_left -= 1
            if self._answers_left == 0:
                nursery.kill()


class Follower:
    """A watch that goes on over all lives: what it makes of what it is told."""

    def __init__(self) -> None:
        self.version = ""
        self.found: dict[str, str] = {}

    async def catch_up(self, transport: HttpTransport, marker: str) -> None:
        if not self.version:
            self.version = (await _list(transport, CONFIGS))["metadata"]["resourceVersion"]
        query = {"watch": "true", "resourceVersion": self.version}
        async with transport.stream(Request(method="GET", path=CONFIGS, query=query)) as lines:
            await _ask(transport, "POST", CONFIGS, _config(marker, 0))
            async for line in lines:
                event = msgspec.json.decode(line)
                assert event["type"] in ("ADDED", "MODIFIED"), event
                metadata = event["object"]["metadata"]
                assert int(metadata["resourceVersion"]) > int(self.version)
                assert (metadata["name"] in self.found) == (event["type"] == "MODIFIED"), event
                self.version = self.found[metadata["name"]] = metadata["resourceVersion"]
                if metadata["name"] == marker:
                    return


def test_fifty_kills_lose_nothing_that_was_told_and_leave_nothing_half_done(nursery: Nursery) -> None:
    async def story() -> None:
        random, burst, follower = Random(1), Burst(), Follower()
        for life in range(LIVES):
            async with nursery.life() as transport:
                objects = (await _list(transport, CONFIGS))["items"]
                _check(objects, burst)
                assert [pod["metadata"] for pod in (await _list(transport, PODS))["items"] if _is_half_gone(pod)] == []
                await follower.catch_up(transport, f"marker-{life}")
                listed = {each["metadata"]["name"]: each["metadata"]["resourceVersion"] for each in objects}
                del follower.found[f"marker-{life}"]
                assert follower.found == {name: version for name, version in listed.items() if "marker" not in name}
                await burst.run(transport, nursery, random.randint(1, MOST_ANSWERS))
        assert sum(burst.told.values()) > LIVES * MOST_ANSWERS / 4

    asyncio.run(story())


def _check(objects: list[JsonObject], burst: Burst) -> None:
    found = {each["metadata"]["name"]: each["data"] for each in objects}
    for writer, tried in burst.tried.items():
        data = found.get(f"w{writer}", {"one": "0", "other": "0"})
        assert data["one"] == data["other"]
        assert int(data["one"]) in (burst.told.get(writer, 0), tried)
        burst.told[writer] = int(data["one"])
        if not burst.told[writer]:
            del burst.told[writer]


def _is_half_gone(pod: JsonObject) -> bool:
    return "deletionTimestamp" in pod["metadata"]


async def _put(transport: HttpTransport, name: str, number: int, *, is_new: bool) -> Response:
    body = _config(name, number)
    return (
        await _ask(transport, "POST", CONFIGS, body)
        if is_new
        else await _ask(transport, "PUT", f"{CONFIGS}/{name}", body)
    )


async def _ask(transport: HttpTransport, method: str, path: str, body: Any = None) -> Response:
    data = b"" if body is None else msgspec.json.encode(body)
    return await transport.send(Request(method=method, path=path, body=data))


async def _list(transport: HttpTransport, path: str) -> JsonObject:
    found: JsonObject = msgspec.json.decode((await _ask(transport, "GET", path)).body)
    return found


def _config(name: str, number: int) -> JsonObject:
    return {"metadata": {"name": name}, "data": {"one": str(number), "padding": "x" * 300, "other": str(number)}}


def _pod(name: str) -> JsonObject:
    spec = {"schedulerName": "nobody", "containers": [{"name": "main", "image": "none"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def _now() -> Any:
    async def ask() -> Any:
        return LoopClock.starting_now().now()

    return asyncio.run(ask())


# --- the whole of it -------------------------------------------------------------------------------------------------


def test_a_killed_cluster_goes_on_with_its_sets_pods_nodes_and_kubeconfig(tmp_path: Path) -> None:
    with Up(tmp_path, QUICKSTART, "--data-dir", "kept", "--nodes", "5") as up:
        up.read_until("10/10 pods ready")
        kubeconfig = tmp_path / "mine"
        shutil.copy(tmp_path / ".grove" / "kubeconfig", kubeconfig)
        before = up.read(PODS)["items"]
        nodes = up.read("/api/v1/nodes")["items"]
        up.end(signal.SIGKILL)
    for _ in range(2):
        with Up(tmp_path, "--data-dir", "kept") as up:
            assert up.lines[0].startswith("A cluster with 5 nodes and the Grove operator: https://127.0.0.1:")
            assert up.lines[1].startswith("Persisted in kept: resumes with ")
            assert kubeconfig.read_text() == (tmp_path / ".grove" / "kubeconfig").read_text()
            up.read_until("10/10 pods ready")
            assert _identities(up.read(PODS)["items"]) == _identities(before)
            assert _identities(up.read("/api/v1/nodes")["items"]) == _identities(nodes)
            up.end(signal.SIGKILL)
    with Up(tmp_path, QUICKSTART, "--data-dir", "kept") as up:
        up.read_until("podcliqueset/chat unchanged")
        said = grove(tmp_path, "status", "--kubeconfig", "mine")
        assert (said.code, "10/10" in said.out) == (0, True)
        assert up.grove("delete", "pcs/chat").code == 0
        assert up.end().code == 0
    with Up(tmp_path, "--data-dir", "kept") as up:
        assert up.read(PODS)["items"] == []


def test_a_set_that_was_being_made_when_it_was_killed_is_finished(tmp_path: Path) -> None:
    with Up(tmp_path, QUICKSTART, "--data-dir", "kept") as up:
        up.read_until("podcliqueset/chat created")
        up.end(signal.SIGKILL)
    with Up(tmp_path, "--data-dir", "kept") as up:
        up.read_until("10/10 pods ready")
        assert len(up.read(PODS)["items"]) == 10


def _identities(objects: list[JsonObject]) -> list[tuple[str, str, bool]]:
    return [(each["metadata"]["name"], each["metadata"]["uid"], _is_ready(each)) for each in objects]


def _is_ready(obj: JsonObject) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in obj["status"].get("conditions", ()))


def test_nodes_become_what_the_flags_say_now_and_stay_without_them(tmp_path: Path) -> None:
    with Up(tmp_path, "--data-dir", "kept", "--nodes", "3", "--no-operator") as up:
        assert up.end().code == 0
    with Up(tmp_path, "--data-dir", "kept", "--nodes", "5", "--node-resources", "cpu=4", "--no-operator") as up:
        up.read_until("2 nodes added: node-3, node-4")
        up.read_until("3 nodes resized: node-0, node-1, node-2")
        sizes = [node["status"]["allocatable"] for node in up.read("/api/v1/nodes")["items"]]
        assert sizes == [{"cpu": "4", "pods": "110"}] * 5
    with Up(tmp_path, "--data-dir", "kept", "--no-operator") as up:
        assert up.lines[0].startswith("A cluster with 5 nodes without an operator: ")
    with Up(tmp_path, "--data-dir", "kept", "--nodes", "1", "--no-operator") as up:
        up.read_until("4 nodes removed: node-1 ... node-4")
        assert [node["metadata"]["name"] for node in up.read("/api/v1/nodes")["items"]] == ["node-0"]


def test_a_cluster_that_was_killed_before_it_had_its_nodes_gets_them(tmp_path: Path) -> None:
    with Up(tmp_path, "--data-dir", "kept", "--nodes", "2", "--no-operator") as up:
        up.end(signal.SIGKILL)
    (tmp_path / "kept" / "begun").unlink()
    with Up(tmp_path, "--data-dir", "kept", "--no-operator") as up:
        assert up.lines[0].startswith("A cluster with 8 nodes without an operator: ")


def test_tokens_of_accounts_are_good_in_the_next_life(tmp_path: Path) -> None:
    with Up(tmp_path, "--data-dir", "kept", "--nodes", "0", "--no-operator") as up:
        asked = _send(up, "POST", "/api/v1/namespaces/default/serviceaccounts/default/token", {"spec": {}})
        assert asked.status == 201
        token = msgspec.json.decode(asked.body)["status"]["token"]
        up.end(signal.SIGKILL)
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    with Up(tmp_path, "--data-dir", "kept", "--no-operator") as up:
        told = _send(up, "POST", path, review, token=token)
        who = msgspec.json.decode(told.body)["status"]["userInfo"]["username"]
        assert who == "system:serviceaccount:default:default"
        assert _send(up, "POST", path, review, token=f"{token[:-4]}AAAA").status == 401


def test_its_old_port_is_left_to_whoever_has_it_now(tmp_path: Path) -> None:
    with Up(tmp_path, "--data-dir", "kept", "--nodes", "0", "--no-operator") as up:
        port = int(up.lines[0].rpartition(":")[2])
        assert up.end().code == 0
    with socket.create_server(("127.0.0.1", port)), Up(tmp_path, "--data-dir", "kept", "--no-operator") as up:
        assert int(up.lines[0].rpartition(":")[2]) != port


THREE = """\
apiVersion: v1
kind: Pod
metadata: {name: goes-on}
spec:
  restartPolicy: Always
  containers: [{name: main, image: none, command: [sleep, "1000"]}]
---
apiVersion: v1
kind: Pod
metadata: {name: leaves}
spec:
  terminationGracePeriodSeconds: 1000
  containers: [{name: main, image: none, command: [sh, -c, "trap '' TERM; while sleep 1; do :; done"]}]
---
apiVersion: v1
kind: Pod
metadata: {name: has-ended}
spec:
  restartPolicy: Never
  containers: [{name: main, image: none, command: [sleep, "1000"]}]
"""


def test_processes_that_died_with_the_cluster_are_restarted_or_their_pods_end(tmp_path: Path) -> None:
    (tmp_path / "pods.yaml").write_text(THREE)
    with Up(tmp_path, "pods.yaml", "--data-dir", "kept", "--kubelet", "process", "--no-operator") as up:
        _wait(up, 3, lambda pods: all(_is_ready(pod) for pod in pods))
        assert _send(up, "DELETE", f"{PODS}/leaves").status == 200
        up.end(signal.SIGKILL)
    with Up(tmp_path, "--data-dir", "kept", "--kubelet", "process", "--no-operator") as up:
        goes_on, has_ended = _wait(
            up, 2, lambda pods: _is_restarted(pods[0]) and pods[1]["status"]["phase"] == "Failed"
        )
        assert (goes_on["metadata"]["name"], has_ended["metadata"]["name"]) == ("goes-on", "has-ended")
        (status,) = goes_on["status"]["containerStatuses"]
        assert status["lastState"]["terminated"]["reason"] == "ContainerStatusUnknown"
        (status,) = has_ended["status"]["containerStatuses"]
        assert (status["restartCount"], status["state"]["terminated"]["exitCode"]) == (0, 137)


def _is_restarted(pod: JsonObject) -> bool:
    return _is_ready(pod) and pod["status"]["containerStatuses"][0]["restartCount"] == 1


def _wait(up: Up, number: int, seen: Any) -> list[JsonObject]:
    for _ in attempts():
        pods: list[JsonObject] = up.read(PODS)["items"]
        if len(pods) == number and seen(pods):
            return pods
    raise AssertionError(f"never came to that: {pods}")


def _send(up: Up, method: str, path: str, body: Any = None, *, token: str = "") -> Response:
    """As the administrator, or as whoever has the token."""

    async def send() -> Response:
        access = find_access({}, kubeconfig=up.folder / ".grove" / "kubeconfig")
        if token:
            access = msgspec.structs.replace(access, token=token)
        async with HttpTransport(access, LoopClock.starting_now()) as transport:
            return await _ask(transport, method, path, body)

    return asyncio.run(send())


# --- a disk that refuses ---------------------------------------------------------------------------------------------


def test_a_full_disk_is_said_and_heals(tmp_path: Path) -> None:
    with Up(tmp_path, "--data-dir", "kept", "--nodes", "0", "--no-operator") as up:
        (tmp_path / "a.yaml").write_text(_manifest("a"))
        (tmp_path / "b.yaml").write_text(_manifest("b"))
        assert up.grove("apply", "-f", "a.yaml").code == 0
        with _no_room(up.process.pid):
            said = up.grove("apply", "-f", "b.yaml")
            assert (said.code, said.out) == (1, "")
            assert "the write was not stored: kept/cluster.db: " in said.err
            assert _config_names(up) == ["a"]
        assert up.grove("apply", "-f", "b.yaml").code == 0
        up.end(signal.SIGKILL)
    with Up(tmp_path, "--data-dir", "kept", "--no-operator") as up:
        assert _config_names(up) == ["a", "b"]


def _config_names(up: Up) -> list[str]:
    """But for the one that every namespace has."""
    names = [each["metadata"]["name"] for each in up.read(CONFIGS)["items"]]
    return [name for name in names if name != "kube-root-ca.crt"]


def _manifest(name: str) -> str:
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{text: {'x' * 9000}}}\n"


@contextmanager
def _no_room(pid: int) -> Iterator[None]:
    """Files of that process do not grow any more: the system says no to the write itself."""
    soft, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (4096, hard))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (soft, hard))


# --- folders that cannot be used -------------------------------------------------------------------------------------


def test_a_folder_in_use_is_said_to_be(tmp_path: Path) -> None:
    with Up(tmp_path, "--data-dir", "kept", "--nodes", "0", "--no-operator") as up:
        said = up.grove("up", "--data-dir", "kept", "--kubeconfig", "other")
        assert (said.code, said.out) == (1, "")
        assert said.err == (
            f"grove: kept: is in use by another `grove up` (process {up.process.pid}); "
            "stop it first, or choose another --data-dir\n"
        )
        assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("format", b"grove cluster, format 2\n", "grove: kept: has another format ('grove cluster, format 2', "),
        ("cluster.db", b"x" * 50_000, "grove: kept/cluster.db: is damaged (file is not a database); "),
        ("cluster.db", b"", "grove: kept/cluster.db: is missing or empty; "),
    ],
    ids=["another version", "no database", "empty"],
)
def test_a_folder_that_cannot_be_read_is_one_line_and_stays_as_it_is(
    tmp_path: Path, name: str, content: bytes, line: str
) -> None:
    with Up(tmp_path, "--data-dir", "kept", "--nodes", "0", "--no-operator") as up:
        assert up.end().code == 0
    (tmp_path / "kept" / name).write_bytes(content)
    before = _contents(tmp_path / "kept")
    said = grove(tmp_path, "up", "--data-dir", "kept")
    assert (said.code, said.out, said.err.count("\n")) == (1, "", 1)
    assert said.err.startswith(line)
    assert _contents(tmp_path / "kept") == before


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "thesis.txt").write_text("years of work")
    said = grove(tmp_path, "up", "--data-dir", "kept")
    assert (said.code, said.err) == (
        1, "grove: kept: contains thesis.txt but no cluster; choose an empty directory as --data-dir\n",
    )  # fmt: skip
    assert _contents(tmp_path / "kept") == {"thesis.txt": b"years of work"}


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("")
    said = grove(tmp_path, "up", "--data-dir", "kept")
    assert (said.code, said.err) == (1, "grove: kept: is not a directory; choose another --data-dir\n")


def _contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.name != "lock"}

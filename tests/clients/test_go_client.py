"""client-go, the client that operators are written with: what it does and is told, on both servers.

The program is `tests/kube/controlplane/goclient`; what it tells is one line of JSON per step.
"""

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from queue import Queue
from typing import Any

import msgspec
import pytest
from kubernetes import config
from kubernetes.client import ApiClient, CoreV1Api, CustomObjectsApi

from grove.api.types.meta import JsonObject
from tests.clients.test_python_client import MERGE, new_namespace, pcs, pod
from tests.e2e.kept import KeptCluster
from tests.kube.controlplane.build import GO_CLIENT, build, chosen_version
from tests.kube.controlplane.definitions import serve_our_kinds
from tests.kube.controlplane.plane import Plane, running_plane

pytestmark = pytest.mark.kube

# A safety net, far above what anything takes.
SECONDS = 180.0
SETS = ("grove.io", "v1alpha1")
_numbers = count()


@contextmanager
def people(kubeconfig: Path) -> Iterator[tuple[ApiClient, str]]:
    """Somebody else who works in the same, new, namespace."""
    with config.new_client_from_config(config_file=str(kubeconfig)) as api:
        yield api, new_namespace(api, f"go-{next(_numbers)}")


# --- its own steps ---------------------------------------------------------------------------------------------------


def steps(kubeconfig: Path) -> list[JsonObject]:
    with people(kubeconfig) as (_, namespace):
        command = [str(build(chosen_version(), GO_CLIENT)), "steps", str(kubeconfig), namespace]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}"
    return [msgspec.json.decode(line) for line in ran.stdout.splitlines()]


def test_every_step_ends_alike_on_both_servers(embedded_kubeconfig: Path, plane: Plane) -> None:
    here, there = steps(embedded_kubeconfig), steps(plane.kubeconfig)
    assert here == there
    told: dict[str, Any] = {line["step"]: line for line in here}
    # Lest both be wrong alike.
    assert (told["list"]["names"], told["list"]["pages"]) == (["a", "b", "c", "d", "e"], 3)
    assert told["watch"]["events"] == ["ADDED w", "MODIFIED w", "DELETED w"]
    assert (told["watch"]["has bookmarks"], told["watch list"]["has begun"]) == (True, True)
    assert (told["custom apply"]["replicas"], told["custom status"]["spec"], told["scale"]["after"]) == (2, 2, 3)
    assert (told["lead"]["who"], told["lead"]["terms"]) == ("two", 1)
    assert told["delete"] == {"step": "delete", "left": ["binary", "d", "e"], "gone": True}


# --- informers -------------------------------------------------------------------------------------------------------


class Follower:
    """Two informers in a process of their own, and what they tell."""

    def __init__(self, kubeconfig: Path, namespace: str) -> None:
        command = [str(build(chosen_version(), GO_CLIENT)), "follow", str(kubeconfig), namespace]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._told: Queue[JsonObject | None] = Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self.asked: list[JsonObject] = []

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._told.put(msgspec.json.decode(line))
        self._told.put(None)

    def next(self, *steps: str) -> JsonObject:
        """The next line, which must be of one of these kinds; requests are kept aside."""
        while (line := self._told.get(timeout=SECONDS)) is not None:
            if line["step"] == "asked":
                self.asked.append(line)
                continue
            assert line["step"] in steps, line
            return line
        raise AssertionError(f"it ended without {steps}")

    def begin(self) -> list[tuple[str, str]]:
        """Until both informers know all that there was: what that is."""
        lines: list[JsonObject] = []
        while sum(line["step"] == "synced" for line in lines) < 2:
            lines.append(self.next("event", "synced"))
        return sorted(_event(line) for line in lines if line["step"] == "event")

    def events(self, number: int) -> list[tuple[str, str]]:
        """The next so many events, as `event kind` and name."""
        return [_event(self.next("event")) for _ in range(number)]

    def end(self) -> list[JsonObject]:
        """What it knew at the end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        cached = [self.next("cached"), self.next("cached")]
        assert self._process.wait(SECONDS) == 0
        self._reader.join()
        self._process.stdout.close()
        return cached

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()


def _event(line: JsonObject) -> tuple[str, str]:
    return f"{line['event']} {line['kind']}", line["name"]


@contextmanager
def following(kubeconfig: Path, namespace: str) -> Iterator[Follower]:
    follower = Follower(kubeconfig, namespace)
    try:
        yield follower
    except BaseException:
        follower.kill()
        raise


def test_informers_begin_with_a_watch_and_see_every_change(kubeconfig: Path) -> None:
    with people(kubeconfig) as (api, namespace):
        core, custom = CoreV1Api(api), CustomObjectsApi(api)
        where = (*SETS, namespace, "podcliquesets")
        core.create_namespaced_pod(namespace, pod("a"))
        custom.create_namespaced_custom_object(*where, pcs("chat"))
        with following(kubeconfig, namespace) as follower:
            assert follower.begin() == [("there podcliquesets", "chat"), ("there pods", "a")]
            core.create_namespaced_pod(namespace, pod("b"))
            assert follower.events(1) == [("added pods", "b")]
            custom.patch_namespaced_custom_object(*where, "chat", {"spec": {"replicas": 2}}, _content_type=MERGE)
            assert follower.events(1) == [("updated podcliquesets", "chat")]
            custom.delete_namespaced_custom_object(*where, "chat")
            assert follower.events(1) == [("deleted podcliquesets", "chat")]
            core.delete_namespaced_pod("a", namespace, grace_period_seconds=0)
            # A pod that is killed is first marked.
            assert follower.events(2) == [("updated pods", "a"), ("deleted pods", "a")]
            cached = {one["kind"]: one["names"] for one in follower.end()}
    assert cached == {"pods": [f"{namespace}/b"], "podcliquesets": []}
    # Each asked once, for a watch that begins with a list: the bookmark that ends that was heard, too.
    assert sorted(one["path"] for one in follower.asked) == ["podcliquesets", "pods"]
    for one in follower.asked:
        assert (one["watch"], one["initial"], one["match"], one["code"]) == (True, "true", "NotOlderThan", 200)


class Restartable(msgspec.Struct, frozen=True):
    """A server that may be killed, and comes back with all that it had."""

    kubeconfig: Path
    server: KeptCluster | Plane

    def restart(self) -> None:
        if isinstance(self.server, Plane):
            self.server.restart("kube-apiserver")
        else:
            self.server.kill()
            self.server.start()
        self.server.await_ready()


@pytest.fixture(params=["embedded", "real"])
def restartable(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Restartable]:
    if request.param == "embedded":
        with KeptCluster(tmp_path, "--nodes", "0") as kept:
            kept.await_ready()
            yield Restartable(kept.kubeconfig, kept)
        return
    with running_plane(tmp_path) as plane:
        serve_our_kinds(plane)
        yield Restartable(plane.kubeconfig, plane)


def test_informers_go_on_when_the_server_was_killed_and_came_back(restartable: Restartable) -> None:
    kubeconfig = restartable.kubeconfig
    with people(kubeconfig) as (api, namespace):
        core = CoreV1Api(api)
        core.create_namespaced_pod(namespace, pod("a"))
        with following(kubeconfig, namespace) as follower:
            assert follower.begin() == [("there pods", "a")]
            for number in range(3):
                core.create_namespaced_pod(namespace, pod(f"before-{number}"))
                assert follower.events(1) == [("added pods", f"before-{number}")]
                restartable.restart()
                core.create_namespaced_pod(namespace, pod(f"after-{number}"))
                # Nothing in between is told twice, nothing is missing.
                assert follower.events(1) == [("added pods", f"after-{number}")]
            names = {one["kind"]: one["names"] for one in follower.end()}["pods"]
    wanted = ["a", *(f"{when}-{number}" for when in ("before", "after") for number in range(3))]
    assert sorted(names) == sorted(f"{namespace}/{name}" for name in wanted)
    if isinstance(restartable.server, KeptCluster):
        # It went on where it was, and listed nothing again.
        later = [one for one in follower.asked if one["path"] == "pods"][1:]
        assert len(later) >= 3
        assert [(one["watch"], one["initial"], bool(one["from"])) for one in later] == [(True, "", True)] * len(later)

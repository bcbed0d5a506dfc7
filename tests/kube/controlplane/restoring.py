"""Put a control plane back to an earlier state, as people do after a disaster.

A backup is a copy of the data of an etcd that stands still. Bumped: before the API servers start, the revision is moved
ahead of all that was ever answered, and everything before it is compacted, which is what `etcdutl snapshot restore
--bump-revision --mark-compacted` does to a snapshot; here by writing to etcd itself, so that no further tool is needed.
"""

import base64
import shutil
import urllib.request
from pathlib import Path
from time import monotonic, sleep

import msgspec

from grove.api.types.meta import JsonObject
from tests.kube.controlplane.plane import READY_SECONDS, Plane

_CLIENTS = ("kube-scheduler", "kube-controller-manager")
# How far ahead of all that was known.
_MARGIN = 100


class Backup(msgspec.Struct, frozen=True):
    folder: Path


def back_up(plane: Plane, name: str = "backup") -> Backup:
    """Etcd is away for a moment; its clients wait for it."""
    plane.stop("etcd")
    folder = plane.folder / name
    shutil.copytree(plane.folder / "etcd", folder)
    plane.start("etcd")
    _await_etcd(plane)
    plane.await_ready()
    return Backup(folder)


def put_back(plane: Plane, backup: Backup, *, is_bumped: bool) -> None:
    """Until the control plane is whole again. What watches it is restarted, but for the operator."""
    reached = _revision(plane)
    for component in (*_CLIENTS, "kube-apiserver", "etcd"):
        plane.stop(component)
    shutil.rmtree(plane.folder / "etcd")
    shutil.copytree(backup.folder, plane.folder / "etcd")
    plane.start("etcd")
    _await_etcd(plane)
    if is_bumped:
        _bump(plane, reached + _MARGIN)
    plane.start("kube-apiserver")
    plane.await_ready()
    for component in _CLIENTS:
        plane.start(component)


def _bump(plane: Plane, beyond: int) -> None:
    key = base64.b64encode(b"/bump").decode()
    revision = _revision(plane)
    while revision <= beyond:
        answer = _ask(plane, "kv/put", {"key": key, "value": ""})
        revision = int(answer["header"]["revision"])
    _ask(plane, "kv/compaction", {"revision": str(revision), "physical": True})


def _revision(plane: Plane) -> int:
    return int(_ask(plane, "maintenance/status", {})["header"]["revision"])


def _await_etcd(plane: Plane) -> None:
    deadline = monotonic() + READY_SECONDS
    while True:
        try:
            _revision(plane)
        except OSError:
            assert monotonic() < deadline, "etcd does not answer"
            sleep(0.05)
        else:
            return


def _ask(plane: Plane, path: str, body: JsonObject) -> JsonObject:
    request = urllib.request.Request(f"{plane.etcd_url}/v3/{path}", data=msgspec.json.encode(body))
    with urllib.request.urlopen(request, timeout=10) as answer:
        decoded: JsonObject = msgspec.json.decode(answer.read())
        return decoded

"""Whatever a pod says, its files stay in its folder: also if no API server looked at it before."""

import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from grove.api.types.meta import JsonObject, ObjectMeta
from grove.cluster.kubelet.process.environment import DownwardAPI
from grove.cluster.kubelet.process.pod_spec import Container, NotRunnable, RunnablePodSpec, Volume
from grove.cluster.kubelet.process.volumes import PodDirectory

AROUND = DownwardAPI(metadata=ObjectMeta(name="a"), spec=RunnablePodSpec(), pod_ip="", host_ip="", allocatable={})


class Contents:
    """One config map and one secret, both called `c`."""

    def __init__(self, **keys: str) -> None:
        self._keys = {key.replace("_", "/"): value.encode() for key, value in (keys or {"key": "k3y"}).items()}

    def config_map(self, name: str) -> Mapping[str, bytes] | None:
        return self._keys if name == "c" else None

    def secret(self, name: str) -> Mapping[str, bytes] | None:
        return self._keys if name == "c" else None


@pytest.fixture
def home(tmp_path: Path) -> PodDirectory:
    """In a folder of folders, so that some ways up are still ours."""
    folder = tmp_path / "machine" / "pods" / "0"
    folder.parent.mkdir(parents=True)
    return PodDirectory(folder)


def outside(home: PodDirectory) -> list[str]:
    """What lies beside the pod's folder, and above it."""
    top = home.path.parent.parent.parent
    return sorted(
        str(path.relative_to(top))
        for path in top.rglob("*")
        if not path.is_relative_to(home.path) and path not in home.path.parents
    )


def volume(name: str, **source: Any) -> Volume:
    return msgspec.convert({"name": name, **(source or {"emptyDir": {}})}, Volume)


def container(**fields: Any) -> Container:
    return msgspec.convert({"name": "main", "image": "x", **fields}, Container)


def fill(home: PodDirectory, *volumes: Volume, contents: Contents | None = None) -> None:
    home.fill(volumes, AROUND, contents or Contents())


def items(path: str) -> JsonObject:
    return {"name": "c", "items": [{"key": "key", "path": path}]}


NAMES = ["../../..", "..", ".", "", "/etc", "a/b", "A", "a\0b", "x" * 64]
PATHS = ["../x", "a/../../x", "/etc/x", "..", ".", "", "a\0b"]


@pytest.mark.parametrize("name", NAMES)
def test_a_volume_whose_name_is_no_name_is_refused(home: PodDirectory, name: str) -> None:
    with pytest.raises(NotRunnable):
        fill(home, volume(name, configMap={"name": "c"}))
    assert outside(home) == []


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kind", ["configMap", "secret", "projected", "downwardAPI"])
def test_a_file_whose_path_leads_out_of_its_volume_is_refused(home: PodDirectory, kind: str, path: str) -> None:
    sources = {
        "configMap": items(path),
        "secret": {"secretName": "c", "items": items(path)["items"]},
        "projected": {"sources": [{"secret": items(path)}]},
        "downwardAPI": {"items": [{"path": path, "fieldRef": {"fieldPath": "metadata.name"}}]},
    }
    with pytest.raises(NotRunnable):
        fill(home, volume("v", **{kind: sources[kind]}))
    assert outside(home) == []


def test_a_key_that_is_a_path_stays_in_its_volume(home: PodDirectory) -> None:
    with pytest.raises(NotRunnable):
        fill(home, volume("v", configMap={"name": "c"}), contents=Contents(**{".._x": "1"}))
    assert outside(home) == []


@pytest.mark.parametrize("sub_path", PATHS[:4])
def test_a_sub_path_that_leads_out_of_its_volume_is_refused(home: PodDirectory, sub_path: str) -> None:
    fill(home, volume("v"))
    for field in ("subPath", "subPathExpr"):
        with pytest.raises(NotRunnable):
            home.mount(container(volumeMounts=[{"name": "v", "mountPath": "/data", field: sub_path}]), {})
    assert outside(home) == []


def test_a_variable_does_not_lead_out_of_a_volume_either(home: PodDirectory) -> None:
    fill(home, volume("v"))
    mounts = [{"name": "v", "mountPath": "/data", "subPathExpr": "$(WAY)/x"}]
    with pytest.raises(NotRunnable):
        home.mount(container(volumeMounts=mounts), {"WAY": "../.."})
    assert outside(home) == []


@pytest.mark.parametrize("name", NAMES)
def test_a_mount_of_a_volume_whose_name_is_no_name_is_refused(home: PodDirectory, name: str) -> None:
    fill(home, volume("v"))
    with pytest.raises(NotRunnable):
        home.mount(container(volumeMounts=[{"name": name, "mountPath": "/data"}]), {})
    assert outside(home) == []


@pytest.mark.parametrize("mount_path", ["/../../../x", "../../../x", "/a/../../../../x", "//x", "/x/"])
def test_a_mount_path_is_a_place_in_the_root_of_its_container(home: PodDirectory, mount_path: str) -> None:
    fill(home, volume("v"))
    home.mount(container(volumeMounts=[{"name": "v", "mountPath": mount_path}]), {})
    assert (home.root("main") / "x").resolve() == (home.path / "volumes" / "v").resolve()
    assert outside(home) == []


@pytest.mark.parametrize("mount_path", ["/", "", "a\0b", "/.."])
def test_a_mount_path_that_is_none_is_refused(home: PodDirectory, mount_path: str) -> None:
    fill(home, volume("v"))
    with pytest.raises(NotRunnable):
        home.mount(container(volumeMounts=[{"name": "v", "mountPath": mount_path}]), {})
    assert outside(home) == []


@pytest.mark.parametrize("name", NAMES)
def test_a_container_whose_name_is_no_name_is_refused(home: PodDirectory, name: str) -> None:
    fill(home)
    with pytest.raises(NotRunnable):
        home.mount(container(name=name), {})
    with pytest.raises(NotRunnable):
        home.log_file(name, 0)
    assert outside(home) == []


# --- links that a container made -------------------------------------------------------------------------------------


@pytest.fixture
def elsewhere(home: PodDirectory) -> Path:
    """A folder outside, with a file, to which a container of the pod made links in its volume."""
    folder = home.path.parent.parent / "elsewhere"
    folder.mkdir()
    (folder / "file").write_text("precious")
    fill(home, volume("v"))
    for name, target in (("folder", folder), ("file", folder / "file")):
        (home.path / "volumes" / "v" / name).symlink_to(target)
    return folder


def test_a_sub_path_does_not_follow_a_link_out_of_its_volume(home: PodDirectory, elsewhere: Path) -> None:
    for sub_path in ("folder", "folder/new", "file"):
        with pytest.raises(NotRunnable):
            home.mount(container(volumeMounts=[{"name": "v", "mountPath": "/data", "subPath": sub_path}]), {})
    assert [path.name for path in elsewhere.iterdir()] == ["file"]


def test_files_of_a_volume_do_not_follow_a_link_out_of_it(home: PodDirectory, elsewhere: Path) -> None:
    with pytest.raises(NotRunnable):
        fill(home, volume("v", configMap=items("folder/key")))
    fill(home, volume("v", configMap=items("file")))
    assert [path.name for path in elsewhere.iterdir()] == ["file"]
    assert (elsewhere / "file").read_text() == "precious"
    assert (home.path / "volumes" / "v" / "file").read_text() == "k3y"


@pytest.mark.parametrize("path", ["/data/file", "/data/folder/file", "/../../../x"])
def test_the_last_words_of_a_container_do_not_follow_a_link_out_of_its_folder(
    home: PodDirectory, elsewhere: Path, path: str
) -> None:
    """At its second start the links of its mounts are there already."""
    one = container(terminationMessagePath=path, volumeMounts=[{"name": "v", "mountPath": "/data"}])
    for _ in range(2):
        home.mount(one, {})
        home.termination_log(one).write_text("bye")
    assert (elsewhere / "file").read_text() == "precious"
    assert [path for path in outside(home) if "elsewhere" not in path] == []


# --- modes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "expected"),
    [(None, 0o600), (0o644, 0o600), (0o444, 0o400), (0o755, 0o700), (0o400, 0o400)],
)
def test_the_files_of_a_secret_are_for_their_owner_only(home: PodDirectory, mode: int | None, expected: int) -> None:
    modes = {} if mode is None else {"defaultMode": mode}
    chosen = items("deep/down/key")["items"]
    fill(
        home,
        volume("one", secret={"secretName": "c", **modes}),
        volume("two", secret={"secretName": "c", "items": chosen, **modes}),
        volume("three", projected={"sources": [{"secret": items("deep/key")}], **modes}),
    )
    volumes = home.path / "volumes"
    files = [path for path in volumes.rglob("*") if path.is_file()]
    folders = [path for path in (home.path, volumes, *volumes.rglob("*")) if path.is_dir()]
    assert [path.read_text() for path in files] == ["k3y"] * 3
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {expected}
    assert {stat.S_IMODE(path.stat().st_mode) for path in folders} == {0o700}


def test_the_files_of_a_config_map_have_the_mode_that_was_asked_for(home: PodDirectory) -> None:
    fill(home, volume("v", configMap={"name": "c", "defaultMode": 0o640}), volume("w", configMap={"name": "c"}))
    modes = [stat.S_IMODE((home.path / "volumes" / name / "key").stat().st_mode) for name in ("v", "w")]
    assert modes == [0o640, 0o644]

"""The private folder of a pod: its volumes, where each container finds them, its home, its logs.

There are no mounts. Each container has a `root`, in which a mount path is a link to its volume: `/data` is `ROOT/data`.
Who tells the program is `container.py`.

Nothing is written outside of this folder, whatever a pod says, except what a hostPath asks for. Names and paths of a
pod are checked again here, also where they lead through links that its containers made.
"""

import contextlib
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from grove.api.validation.syntax import dns_label_complaint
from grove.cluster.kubelet.process.environment import ConfigLookup, DownwardAPI, field_value, resource_value
from grove.cluster.kubelet.process.expansion import Mounts, expand, normal_path
from grove.cluster.kubelet.process.pod_spec import (
    ConfigMapFiles,
    Container,
    DownwardFile,
    DownwardFiles,
    HostPath,
    KeyToPath,
    NotRunnable,
    Projected,
    SecretFiles,
    Volume,
    VolumeMount,
)

_FILE_MODE = 0o644
_OWNER_ONLY = 0o700


class PodHome:
    """Everything of one pod on this disk, except what it writes through a hostPath. Readable by its owner only."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.home = path / "home"
        self.temporary = path / "tmp"
        self._host_paths: dict[str, Path] = {}

    def log_file(self, container: str, run: int) -> Path:
        folder = self.path / "logs" / _checked_name("container", container)
        _make_folders(self.path, folder)
        return folder / f"{run}.log"

    def root(self, container: str) -> Path:
        return self.path / "root" / _checked_name("container", container)

    def termination_log(self, container: Container) -> Path:
        """Return where a container leaves its last words: not in a volume, in which a link may lead anywhere."""
        root, path = self.root(container.name), normal_path(container.termination_message_path)
        file = root / path[1:]
        is_mounted = any(f"{path}/".startswith(f"{normal_path(each.mount_path)}/") for each in container.volume_mounts)
        if is_mounted or file == root or file.is_symlink() or not _is_inside(root, file.parent):
            return self.path / "messages" / container.name
        return file

    def fill(self, volumes: tuple[Volume, ...], around: DownwardAPI, lookup: ConfigLookup) -> None:
        """All volumes, made once for all containers. Raises `NotRunnable`; may then be called again."""
        try:
            for folder in (self.path, self.home, self.temporary):
                folder.mkdir(mode=_OWNER_ONLY, exist_ok=True)
        except OSError as error:
            raise NotRunnable(f"{error.filename}: {error.strerror}") from error
        for volume in volumes:
            try:
                self._fill(volume, around, lookup)
            except NotRunnable as problem:
                raise NotRunnable(f"volume {volume.name}: {problem.message}") from None
            except OSError as error:
                raise NotRunnable(f"volume {volume.name}: {error.filename}: {error.strerror}") from error
            except ValueError as error:
                # A path with a null character.
                raise NotRunnable(f"volume {volume.name}: {error}") from error

    def mount(self, container: Container, variables: Mapping[str, str]) -> Mounts:
        """Links for all mounts of a container; where its mount paths lead to. Raises `NotRunnable`."""
        root = self.root(container.name)
        try:
            _make_folders(self.path, root)
            message = self.termination_log(container)
            _make_folders(self.path, message.parent)
            _write_anew(message, b"", 0o600)
            places = {normal_path(container.termination_message_path): str(message)}
            # Outer ones first, so that inner ones find their folder.
            for mount in sorted(container.volume_mounts, key=lambda each: normal_path(each.mount_path)):
                places |= self._mount(root, mount, variables)
        except OSError as error:
            raise NotRunnable(f"container {container.name}: {error.filename}: {error.strerror}") from error
        except ValueError as error:
            raise NotRunnable(f"container {container.name}: {error}") from error
        return Mounts(places)

    def empty(self) -> None:
        """The pod has ended: all but its logs may go."""
        for folder in (*(self.path / name for name in ("volumes", "root", "messages")), self.home, self.temporary):
            shutil.rmtree(folder, ignore_errors=True)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)

    def _place(self, name: str) -> Path:
        return self._host_paths.get(name) or self.path / "volumes" / name

    def _fill(self, volume: Volume, around: DownwardAPI, lookup: ConfigLookup) -> None:
        _checked_name("volume", volume.name)
        if volume.host_path is not None:
            self._host_paths[volume.name] = _prepared_host_path(volume.host_path)
            return
        folder = self.path / "volumes" / volume.name
        _make_folders(self.path, folder)
        for path, content, mode in _files_of(volume, around, lookup):
            _write_file(folder, path, content, mode)

    def _mount(self, root: Path, mount: VolumeMount, variables: Mapping[str, str]) -> dict[str, str]:
        volume = target = self._place(_checked_name("volume", mount.name))
        if mount.name not in self._host_paths and not target.exists():
            raise NotRunnable(f"volumeMount {mount.mount_path}: there is no volume {mount.name!r} in this pod")
        inner = mount.sub_path or expand(mount.sub_path_expr, variables)
        if inner:
            target = volume / _safe(inner)
            if not _is_inside(volume, target):
                raise NotRunnable(f"volumeMount {mount.mount_path}: subPath {inner!r} is a link out of its volume")
            if not target.exists():
                _make_folders(volume, target)
        path = normal_path(mount.mount_path)
        if path == "/":
            raise NotRunnable("volumeMount /: the root of this machine cannot be replaced; mount it elsewhere")
        link = root / path[1:]
        if not link.parent.resolve().is_relative_to(root.resolve()):
            # Inside another mount: nothing is put into that volume, only the path leads on.
            return {path: str(target)}
        _make_folders(root, link.parent)
        if link.is_symlink():
            link.unlink()
        link.symlink_to(target)
        return {path: str(link)}


def _prepared_host_path(wanted: HostPath) -> Path:
    """Raises `NotRunnable` where this machine does not have what is asked for."""
    path = Path(wanted.path)
    if not path.is_absolute():
        raise NotRunnable(f"hostPath {wanted.path}: is not absolute; write it from the root of this machine")
    match wanted.type:
        case "Directory" if not path.is_dir():
            raise NotRunnable(f"hostPath {wanted.path}: is not a folder of this machine; make it, or DirectoryOrCreate")
        case "File" if not path.is_file():
            raise NotRunnable(f"hostPath {wanted.path}: is not a file of this machine; make it, or use FileOrCreate")
        case "FileOrCreate":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        case "" | "DirectoryOrCreate" if not path.exists():
            path.mkdir(parents=True)
        case _:
            pass
    return path


_File = tuple[str, bytes, int]


def _files_of(volume: Volume, around: DownwardAPI, lookup: ConfigLookup) -> Iterator[_File]:
    """Path, content and mode of each. An emptyDir has none."""
    if volume.config_map is not None:
        yield from _config_map(volume.config_map, lookup, volume.config_map.default_mode)
    if volume.secret is not None:
        yield from _secret(volume.secret, lookup, volume.secret.default_mode)
    if volume.downward_api is not None:
        yield from _downward(volume.downward_api, around, volume.downward_api.default_mode)
    if volume.projected is not None:
        yield from _projected(volume.projected, around, lookup)


def _projected(projected: Projected, around: DownwardAPI, lookup: ConfigLookup) -> Iterator[_File]:
    mode = projected.default_mode
    for source in projected.sources:
        if source.config_map is not None:
            yield from _config_map(source.config_map, lookup, mode)
        elif source.secret is not None:
            yield from _secret(source.secret, lookup, mode)
        elif source.downward_api is not None:
            yield from _downward(source.downward_api, around, mode)
        elif source.service_account_token is not None:
            raise NotRunnable("serviceAccountToken: this cluster issues no tokens; leave it out")
        else:
            raise NotRunnable("a projected source is not supported: use configMap, secret or downwardAPI")


def _config_map(wanted: ConfigMapFiles, lookup: ConfigLookup, mode: int | None) -> Iterator[_File]:
    found = lookup.config_map(wanted.name)
    if found is None and not wanted.optional:
        raise NotRunnable(f'configmap "{wanted.name}" not found')
    return _chosen(found or {}, wanted.items, mode, is_optional=wanted.optional)


def _secret(wanted: SecretFiles, lookup: ConfigLookup, mode: int | None) -> Iterator[_File]:
    name = wanted.secret_name or wanted.name
    found = lookup.secret(name)
    if found is None and not wanted.optional:
        raise NotRunnable(f'secret "{name}" not found')
    # On a machine that others may use too, whatever mode was asked for.
    chosen = _chosen(found or {}, wanted.items, mode, is_optional=wanted.optional)
    return ((path, content, each & _OWNER_ONLY) for path, content, each in chosen)


def _chosen(
    content: Mapping[str, bytes], items: tuple[KeyToPath, ...], mode: int | None, *, is_optional: bool
) -> Iterator[_File]:
    if not items:
        yield from ((key, value, mode or _FILE_MODE) for key, value in content.items())
        return
    for item in items:
        if item.key in content:
            yield item.path, content[item.key], item.mode or mode or _FILE_MODE
        elif not is_optional:
            raise NotRunnable(f"references non-existent key {item.key}")


def _downward(files: DownwardFiles, around: DownwardAPI, mode: int | None) -> Iterator[_File]:
    for item in files.items:
        yield item.path, _downward_value(item, around).encode(), item.mode or mode or _FILE_MODE


def _downward_value(item: DownwardFile, around: DownwardAPI) -> str:
    if item.field_ref is not None:
        return field_value(item.field_ref, around)
    if item.resource_field_ref is not None:
        return resource_value(item.resource_field_ref, around.spec.containers[0], around)
    raise NotRunnable(f"downwardAPI {item.path}: says nothing; add fieldRef or resourceFieldRef")


def _write_file(folder: Path, path: str, content: bytes, mode: int) -> None:
    file = folder / _safe(path)
    if not _is_inside(folder, file.parent):
        raise NotRunnable(f"path {path!r} leads out of its volume, by a link; write it without that")
    _make_folders(folder, file.parent)
    _write_anew(file, content, mode)


def _write_anew(file: Path, content: bytes, mode: int) -> None:
    """An earlier attempt may have left a file that must not be written to, or a container a link."""
    with contextlib.suppress(FileNotFoundError):
        file.unlink()
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as opened:
        opened.write(content)
    os.chmod(file, mode)


def _make_folders(base: Path, folder: Path) -> None:
    """Make a folder below another with all that is between them, for their owner only."""
    for parent in reversed((folder, *folder.parents)):
        if parent.is_relative_to(base) and parent != base:
            parent.mkdir(mode=_OWNER_ONLY, exist_ok=True)


def _is_inside(base: Path, path: Path) -> bool:
    """Does a path lead to somewhere below another, whatever links there are on its way?"""
    return path.resolve().is_relative_to(base.resolve())


def _checked_name(what: str, name: str) -> str:
    """A name that becomes a folder; raises `NotRunnable`. The API server checks it too."""
    if error_message := dns_label_complaint(name):
        raise NotRunnable(f"{what} {name!r} cannot be the name of a folder: {error_message}")
    return name


def _safe(path: str) -> str:
    """A path that stays inside its volume; raises `NotRunnable`."""
    if os.path.isabs(path) or ".." in path.split("/"):
        raise NotRunnable(f"path {path!r} leads out of its volume; write it without a leading / and without ..")
    return path

"""The private directory of a pod: volumes, container roots, home directory and logs.

There are no mounts. Each container has a `root`, where a mount path is a link to its volume: `/data` is `ROOT/data`.
`container_command.py` passes these paths to the program.

Nothing is written outside of this directory, except through a hostPath. Names and paths of a pod are checked again
here, also when they lead through links that its containers created.
"""

import contextlib
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from grove.api.validation.syntax import check_dns_label
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
from grove.cluster.kubelet.service_account_tokens import Tokens

_FILE_MODE = 0o644
_OWNER_ONLY = 0o700
_OWNER_READS = 0o600
_NO_TOKENS: Tokens = {}


class PodDirectory:
    """All files of one pod, except those of a hostPath. Only the owner can read them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.home = path / "home"
        self.temporary = path / "tmp"
        self._host_paths: dict[str, Path] = {}

    def log_file(self, container: str, run: int) -> Path:
        folder = self.path / "logs" / _check_name("container", container)
        _make_folders(self.path, folder)
        return folder / f"{run}.log"

    def root(self, container: str) -> Path:
        return self.path / "root" / _check_name("container", container)

    def termination_log(self, container: Container) -> Path:
        """Return the termination log of a container. It is never in a volume, where a link may lead anywhere."""
        root, path = self.root(container.name), normal_path(container.termination_message_path)
        file = root / path[1:]
        is_mounted = any(f"{path}/".startswith(f"{normal_path(each.mount_path)}/") for each in container.volume_mounts)
        if is_mounted or file == root or file.is_symlink() or not _is_inside(root, file.parent):
            return self.path / "messages" / container.name
        return file

    def fill(
        self, volumes: tuple[Volume, ...], downward_api: DownwardAPI, lookup: ConfigLookup, tokens: Tokens = _NO_TOKENS
    ) -> None:
        """Create all volumes, once for all containers. Raises `NotRunnable`; then it can be called again."""
        try:
            for folder in (self.path, self.home, self.temporary):
                folder.mkdir(mode=_OWNER_ONLY, exist_ok=True)
        except OSError as error:
            raise NotRunnable(f"{error.filename}: {error.strerror}") from error
        for volume in volumes:
            try:
                self._fill(volume, downward_api, lookup, tokens)
            except NotRunnable as error:
                raise NotRunnable(f"volume {volume.name}: {error.message}") from None
            except OSError as error:
                raise NotRunnable(f"volume {volume.name}: {error.filename}: {error.strerror}") from error
            except ValueError as error:
                # A path contains a null character.
                raise NotRunnable(f"volume {volume.name}: {error}") from error

    def mount(self, container: Container, variables: Mapping[str, str]) -> Mounts:
        """Create links for the mounts of a container; return where its mount paths lead. Raises `NotRunnable`."""
        root = self.root(container.name)
        try:
            _make_folders(self.path, root)
            message = self.termination_log(container)
            _make_folders(self.path, message.parent)
            _replace_file(message, b"", 0o600)
            targets = {normal_path(container.termination_message_path): str(message)}
            # Outer mounts first, so that inner ones find their parent.
            for mount in sorted(container.volume_mounts, key=lambda each: normal_path(each.mount_path)):
                targets |= self._mount(root, mount, variables)
        except OSError as error:
            raise NotRunnable(f"container {container.name}: {error.filename}: {error.strerror}") from error
        except ValueError as error:
            raise NotRunnable(f"container {container.name}: {error}") from error
        return Mounts(targets)

    def empty(self) -> None:
        """Remove all files of an ended pod except its logs."""
        for folder in (*(self.path / name for name in ("volumes", "root", "messages")), self.home, self.temporary):
            shutil.rmtree(folder, ignore_errors=True)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)

    def _volume_path(self, name: str) -> Path:
        return self._host_paths.get(name) or self.path / "volumes" / name

    def _fill(self, volume: Volume, downward_api: DownwardAPI, lookup: ConfigLookup, tokens: Tokens) -> None:
        _check_name("volume", volume.name)
        if volume.host_path is not None:
            self._host_paths[volume.name] = _prepare_host_path(volume.host_path)
            return
        folder = self.path / "volumes" / volume.name
        _make_folders(self.path, folder)
        for path, content, mode in _files_of(volume, downward_api, lookup, tokens):
            _write_file(folder, path, content, mode)

    def _mount(self, root: Path, mount: VolumeMount, variables: Mapping[str, str]) -> dict[str, str]:
        volume = target = self._volume_path(_check_name("volume", mount.name))
        if mount.name not in self._host_paths and not target.exists():
            raise NotRunnable(f"volumeMount {mount.mount_path}: there is no volume {mount.name!r} in this pod")
        inner = mount.sub_path or expand(mount.sub_path_expr, variables)
        if inner:
            target = volume / _check_relative(inner)
            if not _is_inside(volume, target):
                raise NotRunnable(f"volumeMount {mount.mount_path}: subPath {inner!r} is a link out of its volume")
            if not target.exists():
                _make_folders(volume, target)
        path = normal_path(mount.mount_path)
        if path == "/":
            raise NotRunnable("volumeMount /: a volume cannot replace the root of this machine; use another mountPath")
        link = root / path[1:]
        if not link.parent.resolve().is_relative_to(root.resolve()):
            # The mount is inside another volume: do not write there, only translate the path.
            return {path: str(target)}
        _make_folders(root, link.parent)
        if link.is_symlink():
            link.unlink()
        link.symlink_to(target)
        return {path: str(link)}


def _prepare_host_path(source: HostPath) -> Path:
    """Check or create a hostPath. Raises `NotRunnable` if it does not exist as requested."""
    path = Path(source.path)
    if not path.is_absolute():
        raise NotRunnable(f"hostPath {source.path}: is not absolute; use an absolute path")
    match source.type:
        case "Directory" if not path.is_dir():
            raise NotRunnable(f"hostPath {source.path}: is not a directory; create it, or use DirectoryOrCreate")
        case "File" if not path.is_file():
            raise NotRunnable(f"hostPath {source.path}: is not a file; create it, or use FileOrCreate")
        case "FileOrCreate":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        case "" | "DirectoryOrCreate" if not path.exists():
            path.mkdir(parents=True)
        case _:
            pass
    return path


_File = tuple[str, bytes, int]


def _files_of(volume: Volume, downward_api: DownwardAPI, lookup: ConfigLookup, tokens: Tokens) -> Iterator[_File]:
    """Yield path, content and mode of each file. An emptyDir has none."""
    if volume.config_map is not None:
        yield from _config_map_files(volume.config_map, lookup, volume.config_map.default_mode)
    if volume.secret is not None:
        yield from _secret_files(volume.secret, lookup, volume.secret.default_mode)
    if volume.downward_api is not None:
        yield from _downward_api_files(volume.downward_api, downward_api, volume.downward_api.default_mode)
    if volume.projected is not None:
        yield from _projected_files(volume.projected, downward_api, lookup, tokens)


def _projected_files(
    projected: Projected, downward_api: DownwardAPI, lookup: ConfigLookup, tokens: Tokens
) -> Iterator[_File]:
    mode = projected.default_mode
    for source in projected.sources:
        if source.config_map is not None:
            yield from _config_map_files(source.config_map, lookup, mode)
        elif source.secret is not None:
            yield from _secret_files(source.secret, lookup, mode)
        elif source.downward_api is not None:
            yield from _downward_api_files(source.downward_api, downward_api, mode)
        elif source.service_account_token is not None:
            yield source.service_account_token.path, tokens[source.service_account_token], _OWNER_READS
        else:
            raise NotRunnable("a projected source is not supported: use another source")


def _config_map_files(source: ConfigMapFiles, lookup: ConfigLookup, mode: int | None) -> Iterator[_File]:
    found = lookup.config_map(source.name)
    if found is None and not source.optional:
        raise NotRunnable(f'configmap "{source.name}" not found')
    return _select_keys(found or {}, source.items, mode, is_optional=source.optional)


def _secret_files(source: SecretFiles, lookup: ConfigLookup, mode: int | None) -> Iterator[_File]:
    name = source.secret_name or source.name
    found = lookup.secret(name)
    if found is None and not source.optional:
        raise NotRunnable(f'secret "{name}" not found')
    # For the owner only, because other users may share this machine.
    selected = _select_keys(found or {}, source.items, mode, is_optional=source.optional)
    return ((path, content, each & _OWNER_ONLY) for path, content, each in selected)


def _select_keys(
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


def _downward_api_files(files: DownwardFiles, downward_api: DownwardAPI, mode: int | None) -> Iterator[_File]:
    for item in files.items:
        yield item.path, _downward_value(item, downward_api).encode(), item.mode or mode or _FILE_MODE


def _downward_value(item: DownwardFile, downward_api: DownwardAPI) -> str:
    if item.field_ref is not None:
        return field_value(item.field_ref, downward_api)
    if item.resource_field_ref is not None:
        return resource_value(item.resource_field_ref, downward_api.spec.containers[0], downward_api)
    raise NotRunnable(f"downwardAPI {item.path}: has no source; add fieldRef or resourceFieldRef")


def _write_file(folder: Path, path: str, content: bytes, mode: int) -> None:
    file = folder / _check_relative(path)
    if not _is_inside(folder, file.parent):
        raise NotRunnable(f"path {path!r} leads out of its volume through a link; change it")
    _make_folders(folder, file.parent)
    _replace_file(file, content, mode)


def _replace_file(file: Path, content: bytes, mode: int) -> None:
    """Write a new file: the old one may be read-only, or a link of a container."""
    with contextlib.suppress(FileNotFoundError):
        file.unlink()
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as opened:
        opened.write(content)
    os.chmod(file, mode)


def _make_folders(base: Path, folder: Path) -> None:
    """Create a directory below another one, and its parents, for the owner only."""
    for parent in reversed((folder, *folder.parents)):
        if parent.is_relative_to(base) and parent != base:
            parent.mkdir(mode=_OWNER_ONLY, exist_ok=True)


def _is_inside(base: Path, path: Path) -> bool:
    """Return whether a path is below another one after links are resolved."""
    return path.resolve().is_relative_to(base.resolve())


def _check_name(what: str, name: str) -> str:
    """Check a name that becomes a directory. Raises `NotRunnable`. The API server checks it too."""
    if error_message := check_dns_label(name):
        raise NotRunnable(f"{what} {name!r} cannot be a directory name: {error_message}")
    return name


def _check_relative(path: str) -> str:
    """Check that a path stays inside its volume. Raises `NotRunnable`."""
    if os.path.isabs(path) or ".." in path.split("/"):
        raise NotRunnable(f"path {path!r} leads out of its volume; remove the leading / and any ..")
    return path

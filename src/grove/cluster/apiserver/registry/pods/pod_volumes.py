"""Validation of volumes and volume mounts of new pods."""

from collections.abc import Iterator

import msgspec

from grove.api.validation.field_errors import FieldError, duplicate, invalid, not_found, required
from grove.cluster.apiserver.registry.metadata import find_dns_label_error

_MODE_MESSAGE = "must be a number between 0 and 0777 (octal), both inclusive"


class Item(msgspec.Struct, frozen=True):
    """A file of a volume."""

    key: str | None = None
    path: str | None = None
    mode: int | None = None


class Files(msgspec.Struct, frozen=True):
    """A volume source that consists of files."""

    items: list[Item] | None = None


class Source(msgspec.Struct, frozen=True, rename="camel"):
    config_map: Files | None = None
    secret: Files | None = None
    downward_api: Files | None = msgspec.field(default=None, name="downwardAPI")


class ProjectedFields(msgspec.Struct, frozen=True):
    sources: list[Source] | None = None


class VolumeFields(Source, frozen=True, rename="camel"):
    name: str | None = None
    projected: ProjectedFields | None = None


class Mount(msgspec.Struct, frozen=True, rename="camel"):
    name: str | None = None
    mount_path: str | None = None
    sub_path: str | None = None
    sub_path_expr: str | None = None


def check_volumes(volumes: list[VolumeFields]) -> tuple[list[FieldError], frozenset[str]]:
    """Return the errors, and the names of the valid volumes: only these can be mounted."""
    errors: list[FieldError] = []
    volume_names: set[str] = set()
    for i, volume in enumerate(volumes):
        found = [*_validate_volume(volume, volume_names, f"spec.volumes[{i}]")]
        errors += found
        if not found and volume.name:
            volume_names.add(volume.name)
    return errors, frozenset(volume_names)


def _validate_volume(volume: VolumeFields, volume_names: set[str], path: str) -> Iterator[FieldError]:
    yield from _validate_source(volume, path)
    for k, source in enumerate(volume.projected.sources or [] if volume.projected else []):
        yield from _validate_source(source, f"{path}.projected.sources[{k}]")
    name = volume.name or ""
    if not name:
        yield required(f"{path}.name", "")
    elif error_message := find_dns_label_error(name):
        yield invalid(f"{path}.name", name, error_message)
    if name in volume_names:
        yield duplicate(f"{path}.name", name, "")


def validate_mounts(mounts: list[Mount], volume_names: frozenset[str], path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for i, mount in enumerate(mounts):
        at, where = f"{path}[{i}]", mount.mount_path or ""
        if not mount.name:
            yield required(f"{at}.name", "")
        if mount.name not in volume_names:
            yield not_found(f"{at}.name", mount.name or "", "")
        if not where:
            yield required(f"{at}.mountPath", "")
        if where in seen:
            yield invalid(f"{at}.mountPath", where, "must be unique")
        seen.add(where)
        # A real server names the list here, not the mount.
        yield from _validate_relative_path(mount.sub_path or "", f"{path}.subPath")
        if mount.sub_path and mount.sub_path_expr:
            message = "subPathExpr and subPath are mutually exclusive"
            yield invalid(f"{at}.subPathExpr", mount.sub_path_expr, message)
        yield from _validate_relative_path(mount.sub_path_expr or "", f"{path}.subPathExpr")


def _validate_source(source: Source, path: str) -> Iterator[FieldError]:
    for field, files in (("secret", source.secret), ("configMap", source.config_map)):
        for k, item in enumerate(files.items or [] if files else []):
            yield from _validate_item(item, f"{path}.{field}.items[{k}]")
    for item in source.downward_api.items or [] if source.downward_api else []:
        at = f"{path}.downwardAPI"
        if not item.path:
            yield required(f"{at}.path", "")
        yield from _validate_file_path(item.path or "", f"{at}.path")


def _validate_item(item: Item, path: str) -> Iterator[FieldError]:
    if not item.key:
        yield required(f"{path}.key", "")
    if not item.path:
        yield required(f"{path}.path", "")
    yield from _validate_file_path(item.path or "", f"{path}.path")
    if item.mode is not None and not 0 <= item.mode <= 0o777:
        yield invalid(f"{path}.mode", item.mode, _MODE_MESSAGE)


def _validate_file_path(value: str, path: str) -> Iterator[FieldError]:
    yield from _validate_relative_path(value, path)
    if value.startswith("..") and not value.startswith("../"):
        yield invalid(path, value, "must not start with '..'")


def _validate_relative_path(value: str, path: str) -> Iterator[FieldError]:
    """Return the errors of a relative path, which must not leave its root."""
    if value.startswith("/"):
        yield invalid(path, value, "must be a relative path")
    if ".." in value.split("/"):
        yield invalid(path, value, "must not contain '..'")

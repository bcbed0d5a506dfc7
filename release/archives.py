"""Archives of a release. The same files give the same bytes, whenever and wherever they are packed."""

import gzip
import io
import tarfile
from pathlib import Path

import yaml


def package_chart(chart: Path, folder: Path) -> Path:
    """Pack a Helm chart as `helm package` does. Links are replaced by the files that they lead to."""
    described = yaml.safe_load((chart / "Chart.yaml").read_text())
    target = folder / f"{described['name']}-{described['version']}.tgz"
    files = sorted(path for path in _walk(chart) if path.name != ".helmignore")
    _pack(target, {f"{described['name']}/{path.relative_to(chart).as_posix()}": path for path in files})
    return target


def add_plugin(launcher: Path, wheel: Path, license_file: Path, folder: Path) -> Path:
    """Pack the kubectl plugin: a launcher with the wheel next to it."""
    version = wheel.name.split("-")[1]
    target = folder / f"kubectl-grove-{version}.tar.gz"
    _pack(target, {path.name: path for path in (launcher, wheel, license_file)})
    return target


def _walk(folder: Path) -> list[Path]:
    """Return all files, also those of linked folders."""
    found: list[Path] = []
    for path in folder.iterdir():
        found += _walk(path) if path.is_dir() else [path]
    return found


def _pack(target: Path, files: dict[str, Path]) -> None:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, path in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = path.stat().st_size
            entry.mode = 0o755 if path.stat().st_mode & 0o100 else 0o644
            with path.open("rb") as file:
                archive.addfile(entry, file)
    target.write_bytes(gzip.compress(content.getvalue(), mtime=0))

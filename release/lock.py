"""Requirements with hashes, for `pip install --require-hashes`: which file of each package, and nothing else.

They are made at release time for the platform of the build, from the index that pip uses. No address is written.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec

HASH = "--hash"


class ArchiveInfo(msgspec.Struct, frozen=True):
    hashes: dict[str, str] = {}


class DownloadInfo(msgspec.Struct, frozen=True):
    archive_info: ArchiveInfo = ArchiveInfo()


class PackageMetadata(msgspec.Struct, frozen=True):
    name: str
    version: str


class InstallItem(msgspec.Struct, frozen=True):
    """One package that pip would install."""

    metadata: PackageMetadata
    download_info: DownloadInfo


class InstallReport(msgspec.Struct, frozen=True):
    """The installation report of pip."""

    install: tuple[InstallItem, ...]


def locked_requirements(wheel: Path, constraints: Path) -> str:
    """Return the lines for everything that the wheel needs. Exits with the message of pip if it fails."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
        options = ["--dry-run", "--ignore-installed", "--only-binary", ":all:", "--report", str(report)]
        command = [*pip, *options, "--constraint", str(constraints), str(wheel)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"release: pip cannot resolve the requirements; --no-lock leaves them out\n{done.stderr}")
        return requirement_lines(msgspec.json.decode(report.read_bytes(), type=InstallReport), wheel)


def requirement_lines(report: InstallReport, wheel: Path) -> str:
    """Return one line per package, sorted. The wheel itself is left out: it is next to the file."""
    own = wheel.name.split("-")[0].replace("_", "-")
    lines = [
        f"{one.metadata.name}=={one.metadata.version} {HASH}=sha256:{one.download_info.archive_info.hashes['sha256']}\n"
        for one in report.install
        if one.metadata.name.replace("_", "-") != own
    ]
    return "".join(sorted(lines, key=str.lower))

"""Builds the control plane of the tests from Go modules, once: `python -m tests.kube.controlplane.build [VERSION]`.

The binary is kept outside the tree, keyed by everything that goes into it. Running it is `plane.py`.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
DEFAULT_VERSION = "1.37.1"
# `go.mod` is the default version's; each other version has a file of its own.
MODULE_FILES = {DEFAULT_VERSION: "go.mod", "1.35.8": "1.35.8.mod"}


class CannotBuildError(Exception):
    """Says what is missing; the person at the keyboard acts."""


def chosen_version() -> str:
    return os.environ.get("KUBE_VERSION") or DEFAULT_VERSION


def binary(version: str) -> Path:
    """Where the control plane of this version is, or will be."""
    return _cache() / f"{version}-{_key(version)}" / "controlplane"


def build(version: str) -> Path:
    """The binary, built if it is not there yet: minutes when nothing is cached."""
    target = binary(version)
    if target.exists():
        return target
    go = shutil.which("go")
    if go is None:
        raise CannotBuildError("make test-kube needs Go 1.26 or newer on the PATH, to build the real control plane")
    print(f"building Kubernetes {version} into {target.parent} (about 7 minutes, once)", file=sys.stderr, flush=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    done = subprocess.run(_command(go, version, draft), cwd=HERE, env={**os.environ, "CGO_ENABLED": "0"}, check=False)
    if done.returncode != 0:
        raise CannotBuildError(f"go build of Kubernetes {version} failed; its words are above")
    draft.rename(target)
    return target


def _command(go: str, version: str, target: Path) -> list[str]:
    major, minor, _ = version.split(".")
    stamp = "k8s.io/component-base/version."
    flags = f"-s -w -X {stamp}gitVersion=v{version} -X {stamp}gitMajor={major} -X {stamp}gitMinor={minor}"
    return [go, "build", f"-modfile={MODULE_FILES[version]}", "-trimpath", "-ldflags", flags, "-o", str(target), "."]


def _key(version: str) -> str:
    if version not in MODULE_FILES:
        raise CannotBuildError(f"KUBE_VERSION={version} is not one of {', '.join(MODULE_FILES)}")
    modules = HERE / MODULE_FILES[version]
    inputs = (HERE / "main.go", modules, modules.with_suffix(".sum"))
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in inputs)).hexdigest()[:12]


def _cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "grove" / "controlplane"


if __name__ == "__main__":
    try:
        print(build(sys.argv[1] if len(sys.argv) > 1 else chosen_version()))
    except CannotBuildError as error:
        sys.exit(str(error))

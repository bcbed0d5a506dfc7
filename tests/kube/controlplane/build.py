"""Builds the Go programs of the tests from modules, once each: `python -m tests.kube.controlplane.build [VERSION]`.

They are the control plane, which `plane.py` runs, and a client of it. Each binary is kept outside the tree, keyed by
everything that goes into it.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec

HERE = Path(__file__).parent
DEFAULT_VERSION = "1.37.1"
# `go.mod` is the default version's; each other version has a file of its own.
MODULE_FILES = {DEFAULT_VERSION: "go.mod", "1.35.8": "1.35.8.mod"}


class CannotBuildError(Exception):
    """Says what is missing; the person at the keyboard acts."""


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """A program of the module beside this file."""

    name: str
    # The folder of its package, and what of it is compiled.
    package: str
    sources: tuple[str, ...]
    told: str


CONTROL_PLANE = Program(name="controlplane", package=".", sources=("main.go",), told="about 7 minutes, once")
GO_CLIENT = Program(
    name="goclient",
    package="./goclient",
    sources=("goclient/follow.go", "goclient/main.go", "goclient/steps.go"),
    told="about a minute, once",
)
PROGRAMS = (CONTROL_PLANE, GO_CLIENT)


def chosen_version() -> str:
    return os.environ.get("KUBE_VERSION") or DEFAULT_VERSION


def binary(version: str, program: Program = CONTROL_PLANE) -> Path:
    """Where the program of this version is, or will be."""
    return _cache() / f"{version}-{_key(version, program)}" / program.name


def build(version: str, program: Program = CONTROL_PLANE) -> Path:
    """The binary, built if it is not there yet: minutes when nothing is cached."""
    target = binary(version, program)
    if target.exists():
        return target
    go = shutil.which("go")
    if go is None:
        raise CannotBuildError("make test-kube needs Go 1.26 or newer on the PATH, to build the real control plane")
    what = f"{program.name} of Kubernetes {version}"
    print(f"building {what} into {target.parent} ({program.told})", file=sys.stderr, flush=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    command = _command(go, version, program, draft)
    done = subprocess.run(command, cwd=HERE, env={**os.environ, "CGO_ENABLED": "0"}, check=False)
    if done.returncode != 0:
        raise CannotBuildError(f"go build of {what} failed; its words are above")
    draft.rename(target)
    return target


def _command(go: str, version: str, program: Program, target: Path) -> list[str]:
    major, minor, _ = version.split(".")
    stamp = "k8s.io/component-base/version."
    flags = f"-s -w -X {stamp}gitVersion=v{version} -X {stamp}gitMajor={major} -X {stamp}gitMinor={minor}"
    modules = f"-modfile={MODULE_FILES[version]}"
    return [go, "build", modules, "-trimpath", "-ldflags", flags, "-o", str(target), program.package]


def _key(version: str, program: Program) -> str:
    if version not in MODULE_FILES:
        raise CannotBuildError(f"KUBE_VERSION={version} is not one of {', '.join(MODULE_FILES)}")
    modules = HERE / MODULE_FILES[version]
    inputs = (*(HERE / source for source in program.sources), modules, modules.with_suffix(".sum"))
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in inputs)).hexdigest()[:12]


def _cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "grove" / "controlplane"


if __name__ == "__main__":
    try:
        for one in PROGRAMS:
            print(build(sys.argv[1] if len(sys.argv) > 1 else chosen_version(), one))
    except CannotBuildError as error:
        sys.exit(str(error))

"""The distribution: what the wheel contains, what it needs, and that an empty environment runs it."""

import os
import subprocess
import sys
import venv
from collections.abc import Iterator
from email.message import Message
from email.parser import Parser
from importlib.metadata import Distribution, distribution
from pathlib import Path
from zipfile import ZipFile

import pytest
import yaml
from packaging.requirements import Requirement

from grove import __version__
from tests.markdown import ROOT

SECONDS = 120
# Only the embedded cluster needs them.
LOCAL = {"cel-expr-python", "protobuf"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this tree, built as `python -m build` does, with the build backend of this environment."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-W", "error", "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(path.suffix for path in folder.iterdir()) == [".gz", ".whl"]
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_has_every_file_of_the_package_and_no_other(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    source = ROOT / "src"
    files = (path for path in (source / "grove").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    assert packed == {path.relative_to(source).as_posix() for path in files}
    assert "grove/py.typed" in packed


def test_the_distribution_is_grove_operator_and_its_commands_are_grove_and_a_kubectl_plugin(wheel: Path) -> None:
    metadata = metadata_of(wheel)
    assert (metadata["Name"], metadata["Version"]) == ("grove-operator", __version__)
    assert (metadata["Requires-Python"], metadata["License-Expression"]) == (">=3.11", "Apache-2.0")
    with ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("entry_points.txt")]
        commands = archive.read(name).decode().split("\n")
    assert [line for line in commands if "=" in line] == [
        "grove = grove.cli.entry:main", "kubectl-grove = grove.cli.entry:main",
    ]  # fmt: skip


def test_what_only_the_embedded_cluster_needs_is_the_extra_local(wheel: Path) -> None:
    wanted = [Requirement(line) for line in metadata_of(wheel).get_all("Requires-Dist", ())]
    always = {one.name for one in wanted if one.marker is None}
    local = {one.name for one in wanted if one.marker is not None and one.marker.evaluate({"extra": "local"})}
    assert (local - always, always & LOCAL) == (LOCAL, set())


def test_every_pinned_version_is_one_that_the_distribution_accepts(wheel: Path) -> None:
    """Else the image, which is built with the pins, could not be built."""
    wanted = [Requirement(line) for line in metadata_of(wheel).get_all("Requires-Dist", ())]
    pins = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().split())
    pinned = {name.lower().replace("_", "-"): version for name, version in pins.items()}
    named = [one for one in wanted if one.name != "grove-operator"]
    assert [str(one) for one in named if pinned.get(one.name.lower().replace("_", "-"), "0") not in one.specifier] == []


def test_the_krew_manifest_names_the_plugin_and_runs_its_launcher() -> None:
    folder = ROOT / "release" / "krew"
    manifest = yaml.safe_load((folder / "grove.yaml").read_text())
    assert (manifest["kind"], manifest["metadata"]["name"]) == ("Plugin", "grove")
    (platform,) = manifest["spec"]["platforms"]
    launcher = folder / platform["bin"]
    assert os.access(launcher, os.X_OK)
    assert {one["from"] for one in platform["files"]} == {"kubectl-grove", "*.whl", "LICENSE"}
    assert subprocess.run(["sh", "-n", str(launcher)], check=False).returncode == 0


# --- an empty environment --------------------------------------------------------------------------------------------


@pytest.mark.deep(reason="the same wheel, installed into an environment of its own and run there")
def test_an_empty_environment_with_the_wheel_runs_the_operators_commands_and_says_how_to_add_the_rest(
    wheel: Path, tmp_path: Path
) -> None:
    environment = install(wheel, tmp_path)
    assert run(environment, "grove", "version").stdout.startswith(f"grove {__version__}")
    assert run(environment, "kubectl-grove", "version").returncode == 0
    assert run(environment, "grove", "manifests").stdout.count("\nkind: CustomResourceDefinition\n") == 5
    up = run(environment, "grove", "up")
    assert (up.returncode, up.stderr) == (
        1, "grove: the embedded cluster is not installed; `pip install 'grove-operator[local]'` adds it\n",
    )  # fmt: skip


@pytest.mark.deep(reason="the same wheel, installed into an environment of its own and run there")
def test_an_empty_environment_with_the_wheel_and_local_runs_the_quickstart(wheel: Path, tmp_path: Path) -> None:
    environment = install(wheel, tmp_path, "local")
    example = str(ROOT / "examples" / "quickstart.yaml")
    done = run(environment, "grove", "run", example, "--kubelet", "simulated", "--until", "available")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "pcs/chat" in done.stdout


def metadata_of(wheel: Path) -> Message:
    with ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("/METADATA")]
        return Parser().parsestr(archive.read(name).decode())


def install(wheel: Path, folder: Path, extra: str = "") -> Path:
    """An environment with this wheel and exactly what its metadata asks for.

    The dependencies are links to those of this environment: nothing is downloaded.
    """
    environment = folder / "venv"
    venv.create(environment, with_pip=False, symlinks=True)
    pip = [sys.executable, "-m", "pip", "--python", str(environment / "bin" / "python"), "--no-input"]
    options = ["--disable-pip-version-check", "--no-index", "--no-deps", "--no-compile", "--quiet"]
    subprocess.run([*pip, "install", *options, str(wheel)], check=True, timeout=SECONDS)
    (packages,) = (environment / "lib").glob("python*/site-packages")
    wanted = [Requirement(line) for line in metadata_of(wheel).get_all("Requires-Dist", ())]
    for needed in closure(wanted, extra):
        link(needed, packages)
    return environment


def closure(wanted: list[Requirement], extra: str) -> Iterator[Distribution]:
    """Yield the distributions that these requirements need, and those that they need in turn, once each."""
    seen: set[str] = set()
    open_ones = [(one, extra) for one in wanted]
    while open_ones:
        one, of_extra = open_ones.pop()
        if one.name in seen or (one.marker is not None and not one.marker.evaluate({"extra": of_extra})):
            continue
        seen.add(one.name)
        found = distribution(one.name)
        yield found
        open_ones += [(Requirement(line), "") for line in found.requires or ()]


def link(needed: Distribution, packages: Path) -> None:
    tops = {path.parts[0] for path in needed.files or () if ".." not in path.parts}
    for top in sorted(tops - {"__pycache__"}):
        target = packages / top
        if not target.exists():
            target.symlink_to(Path(str(needed.locate_file(top))))


def run(environment: Path, *command: str) -> subprocess.CompletedProcess[str]:
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(
        [str(environment / "bin" / command[0]), *command[1:]],
        cwd=environment, env={**variables, "HOME": str(environment)}, capture_output=True, text=True,
        timeout=SECONDS, check=False,
    )  # fmt: skip

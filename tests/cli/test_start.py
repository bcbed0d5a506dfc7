"""Commands start quickly because they import little. What is not imported costs nothing: no clock is needed here."""

import subprocess
import sys
from pathlib import Path

import pytest

from grove.cli.command_registry import COMMANDS, module_of
from tests.cli.console import ROOT, Up, environment

# Runs `grove` in this very interpreter, then tells what is loaded.
TELL = (
    "import sys\n"
    "from grove.cli.entry import main\n"
    "code = main()\n"
    "sys.stdout.flush()\n"
    "sys.stderr.write('\\n'.join(sys.modules))\n"
    "sys.exit(code)\n"
)
# For servers, for terminals, and for decisions that these commands do not make.
HEAVY = (
    "aiohttp", "cel_expr_python", "cryptography", "google.protobuf", "grove.admission", "grove.cluster",
    "grove.controller", "grove.planner", "grove.sim", "importlib.metadata", "prometheus_client", "rich", "structlog",
)  # fmt: skip
NETWORK = ("asyncio", "grove.api", "grove.kube", "ssl", "yaml")


@pytest.mark.parametrize("arguments", [["version"], ["--help"], ["status", "--help"]])
def test_what_needs_no_cluster_imports_no_client(tmp_path: Path, arguments: list[str]) -> None:
    assert found(modules_of(tmp_path, *arguments), *HEAVY, *NETWORK) == []


@pytest.mark.parametrize(("arguments", "used"), [(["--help"], []), (["version"], ["version"]), (["statsu"], [])])
def test_only_the_command_that_was_asked_for_is_imported(tmp_path: Path, arguments: list[str], used: list[str]) -> None:
    modules = modules_of(tmp_path, *arguments)
    assert [name for name in COMMANDS if module_of(name) in modules] == used


def test_status_imports_a_light_client_and_neither_planner_nor_terminal(tmp_path: Path) -> None:
    with Up(tmp_path, str(ROOT / "examples" / "quickstart.yaml")):
        modules = modules_of(tmp_path, "status")
    assert "grove.kube.light_transport" in modules
    assert found(modules, *HEAVY) == []


def modules_of(folder: Path, *arguments: str) -> set[str]:
    """Return the modules that one command has loaded at its end."""
    done = subprocess.run(
        [sys.executable, "-c", TELL, *arguments],
        cwd=folder, env=environment(folder), capture_output=True, text=True, check=False,
    )  # fmt: skip
    return set(done.stderr.splitlines())


def found(modules: set[str], *forbidden: str) -> list[str]:
    """Return what is loaded of packages that should not be."""
    return sorted(
        name for name in modules if any(name == package or name.startswith(f"{package}.") for package in forbidden)
    )


BLOCK = "import sys\nsys.modules['cel_expr_python'] = None\nfrom grove.cli.entry import main\nsys.exit(main())\n"


def test_without_the_embedded_cluster_up_says_how_to_install_it(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BLOCK, "up"],
        cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (
        1, "", "grove: the embedded cluster is not installed; `pip install 'grove-operator[local]'` adds it\n",
    )  # fmt: skip

"""How long short commands take, next to an interpreter that does nothing and to kubectl, in one run.

Commands take turns, so that a busy moment of the machine hits all of them. Modules are compiled before, as an
installation does it.
"""

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

import msgspec

from bench.http import GROVE, running
from bench.table import Row, show

ROUNDS = 15
FILE = Path(__file__).parent.parent / "examples" / "quickstart.yaml"


class Took(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of one run."""

    wall: float
    cpu: float


def measure() -> Sequence[Row]:
    with tempfile.TemporaryDirectory(prefix="grove-bench-") as folder:
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": folder}
        kubeconfig = Path(folder, "kubeconfig")
        commands = _commands(kubeconfig)
        with running(str(GROVE), "up", str(FILE), "--kubeconfig", str(kubeconfig)):
            while not kubeconfig.exists():
                time.sleep(0.05)
            for command in commands.values():
                _run(command, environment)
            rounds = [{name: _run(command, environment) for name, command in commands.items()} for _ in range(ROUNDS)]
    return [_row(name, [one[name] for one in rounds]) for name in commands]


def _commands(kubeconfig: Path) -> dict[str, Sequence[str]]:
    commands: dict[str, Sequence[str]] = {"python -c pass": (sys.executable, "-c", "pass")}
    if kubectl := shutil.which("kubectl"):
        commands["kubectl version --client"] = (kubectl, "version", "--client")
    return commands | {
        "grove version": (str(GROVE), "version"),
        "grove --help": (str(GROVE), "--help"),
        "grove status": (str(GROVE), "status", "--kubeconfig", str(kubeconfig)),
    }


def _run(command: Sequence[str], environment: Mapping[str, str]) -> Took:
    started, cpu_before = time.perf_counter(), _cpu_seconds()
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
    return Took(wall=time.perf_counter() - started, cpu=_cpu_seconds() - cpu_before)


def _cpu_seconds() -> float:
    """Return what all children that have ended took; `grove up` has not."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _row(name: str, runs: Sequence[Took]) -> Row:
    walls = [one.wall for one in runs]
    remark = f"median of {ROUNDS}, fastest {min(walls):.3f} s; CPU at least {min(one.cpu for one in runs):.3f} s"
    return Row(name, f"{median(walls):.3f} s", remark)


if __name__ == "__main__":
    show("Starting a command", measure())

"""A cluster as a newcomer has it: `grove up` in a process of its own, driven by the machine's kubectl."""

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from grove.api.types.meta import JsonObject
from tests.kube.controlplane.build import binary, chosen_version

# A safety net, far above what anything takes.
SECONDS = 180


class Ran(msgspec.Struct, frozen=True):
    """What a command said, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


class Kubectl:
    """`kubectl("get", "pods")` against one cluster; a command that fails fails the test, unless it is asked about."""

    def __init__(self, kubeconfig: Path, home: Path, command: tuple[str, ...] = (), **variables: str) -> None:
        self.kubeconfig = kubeconfig
        self._command = command or _kubectl()
        # A home of its own: kubectl caches discovery there.
        self._environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "HOME": str(home), **variables}

    def __call__(self, *arguments: str, stdin: str = "", editor: str = "") -> Ran:
        ran = self.attempt(*arguments, stdin=stdin, editor=editor)
        assert ran.code == 0, f"kubectl {' '.join(arguments)}\n{ran.err}"
        return ran

    def attempt(self, *arguments: str, stdin: str = "", editor: str = "") -> Ran:
        done = subprocess.run(
            [*self._command, *arguments],
            env={**self._environment, "KUBE_EDITOR": editor},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    @contextmanager
    def running(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """A command that does not end by itself, until the end of the block."""
        command = [*self._command, *arguments]
        process = subprocess.Popen(command, env=self._environment, stdout=subprocess.PIPE, text=True)
        try:
            yield process
        finally:
            process.terminate()
            process.communicate(timeout=SECONDS)

    def json(self, *arguments: str) -> JsonObject:
        found: JsonObject = msgspec.json.decode(self(*arguments, "-o", "json").out)
        return found


def _kubectl() -> tuple[str, ...]:
    """The machine's, as a newcomer has it; without one, that of the control plane which `make kube` built."""
    found = shutil.which("kubectl")
    return (found,) if found else (str(binary(chosen_version())), "kubectl")


@contextmanager
def grove_up(folder: Path, *options: str) -> Iterator[Kubectl]:
    """From the moment it serves until the end of the block."""
    kubeconfig = folder / "kubeconfig"
    command = [sys.executable, "-m", "grove.cli.main", "up", "--kubeconfig", str(kubeconfig), *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert process.stdout is not None
        # It greets once the API answers. A pipe that nobody reads would hold it up some day.
        greeting = process.stdout.readline()
        assert "https://127.0.0.1:" in greeting, greeting + process.stdout.read()
        reader = threading.Thread(target=process.stdout.read)
        reader.start()
        yield Kubectl(kubeconfig, folder)
    finally:
        process.terminate()
        process.wait(timeout=SECONDS)
    reader.join()
    process.stdout.close()
    assert process.returncode == 0
    assert not kubeconfig.exists()

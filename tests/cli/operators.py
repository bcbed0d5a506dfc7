"""`grove operator` as a process beside a cluster: its log, its pages, and how it ends."""

import os
import signal
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
import yaml

from grove.api.types.meta import JsonObject
from tests.cli.console import GROVE, SECONDS, attempts, environment
from tests.cli.forked import Forked, killed_after

FREE_PORTS = {"server": {"healthProbes": {"port": 0}, "metrics": {"port": 0}}}
# Short, so that a takeover is not waited for; long enough that on a busy machine nobody loses the lead who lives.
ELECTION = {"enabled": True, "leaseDuration": "10s", "renewDeadline": "8s", "retryPeriod": "200ms"}


def write_config(folder: Path, name: str = "config.yaml", **keys: object) -> Path:
    head = {"apiVersion": "operator.config.grove.io/v1alpha1", "kind": "OperatorConfiguration"}
    path = folder / name
    path.write_text(yaml.safe_dump({**head, **FREE_PORTS, **keys}))
    return path


class Answer(msgspec.Struct, frozen=True):
    status: int
    text: str


class Operator:
    """`with Operator(folder, "--config", path) as operator:`; it has said where its pages are when the block begins."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.lines: list[JsonObject] = []
        reading, writing = os.pipe()
        self.stderr = os.fdopen(reading)
        with open(writing, "w") as written:
            self.process = self._start(folder, ("operator", *arguments), written.fileno())

    def _start(self, folder: Path, arguments: tuple[str, ...], stderr: int) -> "Forked | subprocess.Popen[bytes]":
        with open(os.devnull, "w+") as nothing:
            files = (nothing.fileno(), nothing.fileno(), stderr)
            return Forked(folder, arguments, environment(folder), files=files)

    def __enter__(self) -> Self:
        self.start = self.read_until("grove operator")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.returncode is None:
            self.end(signal.SIGKILL)

    def read_until(self, text: str) -> JsonObject:
        """The first line from now on whose message begins so."""
        with killed_after(SECONDS, self.process):
            for line in self.stderr:
                self.lines.append(msgspec.json.decode(line))
                if self.lines[-1]["msg"].startswith(text):
                    return self.lines[-1]
        raise AssertionError(f"never said {text!r}: {self.lines}")

    def ask(self, page: str) -> Answer:
        path = f"/{page}"
        base = self.start["metrics" if page == "metrics" else "health"]
        try:
            with urllib.request.urlopen(f"{base}{path}", timeout=SECONDS) as answer:
                return Answer(answer.status, answer.read().decode())
        except urllib.error.HTTPError as error:
            return Answer(error.code, error.read().decode())

    def wait_for_output(self, text: str, page: str) -> str:
        """Ask again and again until the page says so: it tells of what the process has seen by now."""
        for _ in attempts():
            answer = self.ask(page)
            if text in answer.text:
                return answer.text
        raise AssertionError(f"{page} never said {text!r}: {answer.text}")

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        with self.stderr as rest:
            self.lines += [msgspec.json.decode(line) for line in rest]
        return self.process.wait(SECONDS)


class OperatorScript(Operator):
    """`grove operator` as the installed script, with an interpreter of its own."""

    def _start(self, folder: Path, arguments: tuple[str, ...], stderr: int) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [str(GROVE), *arguments], cwd=folder, env=environment(folder), stdout=subprocess.DEVNULL, stderr=stderr
        )

"""The real console script, run as a user runs it: in a folder of its own, with an environment that knows no cluster."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from grove.api.meta import JsonObject
from grove.clock import LoopClock
from grove.kube.config import find_access
from grove.kube.http import HttpTransport
from grove.kube.transport import Request

GROVE = Path(sys.executable).with_name("grove")
ROOT = Path(__file__).parent.parent.parent
# A safety net, far above what anything takes.
SECONDS = 240
PAUSE_SECONDS = 0.02


def attempts() -> Iterator[None]:
    """`for _ in attempts():` again and again, until something should have happened long ago."""

    async def now() -> float:
        return LoopClock.starting_now().monotonic()

    async def pause() -> None:
        await LoopClock.starting_now().sleep(PAUSE_SECONDS)

    with asyncio.Runner() as runner:
        deadline = runner.run(now()) + SECONDS
        while runner.run(now()) < deadline:
            yield
            # Whoever is asked needs the time more than who asks.
            runner.run(pause())


@contextmanager
def ended_in_time(process: "subprocess.Popen[str]") -> Iterator[None]:
    """Whoever reads what a process says need not wait for ever: one that says nothing is ended."""
    watchdog = threading.Timer(SECONDS, process.kill)
    watchdog.start()
    try:
        yield
    finally:
        watchdog.cancel()


class Said(msgspec.Struct, frozen=True, kw_only=True):
    code: int
    out: str
    err: str

    def json(self) -> JsonObject:
        decoded: JsonObject = msgspec.json.decode(self.out)
        return decoded


def environment(folder: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("KUBE", "GROVE", "_GROVE"))}
    return {**kept, "HOME": str(folder), "COLUMNS": "200", **(extra or {})}


def grove(folder: Path, *arguments: str, given: str = "", env: Mapping[str, str] | None = None) -> Said:
    done = subprocess.run(
        [str(GROVE), *arguments],
        cwd=folder, env=environment(folder, env), input=given, capture_output=True, text=True, timeout=SECONDS,
        check=False,
    )  # fmt: skip
    return Said(code=done.returncode, out=done.stdout, err=done.stderr)


class Up:
    """`grove up`, running in a folder: `with Up(folder, "--nodes", "2") as up:`. It serves when the block begins."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder = folder
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            [str(GROVE), "up", *arguments],
            cwd=folder, env=environment(folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def __enter__(self) -> Self:
        self.read_until("Ctrl-C ends it.")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.end()

    def read_until(self, text: str) -> str:
        """The first line from now on that holds the text; fails with all lines if there is none."""
        assert self.process.stdout is not None
        with ended_in_time(self.process):
            for line in self.process.stdout:
                self.lines.append(line.rstrip("\n"))
                if text in line:
                    return line.rstrip("\n")
        raise AssertionError(f"never said {text!r}: {self.lines} {self.process.communicate()[1]}")

    def end(self, number: signal.Signals = signal.SIGINT) -> Said:
        """Interrupt it, as Ctrl-C does; what it said after the lines that were read."""
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=SECONDS)
        return Said(code=self.process.returncode, out=out, err=err)

    def grove(self, *arguments: str, given: str = "") -> Said:
        return grove(self.folder, *arguments, given=given)

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        """A command that goes on."""
        return subprocess.Popen(
            [str(GROVE), *arguments], cwd=self.folder, env=environment(self.folder), stdout=subprocess.PIPE, text=True
        )

    def read(self, path: str) -> JsonObject:
        """An object as the API has it."""

        async def ask() -> JsonObject:
            access = find_access({}, kubeconfig=self.folder / ".grove" / "kubeconfig")
            async with HttpTransport(access, LoopClock.starting_now()) as transport:
                decoded: JsonObject = msgspec.json.decode((await transport.send(Request(method="GET", path=path))).body)
                return decoded

        return asyncio.run(ask())

    def ask_until(self, text: str, *arguments: str) -> Said:
        """Run a command again and again until it says the text."""
        for _ in attempts():
            said = self.grove(*arguments)
            if text in said.out:
                return said
        raise AssertionError(f"{arguments} never said {text!r}: {said}")

    def ask_until_lines(self, lines: list[str], *arguments: str, plain: Callable[[str], str] = str) -> None:
        """Run a command again and again until it says exactly this, in `plain` form."""
        for _ in attempts():
            said = [plain(line) for line in self.grove(*arguments).out.splitlines()]
            if said == lines:
                return
        assert said == lines, arguments

"""`grove` as a user runs it: in a folder of its own, with an environment that knows no cluster.

Commands run where they cost least and show the same: those that ask a cluster, in the process of the tests; those that
are one, and those that go on, in forked processes. What only a new interpreter shows is tested with `GROVE`.
"""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir, contextmanager
from io import BytesIO, TextIOWrapper
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from unittest.mock import patch
from weakref import WeakValueDictionary

import msgspec
import yaml

from grove.api.types.meta import JsonObject
from grove.cli.entry import main
from grove.clock import LoopClock
from grove.kube.http_transport import HttpTransport
from grove.kube.kubeconfig import find_access
from grove.kube.transport import Request
from tests.cli.forked import Piped, killed_after, run_to_its_end

GROVE = Path(sys.executable).with_name("grove")
ROOT = Path(__file__).parent.parent.parent
# A safety net, far above what anything takes.
SECONDS = 240
PAUSE_SECONDS = 0.02
# Where `grove up` notes that it ended.
RUNTIME = tempfile.TemporaryDirectory(prefix="grove-tests-")
# Commands that change the process they run in for good: its signals, its log, its garbage collection.
CLUSTERS = ("up", "run", "operator")


def attempts() -> Iterator[None]:
    """`for _ in attempts():` again and again, until something should have happened long ago."""
    pause = threading.Event()
    for _ in range(int(SECONDS / PAUSE_SECONDS)):
        yield
        # The process that is asked needs the time more than the one that asks.
        pause.wait(PAUSE_SECONDS)


class CommandResult(msgspec.Struct, frozen=True, kw_only=True):
    code: int
    out: str
    err: str

    def json(self) -> JsonObject:
        decoded: JsonObject = msgspec.json.decode(self.out)
        return decoded


def yaml_documents(text: str) -> list[JsonObject]:
    """Parse a text of several documents. Definitions are long, and the loader in Python takes a second for each."""
    return list(yaml.load_all(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)))


def environment(folder: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("KUBE", "GROVE", "_GROVE"))}
    return {**kept, "HOME": str(folder), "COLUMNS": "200", "XDG_RUNTIME_DIR": RUNTIME.name, **(extra or {})}


def grove(folder: Path, *arguments: str, given: str = "", env: Mapping[str, str] | None = None) -> CommandResult:
    """Run a command to its end."""
    if arguments and arguments[0] in CLUSTERS:
        code, out, err = run_to_its_end(folder, arguments, environment(folder, env), given=given, timeout=SECONDS)
        return CommandResult(code=code, out=out, err=err)
    return _run_here(folder, arguments, environment(folder, env), given)


def run_script(folder: Path, *arguments: str, env: Mapping[str, str] | None = None) -> CommandResult:
    """Run a command to its end as the installed script, with an interpreter of its own."""
    done = subprocess.run(
        [str(GROVE), *arguments],
        cwd=folder, env=environment(folder, env), capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    return CommandResult(code=done.returncode, out=done.stdout, err=done.stderr)


def _run_here(folder: Path, arguments: tuple[str, ...], env: Mapping[str, str], given: str) -> CommandResult:
    """Run a command in this process, which is afterwards as it was."""
    read, out, err = (TextIOWrapper(BytesIO(text), encoding="utf-8") for text in (given.encode(), b"", b""))
    streams: dict[str, Any] = {"argv": ["grove", *arguments], "stdin": read, "stdout": out, "stderr": err}
    with (
        chdir(folder),
        patch.dict(os.environ, env, clear=True),
        patch.multiple(sys, **streams),
        patch.object(asyncio.events, "new_event_loop", _ProcessLoop),
        _limited_time(),
    ):
        try:
            code = main()
        except SystemExit as end:
            # How the shell completion of a command ends.
            code = int(end.code or 0)
    return CommandResult(code=code, out=_written(out), err=_written(err))


class _ProcessLoop(asyncio.SelectorEventLoop):
    """The event loop of a command. At its end it hangs up where the command does not: a process that ends does so."""

    # Connections of the base class, by file.
    _transports: WeakValueDictionary[int, asyncio.Transport]

    def close(self) -> None:
        if not self.is_closed():
            for transport in tuple(self._transports.values()):
                transport.abort()
            self.call_soon(self.stop)
            self.run_forever()
        super().close()


def _written(stream: TextIOWrapper) -> str:
    stream.flush()
    assert isinstance(stream.buffer, BytesIO)
    return stream.buffer.getvalue().decode()


@contextmanager
def _limited_time() -> Iterator[None]:
    """Fail instead of waiting for ever."""

    def fail(*_: object) -> None:
        raise AssertionError(f"still running after {SECONDS} s")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


class Up:
    """`grove up`, running in a folder: `with Up(folder, "--nodes", "2") as up:`. It serves when the block begins."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder = folder
        self.lines: list[str] = []
        self.process = self._start(("up", *arguments))

    def _start(self, arguments: tuple[str, ...]) -> "Piped | subprocess.Popen[str]":
        return self.start(*arguments)

    def __enter__(self) -> Self:
        self.read_until("Ctrl-C ends it.")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.returncode is None:
            self.end()

    def read_until(self, text: str) -> str:
        """The first line from now on that holds the text; fails with all lines if there is none."""
        assert self.process.stdout is not None
        with killed_after(SECONDS, self.process):
            for line in self.process.stdout:
                self.lines.append(line.rstrip("\n"))
                if text in line:
                    return line.rstrip("\n")
        raise AssertionError(f"never said {text!r}: {self.lines} {self.process.communicate(timeout=SECONDS)[1]}")

    def end(self, number: signal.Signals = signal.SIGINT) -> CommandResult:
        """Interrupt it, as Ctrl-C does; what it said after the lines that were read."""
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=SECONDS)
        return CommandResult(code=self.process.wait(SECONDS), out=out, err=err)

    def grove(self, *arguments: str, given: str = "") -> CommandResult:
        return grove(self.folder, *arguments, given=given)

    def start(self, *arguments: str) -> Piped:
        """Start a command that goes on."""
        return Piped(self.folder, arguments, environment(self.folder))

    def read(self, path: str) -> JsonObject:
        """An object as the API has it."""

        async def ask() -> JsonObject:
            access = find_access({}, kubeconfig=self.folder / ".grove" / "kubeconfig")
            async with HttpTransport(access, LoopClock.starting_now()) as transport:
                decoded: JsonObject = msgspec.json.decode((await transport.send(Request(method="GET", path=path))).body)
                return decoded

        return asyncio.run(ask())

    def wait_for_output(self, text: str, *arguments: str) -> CommandResult:
        """Run a command again and again until it says the text."""
        for _ in attempts():
            said = self.grove(*arguments)
            if text in said.out:
                return said
        raise AssertionError(f"{arguments} never said {text!r}: {said}")

    def wait_for_lines(self, lines: list[str], *arguments: str, plain: Callable[[str], str] = str) -> None:
        """Run a command again and again until it says exactly this, in `plain` form."""
        for _ in attempts():
            said = [plain(line) for line in self.grove(*arguments).out.splitlines()]
            if said == lines:
                return
        assert said == lines, arguments


class UpScript(Up):
    """`grove up` as the installed script, with an interpreter of its own."""

    def _start(self, arguments: tuple[str, ...]) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [str(GROVE), *arguments],
            cwd=self.folder, env=environment(self.folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

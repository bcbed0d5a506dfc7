"""`grove` commands as processes that are forked from one which has loaded the program already.

Such a process has a pid, signals, a folder, an environment and an exit code like any other. Only the start of an
interpreter is left out: it takes longer than most commands. `console.GROVE` is the command with its interpreter.
"""

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import Any, Protocol

from tests.processes import die_with_parent

FORKS = multiprocessing.get_context("forkserver")
# The first: lest every process loads what started the tests, such as pytest's own script.
FORKS.set_forkserver_preload(["__main__", "tests.cli.preloaded", __name__])


class Forked:
    """A command that runs, with standard input, output and error of the caller's choice."""

    def __init__(
        self,
        folder: Path,
        arguments: tuple[str, ...],
        env: Mapping[str, str],
        *,
        files: tuple[int, int, int],
        has_own_session: bool = False,
    ) -> None:
        standard = tuple(_Inherited(file) for file in files)
        self._process = FORKS.Process(
            target=_run, args=(str(folder), arguments, dict(env), standard, has_own_session), daemon=True
        )
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid
        self._code: int | None = None

    @property
    def returncode(self) -> int | None:
        """None while it runs; the negative number of a signal that ended it."""
        if self._code is None and (code := self._process.exitcode) is not None:
            self._code = code
            # Now, lest its files are closed some day.
            self._process.close()
        return self._code

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float) -> int:
        if self._code is None:
            self._process.join(timeout)
        code = self.returncode
        if code is None:
            raise subprocess.TimeoutExpired("grove", timeout)
        return code

    def send_signal(self, number: signal.Signals) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Killable(Protocol):
    def kill(self) -> None: ...


@contextmanager
def killed_after(seconds: float, process: Killable) -> Iterator[None]:
    """Kill a process that prints nothing, so that its reader does not wait for ever."""
    watchdog = threading.Timer(seconds, process.kill)
    watchdog.start()
    try:
        yield
    finally:
        watchdog.cancel()


class Piped(Forked):
    """A command whose output is read while it runs, and its errors when it has ended."""

    def __init__(
        self, folder: Path, arguments: tuple[str, ...], env: Mapping[str, str], *, has_own_session: bool = False
    ) -> None:
        reading, writing = os.pipe()
        with ExitStack() as stack, open(os.devnull) as nothing, open(writing, "w") as written:
            self.stdout = stack.enter_context(open(reading))
            self._errors = stack.enter_context(tempfile.TemporaryFile("w+"))
            files = (nothing.fileno(), written.fileno(), self._errors.fileno())
            super().__init__(folder, arguments, env, files=files, has_own_session=has_own_session)
            self._closing = stack.pop_all()

    def communicate(self, timeout: float) -> tuple[str, str]:
        """Wait for its end. Returns the output that was not read yet, and all errors."""
        with self._closing:
            with killed_after(timeout, self):
                rest = self.stdout.read()
            self.wait(timeout)
            self._errors.seek(0)
            return rest, self._errors.read()

    def close(self) -> None:
        self._closing.close()


def run_to_its_end(
    folder: Path, arguments: tuple[str, ...], env: Mapping[str, str], *, given: str, timeout: float
) -> tuple[int, str, str]:
    """Returns the exit code, the output and the errors."""
    with tempfile.TemporaryFile("w+") as read, tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        read.write(given)
        read.seek(0)
        process = Forked(folder, arguments, env, files=(read.fileno(), out.fileno(), err.fileno()))
        try:
            code = process.wait(timeout)
        finally:
            process.kill()
        out.seek(0)
        err.seek(0)
        return code, out.read(), err.read()


class _Inherited:
    """An open file that the new process gets, too, and knows by its number."""

    def __init__(self, file: int) -> None:
        self._file = file

    def __reduce__(self) -> tuple[Any, ...]:
        return _inherit, (DupFd(self._file),)


def _inherit(file: Any) -> int:
    number: int = file.detach()
    return number


def _run(folder: str, arguments: tuple[str, ...], env: dict[str, str], files: tuple[int, ...], session: bool) -> None:
    """What the new process does."""
    # As a shell starts it; tests themselves may run where Ctrl-C is ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if session:
        os.setsid()
    for number, file in enumerate(files):
        os.dup2(file, number)
    # Also the pipe by which the process that forks sees whether tests still run.
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    die_with_parent()
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    sys.argv = ["grove", *arguments]
    from grove.cli.entry import main

    sys.exit(main())

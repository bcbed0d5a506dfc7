"""A process of its own with several lives, one after the other: started, stopped, killed and started again."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic, sleep
from types import TracebackType
from typing import BinaryIO, Self

from tests.cli.forked import Forked
from tests.kube.controlplane.plane import start_process

# A safety net, far above what anything takes.
READY_SECONDS = 180.0
STOP_SECONDS = 120.0
# The command line as a module: it need not be started anew.
GROVE = "grove.cli.main"


class Lives:
    """All lives of one program; every life writes into the same log. `with` stops it, in an orderly way."""

    def __init__(self, module: tuple[str, ...], log: Path, environment: Mapping[str, str] | None = None) -> None:
        """`module` and its arguments are what `python -m` runs."""
        self.log = log
        self._module = module
        # The image of init containers is not known outside a cluster. The nodes of the tests pull none.
        self._environment = {**os.environ, "GROVE_INIT_CONTAINER_IMAGE": "grove-operator", **(environment or {})}
        self._process: subprocess.Popen[bytes] | Forked | None = None
        # Where in the log its present life begins.
        self._born_at = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        code = self.stop()
        # A program that died on its own is the better story to tell.
        assert code in (0, None) or error is not None, f"exit code {code}\n{self.last_words}"

    @property
    def words(self) -> str:
        """What it said in its present, or last, life."""
        return self.log.read_bytes()[self._born_at :].decode(errors="replace") if self.log.exists() else ""

    @property
    def last_words(self) -> str:
        return self.words[-4000:]

    def send(self, number: signal.Signals) -> None:
        assert self._process is not None, "it does not run"
        self._process.send_signal(number)

    def start(self) -> None:
        """In the thread that runs the test: a process ends with the thread that started it."""
        assert self._process is None, "it runs already"
        with self.log.open("ab") as log:
            self._born_at = log.tell()
            self._process = self._start(log)

    def _start(self, log: BinaryIO) -> "subprocess.Popen[bytes] | Forked":
        program, *arguments = self._module
        if program != GROVE:
            return start_process([sys.executable, "-m", *self._module], log, self._environment)
        with open(os.devnull) as nothing:
            files = (nothing.fileno(), log.fileno(), log.fileno())
            return Forked(Path.cwd(), tuple(arguments), self._environment, files=files)

    def check_alive(self) -> None:
        """Nobody waits for one that has ended by itself."""
        code = None if self._process is None else self._process.poll()
        assert code is None, f"the {self._module[1]} ended with {code}\n{self.last_words}"

    def kill(self) -> None:
        """Without a chance to say or finish anything."""
        self._end(signal.SIGKILL)

    def stop(self) -> int | None:
        """The exit code of an orderly stop; None if it was not running."""
        return self._end(signal.SIGTERM)

    def _await(self, is_reached: Callable[[], bool]) -> None:
        deadline = monotonic() + READY_SECONDS
        while not is_reached():
            self.check_alive()
            assert monotonic() < deadline, f"not ready after {READY_SECONDS:g} s\n{self.last_words}"
            sleep(0.05)

    def _end(self, number: signal.Signals) -> int | None:
        process, self._process = self._process, None
        if process is None:
            return None
        process.send_signal(number)
        try:
            return process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_SECONDS)
            raise AssertionError(f"it did not stop\n{self.last_words}") from None

"""`grove operator` as a process of its own, to be started, stopped and killed."""

import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from time import monotonic, sleep
from types import TracebackType
from typing import Self

from tests.kube.controlplane.plane import start_process

READY_SECONDS = 30.0
STOP_SECONDS = 30.0


class Operator:
    """One operator and all its lives; every life writes into the same log. `with` stops it, in an orderly way."""

    def __init__(self, module: tuple[str, ...], log: Path, environment: Mapping[str, str] | None = None) -> None:
        """`module` and its arguments are what `python -m` runs."""
        self.log = log
        self._command = [sys.executable, "-m", *module]
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None
        # Where in the log its present life begins.
        self._born_at = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        code = self.stop()
        # An operator that died on its own is the better story to tell.
        assert code in (0, None) or error is not None, f"exit code {code}\n{self.last_words}"

    @property
    def words(self) -> str:
        """What it said in its present, or last, life."""
        return self.log.read_bytes()[self._born_at :].decode(errors="replace") if self.log.exists() else ""

    @property
    def last_words(self) -> str:
        return self.words[-4000:]

    def has_worked(self) -> bool:
        """Did it write anything in this life?"""
        return any(f'"msg":"{verb} ' in self.words for verb in ("create", "change", "delete"))

    def send(self, number: signal.Signals) -> None:
        assert self._process is not None, "it does not run"
        self._process.send_signal(number)

    def start(self) -> None:
        assert self._process is None, "it runs already"
        with self.log.open("ab") as log:
            self._born_at = log.tell()
            self._process = start_process(self._command, log, self._environment)

    def await_ready(self) -> Self:
        """Until it says so itself: webhooks included, if it has any; a standby is ready too."""
        deadline = monotonic() + READY_SECONDS
        while not self._is_ready():
            self.check_alive()
            assert monotonic() < deadline, f"not ready after {READY_SECONDS:g} s\n{self.last_words}"
            sleep(0.05)
        return self

    def _is_ready(self) -> bool:
        urls: list[str] = re.findall(r'"health":"([^"]+)"', self.words)
        try:
            with urllib.request.urlopen(f"{urls[-1]}/readyz", timeout=2) as answer:
                return bool(answer.status == 200)
        except (IndexError, OSError):
            return False

    def check_alive(self) -> None:
        """Nobody waits for one that has ended by itself."""
        code = None if self._process is None else self._process.poll()
        assert code is None, f"the operator ended with {code}\n{self.last_words}"

    def kill(self) -> None:
        """Without a chance to say or finish anything."""
        self._end(signal.SIGKILL)

    def stop(self) -> int | None:
        """The exit code of an orderly stop; None if it was not running."""
        return self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> int | None:
        process, self._process = self._process, None
        if process is None:
            return None
        process.send_signal(number)
        try:
            return process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f"the operator did not stop\n{self.last_words}") from None

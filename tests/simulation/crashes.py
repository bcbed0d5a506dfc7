"""Crashes of the operator at every moment of a story, each in a copy of the process.

The story runs once, without a crash. At every crash point the process forks: the copy crashes the operator there, runs
the story to its end and sends that end back. So what precedes a crash runs once, not once for each crash.

A crash point is the moment before a write or after it. A crash takes the operator's memory, and what it sent before
still arrives. So two moments are one crash point if the operator has begun the same writes, the time is the same, and
nobody else has written in between. The moment after a write is nearly always the moment before the next one.
"""

import asyncio
import os
import pickle
import traceback
import warnings
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, Generic, Never, TypeVar

import msgspec

from grove.sim.simulation import World
from grove.sim.virtual_clock import run_virtual
from tests.seeds import commit_seed

T = TypeVar("T")

# Crashes at every point of every story take most of an hour: that is `make crashes`, which sets this variable.
EVERY_POINT_VARIABLE = "GROVE_EVERY_CRASH_POINT"
# Elsewhere, of a story that is not a core one, so many points are passed over; the commit chooses where to begin.
STRIDE = 8


class Ends(msgspec.Struct, Generic[T], frozen=True):
    """How a story ended without a crash, and with one, by the moment of the crash."""

    calm: T
    crashed: dict[str, T]


def tell_with_some_crashes(tell: Callable[["Crashes"], Coroutine[Any, Any, T]], stride: int = STRIDE) -> Ends[T]:
    """Run a story without a crash, and with a crash at each `stride`-th crash point; `make crashes`: at each point."""
    every = 1 if os.environ.get(EVERY_POINT_VARIABLE) else stride
    return tell_with_crashes(tell, every=every, first=Random(commit_seed()).randrange(every))


def tell_with_crashes(
    tell: Callable[["Crashes"], Coroutine[Any, Any, T]], *, every: int = 1, first: int = 0
) -> Ends[T]:
    """Run a story without a crash, and with a crash at each `every`-th crash point from number `first` on.

    `tell` calls `Crashes.begin` when the part begins in which the operator crashes. Raises `AssertionError` when the
    story fails after a crash.
    """
    crashes = Crashes(every, first)
    try:
        calm = run_virtual(tell(crashes))
    except BaseException:
        if crashes.is_copy:
            crashes.send_and_exit((None, traceback.format_exc()))
        raise
    if crashes.is_copy:
        crashes.send_and_exit((calm, None))
    assert crashes.has_points, "the operator wrote nothing in which it could have crashed"
    for moment, (_, failure) in crashes.ends.items():
        assert failure is None, f"a crash {moment}:\n{failure}"
    return Ends(calm, {moment: end for moment, (end, _) in crashes.ends.items()})


class Crashes:
    """The crash points of one run of a story, and what the copies of the process sent."""

    def __init__(self, every: int, first: int) -> None:
        # By the moment of the crash: the end, and the traceback of a failure.
        self.ends: dict[str, tuple[Any, str | None]] = {}
        self._every = every
        self._first = first
        self._seen: set[tuple[int, float, int]] = set()
        # Set in a copy: where the original reads.
        self._answer: int | None = None

    @property
    def has_points(self) -> bool:
        return bool(self._seen)

    @property
    def is_copy(self) -> bool:
        return self._answer is not None

    def begin(self, world: World) -> None:
        """Make a crash point of each write of the operator that runs now. Its later lives do not crash."""
        self._world = world
        self._operator = world.operator
        self._operator.around_write = self._at_write

    def _at_write(self) -> None:
        begun, done = self._operator.write_count, len(self._operator.writes)
        revision = self._world.server.store.revision + (begun - done)
        point = (begun, self._world.clock.monotonic(), revision)
        if self.is_copy or point in self._seen:
            return
        number = len(self._seen)
        self._seen.add(point)
        if number % self._every == self._first:
            self._fork(f"at crash point {number}, after write {begun}")

    def _fork(self, moment: str) -> None:
        """Crash the operator in a copy of this process, and wait for the copy to send how the story ended."""
        reading, writing = os.pipe()
        loop = asyncio.get_running_loop()
        with warnings.catch_warnings():
            # Newer versions of Python warn of threads, such as those of a test runner: the copy uses none of them.
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            os.close(reading)
            self._answer = writing
            # asyncio notices a fork and forgets its loop, because loops share sockets; a virtual one has none.
            asyncio._set_running_loop(loop)
            self._operator.crash()
            return
        os.close(writing)
        with os.fdopen(reading, "rb") as answer:
            sent = answer.read()
        _, status = os.waitpid(child, 0)
        self.ends[moment] = pickle.loads(sent) if sent else (None, f"the copy ended with status {status}")

    def send_and_exit(self, end: tuple[Any, str | None]) -> Never:
        """End a copy; nothing of the test runner may run in it."""
        try:
            if self._answer is not None:
                with os.fdopen(self._answer, "wb") as answer:
                    pickle.dump(end, answer)
        finally:
            os._exit(0)

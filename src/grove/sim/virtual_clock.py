"""Virtual time: an event loop whose clock jumps to the next timer as soon as no task can run.

The loop has no sockets, no threads and no randomness: what runs, and in which order, depends only on the program.
The clock that programs read is `grove.clock.LoopClock`; it follows whichever loop runs.
"""

import asyncio
import math
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Never, TypeVar

from grove.errors import Bug

T = TypeVar("T")


class Deadlock(Bug):
    """All tasks wait and no timer is set: a bug in the code that waits."""


def run_virtual(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` to its end in virtual time that starts at 0, then cancel what is left over.

    Raises `Deadlock`, naming the tasks, when all tasks wait and no timer is set.
    """
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(main)
    finally:
        try:
            _cancel_leftovers(loop)
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            loop.close()


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop without an outside world; `time()` is virtual seconds since its creation."""

    # The timers of the base class, earliest first.
    _scheduled: list[asyncio.TimerHandle]

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._task_count = 0
        # The base class waits in its selector; this selector jumps to the next timer.
        self._selector = _Jump(self._jump)
        self._set_resolution()
        self.set_task_factory(self._numbered_task)

    def time(self) -> float:
        return self._now

    def run_in_executor(self, *_: object) -> Never:
        raise Bug("run_in_executor: threads do not exist in virtual time; call the function, or make it a coroutine")

    def _jump(self, timeout: float | None) -> None:
        if timeout is None:
            raise Deadlock(_deadlock_message(self))
        if timeout > 0:
            # Not `_now + timeout`: rounding could leave the clock just before the timer.
            self._now = self._scheduled[0].when()
            self._set_resolution()

    def _set_resolution(self) -> None:
        # A timer within the resolution counts as due; one ulp means "due now and not a moment earlier".
        self._clock_resolution = math.ulp(self._now)

    def _process_events(self, event_list: list[Never]) -> None:
        """There is no outside world, so there are no events."""

    def _write_to_self(self) -> None:
        """There is no other thread to wake."""

    def _numbered_task(
        self,
        _loop: asyncio.AbstractEventLoop,
        coro: Coroutine[Any, Any, T] | Generator[Any, None, T],
        /,
        **options: Any,
    ) -> "_NumberedTask[T]":
        self._task_count += 1
        if options.get("name") is None:
            options["name"] = f"task-{self._task_count}"
        return _NumberedTask(self._task_count, coro, loop=self, **options)


class _NumberedTask(asyncio.Task[T]):
    """A task whose hash is its number, so that asyncio's own sets of tasks have the same order in every run."""

    def __init__(self, number: int, coro: Coroutine[Any, Any, T] | Generator[Any, None, T], **options: Any) -> None:
        # First, because the base class puts the task into a set.
        self._number = number
        super().__init__(coro, **options)

    def __hash__(self) -> int:
        return self._number


class _Jump:
    """The selector of the base class: it jumps to the next timer instead of waiting."""

    def __init__(self, jump: Callable[[float | None], None]) -> None:
        self._jump = jump

    def select(self, timeout: float | None) -> tuple[Never, ...]:
        self._jump(timeout)
        return ()


def _deadlock_message(loop: VirtualLoop) -> str:
    waiting = "".join(f"\n  {_describe(task)}" for task in _pending_tasks(loop))
    return f"everyone waits and no timer is set, at {loop.time():.3f} s of virtual time; waiting:{waiting}"


def _describe(task: asyncio.Task[Any]) -> str:
    coroutine = task.get_coro()
    frames = task.get_stack(limit=1)
    name = f"{task.get_name()}: {getattr(coroutine, '__qualname__', coroutine)}"
    return f"{name}, line {frames[-1].f_lineno}" if frames else name


def _pending_tasks(loop: VirtualLoop) -> list[asyncio.Task[Any]]:
    return sorted((task for task in asyncio.all_tasks(loop) if not task.done()), key=hash)


def _cancel_leftovers(loop: VirtualLoop) -> None:
    leftovers = _pending_tasks(loop)
    for task in leftovers:
        task.cancel("the virtual world has ended")
    if leftovers:
        loop.run_until_complete(asyncio.wait(leftovers))
    for task in leftovers:
        if not task.cancelled() and (error := task.exception()) is not None:
            loop.call_exception_handler({"message": "a task failed while ending", "exception": error, "task": task})

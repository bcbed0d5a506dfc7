"""An event loop in a thread of its own: runs the async client for code that is not async."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from concurrent.futures import Future, wait
from queue import SimpleQueue
from typing import Any, TypeVar

R = TypeVar("R")
V = TypeVar("V")

_END = object()


class LoopThread:
    """An event loop that runs between calls too, so that an embedded cluster makes progress.

    Ctrl-C during a call cancels what the call does, waits until that has ended, and raises `KeyboardInterrupt`.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        # A daemon: a program that forgets to close its client still ends.
        self._thread = threading.Thread(target=self._loop.run_forever, name="grove-sdk", daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, R]) -> R:
        """Run a coroutine in the thread and return its result."""
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except BaseException:
            _cancel(future)
            raise

    def run_with_callback(
        self, start: Callable[[Callable[[V], None]], Coroutine[Any, Any, R]], callback: Callable[[V], None]
    ) -> R:
        """Run a coroutine that reports values, and call `callback` with them in the thread of the caller."""
        values: SimpleQueue[Any] = SimpleQueue()
        future = asyncio.run_coroutine_threadsafe(start(values.put), self._loop)
        future.add_done_callback(lambda _: values.put(_END))
        try:
            while (value := values.get()) is not _END:
                callback(value)
            return future.result()
        except BaseException:
            _cancel(future)
            raise

    def iterate(self, values: AsyncGenerator[V, None]) -> Generator[V, None, None]:
        """Yield the values of an async generator. It is closed when the caller stops early."""
        try:
            while (value := self.run(_next(values))) is not _END:
                yield value
        finally:
            self.run(values.aclose())

    def stop(self) -> None:
        """End the loop and its thread. Tasks that are left are cancelled."""
        if self._loop.is_closed():
            return
        self.run(_cancel_other_tasks())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def _cancel(future: "Future[Any]") -> None:
    """Cancel what a call does and wait for its end, so that nothing of it runs behind the caller's back."""
    future.cancel()
    wait([future])


async def _next(values: AsyncGenerator[Any, None]) -> Any:
    return await anext(values, _END)


async def _cancel_other_tasks() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()

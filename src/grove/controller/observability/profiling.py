"""Debug endpoints for developers: tasks, memory and CPU profile. They are off by default."""

import asyncio
import cProfile
import io
import pstats
import tracemalloc
from collections.abc import Mapping

from grove.clock import Clock
from grove.controller.observability.http_endpoints import Endpoint, PageMaker, Query

DEFAULT_SECONDS = 5.0
LONGEST_SECONDS = 60.0
SHOWN_LINES = 40


def profiling_pages(clock: Clock) -> Mapping[str, PageMaker]:
    lock = asyncio.Lock()

    async def profile(query: Query) -> Endpoint:
        try:
            seconds = min(LONGEST_SECONDS, float(query.get("seconds", DEFAULT_SECONDS)))
        except ValueError:
            return Endpoint(body=b"seconds: write a number\n", status=400)
        # The interpreter supports one profiler at a time.
        async with lock:
            profiler = cProfile.Profile()
            profiler.enable()
            try:
                await clock.sleep(seconds)
            finally:
                profiler.disable()
        text = io.StringIO()
        pstats.Stats(profiler, stream=text).sort_stats("cumulative").print_stats(SHOWN_LINES)
        return Endpoint(body=text.getvalue().encode())

    return {"/debug/tasks": _tasks, "/debug/memory": _memory, "/debug/profile": profile}


async def _tasks(_: Query) -> Endpoint:
    lines = []
    for task in sorted(asyncio.all_tasks(), key=lambda task: task.get_name()):
        frames = task.get_stack(limit=1)
        at = f"{frames[-1].f_code.co_filename}:{frames[-1].f_lineno}" if frames else "running"
        lines.append(f"{task.get_name()} {getattr(task.get_coro(), '__qualname__', '?')} {at}\n")
    return Endpoint(body="".join(lines).encode())


async def _memory(query: Query) -> Endpoint:
    """Return the largest allocations. Tracing is expensive: the first request starts it and `?stop` ends it."""
    if "stop" in query:
        tracemalloc.stop()
        return Endpoint(body=b"stopped\n")
    if not tracemalloc.is_tracing():
        tracemalloc.start()
        return Endpoint(body=b"counting from now on: ask again later\n")
    largest = tracemalloc.take_snapshot().statistics("lineno")[:SHOWN_LINES]
    return Endpoint(body="".join(f"{statistic}\n" for statistic in largest).encode())

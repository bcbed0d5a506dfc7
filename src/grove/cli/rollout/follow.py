"""Follow the update of one set with watches until it ends or the timeout expires. `view.py` renders it."""

import asyncio
from collections.abc import Callable, Sequence
from enum import StrEnum
from random import Random

import msgspec

from grove.api.resources import CONTROLLER_REVISIONS
from grove.api.types.controllerrevision import ControllerRevision
from grove.api.types.meta import Uid
from grove.cli.common import output
from grove.cli.common.output import Row
from grove.cli.rollout.progress import Rollout, RolloutState, build_rollout
from grove.cli.rollout.view import progress_key, progress_line, progress_rows
from grove.cli.status.set_watcher import SetWatcher, pause, wait_for_change
from grove.clock import Clock
from grove.kube.client import Client
from grove.kube.reflector import Reflector
from grove.kube.store import Store
from grove.operations.rollout.revisions import revision_selector, revisions_of
from grove.planner.snapshot import SetContext, build_context

# The live display shows the elapsed time.
REDRAW_SECONDS = 1.0

Draw = Callable[[Sequence[Row]], None]


class FollowEnd(StrEnum):
    OVER = "over"
    # The update continues; only one read was requested.
    READ_ONCE = "looked"
    TIMED_OUT = "timed out"
    # The set has another revision than the one to follow.
    SUPERSEDED = "superseded"
    TERMINATING = "terminating"
    GONE = "gone"


class FollowResult(msgspec.Struct, frozen=True, kw_only=True):
    ending: FollowEnd
    # The last state that was read.
    rollout: Rollout


class FollowOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of following an update."""

    is_watching: bool = True
    timeout_seconds: float | None = None
    # Follow only this revision; an update to another one ends it.
    revision: int | None = None


class RolloutWatcher:
    """A watcher of one set with its revisions. Call `list_once`, then `run`; `current` returns the progress."""

    def __init__(self, client: Client, clock: Clock, random: Random, *, namespace: str, name: str) -> None:
        self._client = client
        self._namespace = namespace
        self._selector = revision_selector(name)
        self._watcher = SetWatcher(client, clock, random, namespace=namespace, name=name)
        self._revisions: Store[ControllerRevision] = Store()
        self._reflector = Reflector(
            client,
            CONTROLLER_REVISIONS,
            self._revisions,
            clock,
            random,
            namespace=namespace,
            label_selector=self._selector,
        )
        self._context: SetContext | None = None
        self.uid = Uid("")
        """The uid of the set that `list_once` found. A later set of the same name is ignored."""
        self.is_terminating = False
        self.changed = self._watcher.changed

    async def list_once(self) -> Rollout | None:
        """List once, without watching. Returns None if the set does not exist. Raises `ApiError`."""
        mark = self._revisions.begin_list()
        _, listing = await asyncio.gather(
            self._watcher.list_once(),
            self._client.list(CONTROLLER_REVISIONS, namespace=self._namespace, label_selector=self._selector),
        )
        self._revisions.apply_list(listing, mark)
        self.uid = next((one.pcs.metadata.uid for one in self._watcher.objects()), Uid(""))
        return self.current()

    async def run(self) -> None:
        self._revisions.subscribe(lambda *_: self.changed.set())
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watcher.run())
            tasks.create_task(self._reflector.run())

    def current(self) -> Rollout | None:
        objects = next((one for one in self._watcher.objects() if one.pcs.metadata.uid == self.uid), None)
        if objects is None:
            return None
        pcs = objects.pcs
        self.is_terminating = pcs.metadata.is_terminating
        if self._context is None or self._context.generation != pcs.metadata.generation:
            self._context = build_context(pcs)
        return build_rollout(objects, self._context, revisions_of(pcs, self._revisions.values()))


async def follow(
    watcher: RolloutWatcher, first: Rollout, clock: Clock, options: FollowOptions, renderer: "ProgressRenderer"
) -> FollowResult:
    """Follow an update from its first state until it ends, and render every state."""
    renderer.render(first)
    ending = _find_end(watcher, first, options)
    if ending is not None:
        return FollowResult(ending=ending, rollout=first)
    async with asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(watcher.run())
        result = await _follow_until_end(watcher, first, clock, options, renderer)
        watching.cancel()
    return result


async def _follow_until_end(
    watcher: RolloutWatcher, last: Rollout, clock: Clock, options: FollowOptions, renderer: "ProgressRenderer"
) -> FollowResult:
    timeout = options.timeout_seconds
    gives_up_at = None if timeout is None else clock.monotonic() + timeout
    while True:
        began_at = clock.monotonic()
        watcher.changed.clear()
        rollout = watcher.current()
        if rollout is None:
            return FollowResult(ending=FollowEnd.GONE, rollout=last)
        renderer.render(rollout)
        ending = _find_end(watcher, rollout, options)
        if ending is None and gives_up_at is not None and began_at >= gives_up_at:
            ending = FollowEnd.TIMED_OUT
        if ending is not None:
            return FollowResult(ending=ending, rollout=rollout)
        last = rollout
        await pause(clock, clock.monotonic() - began_at)
        left = None if gives_up_at is None else max(0.0, gives_up_at - clock.monotonic())
        waits = [seconds for seconds in (left, renderer.redraw_seconds) if seconds is not None]
        await wait_for_change(watcher.changed, min(waits, default=None))


def _find_end(watcher: RolloutWatcher, rollout: Rollout, options: FollowOptions) -> FollowEnd | None:
    if watcher.is_terminating:
        return FollowEnd.TERMINATING
    if options.revision not in (None, rollout.revision) and rollout.state is not RolloutState.UNSEEN:
        return FollowEnd.SUPERSEDED
    if rollout.is_over:
        return FollowEnd.OVER
    return None if options.is_watching else FollowEnd.READ_ONCE


class ProgressRenderer:
    """A renderer of progress that prints nothing, for callers that need only the result."""

    redraw_seconds: float | None = None

    def render(self, rollout: Rollout) -> None:
        """Render one state. What did not change since the last one may be omitted."""


class ProgressLines(ProgressRenderer):
    """A renderer that prints one line with the time per relevant change. The command prints the result."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._printed: tuple[object, ...] = ()

    def render(self, rollout: Rollout) -> None:
        if rollout.is_over or progress_key(rollout) == self._printed:
            return
        self._printed = progress_key(rollout)
        output.print_line(f"{self._clock.now():%H:%M:%S} {progress_line(rollout)}")


class LiveProgress(ProgressRenderer):
    """A renderer that redraws progress bars on a terminal."""

    redraw_seconds = REDRAW_SECONDS

    def __init__(self, clock: Clock, draw: Draw) -> None:
        self._clock = clock
        self._draw = draw

    def render(self, rollout: Rollout) -> None:
        self._draw(progress_rows(rollout, self._clock.now(), output.width()))

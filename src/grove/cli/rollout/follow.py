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
from grove.cli.rollout.revisions import revision_selector, revisions_of
from grove.cli.rollout.view import progress_line, progress_rows, substance
from grove.cli.status.set_watcher import PAUSE_PER_COST, SHORTEST_PAUSE_SECONDS, Followed
from grove.clock import Clock
from grove.kube.client import Client
from grove.kube.reflector import Reflector
from grove.kube.store import Store
from grove.planner.snapshot import SetContext, build_context

# The live display shows the elapsed time.
REDRAW_SECONDS = 1.0

Draw = Callable[[Sequence[Row]], None]


class FollowEnd(StrEnum):
    OVER = "over"
    # The update continues; only one read was requested.
    LOOKED = "looked"
    TIMED_OUT = "timed out"
    # The set has another revision than the one to follow.
    SUPERSEDED = "superseded"
    LEAVING = "leaving"
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


class FollowedRollout:
    """One set with its revisions: `look_once`, then `run` until cancelled; `look` is what is known now."""

    def __init__(self, client: Client, clock: Clock, random: Random, *, namespace: str, name: str) -> None:
        self._client = client
        self._namespace = namespace
        self._selector = revision_selector(name)
        self._followed = Followed(client, clock, random, namespace=namespace, name=name)
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
        """Of the set that the first look found: another one of its name is another story."""
        self.is_terminating = False
        self.changed = self._followed.changed

    async def look_once(self) -> Rollout | None:
        """List once, without watching. Returns None if the set does not exist. Raises `ApiError`."""
        mark = self._revisions.begin_list()
        _, listing = await asyncio.gather(
            self._followed.look_once(),
            self._client.list(CONTROLLER_REVISIONS, namespace=self._namespace, label_selector=self._selector),
        )
        self._revisions.apply_list(listing, mark)
        self.uid = next((one.pcs.metadata.uid for one in self._followed.objects()), Uid(""))
        return self.look()

    async def run(self) -> None:
        self._revisions.subscribe(lambda *_: self.changed.set())
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._followed.run())
            tasks.create_task(self._reflector.run())

    def look(self) -> Rollout | None:
        objects = next((one for one in self._followed.objects() if one.pcs.metadata.uid == self.uid), None)
        if objects is None:
            return None
        pcs = objects.pcs
        self.is_terminating = pcs.metadata.is_terminating
        if self._context is None or self._context.generation != pcs.metadata.generation:
            self._context = build_context(pcs)
        return build_rollout(objects, self._context, revisions_of(pcs, self._revisions.values()))


async def follow(
    followed: FollowedRollout, first: Rollout, clock: Clock, wishes: FollowOptions, show: "Show"
) -> FollowResult:
    """Follow an update from its first state until it ends, and render every state."""
    show.tell(first)
    ending = _ending(followed, first, wishes)
    if ending is not None:
        return FollowResult(ending=ending, rollout=first)
    async with asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(followed.run())
        outcome = await _until_ending(followed, first, clock, wishes, show)
        watching.cancel()
    return outcome


async def _until_ending(
    followed: FollowedRollout, last: Rollout, clock: Clock, wishes: FollowOptions, show: "Show"
) -> FollowResult:
    patience = wishes.timeout_seconds
    gives_up_at = None if patience is None else clock.monotonic() + patience
    while True:
        began_at = clock.monotonic()
        followed.changed.clear()
        rollout = followed.look()
        if rollout is None:
            return FollowResult(ending=FollowEnd.GONE, rollout=last)
        show.tell(rollout)
        ending = _ending(followed, rollout, wishes)
        if ending is None and gives_up_at is not None and began_at >= gives_up_at:
            ending = FollowEnd.TIMED_OUT
        if ending is not None:
            return FollowResult(ending=ending, rollout=rollout)
        last = rollout
        pause = max(SHORTEST_PAUSE_SECONDS, PAUSE_PER_COST * (clock.monotonic() - began_at))
        await clock.sleep(pause)
        left = None if gives_up_at is None else max(0.0, gives_up_at - clock.monotonic())
        await _news(followed, min((at for at in (left, show.redraw_seconds) if at is not None), default=None))


def _ending(followed: FollowedRollout, rollout: Rollout, wishes: FollowOptions) -> FollowEnd | None:
    if followed.is_terminating:
        return FollowEnd.LEAVING
    if wishes.revision not in (None, rollout.revision) and rollout.state is not RolloutState.UNSEEN:
        return FollowEnd.SUPERSEDED
    if rollout.is_over:
        return FollowEnd.OVER
    return None if wishes.is_watching else FollowEnd.LOOKED


async def _news(followed: FollowedRollout, at_most: float | None) -> None:
    try:
        async with asyncio.timeout(at_most):
            await followed.changed.wait()
    except TimeoutError:
        return


class Show:
    """A renderer of progress that prints nothing, for callers that need only the result."""

    redraw_seconds: float | None = None

    def tell(self, rollout: Rollout) -> None:
        """Render one state. What did not change since the last one may be omitted."""


class ProgressLines(Show):
    """A renderer that prints one line with the time per relevant change. The command prints the result."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._told: tuple[object, ...] = ()

    def tell(self, rollout: Rollout) -> None:
        if rollout.is_over or substance(rollout) == self._told:
            return
        self._told = substance(rollout)
        output.say(f"{self._clock.now():%H:%M:%S} {progress_line(rollout)}")


class LiveProgress(Show):
    """A renderer that redraws progress bars on a terminal."""

    redraw_seconds = REDRAW_SECONDS

    def __init__(self, clock: Clock, draw: Draw) -> None:
        self._clock = clock
        self._draw = draw

    def tell(self, rollout: Rollout) -> None:
        self._draw(progress_rows(rollout, self._clock.now(), output.width()))

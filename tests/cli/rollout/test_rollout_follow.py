"""Following an update until it is over, and going back: against an API server in virtual time, without an operator.

The test plays the operator: it stores revisions and writes statuses. `test_rollout.py` has the real one.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from random import Random
from typing import Any

import msgspec
import pytest

from grove.api.resources import CONTROLLER_REVISIONS, PODCLIQUESETS
from grove.api.types.meta import JsonObject
from grove.api.types.podcliqueset import PodCliqueSet
from grove.cli.rollout.follow import (
    FollowEnd,
    FollowOptions,
    FollowResult,
    LiveProgress,
    ProgressLines,
    ProgressRenderer,
    RolloutWatcher,
    follow,
)
from grove.cli.rollout.progress import Rollout, RolloutState
from grove.errors import UserError
from grove.kube.api_errors import ApiError
from grove.kube.transport import Request, Response, Transport
from grove.operations.connection import Connection
from grove.operations.rollout.template_diff import describe_changes
from grove.operations.rollout.undo import undo
from grove.sim.simulation import World
from grove.sim.virtual_clock import run_virtual
from tests.cli.rollouts import CLOSED, OPEN, manifest, revision_body

Story = Callable[["Played"], Awaitable[None]]


class Played:
    """A set without an operator."""

    def __init__(self, world: World) -> None:
        self.world = world

    async def begin(self, **written: Any) -> None:
        await self.world.apply(manifest(**written))
        await self.store(1, a="a:1", b="b:1")

    async def store(self, number: int, *, a: str, b: str, cause: str = "") -> None:
        uid = self.pcs().metadata.uid
        body = revision_body("p", uid, number, a=a, b=b, a_hash=f"a{number}", b_hash=f"b{number}", cause=cause)
        await self.world.client.create(CONTROLLER_REVISIONS, "default", body)

    async def tell(self, generation_hash: str, progress: JsonObject | None, *, generation: int | None = None) -> None:
        seen = self.pcs().metadata.generation if generation is None else generation
        status = {
            "observedGeneration": seen,
            "currentGenerationHash": generation_hash,
            "rollingUpdateProgress": progress,
        }
        await self.world.client.patch(PODCLIQUESETS, "default", "p", {"status": status}, subresource="status")

    def pcs(self) -> PodCliqueSet:
        (found,) = self.world.objects(PODCLIQUESETS)
        return found

    def images(self) -> list[str]:
        return [clique.spec.pod_spec["containers"][0]["image"] for clique in self.pcs().spec.template.cliques]

    def connection(self, transport: Transport | None = None) -> Connection:
        return Connection(
            client=self.world.client,
            transport=transport or self.world.user,
            clock=self.world.clock,
            namespace="default",
        )


class Looks(ProgressRenderer):
    def __init__(self) -> None:
        self.states: list[RolloutState] = []

    def render(self, rollout: Rollout) -> None:
        if self.states[-1:] != [rollout.state]:
            self.states.append(rollout.state)


def play(story: Story) -> None:
    async def whole() -> None:
        async with World(seed=1, operator=None) as world:
            await story(Played(world))

    run_virtual(whole())


async def followed(played: Played, wishes: FollowOptions, show: ProgressRenderer | None = None) -> FollowResult:
    world = played.world
    rollout = RolloutWatcher(world.client, world.clock, Random(1), namespace="default", name="p")
    first = await rollout.list_once()
    assert first is not None
    return await follow(rollout, first, world.clock, wishes, show or ProgressRenderer())


async def updating(played: Played) -> None:
    """Revision 2 of a set whose operator has begun with it."""
    await played.begin()
    await played.store(2, a="a:2", b="b:2")
    await played.tell("h2", OPEN)


# --- following -------------------------------------------------------------------------------------------------------


def test_an_update_is_followed_from_the_change_to_its_end() -> None:
    async def story(played: Played) -> None:
        await played.begin()
        await played.tell("h1", None, generation=0)
        looks = Looks()
        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(followed(played, FollowOptions(), looks))
            for act in (
                played.store(2, a="a:2", b="b:2"), played.tell("h2", OPEN), played.tell("h2", CLOSED),
            ):  # fmt: skip
                await played.world.clock.sleep(10)
                await act
        outcome = following.result()
        assert (outcome.ending, outcome.rollout.revision) == (FollowEnd.OVER, 2)
        assert looks.states == [RolloutState.UNSEEN, RolloutState.UPDATING, RolloutState.UP_TO_DATE]

    play(story)


def test_what_is_up_to_date_is_not_waited_for() -> None:
    async def story(played: Played) -> None:
        await played.begin(a="a:1", b="b:1")
        await played.tell("h1", None)
        began_at = played.world.clock.monotonic()
        outcome = await followed(played, FollowOptions())
        assert (outcome.ending, outcome.rollout.revision) == (FollowEnd.OVER, 1)
        assert played.world.clock.monotonic() - began_at < 1

    play(story)


def test_one_look_does_not_wait() -> None:
    async def story(played: Played) -> None:
        await updating(played)
        outcome = await followed(played, FollowOptions(is_watching=False))
        assert (outcome.ending, outcome.rollout.state) == (FollowEnd.READ_ONCE, RolloutState.UPDATING)

    play(story)


def test_patience_ends_at_its_time_though_nothing_happens() -> None:
    async def story(played: Played) -> None:
        await updating(played)
        began_at = played.world.clock.now()
        outcome = await followed(played, FollowOptions(timeout_seconds=30))
        assert (outcome.ending, outcome.rollout.state) == (FollowEnd.TIMED_OUT, RolloutState.UPDATING)
        assert timedelta(seconds=30) <= played.world.clock.now() - began_at < timedelta(seconds=31)

    play(story)


def test_a_set_that_is_deleted_meanwhile_ends_it() -> None:
    async def story(played: Played) -> None:
        await updating(played)
        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(followed(played, FollowOptions()))
            await played.world.clock.sleep(5)
            await played.world.delete(PODCLIQUESETS, "p")
            # Another set of that name is another story.
            await played.world.apply(manifest())
        assert following.result().ending is FollowEnd.GONE

    play(story)


def test_a_set_that_is_being_deleted_is_not_waited_for() -> None:
    async def story(played: Played) -> None:
        await updating(played)
        held = {"metadata": {"finalizers": ["example.com/backup"]}}
        await played.world.client.patch(PODCLIQUESETS, "default", "p", held)
        await played.world.delete(PODCLIQUESETS, "p")
        assert (await followed(played, FollowOptions())).ending is FollowEnd.TERMINATING

    play(story)


def test_a_newer_revision_than_the_one_that_is_followed_ends_it() -> None:
    async def story(played: Played) -> None:
        await updating(played)
        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(followed(played, FollowOptions(revision=2)))
            await played.world.clock.sleep(5)
            await played.world.apply(manifest(a="a:3"))
            await played.store(3, a="a:3", b="b:2")
            await played.tell("h3", OPEN)
        outcome = following.result()
        assert (outcome.ending, outcome.rollout.revision) == (FollowEnd.SUPERSEDED, 3)

    play(story)


def test_where_there_is_no_terminal_a_change_of_substance_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    async def story(played: Played) -> None:
        await updating(played)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(followed(played, FollowOptions(timeout_seconds=60), ProgressLines(played.world.clock)))
            for available in (1, 2):
                await played.world.clock.sleep(10)
                status = {"status": {"availableReplicas": available}}
                await played.world.client.patch(PODCLIQUESETS, "default", "p", status, subresource="status")
            turn = OPEN | {"currentlyUpdating": {"replicaIndex": 1, "updateStartedAt": OPEN["updateStartedAt"]}}
            await played.world.clock.sleep(10)
            await played.tell("h2", turn)

    play(story)
    assert capsys.readouterr().out.splitlines() == [
        "00:00:00 pcs/p updating to revision 2; 0/2 replicas; 0/8 pods new and ready",
        "00:00:30 pcs/p updating to revision 2; 0/2 replicas; 0/8 pods new and ready; replica 1",
    ]


def test_a_picture_is_drawn_again_though_nothing_changes() -> None:
    drawn: list[str] = []

    async def story(played: Played) -> None:
        await updating(played)
        await played.tell("h2", {"updateStartedAt": "2026-01-01T00:00:00Z"})
        picture = LiveProgress(played.world.clock, lambda rows: drawn.append(rows[0][0].text))
        await followed(played, FollowOptions(timeout_seconds=5), picture)

    play(story)
    assert list(dict.fromkeys(drawn)) == [f"pcs/p updating to revision 2 for {second}s" for second in range(6)]


# --- going back ------------------------------------------------------------------------------------------------------


async def two_revisions(played: Played) -> None:
    await played.world.apply(manifest())
    await played.store(1, a="a:1", b="b:1", cause="first")
    await played.store(2, a="a:2", b="b:2")


def test_undo_puts_the_templates_before_back_and_nothing_else() -> None:
    async def story(played: Played) -> None:
        await two_revisions(played)
        before = played.pcs()
        undone = await undo(played.connection(), "p", None, is_dry_run=False)
        assert played.images() == ["a:1", "b:1"]
        assert (undone.from_revision, undone.to_revision, undone.becomes_revision) == (2, 1, 3)
        assert describe_changes(undone.changes) == ["a: image a:2 -> a:1", "b: image b:2 -> b:1"]
        after = played.pcs()
        assert after.metadata.annotations["kubernetes.io/change-cause"] == "first"
        assert after.spec.template.pod_clique_scaling_groups == before.spec.template.pod_clique_scaling_groups
        assert after.spec.replicas == before.spec.replicas
        # Back again: the highest number that makes other pods, though nobody renumbered anything yet.
        again = await undo(played.connection(), "p", None, is_dry_run=False)
        assert (again.from_revision, again.to_revision, played.images()) == (1, 2, ["a:2", "b:2"])
        assert "kubernetes.io/change-cause" not in played.pcs().metadata.annotations

    play(story)


def test_undo_to_what_the_set_asks_for_changes_nothing() -> None:
    async def story(played: Played) -> None:
        await two_revisions(played)
        version = played.pcs().metadata.resource_version
        undone = await undo(played.connection(), "p", 2, is_dry_run=False)
        assert (undone.is_changed, undone.changes) == (False, ())
        assert played.pcs().metadata.resource_version == version

    play(story)


def test_a_change_that_is_not_stored_yet_is_undone_to_the_last_that_is() -> None:
    async def story(played: Played) -> None:
        await two_revisions(played)
        await played.world.apply(manifest(a="a:3", b="b:3"))
        undone = await undo(played.connection(), "p", None, is_dry_run=False)
        assert (undone.from_revision, undone.to_revision, undone.becomes_revision) == (None, 2, 2)
        assert played.images() == ["a:2", "b:2"]

    play(story)


def test_a_dry_run_says_the_same_and_changes_nothing() -> None:
    async def story(played: Played) -> None:
        await two_revisions(played)
        undone = await undo(played.connection(), "p", None, is_dry_run=True)
        assert played.images() == ["a:2", "b:2"]
        done = await undo(played.connection(), "p", None, is_dry_run=False)
        assert msgspec.structs.replace(done, is_dry_run=True) == undone

    play(story)


def test_a_write_in_between_is_met_by_another_attempt() -> None:
    async def story(played: Played) -> None:
        await two_revisions(played)
        meddling = Meddling(played, times=3)
        undone = await undo(played.connection(meddling), "p", None, is_dry_run=False)
        assert (undone.to_revision, meddling.refused_count) == (1, 3)
        assert played.images() == ["a:1", "b:1"]
        assert played.pcs().metadata.labels == {"meddled": "3"}

    play(story)


def test_a_set_that_is_written_again_and_again_ends_as_a_conflict() -> None:
    async def story(played: Played) -> None:
        await two_revisions(played)
        with pytest.raises(ApiError) as told:
            await undo(played.connection(Meddling(played, times=1000)), "p", None, is_dry_run=False)
        assert told.value.is_conflict
        assert played.images() == ["a:2", "b:2"]

    play(story)


class Meddling:
    """A connection on which somebody else is a little faster: before each of our first patches the set changes."""

    def __init__(self, played: Played, *, times: int) -> None:
        self._played = played
        self._left = times
        self._count = 0
        self.refused_count = 0

    async def send(self, request: Request) -> Response:
        if request.method == "PATCH" and self._left:
            self._left -= 1
            self._count += 1
            label = {"metadata": {"labels": {"meddled": str(self._count)}}}
            await self._played.world.client.patch(PODCLIQUESETS, "default", "p", label)
        response = await self._played.world.user.send(request)
        self.refused_count += response.status == 409
        return response

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._played.world.user.stream(request)


@pytest.mark.parametrize(
    ("asked", "kept", "text"),
    [
        (7, 2, "pcs/p has no revision 7; it has revisions 1 and 2, see `grove rollout history pcs/p`"),
        (7, 0, "pcs/p has no revision 7; none is stored yet, see `grove rollout history pcs/p`"),
        (
            None,
            0,
            (
                "pcs/p has no earlier revision: no revision is stored yet; "
                "to change the set, apply other templates with `grove apply`"
            ),
        ),
    ],
)
def test_where_there_is_nothing_to_go_back_to_it_is_said_what_there_is(asked: int | None, kept: int, text: str) -> None:
    async def story(played: Played) -> None:
        await played.world.apply(manifest())
        for number in range(1, kept + 1):
            await played.store(number, a=f"a:{number}", b=f"b:{number}")
        with pytest.raises(UserError) as told:
            await undo(played.connection(), "p", asked, is_dry_run=False)
        assert str(told.value) == text

    play(story)


def test_the_only_revision_is_nothing_to_go_back_from() -> None:
    async def story(played: Played) -> None:
        await played.begin(a="a:1", b="b:1")
        with pytest.raises(UserError, match="only revision 1 is stored"):
            await undo(played.connection(), "p", None, is_dry_run=False)
        with pytest.raises(UserError, match="no PodCliqueSet 'q' in namespace 'default'"):
            await undo(played.connection(), "q", None, is_dry_run=False)

    play(story)

"""One group in an update: which of its replicas is made anew next, as a whole, and what is waited for."""

from datetime import datetime
from typing import Any

import msgspec
import pytest

from grove.api import labels
from grove.api.reasons import Reason
from grove.api.types.pod import Pod
from grove.api.types.podcliquescalinggroup import (
    GroupRollingUpdateProgress,
    PodCliqueScalingGroup,
    ReplicasSelectedToUpdate,
    ScalingGroupStatus,
)
from grove.planner.rollout.clique_update import LINGERING
from grove.planner.rollout.group_update import GroupRoll, UnitView, roll_group
from grove.planner.rollout.update_progress import UpdateInput
from grove.planner.views import CliqueView
from tests.dsl import NOW, at, clique, gated, group, pod, starting

param = pytest.param
LATER = at(600)
ENDED = GroupRollingUpdateProgress(update_started_at=NOW, update_ended_at=NOW)


def rolling(current: int = -1, *completed: int, started: datetime = NOW) -> GroupRollingUpdateProgress:
    choice = (
        ReplicasSelectedToUpdate(current=current, completed=completed, ready_before=len(completed))
        if current >= 0
        else None
    )
    return GroupRollingUpdateProgress(update_started_at=started, ready_replica_indices_selected_to_update=choice)


def member(one: Pod | None, name: str, template: str) -> CliqueView:
    """A clique of one pod."""
    pods = () if one is None else (one,)
    return clique(*pods, name=name, replicas=1, needs=1, labels={labels.TEMPLATE_HASH: template})


def unit(index: int, b: Pod | None, c: Pod | None, *, template: str = "new", **fields: Any) -> UnitView:
    """A group replica of two cliques, whose objects have `template`."""
    cliques = [(member(one, f"p-0-g-{index}-{name}", template), "new") for name, one in (("b", b), ("c", c))]
    return UnitView(index=index, cliques=tuple(cliques), **fields)


def old(index: int, **fields: Any) -> UnitView:
    pods = (pod(clique=f"p-0-g-{index}-{name}", template_hash="old", **fields) for name in ("b", "c"))
    return unit(index, *pods, template="old")


def new(index: int, **fields: Any) -> UnitView:
    pods = (pod(clique=f"p-0-g-{index}-{name}") for name in ("b", "c"))
    return unit(index, *pods, **fields)


def scaled(index: int) -> UnitView:
    """Of an older template and ready, in a gang of its own whose base gang is not scheduled."""
    return msgspec.structs.replace(old(index, created=at(-90)), base_unscheduled_since=NOW)


def going(index: int) -> UnitView:
    """Recorded to be made anew; nothing of it exists yet."""
    return UnitView(index=index, cliques=((None, "new"), (None, "new")), is_recreating=True)


def grouped(progress: GroupRollingUpdateProgress | None, needs: int) -> PodCliqueScalingGroup:
    return group("p-0-g", "b", "c", needs=needs, status=ScalingGroupStatus(rolling_update_progress=progress))


def roll(
    *units: UnitView,
    progress: GroupRollingUpdateProgress | None = None,
    needs: int = 1,
    has_same_target: bool = True,
    may_start: bool = True,
    must_stop: bool = False,
    now: datetime = LATER,
) -> GroupRoll:
    found = grouped(progress, needs)
    inputs = UpdateInput(has_same_target=has_same_target, may_start=may_start, must_stop=must_stop, now=now)
    return roll_group(found, units, inputs)


# It begins and stops


def test_in_its_turn_an_outdated_group_says_that_it_is_updated_before_it_does_anything() -> None:
    assert roll(old(0), old(1)) == GroupRoll(progress=rolling(started=LATER), is_done=False)


def test_a_group_without_a_changed_member_is_left_alone() -> None:
    assert roll(new(0), new(1)) == GroupRoll()


def test_before_its_turn_nothing_is_said() -> None:
    assert roll(old(0), progress=ENDED, may_start=False) == GroupRoll(progress=ENDED, is_done=False)


def test_one_changed_member_makes_its_replica_outdated() -> None:
    mixed = unit(0, pod(clique="p-0-g-0-b"), pod(clique="p-0-g-0-c", template_hash="old"))
    assert roll(mixed).progress == rolling(started=LATER)


def test_with_on_delete_it_starts_and_ends_at_once_and_no_replica_goes() -> None:
    at_once = GroupRollingUpdateProgress(update_started_at=LATER, update_ended_at=LATER)
    assert roll(old(0), must_stop=True, has_same_target=False) == GroupRoll(progress=at_once, is_done=False)
    assert roll(old(0), must_stop=True, progress=ENDED) == GroupRoll(progress=ENDED, is_done=False)


def test_a_switch_to_on_delete_ends_an_update_where_it_is() -> None:
    ended = GroupRollingUpdateProgress(update_started_at=NOW, update_ended_at=LATER)
    assert roll(old(0), new(1), must_stop=True, progress=rolling(0)) == GroupRoll(progress=ended, is_done=False)


# What a further change leaves of the last choice


@pytest.mark.parametrize(
    ("units", "left"),
    [
        param((new(0, was_updated=True), old(1)), None, id="it came back ready"),
        param((going(0), old(1), new(2, was_updated=True)), None, id="another got its place"),
        param((going(0), old(1)), ReplicasSelectedToUpdate(current=0), id="nobody made up for it"),
        param(
            (going(0), old(1), new(2), new(3)),
            ReplicasSelectedToUpdate(current=0, ready_before=2),
            id="back to a template that replicas still run, which make up for nothing",
        ),
        param((old(0), old(1)), None, id="it was chosen and is still there, and is chosen again"),
    ],
)
def test_a_further_change_keeps_only_a_choice_that_nothing_made_up_for(
    units: tuple[UnitView, ...], left: ReplicasSelectedToUpdate | None
) -> None:
    found = roll(*units, progress=rolling(0), has_same_target=False)
    again = GroupRollingUpdateProgress(update_started_at=LATER, ready_replica_indices_selected_to_update=left)
    assert found == GroupRoll(progress=again, is_done=False)


def test_a_change_of_cliques_outside_the_group_keeps_the_choice() -> None:
    # One of those that were ready before is not ready now; it does not make up for the one that was taken.
    seen = (new(0, was_updated=True), going(1), old(2), pending(3))
    units = [msgspec.structs.replace(one, has_same_target=True) for one in seen]
    found = roll(*units, progress=rolling(1, 0, 3), has_same_target=False)
    assert found.progress == rolling(1, 0, 3, started=LATER)


# Step by step


class Step(msgspec.Struct, frozen=True, kw_only=True):
    recreate: tuple[int, ...] = ()
    chooses: int = -1
    waits: Reason | None = None
    ends: bool = False


def step_of(found: GroupRoll, before: GroupRollingUpdateProgress) -> Step:
    assert found.progress is not None
    choice = found.progress.ready_replica_indices_selected_to_update if found.progress != before else None
    return Step(
        recreate=tuple(sorted(found.recreate)),
        chooses=choice.current if choice else -1,
        waits=found.wait.reason if found.wait else None,
        ends=found.progress.update_ended_at is not None,
    )


def unready(index: int) -> UnitView:
    """Old; one of its cliques is below its minimum."""
    b, c = (f"p-0-g-{index}-{name}" for name in ("b", "c"))
    return unit(index, pod(clique=b, template_hash="old"), starting(clique=c, template_hash="old"), template="old")


def pending(index: int, template: str = "new") -> UnitView:
    pods = (gated(clique=f"p-0-g-{index}-{name}", template_hash=template) for name in ("b", "c"))
    return unit(index, *pods, template=template)


@pytest.mark.parametrize(
    ("units", "progress", "needs", "step"),
    [
        param((old(0), old(1, created=at(-90))), rolling(), 1, Step(chooses=1), id="the oldest first"),
        param((old(0), old(1)), rolling(), 1, Step(chooses=0), id="then the lowest index"),
        param((old(0), old(1)), rolling(1), 1, Step(recreate=(1,)), id="what is chosen goes"),
        param(
            (unready(0), pending(1, "old"), old(2)),
            rolling(),
            1,
            Step(recreate=(0, 1), chooses=2),
            id="pending and unavailable ones go at once, and are not waited for",
        ),
        param((unready(0), old(1)), rolling(1), 1, Step(recreate=(0, 1)), id="with the one that is chosen"),
        param((going(0), old(1)), rolling(0), 1, Step(waits=Reason.PODS_NOT_READY), id="it is on its way"),
        param((pending(0), old(1)), rolling(0), 1, Step(waits=Reason.NO_CAPACITY), id="it is not ready yet"),
        param((new(0), old(1)), rolling(0), 1, Step(chooses=1), id="it is ready again"),
        param((pending(0), old(1), new(2)), rolling(0), 1, Step(chooses=1), id="another new one got its place"),
        param(
            (pending(0), old(1), new(2), new(3)),
            rolling(0, 2, 3),
            1,
            Step(waits=Reason.NO_CAPACITY),
            id="new ones that were ready before make up for nothing",
        ),
        param((new(0), old(1), pending(2)), rolling(0, 2), 1, Step(chooses=1), id="it is ready again, whoever fell"),
        param(
            (old(0), pending(1)), rolling(), 2, Step(waits=Reason.MINIMUM_NOT_MET), id="below the minimum: none chosen"
        ),
        param(
            (old(0), pending(1)), rolling(0), 2, Step(waits=Reason.MINIMUM_NOT_MET), id="below the minimum: none taken"
        ),
        param((old(0), old(1)), rolling(0), 2, Step(recreate=(0,)), id="at the minimum it goes first"),
        param((old(0), old(1)), rolling(2), 1, Step(chooses=0), id="nobody waits for what a scale-in took"),
        param((new(0), new(1)), rolling(1, 0), 1, Step(ends=True), id="all is new"),
        param((new(0), pending(1)), rolling(0), 1, Step(ends=True), id="what was pending before is not waited for"),
        param((new(0), going(1)), rolling(0), 1, Step(), id="not before the last one is back"),
        param(
            (msgspec.structs.replace(pending(0, "old"), is_recreating=True), old(1)),
            rolling(),
            1,
            Step(chooses=1),
            id="what is on its way is not torn down again",
        ),
        param((unit(0, None, None),), rolling(), 1, Step(ends=True), id="its minimum is not its own question"),
        param((new(0), scaled(1)), rolling(0), 1, Step(waits=Reason.MINIMUM_NOT_MET), id="not without a base"),
        param((old(0), scaled(1)), rolling(), 1, Step(chooses=0), id="another one meanwhile"),
        param((new(0), scaled(1)), rolling(1), 1, Step(waits=Reason.MINIMUM_NOT_MET), id="nor if it was chosen before"),
    ],
)
def test_the_next_step_of_a_group(
    units: tuple[UnitView, ...], progress: GroupRollingUpdateProgress, needs: int, step: Step
) -> None:
    assert step_of(roll(*units, progress=progress, needs=needs), progress) == step


def test_what_is_torn_down_is_looked_at_afresh_first() -> None:
    choosing, taking = roll(old(0), progress=rolling()), roll(old(0), progress=rolling(0))
    useless, waiting = roll(unready(0), progress=rolling()), roll(pending(0), progress=rolling(0))
    assert [found.needs_live_read for found in (choosing, taking, useless, waiting)] == [True, True, True, False]


def test_an_update_ends_when_the_last_old_pod_has_left_not_before() -> None:
    terminating = member(pod(template_hash="old", terminating=True), "p-0-g-0-b", "old")
    units = (msgspec.structs.replace(new(0), leftovers=((terminating, "new"),)),)
    goes_at = NOW + LINGERING
    before, then = (roll(*units, progress=rolling(0), now=now) for now in (goes_at - LINGERING / 30, goes_at))
    assert (before.is_done, before.requeue_at) == (False, goes_at)
    assert (then.is_done, then.requeue_at) == (True, None)


def test_an_update_that_ended_does_not_start_again_for_a_clique_that_is_only_an_object() -> None:
    """Else the group would end and start an update in every reconcile, until the old clique is gone."""
    terminating = member(pod(template_hash="old", terminating=True), "p-0-g-0-b", "old")
    units = (msgspec.structs.replace(new(0), leftovers=((terminating, "new"),)),)
    over = GroupRollingUpdateProgress(update_started_at=NOW, update_ended_at=LATER)
    assert roll(*units, progress=over, now=NOW + LINGERING) == GroupRoll(progress=over, is_done=True)


def test_whose_turn_went_to_another_replica_takes_nothing_more() -> None:
    found = roll(old(0), unready(1), progress=rolling(0), may_start=False)
    assert found == GroupRoll(progress=rolling(0), is_done=False)


def test_who_is_done_may_say_so_without_its_turn() -> None:
    found = roll(new(0), progress=rolling(0), may_start=False)
    ended = GroupRollingUpdateProgress(update_started_at=NOW, update_ended_at=LATER)
    assert found == GroupRoll(progress=ended, is_done=True)

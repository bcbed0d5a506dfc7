"""One standalone clique in an update: which pods go, in which order, and what is waited for."""

from datetime import datetime
from typing import Any

import msgspec
import pytest

from grove.api import labels
from grove.api.reasons import Reason
from grove.api.schema.limits import LISTED_AS_UPDATED
from grove.api.types.pod import Pod
from grove.api.types.podclique import (
    CliqueRollingUpdateProgress,
    CliqueUpdateProgress,
    PodCliqueStatus,
    PodsSelectedToUpdate,
)
from grove.planner.rollout.clique_update import LINGERING, CliqueRoll, roll_clique
from grove.planner.rollout.update_progress import UpdateInput
from grove.planner.views import CliqueView
from tests.dsl import NOW, at, clique, failed, gated, pod, starting

param = pytest.param
LATER = at(600)


MINE = "p-0-a-0-older"


def rolling(current: str = "", *completed: str, started: datetime = NOW) -> CliqueRollingUpdateProgress:
    choice = (
        PodsSelectedToUpdate(current=current, completed=completed, ready_before=len(completed)) if current else None
    )
    return CliqueRollingUpdateProgress(update_started_at=started, ready_pods_selected_to_update=choice)


ENDED = CliqueRollingUpdateProgress(update_started_at=NOW, update_ended_at=NOW)


def old(index: int, **fields: Any) -> Pod:
    return pod(index, template_hash="old", **{"name": f"p-0-a-{index}-older", **fields})


def new(index: int, **fields: Any) -> Pod:
    return pod(index, **{"name": f"p-0-a-{index}-newer", **fields})


def view(
    *pods: Pod,
    progress: CliqueRollingUpdateProgress | None = None,
    stored_hashes_of_target: str = "new",
    template: str = "new",
    replicas: int | None = None,
    needs: int = 1,
) -> CliqueView:
    """A clique whose object has `template`, and whose stored progress aims at `aimed_at`."""
    told = CliqueUpdateProgress(
        pod_clique_set_generation_hash=f"set-{stored_hashes_of_target}", pod_template_hash=stored_hashes_of_target
    )
    found = clique(
        *pods,
        replicas=replicas,
        needs=needs,
        status=PodCliqueStatus(rolling_update_progress=progress, update_progress=told if progress else None),
    )
    metadata = msgspec.structs.replace(
        found.clique.metadata, labels={**found.clique.metadata.labels, labels.TEMPLATE_HASH: template}
    )
    return msgspec.structs.replace(found, clique=msgspec.structs.replace(found.clique, metadata=metadata))


def roll(seen: CliqueView, *, may_start: bool = True, must_stop: bool = False, now: datetime = LATER) -> CliqueRoll:
    told = seen.clique.status.update_progress
    has_same_target = told is not None and told.pod_clique_set_generation_hash == "set-new"
    inputs = UpdateInput(has_same_target=has_same_target, may_start=may_start, must_stop=must_stop, now=now)
    return roll_clique(seen, "new", inputs)


# It begins, is aimed anew, and stops


def test_in_its_turn_an_outdated_clique_says_that_it_is_updated_before_it_does_anything() -> None:
    found = roll(view(old(0), old(1), template="old"))
    assert found == CliqueRoll(progress=rolling(started=LATER), is_done=False)


@pytest.mark.parametrize(
    ("seen", "is_done"),
    [
        param(view(new(0)), True, id="nothing is old"),
        param(view(new(0), progress=ENDED), True, id="it was updated before"),
        param(view(old(0), template="old"), False, id="not its turn"),
        param(
            view(old(0), template="old", progress=ENDED, stored_hashes_of_target="old"),
            False,
            id="not its turn, updated before",
        ),
    ],
)
def test_who_has_nothing_to_do_or_no_turn_says_nothing_new(seen: CliqueView, is_done: bool) -> None:
    stored = seen.clique.status.rolling_update_progress
    assert roll(seen, may_start=False) == CliqueRoll(progress=stored, is_done=is_done)


def test_the_object_takes_the_template_over_before_any_pod_goes() -> None:
    seen = view(old(0), starting(1, template_hash="old"), template="old", progress=rolling())
    assert roll(seen) == CliqueRoll(progress=rolling(), may_patch=True, is_done=False)


def test_an_update_that_aims_at_something_older_is_aimed_anew_before_it_goes_on() -> None:
    seen = view(old(0), old(1), progress=rolling(), stored_hashes_of_target="middle", template="middle")
    assert roll(seen) == CliqueRoll(progress=rolling(started=LATER), is_done=False)


def test_with_on_delete_it_starts_and_ends_at_once_and_no_pod_goes() -> None:
    found = roll(view(old(0), starting(1, template_hash="old"), template="old"), must_stop=True)
    at_once = CliqueRollingUpdateProgress(update_started_at=LATER, update_ended_at=LATER)
    assert found == CliqueRoll(progress=at_once, may_patch=True, is_done=False)


def test_with_on_delete_the_same_template_is_told_once() -> None:
    found = roll(view(old(0), template="new", progress=ENDED), must_stop=True)
    assert found == CliqueRoll(progress=ENDED, may_patch=True, is_done=False)


def test_a_switch_to_on_delete_ends_an_update_where_it_is() -> None:
    found = roll(view(old(0), new(1), progress=rolling(MINE)), must_stop=True)
    ended = CliqueRollingUpdateProgress(update_started_at=NOW, update_ended_at=LATER)
    assert found == CliqueRoll(progress=ended, may_patch=True, is_done=False)


# What a further change leaves of the last choice


@pytest.mark.parametrize(
    ("seen", "left"),
    [
        param(
            view(new(0, template_hash="middle"), old(1), progress=rolling(MINE), stored_hashes_of_target="middle"),
            None,
            id="its successor is ready",
        ),
        param(
            view(
                new(2, template_hash="middle"),
                old(1),
                replicas=3,
                progress=rolling(MINE),
                stored_hashes_of_target="middle",
            ),
            None,
            id="another got its place",
        ),
        param(
            view(starting(0, template_hash="middle"), old(1), progress=rolling(MINE), stored_hashes_of_target="middle"),
            PodsSelectedToUpdate(current="p-0-a-0-older"),
            id="nobody made up for it",
        ),
        param(
            view(
                starting(0, template_hash="middle"),
                new(1),
                new(2),
                progress=rolling(MINE),
                stored_hashes_of_target="middle",
            ),
            PodsSelectedToUpdate(current="p-0-a-0-older", ready_before=2),
            id="back to a template that pods still run, which make up for nothing",
        ),
        param(
            view(old(0), old(1), progress=rolling(MINE), stored_hashes_of_target="middle"),
            None,
            id="it was chosen and still runs, and is chosen again",
        ),
    ],
)
def test_a_further_change_keeps_only_a_choice_that_nothing_made_up_for(
    seen: CliqueView, left: PodsSelectedToUpdate | None
) -> None:
    progress = roll(seen).progress
    assert progress is not None
    assert progress.ready_pods_selected_to_update == left


def test_a_change_of_other_cliques_keeps_the_choice() -> None:
    """The set's revision is another; this clique's template is not."""
    chosen = rolling("p-0-a-2-older", "p-0-a-0-newer", "p-0-a-1-newer")
    # One of those that were ready before is not ready now; it is still no successor of the one that was taken.
    seen = view(new(0), starting(1), starting(2), old(3), progress=chosen)
    inputs = UpdateInput(has_same_target=False, may_start=True, must_stop=False, now=LATER)
    found = roll_clique(seen, "new", inputs)
    assert found.progress == msgspec.structs.replace(chosen, update_started_at=LATER)


# Step by step


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """What a clique that is updated does next."""

    deletes: tuple[int, ...] = ()
    chooses: str = ""
    waits: Reason | None = None
    ends: bool = False


def step_of(found: CliqueRoll, before: CliqueRollingUpdateProgress | None) -> Step:
    progress = found.progress
    assert progress is not None
    choice = progress.ready_pods_selected_to_update if progress != before else None
    return Step(
        deletes=tuple(sorted(int(entry.pod.metadata.labels[labels.POD_INDEX]) for entry in found.deletes)),
        chooses=choice.current if choice else "",
        waits=found.wait.reason if found.wait else None,
        ends=progress.update_ended_at is not None,
    )


OLDEST = {"created": at(-90)}


@pytest.mark.parametrize(
    ("seen", "step"),
    [
        param(view(old(0), old(1, **OLDEST), progress=rolling()), Step(chooses="p-0-a-1-older"), id="the oldest first"),
        param(view(old(0), old(1), progress=rolling("p-0-a-1-older")), Step(deletes=(1,)), id="what is chosen goes"),
        param(
            view(gated(0, template_hash="old"), starting(1, template_hash="old"), old(2), progress=rolling()),
            Step(deletes=(0, 1), chooses="p-0-a-2-older"),
            id="pending and unready ones go at once, and are not waited for",
        ),
        param(
            view(old(1), replicas=2, progress=rolling(MINE)),
            Step(waits=Reason.PODS_NOT_READY),
            id="its successor does not exist yet",
        ),
        param(
            view(starting(0), old(1), progress=rolling(MINE)),
            Step(waits=Reason.PODS_NOT_READY),
            id="its successor is not ready",
        ),
        param(
            view(new(0), old(1), progress=rolling(MINE)),
            Step(chooses="p-0-a-1-older"),
            id="its successor is ready",
        ),
        param(
            view(gated(0), old(1), new(2), progress=rolling(MINE)),
            Step(chooses="p-0-a-1-older"),
            id="another new pod got its place",
        ),
        param(
            view(starting(0), old(1), new(2), new(3), progress=rolling(MINE, "p-0-a-2-newer", "p-0-a-3-newer")),
            Step(waits=Reason.PODS_NOT_READY),
            id="new pods that were ready before make up for nothing",
        ),
        param(
            view(new(0), old(1), gated(2), progress=rolling(MINE, "p-0-a-2-newer")),
            Step(chooses="p-0-a-1-older"),
            id="its own successor is ready, whoever else fell",
        ),
        param(
            view(old(0), old(1), starting(2), needs=3, progress=rolling()),
            Step(waits=Reason.MINIMUM_NOT_MET),
            id="below the minimum nothing ready is chosen",
        ),
        param(
            view(old(0), starting(1), needs=2, progress=rolling(MINE)),
            Step(waits=Reason.MINIMUM_NOT_MET),
            id="below the minimum what was chosen stays",
        ),
        param(
            view(old(0), old(1), needs=2, progress=rolling(MINE)),
            Step(deletes=(0,)),
            id="at the minimum it is deleted first",
        ),
        param(
            view(old(0), old(1), starting(2, template_hash="old"), replicas=2, progress=rolling(MINE)),
            Step(waits=Reason.MINIMUM_NOT_MET),
            id="a scale-in goes first",
        ),
        param(
            view(old(0), old(1), replicas=2, progress=rolling("p-0-a-2-older")),
            Step(chooses="p-0-a-0-older"),
            id="of what a scale-in took nobody is waited for",
        ),
        param(
            view(new(0), new(1), progress=rolling("p-0-a-1-older", "p-0-a-0-newer")), Step(ends=True), id="all is new"
        ),
        param(
            view(new(0), gated(1), progress=rolling(MINE)),
            Step(ends=True),
            id="what was pending before is not waited for",
        ),
        param(
            view(gated(0), replicas=2, needs=2, progress=rolling()),
            Step(ends=True),
            id="its minimum is not its own question",
        ),
        param(
            view(new(0), failed(1, template_hash="old"), progress=rolling()),
            Step(ends=True),
            id="what ended does not live",
        ),
    ],
)
def test_the_next_step_of_a_clique(seen: CliqueView, step: Step) -> None:
    assert step_of(roll(seen), seen.clique.status.rolling_update_progress) == step


def test_pods_that_are_deleted_are_looked_at_afresh_first() -> None:
    choosing = roll(view(old(0), progress=rolling()))
    taking = roll(view(old(0), progress=rolling(MINE)))
    waiting = roll(view(starting(0), progress=rolling(MINE)))
    assert [found.needs_live_read for found in (choosing, taking, waiting)] == [True, True, False]


def test_an_update_ends_with_the_deletion_of_the_last_old_pod_not_before() -> None:
    seen = view(new(0), old(1, terminating=True), replicas=1, progress=rolling("p-0-a-1-older"))
    goes_at = NOW + LINGERING
    before, then = (roll(seen, now=now) for now in (goes_at - LINGERING / 30, goes_at))
    assert (before.is_done, before.requeue_at) == (False, goes_at)
    assert (then.is_done, then.requeue_at) == (True, None)


def test_whose_turn_went_to_another_replica_takes_nothing_more() -> None:
    stored = rolling(MINE)
    seen = view(old(0), starting(1, template_hash="old"), progress=stored)
    assert roll(seen, may_start=False) == CliqueRoll(progress=stored, may_patch=True, is_done=False)


def test_who_is_done_may_say_so_without_its_turn() -> None:
    """The turn may be stored as passed on before the clique's own end is."""
    found = roll(view(new(0), progress=rolling(MINE)), may_start=False)
    assert found.is_done
    assert found.progress == CliqueRollingUpdateProgress(update_started_at=NOW, update_ended_at=LATER)


def test_a_status_lists_the_newest_of_the_pods_that_were_replaced() -> None:
    """A list of all would outgrow what etcd stores in one object."""
    taken = [f"p-0-a-1-{number:05}" for number in range(LISTED_AS_UPDATED + 1)]
    choice = roll(view(old(0), new(1), progress=rolling(taken[-1], *taken[:-1]))).progress
    assert choice is not None
    assert choice.ready_pods_selected_to_update is not None
    assert choice.ready_pods_selected_to_update.completed == tuple(taken[-LISTED_AS_UPDATED:])

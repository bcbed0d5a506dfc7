"""What `grove rollout status` finds out about an update: whether it is over, what is counted, whose turn it is."""

import msgspec
import pytest

from grove.api.types.meta import JsonObject
from grove.cli.common.output import plain_lines
from grove.cli.rollout.progress import (
    CurrentReplica,
    Rollout,
    RolloutState,
    Share,
    Stall,
    UnitProgress,
    running_revisions,
)
from grove.cli.rollout.view import bar, describe_result, describe_wait, progress_key, progress_line, progress_rows
from grove.cli.status.tree import build_tree
from grove.cli.status.tree_view import tree_rows
from tests.cli.rollouts import CLOSED, NOW, OPEN, TURN, objects, pcs, replica, rollout, stored

ON_DELETE: JsonObject = {"type": "OnDelete"}
STALLED: JsonObject = {
    "type": "UpdateStalled",
    "status": "True",
    "reason": "NoCapacity",
    "message": "pod p-1-a-0 waits for a node: 8 of 8 nodes are cordoned",
}


def half_way() -> Rollout:
    """Replica 1 in its turn: one pod of clique a and one replica of group g are new."""
    selected = {"readyPodsSelectedToUpdate": {"current": "p-1-a-0", "completed": []}}
    chosen = {"readyReplicaIndicesSelectedToUpdate": {"current": 0, "completed": []}}
    return rollout(
        pcs(status={"rollingUpdateProgress": TURN}),
        replica(0, runs="h1", a="old old", b="old old"),
        replica(1, runs="h2", a="new old", b="new old", a_progress=OPEN | selected, g_progress=OPEN | chosen),
    )


# --- is it over? -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "state"),
    [
        pytest.param({}, RolloutState.UP_TO_DATE, id="no update was ever needed"),
        pytest.param({"rollingUpdateProgress": CLOSED}, RolloutState.UP_TO_DATE, id="the update ended"),
        pytest.param({"rollingUpdateProgress": OPEN}, RolloutState.UPDATING, id="the update began"),
        pytest.param({"rollingUpdateProgress": TURN}, RolloutState.UPDATING, id="a replica has its turn"),
        pytest.param({"observedGeneration": 1}, RolloutState.UNSEEN, id="the operator saw an older version"),
        pytest.param({"observedGeneration": None}, RolloutState.UNSEEN, id="no operator looked at it"),
        pytest.param({"currentGenerationHash": "h1"}, RolloutState.UNSEEN, id="the status is about other templates"),
        pytest.param(
            {"observedGeneration": 1, "rollingUpdateProgress": CLOSED},
            RolloutState.UNSEEN,
            id="what ended is the update before",
        ),
    ],
)
def test_an_update_is_over_when_the_status_about_these_very_templates_says_so(
    status: JsonObject, state: RolloutState
) -> None:
    assert rollout(pcs(status=status), replica(0), replica(1)).state is state


def test_an_update_is_not_over_while_a_replica_runs_an_older_revision() -> None:
    closed = pcs(status={"rollingUpdateProgress": CLOSED})
    assert rollout(closed, replica(0), replica(1, runs="h1")).state is RolloutState.UPDATING
    assert rollout(closed, replica(0), replica(1)).state is RolloutState.UP_TO_DATE


def test_a_replica_that_is_not_wanted_any_more_holds_nothing_up() -> None:
    asked = pcs(replicas=1, status={"rollingUpdateProgress": CLOSED})
    found = rollout(asked, replica(0), replica(1, runs="h1", a="old old"))
    assert (found.state, found.replicas, found.pods) == (
        RolloutState.UP_TO_DATE,
        Share(updated=1, total=1, ready=1),
        Share(updated=4, total=4, ready=4),
    )


def test_templates_that_are_not_stored_yet_are_waited_for() -> None:
    assert rollout(pcs(a="a:3"), replica(0), replica(1)).state is RolloutState.UNSEEN
    assert rollout(pcs(), replica(0), replica(1), kept=()).state is RolloutState.UNSEEN
    # The set went back to its first templates, and the operator has not given them the highest number yet.
    assert rollout(pcs(a="a:1", b="b:1"), replica(0), replica(1)).state is RolloutState.UNSEEN


def test_revisions_of_another_set_of_this_name_mean_nothing() -> None:
    strangers = tuple(
        msgspec.structs.replace(one, metadata=msgspec.structs.replace(one.metadata, owner_references=()))
        for one in stored()
    )
    assert rollout(pcs(), replica(0), replica(1), kept=strangers).state is RolloutState.UNSEEN


@pytest.mark.parametrize(
    ("pods", "state", "updated"),
    [
        pytest.param("new new", RolloutState.UP_TO_DATE, 8, id="all were deleted"),
        pytest.param("new old", RolloutState.ON_DELETE, 7, id="one is left"),
        pytest.param("new leaving", RolloutState.UP_TO_DATE, 7, id="the last one is leaving"),
        pytest.param("new", RolloutState.UP_TO_DATE, 7, id="its successor is not made yet"),
    ],
)
def test_on_delete_is_about_pods_alone(pods: str, state: RolloutState, updated: int) -> None:
    asked = pcs(updateStrategy=ON_DELETE, status={"rollingUpdateProgress": CLOSED})
    found = rollout(asked, replica(0), replica(1, a=pods))
    assert (found.state, found.pods) == (state, Share(updated=updated, total=8, ready=updated))
    done = 1 if state is RolloutState.ON_DELETE else 2
    # Every gang was told the newest revision at once; what its pods run is another matter.
    assert found.replicas == Share(updated=done, total=2, ready=done)


# --- counts and turns ------------------------------------------------------------------------------------------------


def test_a_turn_tells_which_pod_and_which_group_replica_are_replaced() -> None:
    found = half_way()
    assert (found.replicas, found.pods) == (Share(updated=0, total=2, ready=0), Share(updated=2, total=8, ready=2))
    assert found.turn is not None
    assert found.turn.units == (
        UnitProgress(kind="pclq", name="p-1-a", share=Share(updated=1, total=2, ready=1), current="p-1-a-0"),
        UnitProgress(kind="pcsg", name="p-1-g", share=Share(updated=1, total=2, ready=1), current="0"),
    )


def test_a_clique_or_group_that_is_done_or_unchanged_is_not_in_the_turn() -> None:
    asked = pcs(status={"rollingUpdateProgress": TURN})
    found = rollout(asked, replica(0, runs="h1"), replica(1, a_progress=CLOSED))
    assert found.turn == CurrentReplica(replica_index=1, started_at=found.started_at)


def test_a_clique_that_is_being_recreated_counts_with_the_scale_of_its_template() -> None:
    asked = pcs(status={"rollingUpdateProgress": TURN})
    whole = replica(1, b="new none")
    without = msgspec.structs.replace(whole, cliques=whole.cliques[:-1])
    assert rollout(asked, replica(0), without).pods == Share(updated=7, total=8, ready=7)


def test_more_new_pods_than_wanted_are_no_more_than_all() -> None:
    assert rollout(pcs(), replica(0, a="new new new"), replica(1)).pods == Share(updated=8, total=8, ready=8)


def test_replicas_are_counted_by_the_revision_that_their_gangs_run() -> None:
    found = objects(pcs(replicas=3), replica(0, runs="h1"), replica(1), replica(2), replica(3, runs="h1"))
    assert running_revisions(found.pcs, found.gangs) == {"h1": 1, "h2": 2}


# --- in words --------------------------------------------------------------------------------------------------------


def test_a_picture_has_bars_the_turn_and_the_time() -> None:
    assert plain_lines(progress_rows(half_way(), NOW, 80)) == [
        "pcs/p updating to revision 2 for 42s",
        "replicas  ░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░  0/2",
        "pods      ██████████░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░  2/8 ready",
        "replica 1",
        "  pclq/p-1-a 1/2 pods new and ready, replacing pod/p-1-a-0",
        "  pcsg/p-1-g 1/2 replicas new and ready, recreating replica 0",
    ]


def test_a_unit_whose_pods_are_all_new_waits_for_them_to_be_ready() -> None:
    asked = pcs(status={"rollingUpdateProgress": TURN})
    selected = {"readyPodsSelectedToUpdate": {"current": "p-1-a-0", "completed": []}}
    found = rollout(
        asked,
        replica(0, runs="h1"),
        replica(1, a="new starting", a_progress=OPEN | selected, b="old old", g_progress=OPEN),
    )
    assert plain_lines(progress_rows(found, NOW, 80))[-2:] == [
        "  pclq/p-1-a 1/2 pods new and ready, 1 starting",
        "  pcsg/p-1-g 0/2 replicas new and ready",
    ]


def stalled() -> Rollout:
    status = {"rollingUpdateProgress": TURN, "conditions": [STALLED]}
    return rollout(pcs(status=status), replica(0, runs="h1", a="old old"), replica(1))


@pytest.mark.parametrize("width", [120, 60, 40])
def test_a_picture_fits_its_terminal(width: int) -> None:
    for found in (half_way(), stalled(), rollout(pcs(status={"observedGeneration": 1}), replica(0))):
        assert [line for line in plain_lines(progress_rows(found, NOW, width)) if len(line) > width] == []


def test_a_stall_is_told_in_the_words_of_the_condition() -> None:
    found = stalled()
    assert found.stalled == Stall(reason=STALLED["reason"], message=STALLED["message"])
    assert plain_lines(progress_rows(found, NOW, 100))[-1] == f"! NoCapacity: {STALLED['message']}"
    assert progress_line(found).endswith(f"; NoCapacity: {STALLED['message']}")


def test_a_set_that_cannot_be_carried_out_says_so_instead_of_waiting_in_silence() -> None:
    broken = {"type": "ReconcileFailed", "status": "True", "reason": "InvalidSpec", "message": "a rule is broken"}
    found = rollout(pcs(a="a:3", status={"conditions": [broken]}), replica(0), replica(1))
    assert progress_line(found) == (
        "pcs/p waits for the operator to begin the update to its newest templates; InvalidSpec: a rule is broken"
    )


def test_a_stall_that_is_over_or_about_nothing_is_not_told() -> None:
    gone = STALLED | {"status": "False"}
    assert rollout(pcs(status={"conditions": [gone], "rollingUpdateProgress": OPEN}), replica(0)).stalled is None
    assert rollout(pcs(status={"conditions": [STALLED]}), replica(0), replica(1)).stalled is None


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (rollout(pcs(), replica(0), replica(1)), "pcs/p is up to date (revision 2)"),
        (
            rollout(pcs(status={"rollingUpdateProgress": CLOSED}), replica(0), replica(1)),
            "pcs/p is up to date (revision 2), the update took 30s",
        ),
        (
            rollout(pcs(status={"availableReplicas": 1}), replica(0), replica(1)),
            "pcs/p is up to date (revision 2); 1 of 2 replicas available, see `grove why pcs/p`",
        ),
        (
            rollout(pcs(updateStrategy=ON_DELETE), replica(0), replica(1, a="old new")),
            "pcs/p: 7 of 8 pods run the newest template; OnDelete: delete the others to update them",
        ),
    ],
)
def test_the_last_word_says_how_it_is(found: Rollout, text: str) -> None:
    assert (describe_result(found), progress_line(found)) == (text, text)


def test_what_was_not_waited_for_is_told_by_its_stall_or_else_by_its_turn() -> None:
    assert describe_wait(stalled()) == (
        "pcs/p updating to revision 2; 0/2 replicas are updated, 6/8 pods new and ready; "
        f"NoCapacity: {STALLED['message']}; `grove why pcs/p` explains more"
    )
    assert describe_wait(half_way()) == (
        "pcs/p updating to revision 2; 0/2 replicas are updated, 2/8 pods new and ready; replica 1; "
        "pclq/p-1-a 1/2 pods new and ready, replacing pod/p-1-a-0; "
        "pcsg/p-1-g 1/2 replicas new and ready, recreating replica 0; "
        "`grove why pcs/p` explains more"
    )


def test_a_line_tells_everything_at_once() -> None:
    assert progress_line(half_way()) == (
        "pcs/p updating to revision 2; 0/2 replicas; 2/8 pods new and ready; replica 1; "
        "pclq/p-1-a 1/2 pods new and ready, replacing pod/p-1-a-0; "
        "pcsg/p-1-g 1/2 replicas new and ready, recreating replica 0"
    )


@pytest.mark.parametrize(("updated", "is_news"), [(4_999, True), (5_000, False), (5_099, False), (5_100, True)])
def test_of_very_many_pods_only_each_hundredth_part_is_worth_a_line(updated: int, is_news: bool) -> None:
    looks = [
        msgspec.structs.replace(half_way(), pods=Share(updated=count, total=10_000, ready=count))
        for count in (5_000, updated)
    ]
    assert (progress_key(looks[0]) != progress_key(looks[1])) == is_news


@pytest.mark.parametrize(
    ("updated", "total", "text"),
    [(0, 3, "░░░░"), (1, 3, "█░░░"), (2, 3, "██░░"), (3, 3, "████"), (99, 100, "███░"), (0, 0, "████")],
)
def test_a_bar_is_full_only_when_all_is_done(updated: int, total: int, text: str) -> None:
    assert bar(Share(updated=updated, total=total, ready=updated), 4) == text


def test_a_bar_counts_pods_when_they_are_ready() -> None:
    asked = pcs(status={"rollingUpdateProgress": TURN})
    found = rollout(asked, replica(0, runs="h1", a="old old", b="old old"), replica(1, a="new starting"))
    assert found.pods == Share(updated=4, total=8, ready=3)
    assert plain_lines(progress_rows(found, NOW, 80))[2] == (
        "pods      ███████████████▒▒▒▒▒░░░░░░░░░░░░░░░░░░░░  3/8 ready, 1 starting"
    )


def test_an_undo_that_the_operator_has_not_begun_tells_nothing_of_the_update_before() -> None:
    """Turn and stall in the status are still those of the update that is undone."""
    status = {"rollingUpdateProgress": TURN, "conditions": [STALLED], "observedGeneration": 1}
    found = rollout(pcs(status=status), replica(0), replica(1, a_progress=OPEN))
    assert (found.turn, found.stalled) == (None, None)
    assert progress_line(found) == "pcs/p waits for the operator to begin the update to its newest templates"


# --- in the tree of `grove status` -----------------------------------------------------------------------------------


def shown(status: JsonObject) -> list[str]:
    found = objects(pcs(status=status), replica(0), replica(1))
    counted = tuple(
        msgspec.structs.replace(clique, status=msgspec.structs.replace(clique.status, updated_replicas=1))
        for clique in found.cliques
    )
    return plain_lines(tree_rows(build_tree(msgspec.structs.replace(found, cliques=counted)), NOW))


def test_the_tree_of_a_set_tells_of_its_update_below_its_name() -> None:
    line = "│  updating replica 1, 3 of 4 pods new, 1 of 2 replicas done"
    assert shown({"rollingUpdateProgress": TURN, "updatedReplicas": 1})[2] == line
    assert shown({"rollingUpdateProgress": OPEN})[2] == "│  updating, 0 of 2 replicas done"


@pytest.mark.parametrize("status", [{}, {"rollingUpdateProgress": CLOSED}])
def test_the_tree_of_a_set_that_is_not_updated_tells_nothing_of_it(status: JsonObject) -> None:
    lines = shown(status | {"updatedReplicas": 2})
    assert [line for line in lines if "updating" in line or "newest" in line] == []

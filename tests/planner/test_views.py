"""What was observed, counted once."""

from grove.api import labels
from grove.api.labels import GATE
from grove.planner.views import CliqueView, ReplicaView, pod_index
from tests.dsl import clique, failed, gated, pod, starting


def buckets(view: CliqueView) -> dict[str, list[str]]:
    return {
        name: [one.metadata.name for one in getattr(view, name)]
        for name in ("active", "terminating", "failed", "succeeded")
    }


def test_each_pod_is_in_one_bucket_and_active_ones_are_ordered_by_index() -> None:
    view = clique(
        pod(10, name="ten"),
        pod(2, name="two"),
        pod(0, name="gone", terminating=True),
        pod(0, name="gone-and-failed", phase="Failed", terminating=True),
        failed(1, name="broken"),
        pod(3, name="done", phase="Succeeded"),
        gated(4, name="waiting"),
        starting(5, name="slow"),
    )
    assert buckets(view) == {
        "active": ["two", "waiting", "slow", "ten"],
        "terminating": ["gone", "gone-and-failed"],
        "failed": ["broken"],
        "succeeded": ["done"],
    }
    assert (view.ready_count, view.scheduled_count, view.gated_count) == (2, 3, 1)


def test_a_leaving_pod_counts_for_nothing_though_it_still_says_ready() -> None:
    view = clique(pod(0, terminating=True))
    assert (view.ready_count, view.scheduled_count, view.existing_count, view.placed_count) == (0, 0, 0, 0)


def test_a_pod_that_succeeded_counts_as_existing_and_placed() -> None:
    view = clique(pod(0), pod(1, phase="Succeeded"), gated(2))
    assert (view.existing_count, view.placed_count, view.ready_count) == (3, 2, 1)


def test_a_pod_behind_any_gate_counts_as_gated() -> None:
    assert clique(pod(0, gates=("theirs",)), pod(1, gates=(GATE, "theirs")), pod(2)).gated_count == 2


def test_a_pod_without_a_readable_index_holds_none() -> None:
    for label in ("", "x", "-1", "1.0"):
        one = pod(0)
        one.metadata.labels[labels.POD_INDEX] = label
        assert pod_index(one) == -1
        assert clique(one).active == ()


def test_a_clique_written_without_a_minimum_needs_all_its_pods() -> None:
    assert clique(replicas=4).min_available == 4
    assert clique(replicas=4, needs=1).min_available == 1


def test_a_replica_of_which_nothing_exists_has_nothing() -> None:
    assert not ReplicaView(index=0).has_anything
    assert ReplicaView(index=0, cliques={"p-0-a": clique()}).has_anything

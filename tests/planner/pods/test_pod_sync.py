"""Which pods a clique creates, replaces and gives up."""

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from grove.api import names
from grove.api.labels import GATE
from grove.api.types.meta import Condition
from grove.api.types.pod import ContainerState, ContainerStatus, Pod, RunningState, TerminatedState
from grove.planner.pods.pod_sync import FIRST_NAMES, HEALTHY_RUN_TIME, CliquePods, NewPod, PodToDelete, plan_pods
from grove.planner.views import CliqueView
from tests.dsl import NOW, SECOND, at, clique, failed, gated, pod, starting


def name_of(index: int, before: str = "") -> str:
    return names.pod("p-0-a", "uid-of-p-0-a", index, before)


def decide(view: CliqueView, now: datetime = NOW) -> CliquePods:
    """As in a healthy world: the gang references what is there."""
    return plan_pods(view, tuple(one.metadata.name for one in view.active), now)


def new(index: int, before: str = "", failures: int = 0) -> NewPod:
    return NewPod(name=name_of(index, before), index=index, failures=failures)


def test_a_new_clique_gets_all_its_pods_from_index_zero() -> None:
    assert decide(clique(replicas=3)) == CliquePods(
        names=(name_of(0), name_of(1), name_of(2)), create=(new(0), new(1), new(2))
    )


def test_a_clique_with_all_its_pods_needs_nothing() -> None:
    assert decide(clique(ready=2)) == CliquePods(names=(name_of(0), name_of(1)))


def test_a_clique_of_no_pods_needs_nothing() -> None:
    assert decide(clique(replicas=0)) == CliquePods()


@pytest.mark.parametrize(
    ("held", "replicas", "free"),
    [
        pytest.param((0, 2), 3, (1,), id="a hole"),
        pytest.param((1, 4), 4, (0, 2), id="lowest first, as many as missing"),
        pytest.param((5, 7), 3, (0,), id="indices above the count are kept where they are"),
        pytest.param((0, 1), 2, (), id="none"),
    ],
)
def test_holes_are_filled_lowest_first(held: tuple[int, ...], replicas: int, free: tuple[int, ...]) -> None:
    view = clique(*(pod(index) for index in held), replicas=replicas)
    assert decide(view) == CliquePods(
        names=tuple(name_of(index) for index in sorted((*held, *free))), create=tuple(new(index) for index in free)
    )


def test_a_pod_gets_the_name_its_gang_references() -> None:
    referenced = (name_of(0), name_of(1, before=name_of(1)))
    decided = plan_pods(clique(pod(0), replicas=2), referenced, NOW)
    assert decided == CliquePods(names=referenced, create=(NewPod(name=referenced[1], index=1),))


def test_a_name_that_an_earlier_clique_held_is_not_taken_over() -> None:
    earlier = names.pod("p-0-a", "an earlier uid", 0, "")
    assert plan_pods(clique(replicas=1), (earlier,), NOW).create == (new(0),)


def test_the_name_after_that_of_a_known_pod_is_of_this_life_however_late_it_is() -> None:
    row = [name_of(0)]
    while len(row) < 2 * FIRST_NAMES:
        row.append(name_of(0, before=row[-1]))
    view = clique(replicas=1, gone=(row[-2],))
    assert plan_pods(view, (row[-1],), NOW).create == (NewPod(name=row[-1], index=0),)


def test_index_1_is_not_given_the_name_of_index_10() -> None:
    decided = plan_pods(clique(replicas=2), (name_of(10), name_of(1, before=name_of(1))), NOW)
    assert decided.create == (new(0), NewPod(name=name_of(1, before=name_of(1)), index=1))


def test_a_deleted_pods_index_is_free_at_once_under_a_new_name() -> None:
    view = clique(pod(0), pod(1, terminating=True), replicas=2)
    decided = plan_pods(view, (name_of(0), name_of(1)), NOW)
    assert decided == CliquePods(names=(name_of(0), name_of(1, name_of(1))), create=(new(1, name_of(1)),))


def test_a_name_whose_pod_vanished_is_not_used_again() -> None:
    view = clique(pod(0), replicas=2, gone=(name_of(1), name_of(1, name_of(1))))
    decided = plan_pods(view, (name_of(0), name_of(1)), NOW)
    assert decided.create == (new(1, name_of(1, name_of(1))),)


def test_names_differ_between_lives_of_a_clique() -> None:
    assert names.pod("p-0-a", "one uid", 0, "") != names.pod("p-0-a", "another uid", 0, "")


class TestTwoPodsOfOneIndex:
    def test_the_one_the_gang_references_stays(self) -> None:
        first, second = pod(0, name="p-0-a-0-aaaaa"), pod(0, name="p-0-a-0-bbbbb")
        for kept, failed_indices in ((first, second), (second, first)):
            decided = plan_pods(clique(first, second, replicas=1), (kept.metadata.name,), NOW)
            assert decided == CliquePods(
                names=(kept.metadata.name,),
                delete=(PodToDelete(pod=failed_indices, reason=f"index 0 is held by {kept.metadata.name}"),),
                needs_live_read=True,
            )

    @pytest.mark.parametrize("referenced", [(), ("p-0-a-0-aaaaa", "p-0-a-0-bbbbb")])
    def test_the_first_by_name_stays_when_the_gang_cannot_tell(self, referenced: tuple[str, ...]) -> None:
        first, second = pod(0, name="p-0-a-0-aaaaa"), pod(0, name="p-0-a-0-bbbbb")
        decided = plan_pods(clique(second, first, replicas=1), referenced, NOW)
        assert [entry.pod for entry in decided.delete] == [second]

    def test_the_index_that_is_missing_is_filled(self) -> None:
        first, second = pod(0, name="p-0-a-0-aaaaa"), pod(0, name="p-0-a-0-bbbbb")
        decided = plan_pods(clique(first, second, replicas=2), ("p-0-a-0-aaaaa",), NOW)
        assert decided.create == (new(1),)
        assert decided.names == ("p-0-a-0-aaaaa", name_of(1))


class TestALastName:
    """No name is used twice in the life of a clique, whoever remembers nothing."""

    def test_of_an_index_that_waits_stays_named_and_leads_to_the_next(self) -> None:
        third = name_of(0, name_of(0, name_of(0)))
        view = clique(failed(0, name=third, failures=1, ended=NOW), replicas=1)
        waits = plan_pods(view, (third,), NOW)
        assert waits.names == (third,)
        assert plan_pods(view, waits.names, at(10)).create == (new(0, third, failures=2),)

    def test_of_an_index_that_is_scaled_in_is_remembered_and_leads_to_the_next(self) -> None:
        second = name_of(1, name_of(1))
        smaller = plan_pods(clique(pod(0), pod(1, name=second), replicas=1), (name_of(0), second), NOW)
        assert (smaller.names, smaller.last_names) == ((name_of(0),), (second,))
        larger = plan_pods(clique(pod(0), replicas=2), smaller.names, NOW, last_names=smaller.last_names)
        assert larger.create == (new(1, second),)
        # Until the next pod was seen: a crash in between must not lead back to the first name.
        assert larger.last_names == (second,)
        again = plan_pods(clique(pod(0), replicas=2), larger.names, NOW, last_names=larger.last_names)
        assert again.create == larger.create
        made = clique(pod(0), pod(1, name=name_of(1, second)))
        assert plan_pods(made, larger.names, NOW, last_names=larger.last_names).last_names == ()


class TestScaleIn:
    @pytest.mark.parametrize(
        ("less", "more"),
        [
            pytest.param(pod(0, node="", ready=False), pod(1), id="without a node before with one"),
            pytest.param(
                pod(0, phase="Pending", ready=False), pod(1, phase="Unknown", ready=False), id="pending before unknown"
            ),
            pytest.param(pod(0, phase="Unknown", ready=False), starting(1), id="unknown before running"),
            pytest.param(starting(0), pod(1), id="not ready before ready"),
            pytest.param(pod(0, template_hash="old"), pod(1), id="an older template before the clique's own"),
            pytest.param(pod(0, created=None), pod(1), id="no creation time before any"),
            pytest.param(pod(0, created=at(1)), pod(1), id="newer before older"),
            pytest.param(pod(1), pod(0), id="of one age, the highest index first"),
        ],
    )
    def test_the_least_useful_pod_goes_first(self, less: Pod, more: Pod) -> None:
        for pods in ((less, more), (more, less)):
            assert decide(clique(*pods, replicas=1)) == CliquePods(
                names=(more.metadata.name,),
                last_names=(less.metadata.name,),
                delete=(PodToDelete(pod=less, reason="the clique has 2 pods and requests 1"),),
                needs_live_read=True,
            )

    def test_each_key_outweighs_all_later_ones(self) -> None:
        order = [
            pod(0, node="", ready=False, created=at(-99)),
            pod(1, phase="Pending", ready=False, created=at(-98)),
            pod(2, phase="Unknown", ready=False, created=at(-97)),
            starting(3, created=at(-96)),
            pod(4, template_hash="old", created=at(-95)),
            pod(5, created=at(-1)),
            pod(7, created=at(-94)),
            pod(6, created=at(-94)),
        ]
        decided = decide(clique(*reversed(order), replicas=0))
        assert [entry.pod for entry in decided.delete] == order

    def test_a_choice_once_made_stands_though_the_pod_became_ready_since(self) -> None:
        chosen, kept = pod(0), starting(1)
        decided = plan_pods(clique(chosen, kept, replicas=1), (kept.metadata.name,), NOW)
        assert [entry.pod for entry in decided.delete] == [chosen]
        assert decided.names == (kept.metadata.name,)

    def test_a_scale_in_that_is_taken_back_keeps_the_pod(self) -> None:
        chosen, kept = pod(0), pod(1)
        decided = plan_pods(clique(chosen, kept, replicas=2), (kept.metadata.name,), NOW)
        assert decided == CliquePods(names=(chosen.metadata.name, kept.metadata.name))

    def test_survivors_keep_their_indices(self) -> None:
        view = clique(starting(0), pod(1), pod(2), replicas=2)
        assert decide(view).names == (name_of(1), name_of(2))


class TestAPodThatEnded:
    @pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
    def test_is_replaced_at_once_the_first_time(self, phase: str) -> None:
        ended = pod(1, phase=phase, ended=NOW)
        decided = plan_pods(clique(pod(0), ended, replicas=2), (name_of(0), name_of(1)), NOW)
        assert decided == CliquePods(
            names=(name_of(0), name_of(1, name_of(1))),
            create=(new(1, name_of(1), failures=1),),
            delete=(PodToDelete(pod=ended, reason=f"pod {name_of(1)} ended ({phase}) and is no longer needed"),),
        )

    @pytest.mark.parametrize(
        ("failures", "pause"),
        [(1, 10), (2, 20), (3, 40), (4, 80), (5, 160), (6, 300), (7, 300), (1000, 300)],
    )
    def test_is_replaced_later_each_time_up_to_five_minutes(self, failures: int, pause: int) -> None:
        view = clique(pod(0), failed(1, failures=failures, ended=NOW), replicas=2)
        due = at(pause)
        waiting = CliquePods(names=(name_of(0), name_of(1)), requeue_at=due)
        assert decide(view, NOW) == waiting
        assert decide(view, due - SECOND) == waiting
        assert decide(view, due).create == (new(1, name_of(1), failures=failures + 1),)

    @pytest.mark.parametrize(
        ("life", "is_healthy"),
        [(HEALTHY_RUN_TIME - SECOND, False), (HEALTHY_RUN_TIME, True), (HEALTHY_RUN_TIME + SECOND, True)],
    )
    def test_starts_the_count_anew_after_a_long_life(self, life: timedelta, is_healthy: bool) -> None:
        view = clique(failed(0, failures=5, created=NOW - life, ended=NOW), replicas=1)
        decided = decide(view)
        assert decided.create == ((new(0, name_of(0), failures=1),) if is_healthy else ())

    def test_the_last_end_of_an_index_decides(self) -> None:
        first = failed(0, name="p-0-a-0-first", failures=1, ended=at(-100))
        last = failed(0, name="p-0-a-0-later", failures=2, ended=NOW)
        decided = decide(clique(last, first, replicas=1))
        assert decided == CliquePods(
            names=("p-0-a-0-later",),
            requeue_at=at(20),
            delete=(PodToDelete(pod=first, reason="pod p-0-a-0-first ended (Failed) and is no longer needed"),),
        )

    def test_the_earliest_replacement_wakes_the_set(self) -> None:
        view = clique(failed(0, failures=3, ended=NOW), failed(1, failures=1, ended=NOW), replicas=2)
        assert decide(view).requeue_at == at(10)

    def test_is_removed_when_its_place_is_taken_or_gone(self) -> None:
        taken = failed(0, name="p-0-a-0-older", failures=3)
        gone = failed(5, failures=3)
        decided = decide(clique(pod(0), taken, gone, replicas=1))
        assert [entry.pod for entry in decided.delete] == [taken, gone]
        assert (decided.create, decided.requeue_at, decided.needs_live_read) == ((), None, False)

    def test_leaves_no_second_pod_behind_when_it_is_leaving_already(self) -> None:
        view = clique(pod(0, phase="Failed", terminating=True), replicas=1)
        decided = plan_pods(view, (name_of(0),), NOW)
        assert decided == CliquePods(names=(name_of(0, name_of(0)),), create=(new(0, name_of(0)),))

    def test_without_any_time_is_replaced_at_once(self) -> None:
        ended = failed(0, failures=4, ended=None, created=None)
        assert decide(clique(ended, replicas=1)).create == (new(0, name_of(0), failures=5),)


class TestWhenAPodEnded:
    """The back-off counts from the end, as well as it is known."""

    def due(self, *statuses: ContainerStatus, ready_since: datetime | None = None, **fields: Any) -> datetime | None:
        ended = failed(0, failures=1, **{"created": at(-60), **fields})
        conditions = (Condition(type="Ready", status="False", last_transition_time=ready_since),)
        status = msgspec.structs.replace(ended.status, container_statuses=statuses, conditions=conditions)
        return decide(clique(msgspec.structs.replace(ended, status=status), replicas=1), at(-60)).requeue_at

    def finished(self, instant: datetime | None) -> ContainerStatus:
        return ContainerStatus(state=ContainerState(terminated=TerminatedState(finished_at=instant)))

    def test_it_is_the_end_of_its_last_container(self) -> None:
        running = ContainerStatus(state=ContainerState(running=RunningState()))
        ends = (self.finished(at(-20)), running, self.finished(at(-30)), self.finished(None))
        assert self.due(*ends, ready_since=at(-5)) == at(-10)

    def test_else_it_is_when_it_was_ready_last(self) -> None:
        assert self.due(self.finished(None), ready_since=at(-40)) == at(-30)

    def test_else_it_is_its_creation(self) -> None:
        ended = failed(0, failures=1, ended=None, created=at(-60))
        ended = msgspec.structs.replace(ended, status=msgspec.structs.replace(ended.status, conditions=()))
        assert decide(clique(ended, replicas=1), at(-60)).requeue_at == at(-50)

    def test_pods_of_one_index_without_times_are_told_apart_by_name(self) -> None:
        first = failed(0, name="p-0-a-0-aaaaa", ended=None, created=None)
        last = failed(0, name="p-0-a-0-bbbbb", ended=None, created=None, failures=4)
        for pods in ((first, last), (last, first)):
            assert decide(clique(*pods, replicas=1)).create[0].failures == 5

    def test_a_count_somebody_garbled_is_none(self) -> None:
        ended = failed(0)
        ended.metadata.annotations["grove.io/consecutive-failures"] = "many"
        assert decide(clique(ended, replicas=1)).create[0].failures == 1


def test_other_gates_do_not_change_the_count() -> None:
    view = clique(gated(0), pod(1, gates=(GATE, "theirs")), replicas=2)
    assert decide(view) == CliquePods(names=(name_of(0), name_of(1)))

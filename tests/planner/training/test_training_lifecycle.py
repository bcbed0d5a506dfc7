"""Training: the breach of a finite clique, how far a replica is, the budget and the deadline, and a restart."""

from typing import Any

import msgspec
import pytest

from grove.api import labels
from grove.api.reasons import EventReason, Reason
from grove.api.resources import PODCLIQUESETS, PODGANGS, PODS
from grove.api.types.meta import Condition, find_condition
from grove.api.types.pod import ContainerState, ContainerStatus, Pod, RunningState, TerminatedState, WaitingState
from grove.api.types.podclique import PodCliqueStatus
from grove.api.types.podcliqueset import PodCliqueSet, PodCliqueSetStatus, ReplicaRestarts, TrainingSpec
from grove.api.types.podgang import PodGang
from grove.api.values.times import wire_time
from grove.planner.actions import Create, DeleteMany, Patch, Plan
from grove.planner.desired_state import build_desired_replica
from grove.planner.plan import plan
from grove.planner.plan_cache import PlanCache
from grove.planner.pods.pod_sync import plan_pods
from grove.planner.status.availability import clique_breach
from grove.planner.teardown.recreation import Record, Recreation, Recreations, read_record
from grove.planner.training.lifecycle import ReplicaRun, TrainingOutcome, compute_run, compute_training_outcome
from grove.planner.training.restarts import count_recreations, is_restart_pending
from grove.planner.views import CliqueView, ReplicaView, view_clique
from tests.dsl import NOW, actions, at, clique, context, failed, gang, gated, pcs, pod, replica, role, service, snapshot
from tests.dsl import starting as waiting

BREACHED = Condition(type="MinAvailableBreached", status="True", reason="PodFailed", last_transition_time=NOW)
SUCCEEDED = Condition(type="Succeeded", status="True", reason="AllPodsSucceeded", last_transition_time=at(50))


def with_state(one: Pod, **fields: Any) -> Pod:
    status = msgspec.structs.replace(one.status, container_statuses=(ContainerStatus(state=ContainerState(**fields)),))
    return msgspec.structs.replace(one, status=status)


def started(index: int = 0, since: float = 0, **fields: Any) -> Pod:
    return with_state(pod(index, **fields), running=RunningState(started_at=at(since)))


def done(index: int = 0, since: float = 0, until: float = 10, **fields: Any) -> Pod:
    state = TerminatedState(exit_code=0, started_at=at(since), finished_at=at(until))
    return with_state(pod(index, phase="Succeeded", **fields), terminated=state)


def lost(index: int = 0) -> Pod:
    """It was ready, and is not any more."""
    one = started(index, ready=False)
    ready = Condition(type="Ready", status="False", last_transition_time=at(20))
    return msgspec.structs.replace(one, status=msgspec.structs.replace(one.status, conditions=(ready,)))


def finishing(index: int = 0) -> Pod:
    one = pod(index, ready=False)
    states = (
        ContainerState(terminated=TerminatedState(exit_code=0, started_at=NOW, finished_at=at(5))),
        ContainerState(running=RunningState(started_at=NOW)),
    )
    containers = tuple(ContainerStatus(state=state) for state in states)
    return msgspec.structs.replace(one, status=msgspec.structs.replace(one.status, container_statuses=containers))


def crash_looping(index: int = 0, *, runs: int) -> Pod:
    """A container that its kubelet restarts in place, and that has failed so often."""
    one = pod(index, ready=False)
    ended = ContainerState(terminated=TerminatedState(exit_code=1, started_at=NOW, finished_at=at(5)))
    waits = ContainerState(waiting=WaitingState(reason="CrashLoopBackOff"))
    status = ContainerStatus(name="main", restart_count=runs - 1, state=waits, last_state=ended)
    return msgspec.structs.replace(one, status=msgspec.structs.replace(one.status, container_statuses=(status,)))


def finite(*pods: Pod, done_before: frozenset[int] = frozenset(), **fields: Any) -> CliqueView:
    """A clique of a training set; it needs all of its pods unless told."""
    made = clique(*pods, **fields)
    return view_clique(made.clique, pods, made.gone_names, is_finite=True, done_before=done_before)


# --- the breach ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("view", "status", "reason"),
    [
        pytest.param(finite(pod(0), pod(1)), "False", Reason.SUFFICIENT_READY_PODS, id="all are ready"),
        pytest.param(finite(done(0), done(1)), "False", Reason.SUFFICIENT_READY_PODS, id="all ended well"),
        pytest.param(finite(done(0), pod(1)), "False", Reason.SUFFICIENT_READY_PODS, id="one ended well"),
        pytest.param(finite(finishing(0), pod(1)), "False", Reason.SUFFICIENT_READY_PODS, id="one is about to"),
        pytest.param(
            finite(pod(1), replicas=2, done_before=frozenset({0})),
            "False",
            Reason.SUFFICIENT_READY_PODS,
            id="one ended well and is gone",
        ),
        pytest.param(
            finite(pod(1), replicas=2, status=PodCliqueStatus(was_available=True, succeeded_indices=(0,))),
            "False",
            Reason.SUFFICIENT_READY_PODS,
            id="one ended well and is recorded",
        ),
        pytest.param(finite(waiting(0), gated(1)), "False", Reason.NEVER_AVAILABLE, id="all start"),
        pytest.param(finite(pod(0), replicas=2), "False", Reason.NEVER_AVAILABLE, id="one was not made yet"),
        pytest.param(finite(failed(0), waiting(1)), "True", Reason.POD_FAILED, id="failed before it was ever ready"),
        pytest.param(
            finite(failed(0), waiting(1), pod(2), replicas=3, needs=2),
            "False",
            Reason.NEVER_AVAILABLE,
            id="one failed, and the others start",
        ),
        pytest.param(
            finite(failed(0), waiting(1), pod(2), replicas=3, needs=2, was_available=True),
            "True",
            Reason.INSUFFICIENT_READY_PODS,
            id="it was available, one failed, and those that start do not count",
        ),
        pytest.param(
            finite(waiting(0), waiting(1), pod(2), replicas=3, needs=2, was_available=True),
            "True",
            Reason.INSUFFICIENT_READY_PODS,
            id="it was available, and replacements of lost pods do not count",
        ),
        pytest.param(
            finite(crash_looping(0, runs=6), waiting(1)),
            "True",
            Reason.POD_FAILED,
            id="a container failed 6 times in place",
        ),
        pytest.param(
            finite(crash_looping(0, runs=5), waiting(1)),
            "False",
            Reason.NEVER_AVAILABLE,
            id="a container failed 5 times",
        ),
        pytest.param(
            finite(failed(0, failures=5), done(1), pod(2), needs=1, replicas=3),
            "False",
            Reason.SUFFICIENT_READY_PODS,
            id="an index is given up while others run",
        ),
        pytest.param(
            finite(failed(0, failures=5), done(1), done(2), needs=1, replicas=3),
            "True",
            Reason.POD_FAILED,
            id="an index is given up and the others are done",
        ),
        pytest.param(
            finite(failed(0, failures=4), done(1), done(2), needs=1, replicas=3),
            "False",
            Reason.SUFFICIENT_READY_PODS,
            id="it is tried once more",
        ),
        pytest.param(
            finite(failed(0), failed(1), pod(2), replicas=3, needs=2, was_available=True),
            "True",
            Reason.POD_FAILED,
            id="two failed at once",
        ),
        pytest.param(
            finite(lost(0), pod(1), was_available=True), "True", Reason.INSUFFICIENT_READY_PODS, id="one lost readiness"
        ),
        pytest.param(
            finite(lost(0), pod(1)), "False", Reason.NEVER_AVAILABLE, id="one lost readiness before all had it"
        ),
        pytest.param(
            finite(pod(0, terminating=True), pod(1), was_available=True),
            "True",
            Reason.INSUFFICIENT_READY_PODS,
            id="one was deleted",
        ),
        pytest.param(
            finite(waiting(0), pod(1), status=PodCliqueStatus(was_available=True, conditions=(BREACHED,))),
            "True",
            Reason.INSUFFICIENT_READY_PODS,
            id="a replacement that waits heals nothing",
        ),
        pytest.param(
            finite(waiting(0), pod(1), status=PodCliqueStatus(conditions=(BREACHED,))),
            "True",
            Reason.INSUFFICIENT_READY_PODS,
            id="nor where it was never available",
        ),
        pytest.param(
            finite(pod(0), pod(1), status=PodCliqueStatus(was_available=True, conditions=(BREACHED,))),
            "False",
            Reason.SUFFICIENT_READY_PODS,
            id="one that is ready does",
        ),
    ],
)
def test_the_breach_of_a_clique_of_a_training_set(view: CliqueView, status: str, reason: Reason) -> None:
    verdict = clique_breach(view)
    assert (verdict.status, verdict.reason) == (status, reason)


def test_pods_that_ended_well_are_neither_made_again_nor_deleted_and_stay_named() -> None:
    view = finite(done(0), failed(1), pod(2), replicas=4, needs=1, done_before=frozenset({3}))
    decided = plan_pods(view, (), NOW)
    assert [new.index for new in decided.create] == [1]
    assert [entry.pod.metadata.name for entry in decided.delete] == [view.failed[0].metadata.name]
    assert view.succeeded[0].metadata.name in decided.names


def test_a_pod_without_an_index_is_not_counted_as_done() -> None:
    stray = done(0)
    bare = msgspec.structs.replace(stray, metadata=msgspec.structs.replace(stray.metadata, labels={}))
    assert finite(bare, pod(1), replicas=2).done_indices == frozenset()


# --- how far a replica is --------------------------------------------------------------------------------------------


def job(*, runtime: str | None = None, budget: int | None = None, delay: str = "0s", **fields: Any) -> PodCliqueSet:
    limits = TrainingSpec(max_runtime=runtime, max_restarts=budget)
    cliques = fields.pop("cliques", (role("a", 2),))
    return pcs(
        *cliques,
        template={"termination_delay": delay},
        spec={"workload_type": "Training", "training_spec": limits},
        **fields,
    )


def run(*cliques: CliqueView, observed: PodCliqueSet | None = None, gangs: tuple[PodGang, ...] = ()) -> ReplicaRun:
    view = replica(*cliques, gangs=gangs)
    desired = build_desired_replica(context(observed or job()), 0, {})
    return compute_run(view, desired, Recreations(view, desired), "", at(100))


TOLD = PodCliqueStatus(conditions=(SUCCEEDED,), succeeded_indices=(0, 1))


@pytest.mark.parametrize(
    ("view", "has_ended", "is_done", "start", "finish"),
    [
        pytest.param(finite(gated(0), gated(1)), False, False, None, None, id="nothing has started"),
        pytest.param(finite(started(0, 1), gated(1)), False, False, 1, None, id="one of two has"),
        pytest.param(finite(started(0, 3), started(1, 1)), False, False, 1, None, id="both have"),
        pytest.param(finite(crash_looping(0, runs=2), gated(1)), False, False, 0, None, id="its first run is over"),
        pytest.param(finite(started(0, 999), gated(1)), False, False, 100, None, id="its clock is ahead"),
        pytest.param(
            finite(started(0, 1, created=at(2)), gated(1)), False, False, 2, None, id="its clock is behind its pod"
        ),
        pytest.param(finite(started(0, 1, terminating=True), gated(1)), False, False, 1, None, id="it leaves already"),
        pytest.param(finite(done(0, 1, 7), started(1, 3)), False, False, 1, 7, id="one is done"),
        pytest.param(finite(done(0, 1, 7), done(1, 3, 9)), True, False, 1, 9, id="all are, and it is not told"),
        pytest.param(finite(done(0, 1, 7), done(1, 3, 9), status=TOLD), True, True, 1, 9, id="it is told"),
        pytest.param(finite(done(1, 3, 9), replicas=2, status=TOLD), True, True, 3, 9, id="one pod is gone"),
        pytest.param(
            finite(replicas=2, status=TOLD, creation_timestamp=at(1)), True, True, 1, 50, id="all pods are gone"
        ),
    ],
)
def test_how_far_a_replica_is(
    view: CliqueView, has_ended: bool, is_done: bool, start: float | None, finish: float | None
) -> None:
    found = run(view)
    assert (found.has_ended, found.is_done) == (has_ended, is_done)
    assert found.started_at == (None if start is None else at(start))
    assert found.finished_at == (None if finish is None else at(finish))


def test_a_replica_starts_with_the_first_of_its_cliques() -> None:
    observed = job(cliques=(role("a"), role("b")))
    second = finite(started(since=5, clique="p-0-b"), name="p-0-b")
    assert run(second, observed=observed).started_at == at(5)
    assert run(finite(started(since=2), name="p-0-a"), second, observed=observed).started_at == at(2)


def recorded(*open_: Recreation, count: int = 1, **metadata: Any) -> PodGang:
    text = msgspec.json.encode(Record(count=count, open=open_)).decode()
    return gang(annotations={labels.RECREATION: text}, **metadata)


AGAIN = Recreation(incarnation="1.1", reason="it failed and is restarted")


def of_life(life: str, *pods: Pod, name: str = "p-0-a", **fields: Any) -> CliqueView:
    told = {labels.INCARNATION: life, labels.SET_REPLICA_INDEX: "0", labels.PART_OF: "p", labels.TEMPLATE_HASH: "new"}
    return finite(*pods, name=name, labels=told, **fields)


def test_what_is_left_of_the_last_attempt_is_no_end_of_the_next() -> None:
    old = of_life("1", done(0), done(1), status=TOLD)
    found = run(old, gangs=(recorded(AGAIN),))
    assert (found.has_ended, found.is_done) == (False, False)


# --- restarts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cliques", "gangs", "lives"),
    [
        pytest.param((of_life("1"),), (gang(),), 0, id="the first"),
        pytest.param((of_life("1.2"),), (recorded(count=2),), 2, id="the third"),
        pytest.param((of_life("1.2"),), (), 2, id="without its gang"),
        pytest.param((of_life("1"),), (recorded(AGAIN),), 1, id="a restart is under way"),
        pytest.param((), (recorded(count=3),), 3, id="somebody took its cliques away"),
        pytest.param((), (), 0, id="nothing is left"),
        pytest.param((of_life("1.1"), of_life("1", name="p-0-b")), (), 0, id="one of its parts is not made anew yet"),
        pytest.param((of_life("1.1"), of_life("1", name="p-0-b")), (gang(),), 0, id="nor is it, with another gang"),
    ],
)
def test_the_lives_of_a_replica_are_told_by_its_gang_or_by_the_oldest_of_its_parts(
    cliques: tuple[CliqueView, ...], gangs: tuple[PodGang, ...], lives: int
) -> None:
    desired = build_desired_replica(context(job(cliques=(role("a"), role("b")))), 0, {})
    view = replica(*cliques, gangs=gangs)
    assert count_recreations(view, desired) == lives
    assert is_restart_pending(view, desired, lives + 1)
    assert not is_restart_pending(view, desired, lives)


def counted(count: int, **fields: Any) -> PodCliqueSetStatus:
    entries = (ReplicaRestarts(replica_index=0, count=count),)
    return PodCliqueSetStatus(restart_count=count, replica_restarts=entries, phase="Running", **fields)


def whole(view: CliqueView, *others: CliqueView, gangs: tuple[PodGang, ...] | None = None) -> ReplicaView:
    cliques = (view, *others)
    return replica(*cliques, gangs=(gang(*cliques),) if gangs is None else gangs, services=(service(),))


BROKEN = finite(failed(0), started(1), status=PodCliqueStatus(was_available=True, conditions=(BREACHED,)))


def test_a_breach_is_counted_before_anything_is_done_about_it() -> None:
    decided = plan(snapshot(job(budget=3), whole(BROKEN)), at(1))
    assert actions(decided) == []
    (status,) = (one for one in decided.statuses if one.resource.plural == "podcliquesets")
    assert status.patch["restartCount"] == 1
    assert status.patch["replicaRestarts"] == [{"replicaIndex": 0, "count": 1}]
    assert [emit.reason for emit in status.on_success] == [EventReason.REPLICA_RESTARTING]


def test_what_is_counted_is_recorded_on_the_gang_and_nothing_else_is_done() -> None:
    decided = plan(snapshot(job(budget=3, status=counted(1)), whole(BROKEN)), at(1))
    (intent,) = actions(decided)
    assert isinstance(intent, Patch)
    assert _record_in(intent) == Record(
        count=1, open=(Recreation(incarnation="1.1", reason="it failed and is restarted"),)
    )
    assert not any("restartCount" in status.patch for status in decided.statuses)


def test_a_restart_that_was_interrupted_goes_on_in_the_same_life() -> None:
    """Somebody deleted the gang when one clique was made anew and the other was not."""
    observed = job(budget=3, cliques=(role("a"), role("b")), status=counted(2))
    new = of_life("1.2", started(0))
    old = of_life("1.1", started(0, clique="p-0-b"), name="p-0-b")
    decided = plan(snapshot(observed, whole(new, old)), at(1))
    (intent,) = actions(decided)
    assert isinstance(intent, Patch)
    (again,) = _record_in(intent).open
    assert again.incarnation == "1.2"


def test_without_a_gang_to_record_it_on_the_gang_is_made_first_and_no_pod() -> None:
    observed = job(budget=3, status=counted(1))
    decided = plan(snapshot(observed, whole(BROKEN, gangs=())), at(1))
    assert [(action.resource, type(action)) for action in actions(decided)] == [(PODGANGS, Create)]


def test_the_teardown_takes_pods_first_and_keeps_their_cliques_until_they_are_gone() -> None:
    observed = job(budget=3, status=counted(1))
    intent = recorded(AGAIN)
    first = plan(snapshot(observed, whole(of_life("1", started(0), failed(1)), gangs=(intent,))), at(1))
    assert [type(action) for action in actions(first)] == [DeleteMany]
    assert _plurals(first) == ["pods"]
    terminating = of_life("1", started(0, terminating=True), replicas=2)
    later = plan(snapshot(observed, whole(terminating, gangs=(intent,))), at(1))
    assert actions(later) == []
    assert later.requeue_at is not None
    assert later.requeue_at > at(10)
    # Long past its time it hangs on a node that does not answer.
    at_last = plan(snapshot(observed, whole(terminating, gangs=(intent,))), later.requeue_at)
    assert _plurals(at_last) == ["podcliques"]
    gone = plan(snapshot(observed, whole(of_life("1", replicas=2), gangs=(intent,))), at(1))
    assert _plurals(gone) == ["podcliques"]


def test_a_held_restart_is_not_counted_and_nothing_is_repaired_meanwhile() -> None:
    seen = msgspec.structs.replace(snapshot(job(budget=3), whole(BROKEN)), hold_until=at(100))
    decided = plan(seen, at(1))
    assert actions(decided) == []
    (status,) = (one for one in decided.statuses if one.resource.plural == "podcliquesets")
    assert status.patch["restartCount"] == 0
    assert find_condition(msgspec.convert(status.patch["conditions"], tuple[Condition, ...]), "TeardownHeld")


def test_with_a_delay_the_pod_is_replaced_and_the_restart_waits() -> None:
    observed = job(budget=3, delay="30s")
    seen = snapshot(observed, whole(BROKEN))
    decided = plan(seen, at(1))
    assert [action.name for action in actions(decided) if isinstance(action, Create) and action.resource is PODS]
    assert decided.requeue_at == at(30)
    (status,) = (one for one in decided.statuses if one.resource.plural == "podcliquesets")
    assert status.patch["restartCount"] == 0
    cache = PlanCache()
    plan(seen, at(1), cache)
    due = plan(seen, at(30), cache)
    assert [s.patch["restartCount"] for s in due.statuses if "restartCount" in s.patch] == [1]


def test_a_clique_that_somebody_deleted_is_a_breach_only_once_its_gang_exists() -> None:
    observed = job(budget=3, cliques=(role("a"), role("b")))
    first = finite(started(0), was_available=True)
    unborn = plan(snapshot(observed, whole(first, gangs=())), at(1))
    assert [a.name for a in actions(unborn) if isinstance(a, Create)] == ["p-0-b"]
    taken = plan(snapshot(observed, whole(first)), at(1))
    assert actions(taken) == []
    (status,) = (one for one in taken.statuses if one.resource.plural == "podcliquesets")
    assert status.patch["restartCount"] == 1
    # Nothing is lost of what never ran.
    never = plan(snapshot(observed, whole(finite(gated(0)))), at(1))
    assert [a.name for a in actions(never) if isinstance(a, Create)] == ["p-0-b"]


def _record_in(intent: Patch) -> Record:
    annotations = intent.patch["metadata"]["annotations"]
    return read_record(gang(annotations=annotations))


def _plurals(decided: Plan) -> list[str]:
    return [action.resource.plural for action in actions(decided)]


# --- the set as a whole ----------------------------------------------------------------------------------------------


def a_run(index: int = 0, **fields: Any) -> ReplicaRun:
    return ReplicaRun(index=index, **fields)


def over(index: int = 0, finished: float = 10, *, is_told: bool = True) -> ReplicaRun:
    return a_run(index, has_ended=True, is_done=is_told, started_at=NOW, finished_at=at(finished))


RUNNING = a_run(started_at=NOW)
DUE = a_run(started_at=NOW, due="p-0-a: 1 failed")


@pytest.mark.parametrize(
    ("observed", "runs", "now", "phase", "failed_for", "restart_count"),
    [
        pytest.param(job(), [a_run()], 0, "Pending", None, 0, id="nothing has started"),
        pytest.param(job(), [RUNNING], 0, "Running", None, 0, id="it runs"),
        pytest.param(job(replicas=2), [a_run(), RUNNING], 0, "Running", None, 0, id="one of two runs"),
        pytest.param(job(), [over()], 20, "Succeeded", None, 0, id="it is done"),
        pytest.param(job(), [over(is_told=False)], 20, "Running", None, 0, id="its clique does not say so yet"),
        pytest.param(job(replicas=2), [over(), a_run(1)], 20, "Running", None, 0, id="one of two is done"),
        pytest.param(job(replicas=2), [over()], 20, "Running", None, 0, id="one of two was not looked at"),
        pytest.param(job(runtime="30s"), [RUNNING], 29, "Running", None, 0, id="a second before the deadline"),
        pytest.param(job(runtime="30s"), [RUNNING], 30, "Running", Reason.MAX_RUNTIME_EXCEEDED, 0, id="at its end"),
        pytest.param(job(runtime="30s"), [a_run()], 99, "Pending", None, 0, id="its time has not begun"),
        pytest.param(job(runtime="30s"), [over(finished=30)], 99, "Succeeded", None, 0, id="done at the last moment"),
        pytest.param(
            job(runtime="30s"), [over(finished=30, is_told=False)], 99, "Running", None, 0, id="the same, not told yet"
        ),
        pytest.param(
            job(runtime="30s"), [over(finished=31)], 99, "Running", Reason.MAX_RUNTIME_EXCEEDED, 0, id="done too late"
        ),
        pytest.param(job(), [DUE], 5, "Running", Reason.MAX_RESTARTS_EXCEEDED, 0, id="without a budget"),
        pytest.param(job(budget=1), [DUE], 5, "Running", None, 1, id="within its budget"),
        pytest.param(
            job(budget=1, status=counted(1)), [DUE], 5, "Running", Reason.MAX_RESTARTS_EXCEEDED, 1, id="used up"
        ),
        pytest.param(
            job(budget=1, replicas=2), [DUE, a_run(1, due="x")], 5, "Running", Reason.MAX_RESTARTS_EXCEEDED, 0,
            id="two at once, and room for one",
        ),
        pytest.param(job(budget=2, replicas=2), [DUE, a_run(1, due="x")], 5, "Running", None, 2, id="room for both"),
        pytest.param(
            job(budget=9, runtime="30s"), [DUE], 30, "Running", Reason.MAX_RUNTIME_EXCEEDED, 0, id="the deadline first"
        ),
    ],
)  # fmt: skip
def test_the_course_of_a_set(
    observed: PodCliqueSet,
    runs: list[ReplicaRun],
    now: float,
    phase: str,
    failed_for: Reason | None,
    restart_count: int,
) -> None:
    training_status = compute_training_outcome(
        observed, runs, at(now), is_running=any(run.started_at is not None for run in runs)
    )
    assert (training_status.phase, training_status.failed, training_status.restart_count) == (
        phase,
        failed_for,
        restart_count,
    )


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_what_is_over_stays_as_it_was_told(phase: str) -> None:
    status = PodCliqueSetStatus(phase=phase, start_time=NOW, restart_count=2)
    told = TrainingOutcome(phase=phase, start_time=NOW, restart_count=2, replica_restarts=())
    assert compute_training_outcome(job(runtime="1s", status=status), [DUE], at(999), is_running=True) == told


def test_the_time_of_the_first_start_is_kept_and_wakes_at_the_deadline() -> None:
    first = compute_training_outcome(job(runtime="30s"), [a_run(started_at=at(2.5))], at(5), is_running=True)
    assert (first.start_time, first.requeue_at) == (at(3), at(33))
    kept = PodCliqueSetStatus(start_time=at(3))
    again = compute_training_outcome(
        job(runtime="30s", status=kept), [a_run(started_at=at(20))], at(25), is_running=True
    )
    assert (again.start_time, again.requeue_at) == (at(3), at(33))
    waits = compute_training_outcome(job(runtime="30s", status=kept), [a_run()], at(25), is_running=False)
    assert (waits.phase, waits.requeue_at) == ("Pending", at(33))


@pytest.mark.parametrize(
    ("used", "budget", "due", "words"),
    [
        pytest.param(0, 0, 1, "all restarts are used (0 of 0)", id="none was allowed"),
        pytest.param(2, 2, 1, "all restarts are used (2 of 2)", id="all were made"),
        pytest.param(3, 1, 1, "all restarts are used (3 of 1)", id="the budget was lowered"),
        pytest.param(
            0, 1, 2, "2 replicas need a restart at once, with 1 of 1 restarts left", id="two, and one is left"
        ),
        pytest.param(1, 3, 3, "3 replicas need a restart at once, with 2 of 3 restarts left", id="three, and two"),
    ],
)
def test_the_words_of_a_spent_budget(used: int, budget: int, due: int, words: str) -> None:
    observed = job(budget=budget, replicas=3, status=PodCliqueSetStatus(restart_count=used))
    training_status = compute_training_outcome(
        observed, [a_run(i, due="x") for i in range(due)], at(5), is_running=True
    )
    assert training_status.message.startswith(f"it failed and {words}: replica 0: x")


def test_a_restart_is_counted_ahead_of_the_lives_that_there_were() -> None:
    training_status = compute_training_outcome(
        job(budget=5), [msgspec.structs.replace(DUE, recreation_count=3)], at(5), is_running=True
    )
    assert training_status.restart_count == 1
    assert training_status.replica_restarts == (ReplicaRestarts(replica_index=0, count=4),)


# --- the end ---------------------------------------------------------------------------------------------------------


def fails(phase: str = "Running") -> PodCliqueSetStatus:
    told = Condition(type="Failed", status="True", reason="MaxRestartsExceeded", message="m", last_transition_time=NOW)
    return PodCliqueSetStatus(phase=phase, conditions=(told,), start_time=NOW, restart_count=0)


def phases(decided: Plan) -> list[object]:
    """What the set's phase becomes."""
    sets = (one.patch for one in decided.statuses if one.resource is PODCLIQUESETS)
    return [patch["phase"] for patch in sets if "phase" in patch]


@pytest.mark.parametrize("phase", ["Running", "Failed"], ids=["it is failing", "it has failed"])
def test_pods_of_a_set_that_failed_go_in_one_request_and_those_that_ended_stay(phase: str) -> None:
    view = finite(failed(0), started(1), done(2), gated(3))
    decided = plan(snapshot(job(status=fails(phase)), whole(view)), at(1))
    (delete,) = actions(decided)
    assert isinstance(delete, DeleteMany)
    assert delete.uids == tuple(one.metadata.uid for one in view.active)
    assert delete.field_selector == "status.phase!=Succeeded,status.phase!=Failed"
    assert phases(decided) == []


def test_its_phase_says_so_when_the_last_of_them_is_gone() -> None:
    waits = plan(snapshot(job(status=fails()), whole(finite(started(0, terminating=True), replicas=2))), at(1))
    assert (actions(waits), phases(waits)) == ([], [])
    assert waits.requeue_at is not None
    # What should have left long ago is not waited for.
    hangs = plan(
        snapshot(job(status=fails()), whole(finite(started(0, terminating=True), replicas=2))), waits.requeue_at
    )
    assert phases(hangs) == ["Failed"]
    gone = plan(snapshot(job(status=fails()), whole(finite(failed(0), replicas=2))), at(1))
    assert (actions(gone), phases(gone)) == ([], ["Failed"])


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_after_the_end_nothing_is_made_whatever_is_missing(phase: str) -> None:
    status = PodCliqueSetStatus(phase=phase, start_time=NOW, restart_count=0)
    decided = plan(snapshot(job(status=status), replica()), at(1))
    assert actions(decided) == []
    assert phases(decided) == []
    unrecorded = msgspec.structs.replace(snapshot(job(status=status), replica()), revisions=())
    assert plan(unrecorded, at(1)) == Plan()


@pytest.mark.parametrize("phase", ["Succeeded", "Failed", "Running"])
def test_a_set_that_cannot_be_carried_out_keeps_its_phase(phase: str) -> None:
    """Or one that ended would begin again when it is right again."""
    wrong = job(status=PodCliqueSetStatus(phase=phase, restart_count=0), cliques=(role("a", 1, needs=7),))
    seen = snapshot(wrong, replica())
    assert seen.context.errors
    assert phases(plan(seen, at(1))) == []


def test_pods_that_end_after_the_end_are_counted_and_are_no_events() -> None:
    status = PodCliqueSetStatus(phase="Failed", start_time=NOW, restart_count=0)
    lost_all = finite(replicas=2, status=PodCliqueStatus(was_available=True, scheduled_replicas=2))
    decided = plan(snapshot(job(status=status), whole(lost_all)), at(1))
    assert any(one.resource.plural == "podcliques" for one in decided.statuses)
    assert [emit for one in decided.statuses for emit in one.on_success] == []


def test_the_breach_of_a_training_clique_has_an_event_of_its_own() -> None:
    view = finite(failed(0), started(1), was_available=True)
    decided = plan(snapshot(job(budget=1), whole(view)), NOW)
    told = [emit for one in decided.statuses if one.resource.plural == "podcliques" for emit in one.on_success]
    assert [emit.reason for emit in told] == [EventReason.POD_CLIQUE_FAILED]
    assert told[0].message.startswith("1 of at least 2 pods are ready or succeeded, 0 starting, 1 failed; first: pod ")
    slow = plan(snapshot(job(budget=1, delay="30s"), whole(view)), NOW)
    (emit,) = (e for one in slow.statuses if one.resource.plural == "podcliques" for e in one.on_success)
    assert emit.message.endswith(f"; it fails at {wire_time(at(30))} unless it recovers")

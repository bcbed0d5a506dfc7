"""How a pod ends: well, badly, only in part, or because it was told to go."""

from datetime import UTC, datetime, timedelta

import pytest

from grove.api.types.meta import Condition, ObjectMeta
from grove.api.types.pod import (
    ContainerState,
    ContainerStatus,
    Pod,
    PodStatus,
    RunningState,
    TerminatedState,
    WaitingState,
    has_lost_readiness,
    has_succeeded_before_deletion,
    is_finishing,
    pod_finished_at,
    pod_started_at,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def runs(since: float = 0) -> ContainerState:
    return ContainerState(running=RunningState(started_at=at(since)))


def ended(code: int = 0, since: float = 0, until: float = 10) -> ContainerState:
    return ContainerState(terminated=TerminatedState(exit_code=code, started_at=at(since), finished_at=at(until)))


WAITS = ContainerState(waiting=WaitingState(reason="ContainerCreating"))


def pod(
    *states: ContainerState,
    phase: str = "Running",
    ready_until: float | None = None,
    deleted: float | None = None,
    grace: int = 30,
) -> Pod:
    """`ready_until`: since when it is not ready; `deleted`: when that was asked for."""
    ready = Condition(
        type="Ready", status="False", last_transition_time=None if ready_until is None else at(ready_until)
    )
    return Pod(
        metadata=ObjectMeta(
            name="p",
            deletion_timestamp=None if deleted is None else at(deleted + grace),
            deletion_grace_period_seconds=None if deleted is None else grace,
        ),
        status=PodStatus(
            phase=phase,
            conditions=(ready,),
            container_statuses=tuple(ContainerStatus(state=state) for state in states),
        ),
    )


@pytest.mark.parametrize(
    ("observed", "answer"),
    [
        pytest.param(pod(runs(), runs()), False, id="nothing has ended"),
        pytest.param(pod(ended(0), runs()), True, id="one ended well"),
        pytest.param(pod(ended(0), ended(0)), True, id="all did, and the phase does not say so yet"),
        pytest.param(pod(ended(1), runs()), False, id="one ended badly"),
        pytest.param(pod(ended(0), ended(1), runs()), False, id="one well, one badly"),
        pytest.param(pod(ended(0), WAITS), True, id="one ended before the other began"),
        pytest.param(pod(ended(0), phase="Succeeded"), False, id="it is over"),
        pytest.param(pod(), False, id="nothing is known"),
    ],
)
def test_a_pod_is_finishing_while_all_that_ended_ended_well(observed: Pod, answer: bool) -> None:
    assert is_finishing(observed) is answer


@pytest.mark.parametrize(
    ("observed", "answer"),
    [
        pytest.param(pod(ended(0), phase="Succeeded"), True, id="by itself"),
        pytest.param(pod(ended(1), phase="Failed"), False, id="badly"),
        pytest.param(pod(runs()), False, id="it runs"),
        pytest.param(pod(ended(0, until=10), phase="Succeeded", deleted=11), True, id="deleted when it was done"),
        pytest.param(pod(ended(0, until=12), phase="Succeeded", deleted=11), False, id="told to go before"),
        pytest.param(pod(ended(0, until=11), phase="Succeeded", deleted=11), False, id="in the same second"),
        pytest.param(pod(ended(0, until=10), phase="Succeeded", deleted=11, grace=0), True, id="deleted without grace"),
        pytest.param(pod(phase="Succeeded", deleted=11), False, id="deleted, and nobody knows when it ended"),
    ],
)
def test_exit_0_after_a_deletion_is_no_success(observed: Pod, answer: bool) -> None:
    assert has_succeeded_before_deletion(observed) is answer


@pytest.mark.parametrize(
    ("observed", "seconds"),
    [
        pytest.param(pod(), None, id="nothing is known"),
        pytest.param(pod(runs(1), WAITS), None, id="one waits"),
        pytest.param(pod(runs(1), runs(3)), 3, id="the last one counts"),
        pytest.param(pod(ended(since=5), runs(3)), 5, id="also one that has ended"),
    ],
)
def test_a_pod_has_started_when_its_last_container_has(observed: Pod, seconds: float | None) -> None:
    assert pod_started_at(observed) == (None if seconds is None else at(seconds))


@pytest.mark.parametrize(
    ("observed", "seconds"),
    [
        pytest.param(pod(), None, id="nothing is known"),
        pytest.param(pod(ended(until=8), runs()), None, id="one runs"),
        pytest.param(pod(ended(until=8), ended(until=7)), 8, id="the last one counts"),
    ],
)
def test_a_pod_has_finished_when_its_last_container_has(observed: Pod, seconds: float | None) -> None:
    assert pod_finished_at(observed) == (None if seconds is None else at(seconds))


@pytest.mark.parametrize(
    ("observed", "answer"),
    [
        pytest.param(pod(runs(5), ready_until=0), False, id="not ready since before it started"),
        pytest.param(pod(runs(5), ready_until=6), False, id="in the second of its start"),
        pytest.param(pod(runs(5), ready_until=7), True, id="later: it was ready in between"),
        pytest.param(pod(WAITS, ready_until=7), False, id="it has not started"),
        pytest.param(pod(runs(5)), False, id="nobody says since when"),
    ],
)
def test_what_was_ready_and_is_not_any_more_is_told_from_a_slow_start(observed: Pod, answer: bool) -> None:
    assert has_lost_readiness(observed) is answer

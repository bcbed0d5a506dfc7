"""Ready, scheduled, available, in breach - level by level."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grove.api.reasons import Reason
from grove.api.types.meta import ConditionStatus
from grove.api.types.podclique import CliqueRollingUpdateProgress, PodCliqueStatus
from grove.planner.status.availability import (
    ConditionResult,
    GroupReplica,
    ReplicaHealth,
    clique_breach,
    clique_scheduled,
    group_breach,
    group_replica_health,
    is_available,
    is_scheduled,
    was_available,
)
from grove.planner.views import CliqueView
from tests.dsl import NOW, clique, pod, starting

GOOD, BREACHED, UNKNOWN, STARTING = (
    ReplicaHealth.GOOD,
    ReplicaHealth.BREACHED,
    ReplicaHealth.UNKNOWN,
    ReplicaHealth.STARTING,
)


def condition_true(reason: Reason, message: str) -> ConditionResult:
    return ConditionResult(status=ConditionStatus.TRUE, reason=reason, message=message)


def condition_false(reason: Reason, message: str) -> ConditionResult:
    return ConditionResult(status=ConditionStatus.FALSE, reason=reason, message=message)


def unknown(reason: Reason, message: str) -> ConditionResult:
    return ConditionResult(status=ConditionStatus.UNKNOWN, reason=reason, message=message)


@pytest.mark.parametrize(
    ("view", "verdict"),
    [
        pytest.param(
            clique(ready=3, replicas=4, needs=3),
            condition_false(Reason.SUFFICIENT_READY_PODS, "3 of at least 3 pods are ready"),
            id="at its minimum",
        ),
        pytest.param(
            clique(ready=4, replicas=4, needs=3, was_available=True),
            condition_false(Reason.SUFFICIENT_READY_PODS, "4 of at least 3 pods are ready"),
            id="above its minimum",
        ),
        pytest.param(
            clique(ready=2, replicas=4, needs=3),
            condition_false(Reason.NEVER_AVAILABLE, "2 of at least 3 pods are ready"),
            id="still starting",
        ),
        pytest.param(
            clique(ready=2, replicas=4, needs=3, was_available=True),
            condition_true(Reason.INSUFFICIENT_READY_PODS, "2 of at least 3 pods are ready"),
            id="lost a pod",
        ),
        pytest.param(
            clique(pod(0), pod(1, terminating=True), replicas=2, was_available=True),
            condition_true(Reason.INSUFFICIENT_READY_PODS, "1 of at least 2 pods are ready"),
            id="a leaving pod is not ready",
        ),
        pytest.param(
            clique(pod(0), starting(1), was_available=True),
            condition_true(Reason.INSUFFICIENT_READY_PODS, "1 of at least 2 pods are ready"),
            id="a starting pod is not ready",
        ),
    ],
)
def test_a_clique_is_in_breach_when_it_was_available_and_lost_its_minimum(
    view: CliqueView, verdict: ConditionResult
) -> None:
    assert clique_breach(view) == verdict


def test_a_clique_is_scheduled_when_its_minimum_has_nodes() -> None:
    assert clique_scheduled(clique(starting(0), pod(1, node=""), needs=1)) == condition_true(
        Reason.SUFFICIENT_SCHEDULED_PODS, "1 of at least 1 pods have a node"
    )
    assert clique_scheduled(clique(starting(0), pod(1, node=""), needs=2)) == condition_false(
        Reason.INSUFFICIENT_SCHEDULED_PODS, "1 of at least 2 pods have a node"
    )


@pytest.mark.parametrize(("ready", "expected"), [(1, False), (2, True), (3, True)])
def test_a_clique_is_available_when_its_minimum_is_ready(ready: int, expected: bool) -> None:
    assert is_available(clique(ready=ready, replicas=3, needs=2)) is expected
    assert was_available(clique(ready=ready, replicas=3, needs=2)) is expected


def test_a_leaving_clique_is_neither_available_nor_scheduled() -> None:
    view = clique(ready=2, terminating=True)
    assert (is_available(view), is_scheduled(view)) == (False, False)


ROLLING = PodCliqueStatus(rolling_update_progress=CliqueRollingUpdateProgress(update_started_at=NOW))
ROLLED = PodCliqueStatus(
    rolling_update_progress=CliqueRollingUpdateProgress(update_started_at=NOW, update_ended_at=NOW)
)


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        pytest.param(clique(ready=1, replicas=2, needs=2), False, id="one pod below its minimum"),
        pytest.param(clique(ready=2, needs=2), True, id="at its minimum"),
        pytest.param(clique(ready=0, replicas=2, was_available=True), True, id="it was, and lost all pods"),
        pytest.param(clique(ready=2, needs=2, status=ROLLING), False, id="at its minimum while it is updated"),
        pytest.param(clique(ready=2, needs=2, status=ROLLED), True, id="at its minimum after its update"),
        pytest.param(
            msgspec.structs.replace(clique(ready=2, needs=2), is_group_rolling=True),
            False,
            id="at its minimum while its group is updated",
        ),
        pytest.param(
            msgspec.structs.replace(clique(ready=0, replicas=2, was_available=True), is_group_rolling=True),
            True,
            id="it was, before its group was updated",
        ),
    ],
)
def test_once_available_is_remembered_and_an_update_does_not_count(view: CliqueView, expected: bool) -> None:
    assert was_available(view) is expected


READY = clique(ready=1)
NEW = clique(replicas=1)
LOST = clique(replicas=1, was_available=True)
LEAVING = clique(ready=1, terminating=True)


def seen(*cliques: CliqueView | None, back: bool = False, unmade: bool = False) -> GroupReplica:
    return GroupReplica(cliques=cliques, is_coming_back=back, is_unmade=unmade)


@pytest.mark.parametrize(
    ("replica", "health"),
    [
        pytest.param(seen(READY, READY), GOOD, id="all are well"),
        pytest.param(seen(READY, LOST), BREACHED, id="one is in breach"),
        pytest.param(seen(LOST, None), BREACHED, id="breach is worse than missing"),
        pytest.param(seen(LOST, None, unmade=True), BREACHED, id="breach is worse than never made"),
        pytest.param(seen(LOST, NEW), BREACHED, id="breach is worse than starting"),
        pytest.param(seen(LOST, None, back=True), BREACHED, id="breach is worse than coming back"),
        pytest.param(seen(READY, None), UNKNOWN, id="one is missing that was there"),
        pytest.param(seen(READY, None, unmade=True), STARTING, id="one was never made"),
        pytest.param(seen(None, None, unmade=True), STARTING, id="a replica that was just asked for"),
        pytest.param(seen(READY, LEAVING), UNKNOWN, id="one is being deleted"),
        pytest.param(seen(NEW, None), STARTING, id="starting is told before missing"),
        pytest.param(seen(READY, NEW), STARTING, id="one never was available"),
        pytest.param(seen(None, None, back=True, unmade=True), UNKNOWN, id="it is being recreated"),
        pytest.param(seen(NEW, NEW, back=True), UNKNOWN, id="its recreation is not over"),
    ],
)
def test_a_group_replica_is_as_well_as_its_worst_clique(replica: GroupReplica, health: ReplicaHealth) -> None:
    assert group_replica_health(replica) == health
    backwards = msgspec.structs.replace(replica, cliques=tuple(reversed(replica.cliques)))
    assert group_replica_health(backwards) == health


def found(good: int, needed: int, breached: int, in_doubt: int) -> str:
    return f"{good} of at least {needed} replicas are healthy, {breached} in breach, {in_doubt} unknown"


@pytest.mark.parametrize(
    ("healths", "needs", "verdict"),
    [
        pytest.param(
            (BREACHED, GOOD),
            2,
            condition_true(Reason.INSUFFICIENT_AVAILABLE_REPLICAS, found(1, 2, 1, 0)),
            id="one is lost, and the good ones are too few",
        ),
        pytest.param(
            (BREACHED, STARTING),
            1,
            condition_true(Reason.INSUFFICIENT_AVAILABLE_REPLICAS, found(0, 1, 1, 0)),
            id="one that starts is no help",
        ),
        pytest.param(
            (BREACHED, UNKNOWN, GOOD),
            3,
            condition_true(Reason.INSUFFICIENT_AVAILABLE_REPLICAS, found(1, 3, 1, 1)),
            id="even if the unknown one were good",
        ),
        pytest.param(
            (BREACHED, UNKNOWN),
            1,
            unknown(Reason.REPLICA_STATE_UNKNOWN, found(0, 1, 1, 1)),
            id="the unknown one might be good",
        ),
        pytest.param(
            (GOOD, UNKNOWN),
            2,
            unknown(Reason.REPLICA_STATE_UNKNOWN, found(1, 2, 0, 1)),
            id="nothing is lost, but one is in doubt",
        ),
        pytest.param(
            (GOOD, BREACHED),
            1,
            condition_false(Reason.SUFFICIENT_AVAILABLE_REPLICAS, found(1, 1, 1, 0)),
            id="enough are good without the lost one",
        ),
        pytest.param(
            (GOOD, UNKNOWN),
            1,
            condition_false(Reason.SUFFICIENT_AVAILABLE_REPLICAS, found(1, 1, 0, 1)),
            id="enough are good without the one in doubt",
        ),
        pytest.param(
            (STARTING, STARTING),
            1,
            condition_false(Reason.NEVER_AVAILABLE, found(0, 1, 0, 0)),
            id="never available is no breach",
        ),
        pytest.param(
            (UNKNOWN, STARTING),
            2,
            condition_false(Reason.NEVER_AVAILABLE, found(0, 2, 0, 1)),
            id="too few either way, but nothing is lost",
        ),
        pytest.param((), 0, condition_false(Reason.SUFFICIENT_AVAILABLE_REPLICAS, found(0, 0, 0, 0)), id="no replicas"),
    ],
)
def test_a_group_is_in_breach_when_too_few_replicas_can_still_be_good(
    healths: tuple[ReplicaHealth, ...], needs: int, verdict: ConditionResult
) -> None:
    assert group_breach(healths, needs) == verdict
    assert group_breach(reversed(healths), needs) == verdict


@given(st.lists(st.sampled_from(list(ReplicaHealth)), max_size=6), st.integers(1, 6))
def test_a_group_without_a_lost_replica_is_never_in_breach(healths: list[ReplicaHealth], needs: int) -> None:
    if BREACHED not in healths:
        assert not group_breach(healths, needs).is_true


@given(st.lists(st.sampled_from(list(ReplicaHealth)), max_size=6), st.integers(1, 6))
def test_a_group_with_enough_good_replicas_is_never_in_breach_or_doubt(
    healths: list[ReplicaHealth], needs: int
) -> None:
    if healths.count(GOOD) >= needs:
        assert group_breach(healths, needs).status == ConditionStatus.FALSE

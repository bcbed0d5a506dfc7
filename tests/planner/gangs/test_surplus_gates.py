"""Pods above the minimum, where the scheduler mixes them with others': how long they are held back, and by whom."""

from datetime import datetime
from typing import Any

import msgspec
import pytest

from grove.api.reasons import FindingReason
from grove.api.types.meta import Condition
from grove.api.types.pod import Pod
from grove.api.types.podgang import PodGangStatus
from grove.backends.base import NO_SCHEDULER_OBJECTS, SchedulerMessage, SchedulerObjectPlan
from grove.backends.native_podgroups import NativeFeatures
from grove.backends.registry import Backends
from grove.planner.desired_state import DesiredGang, build_desired_replica
from grove.planner.gangs.gang_state import GangState
from grove.planner.gangs.gate_removal import gates_of, surplus_requeue_time
from grove.planner.gangs.rejected_gangs import CreateBackoff
from grove.planner.gangs.scheduling_gates import GateDecision
from grove.planner.gangs.surplus_gates import surplus_gate, surplus_wait_ends_at
from grove.planner.snapshot import ClusterContext, SetContext, build_context
from grove.planner.views import CliqueView
from tests.dsl import NOW, at, clique, gang, gated, pcs, pod, role, scaling

OPEN = GateDecision(may_go=True, reason=FindingReason.GANG_STARTED, message="the gang was placed before")
NATIVE = ClusterContext(backends=Backends(features=NativeFeatures(groups=True, composites=True)))
SET = pcs(role("a", 3, needs=1), role("b", 2, needs=2), groups=(scaling("g", "b", replicas=2, needs=1),))


def context(cluster: ClusterContext = NATIVE) -> SetContext:
    return build_context(SET, cluster)


def blueprints() -> tuple[DesiredGang, ...]:
    return tuple(build_desired_replica(context(), 0, {}).gangs)


def waiting(index: int, name: str, condition: Condition | None = None, gates: tuple[str, ...] = ()) -> Pod:
    one = pod(index, clique=name, node="", gates=gates)
    if condition is None:
        return one
    return msgspec.structs.replace(one, status=msgspec.structs.replace(one.status, conditions=(condition,)))


def base(*, a: CliqueView | None = None, since: datetime | None = NOW) -> GangState:
    """Placed, with two pods of `a` behind their gate."""
    first = a or clique(pod(0), gated(1), gated(2), needs=1)
    second = clique(pod(0, clique="p-0-g-0-b"), pod(1, clique="p-0-g-0-b"), name="p-0-g-0-b", needs=2)
    conditions = (Condition(type="Scheduled", status="True", last_transition_time=since),) if since else ()
    return state(0, first, second, status=PodGangStatus(conditions=conditions))


def scaled(*pods: Pod, replicas: int = 2, **fields: Any) -> GangState:
    found = pods or (waiting(0, "p-0-g-1-b"), waiting(1, "p-0-g-1-b"))
    return state(1, clique(*found, name="p-0-g-1-b", needs=2, replicas=replicas), **fields)


def state(
    number: int,
    *cliques: CliqueView,
    status: PodGangStatus | None = None,
    backoff: CreateBackoff | None = None,
    mirror: SchedulerObjectPlan = NO_SCHEDULER_OBJECTS,
) -> GangState:
    desired = blueprints()[number]
    return GangState(
        desired=desired,
        gang=gang(*cliques, name=desired.name, status=status),
        cliques={one.name: one for one in cliques},
        pods={},
        backoff=backoff,
        scheduler_plan=mirror,
    )


def verdict(first: GangState, second: GangState, now: datetime = NOW) -> GateDecision:
    return surplus_gate(first, (first, second), OPEN, now)


def test_extras_wait_while_a_scaled_gang_has_not_had_its_chance() -> None:
    found = verdict(base(), scaled())
    assert (found.may_go, found.reason) == (False, FindingReason.ABOVE_MINIMUM_WAITS)
    assert "p-0-g-0" in found.message


def test_extras_wait_for_the_minimum_of_their_own_gang() -> None:
    found = verdict(base(a=clique(gated(0), gated(1), gated(2), needs=1)), scaled())
    assert (found.may_go, found.message) == (False, "pods above the minimum wait until the minimum is placed")


def test_a_gate_that_is_closed_for_the_minimum_is_closed_for_extras_in_the_same_words() -> None:
    shut = GateDecision(may_go=False, reason=FindingReason.GANG_INCOMPLETE, message="no")
    assert surplus_gate(base(), (base(), scaled()), shut, NOW) is shut


UNSCHEDULABLE = Condition(type="PodScheduled", status="False", reason="Unschedulable", message="no room")
GATED = Condition(type="PodScheduled", status="False", reason="SchedulingGated", message="gated")
REFUSED = CreateBackoff(message="exceeded quota", since=NOW, retry_at=NOW, release_at=None)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(scaled(pod(0, clique="p-0-g-1-b"), pod(1, clique="p-0-g-1-b")), id="placed"),
        pytest.param(
            scaled(waiting(0, "p-0-g-1-b", UNSCHEDULABLE), waiting(1, "p-0-g-1-b")),
            id="a pod is told that it does not fit",
        ),
        pytest.param(
            scaled(mirror=SchedulerObjectPlan(messages=(SchedulerMessage(message="does not fit"),))),
            id="the group says so",
        ),
        pytest.param(scaled(waiting(0, "p-0-g-1-b")), id="incomplete"),
        pytest.param(scaled(backoff=REFUSED), id="refused"),
        pytest.param(
            scaled(waiting(0, "p-0-g-1-b"), waiting(1, "p-0-g-1-b", gates=("a/b",))), id="behind a foreign gate"
        ),
    ],
)
def test_a_scaled_gang_had_its_chance_when(other: GangState) -> None:
    assert verdict(base(), other) is OPEN


def test_a_pod_that_is_said_to_be_gated_had_no_chance_yet() -> None:
    pods = waiting(0, "p-0-g-1-b", GATED), waiting(1, "p-0-g-1-b", GATED)
    assert not verdict(base(), scaled(*pods)).may_go


@pytest.mark.parametrize(("seconds", "may_go"), [(10.9, False), (11, True), (3600, True)])
def test_nobody_waits_longer_than_ten_seconds_after_the_base_was_placed(seconds: float, may_go: bool) -> None:
    assert verdict(base(), scaled(), at(seconds)).may_go is may_go


def test_without_a_written_time_there_is_no_end_and_no_wake_up() -> None:
    assert surplus_wait_ends_at((base(since=None), scaled())) is None


def woken(first: GangState, second: GangState, now: datetime, cluster: ClusterContext = NATIVE) -> datetime | None:
    states = (first, second)
    return surplus_requeue_time(context(cluster), states, gates_of(context(cluster), states, now), now)


def test_the_end_of_the_wait_is_woken_up_for() -> None:
    assert woken(base(), scaled(), NOW) == at(11)


def test_extras_of_a_gang_that_does_not_fit_are_not_looked_at_again_and_again() -> None:
    """A wake-up in the past is one now, and the next, and the next."""
    assert woken(base(), scaled(), at(11)) is None
    assert woken(base(), scaled(), at(3600)) is None


def test_a_scheduler_that_places_minima_first_gets_all_pods_at_once() -> None:
    cluster = ClusterContext()
    assert woken(base(), scaled(), NOW, cluster) is None
    first, *_ = gates_of(context(cluster), (base(), scaled()), NOW)
    assert first.surplus.may_go

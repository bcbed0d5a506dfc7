"""Cliques and groups that are scaled to zero: what they ask for, what they are called, and how they come back."""

import msgspec
import pytest

from grove.api import labels
from grove.api.reasons import FindingReason, Reason
from grove.api.resources import PODCLIQUES, PODGANGS
from grove.api.types.meta import Condition, ConditionStatus
from grove.api.types.podclique import PodCliqueStatus
from grove.api.types.podgang import GangPhase, PodGangSpec
from grove.planner.actions import Create, Patch, Plan, StatusPriority
from grove.planner.desired_state import build_desired_replica
from grove.planner.gangs.gang_state import GangState
from grove.planner.gangs.gate_removal import gates_of
from grove.planner.gangs.podgang import build_gang_spec, read_zero_count, write_zero_counts
from grove.planner.plan import plan
from grove.planner.pods.pod_sync import CliquePods
from grove.planner.status.availability import (
    AT_ZERO,
    ConditionResult,
    GroupReplica,
    clique_breach,
    clique_scheduled,
    group_verdict,
    has_minimum,
    is_available,
    was_available,
)
from grove.planner.status.child_status import gang_health
from grove.planner.teardown.recreation import Record, Recreation
from grove.planner.views import CliqueView, ReplicaView
from tests.dsl import (
    NOW,
    actions,
    at,
    clique,
    context,
    gang,
    gated,
    group,
    pcs,
    pod,
    replica,
    role,
    scaling,
    service,
    snapshot,
)

TWO = context(pcs(role("a", 2), role("b", 2)))
A, B = "p-0-a", "p-0-b"


def told(reason: Reason, *, was: bool = True) -> PodCliqueStatus:
    """The status of a clique whose condition has this reason, and is False."""
    condition = Condition(type="MinAvailableBreached", status="False", reason=reason, last_transition_time=NOW)
    return PodCliqueStatus(was_available=was, conditions=(condition,))


def zero(name: str = A, *, needs: int = 2, status: PodCliqueStatus | None = None) -> CliqueView:
    return clique(name=name, replicas=0, needs=needs, status=status or PodCliqueStatus(was_available=True))


def condition_false(reason: Reason, message: str) -> ConditionResult:
    return ConditionResult(status=ConditionStatus.FALSE, reason=reason, message=message)


# What it is called


def test_a_clique_at_zero_is_available_scheduled_and_never_in_breach() -> None:
    view = zero()
    assert (is_available(view), has_minimum(view)) == (True, True)
    assert clique_breach(view) == condition_false(Reason.SCALED_TO_ZERO, AT_ZERO)
    assert clique_scheduled(view) == ConditionResult(
        status=ConditionStatus.TRUE, reason=Reason.SCALED_TO_ZERO, message=AT_ZERO
    )


def test_a_clique_that_is_only_at_zero_never_was_available() -> None:
    assert not was_available(zero(status=PodCliqueStatus()))


@pytest.mark.parametrize(
    ("view", "verdict"),
    [
        pytest.param(
            clique(replicas=2, needs=2, status=told(Reason.SCALED_TO_ZERO)),
            condition_false(Reason.NEVER_AVAILABLE, "0 of at least 2 pods are ready"),
            id="scaled up a moment ago",
        ),
        pytest.param(
            clique(pod(0), replicas=2, needs=2, status=told(Reason.NEVER_AVAILABLE)),
            condition_false(Reason.NEVER_AVAILABLE, "1 of at least 2 pods are ready"),
            id="scaled up, and starting",
        ),
        pytest.param(
            clique(ready=2, needs=2, status=told(Reason.NEVER_AVAILABLE)),
            condition_false(Reason.SUFFICIENT_READY_PODS, "2 of at least 2 pods are ready"),
            id="scaled up, and ready",
        ),
        pytest.param(
            clique(pod(0), replicas=2, needs=2, status=told(Reason.SUFFICIENT_READY_PODS)),
            ConditionResult(
                status=ConditionStatus.TRUE,
                reason=Reason.INSUFFICIENT_READY_PODS,
                message="1 of at least 2 pods are ready",
            ),
            id="lost after it was ready again",
        ),
    ],
)
def test_a_clique_that_comes_back_from_zero_is_in_breach_only_after_it_was_ready_again(
    view: CliqueView, verdict: ConditionResult
) -> None:
    assert clique_breach(view) == verdict


def test_a_group_without_replicas_is_never_in_breach() -> None:
    assert group_verdict(group("p-0-g", "b", replicas=0), ()) == condition_false(Reason.SCALED_TO_ZERO, AT_ZERO)
    one = GroupReplica(cliques=(clique(ready=1),))
    assert group_verdict(group("p-0-g", "b"), (one,)).reason == Reason.SUFFICIENT_AVAILABLE_REPLICAS


def test_a_gang_of_which_everything_is_at_zero_waits_for_nothing() -> None:
    health = gang_health(gang(), (zero(A), zero(B)), 2)
    assert health.phase == GangPhase.RUNNING
    assert {verdict.reason for _, verdict in health.verdicts} == {Reason.SCALED_TO_ZERO}
    assert gang_health(gang(), (zero(A), clique(name=B, replicas=1)), 2).phase == GangPhase.PENDING


# What it asks for


def test_a_gang_has_no_podgroup_for_a_clique_at_zero() -> None:
    base = build_desired_replica(TWO, 0, {}).base
    cliques = {A: zero(A), B: clique(name=B, replicas=2, needs=1)}
    spec = build_gang_spec(TWO, base, cliques, {A: CliquePods(), B: CliquePods(names=("x", "y"))})
    assert [(one.name, one.min_replicas, len(one.pod_references)) for one in spec.podgroups] == [(B, 1, 2)]
    nothing = build_gang_spec(TWO, base, {A: zero(A), B: zero(B)}, {A: CliquePods(), B: CliquePods()})
    assert nothing.podgroups == ()


@pytest.mark.parametrize(
    ("asked", "drawn", "parked"),
    [
        pytest.param(0, [], ["p-0-g-0-b", "p-0-g-1-b"], id="zero"),
        pytest.param(1, ["p-0-g-0-b", "p-0-g-1-b"], [], id="below its minimum, past admission"),
        pytest.param(2, ["p-0-g-0-b", "p-0-g-1-b"], [], id="its minimum"),
        pytest.param(3, ["p-0-g-0-b", "p-0-g-1-b", "p-0-g-2-b"], [], id="one more"),
    ],
)
def test_a_group_at_zero_has_no_cliques(asked: int, drawn: list[str], parked: list[str]) -> None:
    explain_set = context(pcs(role("a"), role("b"), groups=(scaling("g", "b", replicas=2, needs=2),)))
    desired = build_desired_replica(explain_set, 0, {"p-0-g": asked})
    assert [one.name for one in desired.cliques if one.group] == drawn
    assert [one.name for one in desired.parked] == parked


def test_a_set_replica_with_a_clique_at_zero_is_available_without_it() -> None:
    observed = pcs(role("a", 2, needs=2), role("b"))
    rest = clique(ready=1, name=B, was_available=True)
    decided = plan(snapshot(observed, replica(zero(A), rest, gangs=(gang(rest),), services=(service(),))), at(60))
    status = next(one for one in decided.statuses if one.resource.plural == "podcliquesets")
    assert status.patch["availableReplicas"] == 1
    assert not [action for action in actions(decided) if isinstance(action, Create)]


# What is known before its pods go


def test_that_a_clique_is_at_zero_is_a_fact_that_is_written_before_its_pods_go() -> None:
    running = clique(ready=2, replicas=0, needs=2, status=told(Reason.SUFFICIENT_READY_PODS))
    observed = pcs(role("a", 2, needs=2))
    decided = plan(snapshot(observed, replica(running, gangs=(gang(running),), services=(service(),))), at(60))
    status = next(one for one in decided.statuses if one.resource is PODCLIQUES)
    assert status.priority is StatusPriority.DURABLE
    conditions = {one["type"]: one["reason"] for one in status.patch["conditions"]}
    assert conditions["MinAvailableBreached"] == "ScaledToZero"


# How it comes back


def gates(*cliques: CliqueView) -> dict[tuple[str, ...], FindingReason]:
    state = GangState(
        desired=build_desired_replica(TWO, 0, {}).base,
        gang=gang(*cliques),
        cliques={one.name: one for one in cliques},
        pods={},
        backoff=None,
    )
    found = gates_of(TWO, (state,), NOW)
    return {tuple(one.name for one in gate.cliques): gate.decision.reason for gate in found}


def test_a_clique_that_comes_back_from_zero_waits_for_all_its_pods_while_others_run() -> None:
    runs = clique(ready=2, name=B, was_available=True)
    half = clique(gated(0), replicas=2, status=told(Reason.NEVER_AVAILABLE))
    assert gates(half, runs) == {(A,): FindingReason.GANG_INCOMPLETE, (B,): FindingReason.GANG_STARTED}
    whole = clique(gated(0), gated(1), replicas=2, status=told(Reason.NEVER_AVAILABLE))
    assert gates(whole, runs) == {(A,): FindingReason.GANG_COMPLETE, (B,): FindingReason.GANG_STARTED}


def test_pods_that_leave_do_not_start_a_clique_that_comes_back_from_zero() -> None:
    left = pod(0, terminating=True)
    assert gates(clique(left, gated(1), replicas=2, status=told(Reason.NEVER_AVAILABLE)), zero(B)) == {
        (A, B): FindingReason.GANG_INCOMPLETE
    }
    # Of one that serves, a lost pod is replaced at once.
    assert gates(clique(left, gated(1), replicas=2, status=told(Reason.SUFFICIENT_READY_PODS)), zero(B)) == {
        (A, B): FindingReason.GANG_STARTED
    }


# A group goes, and comes back, as a unit


SET = pcs(role("a"), role("b"), groups=(scaling("g", "b", replicas=1, needs=1),))
MEMBER = "p-0-g-0-b"


def member(life: str) -> CliqueView:
    place = {labels.GROUP: "p-0-g", labels.GROUP_REPLICA_INDEX: "0"}
    own = {
        **labels.default_labels("p"), **place, labels.SET_REPLICA_INDEX: "0", labels.PODGANG: "p-0",
        labels.TEMPLATE_HASH: "new", labels.INCARNATION: life,
    }  # fmt: skip
    return clique(pod(0, clique=MEMBER, life=life), name=MEMBER, labels=own)


def seen(replicas: int, record: Record | None, *cliques: CliqueView) -> ReplicaView:
    first = clique(ready=1, was_available=True)
    written = {labels.RECREATION: msgspec.json.encode(record).decode()} if record else {}
    base = gang(first, *cliques, annotations=written, labels={labels.INCARNATION: "1"})
    groups = (group("p-0-g", "b", replicas=replicas),)
    return replica(first, *cliques, groups=groups, gangs=(base,), services=(service(),))


def records(decided: Plan) -> list[Record]:
    found = [action.patch for action in actions(decided) if isinstance(action, Patch) and action.resource is PODGANGS]
    texts = [patch.get("metadata", {}).get("annotations", {}).get(labels.RECREATION) for patch in found]
    return [msgspec.json.decode(text, type=Record) for text in texts if text]


OPEN = Recreation(group="p-0-g", index=0, incarnation="1.1", reason="the group was scaled to zero")
LIVES = {"p-0-g/0": "1.1"}


def test_that_a_group_replica_goes_is_recorded_alone_before_anything_of_it_is_deleted() -> None:
    decided = plan(snapshot(SET, seen(0, None, member("1"))), at(60))
    assert records(decided) == [Record(count=1, incarnations=LIVES, open=(OPEN,))]
    assert len(actions(decided)) == 1


def test_the_cliques_of_a_group_at_zero_go_and_none_is_made() -> None:
    decided = plan(snapshot(SET, seen(0, Record(count=1, incarnations=LIVES, open=(OPEN,)), member("1"))), at(60))
    kinds = [(type(action).__name__, action.resource.plural) for action in actions(decided)]
    assert kinds == [("Delete", "pods"), ("DeleteMany", "podcliques"), ("Patch", "podgangs")]


def test_the_record_is_closed_when_nothing_of_the_group_is_left() -> None:
    decided = plan(snapshot(SET, seen(0, Record(count=1, incarnations=LIVES, open=(OPEN,)))), at(60))
    assert records(decided) == [Record(count=1, incarnations=LIVES)]


def test_a_group_that_is_scaled_up_in_the_middle_is_made_anew_in_its_next_life() -> None:
    opened = Record(count=1, incarnations=LIVES, open=(OPEN,))
    still_there = plan(snapshot(SET, seen(1, opened, member("1"))), at(60))
    assert not [one for one in actions(still_there) if isinstance(one, Create)]
    gone = plan(snapshot(SET, seen(1, opened)), at(60))
    made = [one for one in actions(gone) if isinstance(one, Create) and one.resource is PODCLIQUES]
    assert [one.body["metadata"]["labels"][labels.INCARNATION] for one in made] == ["1.1"]


# Groups of schedulers


def test_scales_to_zero_are_counted_with_the_write_that_drops_the_podgroup() -> None:
    ran = clique(ready=2, replicas=0, needs=2)
    current = gang(ran)
    assert write_zero_counts(current, (ran,)) == '{"p-0-a":1}'
    counted = gang(ran, annotations={labels.ZERO_COUNTS: '{"p-0-a":1}'})
    assert (read_zero_count(counted, A), read_zero_count(counted, B)) == (1, 0)
    assert write_zero_counts(counted, (ran,)) == '{"p-0-a":2}'
    # Without a podgroup it was counted before; without a node nothing counts as placed.
    dropped = msgspec.structs.replace(counted, spec=PodGangSpec())
    assert write_zero_counts(dropped, (ran,)) == '{"p-0-a":1}'
    assert write_zero_counts(current, (clique(gated(0), replicas=0),)) is None

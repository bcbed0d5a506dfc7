"""The order of precedence between the steps of a replica: for every two that can apply at once, which one is taken."""

from collections.abc import Mapping
from itertools import combinations
from typing import NamedTuple

import msgspec
import pytest

from grove.api import labels
from grove.api.types.meta import Condition
from grove.api.types.podclique import PodCliqueStatus
from grove.api.types.podcliquescalinggroup import GroupRollingUpdateProgress, GroupUpdateProgress, ScalingGroupStatus
from grove.api.types.podcliqueset import CurrentlyUpdating, PodCliqueSet, TrainingSpec, WorkloadType
from grove.planner.actions import Chain
from grove.planner.replica import ReplicaPlan, ReplicaStep, plan_replica
from grove.planner.replica_facts import DEFAULT_ENVIRONMENT, ReplicaEnvironment
from grove.planner.rollout.replica_update import NO_ROLE, UpdateRole
from grove.planner.snapshot import build_context
from grove.planner.teardown.recreation import Record, Recreation
from grove.planner.views import CliqueView, ReplicaView, view_clique
from tests.dsl import NOW, at, clique, failed, gang, group, pcs, pod, replica, role, scaling, starting

LATER = at(100)

SCALE_IN = ReplicaStep.SCALE_IN
FINISH_REMOVAL = ReplicaStep.FINISH_REMOVAL
RESTART = ReplicaStep.RECORD_RESTART
TERMINATION = ReplicaStep.RECORD_TERMINATION
UPDATE = ReplicaStep.RECORD_UPDATE
ZERO = ReplicaStep.RECORD_SCALE_TO_ZERO
SCALE = ReplicaStep.RECORD_SCALE
AWAIT_RESTART = ReplicaStep.AWAIT_RESTART
SYNC = ReplicaStep.SYNC


class Precedence(NamedTuple):
    """One step, the steps that it is taken before, and the rule that demands it."""

    step: ReplicaStep
    before: tuple[ReplicaStep, ...]
    rule: str


# Written from the specification and the design rules, not from the order of `ReplicaStep`.
RULES = (
    Precedence(
        SCALE_IN,
        (FINISH_REMOVAL, RESTART, TERMINATION, UPDATE, ZERO, SCALE, AWAIT_RESTART, SYNC),
        "objects of removed replicas go with them",
    ),
    Precedence(
        FINISH_REMOVAL,
        (RESTART, TERMINATION, UPDATE, ZERO, SCALE, AWAIT_RESTART, SYNC),
        "a begun teardown finishes",
    ),
    Precedence(
        RESTART,
        (SCALE, AWAIT_RESTART, SYNC),
        "a restart that is counted has begun: it is recorded also while a mass outage holds the next one",
    ),
    Precedence(
        TERMINATION,
        (UPDATE, ZERO, SCALE, SYNC),
        "gang-termination.md: the whole replica goes, and its parts go with it",
    ),
    Precedence(UPDATE, (ZERO, SCALE, SYNC), "an intent is recorded before anything is deleted"),
    Precedence(ZERO, (SCALE, SYNC), "an intent is recorded before anything is deleted"),
    Precedence(SCALE, (AWAIT_RESTART, SYNC), "a scale that was set at run time survives recovery"),
    Precedence(AWAIT_RESTART, (SYNC,), "training-jobs.md: a restart is counted before it begins"),
)
WINNERS = {frozenset((rule.step, loser)): rule for rule in RULES for loser in rule.before}

# A training replica is restarted instead of terminated, is never updated in place, and cannot be scaled to zero.
TRAINING_STEPS = frozenset((RESTART, AWAIT_RESTART))
INFERENCE_STEPS = frozenset((TERMINATION, UPDATE, ZERO))


class Case(NamedTuple):
    pcs: PodCliqueSet
    replica: ReplicaView
    role: UpdateRole = NO_ROLE
    environment: ReplicaEnvironment = DEFAULT_ENVIRONMENT


def decide(*steps: ReplicaStep) -> ReplicaPlan:
    """Plan a replica to which all these steps apply, and always SYNC: it has no Service."""
    build = training if TRAINING_STEPS.intersection(steps) else inference
    case = build(frozenset(steps))
    return plan_replica(build_context(case.pcs), case.replica, LATER, role=case.role, environment=case.environment)


def inference(steps: frozenset[ReplicaStep]) -> Case:
    """A standalone clique `a` and three groups, one for each step about a group."""
    asked = pcs(
        role("a", 2),
        *(role(name) for name in "bcd"),
        groups=(scaling("updated", "b"), scaling("parked", "c"), scaling("recreated", "d")),
        replicas=0 if SCALE_IN in steps else 1,
        template={"termination_delay": "10s"},
    )
    a = clique(pod(0), replicas=2, status=breached()) if TERMINATION in steps else clique(ready=2, was_available=True)
    b = clique(starting(clique="p-0-updated-0-b"), name="p-0-updated-0-b", labels=member("updated"))
    c = clique(ready=1, name="p-0-parked-0-c", labels=member("parked"))
    d = clique(ready=1, replicas=3 if SCALE in steps else 1, name="p-0-recreated-0-d", labels=member("recreated"))
    recreation = Recreation(group="p-0-recreated", index=0, incarnation="1.1", reason="it has a newer template")
    generation_hash = build_context(asked).generation_hash
    progress = ScalingGroupStatus(
        update_progress=GroupUpdateProgress(update_started_at=NOW, pod_clique_set_generation_hash=generation_hash),
        rolling_update_progress=GroupRollingUpdateProgress(update_started_at=NOW),
    )
    seen = replica(
        a,
        b,
        c,
        d,
        groups=(
            group("p-0-updated", "b", status=progress if UPDATE in steps else None),
            group("p-0-parked", "c", replicas=0 if ZERO in steps else 1),
            group("p-0-recreated", "d"),
        ),
        gangs=(gang(a, b, c, d, annotations=annotations(steps, recreation)),),
    )
    current_replica = CurrentlyUpdating(replica_index=0, update_started_at=NOW)
    return Case(
        asked, seen, role=UpdateRole(is_current=True, current_replica=current_replica) if UPDATE in steps else NO_ROLE
    )


def training(steps: frozenset[ReplicaStep]) -> Case:
    """Cliques `a`, which failed if a restart is due, and `b`, which is recreated if its scale is recorded."""
    is_recreated = SCALE in steps
    asked = pcs(
        role("a"),
        role("b"),
        replicas=0 if SCALE_IN in steps else 1,
        spec={"workload_type": WorkloadType.TRAINING, "training_spec": TrainingSpec(max_restarts=5)},
    )
    own = {**member(""), labels.INCARNATION: "1.1" if is_recreated else "1"}
    a = (
        finite(clique(failed(), replicas=1, status=breached(), labels=own))
        if AWAIT_RESTART in steps
        else finite(clique(ready=1, was_available=True, labels=own))
    )
    b = finite(clique(ready=1, name="p-0-b", replicas=3 if is_recreated else 1, was_available=True))
    recreation = Recreation(incarnation="1.1", reason="it failed and is restarted")
    attempts = 1 if is_recreated else 0
    return Case(
        asked,
        replica(a, b, gangs=(gang(a, b, annotations=annotations(steps, recreation)),)),
        role=UpdateRole(restarts=attempts + 1 if RESTART in steps else attempts),
        # A restart that is counted is not due any more. The next one is, and a mass outage holds it.
        environment=ReplicaEnvironment(hold_until=at(200))
        if {RESTART, AWAIT_RESTART} <= steps
        else DEFAULT_ENVIRONMENT,
    )


def breached() -> PodCliqueStatus:
    condition = Condition(
        type="MinAvailableBreached", status="True", reason="InsufficientReadyPods", last_transition_time=NOW
    )
    return PodCliqueStatus(was_available=True, conditions=(condition,))


def member(group_name: str) -> dict[str, str]:
    """Return the labels of a clique: of the only replica of a group, or of no group."""
    own = {labels.TEMPLATE_HASH: "old", labels.PART_OF: "p", labels.SET_REPLICA_INDEX: "0", labels.INCARNATION: "1"}
    place = {labels.GROUP: f"p-0-{group_name}", labels.GROUP_REPLICA_INDEX: "0"} if group_name else {}
    return {**own, **place, labels.PODGANG: "p-0"}


def finite(view: CliqueView) -> CliqueView:
    return view_clique(view.clique, (*view.active, *view.failed), is_finite=True)


def annotations(steps: frozenset[ReplicaStep], recreation: Recreation) -> Mapping[str, str]:
    """Return what the base gang records: a removal that was begun, and a recreation whose scale changed."""
    record = msgspec.json.encode(Record(count=1, open=(recreation,))).decode()
    return {
        **({labels.TEARDOWN: "1"} if FINISH_REMOVAL in steps else {}),
        **({labels.RECREATION: record} if SCALE in steps else {}),
    }


def can_meet(first: ReplicaStep, second: ReplicaStep) -> bool:
    return not (
        (first in TRAINING_STEPS and second in INFERENCE_STEPS)
        or (second in TRAINING_STEPS and first in INFERENCE_STEPS)
    )


def keys(chains: tuple[Chain, ...]) -> list[str]:
    return [chain.key for chain in chains]


@pytest.mark.parametrize("step", ReplicaStep, ids=lambda step: step.name)
def test_a_step_that_applies_alone_is_taken(step: ReplicaStep) -> None:
    assert decide(step).step is step


PAIRS = [pair for pair in combinations(ReplicaStep, 2) if can_meet(*pair)]


@pytest.mark.parametrize(("first", "second"), PAIRS, ids=lambda step: step.name)
def test_of_two_steps_that_apply_the_one_that_the_rules_put_first_is_taken(
    first: ReplicaStep, second: ReplicaStep
) -> None:
    expected = WINNERS[frozenset((first, second))].step
    assert decide(first, second).step is expected


def test_every_pair_of_steps_that_can_meet_has_one_rule_and_no_other_pair_has() -> None:
    pairs = [frozenset((rule.step, loser)) for rule in RULES for loser in rule.before]
    assert len(pairs) == len(WINNERS)
    assert set(WINNERS) == {frozenset(pair) for pair in PAIRS}


@pytest.mark.parametrize("step", [RESTART, TERMINATION, UPDATE, ZERO, SCALE], ids=lambda step: step.name)
def test_an_intent_is_recorded_alone_and_nothing_is_repaired(step: ReplicaStep) -> None:
    decided = decide(step)
    assert keys(decided.chains) == ["p-0/intent"]
    assert [len(stage) for stage in decided.chains[0].stages] == [1]


@pytest.mark.parametrize("step", [SCALE_IN, FINISH_REMOVAL], ids=lambda step: step.name)
def test_a_replica_that_is_removed_is_not_repaired(step: ReplicaStep) -> None:
    decided = decide(step)
    assert keys(decided.chains) == ["p-0"]
    assert decided.chains[0].stages[0][0].reason.startswith("recorded") is (step is SCALE_IN)


def test_a_training_replica_that_must_be_restarted_waits_until_that_is_counted() -> None:
    decided = decide(AWAIT_RESTART)
    assert decided.chains == ()
    assert decided.run is not None
    assert decided.run.due.startswith("p-0-a: 0 of at least 1 pods are ready")


def test_a_replica_with_nothing_to_record_is_repaired() -> None:
    assert "p-0/service" in keys(decide(SYNC).chains)

"""When the turn of a set replica is over: its minima, what is waited for, and what is not."""

from datetime import datetime
from typing import Any

import msgspec
import pytest

from grove.api.reasons import Reason
from grove.api.types.meta import Condition
from grove.api.types.pod import Pod
from grove.api.types.podclique import CliqueRollingUpdateProgress, PodCliqueStatus
from grove.api.types.podcliqueset import CurrentlyUpdating
from grove.planner.desired_state import build_desired_replica
from grove.planner.gangs.rejected_gangs import CreateBackoff
from grove.planner.replica_facts import DEFAULT_ENVIRONMENT, ReplicaFacts
from grove.planner.rollout.clique_update import CliqueRoll
from grove.planner.rollout.completion import Completion, check_completion
from grove.planner.rollout.group_update import GroupRoll
from grove.planner.rollout.replica_update import ReplicaRoll, UpdateRole
from grove.planner.status.group_replicas import group_replicas
from grove.planner.teardown.recreation import Recreations
from grove.planner.views import CliqueView, ReplicaView
from tests.dsl import NOW, at, clique, context, failed, gang, gated, group, pcs, pod, replica, role, scaling, starting

param = pytest.param
LATER = at(600)
BEFORE = at(-600)
LONG_AGO = at(-900)


def current_replica(was_available: bool | None) -> CurrentlyUpdating:
    return CurrentlyUpdating(replica_index=0, update_started_at=NOW, was_available=was_available)


def full(index: int = 0, *, since: datetime = NOW, **fields: Any) -> Pod:
    """A pod that its scheduler finds no room for."""
    told = Condition(type="PodScheduled", status="False", reason="Unschedulable", last_transition_time=since)
    one = pod(index, node="", ready=False, **fields)
    return msgspec.structs.replace(one, status=msgspec.structs.replace(one.status, conditions=(told,)))


def check(
    seen: ReplicaView,
    *,
    was_available: bool | None = False,
    is_updated: bool = True,
    refused: CreateBackoff | None = None,
    is_recorded: bool = True,
    now: datetime = LATER,
) -> Completion:
    """Of a clique `a` that needs one pod and, where the replica has a group, a group `g` of one clique `b`."""
    groups = (scaling("g", "b", replicas=2, needs=1),) if seen.groups else ()
    cliques = (role("a", 2, needs=1), role("b")) if groups else (role("a", 2, needs=1),)
    asked = context(pcs(*cliques, groups=groups))
    desired = build_desired_replica(asked, 0, {})
    recreations = Recreations(seen, desired)
    facts = ReplicaFacts(
        context=asked,
        replica=seen,
        desired=desired,
        recreations=recreations,
        groups={one.name: group_replicas(seen, desired, one, recreations) for one in desired.groups},
        role=UpdateRole(is_current=True, current_replica=current_replica(was_available) if is_recorded else None),
        environment=DEFAULT_ENVIRONMENT,
        now=now,
        is_build_held=False,
    )
    roll = ReplicaRoll(
        cliques={"p-0-a": CliqueRoll(is_done=is_updated)} if "p-0-a" in seen.cliques else {},
        groups={"p-0-g": GroupRoll()} if groups else {},
    )
    return check_completion(facts, dict.fromkeys(seen.cliques, refused), roll)


def alone(*pods: Pod, replicas: int | None = None, **fields: Any) -> ReplicaView:
    """One clique that needs one pod."""
    view = clique(*pods, replicas=replicas, needs=1, creation_timestamp=LONG_AGO, **fields)
    return replica(view, gangs=(gang(view),))


def member(j: int, *pods: Pod) -> CliqueView:
    return clique(*pods, name=f"p-0-g-{j}-b", replicas=1, needs=1)


def grouped(*members: CliqueView) -> ReplicaView:
    """A clique that has its minimum, and a group of two that needs one."""
    ready = clique(ready=1, needs=1)
    base = gang(ready, members[0])
    scaled = (gang(one, name=f"p-0-g-{j}") for j, one in enumerate(members[1:]))
    return replica(ready, *members, groups=(group("p-0-g", "b", replicas=2),), gangs=(base, *scaled))


REFUSAL = CreateBackoff(message="exceeded quota", since=NOW, retry_at=LATER, release_at=None)


@pytest.mark.parametrize("was_available", [True, False, None])
def test_a_replica_with_all_its_minima_is_done_whatever_it_was(was_available: bool | None) -> None:
    assert check(alone(pod(0), starting(1)), was_available=was_available) == Completion(is_done=True)
    assert check(grouped(member(0, gated()), member(1, pod(0)))).is_done


def test_a_clique_that_has_its_minimum_still_makes_up_for_what_was_taken() -> None:
    assert not check(alone(pod(0), starting(1)), is_updated=False).is_done


@pytest.mark.parametrize(
    "seen",
    [
        param(alone(starting(0)), id="a pod that loads"),
        param(alone(pod(0, node="", ready=False)), id="a pod of which the scheduler has said nothing"),
        param(alone(failed(0), full(1)), id="a pod that failed"),
        param(alone(full(0), starting(1)), id="one without room beside one that loads"),
        param(alone(full(0), replicas=2), id="one that is about to be made"),
        param(alone(gated(0)), id="one behind the gate"),
        param(replica(), id="a clique that does not exist"),
        param(grouped(member(0, full()), member(1, starting(0))), id="a group with a replica that loads"),
        param(grouped(member(0), member(1, full())), id="a group with a replica that is about to be made"),
    ],
)
def test_pods_that_load_crash_or_are_made_are_always_waited_for(seen: ReplicaView) -> None:
    assert not check(seen).is_done


@pytest.mark.parametrize(
    ("seen", "refused"),
    [
        param(alone(full(0)), None, id="a clique"),
        param(alone(full(0), full(1)), None, id="all of its pods"),
        param(alone(full(0), gated(1)), None, id="what is above the minimum waits behind the gate"),
        param(alone(replicas=2), REFUSAL, id="the server rejects all of its pods"),
        param(alone(gated(0), replicas=2), REFUSAL, id="the server rejects one, and the other waits for it"),
        param(grouped(member(0, full()), member(1, full())), None, id="every replica of a group"),
        param(grouped(member(0, full()), member(1, gated())), None, id="a scaled replica waits for the base gang"),
    ],
)
def test_without_room_for_a_minute_only_an_available_replica_is_waited_for(
    seen: ReplicaView, refused: CreateBackoff | None
) -> None:
    assert not check(seen, refused=refused, now=at(59.9)).is_done
    assert check(seen, refused=refused, now=at(59.9)).requeue_at == at(60)
    assert check(seen, refused=refused, now=at(60)).is_done
    for was_available in (True, None):
        assert not check(seen, refused=refused, was_available=was_available).is_done


def test_room_is_missing_since_the_youngest_pod_has_none() -> None:
    seen = alone(full(0), full(1, created=at(30)))
    assert not check(seen, now=at(89)).is_done
    assert check(seen, now=at(90)).is_done


def rolled(when: datetime) -> CliqueRollingUpdateProgress:
    return CliqueRollingUpdateProgress(update_started_at=when, update_ended_at=when)


def broken(progress: CliqueRollingUpdateProgress | None, created: datetime = LONG_AGO) -> ReplicaView:
    status = PodCliqueStatus(was_available=True, rolling_update_progress=progress)
    view = clique(starting(0), needs=1, status=status, creation_timestamp=created)
    return replica(view, gangs=(gang(view),))


@pytest.mark.parametrize(
    ("seen", "is_done"),
    [
        param(broken(None), True, id="never updated"),
        param(broken(rolled(BEFORE)), True, id="updated before"),
        param(broken(rolled(NOW)), False, id="updated in this turn"),
        param(broken(None, created=NOW), False, id="made in this turn"),
    ],
)
def test_what_was_broken_before_and_is_not_changed_is_not_waited_for(seen: ReplicaView, is_done: bool) -> None:
    assert check(seen).is_done is is_done
    assert not check(seen, was_available=True).is_done


def test_without_a_record_of_its_turn_a_broken_replica_is_waited_for() -> None:
    assert not check(broken(None), is_recorded=False).is_done


def test_what_is_waited_for_is_told() -> None:
    found = check(alone(starting(0)), now=at(30))
    assert found.wait is not None
    assert found.wait.reason is Reason.PODS_NOT_READY
    assert "p-0-a-0" in found.wait.message
    # It is news after a minute.
    assert found.requeue_at == at(60)

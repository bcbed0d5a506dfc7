"""Available and Progressing of an inference set, Complete and Failed of a training set: what scripts wait for."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec
import pytest

from grove.api.reasons import ConditionType, Reason
from grove.api.resources import PODCLIQUES, PODCLIQUESETS
from grove.api.types.meta import Condition, find_condition
from grove.api.types.podcliqueset import CurrentlyUpdating, GangStatus, SetRollingUpdateProgress
from grove.planner.plan import plan
from grove.planner.status.set_conditions import SetState, decide_available, decide_progressing
from tests.dsl import NOW, World, appendix_a, pcs, role, run_to_rest, visit

OPEN = SetRollingUpdateProgress(
    update_started_at=NOW, currently_updating=CurrentlyUpdating(replica_index=1, update_started_at=NOW)
)
TRUE, FALSE = "True", "False"


def state(available: int, replicas: int = 3, **fields: Any) -> SetState:
    return SetState(replicas=replicas, available_replicas=available, updated_replicas=0, **fields)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (state(3), (TRUE, "AllReplicasAvailable", "3 of 3 replicas are available")),
        (state(2), (FALSE, "ReplicasUnavailable", "2 of 3 replicas are available")),
        (state(0), (FALSE, "ReplicasUnavailable", "0 of 3 replicas are available")),
        (state(1, replicas=1), (TRUE, "AllReplicasAvailable", "1 of 1 replica is available")),
        (state(0, replicas=0), (TRUE, "ScaledToZero", "the set has 0 replicas")),
        # During an update the replica in turn may be missing, and only it.
        (
            state(2, update=OPEN, is_current_available=False),
            (TRUE, "Updating", "2 of 3 replicas are available; replica 1 is being updated"),
        ),
        (state(3, update=OPEN), (TRUE, "AllReplicasAvailable", "3 of 3 replicas are available")),
        (
            state(2, update=OPEN, is_current_available=True),
            (FALSE, "ReplicasUnavailable", "2 of 3 replicas are available"),
        ),
        (
            state(1, update=OPEN, is_current_available=False),
            (FALSE, "ReplicasUnavailable", "1 of 3 replicas are available"),
        ),
        # At least one serves.
        (
            state(1, replicas=2, update=OPEN, is_current_available=False),
            (TRUE, "Updating", "1 of 2 replicas are available; replica 1 is being updated"),
        ),
        (
            state(0, replicas=1, update=OPEN, is_current_available=False),
            (FALSE, "ReplicasUnavailable", "0 of 1 replica is available"),
        ),
    ],
)
def test_available(seen: SetState, expected: tuple[str, str, str]) -> None:
    verdict = decide_available(seen)
    assert (verdict.status, verdict.reason, verdict.message) == expected


def gangs(*names: str) -> tuple[GangStatus, ...]:
    return tuple(GangStatus(name=name, phase="Pending") for name in names)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (state(3), (TRUE, "Complete", "3 of 3 replicas are available")),
        (state(0, replicas=0), (TRUE, "Complete", "0 of 0 replicas are available")),
        (state(2), (TRUE, "Starting", "2 of 3 replicas are available")),
        (state(3, has_surplus=True), (TRUE, "Scaling", "replicas from index 3 on are being removed")),
        (state(3, waiting_gangs=gangs("p-0-g-0")), (TRUE, "Scaling", "PodGangs that do not run: p-0-g-0")),
        (
            state(3, waiting_gangs=gangs("a", "b", "c", "d")),
            (TRUE, "Scaling", "PodGangs that do not run: a, b, c and others"),
        ),
        (
            state(3, update=OPEN),
            (TRUE, "Updating", "replica 1 is being updated; 0 of 3 replicas run the newest templates"),
        ),
        (state(2, update=OPEN, stall="replica 1: no room"), (FALSE, "UpdateStalled", "replica 1: no room")),
    ],
)
def test_progressing(seen: SetState, expected: tuple[str, str, str]) -> None:
    verdict = decide_progressing(seen)
    assert (verdict.status, verdict.reason, verdict.message) == expected


# The same, told by plans


def told(world: World, type_: ConditionType) -> tuple[str, str]:
    condition = found(world, type_)
    return condition.status, condition.reason


def found(world: World, type_: ConditionType) -> Condition:
    observed = world.pcs
    assert observed is not None
    condition = find_condition(observed.status.conditions, type_)
    assert condition is not None, type_
    return condition


def both(world: World) -> tuple[str, str, str, str]:
    return (*told(world, ConditionType.AVAILABLE), *told(world, ConditionType.PROGRESSING))


AT_REST = (TRUE, "AllReplicasAvailable", TRUE, "Complete")


def test_a_set_starts_scales_and_rests() -> None:
    world = World(pcs(role("a", 2), replicas=2))
    visit(world)
    visit(world)
    assert both(world) == (FALSE, "ReplicasUnavailable", TRUE, "Starting")
    run_to_rest(world)
    assert both(world) == AT_REST
    world.edit(PODCLIQUESETS, "p", {"spec": {"replicas": 0}})
    run_to_rest(world)
    assert both(world) == (TRUE, "ScaledToZero", TRUE, "Complete")


def test_the_conditions_carry_the_generation_of_the_status() -> None:
    world = World(pcs(role("a", 2), replicas=1))
    run_to_rest(world)
    first = found(world, ConditionType.AVAILABLE)
    assert first.observed_generation == 1
    world.edit(PODCLIQUESETS, "p", {"spec": {"replicas": 2}})
    for _ in range(6):
        visit(world)
        observed = world.pcs
        assert observed is not None
        assert {
            found(world, type_).observed_generation for type_ in (ConditionType.AVAILABLE, ConditionType.PROGRESSING)
        } == {observed.status.observed_generation}
        world.live()
    run_to_rest(world)
    # The time is that of the last change of status, not of the generation.
    assert found(world, ConditionType.AVAILABLE).observed_generation == 2
    assert both(world) == AT_REST


def test_a_scaled_gang_without_room_is_scaling_and_the_set_is_available() -> None:
    world = World(appendix_a(replicas=1))
    world.capacity = 4
    run_to_rest(world)
    assert both(world) == (TRUE, "AllReplicasAvailable", TRUE, "Scaling")
    assert found(world, ConditionType.PROGRESSING).message == "PodGangs that do not run: p-0-g-0"
    world.capacity = None
    run_to_rest(world)
    assert both(world) == AT_REST


def test_an_update_keeps_the_set_available_and_a_stalled_one_is_not_progressing() -> None:
    world = World(pcs(role("a", 1), replicas=3))
    run_to_rest(world)
    world.broken_images = frozenset({"broken"})
    world.change("a", "broken")
    seen = []
    for _ in range(20):
        visit(world)
        seen.append(both(world))
        world.live()
    assert {one[0] for one in seen} == {TRUE}
    assert seen[-1] == (TRUE, "Updating", TRUE, "Updating")
    decided = plan(world.snapshot(), world.now)
    assert decided.requeue_at is not None
    world.now = decided.requeue_at
    visit(world)
    assert both(world) == (TRUE, "Updating", FALSE, "UpdateStalled")
    stalled, progressing = found(world, ConditionType.UPDATE_STALLED), found(world, ConditionType.PROGRESSING)
    assert progressing.message == stalled.message
    world.change("a", "pause")
    run_to_rest(world)
    assert both(world) == AT_REST


def test_a_set_with_one_replica_is_not_available_while_its_only_pod_is_replaced() -> None:
    world = World(pcs(role("a", 1), replicas=1))
    run_to_rest(world)
    world.broken_images = frozenset({"slow"})
    world.change("a", "slow")
    for _ in range(12):
        visit(world)
        world.live()
    assert both(world)[:2] == (FALSE, "ReplicasUnavailable")


def test_an_invalid_set_is_not_progressing_and_its_availability_is_unknown() -> None:
    world = World(pcs(role("a", 2), replicas=1))
    run_to_rest(world)
    cliques = world.json(PODCLIQUESETS, "p")["spec"]["template"]["cliques"]
    world.edit(PODCLIQUESETS, "p", {"spec": {"template": {"cliques": [*cliques, *cliques]}}})
    run_to_rest(world)
    assert both(world) == ("Unknown", "InvalidSpec", FALSE, "InvalidSpec")
    world.edit(PODCLIQUESETS, "p", {"spec": {"template": {"cliques": cliques}}})
    run_to_rest(world)
    assert both(world) == AT_REST


TRAINING: Mapping[str, Any] = {"workload_type": "Training"}


def test_a_training_set_has_neither_condition_before_its_end() -> None:
    world = World(pcs(role("a", 2), replicas=1, spec=TRAINING))
    run_to_rest(world)
    observed = world.pcs
    assert observed is not None
    assert observed.status.conditions == ()


def test_nothing_is_written_when_nothing_changes_however_late() -> None:
    world = World(pcs(role("a", 2), replicas=2))
    run_to_rest(world)
    later: datetime = world.now.replace(year=world.now.year + 1)
    assert plan(world.snapshot(), later).is_empty


def test_an_older_status_gets_the_conditions_in_one_write_and_no_pod_is_touched() -> None:
    world = World(pcs(role("a", 2), replicas=2))
    run_to_rest(world)
    before = {one.metadata.uid for one in world.all(PODCLIQUES)}
    world.edit(PODCLIQUESETS, "p", {"status": {"conditions": None}})
    decided = plan(world.snapshot(), world.now)
    assert (decided.chains, [write.name for write in decided.statuses]) == ((), ["p"])
    run_to_rest(world)
    assert both(world) == AT_REST
    assert {one.metadata.uid for one in world.all(PODCLIQUES)} == before


def test_messages_are_bounded_by_names_not_by_the_number_of_gangs() -> None:
    many = state(3, waiting_gangs=gangs(*(f"{'x' * 60}-{n}" for n in range(100))))
    assert len(decide_progressing(many).message) < 300
    assert decide_progressing(msgspec.structs.replace(many, stall="s")).reason is Reason.UPDATE_STALLED

"""What attacks on updates found: each test is a decision that once was wrong."""

import msgspec

from grove.api.reasons import ConditionType, FindingReason
from grove.api.resources import CONTROLLER_REVISIONS, PODCLIQUESETS
from grove.api.types.meta import find_condition
from grove.api.values.times import wire_time
from grove.planner.actions import Delete, DeleteMany, Plan
from grove.planner.plan import plan
from grove.planner.rollout.revision_history import Targets
from grove.planner.snapshot import build_context
from tests.dsl import World, actions, at, pcs, revision, role, run_to_rest, touched, visit


def test_a_replica_that_was_scaled_in_and_is_wanted_again_is_no_update() -> None:
    world = World(pcs(role("a"), replicas=2))
    run_to_rest(world)
    world.scale(PODCLIQUESETS, "p", 1)
    visit(world)
    world.scale(PODCLIQUESETS, "p", 2)
    run_to_rest(world)
    assert world.pcs is not None
    assert world.pcs.status.rolling_update_progress is None
    assert [one.message for one in world.events if one.reason.startswith("Update")] == []


def test_a_deleted_revision_is_stored_again_before_anybody_believes_in_an_older_one() -> None:
    world = World(pcs(role("a"), replicas=2))
    run_to_rest(world)
    world.change("a", "v2")
    run_to_rest(world)
    assert world.pcs is not None
    before, newest = world.pcs.status, f"p-{world.pcs.status.current_generation_hash}"
    world.now = at(600)
    world.events.clear()
    world.lose(CONTROLLER_REVISIONS, newest)
    assert [touched(visit(world)) for _ in range(3)] == [[newest], [], []]
    assert world.pcs.status == before
    assert [one.message for one in world.events if one.reason.startswith("Update")] == []


def test_a_default_that_a_later_version_of_the_operator_fills_in_is_no_change() -> None:
    observed = pcs(role("a"))
    stored = revision(observed)
    data = msgspec.json.decode(msgspec.json.encode(stored.data))
    # As a version stored it that did not fill this in; the user wrote neither.
    del data["template"]["cliques"][0]["podSpec"]["terminationGracePeriodSeconds"]
    older = msgspec.structs.replace(stored, data=data)
    assert Targets(build_context(observed), (older,)).wanted is not None


def test_a_change_is_not_called_seen_before_its_template_is_stored() -> None:
    """Who waits for an update compares generations first, and then believes an end that is older than the change."""
    world = World(pcs(role("a"), replicas=2))
    run_to_rest(world)
    world.change("a", "v2")
    run_to_rest(world)
    world.change("a", "v3")
    # The revision is refused, or the operator dies before it is stored.
    world.carry_out(Plan(statuses=plan(world.snapshot(), world.now).statuses))
    assert world.pcs is not None
    progress = world.pcs.status.rolling_update_progress
    assert progress is not None
    is_seen = world.pcs.status.observed_generation == world.pcs.metadata.generation
    assert not (is_seen and progress.update_ended_at is not None)


def test_while_most_nodes_are_out_an_update_takes_nothing() -> None:
    world = World(pcs(role("a", 3), replicas=1))
    run_to_rest(world)
    world.change("a", "v2")
    decided = Plan()
    for _ in range(6):
        seen = msgspec.structs.replace(world.snapshot(), hold_until=at(60))
        decided = plan(seen, world.now)
        assert [one for one in actions(decided) if isinstance(one, Delete | DeleteMany)] == []
        world.carry_out(decided)
    assert world.pcs is not None
    held = find_condition(world.pcs.status.conditions, ConditionType.TEARDOWN_HELD)
    assert held is not None
    assert held.message == (
        "the next deletions of the update are due but held until most nodes are ready again, at most until "
        f"{wire_time(at(60))}"
    )
    finding = next(one for one in decided.findings if one.reason is FindingReason.UPDATING)
    assert finding.message.endswith("its next deletions are held while most nodes are not ready")
    run_to_rest(world)
    assert world.pcs.status.updated_replicas == 1
    assert find_condition(world.pcs.status.conditions, ConditionType.TEARDOWN_HELD) is None


def test_an_update_that_was_held_goes_on_when_the_hold_ends() -> None:
    world = World(pcs(role("a", 3), replicas=1))
    run_to_rest(world)
    world.change("a", "v2")
    decided = Plan()
    for _ in range(6):
        decided = plan(msgspec.structs.replace(world.snapshot(), hold_until=at(60)), world.now)
        world.carry_out(decided)
    assert decided.requeue_at == at(60)

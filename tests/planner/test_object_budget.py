"""A set that is scaled past its object budget, where no webhook refused that: it keeps what it has and gets no more."""

from typing import Any

import msgspec

from grove.api.reasons import FindingReason
from grove.api.resources import GROUPS, PODCLIQUES, PODCLIQUESETS, PODGANGS, PODS, Resource
from grove.api.types.podcliqueset import PodCliqueSet
from grove.planner.actions import Create, Plan
from grove.planner.plan import plan
from grove.planner.plan_cache import PlanCache
from grove.planner.snapshot import ClusterContext, Snapshot, build_context
from tests.dsl import World, pcs, role, run_to_rest, scaling

# Each replica: clique `a` of 2 pods, group `g` of 2 replicas with clique `b` of 1 pod; 11 objects.
SET = pcs(role("a", 2), role("b", 1), groups=(scaling("g", "b", replicas=2),), replicas=2)
BUDGET = 30


def world() -> World:
    one = World(SET)
    run_to_rest(one)
    return one


def seen(one: World, budget: int = BUDGET) -> Snapshot:
    snapshot = one.snapshot()
    context = build_context(snapshot.pcs, ClusterContext(objects_per_set=budget))
    return msgspec.structs.replace(snapshot, context=context)


def decide(one: World, budget: int = BUDGET, cache: PlanCache | None = None) -> Plan:
    return plan(seen(one, budget), one.now, cache)


def settle(one: World, budget: int = BUDGET) -> None:
    for _ in range(50):
        decided = decide(one, budget)
        one.carry_out(decided)
        if not one.live() and decided.is_empty:
            return
    raise AssertionError("it never comes to rest")


def creates(decided: Plan) -> list[tuple[str, str]]:
    actions = (action for chain in decided.chains for stage in chain.stages for action in stage)
    return [(action.resource.plural, action.name) for action in actions if isinstance(action, Create)]


def counts(one: World) -> list[int]:
    kinds: tuple[Resource[Any], ...] = (GROUPS, PODCLIQUES, PODGANGS, PODS)
    return [len(one.names(kind)) for kind in kinds]


def condition(one: World) -> tuple[str, str] | None:
    found: PodCliqueSet | None = one.pcs
    assert found is not None
    return next(((c.reason, c.message) for c in found.status.conditions if c.type == "ReconcileFailed"), None)


MESSAGE = (
    "at the current scale of its groups and cliques the set needs {} objects, and may have 30: nothing more is "
    "created for replicas that are scaled out; scale them in, or "
    "raise limits.objectsPerSet in the operator configuration"
)


def test_a_group_is_scaled_out_up_to_the_budget_and_no_further() -> None:
    one = world()
    one.scale(GROUPS, "p-0-g", 4)
    settle(one)
    assert counts(one) == [2, 8, 6, 10]
    assert condition(one) is None
    one.scale(GROUPS, "p-0-g", 5)
    settle(one)
    assert counts(one) == [2, 8, 6, 10]
    assert condition(one) == ("ObjectBudgetExceeded", MESSAGE.format(31))


def test_a_clique_is_scaled_out_up_to_the_budget_and_no_further() -> None:
    one = world()
    one.scale(PODCLIQUES, "p-1-a", 10)
    settle(one)
    assert len(one.names(PODS)) == 16
    one.scale(PODCLIQUES, "p-1-a", 11)
    settle(one)
    assert len(one.names(PODS)) == 16
    assert condition(one) == ("ObjectBudgetExceeded", MESSAGE.format(31))


def test_a_group_of_a_hundred_thousand_replicas_is_not_even_drawn() -> None:
    one = world()
    one.scale(GROUPS, "p-0-g", 100_000)
    decided = decide(one)
    assert creates(decided) == []
    assert [finding.reason for finding in decided.findings] == [FindingReason.OBJECT_BUDGET_EXCEEDED]


def test_replicas_that_are_not_scaled_out_are_repaired_as_ever() -> None:
    one = world()
    one.scale(GROUPS, "p-0-g", 100)
    settle(one)
    lost = next(name for name in one.names(PODS) if name.startswith("p-1-a-"))
    one.lose(PODS, lost)
    settle(one)
    assert counts(one) == [2, 6, 4, 8]


def test_scaled_in_again_it_goes_on_and_says_nothing_more() -> None:
    one = world()
    one.scale(GROUPS, "p-0-g", 100)
    settle(one)
    one.scale(GROUPS, "p-0-g", 3)
    settle(one)
    assert counts(one) == [2, 7, 5, 9]
    assert condition(one) is None


def test_what_exists_is_never_deleted_because_the_budget_became_smaller() -> None:
    one = world()
    settle(one, budget=21)
    assert counts(one) == [2, 6, 4, 8]
    assert condition(one) is not None


def test_a_set_whose_spec_asks_for_too_much_is_not_carried_out_and_says_how_to_change_that() -> None:
    one = World(SET)
    settle(one, budget=21)
    assert counts(one) == [0, 0, 0, 0]
    reason, message = condition(one) or ("", "")
    assert reason == "ObjectBudgetExceeded"
    assert message.startswith("spec.replicas: Invalid value: 2: the set would have 22 objects (8 pods, 6 PodCliques, ")
    one.edit(PODCLIQUESETS, "p", {"spec": {"replicas": 1}})
    settle(one, budget=21)
    assert counts(one) == [1, 3, 2, 4]
    assert condition(one) is None


def test_a_memo_gives_the_same_plan_when_the_budget_is_exceeded_and_when_it_is_not_any_more() -> None:
    one, cache = world(), PlanCache()
    for replicas in (2, 100, 3, 4, 5, 2):
        one.scale(GROUPS, "p-0-g", replicas)
        for _ in range(3):
            snapshot = seen(one)
            with_memo, without = plan(snapshot, one.now, cache), plan(snapshot, one.now)
            assert with_memo == without
            one.carry_out(without)
            one.live()

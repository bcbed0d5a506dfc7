"""The whole plan of a set: what is decided together, and what must not depend on how it was computed."""

import subprocess
import sys
from pathlib import Path

import msgspec

from grove.api.reasons import FindingReason
from grove.api.resources import GROUPS, PODCLIQUES, PODCLIQUESETS, PODS
from grove.api.types.podcliqueset import GangStatus, PodCliqueSetStatus
from grove.planner.actions import Plan
from grove.planner.plan import plan
from grove.planner.plan_cache import PlanCache
from tests.dsl import (
    NOW,
    World,
    appendix_a,
    at,
    clique,
    failed,
    gang,
    pcs,
    pod,
    problems,
    replica,
    role,
    run_to_rest,
    service,
    snapshot,
    told,
)


def encoded(decided: Plan) -> bytes:
    """Every byte of a plan; resources by their plural."""
    return msgspec.json.encode(decided, enc_hook=lambda value: value.__name__)


class TestAnInvalidSet:
    INVALID = pcs(role("a", 2), role("a", 1), replicas=1)

    def test_is_told_all_its_errors_and_nothing_is_touched(self) -> None:
        facts = snapshot(self.INVALID, replica(clique(pod(0))))
        errors = [str(error) for error in facts.context.errors]
        assert errors
        decided = plan(facts, NOW)
        assert decided.chains == ()
        (status,) = decided.statuses
        (condition,) = problems(status.patch)
        assert (condition["type"], condition["reason"], condition["message"]) == (
            "ReconcileFailed",
            "InvalidSpec",
            "; ".join(errors),
        )
        assert [(error["code"], error["description"]) for error in status.patch["lastErrors"]] == [
            ("ERR_INVALID_SPEC", error) for error in errors
        ]
        assert [(finding.about, finding.reason, finding.message) for finding in decided.findings] == [
            ("podcliqueset/p", FindingReason.INVALID_SET, "; ".join(errors))
        ]

    def test_is_told_once(self) -> None:
        world = World(self.INVALID)
        plans = run_to_rest(world)
        assert [len(decided.statuses) for decided in plans] == [1, 0]

    def test_keeps_the_counts_that_were_known_last(self) -> None:
        last = PodCliqueSetStatus(
            observed_generation=1,
            available_replicas=1,
            updated_replicas=1,
            phase="Running",
            replicas=1,
            pod_gang_statuses=(GangStatus(name="p-0-g-0", phase="Pending"),),
        )
        (status,) = plan(snapshot(msgspec.structs.replace(self.INVALID, status=last)), NOW).statuses
        assert {"availableReplicas", "updatedReplicas", "phase", "podGangStatuses"}.isdisjoint(status.patch)

    def test_heals_when_it_is_corrected(self) -> None:
        world = World(self.INVALID)
        run_to_rest(world)
        template = world.json(PODCLIQUESETS, "p")["spec"]["template"]
        world.edit(PODCLIQUESETS, "p", {"spec": {"template": {"cliques": template["cliques"][:1]}}})
        run_to_rest(world)
        status = world.json(PODCLIQUESETS, "p")["status"]
        assert (problems(status), "lastErrors" in status, status["availableReplicas"]) == ([], False, 1)


class TestTheSetsStatus:
    def test_counts_available_replicas_and_names_the_gangs_that_do_not_run(self) -> None:
        world = World(appendix_a(replicas=2))
        run_to_rest(world)
        status = world.json(PODCLIQUESETS, "p")["status"]
        assert (status["availableReplicas"], status["updatedReplicas"], status["phase"]) == (2, 2, "Running")
        assert "podGangStatuses" not in status
        world.capacity = 0
        victim = next(name for name in world.names(PODS) if name.startswith("p-1-g-1-b"))
        world.delete(PODS, victim)
        run_to_rest(world)
        status = world.json(PODCLIQUESETS, "p")["status"]
        # A scaled gang is extra: the replica stays available without it.
        assert (status["availableReplicas"], status["replicas"]) == (2, 2)
        assert status["podGangStatuses"] == [{"name": "p-1-g-0", "phase": "Pending"}]

    def test_a_replica_without_the_minimum_of_a_clique_is_not_available(self) -> None:
        world = World(pcs(role("a", 2, needs=1), role("b", 2, needs=2), replicas=2))
        run_to_rest(world)
        world.capacity = 0
        for prefix, available in (("p-0-a-0", 2), ("p-1-b-0", 1)):
            world.delete(PODS, next(name for name in world.names(PODS) if name.startswith(prefix)))
            run_to_rest(world)
            assert world.json(PODCLIQUESETS, "p")["status"]["availableReplicas"] == available

    def test_a_replica_that_goes_does_not_count(self) -> None:
        ready = clique(ready=1)
        seen = replica(ready, gangs=(gang(ready),), services=(service(),))
        (status,) = plan(snapshot(pcs(role("a"), replicas=0), seen), NOW).statuses
        assert (status.patch["availableReplicas"], status.patch["replicas"]) == (0, 0)


class TestIdleIsSilent:
    def test_a_settled_set_has_an_empty_plan_at_any_time(self) -> None:
        world = World(appendix_a(replicas=2))
        run_to_rest(world)
        for seconds in (0, 1, 3600, 10**8):
            decided = plan(world.snapshot(), at(seconds))
            assert decided == Plan()
            assert decided.is_empty

    def test_waiting_for_a_back_off_is_an_empty_plan_with_a_wake_up(self) -> None:
        world = World(pcs(role("a", 2)))
        run_to_rest(world)
        name = world.names(PODS)[0]
        world.edit(PODS, name, {"metadata": {"annotations": {"grove.io/consecutive-failures": "1"}}})
        world.end(name)
        for _ in range(3):
            world.carry_out(plan(world.snapshot(), world.now))
        decided = plan(world.snapshot(), world.now)
        assert (decided.is_empty, decided.requeue_at) == (True, at(10))


class TestTheMemo:
    def test_plans_only_what_changed(self) -> None:
        cache = PlanCache()
        views = tuple(replica(clique(ready=1, name=f"p-{i}-a"), index=i, services=(service(i),)) for i in range(5))
        facts = snapshot(pcs(role("a"), replicas=5), *views)
        plan(facts, NOW, cache)
        assert cache.planned_count == 5
        plan(facts, NOW, cache)
        assert cache.planned_count == 5
        changed = replica(clique(ready=1, name="p-3-a"), index=3, services=(service(3),))
        plan(msgspec.structs.replace(facts, replicas=(*views[:3], changed, views[4])), NOW, cache)
        assert cache.planned_count == 6

    def test_plans_everything_when_the_set_asks_for_something_else(self) -> None:
        cache = PlanCache()
        facts = snapshot(pcs(replicas=3))
        plan(facts, NOW, cache)
        plan(snapshot(pcs(replicas=3)), NOW, cache)
        assert cache.planned_count == 6

    def test_does_not_outlive_a_wake_up(self) -> None:
        cache = PlanCache()
        view = clique(failed(0, failures=1, ended=NOW), replicas=1)
        facts = snapshot(pcs(role("a")), replica(view, gangs=(gang(view),), services=(service(),)))
        for seconds, planned in ((0, 1), (9, 1), (10, 2)):
            decided = plan(facts, at(seconds), cache)
            assert cache.planned_count == planned
        assert "create pods/" in " ".join(told(decided))

    def test_gives_the_same_plans_through_a_whole_story(self) -> None:
        def story(cache: PlanCache | None) -> list[bytes]:
            world = World(appendix_a(replicas=2), quota=11)
            plans: list[Plan] = []
            for _ in range(40):
                decided = plan(world.snapshot(), world.now, cache)
                plans.append(decided)
                world.carry_out(decided)
                if not world.live() and decided.is_empty and decided.requeue_at:
                    world.now = decided.requeue_at
            return [encoded(decided) for decided in plans]

        assert story(PlanCache()) == story(None)


STORY = """
from tests.dsl import *
from tests.planner.test_plan import encoded
world = World(appendix_a(replicas=3), quota=16)
for step in range(12):
    decided = plan(world.snapshot(), world.now)
    print(encoded(decided).decode())
    world.carry_out(decided)
    world.live()
    if step == 6:
        world.edit(PODCLIQUESETS, "p", {"spec": {"replicas": 2}})
"""


def test_the_same_world_gives_the_same_plans_whatever_the_hash_seed() -> None:
    root = Path(__file__).parents[2]
    seen = [
        subprocess.run(
            [sys.executable, "-c", STORY],
            cwd=root,
            env={"PYTHONPATH": f"{root / 'src'}:{root}", "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1")
    ]
    assert seen[0].count(b"\n") == 12
    assert seen[0] == seen[1]


def test_chains_of_one_plan_have_keys_of_their_own() -> None:
    world = World(appendix_a(replicas=2))
    run_to_rest(world)
    world.edit(GROUPS, "p-0-g", {"spec": {"replicas": 1}})
    world.edit(PODCLIQUES, "p-0-a", {"spec": {"replicas": 3}})
    world.edit(PODCLIQUESETS, "p", {"spec": {"replicas": 1}})
    keys = [chain.key for chain in plan(world.snapshot(), NOW).chains]
    assert keys == ["p-0-g-0", "p-1", "p-0"]

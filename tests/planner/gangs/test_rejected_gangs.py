"""When the server refuses pods: who holds on, who gives back, who tries again when."""

import pytest

from grove.api.resources import PODCLIQUES, PODCLIQUESETS, PODS
from grove.api.types.meta import find_condition
from grove.planner.gangs.rejected_gangs import CreateBackoff, find_gang_backoff
from grove.planner.plan import plan
from grove.planner.views import CliqueView
from tests.dsl import (
    NOW,
    SECOND,
    World,
    at,
    clique,
    failed,
    failure,
    gang,
    gated,
    group,
    pcs,
    pod,
    problems,
    replica,
    role,
    run_a_while,
    run_to_rest,
    scaling,
    service,
    snapshot,
    told,
)

HALF = clique(gated(0), replicas=3, needs=2)
ENOUGH = clique(gated(0), gated(1), replicas=3, needs=2)


def backoff(*cliques: CliqueView, count: int = 1, ahead: int = 0) -> CreateBackoff | None:
    return find_gang_backoff(cliques, (failure(count=count),), gangs_ahead_count=ahead)


def test_a_gang_whose_pods_are_accepted_has_no_refusal() -> None:
    assert find_gang_backoff((HALF,), (), gangs_ahead_count=0) is None
    assert find_gang_backoff((HALF,), (failure("pods/p-0-b"), failure("podcliques/p-0-a")), gangs_ahead_count=0) is None


def test_below_its_minima_a_gang_holds_on_for_30_s_then_gives_back_and_tries_again() -> None:
    assert backoff(HALF) == CreateBackoff(message="exceeded quota", since=NOW, retry_at=at(31), release_at=at(30))


def test_at_its_minima_a_gang_keeps_what_it_has() -> None:
    assert backoff(ENOUGH) == CreateBackoff(message="exceeded quota", since=NOW, retry_at=at(31), release_at=None)


@pytest.mark.parametrize("sign", [pod(1), failed(1), pod(1, phase="Succeeded"), pod(1, terminating=True)])
def test_a_gang_that_was_placed_keeps_what_it_has(sign: object) -> None:
    assert isinstance(sign, type(pod()))
    found = backoff(clique(gated(0), sign, replicas=4, needs=4))
    assert found is not None
    assert found.release_at is None


@pytest.mark.parametrize(("count", "pause"), [(2, 30), (3, 60), (4, 120), (5, 240), (6, 300), (7, 300), (100, 300)])
def test_refused_again_it_gives_back_at_once_and_waits_longer_up_to_5_min(count: int, pause: int) -> None:
    assert backoff(HALF, count=count) == CreateBackoff(
        message="exceeded quota", since=NOW, retry_at=at(pause), release_at=NOW
    )


def test_gangs_ahead_try_first() -> None:
    found = [backoff(HALF, count=2, ahead=ahead) for ahead in range(3)]
    assert [one and one.retry_at for one in found] == [at(30), at(35), at(40)]


def test_the_latest_words_of_the_server_and_the_first_time_are_told() -> None:
    old = failure("pods/p-0-a", first=at(-60), last=at(-30))
    late = failure("pods/p-0-b", first=at(-10), last=at(-10), count=3)
    found = find_gang_backoff((HALF, clique(name="p-0-b", replicas=1)), (old, late), gangs_ahead_count=0)
    assert found == CreateBackoff(message="exceeded quota", since=at(-60), retry_at=at(50), release_at=at(-10))


# In a plan


def refused_set(*cliques: CliqueView, count: int = 1) -> list[list[str]]:
    """What is done at the instants around the retry and the giving back."""
    seen = replica(
        *cliques,
        gangs=(gang(*cliques),),
        services=(service(),),
        failures=(failure(count=count),),
    )
    observed = pcs(role("a", cliques[0].replicas, needs=cliques[0].min_available))
    return [
        [line for line in told(plan(snapshot(observed, seen), now)) if " pods/" in line]
        for now in (at(30) - SECOND, at(30), at(31))
    ]


GIVE_BACK = "the API server rejects the minimum of the gang, so its waiting pods are released"


def test_pods_are_given_back_at_30_s_and_asked_for_again_at_31_s() -> None:
    waiting = HALF.active[0].metadata.name
    before, given_back, again = refused_set(HALF)
    assert before == []
    assert given_back == [f"p-0 1: delete pods/{waiting} ({GIVE_BACK})"]
    # Had it been too late to give back, the pod would be used.
    assert [line.partition(" (")[2] for line in again] == ["index 1 of clique p-0-a)", "index 2 of clique p-0-a)"]


def test_a_gang_at_its_minima_opens_its_gates_and_asks_for_the_rest_later() -> None:
    first, second = (one.metadata.name for one in ENOUGH.active)
    why = "the minima exist and the rest is rejected"
    gates = [f"p-0/gates 0: patch pods/{first} ({why})", f"p-0/gates 0: patch pods/{second} ({why})"]
    before, held, again = refused_set(ENOUGH)
    assert (before, held) == (gates, gates)
    assert [line.partition(" (")[2] for line in again[2:]] == ["index 2 of clique p-0-a)"]


def test_the_set_wakes_for_each_step() -> None:
    seen = replica(HALF, gangs=(gang(HALF),), services=(service(),), failures=(failure(),))
    facts = snapshot(pcs(role("a", 3, needs=2)), seen)
    assert [plan(facts, now).requeue_at for now in (NOW, at(30), at(31))] == [at(30), at(31), None]


def test_an_ended_pod_stays_until_its_replacement_is_accepted() -> None:
    ended = failed(0, failures=1, ended=at(-100))
    view = clique(ended, pod(1), replicas=2)
    seen = replica(view, gangs=(gang(view),), services=(service(),), failures=(failure(),))
    facts = snapshot(pcs(role("a", 2)), seen)
    assert [line for line in told(plan(facts, NOW)) if " pods/" in line] == []
    replaced = [line for line in told(plan(facts, at(31))) if " pods/" in line]
    assert [line.split(" ")[2] for line in replaced] == ["create", "delete"]


def test_a_refusal_of_pods_nobody_wants_any_more_is_forgotten() -> None:
    view = clique(ready=2)
    seen = replica(view, gangs=(gang(view),), services=(service(),), failures=(failure(),))
    decided = plan(snapshot(pcs(role("a", 2)), seen), NOW)
    assert decided.requeue_at is None
    assert [finding for finding in decided.findings if finding.reason == "PodsRejected"] == []
    conditions = [condition for status in decided.statuses for condition in status.patch.get("conditions", ())]
    assert {condition["type"] for condition in conditions}.isdisjoint({"PodsRejected", "ReconcileFailed"})


# Stories


def counts(world: World) -> dict[str, int]:
    """Active pods per gang."""
    found: dict[str, int] = {}
    for one in world.all(PODS):
        gang_name = one.metadata.labels["grove.io/podgang"]
        found[gang_name] = found.get(gang_name, 0) + one.is_active
    return found


def test_two_replicas_and_room_for_one_and_a_half_the_first_runs_and_the_other_holds_nothing() -> None:
    world = World(pcs(role("a", 10), replicas=2), quota=15)
    run_a_while(world, 20)
    assert sum(counts(world).values()) == 15
    run_a_while(world, 3600)
    assert counts(world) == {"p-0": 10}
    assert all(one.is_ready for one in world.all(PODS))


def test_it_heals_when_the_quota_is_raised() -> None:
    world = World(pcs(role("a", 10), replicas=2), quota=15)
    run_a_while(world, 3600)
    world.quota = 20
    run_to_rest(world)
    assert counts(world) == {"p-0": 10, "p-1": 10}
    status = world.json(PODCLIQUESETS, "p")["status"]
    assert (problems(status), "lastErrors" in status) == ([], False)
    assert {condition.type for clique in world.all(PODCLIQUES) for condition in clique.status.conditions} == {
        "MinAvailableBreached",
        "PodCliqueScheduled",
    }


def test_a_base_gang_comes_before_scaled_ones_and_minima_before_extras() -> None:
    observed = pcs(role("a", 2, needs=1), role("b", 2, needs=1), groups=(scaling("g", "b", replicas=2, needs=1),))
    world = World(observed, quota=5)
    run_a_while(world, 3600)
    assert counts(world) == {"p-0": 4, "p-0-g-0": 1}
    assert all(one.is_ready for one in world.all(PODS))


def test_a_refusal_is_said_on_the_clique_and_on_the_set() -> None:
    world = World(pcs(role("a", 3)), quota=2)
    run_a_while(world, 10)
    observed = world.pcs
    assert observed is not None
    on_set = find_condition(observed.status.conditions, "ReconcileFailed")
    on_clique = find_condition(world.all(PODCLIQUES)[0].status.conditions, "PodsRejected")
    assert on_set is not None
    assert on_clique is not None
    assert (on_set.status, on_set.reason) == ("True", "CreateRejected")
    words = "exceeded quota: 2 pods; raise the quota, or make the set smaller"
    assert on_set.message == f"cannot create pods/p-0-a since 2026-01-01T12:00:00Z: {words}"
    assert (on_clique.status, on_clique.reason, on_clique.message) == (
        "True",
        "CreateRejected",
        "exceeded quota: 2 pods",
    )
    assert [(error.code, error.description) for error in observed.status.last_errors] == [
        ("ERR_CREATE_POD", "pods/p-0-a: exceeded quota: 2 pods")
    ]
    warned = {(emit.subject.kind, emit.reason) for emit in world.events if emit.severity == "Warning"}
    assert warned == {("PodClique", "PodsRejected"), ("PodCliqueSet", "ReconcileFailed")}


def test_giving_up_the_missing_pods_ends_the_refusal() -> None:
    world = World(pcs(role("a", 3, needs=1)), quota=2)
    run_a_while(world, 100)
    world.edit(PODCLIQUES, "p-0-a", {"spec": {"replicas": 2}})
    run_to_rest(world)
    status = world.json(PODCLIQUESETS, "p")["status"]
    assert (problems(status), "lastErrors" in status) == ([], False)
    assert counts(world) == {"p-0": 2}


def test_a_scaled_gang_waits_behind_its_refused_base() -> None:
    base = clique(gated(0), name="p-0-g-0-b", replicas=2)
    scaled = clique(name="p-0-g-1-b", replicas=2)
    seen = replica(
        base,
        scaled,
        groups=(group("p-0-g", "b", replicas=2),),
        gangs=(gang(base), gang(scaled, name="p-0-g-0")),
        services=(service(),),
        failures=(failure("pods/p-0-g-0-b", count=2), failure("pods/p-0-g-1-b", count=2)),
    )
    observed = pcs(role("b", 2), groups=(scaling("g", "b", replicas=2),))
    decided = plan(snapshot(observed, seen), NOW)
    assert [(finding.about, finding.until) for finding in decided.findings if finding.reason == "PodsRejected"] == [
        ("podgang/p-0", at(30)),
        ("podgang/p-0-g-0", at(35)),
    ]

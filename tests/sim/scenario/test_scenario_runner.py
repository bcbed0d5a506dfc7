"""Scenarios are played in a real world: what happens to it, what is told of it, and what is expected."""

from itertools import groupby
from typing import Any

import pytest

from grove.api.resources import PODCLIQUESETS
from grove.sim.scenario.runner import Played, play
from grove.sim.scenario.scenario_file import ScenarioError, read_scenario
from grove.sim.simulation import World
from grove.sim.virtual_clock import run_virtual
from tests.simulation.stories import WORKLOAD2
from tests.simulation.termination_stories import with_delay

NODE = {"cpu": "4", "memory": "150Mi", "pods": "110"}


async def sets_of(world: World) -> list[str]:
    return [pcs.metadata.name for pcs in world.objects(PODCLIQUESETS)]


def played(*steps: dict[str, Any], nodes: int = 10, until: float | None = None, seed: int = 1) -> Played[list[str]]:
    """Workload 2 (10 pods, one per node) with a delay of 10 s."""
    content = {
        "nodes": [{"count": nodes, "resources": NODE}],
        "manifests": [with_delay(WORKLOAD2)],
        "timeline": list(steps),
    }
    scenario = read_scenario(content, lambda _: ())
    return run_virtual(play(scenario, seed=seed, until=until, at_end=sets_of))


def told(result: Played[list[str]], who: str = "") -> list[str]:
    return [f"{line.at:.0f} {line.what}" for line in result.lines if not who or line.who == who]


def test_a_teardown_is_told_per_unit_and_never_per_pod() -> None:
    result = played(
        {"at": "10m", "lose": {"clique": "workload2-0-pc-a", "nodes": "cordon"}},
        {"at": "11m", "expect": {"since": "10m", "replaced": ["workload2-0-*"]}},
    )
    assert result.failures == ()
    lines = told(result, "operator")
    assert "610 deleted 10 pods of workload2 replica 0" in lines
    assert "610 deleted 5 PodCliques of workload2 replica 0" in lines
    assert "610 created 10 pods of workload2 replica 0" in lines
    assert told(result, "scenario")[-2:] == [
        "600 loses 2 pods of workload2-0-pc-a and cordons node-0, node-5",
        "660 finds all as expected",
    ]


def test_a_line_carries_the_planners_reason() -> None:
    result = played({"at": "10m", "lose": {"clique": "workload2-0-pc-a", "nodes": "cordon"}})
    (line,) = [line for line in result.lines if line.what == "deleted 10 pods of workload2 replica 0"]
    assert line.why == (
        "below the minimum for longer than the termination delay (workload2-0-pc-a: 0 of at least 1 pods are ready)"
    )
    assert str(line) == f"   0:10:10  operator   deleted 10 pods of workload2 replica 0: {line.why}"


def test_many_replicas_are_told_as_one_set() -> None:
    result = played({"at": "1m", "scale": {"target": "pcs/workload2", "replicas": 13}}, until=120)
    created = [line for line in told(result, "operator") if line.startswith("60 created")]
    assert "60 created 120 pods of workload2" in created
    assert not [line for line in created if "replica" in line]


def test_a_group_replica_that_goes_alone_is_named() -> None:
    result = played({"at": "10m", "lose": {"clique": "workload2-0-sg-x-0-pc-c", "nodes": "cordon"}})
    assert "610 deleted 4 pods of workload2-0-sg-x replica 0" in told(result, "operator")


def test_the_same_seed_tells_the_same() -> None:
    steps = (
        {"at": "1m", "faults": {"latency": [0.0, 0.5], "server_error": 0.2}},
        {"at": "2m", "scale": {"target": "pcsg/workload2-0-sg-x", "replicas": 3}},
        {"at": "3m", "operator": "restart"},
        {"at": "5m", "faults": {}},
    )
    assert played(*steps, nodes=14).lines == played(*steps, nodes=14).lines


def test_the_operator_can_be_down_and_a_watch_can_be_frozen() -> None:
    result = played(
        {"at": "1m", "operator": "crash"},
        {"at": "2m", "scale": {"target": "pclq/workload2-0-pc-a", "replicas": 3}},
        {"at": "3m", "expect": {"running": {"workload2-0-pc-a": 2}}},
        {"at": "4m", "operator": "restart"},
        {"at": "5m", "expect": {"running": {"workload2-0-pc-a": 3}}},
        {"at": "6m", "freeze": "podcliques"},
        {"at": "6m", "scale": {"target": "pclq/workload2-0-pc-a", "replicas": 2}},
        {"at": "7m", "expect": {"running": {"workload2-0-pc-a": 3}}},
        {"at": "8m", "thaw": "podcliques"},
        {"at": "9m", "expect": {"running": {"workload2-0-pc-a": 2}}},
        nodes=11,
    )
    assert result.failures == ()


def test_nodes_come_and_go_and_their_pods_with_them() -> None:
    result = played(
        {"at": "1m", "remove": "node-0"},
        {"at": "2m", "expect": {"running": {"workload2-*": 9}}},
        {"at": "3m", "add": {"count": 1, "resources": NODE}},
        {"at": "4m", "expect": {"running": {"workload2-*": 10}}},
        {"at": "5m", "drain": ["node-1", "node-2"]},
        {"at": "6m", "expect": {"running": {"workload2-*": 8}}},
        {"at": "7m", "uncordon": "all"},
        {"at": "8m", "expect": {"running": {"workload2-*": 10}}},
        {"at": "9m", "lose": {"clique": "workload2-0-pc-a", "pods": 1, "nodes": "fail"}},
        {"at": "20m", "expect": {"running": {"workload2-*": 9}}},
        {"at": "21m", "recover": "lost"},
        {"at": "22m", "expect": {"running": {"workload2-*": 10}}},
    )
    assert result.failures == ()
    (line,) = told(result, "nodes")
    assert line.startswith("840 gave up 1 pod of node-")


def test_held_teardowns_are_told_and_so_is_their_end() -> None:
    result = played(
        {"at": "10m", "fail": [f"node-{number}" for number in range(6)]},
        {"at": "12m", "expect": {"conditions": [{"of": "pcs/workload2", "type": "TeardownHeld", "status": True}]}},
        {"at": "12m", "recover": "node-0"},
        {"at": "15m", "expect": {"conditions": [{"of": "pcs/workload2", "type": "TeardownHeld", "status": "absent"}]}},
    )
    assert result.failures == ()
    lines = told(result, "operator")
    assert any(line.endswith(" TeardownHeld podcliqueset/workload2") for line in lines)
    # A node that came back counts after a minute.
    assert "780 TeardownHeld of podcliqueset/workload2 is over" in lines


def test_sets_are_applied_and_deleted_on_the_way() -> None:
    other = with_delay(WORKLOAD2)
    other["metadata"]["name"] = "other"
    result = played({"at": "1m", "apply": [other]}, {"at": "2m", "delete": "pcs/workload2"}, nodes=20)
    assert result.ending == ["other"]
    assert "120 podcliqueset/workload2 is gone" in told(result)


@pytest.mark.parametrize(
    ("expect", "error_message"),
    [
        ({"running": {"workload2-0-pc-a": 3}}, "2 pods of workload2-0-pc-a are ready, not 3"),
        (
            {"conditions": [{"of": "pclq/workload2-0-pc-a", "type": "MinAvailableBreached", "status": "True"}]},
            "MinAvailableBreached of pclq/workload2-0-pc-a is False (SufficientReadyPods), not True",
        ),
        (
            {"conditions": [{"of": "pcs/workload2", "type": "TeardownHeld", "status": "True", "reason": "MassOutage"}]},
            "TeardownHeld of pcs/workload2 is absent, not True (MassOutage)",
        ),
        ({"conditions": [{"of": "pcs/gone", "type": "A", "status": "True"}]}, "pcs/gone does not exist"),
        ({"since": "1m", "kept": ["*-pc-a"]}, "1 of the 2 pods of workload2-0-pc-a were not kept"),
        ({"since": "1m", "replaced": ["*-pc-a"]}, "1 of the 2 pods of workload2-0-pc-a were not replaced"),
    ],
)
def test_an_expectation_that_does_not_hold_says_what_is(expect: dict[str, Any], error_message: str) -> None:
    result = played({"at": "1m", "lose": {"clique": "workload2-0-pc-a", "pods": 1}}, {"at": "2m", "expect": expect})
    assert result.failures == (f"0:02:00 timeline[1].expect: {error_message}",)


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (
            {"lose": {"clique": "workload2-0-pc-x"}},
            "timeline[0].lose.clique: no clique 'workload2-0-pc-x' until 0:01:00; did you mean workload2-0-pc-a?",
        ),
        (
            {"lose": {"clique": "workload2-0-pc-a", "pods": 3}},
            "timeline[0].lose: workload2-0-pc-a has 2 pods that run; lose fewer pods, or lose them later",
        ),
        ({"fail": "node-77"}, "timeline[0].fail: no node 'node-77' at 0:01:00; did you mean node-7?"),
        ({"recover": "lost"}, "timeline[0].recover: there is no such node; a step before it must lose some"),
        (
            {"scale": {"target": "pcsg/workload2-0-sg-y", "replicas": 1}},
            "timeline[0].scale.target: no pcsg/workload2-0-sg-y at 0:01:00; did you mean workload2-0-sg-x?",
        ),
        (
            {"scale": {"target": "pcsg/workload2-0-sg-x", "replicas": 1_000_000}},
            "timeline[0].scale: rejected by the API server at 1m: ",
        ),
        (
            {"scale": {"target": "pg/workload2-0", "replicas": 1}},
            "timeline[0].scale.target: 'pg/workload2-0' is not KIND/NAME; kinds: pcs, pcsg, pclq",
        ),
        (
            {"delete": "pcs/workload1"},
            "timeline[0].delete: no pcs/workload1 at 0:01:00; did you mean workload2?",
        ),
    ],
)
def test_a_step_that_cannot_be_taken_is_an_error_of_the_file(step: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        played({"at": "1m", **step})
    assert str(caught.value).startswith(message)


def test_a_manifest_that_is_refused_is_an_error_of_the_file() -> None:
    wrong = with_delay(WORKLOAD2, "-1s")
    with pytest.raises(
        ScenarioError, match=r"timeline\[0\]\.apply: podcliqueset/workload2 is rejected: .*terminationDelay"
    ):
        played({"at": "1m", "apply": [wrong]})


def test_steps_after_the_end_do_not_happen() -> None:
    result = played({"at": "1m", "fail": "node-0"}, {"at": "1h", "recover": "node-0"}, until=1800)
    assert result.ends_at == 1800
    assert "60 fails node-0" in told(result)
    assert not any("recovers" in line for line in told(result))


def test_what_is_gone_is_told_after_its_deletion() -> None:
    lines = told(played({"at": "1m", "delete": "pcs/workload2"}), "operator")
    assert lines[-1] == "60 podcliqueset/workload2 is gone"
    assert "60 deleted 10 pods of workload2" in lines


def test_nodes_that_the_cluster_refuses_are_named() -> None:
    scenario = read_scenario({"nodes": [{"labels": {"a b": "c"}}]}, lambda _: ())
    with pytest.raises(ScenarioError, match=r"nodes\[0\]: rejected by the API server: .*a b"):
        run_virtual(play(scenario, seed=1, until=None, at_end=sets_of))


async def loads_of(world: World) -> list[str]:
    """Every load that the set had, in order."""
    table = next(table for table in world.server.store.tables() if table.resource_info.plural == "podcliquesets")
    key = "load.simulation.grove.io/workload2-0-pc-a"
    notes = [change.entry.obj["metadata"].get("annotations") or {} for change in table.log]
    return [load for load, _ in groupby(note[key] for note in notes if key in note)]


def test_a_load_grows_step_by_step_and_a_new_one_replaces_it() -> None:
    content = {
        "nodes": [{"count": 10, "resources": NODE}],
        "manifests": [with_delay(WORKLOAD2)],
        "timeline": [
            {"at": "10m", "load": {"target": "pclq/workload2-0-pc-a", "cpu": "4", "over": "4m"}},
            {"at": "12m30s", "load": {"target": "pclq/workload2-0-pc-a", "cpu": "1"}},
        ],
    }
    result = run_virtual(play(read_scenario(content, lambda _: ()), seed=1, until=None, at_end=loads_of))
    assert result.ending == ["1", "2", "1"]
    assert told(result, "scenario")[-2:] == [
        "600 sets the load of pclq/workload2-0-pc-a to 4 CPU over 4m",
        "750 sets the load of pclq/workload2-0-pc-a to 1 CPU",
    ]

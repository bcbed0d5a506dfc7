"""A scenario file is read strictly: whatever is wrong is named by its path, and what to write instead."""

from typing import Any

import pytest

from grove.api.types.meta import JsonObject
from grove.sim.scenario.scenario_file import NodeAction, Scenario, ScenarioError, read_scenario

SET: JsonObject = {"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "metadata": {"name": "p"}}


def read(**content: Any) -> Scenario:
    return read_scenario(content, lambda path: ({**SET, "metadata": {"name": path}},))


def step(**content: Any) -> dict[str, Any]:
    return {"timeline": [{"at": "10m", **content}]}


def test_manifests_are_objects_or_files() -> None:
    scenario = read(manifests=[SET, "other.yaml"], timeline=[{"at": "1h", "apply": ["third.yaml"]}])
    assert [m["metadata"]["name"] for m in scenario.manifests if isinstance(m, dict)] == ["p", "other.yaml"]
    assert scenario.timeline[0].apply == ({**SET, "metadata": {"name": "third.yaml"}},)


def test_times_are_durations_since_the_beginning() -> None:
    scenario = read(until="8h", timeline=[{"at": "1h30m", "fail": "node-0"}])
    assert (scenario.ends_at, scenario.timeline[0].seconds) == (8 * 3600, 5400)


def test_a_lost_pod_keeps_its_node_unless_it_is_said() -> None:
    (one,) = read(**step(lose={"clique": "p-0-a"})).timeline
    assert one.lose is not None
    assert (one.lose.pods, one.lose.nodes) == (None, NodeAction.KEEP)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"nodse": []}, "nodse: unknown key; did you mean nodes?"),
        ({"nodes": [{"cuont": 3}]}, "nodes[0].cuont: unknown key; did you mean count?"),
        (step(lose={"clique": "a", "node": "fail"}), "timeline[0].lose.node: unknown key; did you mean nodes?"),
        (step(expect={"runing": {}}), "timeline[0].expect.runing: unknown key; did you mean running?"),
        (step(faults={"latncy": 1}), "timeline[0].faults.latncy: unknown key; did you mean latency?"),
        (
            step(expect={"conditions": [{"xyz": "a"}]}),
            "timeline[0].expect.conditions[0].xyz: unknown key; known keys: of, type, status, reason",
        ),
        (step(lose={"clique": "a", "pods": "2"}),
         "timeline[0].lose.pods: expected `int | null`, got `str`; correct it"),
        (step(lose={"clique": "a", "nodes": "kill"}), "timeline[0].lose.nodes: invalid enum value 'kill'; correct it"),
        (step(scale={"target": "pcs/p"}), "timeline[0].scale: object missing required field `replicas`; correct it"),
        ({"timeline": {}}, "timeline: expected `array`, got `object`; correct it"),
        ({"timeline": [{"at": 5, "fail": "a"}]}, "timeline[0].at: expected `str`, got `int`; correct it"),
        (
            {"timeline": [{"at": "5x", "fail": "a"}]},
            'timeline[0].at: "5x" is not a duration: write numbers with units, such as 30s, 5m or 1h30m',
        ),
        (
            {"timeline": [{"at": "-5s", "fail": "a"}]},
            "timeline[0].at: -5s is before the beginning; write a time since the start, such as 10m",
        ),
        (
            {"timeline": [{"at": "5s", "fail": "a"}, {"at": "4s", "fail": "a"}]},
            "timeline[1].at: 4s is before the step above it; put the steps in order",
        ),
        ({"until": "1 day"}, 'until: "1 day" is not a duration: write numbers with units, such as 30s, 5m or 1h30m'),
        ({"nodes": [{"count": 0}]}, "nodes[0].count: 0 is not between 1 and 20000; correct it"),
        (step(add={"count": 20001}), "timeline[0].add.count: 20001 is not between 1 and 20000; correct it"),
        (step(lose={"clique": "a", "pods": 0}),
         "timeline[0].lose.pods: 0 is less than one; write 1 or more, or leave it out for all"),
        (step(scale={"target": "pcs/p", "replicas": -1}),
         "timeline[0].scale.replicas: -1 is less than nothing; write 0 or more"),
        (step(expect={}), "timeline[0].expect: expects nothing; write running, conditions, kept or replaced"),
        (
            step(expect={"kept": ["a"]}),
            "timeline[0].expect.since: is needed by kept and replaced; write since when, such as 10m",
        ),
        (
            step(expect={"kept": ["a"], "since": "11m"}),
            "timeline[0].expect.since: 11m comes after the step itself; write an earlier time",
        ),
        (step(freeze="pod"), "timeline[0].freeze: the operator does not watch 'pod'; did you mean pods?"),
        (step(thaw="pods"), "timeline[0].thaw: pods is not frozen; freeze it first, or remove this step"),
        ({"manifests": [{"kind": "Pod"}]},
         "manifests[0]: has no apiVersion; write a whole object, or the path of a file"),
        ({"manifests": [{**SET, "metadata": "p"}]},
         "manifests[0]: has no metadata.name; write a whole object, or the path of a file"),
        (step(apply=[{**SET, "kind": 3}]),
         "timeline[0].apply[0]: has no kind; write a whole object, or the path of a file"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_by_its_path(content: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        read(**content)
    assert str(caught.value) == message


@pytest.mark.parametrize(("content", "found"), [({}, "nothing"), ({"fail": "a", "drain": "b"}, "fail and drain")])
def test_a_step_says_exactly_one_thing(content: dict[str, Any], found: str) -> None:
    with pytest.raises(ScenarioError, match=rf"timeline\[0\]: has {found}; write exactly one of: apply, delete,"):
        read(**step(**content))


def test_a_quantity_that_is_none_is_named() -> None:
    with pytest.raises(ScenarioError, match=r"nodes\[0\]\.resources\.memory: "):
        read(nodes=[{"resources": {"memory": "a lot"}}])


@pytest.mark.parametrize(
    ("faults", "words"),
    [
        ({"server_error": 2}, "server_error: 2 is no probability; write 0 to 1"),
        ({"gone": -0.5}, "gone: -0.5 is no probability; write 0 to 1"),
        ({"latency": [2, 1]}, "latency: [2, 1] are no seconds from and to; write for example [0.1, 0.5]"),
        ({"creates_per_second": 0}, "creates_per_second: 0 creates nothing; write more than 0"),
    ],
)
def test_weather_that_cannot_be_is_named(faults: dict[str, Any], words: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        read(**step(faults=faults))
    assert str(caught.value) == f"timeline[0].faults.{words}"

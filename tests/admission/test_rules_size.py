"""Sets that nobody can mean: numbers beyond all measure, names that meet, podSpecs of the wrong shape."""

from typing import Any

import pytest

from grove.admission.review import review
from grove.api.admission import AdmissionRequest, Operation
from grove.api.meta import JsonObject
from grove.api.resources import GROUPS, PODCLIQUES, Resource
from tests.admission.asking import refusals, texts
from tests.api.manifests import clique, container, group, manifest

TOO_GREAT = "must not be greater than 100000"
GROUP = "spec.template.podCliqueScalingGroups"


@pytest.mark.parametrize(
    ("json", "error"),
    [
        pytest.param(manifest(clique(spec={"replicas": 2}), replicas=100_000), None, id="the largest set"),
        pytest.param(
            manifest(clique(spec={"replicas": 1}), replicas=100_001),
            f"spec.replicas: Invalid value: 100001: {TOO_GREAT}",
            id="one replica more",
        ),
        pytest.param(
            manifest(clique(spec={"replicas": 3}), replicas=66_667),
            "spec.replicas: Invalid value: 66667: these are 200001 pods, and one set may have 200000: "
            "make several sets of it",
            id="one pod more",
        ),
        pytest.param(
            manifest(clique(spec={"replicas": 10**9})),
            f"spec.template.cliques[0].spec.replicas: Invalid value: 1000000000: {TOO_GREAT}",
            id="a clique of a thousand million pods",
        ),
        pytest.param(
            manifest(clique("a"), groups=(group("g", "a", replicas=100_001),)),
            f"{GROUP}[0].replicas: Invalid value: 100001: {TOO_GREAT}",
            id="a group of too many replicas",
        ),
        pytest.param(
            manifest(clique("a", spec={"replicas": 20}), groups=(group("g", "a", replicas=100_000),)),
            "spec.replicas: Invalid value: 1: these are 2000000 pods, and one set may have 200000: "
            "make several sets of it",
            id="a group whose members are too many together",
        ),
    ],
)
def test_a_set_has_a_size_that_can_be_carried_out(json: JsonObject, error: str | None) -> None:
    assert refusals(json) == ([error] if error else [])


@pytest.mark.parametrize(
    ("alone", "groups", "error"),
    [
        pytest.param(
            "g-0-b",
            (("g", "b"),),
            '[0].cliqueNames[0]: Invalid value: "b": a replica of group "g" would be named as clique "g-0-b"',
            id="a clique alone and a member",
        ),
        pytest.param(
            "g-17-b",
            (("g", "b"),),
            '[0].cliqueNames[0]: Invalid value: "b": a replica of group "g" would be named as clique "g-17-b"',
            id="a replica that may come one day",
        ),
        pytest.param(
            "x",
            (("g", "0-m"), ("g-0", "m")),
            '[1].cliqueNames[0]: Invalid value: "m": replicas of groups "g-0" and "g" would have the same names',
            id="members of two groups",
        ),
        pytest.param(
            "x",
            (("g-0", "m"), ("g", "0-m")),
            '[1].cliqueNames[0]: Invalid value: "0-m": replicas of groups "g" and "g-0" would have the same names',
            id="in the other order",
        ),
        pytest.param("g-00-b", (("g", "b"),), None, id="no replica has the number 00"),
        pytest.param("x", (("g", "00-m"), ("g-00", "m")), None, id="nor in two groups"),
        pytest.param("g-b", (("g", "b"),), None, id="a group name without a number"),
        pytest.param("x-g-0-b", (("g", "b"),), None, id="an end that looks like a member"),
        pytest.param("x", (("g", "a"), ("g-1", "b")), None, id="a group that begins like another"),
    ],
)
def test_no_two_cliques_of_a_set_may_ever_have_the_same_name(
    alone: str, groups: tuple[tuple[str, str], ...], error: str | None
) -> None:
    members = [clique(member) for _, member in groups]
    json = manifest(clique(alone), *members, groups=tuple(group(*names) for names in groups))
    assert refusals(json) == ([f"{GROUP}{error}: rename one"] if error else [])


@pytest.mark.parametrize(
    ("pod", "at", "value", "expected"),
    [
        pytest.param({"containers": "x"}, "containers", '"x"', "array", id="containers as text"),
        pytest.param({"containers": [None]}, "containers[0]", "null", "object", id="no container"),
        pytest.param({"initContainers": ["x"]}, "initContainers[0]", '"x"', "object", id="a container as text"),
        pytest.param(
            {"containers": [container(env={"A": "b"})]},
            "containers[0].env",
            '{"A":"b"}',
            "array",
            id="env as a mapping",
        ),
        pytest.param(
            {"containers": [container(env=["A=b"])]}, "containers[0].env[0]", '"A=b"', "object", id="env as text"
        ),
        pytest.param({"schedulingGates": 3}, "schedulingGates", "3", "array", id="gates as a number"),
        pytest.param({"schedulingGates": ["x"]}, "schedulingGates[0]", '"x"', "object", id="a gate as text"),
    ],
)
def test_what_we_change_in_a_pod_needs_its_shape(pod: JsonObject, at: str, value: str, expected: str) -> None:
    place = f"spec.template.cliques[0].spec.podSpec.{at}"
    assert refusals(manifest(clique(pod=pod))) == [f"{place}: Invalid value: {value}: must be of type {expected}"]


CLIQUE_SPEC = {"roleName": "a", "minAvailable": 1, "podSpec": {"containers": [container()]}}


@pytest.mark.parametrize(
    ("resource", "spec"),
    [
        pytest.param(PODCLIQUES, CLIQUE_SPEC, id="clique"),
        pytest.param(GROUPS, {"minAvailable": 1, "cliqueNames": ["a"]}, id="group"),
    ],
)
@pytest.mark.parametrize(
    ("replicas", "errors"),
    [
        pytest.param(100_000, [], id="at the limit"),
        pytest.param(100_001, [f"spec.replicas: Invalid value: 100001: {TOO_GREAT}"], id="above it"),
    ],
)
def test_nor_is_a_clique_or_a_group_scaled_beyond_all_measure(
    resource: Resource[Any], spec: JsonObject, replicas: int, errors: list[str]
) -> None:
    before: JsonObject = {"metadata": {"name": "x"}, "spec": {**spec, "replicas": 1}}
    after: JsonObject = {"metadata": {"name": "x"}, "spec": {**spec, "replicas": replicas}}
    request = AdmissionRequest(
        operation=Operation.UPDATE, group=resource.group, plural=resource.plural, object=after, old=before
    )
    assert texts(review(request)) == errors

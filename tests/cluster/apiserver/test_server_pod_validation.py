"""Pods that make no sense are refused where they are written, each error with its path; words as of a real server."""

from typing import Any

import pytest

from grove.api.types.meta import JsonObject
from tests.cluster.apidsl import PODS, Api, on_cluster, pod

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_NODES = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"


def _causes(body: JsonObject) -> list[tuple[str, str]]:
    return [(cause["field"], cause["message"]) for cause in body["details"]["causes"]]


def _on_nodes(**requirement: Any) -> JsonObject:
    return {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}}}


@pytest.mark.parametrize(
    ("toleration", "field", "words"),
    [
        ({}, "operator", "operator must be Exists when `key` is empty"),
        ({"key": "a", "operator": "Exists", "value": "b"}, "operator", "value must be empty when `operator` is"),
        ({"key": "a", "operator": "Is"}, "operator", 'supported values: "Equal", "Exists"'),
        ({"key": "a", "effect": "Never"}, "effect", 'supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"'),
        ({"key": "a b"}, "key", "name part must consist of"),
        ({"key": "a", "tolerationSeconds": 3}, "effect", "effect must be 'NoExecute' when `tolerationSeconds` is set"),
    ],
)
@on_cluster
async def test_a_toleration_that_cannot_be_meant_is_refused(
    api: Api, toleration: JsonObject, field: str, words: str
) -> None:
    refused = await api.post(PODS, pod("a", spec={"tolerations": [{"operator": "Exists"}, toleration]}))
    assert refused.refusal[:2] == (422, "Invalid")
    ((where, message),) = _causes(refused.body)
    assert (where, words in message) == (f"spec.tolerations[1].{field}", True), message


@pytest.mark.parametrize(
    ("affinity", "field", "words"),
    [
        ({"nodeAffinity": {_REQUIRED: {}}}, _NODES, "must have at least one node selector term"),
        (_on_nodes(key="a", operator="In"), f"{_NODES}[0].matchExpressions[0].values", "must be specified when"),
        (
            _on_nodes(key="a", operator="Exists", values=["b"]),
            f"{_NODES}[0].matchExpressions[0].values",
            "may not be specified when",
        ),
        (_on_nodes(key="a", operator="Gt", values=[]), f"{_NODES}[0].matchExpressions[0].values", "single value"),
        (_on_nodes(key="a", operator="Near"), f"{_NODES}[0].matchExpressions[0].operator", "not a valid selector"),
        (_on_nodes(key="/", operator="Exists"), f"{_NODES}[0].matchExpressions[0].key", "prefix part must be"),
        (
            {"nodeAffinity": {_PREFERRED: [{"weight": 101, "preference": {}}]}},
            f"spec.affinity.nodeAffinity.{_PREFERRED}[0].weight",
            "must be in the range 1-100",
        ),
        (
            {"podAntiAffinity": {_REQUIRED: [{"labelSelector": {}}]}},
            f"spec.affinity.podAntiAffinity.{_REQUIRED}[0].topologyKey",
            "can not be empty",
        ),
        (
            {
                "podAffinity": {
                    _REQUIRED: [
                        {
                            "topologyKey": "zone",
                            "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]},
                        }
                    ]
                }
            },
            f"spec.affinity.podAffinity.{_REQUIRED}[0].labelSelector.matchExpressions[0].operator",
            "not a valid selector operator",
        ),
    ],
)
@on_cluster
async def test_an_affinity_that_cannot_be_meant_is_refused(
    api: Api, affinity: JsonObject, field: str, words: str
) -> None:
    refused = await api.post(PODS, pod("a", spec={"affinity": affinity}))
    assert refused.refusal[:2] == (422, "Invalid")
    ((where, message),) = _causes(refused.body)
    assert (where, words in message) == (field, True), message


@on_cluster
async def test_affinity_and_tolerations_that_make_sense_are_taken(api: Api) -> None:
    near = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}
    affinity = {
        **_on_nodes(key="rack", operator="In", values=["r1"]),
        "podAffinity": {_REQUIRED: [near]},
        "podAntiAffinity": {_PREFERRED: [{"weight": 100, "podAffinityTerm": near}]},
    }
    tolerations = [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}, {"operator": "Exists"}]
    spec = {"affinity": affinity, "tolerations": tolerations, "nodeSelector": {"zone": "a"}}
    assert (await api.post(PODS, pod("a", spec=spec))).status == 201


@pytest.mark.parametrize(
    "spec",
    [
        {"affinity": {"nodeAffinity": []}},
        {"affinity": {"podAffinity": {_REQUIRED: {}}}},
        {"tolerations": [{"key": 3}]},
        {"tolerations": "all"},
        {"nodeSelector": {"a": 1}},
        {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "two"}}}]},
    ],
)
@on_cluster
async def test_what_has_the_wrong_type_cannot_be_read(api: Api, spec: JsonObject) -> None:
    refused = await api.post(PODS, pod("a", spec=spec))
    assert refused.refusal[:2] == (400, "BadRequest")
    assert 'Pod in version "v1" cannot be handled as a Pod' in refused.refusal[2]


@pytest.mark.parametrize(
    ("resources", "field", "words"),
    [
        ({"requests": {"cpu": "-1"}}, "requests[cpu]", "must be greater than or equal to 0"),
        ({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}, "requests", "less than or equal to cpu limit of 1"),
        ({"requests": {"nvidia.com/gpu": "1"}}, "limits", "Limit must be set for non overcommitable resources"),
        ({"limits": {"nvidia.com/gpu": "500m"}}, "limits[nvidia.com/gpu]", "must be an integer"),
        (
            {"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "2"}},
            "requests",
            "must be equal to nvidia.com/gpu limit of 2",
        ),
        ({"limits": {"n vidia.com/gpu": "1"}}, "limits[n vidia.com/gpu]", "prefix part"),
    ],
)
@on_cluster
async def test_resources_that_cannot_be_given_are_refused(
    api: Api, resources: JsonObject, field: str, words: str
) -> None:
    container = {"name": "c", "image": "i", "resources": resources}
    refused = await api.post(PODS, pod("a", spec={"containers": [container]}))
    assert refused.refusal[:2] == (422, "Invalid")
    where, message = _causes(refused.body)[0]
    assert (where, words in message) == (f"spec.containers[0].resources.{field}", True), message


@on_cluster
async def test_a_resource_that_nobody_knows_is_refused(api: Api) -> None:
    container = {"name": "c", "image": "i", "resources": {"limits": {"gpus": "1"}}}
    refused = await api.post(PODS, pod("a", spec={"containers": [container]}))
    # What is limited is requested as well.
    assert _causes(refused.body) == [
        (f"spec.containers[0].resources.{part}[gpus]", f'Invalid value: "gpus": {words}')
        for part in ("limits", "requests")
        for words in (
            "must be a standard resource type or fully qualified",
            "must be a standard resource for containers",
        )
    ]


@on_cluster
async def test_a_toleration_that_is_added_later_must_make_sense_too(api: Api) -> None:
    created = await api.post(PODS, pod("a"))
    tolerations = [*created.body["spec"]["tolerations"], {"key": "a", "effect": "Never"}]
    refused = await api.merge(f"{PODS}/a", {"spec": {"tolerations": tolerations}})
    assert _causes(refused.body)[0][0] == "spec.tolerations[2].effect"

"""Cliques, groups, gangs and topology bindings written directly."""

from typing import Any

import pytest

from grove.admission.policy import NO_LOOKUP, AdmissionLookups, review
from grove.api.resources import GROUPS, PODCLIQUES, PODGANGS, PODS, TOPOLOGY_BINDINGS, Resource
from grove.api.types.admission import AdmissionRequest, AdmissionResult, Operation
from grove.api.types.meta import JsonObject, OwnerReference
from grove.api.types.podcliqueset import PodCliqueSet
from tests.admission.asking import texts
from tests.api.manifests import container, decoded, manifest, training

OWNER = {"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "name": "web", "uid": "u1", "controller": True}


def podclique(**spec: Any) -> JsonObject:
    body = {"roleName": "r", "podSpec": {"containers": []}, "replicas": 3, "minAvailable": 2, **spec}
    return _object("PodClique", {"name": "web-0-a", "namespace": "default", "ownerReferences": [OWNER]}, body)


def scaling_group(**spec: Any) -> JsonObject:
    body = {"cliqueNames": ["a"], "replicas": 3, "minAvailable": 2, **spec}
    return _object(
        "PodCliqueScalingGroup", {"name": "web-0-g", "namespace": "default", "ownerReferences": [OWNER]}, body
    )


def disowned(json: JsonObject) -> JsonObject:
    """The same without owners: as one writes it who wants to slip past."""
    return {**json, "metadata": {key: value for key, value in json["metadata"].items() if key != "ownerReferences"}}


def binding(*domains: str, schedulers: tuple[str, ...] = (), keys: tuple[str, ...] = ()) -> JsonObject:
    levels = [{"domain": domain, "key": key} for domain, key in zip(domains, keys or domains, strict=True)]
    bindings = [{"schedulerName": name, "topologyReference": "t"} for name in schedulers]
    return _object("ClusterTopologyBinding", {"name": "dc"}, {"levels": levels, "schedulerTopologyBindings": bindings})


def _object(kind: str, metadata: JsonObject, spec: JsonObject) -> JsonObject:
    return {"apiVersion": "grove.io/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


def written(
    resource: Resource[Any],
    new: JsonObject,
    old: JsonObject | None = None,
    *,
    subresource: str = "",
    lookup: AdmissionLookups = NO_LOOKUP,
) -> AdmissionResult:
    operation = Operation.CREATE if old is None else Operation.UPDATE
    request = AdmissionRequest(
        operation=operation,
        group=resource.group,
        plural=resource.plural,
        subresource=subresource,
        object=new,
        old=old,
    )
    return review(request, lookup)


def owned_by(pcs: JsonObject) -> AdmissionLookups:
    def owner_set(namespace: str, owner: OwnerReference) -> PodCliqueSet | None:
        return decoded(pcs) if (namespace, owner.uid) == ("default", "u1") else None

    return AdmissionLookups(owner_set=owner_set)


_BELOW = "spec.replicas: Invalid value: 1: must be 0, or at least minAvailable (2)"
_ALONE = (
    'spec.replicas: Invalid value: 0: must be at least minAvailable (2) for a member of group "web-0-g": '
    "scale the group"
)


def member(**spec: Any) -> JsonObject:
    """A clique of a group."""
    json = podclique(**spec)
    owner = {**OWNER, "kind": "PodCliqueScalingGroup", "name": "web-0-g", "controller": True}
    return {**json, "metadata": {**json["metadata"], "ownerReferences": [owner]}}


@pytest.mark.parametrize(
    ("resource", "new", "old", "errors"),
    [
        pytest.param(PODCLIQUES, podclique(replicas=2), podclique(), [], id="a clique to its minimum"),
        pytest.param(PODCLIQUES, podclique(replicas=1), podclique(), [_BELOW], id="a clique below its minimum"),
        pytest.param(PODCLIQUES, podclique(replicas=0), podclique(), [], id="a clique to zero"),
        pytest.param(PODCLIQUES, podclique(), podclique(replicas=0), [], id="a clique from zero"),
        pytest.param(PODCLIQUES, podclique(replicas=1), podclique(replicas=0), [_BELOW], id="from zero to too few"),
        pytest.param(PODCLIQUES, member(replicas=0), member(), [_ALONE], id="a member of a group to zero"),
        pytest.param(PODCLIQUES, member(replicas=2), member(), [], id="a member of a group to its minimum"),
        pytest.param(PODCLIQUES, podclique(replicas=1), None, [_BELOW], id="a clique created below its minimum"),
        pytest.param(
            PODCLIQUES,
            podclique(replicas=-1),
            podclique(),
            ["spec.replicas: Invalid value: -1: must be at least 0"],
            id="a clique to less than nothing",
        ),
        pytest.param(
            PODCLIQUES,
            podclique(minAvailable=0),
            podclique(),
            ["spec.minAvailable: Invalid value: 0: must be greater than 0"],
            id="a clique's minimum to zero",
        ),
        pytest.param(
            PODCLIQUES,
            podclique(replicas=0, minAvailable=None),
            podclique(minAvailable=None),
            [],
            id="a clique without a minimum to zero",
        ),
        pytest.param(
            PODCLIQUES,
            podclique(replicas="x"),
            podclique(),
            ['spec.replicas: Invalid value: "x": must be of type integer'],
            id="a clique to a word",
        ),
        pytest.param(
            PODCLIQUES,
            podclique(replicas=1, roleName="s"),
            podclique(replicas=1),
            [],
            id="a clique that was below its minimum already",
        ),
        pytest.param(
            PODCLIQUES,
            podclique(podSpec={"containers": "x"}),
            podclique(),
            ['spec.podSpec.containers: Invalid value: "x": must be of type array'],
            id="a clique's containers to a word",
        ),
        pytest.param(GROUPS, scaling_group(replicas=2), scaling_group(), [], id="a group to its minimum"),
        pytest.param(GROUPS, scaling_group(replicas=1), scaling_group(), [_BELOW], id="a group below its minimum"),
        pytest.param(GROUPS, scaling_group(replicas=0), scaling_group(), [], id="a group to zero"),
        pytest.param(GROUPS, scaling_group(), scaling_group(replicas=0), [], id="a group from zero"),
        pytest.param(
            GROUPS,
            scaling_group(replicas=-1),
            scaling_group(),
            ["spec.replicas: Invalid value: -1: must be 0, or at least minAvailable (2)"],
            id="a group to less than nothing",
        ),
        pytest.param(
            GROUPS,
            scaling_group(minAvailable=0),
            scaling_group(),
            ["spec.minAvailable: Invalid value: 0: must be greater than 0"],
            id="a group's minimum to zero",
        ),
        pytest.param(
            GROUPS,
            scaling_group(cliqueNames=[]),
            None,
            ["spec.cliqueNames: Required value: write at least one clique name"],
            id="a group of no cliques",
        ),
    ],
)
@pytest.mark.parametrize("subresource", ["", "scale"])
def test_a_child_is_scaled_to_zero_or_to_at_least_its_minimum(
    resource: Resource[Any], new: JsonObject, old: JsonObject | None, errors: list[str], subresource: str
) -> None:
    assert texts(written(resource, new, old, subresource=subresource)) == errors


_OF_TRAINING = 'Forbidden: it belongs to training set "web", which cannot be'
_CREATE_ANOTHER = "delete the set and create one with the"
_NO_SCALING = f"spec.replicas: {_OF_TRAINING} scaled: {_CREATE_ANOTHER} size you need"
_OTHER_IMAGE = {"containers": [container(image="other")]}


@pytest.mark.parametrize(
    ("resource", "old", "new", "errors"),
    [
        pytest.param(PODCLIQUES, podclique(), podclique(replicas=4), [_NO_SCALING], id="a clique scaled out"),
        pytest.param(PODCLIQUES, podclique(), podclique(replicas=2), [_NO_SCALING], id="a clique scaled in"),
        pytest.param(PODCLIQUES, podclique(), podclique(replicas=1), [_NO_SCALING], id="a clique below its minimum"),
        pytest.param(PODCLIQUES, podclique(), podclique(replicas=0), [_NO_SCALING], id="a clique to zero"),
        pytest.param(GROUPS, scaling_group(), scaling_group(replicas=0), [_NO_SCALING], id="a group to zero"),
        pytest.param(
            PODCLIQUES, podclique(), disowned(podclique(replicas=4)), [_NO_SCALING], id="a clique scaled and disowned"
        ),
        pytest.param(
            PODCLIQUES,
            podclique(),
            podclique(podSpec=_OTHER_IMAGE),
            [f"spec.podSpec: {_OF_TRAINING} updated: {_CREATE_ANOTHER} pods you need"],
            id="another image in a clique",
        ),
        pytest.param(
            PODCLIQUES,
            podclique(),
            podclique(autoScalingConfig={"maxReplicas": 4}),
            [f"spec.autoScalingConfig: {_OF_TRAINING} scaled: remove this field"],
            id="an autoscaler for a clique",
        ),
        pytest.param(GROUPS, scaling_group(), scaling_group(replicas=4), [_NO_SCALING], id="a group scaled out"),
        pytest.param(GROUPS, scaling_group(), scaling_group(replicas=1), [_NO_SCALING], id="a group below its minimum"),
        pytest.param(
            GROUPS,
            scaling_group(),
            disowned(scaling_group(replicas=4)),
            [_NO_SCALING],
            id="a group scaled and disowned",
        ),
        pytest.param(PODCLIQUES, podclique(), podclique(minAvailable=1), [], id="what is neither size nor template"),
        pytest.param(
            PODCLIQUES,
            podclique(autoScalingConfig={"maxReplicas": 4}),
            podclique(autoScalingConfig={"maxReplicas": 4}, minAvailable=1),
            [],
            id="an autoscaler that was there already",
        ),
    ],
)
def test_a_child_of_a_training_set_keeps_its_size_and_its_pods(
    resource: Resource[Any], old: JsonObject, new: JsonObject, errors: list[str]
) -> None:
    assert texts(written(resource, new, old, lookup=owned_by(training()))) == errors


@pytest.mark.parametrize(
    ("resource", "old", "new"),
    [
        pytest.param(PODCLIQUES, podclique(), podclique(replicas=4), id="a clique scaled"),
        pytest.param(PODCLIQUES, podclique(), podclique(podSpec=_OTHER_IMAGE), id="another image in a clique"),
        pytest.param(
            PODCLIQUES, podclique(), podclique(autoScalingConfig={"maxReplicas": 4}), id="an autoscaler for a clique"
        ),
        pytest.param(GROUPS, scaling_group(), scaling_group(replicas=4), id="a group scaled"),
    ],
)
@pytest.mark.parametrize("inference", [manifest(), manifest(template={"terminationDelay": "1h"})])
def test_a_child_of_an_inference_set_may_change(
    resource: Resource[Any], old: JsonObject, new: JsonObject, inference: JsonObject
) -> None:
    assert texts(written(resource, new, old, lookup=owned_by(inference))) == []


def test_a_child_of_a_training_set_that_is_leaving_is_never_held_up() -> None:
    old, new = podclique(), podclique(replicas=4)
    old["metadata"] = {**old["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
    assert texts(written(PODCLIQUES, new, old, lookup=owned_by(training()))) == []


def test_a_group_without_counts_gets_those_of_its_schema() -> None:
    json = {"metadata": {"name": "g"}, "spec": {"cliqueNames": ["a"]}}
    answer = written(GROUPS, json)
    assert answer.object == {
        "metadata": {"name": "g"},
        "spec": {"cliqueNames": ["a"], "replicas": 1, "minAvailable": 1},
    }


@pytest.mark.parametrize(
    ("json", "errors"),
    [
        pytest.param(binding("zone", "rack", schedulers=("kai-scheduler",)), [], id="a good binding"),
        pytest.param(binding(), ["spec.levels: Required value: must have at least 1 items"], id="no levels"),
        pytest.param(
            binding("zone", "zone", keys=("a", "b")),
            ['spec.levels[1].domain: Duplicate value: "zone": already used at [0]: remove one'],
            id="a domain twice",
        ),
        pytest.param(
            binding("zone", "rack", keys=("a", "a")),
            ['spec.levels[1].key: Duplicate value: "a": already used at [0]: remove one'],
            id="a key twice",
        ),
        pytest.param(
            binding("Zone"),
            ['spec.levels[0].domain: Invalid value: "Zone": must match ^[a-z][a-z0-9-]*$'],
            id="a domain with capitals",
        ),
        pytest.param(
            binding("zone", keys=("",)),
            ['spec.levels[0].key: Invalid value: "": must have 1 to 63 characters'],
            id="an empty key",
        ),
        pytest.param(
            binding("zone", schedulers=("kai-scheduler", "kai-scheduler")),
            [
                (
                    'spec.schedulerTopologyBindings[1].schedulerName: Duplicate value: "kai-scheduler": '
                    "already used at [0]: remove one"
                )
            ],
            id="a scheduler twice",
        ),
        pytest.param(
            binding("zone", schedulers=("mine",)),
            [
                (
                    'spec.schedulerTopologyBindings[0].schedulerName: Invalid value: "mine": the scheduler is '
                    "not enabled: write one of default-scheduler, kai-scheduler, volcano, lpx-scheduler"
                )
            ],
            id="a scheduler that is not enabled",
        ),
        pytest.param(
            binding("zone", schedulers=("volcano",)),
            [
                (
                    'spec.schedulerTopologyBindings[0].schedulerName: Invalid value: "volcano": '
                    "the scheduler has no topology resource (schedulers with one: kai-scheduler): remove the entry"
                )
            ],
            id="a scheduler without a topology",
        ),
    ],
)
def test_a_topology_binding_names_everything_once(json: JsonObject, errors: list[str]) -> None:
    assert texts(written(TOPOLOGY_BINDINGS, json)) == errors


@pytest.mark.parametrize(
    ("spec", "errors"),
    [
        pytest.param({"podgroups": []}, [], id="an empty gang"),
        pytest.param(
            {"podgroups": [{"name": "a", "podReferences": [{"namespace": "n"}]}]},
            [
                "spec.podgroups[0].minReplicas: Required value: Minimum number of pods to place together.",
                "spec.podgroups[0].podReferences[0].name: Required value: Name of the object.",
            ],
            id="missing fields",
        ),
    ],
)
def test_a_gang_has_the_shape_of_its_schema(spec: JsonObject, errors: list[str]) -> None:
    assert texts(written(PODGANGS, {"metadata": {"name": "g"}, "spec": spec})) == errors


@pytest.mark.parametrize(
    ("resource", "subresource", "operation"),
    [
        pytest.param(PODS, "", Operation.CREATE, id="other kinds"),
        pytest.param(PODCLIQUES, "status", Operation.UPDATE, id="statuses"),
        pytest.param(PODCLIQUES, "", Operation.DELETE, id="deletions"),
    ],
)
def test_what_is_not_ours_to_judge_passes_as_it_is(
    resource: Resource[Any], subresource: str, operation: Operation
) -> None:
    json = {"metadata": {}, "spec": 1}
    request = AdmissionRequest(
        operation=operation, group=resource.group, plural=resource.plural, subresource=subresource, object=json
    )
    assert review(request) == AdmissionResult(object=json)

"""Sets that nobody can mean: numbers beyond all measure, names that meet, podSpecs of the wrong shape."""

from typing import Any

import msgspec
import pytest

from grove.admission.policy import AdmissionLookups, review
from grove.api import names
from grove.api.resources import GROUPS, PODCLIQUES, Resource
from grove.api.schema.limits import LARGEST_OBJECT
from grove.api.types.admission import AdmissionRequest, Operation
from grove.api.types.meta import JsonObject, NamespacedName, ObjectMeta, to_wire
from grove.api.types.podclique import PodClique
from grove.api.types.podgang import PodGang, PodGangSpec, PodGroup
from grove.api.validation.stored_bytes import byte_errors, scaled_clique_byte_errors
from grove.api.validation.validation_options import ValidationOptions
from tests.admission.asking import created, refusals, texts, updated
from tests.api.manifests import clique, container, decoded, group, manifest, training

TOO_GREAT = "must not be greater than 100000"
RAISE = "raise limits.objectsPerSet in the operator configuration"
TOO_MANY = f"but the limit is 100000: split it into several sets, or {RAISE}"
GROUP = "spec.template.podCliqueScalingGroups"
FILLED = tuple(clique(f"c{i}", annotations={"example.com/filler": "x" * 250_000}) for i in range(5))


@pytest.mark.parametrize(
    ("json", "error"),
    [
        pytest.param(manifest(clique(spec={"replicas": 7}), replicas=10_000), None, id="the largest set"),
        pytest.param(
            manifest(clique(spec={"replicas": 1}), replicas=100_001),
            f"spec.replicas: Invalid value: 100001: {TOO_GREAT}",
            id="more replicas than any set",
        ),
        pytest.param(
            manifest(clique(spec={"replicas": 7}), replicas=10_001),
            "spec.replicas: Invalid value: 10001: the set would have 100010 objects "
            f"(70007 pods, 10001 PodCliques, 10001 PodGangs, 10001 Services), {TOO_MANY}",
            id="one replica more",
        ),
        pytest.param(
            manifest(clique(spec={"replicas": 10**9})),
            f"spec.template.cliques[0].spec.replicas: Invalid value: 1000000000: {TOO_GREAT}",
            id="a clique of a thousand million pods",
        ),
        pytest.param(
            manifest(clique("a"), groups=(group("g", "a", replicas=100_001),)),
            f"{GROUP}[0].replicas: Invalid value: 100001: {TOO_GREAT}",
            id="more replicas than any group",
        ),
        pytest.param(
            manifest(clique("a", spec={"replicas": 1}), groups=(group("g", "a", replicas=100_000),)),
            "spec.replicas: Invalid value: 1: the set would have 300002 objects "
            f"(100000 pods, 100000 PodCliques, 1 PodCliqueScalingGroups, 100000 PodGangs, 1 Services), {TOO_MANY}",
            id="a small manifest that makes a hundred thousand cliques and gangs",
        ),
        pytest.param(
            manifest(clique(spec={"replicas": 40_000})),
            "spec.template.cliques[0].spec.replicas: Invalid value: 40000: the names of all pods of a gang must fit "
            "into one object, and etcd stores at most 1572864 bytes: write at most 28438",
            id="more pods than a gang can name",
        ),
        pytest.param(manifest(clique(spec={"replicas": 28_438})), None, id="as many pods as a gang can name"),
        pytest.param(manifest(*(clique(f"c{i}") for i in range(1_000))), None, id="as many cliques as a set may have"),
        pytest.param(
            manifest(*(clique(f"c{i}") for i in range(1_001))),
            "spec.template.cliques: Too many: 1001: must have at most 1000 items",
            id="one clique more",
        ),
        pytest.param(manifest(*FILLED[:4]), None, id="a spec that leaves room for the status beside it"),
        pytest.param(
            manifest(*FILLED),
            "spec: Too long: may not be more than 1048576 bytes",
            id="a spec that leaves none",
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
            '[0].cliqueNames[0]: Invalid value: "b": a clique of group "g" would have the same name as clique "g-0-b"',
            id="a clique alone and a member",
        ),
        pytest.param(
            "g-17-b",
            (("g", "b"),),
            '[0].cliqueNames[0]: Invalid value: "b": a clique of group "g" would have the same name as clique "g-17-b"',
            id="a replica that may come one day",
        ),
        pytest.param(
            "x",
            (("g", "0-m"), ("g-0", "m")),
            '[1].cliqueNames[0]: Invalid value: "m": cliques of groups "g-0" and "g" would have the same names',
            id="members of two groups",
        ),
        pytest.param(
            "x",
            (("g-0", "m"), ("g", "0-m")),
            '[1].cliqueNames[0]: Invalid value: "0-m": cliques of groups "g" and "g-0" would have the same names',
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


# --- the object budget -----------------------------------------------------------------------------------------------

SMALL = ValidationOptions(objects_per_set=20)


def test_the_budget_of_a_set_is_the_installations() -> None:
    json = manifest(clique(spec={"replicas": 3}), replicas=3)
    assert texts(created(json)) == []
    assert texts(created(json, settings=ValidationOptions(objects_per_set=18))) == []
    (error,) = texts(created(json, settings=ValidationOptions(objects_per_set=17)))
    objects = "the set would have 18 objects (9 pods, 3 PodCliques, 3 PodGangs, 3 Services), but the limit is 17"
    assert error == f"spec.replicas: Invalid value: 3: {objects}: split it into several sets, or {RAISE}"


def test_a_set_beyond_its_budget_may_shrink_and_stay_but_not_grow() -> None:
    large, larger, smaller = (manifest(clique(spec={"replicas": 3}), replicas=count) for count in (5, 6, 4))
    labelled = {**large, "metadata": {**large["metadata"], "labels": {"a": "b"}}}
    assert texts(updated(large, labelled, settings=SMALL)) == []
    assert texts(updated(large, smaller, settings=SMALL)) == []
    (error,) = texts(updated(large, larger, settings=SMALL))
    assert error.startswith("spec.replicas: Invalid value: 6: the set would have 36 objects")


def _scaled(resource: Resource[Any], name: str, labels: JsonObject, replicas: int) -> list[str]:
    """One child of a set of 11 objects, whose group `g` has 2 replicas of 1 pod, is scaled alone."""
    cliques = (clique("a", spec={"replicas": 2}), clique("b", spec={"replicas": 1}))
    pcs = decoded(manifest(*cliques, groups=(group("g", "b", replicas=2),)))
    owner = {"kind": "PodCliqueSet", "name": "web", "uid": "u1", "controller": True}
    metadata = {"name": name, "namespace": "default", "labels": labels, "ownerReferences": [owner]}
    spec = {**CLIQUE_SPEC} if resource is PODCLIQUES else {"minAvailable": 1, "cliqueNames": ["b"]}
    before, after = (
        {"metadata": {**metadata, "labels": own}, "spec": {**spec, "replicas": count}}
        for own, count in ((labels, 1), ({}, replicas))
    )
    request = AdmissionRequest(
        operation=Operation.UPDATE,
        group=resource.group,
        plural=resource.plural,
        namespace="default",
        object=after,
        old=before,
    )
    return texts(review(request, AdmissionLookups(owner_set=lambda *_: pcs), SMALL))


INDEX = {"grove.io/podcliqueset-replica-index": "0"}
MEMBER = {**INDEX, "grove.io/podcliquescalinggroup": "web-0-g", "grove.io/podcliquescalinggroup-replica-index": "1"}


@pytest.mark.parametrize(
    ("resource", "name", "labels", "fits"),
    [
        pytest.param(PODCLIQUES, "web-0-a", INDEX, 11, id="a standalone clique"),
        pytest.param(PODCLIQUES, "web-0-g-1-b", MEMBER, 10, id="a member of a group"),
        pytest.param(GROUPS, "web-0-g", INDEX, 5, id="a group"),
    ],
)
def test_a_child_is_not_scaled_beyond_the_budget_of_its_set(
    resource: Resource[Any], name: str, labels: JsonObject, fits: int
) -> None:
    assert _scaled(resource, name, labels, fits) == []
    (error,) = _scaled(resource, name, labels, fits + 1)
    assert error.startswith(f"spec.replicas: Invalid value: {fits + 1}: the set would have ")
    assert error.endswith(f"objects, but the limit is 20: choose fewer replicas, or {RAISE}")


# --- bytes -----------------------------------------------------------------------------------------------------------


def test_a_gang_of_as_many_pods_as_are_accepted_fits_into_etcd() -> None:
    """As the operator writes it: with the longest names that its pods can have."""
    clique_name = names.standalone_clique("web", 0, "a")
    pods = [names.pod(clique_name, "uid", index, "") for index in range(28_438)]
    references = tuple(NamespacedName(namespace="default", name=pod) for pod in pods)
    gang = PodGang(
        metadata=ObjectMeta(name="web-0", namespace="default"),
        spec=PodGangSpec(podgroups=(PodGroup(name=clique_name, pod_references=references, min_replicas=28_438),)),
    )
    assert LARGEST_OBJECT - 80 * 1024 < len(msgspec.json.encode(to_wire(gang))) < LARGEST_OBJECT - 63 * 1024


def test_the_first_replicas_of_a_group_share_one_gang() -> None:
    json = manifest(
        clique("a", spec={"replicas": 9_000, "minAvailable": 1}), groups=(group("g", "a", replicas=4, minAvailable=4),)
    )
    (error,) = refusals(json)
    fit = int(error.rpartition("write at most ")[2])
    assert error.startswith(
        "spec.template.cliques[0].spec.replicas: Invalid value: 9000: the names of all pods of a gang"
    )
    smaller = manifest(
        clique("a", spec={"replicas": fit, "minAvailable": 1}), groups=(group("g", "a", replicas=4, minAvailable=4),)
    )
    assert refusals(smaller) == []


def test_a_clique_is_not_scaled_beyond_what_its_gang_can_name() -> None:
    pcs = decoded(manifest(clique("a", spec={"replicas": 2})))
    scaled = msgspec.convert(
        {"metadata": {"name": "web-0-a", "labels": INDEX}, "spec": {"replicas": 40_000}}, type=PodClique
    )
    (error,) = scaled_clique_byte_errors(scaled, pcs)
    fit = int(error.detail.rpartition("write at most ")[2])
    smaller = msgspec.structs.replace(scaled, spec=msgspec.structs.replace(scaled.spec, replicas=fit))
    assert list(scaled_clique_byte_errors(smaller, pcs)) == []


def test_a_training_set_has_no_more_replicas_than_its_status_can_count_restarts_of() -> None:
    pcs = decoded(training(clique(spec={"replicas": 1}), replicas=60_000))
    (error,) = byte_errors(pcs)
    assert str(error).startswith(
        "spec.replicas: Invalid value: 60000: the restart counts of all replicas must fit into one object"
    )

"""The identity of a pod template changes when pods would differ, and at no other time."""

import pytest

from grove.api.names import ALPHABET
from grove.api.template_hash import generation_hash, template_hash
from grove.api.types.meta import JsonObject
from tests.api.manifests import clique, decoded, group, manifest


def hash_of(json: JsonObject, set_priority_class: str = "") -> str:
    return template_hash(decoded(manifest(json)).spec.template.cliques[0], set_priority_class)


PLAIN = hash_of(clique())


def test_the_values_are_pinned_because_others_read_them() -> None:
    template = decoded(manifest(clique("a"), clique("b", labels={"x": "y"}), groups=(group("g", "b"),))).spec.template
    pinned = [template_hash(c, "") for c in template.cliques] + [generation_hash(template)]
    assert pinned == ["l9mb2mnd2wsp", "bs6kjqmklswv", "2blrkpqd5m2r"]


@pytest.mark.parametrize(
    "same",
    [
        pytest.param(clique("other-name"), id="name and role"),
        pytest.param(clique(spec={"replicas": 7, "minAvailable": 3}), id="counts"),
        pytest.param(clique(spec={"startsAfter": ["b"]}), id="start-up order"),
        pytest.param(clique(pod={"nodeSelector": None}), id="nothing"),
        pytest.param(clique(labels={}, annotations={}), id="empty labels"),
        pytest.param(clique(pod={"priorityClassName": ""}), id="an empty priority class"),
        pytest.param(clique(pod={"containers": [{"image": "pause", "name": "main"}]}), id="the order of map keys"),
        pytest.param(clique(pod={"containers": [{"image": "pause", "name": "main", "env": None}]}), id="a null"),
        pytest.param(clique(topologyConstraint={"pack": {"required": "rack"}}), id="topology"),
    ],
)
def test_what_does_not_reach_a_pod_does_not_change_the_hash(same: JsonObject) -> None:
    assert hash_of(same) == PLAIN


@pytest.mark.parametrize(
    "different",
    [
        pytest.param(clique(labels={"a": "b"}), id="a label"),
        pytest.param(clique(annotations={"a": "b"}), id="an annotation"),
        pytest.param(clique(pod={"containers": [{"name": "main", "image": "other"}]}), id="an image"),
        pytest.param(clique(pod={"priorityClassName": "high"}), id="the pod's own priority class"),
    ],
)
def test_what_reaches_a_pod_changes_the_hash(different: JsonObject) -> None:
    assert hash_of(different) != PLAIN


def test_a_port_is_the_same_whether_an_api_server_filled_its_protocol_in_or_not() -> None:
    ports: list[JsonObject] = [
        {"containerPort": 80},
        {"containerPort": 80, "protocol": "TCP"},
        {"containerPort": 80, "protocol": "UDP"},
    ]
    plain, filled_in, other = (hash_of(clique(pod={"containers": [{"name": "c", "ports": [port]}]})) for port in ports)
    assert plain == filled_in != other


def test_the_order_of_variables_counts() -> None:
    one, two = {"name": "A", "value": "1"}, {"name": "B", "value": "$(A)"}
    hashes = [hash_of(clique(pod={"containers": [{"name": "c", "env": env}]})) for env in ([one, two], [two, one])]
    assert hashes[0] != hashes[1]


def test_the_effective_priority_class_counts_wherever_it_is_written() -> None:
    own = hash_of(clique(pod={"priorityClassName": "high"}))
    from_set = hash_of(clique(), "high")
    overruled = hash_of(clique(pod={"priorityClassName": "low"}), "high")
    assert own == from_set == overruled != PLAIN


def test_the_order_of_cliques_does_not_count() -> None:
    one, other = clique("a"), clique("b", labels={"x": "y"})
    hashes = [generation_hash(decoded(manifest(*cliques)).spec.template) for cliques in ((one, other), (other, one))]
    assert hashes[0] == hashes[1]


def test_two_cliques_that_swap_templates_are_a_new_generation() -> None:
    before = manifest(clique("a", labels={"x": "1"}), clique("b", labels={"x": "2"}))
    after = manifest(clique("a", labels={"x": "2"}), clique("b", labels={"x": "1"}))
    assert generation_hash(decoded(before).spec.template) != generation_hash(decoded(after).spec.template)


def test_a_hash_is_a_short_label_value() -> None:
    assert (len(PLAIN), [c for c in PLAIN if c not in ALPHABET]) == (12, [])

"""One version of a set's pod templates: stored, read, compared, and put back."""

import msgspec
import pytest

from grove.api.template_hash import generation_hash, template_hash
from grove.api.template_revision import (
    RevisionTemplate,
    build_revision,
    makes_same_pods,
    read_revision,
    restore_pod_templates,
    revision_data,
    with_templates,
)
from grove.api.types.controllerrevision import ControllerRevision
from grove.api.types.meta import JsonObject, ObjectMeta
from grove.api.types.podcliqueset import SetTemplate
from tests.api.manifests import clique, container, decoded, manifest


def template_of(*cliques: JsonObject, priority: str = "") -> SetTemplate:
    return decoded(manifest(*cliques, template={"priorityClassName": priority} if priority else None)).spec.template


def drawn(template: SetTemplate) -> RevisionTemplate:
    hashes = {one.name: template_hash(one, template.priority_class_name) for one in template.cliques}
    return build_revision(template, hashes, generation_hash(template))


def stored(data: JsonObject | None, number: int = 3, *, name: str = "") -> ControllerRevision:
    template = (data or {}).get("template")
    hash_ = template.get("generationHash") if isinstance(template, dict) else ""
    return ControllerRevision(metadata=ObjectMeta(name=name or f"web-{hash_}"), data=data, revision=number)


def image(name: str) -> JsonObject:
    return {"containers": [container(image=name)]}


def test_what_is_stored_is_read_back_as_it_was() -> None:
    template = drawn(template_of(clique("a", labels={"x": "y"}), clique("b", pod=image("v2")), priority="high"))
    found = read_revision(stored(msgspec.json.decode(msgspec.json.encode(revision_data(template)))), "web")
    assert found is not None
    assert (found.number, found.template, found.generation_hash) == (3, template, template.generation_hash)


def test_what_is_stored_has_its_keys_in_order() -> None:
    """An API server compares these data byte by byte."""
    pod = {"nodeSelector": {"z": "1", "a": "2"}, "containers": [{"name": "main", "image": "v1"}]}
    data = revision_data(drawn(template_of(clique(pod=pod))))
    assert msgspec.json.encode(data) == msgspec.json.encode(data, order="sorted")


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(None, id="nothing"),
        pytest.param({}, id="somebody else's"),
        pytest.param({"template": "text"}, id="no object"),
        pytest.param({"template": {"cliques": []}}, id="no hash"),
        pytest.param({"template": {"generationHash": "x", "cliques": [{"name": "a"}]}}, id="a clique without its hash"),
        pytest.param({"template": {"generationHash": 7}}, id="a number for a word"),
    ],
)
def test_what_cannot_be_read_is_nothing(data: JsonObject | None) -> None:
    assert read_revision(stored(data), "web") is None


def test_a_revision_has_the_name_that_its_set_gives_it_so_no_two_have_one_hash() -> None:
    data = revision_data(drawn(template_of()))
    assert read_revision(stored(data, name="web-2"), "web") is None
    assert read_revision(stored(data), "other") is None


@pytest.mark.parametrize(
    ("number", "read"), [(-(2**63), 0), (-1, 0), (0, 0), (1, 1), (2**53, 2**53), (2**53 + 1, 0), (2**63 - 1, 0)]
)
def test_a_number_that_nobody_can_count_on_from_is_the_lowest(number: int, read: int) -> None:
    found = read_revision(stored(revision_data(drawn(template_of())), number), "web")
    assert found is not None
    assert found.number == read


def test_fields_that_a_later_version_adds_are_no_damage() -> None:
    data = revision_data(drawn(template_of()))
    data["template"]["later"] = {"a": 1}
    assert read_revision(stored(data), "web") is not None


@pytest.mark.parametrize(
    ("other", "is_same"),
    [
        pytest.param(template_of(clique("a"), clique("b")), True, id="itself"),
        pytest.param(template_of(clique("b"), clique("a")), True, id="another order of cliques"),
        pytest.param(template_of(clique("a", spec={"replicas": 9}), clique("b")), True, id="another count"),
        pytest.param(
            template_of(clique("a", pod={"containers": [{"image": "pause", "name": "main"}]}), clique("b")),
            True,
            id="another order of keys",
        ),
        pytest.param(template_of(clique("a", pod=image("v2")), clique("b")), False, id="another image"),
        pytest.param(template_of(clique("a"), clique("b"), priority="high"), False, id="another priority class"),
        pytest.param(template_of(clique("a")), False, id="a clique less"),
        pytest.param(template_of(clique("a"), clique("b"), clique("c")), False, id="a clique more"),
        pytest.param(template_of(clique("a"), clique("c")), False, id="another name"),
    ],
)
def test_two_templates_are_the_same_when_they_make_the_same_pods(other: SetTemplate, is_same: bool) -> None:
    assert makes_same_pods(other, drawn(template_of(clique("a"), clique("b")))) == is_same


def test_hashes_are_names_and_prove_nothing() -> None:
    template = template_of(clique("a"))
    foreign = build_revision(template, {"a": "whatever"}, "something")
    assert makes_same_pods(template, foreign)
    lying = build_revision(template_of(clique("a", pod=image("v2"))), drawn(template).hashes, generation_hash(template))
    assert not makes_same_pods(template, lying)


def test_the_priority_class_of_the_set_is_part_of_every_template() -> None:
    low, high = (template_of(clique("a", pod={"priorityClassName": "own"}), priority=p) for p in ("low", "high"))
    assert not makes_same_pods(high, drawn(low))
    assert with_templates(high, drawn(low)).priority_class_name == "low"


def test_a_revision_put_into_a_set_changes_pod_templates_and_nothing_else() -> None:
    before = template_of(clique("a", pod=image("v1"), labels={"x": "old"}, annotations={"n": "1"}), clique("b"))
    now = template_of(clique("a", pod=image("v2"), spec={"replicas": 7, "minAvailable": 3}), clique("b"), clique("c"))
    found = with_templates(now, drawn(before))
    assert [one.name for one in found.cliques] == ["a", "b", "c"]
    assert (found.cliques[0].spec.replicas, found.cliques[0].spec.min_available) == (7, 3)
    assert (found.cliques[0].labels, found.cliques[0].annotations) == ({"x": "old"}, {"n": "1"})
    assert found.cliques[0].spec.pod_spec == before.cliques[0].spec.pod_spec
    assert found.cliques[2] == now.cliques[2]


def test_put_back_keeps_what_we_do_not_know() -> None:
    old = drawn(template_of(clique("a", pod=image("v1"), labels={"x": "old"})))
    now: JsonObject = {
        "cliques": [
            {
                "name": "a",
                "annotations": {"n": "1"},
                "later": True,
                "spec": {"replicas": 7, "podSpec": image("v2"), "later": 1},
            },
            {"name": "b", "spec": {"podSpec": image("v1")}},
        ],
        "priorityClassName": "high",
        "later": "x",
    }
    assert restore_pod_templates(now, old) == {
        "cliques": [
            {
                "name": "a",
                "labels": {"x": "old"},
                "later": True,
                "spec": {"replicas": 7, "podSpec": old.cliques[0].pod_spec, "later": 1},
            },
            {"name": "b", "spec": {"podSpec": image("v1")}},
        ],
        "later": "x",
    }


def test_what_was_put_back_makes_the_pods_of_before() -> None:
    before = manifest(clique("a", labels={"x": "y"}), clique("b"), template={"priorityClassName": "low"})
    after = manifest(clique("a", pod=image("v2"), annotations={"n": "1"}), clique("b", pod=image("v3")))
    revision = drawn(decoded(before).spec.template)
    again = {**after, "spec": {**after["spec"], "template": restore_pod_templates(after["spec"]["template"], revision)}}
    assert makes_same_pods(decoded(again).spec.template, revision)

"""ControllerRevisions: the store that earlier templates of a set are kept in."""

from typing import Any

import pytest

from grove.api.resources import CONTROLLER_REVISIONS
from grove.api.template_revision import build_revision, read_revision, revision_data
from grove.api.types.meta import JsonObject
from grove.api.types.podclique import PodCliqueSpec
from grove.api.types.podcliqueset import CliqueTemplate, SetTemplate
from grove.kube.client import Client
from tests.conformance.talk import TABLE, Talk, clique, config, owned_by
from tests.conformance.words import SUBDOMAIN

PLURAL = "controllerrevisions"


def revision(name: str, **fields: Any) -> JsonObject:
    return {"metadata": {"name": name}, "revision": 1, "data": {"k": 1}, **fields}


def invalid(name: str, *problems: str) -> tuple[int, str, str]:
    shown = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
    return 422, "Invalid", f'ControllerRevision.apps "{name}" is invalid: {shown}'


# Its number


async def test_a_revision_that_is_asked_for_again_gets_a_higher_number(api: Talk) -> None:
    await api.create(PLURAL, revision("a"))
    answer = await api.merge(api.at(PLURAL, "a"), {"revision": 2})
    assert (answer.status, answer.body["revision"], answer.body["data"]) == (200, 2, {"k": 1})


@pytest.mark.parametrize("fields", [{"data": {}}, {"data": {}, "revision": None}], ids=["left-out", "null"])
async def test_without_a_number_it_is_0(api: Talk, fields: JsonObject) -> None:
    answer = await api.create(PLURAL, {"metadata": {"name": "a"}, **fields})
    assert answer.body["revision"] == 0


NEGATIVE = "revision: Invalid value: -1: must be greater than or equal to 0"


async def test_a_number_is_not_negative(api: Talk) -> None:
    answer = await api.post(api.at(PLURAL), revision("a", revision=-1))
    assert answer.refusal == invalid("a", NEGATIVE)
    await api.create(PLURAL, revision("a"))
    assert (await api.merge(api.at(PLURAL, "a"), {"revision": -1})).refusal == invalid("a", NEGATIVE)


@pytest.mark.parametrize(
    ("number", "what"),
    [("x", "string"), (1.5, "number 1.5"), (2**63, "number 9223372036854775808"), (True, "bool"), ([], "array")],
)
async def test_a_number_is_an_integer(api: Talk, number: Any, what: str) -> None:
    problem = f"json: cannot unmarshal {what} into Go struct field ControllerRevision.revision of type int64"
    answer = await api.post(api.at(PLURAL), revision("a", revision=number))
    message = f'ControllerRevision in version "v1" cannot be handled as a ControllerRevision: {problem}'
    assert answer.refusal == (400, "BadRequest", message)
    await api.create(PLURAL, revision("a"))
    answer = await api.merge(api.at(PLURAL, "a"), {"revision": number})
    assert answer.refusal[:2] == (422, "Invalid")
    assert answer.refusal[2].endswith(problem)


# Its data


@pytest.mark.parametrize(
    ("data", "shown"),
    [({"k": 2}, '{"k":2}'), ([1], "[1]"), (None, "null"), ({"l": 1}, '{"k":1,"l":1}')],
    ids=["other", "list", "none", "more"],
)
async def test_the_data_of_a_revision_stay(api: Talk, data: Any, shown: str) -> None:
    await api.create(PLURAL, revision("a"))
    path = api.at(PLURAL, "a")
    problem = f"data: Invalid value: {shown}: field is immutable"
    assert (await api.merge(path, {"data": data})).refusal == invalid("a", problem)
    assert (await api.merge(path, {"data": data, "revision": -1})).refusal == invalid("a", NEGATIVE, problem)
    assert (await api.get(path)).body["data"] == {"k": 1}


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (None, "data is mandatory"), ([1], "data must be a valid JSON object"),
        ("x", "data must be a valid JSON object"), (False, "data must be a valid JSON object"),
    ],
)  # fmt: skip
async def test_a_revision_has_data(api: Talk, data: Any, problem: str) -> None:
    answer = await api.post(api.at(PLURAL), revision("a", data=data))
    assert answer.refusal == invalid("a", f"data: Required value: {problem}")


async def test_everything_that_is_wrong_is_said_at_once(api: Talk) -> None:
    answer = await api.post(api.at(PLURAL), {"metadata": {"name": "A_"}, "revision": -1})
    name = f'metadata.name: Invalid value: "A_": {SUBDOMAIN}'
    assert answer.refusal == invalid("A_", name, NEGATIVE, "data: Required value: data is mandatory")


@pytest.mark.parametrize("written", [b'{"k": 1}', b'{"k":"a && b"}', b'{"k":"<a>"}'], ids=["space", "and", "angle"])
async def test_data_that_are_written_in_other_words_are_other_data(api: Talk, written: bytes) -> None:
    body = b'{"metadata":{"name":"a"},"revision":1,"data":%s}' % written
    assert (await api.send("POST", api.at(PLURAL), body)).status == 201
    # The patch is applied to the object as Go writes it: without spaces, and with these letters escaped.
    answer = await api.merge(api.at(PLURAL, "a"), {"revision": 2})
    assert answer.refusal[:2] == (422, "Invalid")
    assert answer.refusal[2].endswith("field is immutable")


AWKWARD = ["a && b", "<c>", "\u2028\u2029", '"\\/\t\u0001', "ä𝄞"]


def our_data() -> JsonObject:
    """As the operator writes them, of a template that has everything in it which can be written in several ways."""
    containers = [{"name": "z", "image": "i", "command": AWKWARD, "args": [], "ports": [{"containerPort": 80}]}]
    spec = PodCliqueSpec(
        role_name="r", pod_spec={"containers": containers, "affinity": None, "aFirst": {"b": 1, "a": 2}}
    )
    template = SetTemplate(
        cliques=(CliqueTemplate(name="z", labels={"z": "1", "a": "2"}, annotations={"k&": "<"}, spec=spec),)
    )
    return revision_data(build_revision(template, {"z": "h"}, "g"))


async def test_our_revisions_can_be_renumbered_whatever_is_in_the_template(api: Talk) -> None:
    client = Client(api.transport, api.clock)
    born = await client.create(CONTROLLER_REVISIONS, api.namespace, revision("a-g", data=our_data()))
    again = await client.patch(CONTROLLER_REVISIONS, api.namespace, "a-g", {"revision": 2})
    # People do this with kubectl.
    labelled = await api.strategic(api.at(PLURAL, "a-g"), {"metadata": {"labels": {"mine": "1"}}})
    assert (again.revision, labelled.status) == (2, 200)
    stored = read_revision(again, "a")
    assert stored is not None
    assert again.data == born.data == our_data()
    assert stored.template.cliques[0].pod_spec["containers"][0]["command"] == AWKWARD


async def test_our_revisions_can_be_orphaned_whatever_is_in_the_template(api: Talk) -> None:
    owner = await api.create("podcliques", clique("owner"))
    body = {**revision("a", data=our_data()), "metadata": {"name": "a", "ownerReferences": [owned_by(owner)]}}
    await Client(api.transport, api.clock).create(CONTROLLER_REVISIONS, api.namespace, body)
    await api.seen_by_the_collector(PLURAL, revision("any"))
    await api.delete(api.at("podcliques", "owner"), {"propagationPolicy": "Orphan"})
    await api.until_gone(api.at("podcliques", "owner"))
    found = await api.get(api.at(PLURAL, "a"))
    assert (found.status, found.metadata.get("ownerReferences")) == (200, None)


# Its form


async def test_unknown_fields_of_a_revision_are_named(api: Talk) -> None:
    answer = await api.post(api.at(PLURAL), revision("a", spec={}, status={}), fieldValidation="Strict")
    problem = 'strict decoding error: unknown field "spec", unknown field "status"'
    message = f'ControllerRevision in version "v1" cannot be handled as a ControllerRevision: {problem}'
    assert answer.refusal == (400, "BadRequest", message)
    # Of the data, every field is known.
    assert (await api.post(api.at(PLURAL), revision("a"), fieldValidation="Strict")).status == 201


async def test_a_revision_has_no_status_no_scale_and_no_generation(api: Talk) -> None:
    born = await api.create(PLURAL, revision("a"))
    assert "generation" not in born.metadata
    assert [(await api.get(api.at(PLURAL, "a", part))).status for part in ("status", "scale")] == [404, 404]


async def test_a_row_of_the_table_names_the_controller_with_its_group(api: Talk) -> None:
    owner = await api.create("podcliques", clique("owner"))
    other = await api.create("configmaps", config("other"))
    for name, references in (
        ("a", [owned_by(other), {**owned_by(owner), "controller": True}]),
        ("b", [{**owned_by(other), "controller": True}]),
        ("c", [owned_by(owner)]),
    ):
        await api.create(
            PLURAL, {**revision(name, revision=7), "metadata": {"name": name, "ownerReferences": references}}
        )
    rows = (await api.get(api.at(PLURAL), accept=TABLE)).body["rows"]
    assert [row["cells"][:3] for row in rows] == [
        ["a", "podclique.grove.io/owner", 7], ["b", "configmap/other", 7], ["c", "<none>", 7]
    ]  # fmt: skip


async def test_revisions_are_found_by_name_and_label_and_by_nothing_else(api: Talk) -> None:
    for name in ("a", "b"):
        await api.create(PLURAL, {**revision(name), "metadata": {"name": name, "labels": {"of": name}}})
    assert (await api.get(api.at(PLURAL), labelSelector="of=b")).names == ["b"]
    assert (await api.get(api.at(PLURAL), fieldSelector="metadata.name=a")).names == ["a"]
    answer = await api.get(api.at(PLURAL), fieldSelector="revision=1")
    assert answer.refusal[:2] == (400, "BadRequest")


# Its end


async def test_a_revision_goes_with_its_owner(api: Talk) -> None:
    owner = await api.create("podcliques", clique("owner"))
    metadata = {"name": "a", "ownerReferences": [{**owned_by(owner, is_blocking=True), "controller": True}]}
    await api.create(PLURAL, {**revision("a"), "metadata": metadata})
    await api.delete(api.at("podcliques", "owner"))
    await api.until_gone(api.at(PLURAL, "a"))


async def test_a_revision_is_deleted_only_if_it_is_the_one_that_is_meant(api: Talk) -> None:
    born = await api.create(PLURAL, revision("a"))
    path, uid = api.at(PLURAL, "a"), born.metadata["uid"]
    answer = await api.delete(path, {"preconditions": {"uid": "11111111-2222-4333-a444-555555555555"}})
    assert answer.refusal[:2] == (409, "Conflict")
    answer = await api.delete(path, {"preconditions": {"uid": uid}})
    assert (answer.status, answer.body["status"]) == (200, "Success")
    assert answer.body["details"] == {"name": "a", "group": "apps", "kind": PLURAL, "uid": uid}
    assert (await api.get(path)).refusal == (404, "NotFound", f'{PLURAL}.apps "a" not found')

"""Server-side apply: who owns which field, when two want different things, and what goes with its last owner."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from grove.api.types.meta import JsonObject
from grove.kube.transport import APPLY_PATCH
from tests.conformance.talk import POD_SPEC, Answer, Talk, clique, config, pod
from tests.conformance.words import MODIFIED

GROVE = "grove.io/v1alpha1"


async def apply(api: Talk, path: str, body: Any, manager: str = "alice", **query: str) -> Answer:
    return await api.send("PATCH", path, body, content_type=APPLY_PATCH, query={"fieldManager": manager, **query})


async def applied(api: Talk, body: JsonObject, manager: str = "alice", **query: str) -> Answer:
    """A config map, which must succeed."""
    answer = await apply(api, api.at("configmaps", body["metadata"]["name"]), body, manager, **query)
    assert answer.status in (200, 201), answer.body
    return answer


def owners(answer: Answer) -> dict[str, JsonObject]:
    """Who owns what: manager, operation and, if there is one, subresource."""
    entries = answer.metadata.get("managedFields", [])
    for entry in entries:
        assert entry["fieldsType"] == "FieldsV1"
        assert entry["apiVersion"] == answer.body["apiVersion"]
    return {_who(entry): entry["fieldsV1"] for entry in entries}


def _who(entry: JsonObject) -> str:
    return " ".join(filter(None, (entry["manager"], entry["operation"], entry.get("subresource"))))


def data(*keys: str) -> JsonObject:
    return {"f:data": {f"f:{key}": {} for key in keys}}


def conflicts(*fields: tuple[str, str]) -> JsonObject:
    return {
        "causes": [
            {"reason": "FieldManagerConflict", "message": f"conflict with {who}", "field": field}
            for who, field in fields
        ]
    }


# Creating and merging


async def test_applying_creates_what_is_not_there(api: Talk) -> None:
    answer = await apply(api, api.at("configmaps", "a"), config("a", {"x": "1"}, labels={"l": "1"}))
    assert answer.status == 201
    assert answer.body["data"] == {"x": "1"}
    assert owners(answer) == {"alice Apply": {"f:data": {"f:x": {}}, "f:metadata": {"f:labels": {"f:l": {}}}}}
    # A second may end between the two.
    written, born = map(
        datetime.fromisoformat, (answer.metadata["managedFields"][0]["time"], answer.metadata["creationTimestamp"])
    )
    assert abs(written - born) <= timedelta(seconds=1)


async def test_applying_the_same_again_writes_nothing(api: Talk) -> None:
    first = await applied(api, config("a", {"x": "1"}))
    again = await applied(api, config("a", {"x": "1"}))
    assert (again.status, again.body) == (200, first.body)


async def test_what_others_wrote_stays(api: Talk) -> None:
    await applied(api, config("a", {"x": "1"}))
    answer = await applied(api, config("a", {"y": "2"}), "bob")
    assert answer.body["data"] == {"x": "1", "y": "2"}
    assert owners(answer) == {"alice Apply": data("x"), "bob Apply": data("y")}


async def test_yaml_is_applied_like_json(api: Talk) -> None:
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  since: 2026-01-01\n  n: |\n    1\n    2\n"
    answer = await apply(api, api.at("configmaps", "a"), text)
    assert (answer.status, answer.body["data"]) == (201, {"since": "2026-01-01", "false": "1\n2\n"})


async def test_of_several_documents_the_first_counts(api: Talk) -> None:
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\nkind: Other\n"
    assert (await apply(api, api.at("configmaps", "a"), text)).status == 201


async def test_a_dry_run_shows_what_would_be_and_creates_nothing(api: Talk) -> None:
    path = api.at("configmaps", "a")
    answer = await apply(api, path, config("a", {"x": "1"}), dryRun="All")
    assert (answer.status, owners(answer)) == (201, {"alice Apply": data("x")})
    assert (await api.get(path)).status == 404


async def test_a_dry_run_of_a_change_leaves_everything_as_it_was(api: Talk) -> None:
    before = await applied(api, config("a", {"x": "1"}))
    dry = await applied(api, config("a", {"x": "2"}), "bob", force="true", dryRun="All")
    assert (dry.body["data"], owners(dry)) == ({"x": "2"}, {"bob Apply": data("x")})
    assert (await api.get(api.at("configmaps", "a"))).body == before.body


async def test_a_map_of_nothing_is_owned_itself(api: Talk) -> None:
    await applied(api, config("a", {"x": "1"}))
    answer = await applied(api, config("a", {}), "bob")
    assert (answer.body["data"], owners(answer)["bob Apply"]) == ({"x": "1"}, {"f:data": {}})


async def test_null_for_a_map_is_owned_and_changes_nothing(api: Talk) -> None:
    await applied(api, config("a", {"x": "1"}))
    body = {**config("a"), "data": None}
    answer = await applied(api, body, "bob")
    assert (answer.body["data"], owners(answer)["bob Apply"]) == ({"x": "1"}, {"f:data": {}})


@pytest.mark.parametrize("labels", [None, {}, {"l": "1"}], ids=["null", "empty", "one"])
@pytest.mark.parametrize("kind", ["ConfigMap", "PodClique"])
async def test_metadata_left_out_by_its_only_manager_is_refused(
    api: Talk, kind: str, labels: JsonObject | None
) -> None:
    body = config("a", {"x": "1"}) if kind == "ConfigMap" else clique("a")
    path = api.at("configmaps" if kind == "ConfigMap" else "podcliques", "a")
    created = await apply(api, path, {**body, "metadata": {"name": "a", "labels": labels}})
    assert created.status == 201
    answer = await apply(api, path, {key: value for key, value in body.items() if key != "metadata"})
    why = "the name of the object (a based on URL) was undeterminable: name must be provided"
    assert (answer.status, answer.body["reason"], answer.body["message"]) == (400, "BadRequest", why)
    assert (await api.get(path)).body == created.body


# Conflicts


async def test_another_value_of_an_owned_field_is_a_conflict(api: Talk) -> None:
    await applied(api, config("a", {"x": "1"}))
    answer = await apply(api, api.at("configmaps", "a"), config("a", {"x": "2"}), "bob")
    message = 'Apply failed with 1 conflict: conflict with "alice": .data.x'
    assert answer.refusal == (409, "Conflict", message)
    assert answer.details == conflicts(('"alice"', ".data.x"))


async def test_several_conflicts_are_told_together(api: Talk) -> None:
    await applied(api, config("a", {"x": "1", "y": "1"}))
    await api.merge(api.at("configmaps", "a"), {"data": {"z": "1"}}, fieldManager="carol")
    answer = await apply(api, api.at("configmaps", "a"), config("a", {"x": "2", "y": "2", "z": "2"}), "bob")
    message = (
        'Apply failed with 3 conflicts: conflicts with "alice":\n- .data.x\n- .data.y\n'
        'conflicts with "carol" using v1:\n- .data.z'
    )
    assert answer.refusal == (409, "Conflict", message)
    assert answer.details is not None
    wanted = conflicts(('"alice"', ".data.x"), ('"alice"', ".data.y"), ('"carol" using v1', ".data.z"))
    # A real server takes managers in no particular order.
    assert sorted(answer.details["causes"], key=str) == sorted(wanted["causes"], key=str)


async def test_a_conflict_changes_nothing(api: Talk) -> None:
    before = await applied(api, config("a", {"x": "1"}))
    await apply(api, api.at("configmaps", "a"), config("a", {"x": "2", "y": "1"}), "bob")
    assert (await api.get(api.at("configmaps", "a"))).body == before.body


async def test_with_force_the_field_changes_hands(api: Talk) -> None:
    await applied(api, config("a", {"x": "1", "y": "1"}))
    answer = await applied(api, config("a", {"x": "2"}), "bob", force="true")
    assert answer.body["data"] == {"x": "2", "y": "1"}
    assert owners(answer) == {"alice Apply": data("y"), "bob Apply": data("x")}


async def test_whoever_loses_all_fields_is_forgotten(api: Talk) -> None:
    await applied(api, config("a", {"x": "1"}))
    answer = await applied(api, config("a", {"x": "2"}), "bob", force="true")
    assert owners(answer) == {"bob Apply": data("x")}


async def test_the_same_value_is_owned_together(api: Talk) -> None:
    await applied(api, config("a", {"x": "1"}))
    answer = await applied(api, config("a", {"x": "1"}), "bob")
    assert owners(answer) == {"alice Apply": data("x"), "bob Apply": data("x")}


async def test_of_what_is_owned_together_nobody_can_change_it_alone(api: Talk) -> None:
    await applied(api, config("a", {"x": "1"}))
    await applied(api, config("a", {"x": "1"}), "bob")
    answer = await apply(api, api.at("configmaps", "a"), config("a", {"x": "2"}))
    assert answer.details == conflicts(('"bob"', ".data.x"))


async def test_taking_over_without_changing_anything_has_no_time(api: Talk) -> None:
    await applied(api, config("a", {"x": "1"}))
    answer = await applied(api, config("a", {"x": "1"}), "bob")
    times = {_who(entry): "time" in entry for entry in answer.metadata["managedFields"]}
    assert times == {"alice Apply": True, "bob Apply": False}


# Removal


async def test_what_is_no_longer_applied_goes(api: Talk) -> None:
    await applied(api, config("a", {"x": "1", "y": "1"}, labels={"l": "1"}))
    answer = await applied(api, config("a", {"y": "1"}))
    assert (answer.body["data"], "labels" in answer.metadata) == ({"y": "1"}, False)
    assert owners(answer) == {"alice Apply": data("y")}


async def test_what_another_owns_too_stays(api: Talk) -> None:
    await applied(api, config("a", {"x": "1", "y": "1"}))
    await applied(api, config("a", {"x": "1"}), "bob")
    answer = await applied(api, config("a"))
    assert (answer.body["data"], owners(answer)) == ({"x": "1"}, {"bob Apply": data("x")})


async def test_what_somebody_updated_meanwhile_stays(api: Talk) -> None:
    await applied(api, config("a", {"x": "1", "y": "1"}))
    await api.merge(api.at("configmaps", "a"), {"data": {"x": "2"}}, fieldManager="carol")
    answer = await applied(api, config("a", {"y": "1"}))
    assert answer.body["data"] == {"x": "2", "y": "1"}
    assert owners(answer) == {"alice Apply": data("y"), "carol Update": data("x")}


async def test_the_whole_map_goes_with_its_last_owner(api: Talk) -> None:
    await applied(api, config("a", {"x": "1"}))
    answer = await applied(api, config("a"))
    assert ("data" in answer.body, owners(answer)) == (False, {})


async def test_a_list_of_values_is_owned_value_by_value(api: Talk) -> None:
    await applied(api, config("a", finalizers=["a.b/one", "a.b/two"]))
    answer = await applied(api, config("a", finalizers=["a.b/three", "a.b/one"]), "bob")
    assert answer.metadata["finalizers"] == ["a.b/three", "a.b/one", "a.b/two"]
    answer = await applied(api, config("a"))
    assert answer.metadata["finalizers"] == ["a.b/three", "a.b/one"]
    steps: JsonObject = {'v:"a.b/one"': {}, 'v:"a.b/three"': {}}
    assert owners(answer) == {"bob Apply": {"f:metadata": {"f:finalizers": steps}}}
    await applied(api, config("a"), "bob")


async def test_an_owner_reference_is_owned_as_a_whole(api: Talk) -> None:
    owner = (await api.create("configmaps", config("owner"))).metadata
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["uid"]}
    answer = await applied(api, config("a", ownerReferences=[reference]))
    step = 'k:{"uid":"' + owner["uid"] + '"}'
    assert owners(answer) == {"alice Apply": {"f:metadata": {"f:ownerReferences": {step: {}}}}}


# Writes that do not apply


async def test_a_new_object_belongs_to_whoever_created_it(api: Talk) -> None:
    answer = await api.post(api.at("configmaps"), config("a", {"x": "1"}, labels={"l": "1"}), fieldManager="carol")
    fields: JsonObject = {"f:data": {".": {}, "f:x": {}}, "f:metadata": {"f:labels": {".": {}, "f:l": {}}}}
    assert owners(answer) == {"carol Update": fields}


async def test_a_program_that_does_not_say_who_it_is_is_known_by_its_first_word(api: Talk) -> None:
    answer = await api.create("configmaps", config("a", {"x": "1"}))
    assert list(owners(answer)) == ["grove Update"]


@pytest.mark.parametrize("verb", ["put", "merge", "json", "strategic"])
async def test_every_update_takes_what_it_changes(api: Talk, verb: str) -> None:
    path = api.at("configmaps", "a")
    await applied(api, config("a", {"x": "1", "y": "1"}))
    match verb:
        case "put":
            answer = await api.put(path, config("a", {"x": "2", "z": "1"}), fieldManager="carol")
        case "merge":
            answer = await api.merge(path, {"data": {"x": "2", "y": None, "z": "1"}}, fieldManager="carol")
        case "json":
            answer = await api.json_patch(
                path,
                {"op": "replace", "path": "/data/x", "value": "2"},
                {"op": "remove", "path": "/data/y"},
                {"op": "add", "path": "/data/z", "value": "1"},
                fieldManager="carol",
            )
        case _:
            answer = await api.strategic(path, {"data": {"x": "2", "y": None, "z": "1"}}, fieldManager="carol")
    assert answer.body["data"] == {"x": "2", "z": "1"}
    assert owners(answer) == {"carol Update": data("x", "z")}


async def test_an_update_that_changes_nothing_owns_nothing(api: Talk) -> None:
    before = await applied(api, config("a", {"x": "1"}))
    answer = await api.put(api.at("configmaps", "a"), config("a", {"x": "1"}), fieldManager="carol")
    assert answer.body == before.body


async def test_an_object_of_nothing_is_followed_by_nobody_until_it_is_applied(api: Talk) -> None:
    await api.create("configmaps", config("a"))
    answer = await api.merge(api.at("configmaps", "a"), {"data": {"x": "1"}}, fieldManager="carol")
    assert owners(answer) == {}
    answer = await applied(api, config("a", {"x": "1"}))
    first: JsonObject = {"f:data": {".": {}, "f:x": {}}}
    assert owners(answer) == {"alice Apply": data("x"), "before-first-apply Update": first}


async def test_of_many_who_updated_the_oldest_are_remembered_as_one(api: Talk) -> None:
    await applied(api, config("a", {"x": "1"}))
    for number in range(12):
        patch = {"data": {f"k{number}": "1"}}
        answer = await api.merge(api.at("configmaps", "a"), patch, fieldManager=f"m{number:02}")
    found = owners(answer)
    others = {f"m{number:02} Update": data(f"k{number}") for number in range(3, 12)}
    assert found == {"alice Apply": data("x"), "ancient-changes Update": data("k0", "k1", "k2"), **others}


async def test_managed_fields_are_shown_in_lists_and_watches(api: Talk) -> None:
    made = await applied(api, config("a", {"x": "1"}))
    listed = await api.get(api.at("configmaps"), fieldSelector="metadata.name=a")
    assert listed.body["items"][0]["metadata"] == made.metadata
    async with api.watch(api.at("configmaps"), fieldSelector="metadata.name=a") as watched:
        assert (await watched.event())["object"]["metadata"] == made.metadata


# managedFields in a request


async def test_managed_fields_cannot_be_applied(api: Talk) -> None:
    answer = await apply(api, api.at("configmaps", "a"), config("a", managedFields=[]))
    assert answer.refusal == (400, "BadRequest", "metadata.managedFields must be nil")


@pytest.mark.parametrize("nothing", [[], [{}]], ids=["no-entry", "empty-entry"])
@pytest.mark.parametrize("verb", ["put", "merge"])
async def test_an_empty_list_takes_all_owners_away(api: Talk, nothing: Any, verb: str) -> None:
    await applied(api, config("a", {"x": "1"}))
    path = api.at("configmaps", "a")
    if verb == "put":
        answer = await api.put(path, config("a", {"x": "1"}, managedFields=nothing))
    else:
        answer = await api.merge(path, {"metadata": {"managedFields": nothing}})
    assert (answer.status, "managedFields" in answer.metadata) == (200, False)
    answer = await api.merge(path, {"data": {"y": "1"}}, fieldManager="carol")
    assert owners(answer) == {}


async def test_null_does_not_take_owners_away(api: Talk) -> None:
    before = await applied(api, config("a", {"x": "1"}))
    answer = await api.merge(api.at("configmaps", "a"), {"metadata": {"managedFields": None}})
    assert answer.metadata["managedFields"] == before.metadata["managedFields"]


async def test_an_update_may_say_who_owns_what(api: Talk) -> None:
    await applied(api, config("a", {"x": "1", "y": "1"}))
    entry = {
        "manager": "dave", "operation": "Update", "apiVersion": "v1", "time": "2020-01-01T00:00:00Z",
        "fieldsType": "FieldsV1", "fieldsV1": data("x"),
    }  # fmt: skip
    answer = await api.put(api.at("configmaps", "a"), config("a", {"x": "1", "y": "1"}, managedFields=[entry]))
    assert (answer.status, answer.metadata["managedFields"]) == (200, [entry])


async def test_a_json_patch_can_rename_an_owner(api: Talk) -> None:
    await applied(api, config("a", {"x": "1"}))
    path = api.at("configmaps", "a")
    answer = await api.json_patch(path, {"op": "replace", "path": "/metadata/managedFields/0/manager", "value": "eve"})
    assert owners(answer) == {"eve Apply": data("x")}


@pytest.mark.parametrize(
    "entry",
    [
        {"manager": "x", "operation": "Guess", "apiVersion": "v1", "fieldsType": "FieldsV1",
         "fieldsV1": {"f:data": {}}},
        {"manager": "x", "operation": "Update", "apiVersion": "v1", "fieldsType": "V2", "fieldsV1": {"f:data": {}}},
        {"manager": "x", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
         "fieldsV1": {"k:nothing": {}}},
    ],
    ids=["operation", "form", "fields"],
)  # fmt: skip
async def test_what_says_nothing_about_owners_is_ignored(api: Talk, entry: JsonObject) -> None:
    before = await applied(api, config("a", {"x": "1"}))
    answer = await api.put(api.at("configmaps", "a"), config("a", {"x": "1"}, managedFields=[entry]))
    assert answer.body == before.body


async def test_owners_cannot_be_changed_through_the_status(api: Talk) -> None:
    made = await api.post(api.at("pods"), pod("a"), fieldManager="carol")
    path = api.at("pods", "a", "status")
    answer = await api.put(path, {**made.body, "metadata": {**made.metadata, "managedFields": [{}]}})
    assert answer.metadata["managedFields"] == made.metadata["managedFields"]


# What is refused


async def test_who_applies_must_say_who_he_is(api: Talk) -> None:
    path = api.at("configmaps", "a")
    answer = await api.send("PATCH", path, config("a"), content_type=APPLY_PATCH)
    message = 'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch'
    assert answer.refusal == (422, "Invalid", message)


async def test_force_is_for_those_who_apply(api: Talk) -> None:
    await api.create("configmaps", config("a"))
    answer = await api.merge(api.at("configmaps", "a"), {"data": {"x": "1"}}, force="true")
    message = 'PatchOptions.meta.k8s.io "" is invalid: force: Forbidden: may not be specified for non-apply patch'
    assert answer.refusal == (422, "Invalid", message)


@pytest.mark.parametrize("verb", ["post", "put", "apply"])
@pytest.mark.parametrize(
    ("manager", "problem"),
    [
        ("x" * 129, "Too long: may not be more than 128 bytes"),
        ("x\ty", 'Invalid value: "x\\ty": invalid character U+0009 (at position 1)'),
    ],
    ids=["long", "tab"],
)
async def test_a_manager_has_a_name_that_can_be_read(api: Talk, verb: str, manager: str, problem: str) -> None:
    path, body = api.at("configmaps", "a"), config("a", {"x": "1"})
    match verb:
        case "post":
            options, answer = "CreateOptions", await api.post(api.at("configmaps"), body, fieldManager=manager)
        case "put":
            options, answer = "UpdateOptions", await api.put(path, body, fieldManager=manager)
        case _:
            options, answer = "PatchOptions", await apply(api, path, body, manager)
    message = f'{options}.meta.k8s.io "" is invalid: fieldManager: {problem}'
    assert answer.refusal == (422, "Invalid", message)


@pytest.mark.parametrize(
    ("head", "shown"),
    [
        ({"apiVersion": "v1", "kind": "Secret"}, "/v1, Kind=Secret"),
        ({"apiVersion": "v2", "kind": "ConfigMap"}, "/v2, Kind=ConfigMap"),
        ({"kind": "ConfigMap"}, "/, Kind=ConfigMap"),
        ({}, "/, Kind="),
    ],
    ids=["kind", "version", "no-version", "nothing"],
)
async def test_an_applied_object_says_what_it_is(api: Talk, head: JsonObject, shown: str) -> None:
    answer = await apply(api, api.at("configmaps", "a"), {**head, "metadata": {"name": "a"}})
    assert answer.refusal == (400, "BadRequest", f"invalid object type: {shown}")


async def test_an_applied_object_has_the_name_of_its_path(api: Talk) -> None:
    message = "the name of the object (b) does not match the name on the URL (a)"
    for _ in range(2):
        answer = await apply(api, api.at("configmaps", "a"), config("b"))
        assert answer.refusal == (400, "BadRequest", message)
        await applied(api, config("a", {"x": "1"}))


async def test_a_new_object_needs_a_name_and_an_old_one_has_it(api: Talk) -> None:
    path, body = api.at("configmaps", "a"), {"apiVersion": "v1", "kind": "ConfigMap", "data": {"x": "1"}}
    message = "the name of the object (a based on URL) was undeterminable: name must be provided"
    for nameless in (body, {**body, "metadata": None}, {**body, "metadata": {}}):
        answer = await apply(api, path, nameless)
        assert answer.refusal == (400, "BadRequest", message)
    await api.create("configmaps", config("a"))
    assert (await apply(api, path, body)).status == 200


async def test_an_applied_object_stays_in_its_namespace(api: Talk) -> None:
    answer = await apply(api, api.at("configmaps", "a"), config("a", namespace="elsewhere"))
    message = "the namespace of the provided object does not match the namespace sent on the request"
    assert answer.refusal == (400, "BadRequest", message)


async def test_an_old_version_is_a_conflict(api: Talk) -> None:
    first = await applied(api, config("a", {"x": "1"}))
    await applied(api, config("a", {"x": "2"}))
    body = config("a", {"x": "3"}, resourceVersion=first.metadata["resourceVersion"])
    answer = await apply(api, api.at("configmaps", "a"), body)
    assert answer.refusal == (409, "Conflict", f'Operation cannot be fulfilled on configmaps "a": {MODIFIED}')


async def test_the_version_of_what_is_not_there_does_not_matter(api: Talk) -> None:
    assert (await apply(api, api.at("configmaps", "a"), config("a", resourceVersion="1"))).status == 201


async def test_a_uid_cannot_be_chosen(api: Talk) -> None:
    await api.create("configmaps", config("a"))
    answer = await apply(api, api.at("configmaps", "a"), config("a", uid="1"))
    message = 'ConfigMap "a" is invalid: metadata.uid: Invalid value: "1": field is immutable'
    assert answer.refusal == (422, "Invalid", message)


async def test_what_is_known_by_its_uid_is_not_created_again(api: Talk) -> None:
    answer = await apply(api, api.at("configmaps", "a"), config("a", uid="1"))
    why = "uid mismatch: the provided object specified uid 1, and no existing object was found"
    assert answer.refusal == (409, "Conflict", f'Operation cannot be fulfilled on configmaps "a": {why}')


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"{a: b", "error decoding patch: error converting YAML to JSON: yaml: "),
        (b"a: [", "error encoding patch: yaml: "),
        (b"\ta: b", "error encoding patch: yaml: "),
        (b"? [a]\n: b", "error encoding patch: yaml: "),
        (b"a: &x [*x]", "error encoding patch: yaml: "),
    ],
)
async def test_what_is_no_yaml_is_refused(api: Talk, body: bytes, words: str) -> None:
    code, reason, message = (await apply(api, api.at("configmaps", "a"), body)).refusal
    assert (code, reason) == (400, "BadRequest")
    assert message.startswith(words)


@pytest.mark.parametrize("body", [b"- a", b"text", b"7"])
async def test_what_is_no_object_is_refused(api: Talk, body: bytes) -> None:
    code, reason, message = (await apply(api, api.at("configmaps", "a"), body)).refusal
    assert (code, reason) == (400, "BadRequest")
    assert message.startswith("error decoding patch: error unmarshaling JSON: while decoding JSON: json: ")


TWICE = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  x: '1'\n  x: '2'\n"


async def test_of_a_key_that_stands_twice_the_last_counts_with_a_warning(api: Talk) -> None:
    answer = await apply(api, api.at("configmaps", "a"), TWICE)
    assert (answer.status, answer.body["data"]) == (201, {"x": "2"})
    assert answer.warnings == ['299 - "line 7: key \\"x\\" already set in map"']


async def test_a_key_that_stands_twice_is_refused_to_strict_clients(api: Talk) -> None:
    answer = await apply(api, api.at("configmaps", "a"), TWICE, fieldValidation="Strict")
    message = (
        "error strict decoding patch: error converting YAML to JSON: yaml: unmarshal errors:\n"
        '  line 7: key "x" already set in map'
    )
    assert answer.refusal == (400, "BadRequest", message)


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"colour": "red"}, ".colour: field not declared in schema"),
        ({"metadata": {"name": "a", "colour": "red"}}, ".metadata.colour: field not declared in schema"),
        ({"metadata": {"name": "a", "finalizers": ["a/b", "a/b"]}},
         '.metadata.finalizers: duplicate entries for key [="a/b"]'),
    ],
    ids=["unknown", "deep", "twice"],
)  # fmt: skip
async def test_what_does_not_fit_the_kind_is_named(api: Talk, more: JsonObject, problem: str) -> None:
    answer = await apply(api, api.at("configmaps", "a"), {**config("a"), **more})
    assert answer.body["message"] == f"failed to create typed patch object (/a; /v1, Kind=ConfigMap): {problem}"


async def test_what_does_not_fit_the_kind_is_a_mistake_of_the_server(api: Talk) -> None:
    answer = await apply(api, api.at("configmaps", "a"), {**config("a"), "colour": "red"})
    assert answer.status == 500


async def test_an_applied_object_must_be_valid(api: Talk) -> None:
    answer = await apply(api, api.at("configmaps", "a"), config("a", labels={"a b": "c"}))
    assert answer.refusal[:2] == (422, "Invalid")


async def test_nothing_is_applied_into_a_namespace_that_is_not_there(api: Talk) -> None:
    answer = await apply(api, api.at("configmaps", "a", namespace="nowhere"), config("a"))
    assert answer.refusal == (404, "NotFound", 'namespaces "nowhere" not found')


# Pods: lists with keys, parts that are taken as a whole, and the status


async def test_a_pod_is_owned_with_its_defaults_by_whoever_created_it(api: Talk) -> None:
    spec = {
        "containers": [
            {"name": "m", "image": "i:1", "ports": [{"containerPort": 80}], "env": [{"name": "A", "value": "b"}]}
        ],
        "nodeSelector": {"a": "b"},
        "schedulingGates": [{"name": "g/x"}],
    }
    answer = await api.post(api.at("pods"), pod("a", spec=spec), fieldManager="carol")
    container: JsonObject = {
        ".": {}, "f:name": {}, "f:image": {}, "f:imagePullPolicy": {}, "f:resources": {},
        "f:terminationMessagePath": {}, "f:terminationMessagePolicy": {},
        "f:env": {".": {}, 'k:{"name":"A"}': {".": {}, "f:name": {}, "f:value": {}}},
        "f:ports": {
            ".": {}, 'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:containerPort": {}, "f:protocol": {}}
        },
    }  # fmt: skip
    fields: JsonObject = {
        "f:automountServiceAccountToken": {}, "f:containers": {'k:{"name":"m"}': container}, "f:dnsPolicy": {},
        "f:enableServiceLinks": {}, "f:nodeSelector": {}, "f:restartPolicy": {}, "f:schedulerName": {},
        "f:schedulingGates": {".": {}, 'k:{"name":"g/x"}': {".": {}, "f:name": {}}}, "f:securityContext": {},
        "f:terminationGracePeriodSeconds": {},
    }  # fmt: skip
    assert owners(answer) == {"carol Update": {"f:spec": fields}}


async def test_an_applied_pod_is_owned_without_its_defaults(api: Talk) -> None:
    spec = {"containers": [{"name": "m", "image": "i:1", "ports": [{"containerPort": 80}]}]}
    answer = await apply(api, api.at("pods", "a"), pod("a", spec=spec))
    ports: JsonObject = {'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:containerPort": {}}}
    container: JsonObject = {".": {}, "f:name": {}, "f:image": {}, "f:ports": ports}
    fields: JsonObject = {
        "f:automountServiceAccountToken": {}, "f:containers": {'k:{"name":"m"}': container}, "f:schedulerName": {},
    }  # fmt: skip
    assert (answer.status, owners(answer)) == (201, {"alice Apply": {"f:spec": fields}})


async def test_containers_are_known_by_their_names(api: Talk) -> None:
    await api.post(api.at("pods"), pod("a"), fieldManager="carol")
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
            "spec": {"containers": [{"name": "main", "image": "registry.example/other:1"}]}}  # fmt: skip
    answer = await apply(api, api.at("pods", "a"), body)
    field = '.spec.containers[name="main"].image'
    assert answer.details == conflicts(('"carol" using v1', field))
    answer = await apply(api, api.at("pods", "a"), body, force="true")
    container: JsonObject = {".": {}, "f:name": {}, "f:image": {}}
    mine = {"f:spec": {"f:containers": {'k:{"name":"main"}': container}}}
    assert (answer.status, answer.metadata["generation"], owners(answer)["alice Apply"]) == (200, 2, mine)
    assert [each["image"] for each in answer.spec["containers"]] == ["registry.example/other:1"]


async def test_two_containers_of_one_name_cannot_be_applied(api: Talk) -> None:
    spec = {"containers": [{"name": "m", "image": "i"}, {"name": "m", "image": "i"}]}
    answer = await apply(api, api.at("pods", "a"), pod("a", spec=spec))
    problem = '.spec.containers: duplicate entries for key [name="m"]'
    assert answer.body["message"] == f"failed to create typed patch object (/a; /v1, Kind=Pod): {problem}"


async def test_what_is_taken_as_a_whole_is_a_conflict_as_a_whole(api: Talk) -> None:
    gated = {"nodeSelector": {"a": "b"}, "schedulingGates": [{"name": "g/x"}]}
    await api.post(api.at("pods"), pod("a", spec=gated), fieldManager="carol")
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a"},
        "spec": {"nodeSelector": {"a": "b", "c": "d"}},
    }
    answer = await apply(api, api.at("pods", "a"), body)
    assert answer.details == conflicts(('"carol" using v1', ".spec.nodeSelector"))


CONDITION = {
    "type": "Mine", "status": "True", "lastProbeTime": None, "lastTransitionTime": "2026-01-01T00:00:00Z",
}  # fmt: skip


def pod_status(**status: Any) -> JsonObject:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "status": status}


async def test_a_status_has_owners_of_its_own(api: Talk) -> None:
    await api.post(api.at("pods"), pod("a"), fieldManager="carol")
    path = api.at("pods", "a", "status")
    await api.strategic(path, {"status": {"phase": "Running", "podIP": "10.1.2.3"}}, fieldManager="carol")
    answer = await apply(api, path, pod_status(phase="Failed", conditions=[{"type": "Mine", "status": "True"}]))
    who = '"carol" with subresource "status" using v1'
    assert answer.refusal[2] == f"Apply failed with 1 conflict: conflict with {who}: .status.phase"
    answer = await apply(api, path, pod_status(conditions=[{"type": "Mine", "status": "True"}]))
    found = owners(answer)
    assert found["alice Apply status"] == {
        "f:status": {"f:conditions": {'k:{"type":"Mine"}': {".": {}, "f:status": {}, "f:type": {}}}}
    }
    assert found["carol Update status"]["f:status"]["f:phase"] == {}
    assert set(found) == {"alice Apply status", "carol Update status", "carol Update"}


async def test_a_status_is_applied_there_only(api: Talk) -> None:
    await api.post(api.at("pods"), pod("a"), fieldManager="carol")
    answer = await apply(api, api.at("pods", "a"), {**pod("a"), "status": {"phase": "Failed"}})
    assert answer.body["status"]["phase"] == "Pending"
    assert list(owners(answer)["alice Apply"]) == ["f:spec"]
    spec = {"spec": {"schedulerName": "other"}}
    answer = await apply(api, api.at("pods", "a", "status"), {**pod_status(phase="Running"), **spec})
    assert (answer.body["status"]["phase"], answer.spec["schedulerName"]) == ("Running", "nobody")
    assert owners(answer)["alice Apply status"] == {"f:status": {"f:phase": {}}}


async def test_conditions_come_and_go_with_those_who_apply_them(api: Talk) -> None:
    await api.post(api.at("pods"), pod("a"), fieldManager="carol")
    path = api.at("pods", "a", "status")
    await apply(api, path, pod_status(conditions=[{"type": "One", "status": "True"}]))
    answer = await apply(api, path, pod_status(conditions=[{"type": "Two", "status": "True"}]), "bob")
    assert [each["type"] for each in answer.body["status"]["conditions"]] == ["One", "Two"]
    answer = await apply(api, path, pod_status(conditions=[]))
    assert [each["type"] for each in answer.body["status"]["conditions"]] == ["Two"]


async def test_the_status_of_what_is_not_there_cannot_be_applied(api: Talk) -> None:
    answer = await apply(api, api.at("pods", "a", "status"), pod_status(phase="Failed"))
    assert answer.refusal == (404, "NotFound", 'pods "a" not found')


async def test_a_binding_owns_nothing(api: Talk) -> None:
    made = await api.post(api.at("pods"), pod("a"), fieldManager="carol")
    binding = {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "somewhere"}}
    assert (await api.post(api.at("pods", "a", "binding"), binding)).status == 201
    bound = await api.get(api.at("pods", "a"))
    assert bound.spec["nodeName"] == "somewhere"
    assert bound.metadata["managedFields"] == made.metadata["managedFields"]


async def test_a_deletion_owns_nothing(api: Talk) -> None:
    made = await applied(api, config("a", {"x": "1"}, finalizers=["a.b/c"]))
    answer = await api.delete(api.at("configmaps", "a"))
    assert answer.metadata["managedFields"] == made.metadata["managedFields"]
    await applied(api, config("a"))
    assert (await api.get(api.at("configmaps", "a"))).status == 404


# Other built-in kinds


_REVISION = {"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": "a"},
             "data": {"a": {"b": 1}}, "revision": 3}  # fmt: skip
_LEASE = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a"},
          "spec": {"holderIdentity": "me", "leaseDurationSeconds": 3}}  # fmt: skip
_SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"},
            "spec": {"clusterIP": "None", "selector": {"a": "b"}, "ports": [{"port": 1}]}}  # fmt: skip
_QUOTA = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "a"}, "spec": {"hard": {"pods": "9"}}}
_SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "stringData": {"a": "b"}}
_ACCOUNT = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}}
_AUTOSCALER = {
    "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "a"},
    "spec": {
        "maxReplicas": 3, "minReplicas": 1, "scaleTargetRef": {"kind": "PodClique", "apiVersion": GROVE, "name": "x"},
        "metrics": [{"type": "Resource",
                     "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 5}}}],
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("plural", "body", "fields"),
    [
        ("controllerrevisions", _REVISION, {"f:data": {}, "f:revision": {}}),
        ("leases", _LEASE, {"f:spec": {"f:holderIdentity": {}, "f:leaseDurationSeconds": {}}}),
        ("resourcequotas", _QUOTA, {"f:spec": {"f:hard": {".": {}, "f:pods": {}}}}),
        ("secrets", _SECRET, {"f:data": {".": {}, "f:a": {}}, "f:type": {}}),
        ("serviceaccounts", _ACCOUNT, None),
        (
            "services",
            _SERVICE,
            {
                "f:spec": {
                    "f:clusterIP": {}, "f:internalTrafficPolicy": {}, "f:selector": {}, "f:sessionAffinity": {},
                    "f:type": {},
                    "f:ports": {".": {}, 'k:{"port":1,"protocol":"TCP"}': {
                        ".": {}, "f:port": {}, "f:protocol": {}, "f:targetPort": {}}},
                }
            },
        ),
        (
            "horizontalpodautoscalers",
            _AUTOSCALER,
            {
                "f:spec": {
                    "f:maxReplicas": {}, "f:metrics": {}, "f:minReplicas": {},
                    "f:scaleTargetRef": {"f:apiVersion": {}, "f:kind": {}, "f:name": {}},
                }
            },
        ),
    ],
)  # fmt: skip
async def test_a_new_object_of_a_built_in_kind_belongs_to_its_creator(
    api: Talk, plural: str, body: JsonObject, fields: JsonObject | None
) -> None:
    answer = await api.post(api.at(plural), body, fieldManager="carol")
    assert answer.status == 201, answer.body
    assert owners(answer) == ({} if fields is None else {"carol Update": fields})


async def test_an_event_belongs_to_its_creator(api: Talk) -> None:
    body = {
        "metadata": {"name": "a"}, "reason": "r", "message": "m", "type": "Normal", "source": {"component": "c"},
        "involvedObject": {"kind": "Pod", "namespace": api.namespace, "name": "p"},
    }  # fmt: skip
    answer = await api.post(api.at("events"), body, fieldManager="carol")
    fields: JsonObject = {
        "f:involvedObject": {},
        "f:message": {},
        "f:reason": {},
        "f:source": {"f:component": {}},
        "f:type": {},
    }
    assert owners(answer) == {"carol Update": fields}


async def test_the_name_label_of_a_namespace_belongs_to_its_creator(api: Talk) -> None:
    name = f"{api.namespace}-new"
    answer = await api.post(api.at("namespaces"), {"metadata": {"name": name}}, fieldManager="carol")
    labels: JsonObject = {".": {}, "f:kubernetes.io/metadata.name": {}}
    assert owners(answer) == {"carol Update": {"f:metadata": {"f:labels": labels}}}


async def test_ports_of_a_service_are_merged_by_port_and_protocol(api: Talk) -> None:
    path = api.at("services", "a")

    def service(*ports: JsonObject) -> JsonObject:
        return {**_SERVICE, "spec": {"clusterIP": "None", "ports": list(ports)}}

    await apply(api, path, service({"name": "one", "port": 1}, {"name": "two", "port": 2}))
    answer = await apply(api, path, service({"name": "three", "port": 3}, {"name": "two", "port": 2}), "bob")
    assert [port["name"] for port in answer.spec["ports"]] == ["one", "three", "two"]
    answer = await apply(api, path, service({"name": "one", "port": 1}))
    assert [port["name"] for port in answer.spec["ports"]] == ["one", "three", "two"]
    answer = await apply(api, path, service({"name": "three", "port": 3}), "bob")
    assert [port["name"] for port in answer.spec["ports"]] == ["one", "three"]


# Custom kinds


async def test_a_custom_object_is_owned_from_its_spec_down(api: Talk) -> None:
    answer = await api.post(api.at("podcliques"), clique("a", labels={"l": "1"}), fieldManager="carol")
    container: JsonObject = {".": {}, "f:image": {}, "f:name": {}}
    fields: JsonObject = {
        "f:metadata": {"f:labels": {".": {}, "f:l": {}}},
        "f:spec": {
            ".": {},
            "f:podSpec": {".": {}, "f:containers": {".": {}, 'k:{"name":"main"}': container}},
            "f:replicas": {},
            "f:roleName": {},
        },
    }
    found = owners(answer)
    assert list(found) == ["carol Update"]
    assert {step: found["carol Update"]["f:spec"].get(step) for step in fields["f:spec"]} == fields["f:spec"]
    assert found["carol Update"]["f:metadata"] == fields["f:metadata"]


async def test_an_applied_custom_object_is_owned_as_it_was_sent(api: Talk) -> None:
    answer = await apply(api, api.at("podcliques", "a"), clique("a"))
    container: JsonObject = {".": {}, "f:image": {}, "f:name": {}}
    spec = {
        "f:podSpec": {"f:containers": {'k:{"name":"main"}': container}}, "f:replicas": {}, "f:roleName": {},
    }  # fmt: skip
    assert (answer.status, owners(answer)) == (201, {"alice Apply": {"f:spec": spec}})
    assert answer.metadata["generation"] == 1


async def test_lists_inside_custom_objects_are_merged_by_their_keys(api: Talk) -> None:
    path = api.at("podcliques", "a")

    def having(*containers: JsonObject) -> JsonObject:
        return {**clique("a"), "spec": {"podSpec": {"containers": list(containers)}}}

    await apply(api, path, clique("a"))
    answer = await apply(api, path, having({"name": "main", "env": [{"name": "A", "value": "1"}]}), "bob")
    image = POD_SPEC["containers"][0]["image"]
    expected = {"name": "main", "image": image, "env": [{"name": "A", "value": "1"}]}
    assert answer.spec["podSpec"]["containers"] == [expected]
    answer = await apply(api, path, having({"name": "side", "image": "i"}), "bob")
    names = [container["name"] for container in answer.spec["podSpec"]["containers"]]
    assert (names, "env" in answer.spec["podSpec"]["containers"][0]) == (["main", "side"], False)


async def test_a_changed_spec_is_a_new_generation_and_a_changed_owner_is_not(api: Talk) -> None:
    path = api.at("podcliques", "a")
    first = await apply(api, path, clique("a"))
    shared = await apply(api, path, clique("a"), "bob")
    assert shared.metadata["resourceVersion"] != first.metadata["resourceVersion"]
    assert shared.metadata["generation"] == 1
    changed = await apply(api, path, clique("a", spec={"replicas": 2}), force="true")
    assert changed.metadata["generation"] == 2


async def test_the_status_of_a_custom_object_is_applied_apart(api: Talk) -> None:
    await apply(api, api.at("podcliques", "a"), clique("a"))
    body = {"apiVersion": GROVE, "kind": "PodClique", "metadata": {"name": "a", "labels": {"l": "1"}},
            "spec": {"replicas": 7}, "status": {"replicas": 3}}  # fmt: skip
    answer = await apply(api, api.at("podcliques", "a", "status"), body, "bob")
    assert (answer.status, answer.body["status"]["replicas"], answer.spec["replicas"]) == (200, 3, 1)
    assert "labels" not in answer.metadata
    assert owners(answer)["bob Apply status"] == {"f:status": {"f:replicas": {}}}


async def test_unknown_fields_of_a_custom_object_cannot_be_applied(api: Talk) -> None:
    answer = await apply(api, api.at("podcliques", "a"), clique("a", spec={"colour": "red"}))
    place = f"(/a; {GROVE}, Kind=PodClique)"
    assert (
        answer.body["message"]
        == f"failed to create typed patch object {place}: .spec.colour: field not declared in schema"
    )


async def test_a_custom_object_must_be_valid(api: Talk) -> None:
    body = clique("a")
    del body["spec"]["podSpec"]
    answer = await apply(api, api.at("podcliques", "a"), {**body, "spec": {"replicas": -1, "roleName": "x"}})
    assert answer.refusal[:2] == (422, "Invalid")


async def test_scaling_takes_the_number_over(api: Talk) -> None:
    await apply(api, api.at("podcliques", "a"), clique("a"))
    scale = await api.merge(api.at("podcliques", "a", "scale"), {"spec": {"replicas": 5}}, fieldManager="carol")
    assert scale.status == 200
    answer = await api.get(api.at("podcliques", "a"))
    found = owners(answer)
    assert found["carol Update scale"] == {"f:spec": {"f:replicas": {}}}
    assert "f:replicas" not in found["alice Apply"]["f:spec"]
    answer = await apply(api, api.at("podcliques", "a"), clique("a"))
    who = f'"carol" with subresource "scale" using {GROVE}'
    assert answer.details == conflicts((who, ".spec.replicas"))

"""PUT and the three kinds of PATCH: what may change, what must fit, and what is said when it does not."""

from typing import Any

import pytest

from grove.kube.api_errors import ApiError
from grove.kube.transport import JSON_PATCH, MERGE_PATCH
from tests.conformance.talk import Talk, clique, config, pod
from tests.conformance.words import MODIFIED, REJECTED

UNDETERMINABLE = "the name of the object (a based on URL) was undeterminable: name must be provided"
OTHER_NAMESPACE = "the namespace of the provided object does not match the namespace sent on the request"


async def test_a_replacement_replaces_everything(api: Talk) -> None:
    await api.create("configmaps", config("a", {"k": "v"}, labels={"x": "1"}))
    answer = await api.put(api.at("configmaps", "a"), config("a", {"k": "w"}))
    assert (answer.status, answer.body["data"]) == (200, {"k": "w"})
    assert "labels" not in answer.metadata


async def test_a_replacement_of_a_version_that_is_past_conflicts(api: Talk) -> None:
    old = await api.create("configmaps", config("a"))
    await api.merge(api.at("configmaps", "a"), {"data": {"k": "v"}})
    answer = await api.put(api.at("configmaps", "a"), config("a", resourceVersion=old.metadata["resourceVersion"]))
    assert answer.refusal == (409, "Conflict", f'Operation cannot be fulfilled on configmaps "a": {MODIFIED}')
    assert answer.details == {"name": "a", "kind": "configmaps"}


async def test_a_replacement_of_another_object_of_that_name_conflicts(api: Talk) -> None:
    uid = (await api.create("configmaps", config("a"))).metadata["uid"]
    answer = await api.put(api.at("configmaps", "a"), config("a", uid="other"))
    assert answer.refusal == (
        409, "Conflict",
        ('Operation cannot be fulfilled on configmaps "a": StorageError: invalid object, Code: 4, Key: '
        f"/registry/configmaps/{api.namespace}/a, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: "
        f"UID in precondition: other, UID in object meta: {uid}"),
    )  # fmt: skip


async def test_a_custom_replacement_of_another_object_of_that_name_conflicts(api: Talk) -> None:
    born = await api.create("podcliques", clique("a"))
    body = clique("a", uid="other", resourceVersion=born.metadata["resourceVersion"])
    answer = await api.put(api.at("podcliques", "a"), body)
    assert answer.refusal[:2] == (409, "Conflict")
    assert f"Key: /registry/grove.io/podcliques/{api.namespace}/a, ResourceVersion: 0," in answer.refusal[2]


async def test_a_replacement_without_change_is_no_new_version(api: Talk) -> None:
    born = await api.create("configmaps", config("a", {"k": "v"}))
    answer = await api.put(api.at("configmaps", "a"), config("a", {"k": "v"}))
    assert answer.metadata["resourceVersion"] == born.metadata["resourceVersion"]


IDENTITIES: list[Any] = [
    (config("b"), "the name of the object (b) does not match the name on the URL (a)"),
    ({"metadata": {}}, UNDETERMINABLE),
    (config("a", namespace="other"), OTHER_NAMESPACE),
]


@pytest.mark.parametrize(("body", "message"), IDENTITIES)
async def test_a_replacement_is_of_what_the_path_names(api: Talk, body: Any, message: str) -> None:
    await api.create("configmaps", config("a"))
    assert (await api.put(api.at("configmaps", "a"), body)).refusal == (400, "BadRequest", message)


async def test_nothing_is_created_by_a_replacement(api: Talk) -> None:
    answer = await api.put(api.at("configmaps", "a"), config("a"))
    assert answer.refusal == (404, "NotFound", 'configmaps "a" not found')


@pytest.mark.parametrize("plural", ["podcliques", "leases"])
@pytest.mark.parametrize("version", [None, "0"])
async def test_some_kinds_are_not_replaced_blindly(api: Talk, plural: str, version: str | None) -> None:
    body = clique("a") if plural == "podcliques" else {"metadata": {"name": "a"}}
    await api.create(plural, body)
    body = {**body, "metadata": {"name": "a", **({} if version is None else {"resourceVersion": version})}}
    group = "grove.io" if plural == "podcliques" else "coordination.k8s.io"
    answer = await api.put(api.at(plural, "a"), body)
    problem = "metadata.resourceVersion: Invalid value: 0: must be specified for an update"
    assert answer.refusal == (422, "Invalid", f'{plural}.{group} "a" is invalid: {problem}')
    assert answer.details is not None
    assert (answer.details["group"], answer.details["kind"]) == (group, plural)


@pytest.mark.parametrize("verb", ["PUT", "PATCH"])
async def test_the_time_of_creation_stays_whatever_is_sent(api: Talk, verb: str) -> None:
    born = await api.create("configmaps", config("a"))
    change = {"metadata": {"name": "a", "creationTimestamp": "2020-01-01T00:00:00Z"}, "data": {"k": "v"}}
    path = api.at("configmaps", "a")
    answer = await api.put(path, change) if verb == "PUT" else await api.merge(path, change)
    assert (answer.status, answer.body["data"]) == (200, {"k": "v"})
    assert answer.metadata["creationTimestamp"] == born.metadata["creationTimestamp"]


async def test_an_object_cannot_be_deleted_by_writing_a_time(api: Talk) -> None:
    await api.create("configmaps", config("a"))
    answer = await api.merge(api.at("configmaps", "a"), {"metadata": {"deletionTimestamp": "2030-01-01T00:00:00Z"}})
    problem = 'metadata.deletionTimestamp: Invalid value: "2030-01-01T00:00:00Z": field is immutable'
    assert answer.refusal == (422, "Invalid", f'ConfigMap "a" is invalid: {problem}')


async def test_the_beginning_of_a_name_can_be_added_later(api: Talk) -> None:
    await api.create("configmaps", config("a"))
    answer = await api.put(api.at("configmaps", "a"), config("a", generateName="x-"))
    assert answer.metadata["generateName"] == "x-"


async def test_a_dry_run_changes_nothing(api: Talk) -> None:
    born = await api.create("configmaps", config("a"))
    answer = await api.put(api.at("configmaps", "a"), config("a", {"k": "v"}), dryRun="All")
    assert (answer.status, answer.body["data"]) == (200, {"k": "v"})
    assert (await api.get(api.at("configmaps", "a"))).body == born.body


# What counts as a wish


async def test_a_generation_counts_wishes_only(api: Talk) -> None:
    path = api.at("podcliques", "a")
    await api.create("podcliques", clique("a"))
    assert (await api.merge(path, {"metadata": {"labels": {"a": "b"}}})).metadata["generation"] == 1
    assert (await api.merge(f"{path}/status", {"status": {"replicas": 1}})).metadata["generation"] == 1
    assert (await api.merge(path, {"spec": {"replicas": 2}})).metadata["generation"] == 2
    assert (await api.merge(path, {"spec": {"replicas": 2}})).metadata["generation"] == 2
    assert (await api.merge(path, {"metadata": {"generation": 9}})).metadata["generation"] == 2


# Merge patches


async def test_a_merge_patch_merges_and_null_removes(api: Talk) -> None:
    await api.create("configmaps", config("a", {"k": "v", "l": "w"}, labels={"x": "1"}))
    answer = await api.merge(api.at("configmaps", "a"), {"data": {"k": None, "m": "n"}, "metadata": {"labels": None}})
    assert answer.body["data"] == {"l": "w", "m": "n"}
    assert "labels" not in answer.metadata


async def test_an_empty_patch_is_no_new_version(api: Talk) -> None:
    born = await api.create("configmaps", config("a"))
    assert (await api.merge(api.at("configmaps", "a"), {})).body == born.body


@pytest.mark.parametrize(("plural", "qualified"), [("configmaps", "configmaps"), ("podcliques", "podcliques.grove.io")])
async def test_a_patch_of_a_version_that_is_past_conflicts(api: Talk, plural: str, qualified: str) -> None:
    await api.create(plural, config("a") if plural == "configmaps" else clique("a"))
    answer = await api.merge(api.at(plural, "a"), {"metadata": {"resourceVersion": "1"}})
    assert answer.refusal == (409, "Conflict", f'Operation cannot be fulfilled on {qualified} "a": {MODIFIED}')


@pytest.mark.parametrize(("plural", "kind"), [("configmaps", "ConfigMap"), ("podcliques", "PodClique.grove.io")])
async def test_a_patch_of_another_object_of_that_name_is_invalid(api: Talk, plural: str, kind: str) -> None:
    await api.create(plural, config("a") if plural == "configmaps" else clique("a"))
    answer = await api.merge(api.at(plural, "a"), {"metadata": {"uid": "other"}})
    assert answer.refusal == (
        422, "Invalid", f'{kind} "a" is invalid: metadata.uid: Invalid value: "other": field is immutable'
    )  # fmt: skip
    # So our own client must know it when it sees it.
    assert ApiError(*answer.refusal).is_conflict


async def test_a_patch_of_the_status_of_another_pod_of_that_name_is_invalid(api: Talk) -> None:
    await api.create("pods", pod("a"))
    answer = await api.strategic(api.at("pods", "a", "status"), {"metadata": {"uid": "other"}, "status": {}})
    problem = 'metadata.uid: Invalid value: "other": field is immutable'
    assert answer.refusal == (422, "Invalid", f'Pod "a" is invalid: {problem}')


PATCHED_IDENTITIES: list[Any] = [
    ({"name": "b"}, "the name of the object (b) does not match the name on the URL (a)"),
    ({"name": None}, UNDETERMINABLE),
    ({"namespace": "other"}, OTHER_NAMESPACE),
]


@pytest.mark.parametrize(("metadata", "message"), PATCHED_IDENTITIES)
@pytest.mark.parametrize("plural", ["configmaps", "podcliques"])
async def test_a_patch_does_not_move_an_object(api: Talk, plural: str, metadata: Any, message: str) -> None:
    await api.create(plural, config("a") if plural == "configmaps" else clique("a"))
    answer = await api.merge(api.at(plural, "a"), {"metadata": metadata})
    assert answer.refusal == (400, "BadRequest", message)


async def test_metadata_cannot_be_patched_away(api: Talk) -> None:
    await api.create("podcliques", clique("a"))
    answer = await api.merge(api.at("podcliques", "a"), {"metadata": None})
    assert answer.refusal == (400, "BadRequest", UNDETERMINABLE)


BAD_RESULTS: list[Any] = [{"data": 5}, {"apiVersion": "v2"}, {"metadata": {"labels": {"a": 5}}}]


@pytest.mark.parametrize("patch", BAD_RESULTS)
async def test_a_patch_that_makes_an_unreadable_object_is_invalid(api: Talk, patch: Any) -> None:
    await api.create("configmaps", config("a", {"k": "v"}))
    answer = await api.merge(api.at("configmaps", "a"), patch)
    assert answer.refusal[:2] == (422, "Invalid")
    assert answer.refusal[2].startswith(' "" is invalid: patch: Invalid value: "{\\"')
    assert answer.details is not None
    assert list(answer.details) == ["causes"]
    assert [(cause["reason"], cause["field"]) for cause in answer.details["causes"]] == [("FieldValueInvalid", "patch")]


async def test_a_strict_client_is_told_of_unknown_fields_in_a_patch(api: Talk) -> None:
    await api.create("configmaps", config("a"))
    answer = await api.merge(api.at("configmaps", "a"), {"foo": 1, "metadata": {"bar": 2}}, fieldValidation="Strict")
    assert answer.refusal[:2] == (422, "Invalid")
    assert answer.refusal[2].endswith('strict decoding error: unknown field "foo", unknown field "metadata.bar"')


async def test_unknown_fields_in_a_patch_are_dropped_with_a_warning(api: Talk) -> None:
    await api.create("configmaps", config("a"))
    answer = await api.merge(api.at("configmaps", "a"), {"foo": 1, "metadata": {"bar": 2}})
    assert answer.warnings == ['299 - "unknown field \\"foo\\""', '299 - "unknown field \\"metadata.bar\\""']
    assert "foo" not in answer.body


@pytest.mark.parametrize("content_type", [MERGE_PATCH, JSON_PATCH])
async def test_a_patch_that_is_no_json_is_refused(api: Talk, content_type: str) -> None:
    await api.create("configmaps", config("a"))
    answer = await api.send("PATCH", api.at("configmaps", "a"), b"[{", content_type=content_type)
    assert answer.refusal == (400, "BadRequest", "invalid JSON patch")


@pytest.mark.parametrize(("body", "content_type"), [(b"[]", MERGE_PATCH), (b'"x"', MERGE_PATCH), (b"{}", JSON_PATCH)])
async def test_a_patch_of_another_shape_is_refused(api: Talk, body: bytes, content_type: str) -> None:
    await api.create("configmaps", config("a"))
    code, reason, message = (
        await api.send("PATCH", api.at("configmaps", "a"), body, content_type=content_type)
    ).refusal
    assert (code, reason) == (400, "BadRequest")
    assert message.startswith("error decoding patch: ")


@pytest.mark.parametrize("content_type", ["application/json", "text/plain"])
async def test_a_patch_of_no_known_type_is_refused(api: Talk, content_type: str) -> None:
    await api.create("configmaps", config("a"))
    answer = await api.send("PATCH", api.at("configmaps", "a"), b"{}", content_type=content_type)
    assert answer.refusal == (415, "UnsupportedMediaType", "415: Unsupported Media Type")
    assert answer.details == {}


@pytest.mark.parametrize("content_type", ["application/json", "application/strategic-merge-patch+json"])
async def test_a_custom_object_takes_no_strategic_patch(api: Talk, content_type: str) -> None:
    await api.create("podcliques", clique("a"))
    answer = await api.send("PATCH", api.at("podcliques", "a"), b"{}", content_type=content_type)
    assert answer.refusal == (
        415,
        "UnsupportedMediaType",
        (
            "the body of the request was in an unknown format - accepted media types include: "
            "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
        ),
    )


# JSON patches

Z = "/data/z"
OPERATIONS: list[Any] = [
    pytest.param([{"op": "add", "path": "/data/new", "value": "1"}], {"z": "1", "new": "1"}, id="add"),
    pytest.param([{"op": "replace", "path": Z, "value": "2"}], {"z": "2"}, id="replace"),
    pytest.param([{"op": "remove", "path": Z}, {"op": "add", "path": "/data/y", "value": ""}], {"y": ""}, id="remove"),
    pytest.param([{"op": "copy", "from": Z, "path": "/data/y"}], {"z": "1", "y": "1"}, id="copy"),
    pytest.param([{"op": "move", "from": Z, "path": "/data/y"}], {"y": "1"}, id="move"),
    pytest.param([{"op": "test", "path": Z, "value": "1"}, {"op": "add", "path": Z, "value": "3"}], {"z": "3"},
                 id="test"),
    pytest.param([], {"z": "1"}, id="nothing"),
    pytest.param([{"op": "replace", "path": "/data/new", "value": "1"}], {"z": "1", "new": "1"}, id="replace-missing"),
    pytest.param([{"op": "add", "path": "/data/new"}], {"z": "1", "new": ""}, id="add-no-value"),
    pytest.param([{"op": "copy", "from": "/data/no", "path": "/data/y"}], {"z": "1", "y": ""}, id="copy-missing"),
    pytest.param([{"op": "add", "path": "/data/a~1b", "value": "1"}, {"op": "move", "from": "/data/a~1b", "path": Z}],
                 {"z": "1"}, id="escaped"),
]  # fmt: skip


@pytest.mark.parametrize(("operations", "data"), OPERATIONS)
async def test_a_json_patch_is_a_list_of_operations(api: Talk, operations: Any, data: Any) -> None:
    await api.create("configmaps", config("a", {"z": "1"}))
    answer = await api.json_patch(api.at("configmaps", "a"), *operations)
    assert (answer.status, answer.body.get("data")) == (200, data)


MISFITS: list[Any] = [
    {"op": "test", "path": Z, "value": "2"},
    {"op": "test", "path": "/data/no", "value": "2"},
    {"op": "remove", "path": "/data/no"},
    {"op": "add", "path": "/no/where", "value": "1"},
    {"op": "replace", "path": "/metadata/annotations/no", "value": "1"},
    {"op": "zap", "path": Z, "value": "1"},
    {"op": "remove", "path": "data"},
    {"op": "move", "from": "/data/no", "path": "/data/y"},
]


@pytest.mark.parametrize("operation", MISFITS)
async def test_a_json_patch_that_does_not_fit_changes_nothing(api: Talk, operation: Any) -> None:
    born = await api.create("configmaps", config("a", {"z": "1"}))
    first = {"op": "add", "path": "/data/first", "value": "1"}
    answer = await api.json_patch(api.at("configmaps", "a"), first, operation)
    assert answer.refusal == REJECTED
    assert answer.details == {}
    assert (await api.get(api.at("configmaps", "a"))).body == born.body


async def test_a_json_patch_has_an_end(api: Talk) -> None:
    await api.create("configmaps", config("a", {"z": "1"}))
    operations = [{"op": "test", "path": Z, "value": "1"}] * 10_001
    answer = await api.json_patch(api.at("configmaps", "a"), *operations)
    problem = "The allowed maximum operations in a JSON patch is 10000, got 10001"
    assert answer.refusal == (413, "RequestEntityTooLarge", f"Request entity too large: {problem}")


# Strategic patches


def conditions_of(answer: Any) -> list[tuple[str, str]]:
    return [(condition["type"], condition["status"]) for condition in answer.body["status"]["conditions"]]


async def test_a_strategic_patch_merges_lists_by_key_and_puts_the_new_first(api: Talk) -> None:
    await api.create("pods", pod("a"))
    path = api.at("pods", "a", "status")
    for given, expected in (
        ([("Ready", "True")], [("Ready", "True")]),
        ([("A", "True"), ("Ready", "False")], [("A", "True"), ("Ready", "False")]),
        ([("Z", "True")], [("Z", "True"), ("A", "True"), ("Ready", "False")]),
        ([("Ready", "True"), ("B", "True")], [("Z", "True"), ("A", "True"), ("Ready", "True"), ("B", "True")]),
        ([("Ready", "False"), ("Z", "False")], [("A", "True"), ("Ready", "False"), ("Z", "False"), ("B", "True")]),
    ):
        conditions = [{"type": type_, "status": status} for type_, status in given]
        assert conditions_of(await api.strategic(path, {"status": {"conditions": conditions}})) == expected


async def test_a_strategic_patch_deletes_by_key(api: Talk) -> None:
    await api.create("pods", pod("a"))
    path = api.at("pods", "a", "status")
    two = [{"type": "A", "status": "True"}, {"type": "B", "status": "True"}]
    await api.strategic(path, {"status": {"conditions": two}})
    answer = await api.strategic(path, {"status": {"conditions": [{"type": "A", "$patch": "delete"}]}})
    assert conditions_of(answer) == [("B", "True")]


async def test_a_strategic_patch_replaces_when_asked(api: Talk) -> None:
    await api.create("pods", pod("a"))
    path = api.at("pods", "a", "status")
    await api.strategic(path, {"status": {"conditions": [{"type": "A", "status": "True"}]}})
    patch = {"status": {"conditions": [{"$patch": "replace"}, {"type": "B", "status": "True"}]}}
    assert conditions_of(await api.strategic(path, patch)) == [("B", "True")]


async def test_a_strategic_patch_keeps_to_the_order_it_names(api: Talk) -> None:
    await api.create("configmaps", config("a", finalizers=["x.io/a", "x.io/b"]))
    path = api.at("configmaps", "a")
    added = await api.strategic(path, {"metadata": {"finalizers": ["x.io/c"]}})
    assert added.metadata["finalizers"] == ["x.io/c", "x.io/a", "x.io/b"]
    order = {"$setElementOrder/finalizers": ["x.io/a", "x.io/d", "x.io/c", "x.io/b"], "finalizers": ["x.io/d"]}
    ordered = await api.strategic(path, {"metadata": order})
    assert ordered.metadata["finalizers"] == ["x.io/a", "x.io/d", "x.io/c", "x.io/b"]


async def test_a_strategic_patch_deletes_values(api: Talk) -> None:
    await api.create("configmaps", config("a", finalizers=["x.io/a", "x.io/b"]))
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x.io/a"]}}
    assert (await api.strategic(api.at("configmaps", "a"), patch)).metadata["finalizers"] == ["x.io/b"]


async def test_of_a_strategic_patch_an_item_without_its_key_is_refused(api: Talk) -> None:
    await api.create("pods", pod("a"))
    path = api.at("pods", "a", "status")
    await api.strategic(path, {"status": {"conditions": [{"type": "A", "status": "True"}]}})
    answer = await api.strategic(path, {"status": {"conditions": [{"status": "True"}]}})
    assert answer.refusal[:2] == (500, "")
    assert answer.refusal[2].endswith("does not contain declared merge key: type")
